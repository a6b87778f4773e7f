from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hostlines import FITS, LINES

from gpuscan.kernellog import hostlines
from gpuscan.model.outcome import Action

FILE = Path(hostlines.__file__).parents[1] / "catalogue" / "lines.json"
ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row for row in json.loads(FILE.read_text("utf-8"))["entries"]
}
# Written after the formats in the sources that print them: fits (entry, a line of it, what it
# says), misses (entry, a line that has its words and is none of it), ordinary (what a healthy node
# prints between two boots).
MISSES: list[tuple[str, str]] = [(entry, message) for entry, message in LINES["misses"]]
ORDINARY: list[str] = LINES["ordinary"]
KINDS = {
    *(
        "nvrm",
        "driver",
        "aer",
        "apei",
        "mce",
        "edac",
        "mlx5",
        "nvme",
        "md",
        "fs",
        "oom",
        "lockup",
        "hung",
        "peermem",
    ),
    *("segfault", "limits", "nfs", "fm", "reset", "boot"),
}
# Healthy fleets show these daily: one such line in a boot must not take a node out of work.
DAILY = {
    *(
        "aer:corrected",
        "aer:requester",
        "apei:corrected",
        "mce:corrected",
        "mce:thermal",
        "edac:ce",
        "nvme:timeout",
    ),
    *(
        "mlx5:link-down",
        "mlx5:carrier-lost",
        "mlx5:cable-unplugged",
        "mlx5:insufficient-power",
        "mlx5:access-register",
    ),
    *(
        "mlx5:bandwidth",
        "nvme:removing",
        "oom:limit",
        "oom:node",
        "oom:invoked",
        "hung:task",
        "peermem:invalid-context",
    ),
    *(
        "segfault:gpu-library",
        "nfs:ok",
        "nvrm:nvlink-masks",
        "fm:nothing-to-do",
        "fs:beyond-end",
        "limits:pids",
    ),
}


def test_lines_match_their_entry() -> None:
    wrong = [
        (entry, message, hostlines.match(message))
        for entry, message, values in FITS
        if hostlines.match(message) != (entry, values)
    ]
    assert wrong == []


def test_near_misses_do_not_match() -> None:
    matched = []
    for entry, message in MISSES:
        found = hostlines.match(message)
        if found is not None and found[0] == entry:
            matched.append((entry, message))
    assert matched == []


def test_every_entry_has_a_line_and_a_near_miss() -> None:
    assert {row[0] for row in FITS} == set(ROWS)
    assert {row[0] for row in MISSES} == set(ROWS)


def test_no_line_fits_two_entries() -> None:
    """The order of the file decides nothing: else a new entry could take another's lines away."""
    both = {
        message: found
        for _, message, _ in FITS
        if len(found := [entry for entry, _ in hostlines.find_matches(message)]) > 1
    }
    assert both == {}


def test_every_needle_finds_a_line() -> None:
    """A needle that no line of its entry holds is spelt wrong, or was never tried."""
    held = {
        entry: "\n".join(message for name, message, _ in FITS if name == entry) for entry in ROWS
    }
    idle = {
        line.entry: [one for one in line.needles if one not in held[line.entry]]
        for line in hostlines.line_patterns()
    }
    assert {entry: needles for entry, needles in idle.items() if needles} == {}


def test_ordinary_lines_do_not_match() -> None:
    assert {message: found for message in ORDINARY if (found := hostlines.match(message))} == {}


def gaps(row: dict[str, Any]) -> list[str]:
    """Return what an entry lacks."""
    re.compile(row["pattern"])
    re.compile(row.get("unless", ""))
    lacking = [name for name in ("needle", "name", "meaning", "sources", "notes") if not row[name]]
    actions = [row["action"], *row.get("ladder", ()), *(one["action"] for one in row["conditions"])]
    lacking += [action for action in actions if action not in set(Action)]
    lacking += ["condition" for one in row["conditions"] if not one["because"] or not one["if"]]
    if row["id"].partition(":")[0] not in KINDS:
        lacking.append("kind")
    warns = Action(row["action"]).rank <= Action.RESTART_APP.rank
    if (row["state"] == "none") is not warns:
        lacking.append("state: only what asks for no work on the node has none that outlives it")
    return lacking


def test_entries_are_complete() -> None:
    assert {entry: lacking for entry, row in ROWS.items() if (lacking := gaps(row))} == {}


def test_companions_are_in_the_catalogue() -> None:
    conditions = [
        one["if"].get("companion", {}) for row in ROWS.values() for one in row["conditions"]
    ]
    named = {name for row in ROWS.values() for name in row["companions"]}
    named |= {name for companion in conditions for name in companion.get("entries", ())}
    assert {
        name for name in named if name not in ROWS and not re.fullmatch(r"s?xid:\d+", name)
    } == set()


@pytest.mark.parametrize(
    ("entry", "message", "action"),
    [
        ("hung:task", "INFO: task nvidia-smi:8123 blocked for more than 122 seconds.", "reboot"),
        ("hung:task", "INFO: task python3:8123 blocked for more than 122 seconds.", ""),
        ("hung:task", "INFO: task python3:8123 blocked for more than 245 seconds.", "reboot"),
        (
            "oom:node",
            "Out of memory: Killed process 912 (slurmd) total-vm:1kB, anon-rss:1kB",
            "fix-config",
        ),
        ("oom:node", "Out of memory: Killed process 912 (python3) total-vm:1kB, anon-rss:1kB", ""),
        (
            "oom:limit",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,task=kubelet,pid=9,uid=0",
            "fix-config",
        ),
        (
            "fs:beyond-end",
            "kworker/u203:1: attempt to access beyond end of device\nsda1: rw=1, want=9, limit=8",
            "reboot",
        ),
        (
            "fs:beyond-end",
            "jbd2/dm-1-8: attempt to access beyond end of device\ndm-1: rw=1, want=9, limit=8",
            "reboot",
        ),
        (
            "fs:beyond-end",
            "kworker/u203:1: attempt to access beyond end of device\nloop3: rw=0, want=9",
            "monitor",
        ),
        (
            "fs:beyond-end",
            "systemd-udevd: attempt to access beyond end of device\nsda1: rw=0, want=9, limit=8",
            "",
        ),
        ("apei:recoverable", "event severity: recoverable\nsection_type: PCIe error", "reboot"),
    ],
)
def test_words_that_decide(entry: str, message: str, action: str) -> None:
    assert hostlines.match(message) is not None
    holding = [
        one["action"] for one in ROWS[entry]["conditions"] if _words_hold(one["if"], message)
    ]
    assert holding[:1] == ([action] if action else [])


def _words_hold(wanted: dict[str, Any], message: str) -> bool:
    contained = wanted.get("text_contains", [])
    words = [contained] if isinstance(contained, str) else contained
    return any(word in message for word in words) or (
        "text_matches" in wanted and bool(re.search(wanted["text_matches"], message))
    )


def test_daily_lines_of_healthy_fleets_drain_no_node() -> None:
    assert {
        name for name in DAILY if Action(ROWS[name]["action"]).rank > Action.RESTART_APP.rank
    } == set()


def test_only_the_beginning_of_a_message_counts() -> None:
    """What some program pours into the log must not keep the patterns busy."""
    line = "VFS: file-max limit 65536 reached"
    assert hostlines.match(" " * 4000 + line) == ("limits:file-max", {"limit": 65536})
    assert hostlines.match(" " * 5000 + line) is None
