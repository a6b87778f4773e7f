"""The kernel log: what of it counts, from whichever source, and whether it reaches back to the
boot.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from nodes_recordings import base, judged, told
from program import Call

from gpuscan import collectors
from gpuscan.collectors.log_text import DMESG, FILES, JOURNAL, KMSG
from gpuscan.engine.report import Report
from gpuscan.live.host import HostReader
from gpuscan.live.reader import Places
from gpuscan.model import is_unread
from gpuscan.recording import Recording, patch, save

SILENT = (
    "4,9120,90210000000,-;NVRM: Persistence mode is deprecated and will be removed in a future"
    " release."
)
XID = (
    "NVRM: Xid (PCI:0000:00:07): 119, pid=2024, name=nvidia-smi, Timeout after 6s of waiting for"
    " RPC response from GPU1 GSP!"
)
OWN, JOURNALD = "_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP"
DENIED = {"error": ["no-permission", "Operation not permitted", 1]}
RINGS = {"wrapped": [SILENT], "denied": DENIED}
COVERS, FAULT = "xid.log_coverage", "xid.faults"
INCIDENT = "incident:Xid 119 on SXM8"


def line(message: str | list[int], **stamps: str) -> str:
    return json.dumps({"_TRANSPORT": "kernel", **stamps, "MESSAGE": message})


def logged(*lines: str, ring: Any = RINGS["wrapped"]) -> Recording:
    """The demo with this ring buffer and this journal."""
    return patch(base("demo"), {KMSG: ring, JOURNAL: "".join(f"{one}\n" for one in lines)})


def words(report: Report) -> dict[tuple[str, str], str]:
    return {(r.check, r.subject): told(r) for r in report.results if r.check in (COVERS, FAULT)}


BOOT = line("Linux version 6.8.0", **{OWN: "1000", JOURNALD: "4000000"})


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize(
    ("stamps", "at_s"),
    [
        ({OWN: "3600000000", JOURNALD: "3700000000"}, 3600.0),
        ({JOURNALD: "3600000000"}, 3600.0),
        ({OWN: "", JOURNALD: "3600000000"}, 3600.0),
        ({}, 0.001),
    ],
    ids=["the kernel's stamp", "journald's alone", "an empty one", "none at all"],
)
def test_a_record_of_the_journal_counts_whatever_its_stamp(
    stamps: dict[str, str], at_s: float, ring: str
) -> None:
    """A record without any stamp keeps its place: it is as old as the one before it."""
    recording = logged(
        BOOT, line(XID, **stamps), line("later", **{OWN: "7200000000"}), ring=RINGS[ring]
    )
    (incident,) = was_read(collectors.node(recording).incidents)
    assert (incident.label, incident.first_s) == ("Xid 119 on SXM8", at_s)
    report = judged(recording)
    assert words(report) == {(FAULT, INCIDENT): "fail/reset-gpu", (COVERS, "node"): "pass"}
    assert report.exit_code == 30


def test_a_whole_journal_without_stamps_of_the_kernel_is_read() -> None:
    recording = logged(
        line("Linux version 6.8.0", **{JOURNALD: "4000000"}), line(XID, **{JOURNALD: "5000000"})
    )
    assert words(judged(recording)) == {
        (FAULT, INCIDENT): "fail/reset-gpu",
        (COVERS, "node"): "pass",
    }


def test_a_message_of_bytes_without_a_stamp_counts() -> None:
    assert (FAULT, INCIDENT) in words(judged(logged(BOOT, line(list(XID.encode("utf-8"))))))


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize(
    ("first_s", "whole"),
    [(0, True), (4, True), (59.9, True), (60, False), (3600, False), (90000, False)],
)
@pytest.mark.parametrize("stamp", [OWN, JOURNALD])
def test_a_journal_that_begins_later_than_the_boot_is_not_whole(
    first_s: float, whole: bool, stamp: str, ring: str
) -> None:
    """Journals rotate: the first record that is left tells how far back it reaches."""
    report = judged(logged(line("a record", **{stamp: f"{first_s * 1e6:.0f}"}), ring=RINGS[ring]))
    wanted = "pass" if whole else "warn/monitor"
    assert words(report) == {(FAULT, "node"): "pass" if whole else "skip", (COVERS, "node"): wanted}
    assert (report.exit_code, report.verdict) == (0, "pass" if whole else "warn")
    messages = [finding.message for result in report.results for finding in result.findings]
    assert messages == [] if whole else f"starts {first_s:.0f} s after boot" in messages[0]


@pytest.mark.parametrize("ring", RINGS)
def test_an_xid_in_what_is_left_of_a_journal_counts(ring: str) -> None:
    report = judged(logged(line(XID, **{JOURNALD: "3600000000"}), ring=RINGS[ring]))
    assert words(report) == {(FAULT, INCIDENT): "fail/reset-gpu", (COVERS, "node"): "warn/monitor"}


def test_a_journal_cut_at_its_head_is_not_whole() -> None:
    """Of a long answer the end is kept, which begins in mid-record."""
    report = judged(logged(BOOT[7:], line("a record", **{OWN: "1000"})))
    assert words(report)[COVERS, "node"] == "warn/monitor"


@pytest.mark.parametrize(
    "journal",
    [{"error": ["not-found", "No such file or directory", 2]}, line("late", **{OWN: "3600000000"})],
    ids=["no journal", "a journal that begins late"],
)
def test_a_silent_rest_of_a_log_is_no_pass_by_itself(
    journal: Any, tmp_path: Path, call: Call
) -> None:
    """Where nothing else is judged, nothing was judged at all."""
    file = str(tmp_path / "wrapped.json")
    save(patch(base("demo"), {KMSG: [SILENT], JOURNAL: journal}), file)
    done = call("judge", file, "--only", FAULT)
    assert done.code == 3
    assert "Verdict: incomplete" in done.out
    save(base("demo"), file)
    assert call("judge", file, "--only", FAULT).code == 0


NEITHER = {
    KMSG: DENIED,
    JOURNAL: {"error": ["not-found", "No such file or directory", 2]},
    DMESG: DENIED,
}


def test_log_files_are_the_last_resort() -> None:
    recording = patch(base("demo"), NEITHER)
    assert [key for key in collectors.plan(recording) if key.startswith("log:")] == list(FILES)
    assert [key for key in collectors.plan(base("demo")) if key.startswith("log:")] == []
    told_by = {
        "lines": [[7, f"Feb 23 16:24:18 n kernel: {XID}"]],
        "total_lines": 9,
        "first": [None, 1.0],
        "last": [None, 2.0],
    }
    value = {**told_by, "boots": 1, "gaps": 0, "left_out": 0, "whole": False, "kernel": True}
    missing = dict.fromkeys(FILES, {"error": ["not-found", "No such file or directory", 2]})
    node = collectors.node(patch(base("demo"), {**NEITHER, **missing, FILES[1]: value}))
    assert [one.label for one in was_read(node.incidents)] == ["Xid 119 on SXM8"]
    assert node.sources["incidents"] == (FILES[1],)
    unread = collectors.node(patch(base("demo"), {**NEITHER, **missing})).incidents
    assert is_unread(unread), "and where there is none it is the ring buffer that is missed"
    assert unread.key == DMESG


def test_a_log_file_is_read_from_its_end_and_of_this_boot_only(tmp_path: Path) -> None:
    place = tmp_path / "var/log"
    place.mkdir(parents=True)
    now = time.strftime("%b %e %H:%M:%S", time.gmtime())
    old = (
        "2001-01-01T00:00:00+00:00 n kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the"
        " bus."
    )
    (place / "kern.log").write_text(f"{old}\n{now} n kernel: {XID}\n", "utf-8")
    ((key, value, error),) = HostReader(Places(root=str(tmp_path))).answer([FILES[0]])
    assert (key, error) == (FILES[0], None)
    assert [row[0] for row in value["lines"]] == [2]
    ((_, _, lack),) = HostReader(Places(root=str(tmp_path))).answer([FILES[1]])
    assert lack is not None
    assert lack[0] == "not-found"


@pytest.mark.parametrize("command", ["judge", "log"])
def test_a_log_may_begin_with_a_brace(command: str, call: Call, tmp_path: Path) -> None:
    """`dmesg -t` of a firmware's report: the kernel numbers its lines in braces."""
    report = "Hardware error from APEI", "event severity: fatal", "section_type: PCIe error"
    file = tmp_path / "dmesg.txt"
    file.write_text("".join(f"{{1}}[Hardware Error]: {line}\n" for line in report), "utf-8")
    assert call(command, str(file)).code == 40
