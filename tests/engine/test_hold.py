"""A hold: what sets it, what lifts it, and that a reboot does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from over_time import FAILED, PENDING, ROWS, SERIAL, Node, file_of, found
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


@pytest.mark.parametrize("level", ["passive", "quick", "medium", "long"])
@pytest.mark.parametrize(
    ("fault", "words", "lifting"),
    [
        (ONCE, "at level long lifts it", ("long",)),
        (SLOW, "at level quick or above lifts it", ("quick", "medium", "long")),
    ],
)
def test_what_a_burn_in_found_is_lifted_by_one_that_would_find_it(
    node: Node, fault: dict[str, Any], words: str, lifting: tuple[str, ...], level: str
) -> None:
    """A passive scan proves nothing of it; wrong words that came once stay until a long one has
    looked.
    """
    judged = ("--profile", "h200-4x", "--set", "gpu.count=2")
    node.base = load(str(QUICK))
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
