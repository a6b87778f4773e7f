"""The past raises an action: what was tried and did not help is not asked for again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from over_time import BOOT, GPU, PENDING, ROWS, SERIAL, Node, file_of, found
from paths import RECORDINGS
from program import Call

from gpuscan.recording import load

XID_79 = (
    f"NVRM: Xid (PCI:{GPU[:-2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
XID_119 = f"NVRM: Xid (PCI:{GPU[:-2]}): 119, pid=1, name=x, Timeout waiting for RPC from GSP0!"
LOST = {f"nvml:*({GPU}*": {"error": ["lost", "GPU is lost", 15]}}
XID_95 = f"NVRM: Xid (PCI:{GPU[:-2]}): 95, pid=1, name=x, Uncontained: LTC TAG (0x2,0x0)."
UUIDS = "dir:/sys/bus/pci/devices"


def action(report: dict[str, Any], check: str) -> tuple[str, str]:
    (row,) = [
        row for row in report["findings"] if row["check"] == check and row["severity"] == "fail"
    ]
    return row["action"], row["message"]


def test_a_fault_that_is_back_after_its_reboot_asks_for_more(node: Node) -> None:
    assert node({}, log=(XID_119,)) == 30
    code, report = node.judged({}, boot=1, log=(XID_119,))
    assert action(report, "xid.faults")[0] == "reboot"  # a reset was asked for, and a reboot is one
    code, report = node.judged({}, boot=2, log=(XID_119,))
    assert (code, action(report, "xid.faults")[0]) == (31, "power-cycle")
    code, report = node.judged({}, boot=3, log=(XID_119,))  # a newer boot proves no power cycle
    assert (code, action(report, "xid.faults")[0]) == (31, "power-cycle")
    code, report = node.judged({}, "--tried", "power-cycle", boot=4, log=(XID_119,))
    assert (code, action(report, "xid.faults")[0]) == (40, "inspect")
    code, report = node.judged({}, "--tried", "reseat", boot=5, log=(XID_119,))
    assert (code, action(report, "xid.faults")[0]) == (41, "replace")
    assert "the reseat has not mended it" in action(report, "xid.faults")[1]


def test_the_same_boot_proves_nothing(node: Node) -> None:
    for _ in range(3):
        assert node({}, log=(XID_119,)) == 30


def test_what_was_asked_for_last_is_not_forgotten_in_the_same_boot(node: Node) -> None:
    for boot in (0, 1, 2):
        node({}, boot=boot, log=(XID_119,))
    assert node({}, boot=2, log=(XID_119,)) == 31


@pytest.mark.parametrize(("days", "code"), [(6, 31), (8, 30)])
def test_a_lost_gpu_within_seven_days(node: Node, days: float, code: int) -> None:
    assert node(LOST, log=(XID_79,), days=days) == 30
    assert node(LOST, log=(XID_79,), boot=1) == code


def test_another_code_or_another_gpu_is_another_fault(node: Node) -> None:
    assert node({}, log=(XID_119,)) == 30
    other = XID_119.replace(" 119,", " 140,")
    code, report = node.judged({}, boot=1, log=(other,))
    assert action(report, "xid.faults")[0] == "reset-gpu"
    code, report = node.judged({}, boot=2, log=(XID_119.replace("0000:52", "0000:1b"),))
    assert action(report, "xid.faults")[0] == "reset-gpu"


def test_a_new_gpu_in_the_slot_begins_anew(node: Node) -> None:
    assert node({}, log=(XID_119,)) == 30
    code, report = node.judged({SERIAL: "1650000000999"}, boot=1, log=(XID_119,))
    assert action(report, "xid.faults")[0] == "reset-gpu"


def test_a_new_remapped_row_is_not_the_same_fault(node: Node) -> None:
    assert node(PENDING) == 30
    code, report = node.judged({ROWS: [0, 2, 1, 0]}, boot=1)
    assert action(report, "memory.row_remap_pending")[0] == "reset-gpu"
    code, report = node.judged(
        {ROWS: [0, 2, 1, 0]}, boot=2
    )  # the same row waits still, and the reset did not help
    assert action(report, "memory.row_remap_pending")[0] == "reboot"


@pytest.mark.parametrize("remapped", [False, True], ids=["no row remapped", "a row each time"])
def test_memory_errors_climb_unless_a_row_is_remapped(node: Node, remapped: bool) -> None:
    key = next(
        k
        for k in node.base.keys()  # noqa: SIM118
        if k.startswith(f"nvml:nvmlDeviceGetTotalEccErrors({GPU},1,0")
    )
    asked = []
    for boot in (0, 1, 2, 3):
        rows = {ROWS: [0, boot, 0, 0]} if remapped else {}
        code, report = node.judged({key: 3 + boot, **rows}, boot=boot)
        asked.append(action(report, "memory.uncorrectable_ecc")[0])
    assert asked == (
        ["reset-gpu"] * 4 if remapped else ["reset-gpu", "reboot", "inspect", "inspect"]
    )


def missing(base: Any) -> dict[str, Any]:
    left = [name for name in base.get(UUIDS) if name != GPU]
    return {UUIDS: left, f"nvml:*({GPU}*": None, f"*{GPU}*": None}


def test_a_gpu_still_missing_after_declared_cold_work_is_inspect(node: Node) -> None:
    gone = missing(node.base)
    assert node(gone) == 31
    assert node(gone, boot=1) == 31  # a reboot is no cold work
    code, report = node.judged(gone, "--tried", "power-cycle", boot=2)
    assert (code, action(report, "inventory.gpu_count")[0]) == (40, "inspect")


def test_the_sel_proves_a_power_cycle(node: Node) -> None:
    gone = missing(node.base)
    assert node(gone) == 31
    import time

    at = time.gmtime((node.base.meta.made_at or 0.0) + 3600)
    sel = (
        f"1a,{time.strftime('%m/%d/%Y', at)},{time.strftime('%H:%M:%S', at)},Power Unit #0x01,Power"
        " off/down,Asserted\n"
    )
    early = "1,Pre-Init,0000000001,Power Unit #0x01,Power off/down,Asserted\n"
    assert node({**gone, "run:ipmitool -c sel elist": early}, boot=1) == 31
    code, report = node.judged({**gone, "run:ipmitool -c sel elist": early + sel}, boot=1)
    assert (code, action(report, "inventory.gpu_count")[0]) == (40, "inspect")
    assert "the BMC logged" in action(report, "inventory.gpu_count")[1]


def test_without_history_what_is_declared_counts(node: Node) -> None:
    code, report = node.judged(missing(node.base), "--tried", "power-cycle")
    assert (code, action(report, "inventory.gpu_count")[0]) == (40, "inspect")
    assert any("first stored run" in note for note in report["notes"])


def test_with_history_a_fault_that_nobody_saw_before_is_new(node: Node) -> None:
    assert node({}) == 0
    assert node(missing(node.base), "--tried", "power-cycle") == 31


def test_unknown_work_is_refused(call: Call) -> None:
    done = call("judge", "demo", "--tried", "prayer")
    assert done.code == 2
    words = "--tried prayer: known values: power-cycle, reboot, replace, reseat, reset"
    assert words in done.err


def test_a_shared_cause_never_asks_for_a_part(node: Node) -> None:
    keys = [key for key in node.base.keys() if key.startswith("nvml:nvmlDeviceGetRemappedRows(")]  # noqa: SIM118
    gpus = [key.partition("(")[2][:-1] for key in keys]
    lines = tuple(
        f"NVRM: Xid (PCI:{gpu[:-2]}): 119, pid=1, name=x, Timeout waiting for RPC from GSP0!"
        for gpu in gpus
    )
    for boot in range(3):
        node({}, boot=boot, log=lines)
    for boot, work in ((3, "power-cycle"), (4, "reseat"), (5, "reseat")):
        code, report = node.judged({}, "--tried", work, boot=boot, log=lines)
    assert set(found(report).values()) == {"inspect"}


def test_a_dead_gpu_is_known_by_its_serial_of_before(node: Node) -> None:
    assert node({}) == 0
    code, report = node.judged(LOST, boot=1)
    (part,) = [p for p in report["parts"] if p.get("serial_source") == "history"]
    assert (part["serial"], part["slot"]) == (node.base.get(SERIAL), "SXM4")
    assert report["summary"]["targets"][0]["serial"] == node.base.get(SERIAL)


def test_a_damaged_past_is_no_past(call: Call, tmp_path: Any) -> None:
    recording = load(str(RECORDINGS / "h100-8x-ib.json.gz"))
    from gpuscan.recording import patch

    broken = patch(
        recording,
        {
            "history:runs": 3,
            "history:faults": [{"check": 1}],
            "history:tried": [],
            "history:boots": [],
            "history:parts": [],
            "history:hold": [],
        },
    )
    done = call("judge", file_of(broken, tmp_path, "x.gz"), "--format", "json")
    assert done.code == 3
    assert json.loads(done.out)["summary"]["verdict"] == "incomplete"
    assert BOOT in recording


RECOVERY = f"nvml:nvmlDeviceGetFieldValues({GPU},230)"
CLEAN = {RECOVERY: 0}


def codes(node: Node, lines: list[str], **words: Any) -> list[int]:
    """Return the exit code of each boot, in which the GPU logs one line and is clean again."""
    logs = [(line,) if line else () for line in lines]
    return [node(CLEAN, boot=boot, log=log, **words) for boot, log in enumerate(logs)]


XID_63 = (
    f"NVRM: Xid (PCI:{GPU[:-2]}): 63, pid=1, name=x, Row Remapper: New row marked for remapping"
)
XID_13 = f"NVRM: Xid (PCI:{GPU[:-2]}): 13, pid=1, name=x, Graphics Exception"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([XID_95, XID_95], [0, 0]),
        ([XID_95, XID_95, XID_95], [0, 0, 31]),
        ([XID_95, XID_95, XID_95, ""], [0, 0, 31, 0]),
        ([XID_95, "", XID_95, "", XID_95], [0, 0, 0, 0, 31]),
        ([XID_95, XID_95.replace(" 95,", " 62,"), XID_95], [0, 0, 0]),
        ([XID_95, XID_95.replace("0000:52", "0000:1b"), XID_95], [0, 0, 0]),
        ([XID_79, XID_79], [0, 31]),
        ([XID_79, "", XID_79], [0, 0, 31]),
        ([XID_63, XID_63, XID_63, XID_63], [0, 0, 0, 0]),
        ([XID_13, XID_13, XID_13, XID_13], [0, 0, 0, 0]),
    ],
)
def test_what_returns_in_boot_after_boot_climbs_though_it_is_clean_each_time(
    node: Node, lines: list[str], expected: list[int]
) -> None:
    assert codes(node, lines) == expected


def test_what_returns_beyond_its_window_is_new(node: Node) -> None:
    assert codes(node, [XID_79, XID_79], days=8) == [0, 0]


def test_a_new_part_has_no_past(node: Node) -> None:
    assert codes(node, [XID_95, XID_95]) == [0, 0]
    assert node({**CLEAN, SERIAL: "1650000000999"}, boot=2, log=(XID_95,)) == 0


UPTIME = "file:/proc/uptime"
KMSG = "kmsg:/dev/kmsg"


@pytest.mark.parametrize("again", [False, True], ids=["the old line", "a new line"])
def test_a_line_that_is_older_than_the_declared_work_is_no_return(node: Node, again: bool) -> None:
    uptime = float(str(node.base.get(UPTIME)).split()[0])
    ring = node.base.get(KMSG)

    def logged(*seconds: float) -> dict[str, Any]:
        lines = [f"4,{10**6 + n},{int(at * 1e6)},-;{XID_119}" for n, at in enumerate(seconds)]
        return {KMSG: [*ring, *lines]}

    assert node(logged(uptime - 9)) == 30
    later = {UPTIME: f"{uptime + 0.25 * 86400:.2f} 0.00"}
    stamps = (uptime - 9, uptime + 900) if again else (uptime - 9,)
    code, report = node.judged({**logged(*stamps), **later}, "--tried", "reset")
    told = [row["message"] for row in report["findings"] if row["check"] == "xid.faults"]
    returned = ("has not mended it", "after it had been cured")
    assert any(words in message for message in told for words in returned) is again, told
