"""`gpuscan profile capture`: what is written from good nodes is a valid profile that they pass,
and faults do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from nodes_recordings import base, checks, judged_facts, not_passed

from gpuscan import collectors, profile
from gpuscan.cli.profile import capture as capture_command
from gpuscan.engine.case import Case
from gpuscan.engine.report import Report
from gpuscan.engine.stages import judge
from gpuscan.errors import UsageError
from gpuscan.profile import listing, yamlfile
from gpuscan.profile.capture import capture_profile as text_of
from gpuscan.profile.keys import load_schema
from gpuscan.recording import Recording, patch, save

HEALTHY = (
    "h100-8x-ib",
    "h100-8x-r535",
    "h200-8x-ib",
    "a100-8x-ib",
    "a100-40gb-cloud",
    "b200-8x-ib",
    "gb200-4x",
)
GUESTS = ("demo", "h200-1x")
GPU = "0000:52:00.0"
VERSIONS = {
    driver: {
        "file:/proc/driver/nvidia/version": (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Wed Jun 26 2024\n"
        ),
        "nvml:nvmlSystemGetDriverVersion()": driver,
        "nvml:nvmlDeviceGetGspFirmwareVersion(*": driver,
    }
    for driver in ("535.183.06", "535.161.08", "535.216.01")
}


def file_of(folder: Path, recording: Recording, name: str = "node") -> str:
    path = str(folder / f"{name}.json")
    save(recording, path)
    return path


def captured(folder: Path, *recordings: Recording) -> str:
    """Write the profile of these nodes, as the command does; return its file."""
    output = str(folder / "captured.yaml")
    files = [
        file_of(folder, recording, f"node{number}") for number, recording in enumerate(recordings)
    ]
    capture_command(files, output, level="passive", force=False)
    return output


def judged_by(file: str, recording: Recording) -> Report:
    node = collectors.node(recording)
    return judge(Case(node, profile.load(file), checks()))


def data_of(file: str) -> dict[str, Any]:
    return dict(yaml.safe_load(Path(file).read_text("utf-8")))


@pytest.mark.parametrize("name", [*HEALTHY, *GUESTS, "t4-4x"])
def test_a_node_passes_by_its_own_profile(name: str, tmp_path: Path) -> None:
    if name in HEALTHY:
        file = captured(tmp_path, base(name))
    else:  # no bundled profile knows these machines, so the command has less to hold them to
        file = str(tmp_path / "captured.yaml")
        Path(file).write_text(text_of([collectors.node(base(name))]), "utf-8")
    report = judged_by(file, base(name))
    assert not_passed(report) == {}
    assert (report.exit_code, report.complete) == (0, True)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_written_is_a_valid_profile(name: str, tmp_path: Path) -> None:
    file = captured(tmp_path, base(name))
    data, positions = yamlfile.load(Path(file).read_text("utf-8"), file)
    yamlfile.validate(data, positions, file, load_schema())
    assert set(data) <= set(load_schema()["properties"])


def test_every_value_is_one_that_was_read(tmp_path: Path) -> None:
    data = data_of(captured(tmp_path, base("h100-8x-ib")))
    assert data["match"] == {
        "device_ids": ["10de:2330"],
        "machines": ["Dell Inc. PowerEdge XE9680"],
    }
    assert data["driver"] == {"version": ">=580.159.04", "flavour": "open"}
    assert data["infiniband"] == {
        "ports": 8,
        "rate_gbps": 400.0,
        "hcas": [f"mlx5_{number}" for number in range(8)],
    }
    gpu = data["gpu"]
    assert gpu.pop("slots") == [f"SXM{number}" for number in range(1, 9)]
    assert gpu == {
        "count": 8,
        "name": "NVIDIA H100 80GB HBM3",
        "device_id": "10de:2330",
        "memory_mib": 81559,
        "pcie_width": 16,
        "pcie_generation": 5,
        "nvlinks": 18,
        "nvlink_rate_mb_s": 26562,
        "power_limit_w": 700.0,
        "ecc": True,
        "mig": False,
        "persistence": True,
        "compute_mode": "default",
        "vbios": "==96.00.99.00.01",
        "fabric": True,
    }


def test_the_machine_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the site's folder it is chosen before the bundled ones, or at least never loses to them
    unnoticed.
    """
    folder = tmp_path / "profiles"
    folder.mkdir()
    text = Path(captured(tmp_path, base("gb200-4x"))).read_text("utf-8")
    (folder / "tray.yaml").write_text(text, "utf-8")
    monkeypatch.setattr("gpuscan.files.SITE", str(tmp_path))
    chosen, why = profile.choose(collectors.node(base("gb200-4x")))
    assert (chosen.name, chosen.vouches) == ("tray", True), why


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        (
            "h100-8x-ib",
            {"nvlinks", "temperature", "aer", "fabric", "sram"},
            {"retired_pages", "nvlinks.active"},
        ),
        (
            "b200-8x-ib",
            {"nvlinks.active", "nvlinks.rate_mb_s", "temperature.core_c", "fabric"},
            {"nvlinks", "temperature", "repair"},
        ),
        (
            "a100-40gb-cloud",
            {"nvlinks.active", "temperature"},
            {"nvlinks", "fabric", "aer", "recovery_action"},
        ),
        ("demo", {"nvlinks", "pcie", "temperature"}, {"aer", "sram", "retired_pages"}),
        (
            "t4-4x",
            {"retired_pages", "ecc_mode"},
            {"mig_mode", "remapped_rows", "nvlinks", "nvlinks.active"},
        ),
    ],
)
def test_what_the_gpus_gave_may_not_go_missing(name: str, has: set[str], lacks: set[str]) -> None:
    from gpuscan.profile.capture import capture_profile as text_of

    given = set(yaml.safe_load(text_of([collectors.node(base(name))]))["capabilities"])
    assert has <= given
    assert not lacks & given


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {f"nvml:nvmlDeviceGetRemappedRows({GPU})": [0, 8, 0, 1]},
            "memory.row_remap on gpu:SXM4",
        ),
        (
            {f"nvml:nvmlDeviceGetFieldValues({GPU},165,3)": 0},
            "nvlink.links on gpu:SXM4",
        ),
        (
            {f"nvml:nvmlDeviceGetRemappedRows({GPU})": {"error": ["garbled", "?"]}},
            "memory.row_remap on gpu:SXM4",
        ),
        (
            {f"nvml:nvmlDeviceGetCurrentClocksEventReasons({GPU})": 8},
            "clocks.unexplained_slowdown on gpu:SXM4",
        ),
        (
            {f"nvml:nvmlDeviceGetFieldValues({GPU},163,7)": {"growth": 3}},
            "nvlink.link_errors on gpu:SXM4",
        ),
        (
            {f"nvml:nvmlDeviceGetInforomImageVersion({GPU})": "G520.0200.00.01"},
            "driver.inforom_match on",
        ),
        (
            {"file:/sys/class/infiniband/mlx5_3/fw_ver": "28.36.1010"},
            "infiniband.firmware_match on",
        ),
        (
            {f"nvml:nvmlDeviceGetApplicationsClock({GPU},0)": 1200},
            "clocks.application_clock on gpu:SXM4",
        ),
        (
            {f"nvml:nvmlDeviceGetVbiosVersion({GPU})": "96.00.74.00.01"},
            "the GPUs differ in vbios",
        ),
        ({f"nvml:nvmlDeviceGetPersistenceMode({GPU})": 0}, "modes.persistence_match on node"),
    ],
)
def test_a_node_that_is_not_good_is_refused(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=told.replace(".", r"\.")):
        captured(tmp_path, patch(base("h100-8x-ib"), changes))
    assert not (tmp_path / "captured.yaml").exists()


@pytest.mark.parametrize("name", ["no-card", "driver-not-loaded", "container-4-of-8"])
def test_a_node_that_cannot_be_seen_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        captured(tmp_path, base(name))


def test_a_node_without_gpus_is_refused() -> None:
    from gpuscan.profile.capture import capture_profile as text_of

    with pytest.raises(UsageError, match="no NVIDIA GPU"):
        text_of([collectors.node(base("no-card"))])


def test_of_three_nodes_what_all_share_is_expected(tmp_path: Path) -> None:
    nodes = []
    for changes, limit in zip(VERSIONS.values(), (400000, 400000, 500000), strict=True):
        power = {
            f"nvml:nvmlDeviceGetPowerManagement{which}Limit(*": limit for which in ("", "Default")
        }
        power["nvml:nvmlDeviceGetEnforcedPowerLimit(*"] = limit
        nodes.append(patch(base("a100-8x-ib"), {**changes, **power}))
    file = captured(tmp_path, *nodes)
    data = data_of(file)
    assert data["driver"]["version"] == ">=535.161.08"
    assert data["gpu"]["power_limit_w"] is None
    assert (data["gpu"]["count"], data["gpu"]["nvlinks"]) == (8, 12)
    assert [judged_by(file, node).exit_code for node in nodes] == [0, 0, 0]


def test_capabilities_are_those_of_all_three(tmp_path: Path) -> None:
    lacking = patch(
        base("h200-8x-ib"),
        {"file:/sys/bus/pci/devices/*/aer_dev_*": {"error": ["not-found", "", 2]}},
    )
    data = data_of(captured(tmp_path, base("h200-8x-ib"), base("h200-8x-ib"), lacking))
    assert "aer" not in data["capabilities"]
    assert "nvlinks" in data["capabilities"]


def test_two_recordings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one recording, or 3"):
        captured(tmp_path, base("h100-8x-ib"), base("h100-8x-ib"))


def test_nodes_with_other_gpus_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="different models"):
        captured(tmp_path, base("h100-8x-ib"), base("h100-8x-ib"), base("h200-8x-ib"))


@pytest.mark.parametrize(
    ("changes", "check", "code"),
    [
        ({"nvml:nvmlDeviceGetPowerManagementLimit(*": 500000}, "power.limit", 20),
        ({f"nvml:nvmlDeviceGetPersistenceMode({GPU})": 0}, "modes.persistence", 20),
        ({"nvml:nvmlDeviceGetVbiosVersion(*": "96.00.74.00.01"}, "driver.vbios", 20),
        ({f"nvml:nvmlDeviceGetModuleId({GPU})": 12}, "inventory.slots", 31),
        (
            {f"nvml:nvmlDeviceGetFieldValues({GPU},164,2)": 25000},
            "nvlink.link_rate",
            30,
        ),
        (
            {"file:/sys/class/infiniband/mlx5_2/ports/1/link_layer": "Ethernet\n"},
            "infiniband.port_count",
            20,
        ),
        (VERSIONS["535.161.08"], "driver.version", 20),
        (
            {f"nvml:nvmlDeviceGetSramEccErrorStatus({GPU})": {"error": ["not-supported", "", 3]}},
            "memory.sram_threshold",
            3,
        ),
        (
            {f"file:/sys/bus/pci/devices/{GPU}/aer_dev_fatal": {"error": ["not-found", "", 2]}},
            "pcie.fatal_errors",
            3,
        ),
    ],
)
def test_what_changes_afterwards_fails(
    changes: dict[str, Any], check: str, code: int, tmp_path: Path
) -> None:
    report = judged_by(captured(tmp_path, base("h100-8x-ib")), patch(base("h100-8x-ib"), changes))
    assert check in not_passed(report)
    assert report.exit_code == code


def test_the_same_change_passes_by_no_profile() -> None:
    """What only the captured profile knows: without it the power limit of all GPUs is anyone's
    choice.
    """
    changed = patch(base("h100-8x-ib"), {"nvml:nvmlDeviceGetPowerManagementLimit(*": 500000})
    report = judged_facts(collectors.node(changed), "default")
    assert (report.exit_code, report.verdict) == (0, "warn")


def test_slots_are_compared_as_one_expectation(tmp_path: Path) -> None:
    for name, slots in (("a", "{SXM1: GPU 5}"), ("b", "[SXM1]")):
        (tmp_path / f"{name}.yaml").write_text(f"gpu: {{slots: {slots}}}\n", "utf-8")
    one, other = (str(tmp_path / f"{name}.yaml") for name in "ab")
    told = listing.render_difference(one, other, "text")
    assert told == f'gpu.slots: {{"SXM1": "GPU 5"}} in {one}, ["SXM1"] in {other}\n'
    assert '  slots: {"SXM1": "GPU 5"} # ' in listing.render_profile(one, (), "text")


def test_a_burnt_in_node_keeps_the_floors_and_the_latency_that_it_gave(tmp_path: Path) -> None:
    """A latency is a limit from above."""
    quick = base("h200-2x-quick")
    lat = "run:ib_write_lat -d mlx5_0 -F -s 8 -n 10000 loopback"
    row = " #bytes #iterations t_min[usec] t_max[usec] t_typical[usec]\n 8 10000 1.90 5.00 2.00\n"
    plan = {"burnin:plan()": {"with": {"tools": [lat]}}}
    node = patch(quick, plan | {lat: {"stdout": row, "stderr": "", "exit_code": 0}})
    file = captured(tmp_path, node)
    assert data_of(file)["burnin"]["ib_write_latency_us"] == pytest.approx(2.0 / 0.85, abs=0.06)
    assert data_of(file)["burnin"]["hbm_read_gbps"] < 4416
    assert judged_by(file, node).exit_code == 0


PORT = "file:/sys/class/infiniband/mlx5_3/ports/1/"
SPARE = {
    f"{PORT}state": "1: DOWN\n",
    f"{PORT}phys_state": "2: Polling\n",
    f"{PORT}rate": "10 Gb/sec (4X SDR)\n",
    f"{PORT}counters/link_downed": "0\n",
}


def test_ports_that_differ_are_not_captured() -> None:
    node = collectors.node(patch(base("h100-8x-ib"), {f"{PORT}rate": "200 Gb/sec (2X NDR)\n"}))
    with pytest.raises(UsageError, match="the ports differ in rate_gbps .*mlx5_3/1 200"):
        text_of([node])


@pytest.mark.parametrize("state", ["1: DOWN\n", "2: INIT\n"])
def test_a_port_that_was_up_and_is_not_is_not_captured(state: str) -> None:
    changes = {f"{PORT}state": state, f"{PORT}counters/link_downed": "2\n"}
    with pytest.raises(UsageError, match="port mlx5_3/1 was up"):
        text_of([collectors.node(patch(base("h100-8x-ib"), changes))])


def test_rails_are_captured_and_other_ports_are_not() -> None:
    """A spare that was never up and a slower port of another board belong to no rail."""
    storage = {
        "file:/sys/class/infiniband/mlx5_5/board_id": "ZZT0000000003\n",
        "file:/sys/class/infiniband/mlx5_5/ports/1/rate": "200 Gb/sec (4X HDR)\n",
    }
    text = text_of([collectors.node(patch(base("h100-8x-ib"), {**SPARE, **storage}))])
    assert yaml.safe_load(text)["infiniband"] == {
        "ports": 6,
        "rate_gbps": 400,
        "hcas": [f"mlx5_{n}" for n in (0, 1, 2, 4, 6, 7)],
    }
