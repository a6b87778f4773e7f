"""A hold: what sets it, what lifts it, and that a reboot does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from over_time import FAILED, GPU, PENDING, ROWS, SERIAL, Node, file_of, found
from paths import RECORDINGS
from program import Call

from gpuscan.collectors.log_text import JOURNAL
from gpuscan.recording import load


def test_a_reboot_does_not_launder_a_dead_gpu(node: Node) -> None:
    assert node(FAILED) == 41
    code, report = node.judged({}, boot=1)  # and the GPU shows nothing any more
    assert code == 41
    assert found(report) == {"history.hold[gpu:SXM4]": "replace"}
    assert "held since" in report["findings"][0]["message"]
    assert node({}, boot=2) == 41
    assert report["hold"]["code"] == 41


def test_a_passing_run_lifts_20_to_31(node: Node) -> None:
    assert node(PENDING) == 30
    assert node.hold == 30
    assert node({}, boot=1) == 0
    assert node.hold == 0
    assert node({}, boot=1) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--only", "thermal"),
        ("--gpus", "SXM1"),
        ("--skip", "thermal"),
        ("--skip", "memory"),
        ("--profile", "default", "--set", "skip.memory.row_remap_pending=left to others"),
    ],
)
def test_a_run_of_less_than_the_node_lifts_nothing(node: Node, words: tuple[str, ...]) -> None:
    assert node(PENDING) == 30
    assert node({}, *words, boot=1) == 30
    assert node({}, boot=1) == 0


def test_a_run_that_could_not_read_all_lifts_nothing(node: Node) -> None:
    assert node(PENDING) == 30
    code, report = node.judged({ROWS: {"error": ["no-permission", "no"]}}, boot=1)
    assert code == 30
    assert report["summary"]["complete"] is False


def test_a_part_that_is_gone_lifts_its_hold(node: Node) -> None:
    assert node(FAILED) == 41
    assert node({SERIAL: "1650000000999"}, boot=1) == 0
    assert node.hold == 0


def test_a_part_whose_serial_nobody_reads_may_still_be_there(node: Node) -> None:
    assert node(FAILED) == 41
    unread = {SERIAL: {"error": ["not-supported", "Not Supported", 3]}}
    code, report = node.judged(unread, boot=1)
    assert code == 41
    assert found(report) == {"history.hold[gpu:SXM4]": "replace"}


def test_a_gpu_that_is_only_moved_stays_held(node: Node) -> None:
    assert node(FAILED) == 41
    other = (
        SERIAL.replace("52", "5f")
        if SERIAL.replace("52", "5f") in node.base
        else SERIAL.replace("0000:52", "0000:1b")
    )
    mine = node.base.get(SERIAL)
    assert node({SERIAL: node.base.get(other), other: mine}, boot=1) == 41


def test_a_worse_fault_is_told_itself_and_a_lesser_one_with_the_hold(node: Node) -> None:
    assert node(PENDING) == 30
    code, report = node.judged(FAILED, boot=0)
    assert code == 41
    assert "history.hold[gpu:SXM4]" not in found(report)
    code, report = node.judged(
        {"nvml:nvmlDeviceGetPersistenceMode(0000:1b:00.0)": 0},
        "--set",
        "gpu.persistence=true",
        boot=1,
    )
    assert code == 41
    assert "replace" in [
        row["action"] for row in report["findings"] if row["check"] == "history.hold"
    ]
    assert any(name.startswith("modes.") for name in found(report))


def test_clear_lifts_and_is_archived(
    node: Node, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert node(FAILED) == 41
    state = node.folder / "state"
    (path,) = state.rglob("last.json")
    path.rename(state / "last.json")  # as if this machine had run it
    assert call("clear", "--reason", "", "--state-dir", str(state)).code == 2
    done = call(
        "clear", "--reason", "board replaced by the vendor, ticket 4711", "--state-dir", str(state)
    )
    assert done.code == 0
    assert "memory.row_remap (41)" in done.out
    assert json.loads((state / "last.json").read_text())["hold"] is None
    lines = [
        json.loads(line)
        for line in call("history", "export", "--state-dir", str(state)).out.splitlines()
    ]
    (event,) = [line for line in lines if line["kind"] == "event" and line["what"] == "clear"]
    assert event["text"] == "board replaced by the vendor, ticket 4711"
    assert json.loads(event["data"])[0]["check"] == "memory.row_remap"
    assert call("clear", "--reason", "again", "--state-dir", str(state)).out == "nothing was held\n"


def test_explain_hold_tells_what_lifts_it(node: Node, call: Call) -> None:
    node(FAILED)
    state = node.folder / "state"
    (path,) = state.rglob("last.json")
    path.rename(state / "last.json")
    done = call("explain", "hold", "--state-dir", str(state))
    assert done.code == 0
    assert "gpu:SXM4, serial" in done.out
    assert "swap verify lifts it" in done.out
    assert (
        json.loads(call("explain", "hold", "--state-dir", str(state), "--format", "json").out)[
            "code"
        ]
        == 41
    )
    assert (
        "Nothing is held" in call("explain", "hold", "--state-dir", str(node.folder / "none")).out
    )


def test_without_history_no_hold_is_seen(node: Node, call: Call) -> None:
    node(FAILED)
    file = file_of(node.recording({}, 1, ()), node.folder, "x.gz")
    assert call("judge", file).code == 0


def test_a_silent_log_lifts_a_logged_fault_only_in_another_boot(node: Node) -> None:
    line = "NVRM: Xid (PCI:0000:52:00): 119, pid=1, name=x, Timeout waiting for RPC from GSP0!"
    assert node({}, log=(line,)) == 30
    wrapped = {
        "kmsg:/dev/kmsg": ["6,500,9000000000,-;nothing"],
        JOURNAL: {"error": ["not-found", "no"]},
    }
    assert node(wrapped, boot=0) == 30
    assert node(wrapped, boot=1) == 0


QUICK = RECORDINGS / "h200-2x-quick.json.gz"
STRESS = "burnin:stress-bf16(0000:00:06.0)"
ONCE = {
    STRESS: {
        "with": {"status": "fail", "mismatches": 3, "again": {"status": "pass", "mismatches": 0}}
    }
}
SLOW = {
    STRESS: {
        "with": {
            "numbers": {"tflops": 400.0},
            "again": {"status": "pass", "mismatches": 0, "numbers": {"tflops": 410.0}},
        }
    }
}


@pytest.mark.parametrize("level", ["passive", "proof", "quick", "medium", "long"])
@pytest.mark.parametrize("found_at", ["quick", "proof"])
@pytest.mark.parametrize(
    ("fault", "words", "lifting"),
    [
        (ONCE, "at level long lifts it", ("long",)),
        (SLOW, "at level quick or above lifts it", ("quick", "medium", "long")),
    ],
)
def test_what_a_burn_in_found_is_lifted_by_one_that_would_find_it(
    node: Node,
    fault: dict[str, Any],
    words: str,
    lifting: tuple[str, ...],
    found_at: str,
    level: str,
) -> None:
    """A passive scan shows nothing of it, nor does a proof, however short; wrong words that came
    once stay until a long one has looked.
    """
    judged = ("--profile", "h200-4x", "--set", "gpu.count=2")
    node.base = load(str(QUICK))
    node.base.meta = node.base.meta._replace(level=found_at)
    assert node(fault, *judged) == 20
    node.base.meta = node.base.meta._replace(level=level)
    code, report = node.judged({}, *judged)
    assert (code, node.hold) == ((0, 0) if level in lifting else (20, 20))
    assert not code or words in report["findings"][0]["message"]


def test_what_a_lesser_run_finds_again_does_not_lower_the_level_that_lifts_it(node: Node) -> None:
    node.base = load(str(QUICK))
    words = ("--profile", "h200-4x", "--set", "gpu.count=2")
    hot = {STRESS: {"with": {"numbers": {"tflops": 400.0}}}}
    for level, changes, code in (
        ("long", hot, 20),
        ("quick", hot, 20),
        ("quick", {}, 20),
        ("long", {}, 0),
    ):
        node.base.meta = node.base.meta._replace(level=level)
        assert node(changes, *words) == code, (level, changes)


WIDTH = f"nvml:nvmlDeviceGetCurrPcieLinkWidth({GPU})"
PORT = "file:/sys/class/infiniband/mlx5_3/ports/1/"
RATE = {f"{PORT}rate": "200 Gb/sec (2X NDR)\n"}
DOWNS = f"{PORT}counters/link_downed"
DOWN = {f"{PORT}state": "1: DOWN\n", f"{PORT}phys_state": "2: Polling\n", DOWNS: "1\n"}
PCI, DEV = "dir:/sys/bus/pci/devices", "dir:/dev"
OTHER = "nvml:nvmlDeviceGetSerial(0000:1b:00.0)"
MINUTES = 1 / 1440
SEVEN = ("--set", "gpu.count=7")
GONE = "gone"  # the GPU is in no slot
MOVED = "moved"  # it is in the slot of another one


def changed(node: Node, what: Any) -> dict[str, Any]:
    base = node.base
    if what == GONE:
        left = [name for name in base.get(PCI) if name != GPU]
        files = [name for name in base.get(DEV) if name != "nvidia7"]
        counted = {PCI: left, DEV: files, "nvml:nvmlDeviceGetCount()": 7}
        return {**counted, f"nvml:*({GPU}*": None, f"*{GPU}*": None}
    if what == MOVED:
        return {SERIAL: base.get(OTHER), OTHER: base.get(SERIAL)}
    return dict(what)


H = 6 / 24  # hours until the next run, in days
Step = tuple[Any, tuple[str, ...], int, float, int]  # what differs, words, boot, days, exit code
LIVES: dict[str, list[Step]] = {
    "inspect: neither time nor a reset is the work": [
        ({WIDTH: 8}, (), 0, H, 40),
        ({}, (), 0, H, 40),
        ({}, ("--tried", "reset"), 0, H, 40),
        ({}, ("--tried", "reseat"), 0, H, 0),
    ],
    "inspect: a later boot": [({WIDTH: 8}, (), 0, H, 40), ({}, (), 1, H, 0)],
    "inspect: work that was declared before the fault was seen again": [
        ({WIDTH: 8}, (), 0, H, 40),
        ({WIDTH: 8}, ("--tried", "reseat"), 0, H, 40),
        ({}, (), 0, H, 40),
        ({}, (), 1, H, 0),
    ],
    "a port that settles": [
        (DOWN, (), 0, 5 * MINUTES, 40),
        ({DOWNS: "1\n"}, (), 0, 6 * MINUTES, 40),
        ({DOWNS: "1\n"}, (), 0, H, 0),
    ],
    "a port that goes down again": [
        (DOWN, (), 0, H, 40),
        ({DOWNS: "2\n"}, (), 0, 11 * MINUTES, 40),
        ({DOWNS: "2\n"}, (), 0, H, 0),
    ],
    "a port that is up at half its rate": [(DOWN, (), 0, H, 40), (RATE, (), 0, H, 40)],
    "a profile that leaves the rate open": [
        (RATE, (), 0, MINUTES, 40),
        (RATE, ("--set", "infiniband.rate_gbps=null"), 0, MINUTES, 40),
    ],
    "a profile that states another rate": [
        (RATE, (), 0, MINUTES, 40),
        (RATE, ("--set", "infiniband.rate_gbps=200"), 0, MINUTES, 0),
    ],
    "a driver's version: open, then another": [
        ({}, ("--set", "driver.version=>=990"), 0, H, 20),
        ({}, ("--set", "driver.version=null"), 0, H, 20),
        ({}, ("--set", "driver.version=>=100"), 0, H, 0),
    ],
    "a GPU that is missing, and back after a boot": [(GONE, (), 0, H, 31), ({}, (), 1, H, 0)],
    "a GPU that is missing, and back by itself": [
        (GONE, (), 0, H, 31),
        ({}, (), 0, H, 31),
        ({}, ("--tried", "power-cycle"), 0, H, 0),
    ],
    "what only warns because jobs run": [
        (PENDING, (), 0, H, 30),
        (PENDING, ("--context", "busy"), 0, H, 30),
        ({}, ("--context", "busy"), 0, H, 0),
    ],
    "a GPU that moved, and is well": [(PENDING, (), 0, H, 30), (MOVED, (), 1, H, 0)],
    "a held GPU that is gone": [
        (PENDING, ("--profile", "h100"), 0, H, 30),
        (GONE, ("--profile", "h100"), 1, H, 31),
        ({}, ("--profile", "h100"), 2, H, 30),  # partial: it lifts nothing
        ({}, (), 2, H, 0),
    ],
    "a held GPU that is gone and not missed, and back": [
        (FAILED, (), 0, H, 41),
        (GONE, SEVEN, 1, H, 0),
        ({}, (), 2, H, 41),
        ({SERIAL: "1650000000999"}, (), 3, H, 0),
    ],
    "one of two is mended": [
        ({WIDTH: 8, **RATE}, (), 0, H, 40),
        (RATE, (), 1, H, 40),
        ({}, (), 2, H, 0),
    ],
}


@pytest.mark.parametrize("name", LIVES)
def test_a_hold_over_time(node: Node, name: str) -> None:
    told = [
        node(changed(node, what), *words, boot=boot, days=days)
        for what, words, boot, days, _ in LIVES[name]
    ]
    assert told == [code for *_, code in LIVES[name]]


def test_a_hold_that_sleeps_is_told(node: Node, call: Call) -> None:
    assert node(PENDING) == 30
    code, report = node.judged(changed(node, GONE), *SEVEN, boot=1)
    assert (code, report["hold"]) == (0, None)
    assert any("not in the node" in note for note in report["notes"])
    state = node.folder / "state"
    (path,) = state.rglob("last.json")
    path.rename(state / "last.json")  # as if this machine had run it
    told = call("explain", "hold", "--state-dir", str(state)).out
    assert "Nothing is held" in told
    assert "held again when they are seen" in told
    cleared = call("clear", "--reason", "the GPU was scrapped", "--state-dir", str(state))
    assert "memory.row_remap_pending (30)" in cleared.out


def test_a_report_says_what_it_holds_and_what_lifts_that(node: Node, call: Call) -> None:
    file = file_of(node.recording({WIDTH: 8}, 0, ()), node.folder, "x.gz")
    out = call("judge", file, "--state-dir", str(node.folder / "state")).out
    assert "Held:    gpu SXM4 (pcie.link_width): after the work (a reboot, --tried reseat," in out
