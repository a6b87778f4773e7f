"""Redaction: nothing that names a machine survives, and what is judged stays as it was."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from building import was_read
from nodes_synthetic import CX7, vpd
from paths import RECORDINGS

from gpuscan import collectors, profile
from gpuscan.engine.case import Case
from gpuscan.engine.stages import judge
from gpuscan.engine.suite import load as load_checks
from gpuscan.files import bundled
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording, dump, load, patch
from gpuscan.recording.redacted_forms import pseudonym
from gpuscan.recording.redaction import NAMING, redact

MACHINE_ID = "0123456789abcdef0123456789abcdef"
BOOT_ID = "11111111-2222-4333-8444-555555555555"
UUID = "6d4d0f3e-1a2b-4c3d-8e9f-0a1b2c3d4e5f"
SERIAL = "1654000000042"
HOST = "gpu-node-17.corp.example"
LOG = [
    "6,0,282658,-;Linux version 6.8 (builder@host-9) hostname gpu-node-17",
    f"4,1,300000,-;NVRM: GPU at 0000:1b:00: GPU-{UUID}, serial {SERIAL}",
    f"4,2,400000,-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus. {UUID.upper()}",
    (
        "6,3,500000,-;eth0: 3c:ec:ef:12:34:56 at 10.20.30.40, ib0:"
        " 00:00:10:29:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:aa:bb:cc"
    ),
    "6,4,600000,-;mlx5 guid b8ce:f603:00aa:bbcc, fe80::baf6:3ff:feaa:1, 2001:db8:1:2:3:4:5:6",
    f"6,5,700000,-;machine {MACHINE_ID}, boot {BOOT_ID.replace('-', '')}, GPU-NODE-17 up",
    (
        "6,6,800000,-;driver 13.580.159.04, VBIOS 96.00.A5.00.1A, firmware 28.39.1002, kernel"
        " 5.15.0-112, took 12:34:56"
    ),
]
SECRETS = [
    MACHINE_ID, BOOT_ID, BOOT_ID.replace("-", ""), UUID, SERIAL, HOST, "gpu-node-17", "corp.example", "builder", "host-9",
    "3c:ec:ef:12:34:56", "10.20.30.40", "b8:ce:f6:03:00:aa:bb:cc", "b8ce:f603:00aa:bbcc", "baf6:3ff:feaa", "2001:db8", "PSERIAL77",
]  # fmt: skip


def readings() -> list[Reading]:
    said: dict[str, Any] = {
        "file:/proc/sys/kernel/hostname": f"{HOST}\n",
        "file:/etc/machine-id": f"{MACHINE_ID}\n",
        "file:/proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n",
        "file:/sys/class/dmi/id/product_serial": "PSERIAL77\n",
        "file:/sys/class/dmi/id/board_serial": "None\n",
        "file:/sys/class/dmi/id/chassis_serial": "0\n",
        "nvml:nvmlDeviceGetSerial(0000:1b:00.0)": SERIAL,
        "nvml:nvmlDeviceGetUUID(0000:1b:00.0)": f"GPU-{UUID}",
        "nvml:nvmlDeviceGetName(0000:1b:00.0)": "NVIDIA H200",
        "nvml:nvmlDeviceGetMemoryInfo(0000:1b:00.0)": {
            "total": 150754820096,
            "free": 16540000000421,
        },
        "nvml:nvmlDeviceGetPdi(0000:1b:00.0)": 9876543210123,
        "dir:/dev/disk": ["nvme-PSERIAL77", f"wwn-{SERIAL}-part1"],
        "kmsg:/dev/kmsg": LOG,
    }
    rows = [Reading(key, value, None, 1654000000042.0, 16.0) for key, value in said.items()]
    return [
        *rows,
        Reading(
            "file:/gone", None, Unread("file:/gone", "not-found", f"no file on {HOST}", 2), 5.0
        ),
    ]


def original(**meta: Any) -> Recording:
    return Recording(
        {"gpuscan_version": "1", "made_at": 1654000000042.0, **meta}, ["*"], readings()
    )


def test_no_original_name_survives_anywhere() -> None:
    text = json.dumps(dump(redact(original(about=f"taken on {HOST}"))))
    text = text.replace("1654000000042.0", "").replace(
        "16540000000421", ""
    )  # a time and a number of bytes stay
    found = [secret for secret in SECRETS if secret.lower() in text.lower()]
    assert found == []


def test_what_names_nobody_stays() -> None:
    before, after = original(), redact(original())
    for call in ("nvml:nvmlDeviceGetName", "nvml:nvmlDeviceGetMemoryInfo"):
        assert after.get(f"{call}(0000:1b:00.0)") == before.get(f"{call}(0000:1b:00.0)")
    assert after.get("file:/sys/class/dmi/id/board_serial") == "None\n"
    log = after.get("kmsg:/dev/kmsg")
    assert log[-1] == LOG[-1], "versions and times look like addresses and are none"
    assert log[2].startswith(
        "4,2,400000,-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus. "
    )
    assert [line.split(";")[0] for line in log] == [line.split(";")[0] for line in LOG]
    assert list(after.keys()) == list(before.keys())
    assert after.meta == before.meta._replace(redacted=True)
    assert after.scope == before.scope


def test_times_and_codes_stay_even_where_a_serial_matches() -> None:
    for one, other in zip(original(), redact(original()), strict=True):
        assert (one.at_s, one.ms, one.phase) == (other.at_s, other.ms, other.phase)
    error = redact(original()).all("file:/gone")[0].error
    assert error is not None
    assert (error.kind, error.code) == ("not-found", 2)
    assert error.text.startswith("no file on ")


def test_equal_names_have_equal_pseudonyms_wherever_they_are() -> None:
    after = redact(original())
    serial = after.get("nvml:nvmlDeviceGetSerial(0000:1b:00.0)")
    uuid = after.get("nvml:nvmlDeviceGetUUID(0000:1b:00.0)")
    log = after.get("kmsg:/dev/kmsg")
    assert f"{uuid}, serial {serial}" in log[1]
    assert log[2].lower().endswith(uuid[4:])
    assert after.get("dir:/dev/disk")[1] == f"wwn-{serial}-part1"
    assert (
        after.get("dir:/dev/disk")[0]
        == f"nvme-{after.get('file:/sys/class/dmi/id/product_serial').strip()}"
    )


def test_shapes_are_kept() -> None:
    after = redact(original())
    assert re.fullmatch(r"\d{13}", after.get("nvml:nvmlDeviceGetSerial(0000:1b:00.0)"))
    assert re.fullmatch(
        r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        after.get("nvml:nvmlDeviceGetUUID(0000:1b:00.0)"),
    )
    assert re.fullmatch(r"[0-9a-f]{32}\n", after.get("file:/etc/machine-id"))
    assert re.fullmatch(
        r"[a-z]{3}-[a-z]{4}-\d\d\.[a-z]{4}\.[a-z]{7}\n", after.get("file:/proc/sys/kernel/hostname")
    )
    assert re.fullmatch(r"\d\n", after.get("file:/sys/class/dmi/id/chassis_serial"))
    assert isinstance(after.get("nvml:nvmlDeviceGetPdi(0000:1b:00.0)"), int)
    assert after.get("nvml:nvmlDeviceGetPdi(0000:1b:00.0)") != 9876543210123
    assert re.search(
        r"eth0: ([0-9a-f]{2}:){5}[0-9a-f]{2} at \d+\.\d+\.\d+\.\d+, ",
        after.get("kmsg:/dev/kmsg")[3],
    )


def test_pseudonyms_are_stable_for_one_machine() -> None:
    one, again = redact(original()), redact(original())
    assert dump(one) == dump(again)
    other = original()
    other.add(Reading("file:/etc/machine-id", "f" * 32))
    key = "nvml:nvmlDeviceGetSerial(0000:1b:00.0)"
    assert redact(other).get(key) != one.get(key)


def test_without_a_machine_id_pseudonyms_are_random() -> None:
    rows = [row for row in readings() if "machine-id" not in row.key]
    key = "nvml:nvmlDeviceGetSerial(0000:1b:00.0)"
    assert len({redact(Recording({}, ["*"], rows)).get(key) for _ in range(3)}) == 3


def test_a_short_serial_is_replaced_in_its_own_reading_only() -> None:
    rows = [
        Reading("file:/etc/machine-id", MACHINE_ID),
        Reading("file:/proc/sys/kernel/hostname", "n1\n"),
        Reading("nvml:nvmlDeviceGetSerial(a)", "1234"),
        Reading("nvml:nvmlDeviceGetPower(a)", 51234),
        Reading("dir:/x", "n1 12345 x1234 1234"),
    ]
    after = redact(Recording({}, ["*"], rows))
    assert after.get("nvml:nvmlDeviceGetPower(a)") == 51234
    assert after.get("file:/proc/sys/kernel/hostname") != "n1\n"
    stand_in = after.get("nvml:nvmlDeviceGetSerial(a)")
    assert stand_in != "1234"
    assert after.get("dir:/x") == f"n1 12345 x1234 {stand_in}"


@pytest.mark.parametrize("word", ["None", "Not Specified", "Default string", "localhost", " ", ""])
def test_words_that_name_nobody_stay(word: str) -> None:
    rows = [
        Reading("file:/sys/class/dmi/id/product_serial", word),
        Reading("file:/x", f"a {word} b"),
    ]
    after = redact(Recording({}, ["*"], rows))
    assert (after.get("file:/sys/class/dmi/id/product_serial"), after.get("file:/x")) == (
        word,
        f"a {word} b",
    )


def test_odd_bytes_and_odd_types_pass_through() -> None:
    rows = [
        Reading("file:/proc/sys/kernel/hostname", "nod\udcffe1"),
        Reading("file:/x", "at nod\udcffe1"),
        Reading("y", [None, True, 1.5]),
    ]
    after = redact(Recording({}, ["*"], rows))
    assert "nod\udcffe1" not in after.get("file:/x")
    assert after.get("file:/x").startswith("at ")
    assert after.get("y") == [None, True, 1.5]


@pytest.mark.parametrize(
    "name", ["h200-1x.json.gz", "h100-8x-ib.json.gz", "h200-4x-app-xids.json.gz"]
)
def test_a_redacted_recording_is_judged_alike(name: str) -> None:
    before = load(str(RECORDINGS / name))
    after = redact(before)
    reports = []
    for one in (before, after):
        node = collectors.node(one)
        case = Case(node, profile.load("h200-4x"), load_checks([bundled("checks")]))
        reports.append([(r.check, r.subject, r.status, r.reason) for r in judge(case).results])
    assert reports[0] == reports[1]
    named = [
        r for r in before if r.error is None and r.key.startswith(NAMING) and str(r.value).strip()
    ]
    text = json.dumps(dump(after))
    assert [r.key for r in named if json.dumps(str(r.value).strip()) in text] == []


def test_pseudonyms_are_as_long_as_names_of_any_length() -> None:
    name = "ab-1" * 100
    assert len(pseudonym(name, b"k")) == 400
    assert re.fullmatch(r"([a-f]{2}-\d){100}", pseudonym(name, b"k"))
    assert pseudonym("Host", b"k").lower() == pseudonym("hOST", b"k").lower()


GUID, HCA_SERIAL, DEAD, NVME = (
    "b8ce:f603:00aa:bbcc",
    "MT2333ZT00042",
    "1650522003756",
    "23214AB77777",
)
PARTS = {
    "dir:/sys/class/infiniband": ["mlx5_0"],
    "dir:/sys/class/infiniband/mlx5_0/ports": ["1"],
    "link:/sys/class/infiniband/mlx5_0/device": "../../../0000:18:00.0",
    "file:/sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
    "file:/sys/class/infiniband/mlx5_0/node_guid": "0000:0000:0000:0001\n",
    "file:/sys/class/infiniband/mlx5_0/ports/1/gids/0": f"fe80:0000:0000:0000:{GUID}\n",
    "file:/sys/bus/pci/devices/0000:18:00.0/vpd": vpd(CX7, HCA_SERIAL) + "\x91\x08\x00YA\x05owner",
    "run:ibnetdiscover -p": f"CA  4  1 0x{GUID.replace(':', '')} 4x NDR - SW  2 17 0xb83fd20300cd0001"
    " ( 'gpu-node-17 mlx5_0' - 'leaf-of-corp' )\n"
    "SW  2 21 0xb83fd20300cd0001 4x ???       'leaf-of-corp'\n",
    "run:lldpcli -f json0 show neighbors": json.dumps(
        {"lldp": [{"interface": [{"name": "eth2", "chassis": [{"id": [{"type": "mac", "value": "0c:42:a1:00:00:01"}],
         "name": [{"value": "tor-of-corp"}], "descr": [{"value": "SONiC at corp"}]}],
         "port": [{"id": [{"type": "ifname", "value": "Ethernet17"}], "descr": [{"value": "to gpu-node-17"}]}]}]}]}
    ),
    "dir:/sys/class/nvme": ["nvme0"],
    "file:/sys/class/nvme/nvme0/serial": f"{NVME}   \n",
    "file:/sys/class/nvme/nvme0/model": "Micron_7450\n",
    "file:/x": f"nic {HCA_SERIAL}, disk nvme-{NVME}",
    "kmsg:/dev/kmsg": [
        "6,0,0,-;boot",
        f"4,1,9,-;NVRM: GPU Board Serial Number: {DEAD}",
        f"4,2,10,-;NVRM: GPU 0000:1b:00.0: GPU serial number is {DEAD}.",
    ],
}  # fmt: skip


def with_parts() -> Recording:
    rows = [*readings()[:3], *(Reading(key, value) for key, value in PARTS.items())]
    return Recording({"cables": True}, ["*"], rows)


def test_no_name_of_a_part_survives() -> None:
    text = json.dumps(dump(redact(with_parts()))).lower()
    plain = GUID.replace(":", "")
    names = [
        GUID,
        plain,
        HCA_SERIAL,
        DEAD,
        NVME,
        "cd0001",
        "corp",
        "owner",
        "gpu-node-17",
        "0c:42:a1",
        HCA_SERIAL[:8],
    ]
    assert [name for name in names if name.lower() in text] == []


def test_no_part_survives_that_only_the_archive_knows() -> None:
    """A GPU that was replaced, and the boots of that time; the reason of a hold names it, too."""
    gone, boot = "1650000000321", "0f5c2f6e-1111-4222-8333-abcdefabcdef"
    reason = {"serial": gone, "boot_id": boot, "message": f"held: another GPU, serial {gone}"}
    past = {"history:hold": [reason], "history:parts": [{"serial": gone, "slot": "SXM1"}]}
    text = json.dumps(dump(redact(patch(load(str(RECORDINGS / "h100-2x.json.gz")), past))))
    assert gone not in text
    assert boot not in text
    assert text.count("SXM1") > 0


def test_redacted_parts_are_still_parts() -> None:
    """The VPD is one, the sweep finds the port by its GUID, models and ports of switches stay."""
    before, after = collectors.node(with_parts()), collectors.node(redact(with_parts()))
    (port,), (was,) = was_read(after.ports), was_read(before.ports)
    assert was.far_end == "SW leaf-of-corp (0xb83fd20300cd0001) port 17"
    assert re.fullmatch(
        r"SW [a-z]{4}-[a-z]{2}-[a-z]{4} \(0x[0-9a-f]{16}\) port 17", was_read(port.far_end)
    )
    assert port.hca_part_number == was.hca_part_number == "MCX75310AAS-NEAT"
    assert re.fullmatch(r"[A-Z]{2}\d{4}[A-Z]{2}\d{5}", was_read(port.hca_serial))
    told = redact(with_parts()).get("file:/x")
    assert told == f"nic {port.hca_serial}, disk nvme-{was_read(after.disks)[0].serial}"
    assert was_read(after.disks)[0].model == "Micron_7450"
    lldp = json.loads(redact(with_parts()).get("run:lldpcli -f json0 show neighbors"))["lldp"][0][
        "interface"
    ][0]
    assert (lldp["name"], lldp["port"][0]["id"][0]["value"]) == ("eth2", "Ethernet17")
    log = redact(with_parts()).get("kmsg:/dev/kmsg")
    assert re.fullmatch(r".*: \d{13}", log[1])


@pytest.mark.parametrize(
    "key", [key for key in PARTS if key.endswith("/vpd") or key.startswith("run:")]
)
def test_what_was_garbled_is_replaced_whole(key: str) -> None:
    after = redact(Recording({}, ["*"], [Reading(key, "Sn MT77 'x' \udcff 0xcorp")]))
    assert "MT77" not in after.get(key)
    strange = redact(Recording({}, ["*"], [Reading(key, ["a", 7, None])]))
    assert strange.get(key) == ["a", 7, None]


def test_what_lspci_prints_of_a_device_keeps_no_serial_number() -> None:
    key, line = (
        "run:lspci -vvvs 0000:19:00.0",
        "\t\t[SN] Serial number: MT2401X00042\n\tDevice Serial Number 9c-63-c0-ff-ff-12-34-56\n",
    )
    hidden = redact(Recording({}, ["*"], [Reading(key, line)])).get(key)
    assert "MT2401X00042" not in hidden
    assert "12-34-56" not in hidden
    assert "[SN] Serial number: " in hidden
