"""What identifies parts: VPD of network adapters, far ends of cables, disks, and what the log
still tells of a dead GPU.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from building import was_read
from machine import Machine
from nodes_recordings import base, judged, not_passed
from nodes_synthetic import CX7, GPUS, vpd

from gpuscan import collectors
from gpuscan.live.limits import Limits
from gpuscan.model import Port, is_unread
from gpuscan.recording import Recording, load, patch

EIGHT = base("h100-8x-ib")
IB = "/sys/class/infiniband"
VPD = "file:/sys/bus/pci/devices/0000:18:00.0/vpd"
SWEEP = "run:ibnetdiscover -p"
NEIGHBOURS = "run:lldpcli -f json0 show neighbors"
ABSENT = {"error": ["not-found", "No such file or directory", 2]}


def first_port(changes: dict[str, Any]) -> Port:
    return was_read(collectors.node(patch(EIGHT, changes)).ports)[0]


def kind(fact: Any) -> str:
    """The kind of lack; empty where the fact was read."""
    return str(fact.kind) if is_unread(fact) else ""


def test_an_adapter_tells_what_it_is() -> None:
    port = was_read(collectors.node(EIGHT).ports)[0]
    assert (port.hca_type, port.board_id, port.node_guid) == (
        "MT4129",
        "ZZT0000000001",
        "0c42:a103:00ab:0000",
    )
    assert (port.hca_serial, port.hca_part_number) == ("MT2333ZT00000", "MCX75310AAS-NEAT")
    assert (port.netdev, port.mtu) == ("ibp0s0", 4092)


def test_ethernet_ports_are_known_and_not_judged() -> None:
    (port,) = was_read(collectors.node(EIGHT).ethernet_ports)
    assert (port.label, port.hca_part_number, port.mtu) == (
        "mlx5_bond_0/1",
        "900-9D3B6-00CV-AA0",
        9000,
    )
    down = {f"file:{IB}/mlx5_bond_0/ports/1/state": "1: DOWN\n"}
    assert not_passed(judged(patch(EIGHT, down))) == not_passed(judged(EIGHT))


def raw(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


GARBLED_VPD = {
    "empty": "",
    "ones": raw(b"\xff" * 256),
    "text": "no VPD at all",
    "a list": [1, 2],
    "name only": raw(b"\x82\x03\x00abc\x78"),
    "field too long": raw(b"\x90\x05\x00SN\xff12\x78"),
    "no keyword": raw(b"\x90\x05\x00\x00\x00\x0212\x78"),
    "cut within": vpd(CX7, "MT1")[:10],
    "no text": raw(b"\x90\x0a\x00SN\x02\xfe\xffPN\x02\xfe\xff\x78"),
    "blank": raw(b"\x90\x0a\x00SN\x02  PN\x02  \x78"),
    "control": raw(b"\x90\x0a\x00SN\x02a\x01PN\x02a\x01\x78"),
}


@pytest.mark.parametrize("name", GARBLED_VPD)
def test_a_vpd_that_makes_no_sense_is_unread(name: str) -> None:
    port = first_port({VPD: GARBLED_VPD[name]})
    assert (kind(port.hca_serial), kind(port.hca_part_number)) == ("garbled", "garbled")


def test_a_vpd_without_these_fields_has_none() -> None:
    port = first_port({VPD: raw(b"\x82\x01\x00x\x90\x05\x00EC\x02A5\x78")})
    assert (kind(port.hca_serial), kind(port.hca_part_number)) == ("not-found", "not-found")


def test_a_vpd_s_bytes_and_blanks_do_no_harm() -> None:
    """Bytes that are no UTF-8 stand before, the value is filled up with blanks and zeros, the end
    is cut off.
    """
    port = first_port(
        {
            VPD: raw(
                b"\x82\x02\x00\xc3\xff\x90\x2a\x00V0\x03\xe2\x82\xacPN\x06MCX7  SN\x06MT1\0\0"
                b" RW\x0fcut"
            )
        }
    )
    assert (port.hca_serial, port.hca_part_number) == ("MT1", "MCX7")


def test_without_root_nothing_else_is_missing() -> None:
    recording = patch(EIGHT, {"*/vpd": {"error": ["no-permission", "Permission denied", 13]}})
    assert kind(was_read(collectors.node(recording).ports)[0].hca_serial) == "no-permission"
    assert judged(recording).exit_code == 0


LATE = (
    "*/vpd",
    "*/node_guid",
    "*/device/net",
    "*/class/net/*",
    "*/class/nvme*",
    "*/dmi/id/board_serial",
)


@pytest.mark.parametrize(
    "error", ["no-permission", "timed-out", "garbled", "not-found", "blocked-behind"]
)
def test_no_check_rests_on_who_a_part_is(error: str) -> None:
    report = judged(patch(EIGHT, {glob: {"error": [error, "planted"]} for glob in LATE}))
    assert not_passed(report) == not_passed(judged(EIGHT))


@pytest.mark.parametrize("listed", [[], ABSENT])
def test_a_port_without_a_network_interface(listed: Any) -> None:
    port = first_port({f"dir:{IB}/mlx5_0/device/net": listed})
    assert (kind(port.netdev), kind(port.mtu)) == ("not-found", "not-found")


@pytest.mark.parametrize("guid", ["0000:0000:0000:0000\n", "x\n", ""])
def test_a_guid_of_zeros_is_none(guid: str) -> None:
    assert kind(first_port({f"file:{IB}/mlx5_0/node_guid": guid}).node_guid) == "garbled"


# Far ends. The lines are shaped as ibnetdiscover of infiniband-diags prints them, the JSON as
# lldpcli's json0.
FABRIC = """\
CA    44  1 0x0c42a10300ab0000 4x NDR - SW     2 17 0xb83fd20300cd0001 ( 'gpu-042 mlx5_0' - 'MF0;leaf-1:MQM9700/U1' )
CA    45  1 0x0c42a10300ff0001 4x NDR - SW     2 18 0xb83fd20300cd0001 ( 'gpu-042 mlx5_1' - 'MF0;leaf-1:MQM9700/U1' )
CA    46  1 0x0c42a10300ab0002 4x SDR                                    'gpu-042 mlx5_2'
CA    47  2 0x0c42a10300ab0003 4x NDR - SW     2 20 0xb83fd20300cd0001 ( 'gpu-042 mlx5_3' - 'MF0;leaf-1:MQM9700/U1' )
CA    48  1 0x0c42a10300ab0004 4x NDR - CA    60  1 0x0c42a10300bb0007 ( 'gpu-042 mlx5_4' - 'gpu-043 it's me' )
SW     2 17 0xb83fd20300cd0001 4x NDR - CA    44  1 0x0c42a10300ab0000 ( 'MF0;leaf-1:MQM9700/U1' - 'gpu-042 mlx5_0' )
SW     2 21 0xb83fd20300cd0001 4x ???                                    'MF0;leaf-1:MQM9700/U1'
"""


def heard(name: str, port: str = "Ethernet17", via: str = "LLDP") -> dict[str, Any]:
    chassis = {"id": [{"type": "mac", "value": "0c:42:a1:00:00:01"}], "name": [{"value": "tor-7"}]}
    told = {
        "id": [{"type": "ifname", "value": port}],
        "descr": [{"value": "to gpu-042"}],
        "ttl": [{"value": "120"}],
    }
    return {
        "name": name,
        "via": via,
        "rid": "1",
        "age": "0 day, 22:05:38",
        "chassis": [chassis],
        "port": [told],
    }


def cabled(changes: dict[str, Any], **answers: Any) -> Recording:
    """The node, recorded with its cables."""
    gids = {
        f"file:{IB}/mlx5_{n}/ports/1/gids/0": f"fe80:0000:0000:0000:0c42:a103:00ff:{n:04x}\n"
        for n in range(8)
    }
    said = {
        SWEEP: FABRIC,
        NEIGHBOURS: json.dumps({"lldp": [{"interface": [heard("eno1", "1"), heard("eth2")]}]}),
    }
    made = patch(EIGHT, {**gids, **said, **changes})
    return Recording(made.meta._replace(cables=True), made.scope, list(made))


def ends(recording: Recording) -> dict[str, Any]:
    node = collectors.node(recording)
    return {
        port.hca: port.far_end for port in (*was_read(node.ports), *was_read(node.ethernet_ports))
    }


def test_the_far_end_of_each_port() -> None:
    """By the node's GUID or the port's, and the port's number; a port without a link has none."""
    found = ends(cabled({}))
    assert found["mlx5_0"] == "SW MF0;leaf-1:MQM9700/U1 (0xb83fd20300cd0001) port 17"
    assert found["mlx5_1"] == "SW MF0;leaf-1:MQM9700/U1 (0xb83fd20300cd0001) port 18"
    assert found["mlx5_4"] == "CA gpu-043 it's me (0x0c42a10300bb0007) port 1"
    assert found["mlx5_bond_0"] == "tor-7 port Ethernet17"
    assert {kind(found[f"mlx5_{n}"]) for n in (2, 3, 5)} == {"not-found"}


def test_cables_that_were_not_asked_for_are_not_recorded() -> None:
    assert {kind(end) for end in ends(EIGHT).values()} == {"not-recorded"}


@pytest.mark.parametrize(
    ("error", "told"), [("not-found", "not-recorded"), ("no-permission", "no-permission")]
)
def test_a_tool_that_is_not_installed_was_never_meant_to_be_asked(error: str, told: str) -> None:
    found = ends(cabled({SWEEP: {"error": [error, "?"]}, NEIGHBOURS: {"error": [error, "?"]}}))
    assert {kind(end) for end in found.values()} == {told}
    assert judged(cabled({SWEEP: {"error": [error, "?"]}})).exit_code == 0


@pytest.mark.parametrize(
    "said", ["", [], "[]", "{}", '{"lldp": [{"interface": [{"name": "eth2"}]}]}', '{"lldp": 7}']
)
def test_answers_that_make_no_sense_are_unread(said: Any) -> None:
    assert kind(ends(cabled({NEIGHBOURS: said}))["mlx5_bond_0"]) == "garbled"


def test_what_others_announce_is_no_far_end() -> None:
    said = json.dumps({"lldp": [{"interface": [heard("eth2", via="CDPv2"), heard("eth3")]}, {}]})
    assert kind(ends(cabled({NEIGHBOURS: said}))["mlx5_bond_0"]) == "not-found"


def rounds(meta: dict[str, Any]) -> list[list[str]]:
    """What a scan of the node asks, round by round."""
    known, asked = Recording(meta, ["*"]), []
    while wanted := [key for key in collectors.plan(known) if key not in known]:
        asked.append(wanted)
        for key in wanted:
            for reading in EIGHT.all(key) or patch(Recording({}, []), {key: ABSENT}):
                known.add(reading)
    return asked


def test_the_sweeps_come_last_and_only_where_asked_for() -> None:
    assert rounds({"cables": True})[-1][-2:] == [SWEEP, NEIGHBOURS]
    everything = [key for keys in rounds({}) for key in keys]
    assert not [key for key in everything if key in (SWEEP, NEIGHBOURS) or "/gids/" in key]
    assert len(everything) == len(set(everything))


def test_all_that_is_planned_lies_within_the_scope() -> None:
    for cables in (False, True):
        within = Recording({}, collectors.scope(cables=cables))
        assert [
            key for keys in rounds({"cables": cables}) for key in keys if not within.covers(key)
        ] == []
        assert within.covers(SWEEP) is cables


def test_collect_reads_the_cables_and_run_does_not(eight: Machine) -> None:
    seen = []
    for words in (
        ("collect", str(eight.file)),
        ("collect", "--no-cables", str(eight.file)),
        eight.scan(),
    ):
        assert eight.plain(*words).code == 0
        seen.append((load(str(eight.file)).meta.cables, SWEEP in load(str(eight.file))))
    assert seen == [(True, True), (None, False), (None, False)]


def test_a_sweep_may_take_longer_than_a_file() -> None:
    limits = Limits()
    assert (
        limits.of(SWEEP)
        == limits.of(NEIGHBOURS)
        == limits.sweep_s
        > limits.of("run:dmesg")
        == limits.of(f"file:{IB}")
    )


# Disks.


def test_disks() -> None:
    disks = collectors.node(EIGHT).disks
    assert len(was_read(disks)) == 8
    assert was_read(disks)[0]._asdict() == {
        "label": "nvme0",
        "address": "0000:19:00.0",
        "model": "Micron_7450_MTFDKCC3T8TFR",
        "serial": "23214ZT00000",
        "firmware": "E2MU200",
    }


def test_a_machine_without_disks_and_one_that_hides_them() -> None:
    assert collectors.node(patch(EIGHT, {"dir:/sys/class/nvme": ABSENT})).disks == ()
    hidden: Any = collectors.node(
        patch(EIGHT, {"dir:/sys/class/nvme": {"error": ["no-permission", "?"]}})
    ).disks
    assert kind(hidden) == "no-permission"
    one = was_read(
        collectors.node(patch(EIGHT, {"file:/sys/class/nvme/nvme3/serial": "\n"})).disks
    )[3]
    assert (kind(one.serial), one.model) == ("garbled", "Micron_7450_MTFDKCC3T8TFR")


# What the log tells of a GPU.
UUID = "GPU-00000003-0100-4000-8000-000000000103"
LOST, OTHER = GPUS[3], GPUS[5]


def at(gpu: str, uuid: str = UUID) -> str:
    return f"NVRM: GPU at PCI:{gpu[:-2]}: {uuid}"


def xid(gpu: str) -> str:
    return f"NVRM: Xid (PCI:{gpu[:-2]}): 79, GPU has fallen off the bus."


SERIAL = "NVRM: GPU Board Serial Number: 1650522003756"


def logged(*lines: str, step_us: int = 10) -> dict[str, tuple[str, str]]:
    """What the log tells of the GPUs: {address: (serial, UUID)}, a lack as its kind."""
    log = [
        *EIGHT.get("kmsg:/dev/kmsg"),
        *(f"4,{100 + n},{900_000_000 + n * step_us},-;{line}" for n, line in enumerate(lines)),
    ]
    gpus = collectors.node(patch(EIGHT, {"kmsg:/dev/kmsg": log})).gpus
    told: dict[str, Any] = {
        gpu.address: (
            kind(gpu.logged_serial) or gpu.logged_serial,
            kind(gpu.logged_uuid) or gpu.logged_uuid,
        )
        for gpu in was_read(gpus)
    }
    return {
        address: words for address, words in told.items() if words != ("not-found", "not-found")
    }


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((at(LOST), SERIAL, xid(LOST)), {LOST: ("1650522003756", UUID)}),
        (
            (at(LOST), "pcieport 0000:18:03.0: pciehp: Slot(3): Link Down", SERIAL),
            {LOST: ("1650522003756", UUID)},
        ),
        ((SERIAL, xid(LOST)), {LOST: ("1650522003756", "not-found")}),
        (
            (f"NVRM: GPU {LOST}: GPU serial number is 1650522003756.",),
            {LOST: ("1650522003756", "not-found")},
        ),
        ((at(LOST), xid(LOST)), {LOST: ("not-found", UUID)}),
        ((at(LOST), xid(LOST), SERIAL), {LOST: ("not-found", UUID)}),
        ((at(LOST), "NVRM: GPU Board Serial Number: ", xid(LOST)), {LOST: ("not-found", UUID)}),
        (
            (at(LOST), "NVRM: GPU Board Serial Number: [N/A]", xid(LOST)),
            {LOST: ("not-found", UUID)},
        ),
        (
            (at(LOST), at(OTHER, UUID), SERIAL, xid(LOST)),
            {LOST: ("not-found", UUID), OTHER: ("not-found", UUID)},
        ),
        ((SERIAL,), {}),
        ((SERIAL, at(LOST), xid(LOST)), {LOST: ("not-found", UUID)}),
    ],
)
def test_a_gpu_named_in_the_log(lines: tuple[str, ...], found: dict[str, tuple[str, str]]) -> None:
    """A serial number is told of the GPU named beside it; where two mingle it is nobody's."""
    assert logged(*lines) == found


def test_lines_that_are_far_apart_are_two_events() -> None:
    assert logged(at(LOST), SERIAL, step_us=1_000_001) == {LOST: ("not-found", UUID)}
    assert logged(SERIAL, xid(LOST), step_us=1_000_001) == {}


def test_a_log_that_was_not_read_tells_why() -> None:
    denied = {"error": ["no-permission", "Operation not permitted", 1]}
    gpu, *_ = was_read(
        collectors.node(patch(EIGHT, {"kmsg:/dev/kmsg": denied, "run:*": denied})).gpus
    )
    assert (kind(gpu.logged_serial), kind(gpu.logged_uuid)) == ("no-permission", "no-permission")


def test_the_report_names_a_dead_gpu_s_serial() -> None:
    dead = patch(
        EIGHT, {f"nvml:*({LOST}*": {"error": ["lost", "GPU is lost", 15]}}, [at(LOST), xid(LOST)]
    )
    for lines, told in ((SERIAL, ("1650522003756", "kernel log")), ("NVRM: nothing", (None, None))):
        log = [
            *EIGHT.get("kmsg:/dev/kmsg"),
            *(
                f"4,{100 + n},900000000,-;{line}"
                for n, line in enumerate((at(LOST), lines, xid(LOST)))
            ),
        ]
        report = judged(patch(dead, {"kmsg:/dev/kmsg": log}))
        parts = {part.address: part for part in report.parts if part.kind == "gpu"}
        assert (parts[LOST].serial, parts[LOST].serial_source) == told
        assert (parts[OTHER].serial, parts[OTHER].serial_source) == ("1654000000105", None)
