"""A log that does not reach back to the boot: what tells of its beginning, and what does not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from nodes_recordings import base, judged

from gpuscan.collectors.log_beginning import BOOT_ID
from gpuscan.collectors.log_text import DMESG, JOURNAL, KMSG
from gpuscan.collectors.past import KEYS
from gpuscan.recording import patch

BEGINS_S = 40_000
UPTIME_S = 43_000.0
ABSENT = {"error": ["not-found", "No such file or directory", 2]}
DENIED = {"error": ["no-permission", "Operation not permitted", 1]}
LATE = [f"6,{9000 + n},{(BEGINS_S + 7 * n) * 10**6},-;usb 1-1: USB disconnect" for n in range(3)]
WHOLE = ["5,0,0,-;Linux version 5.15.0-112-generic", *LATE]
RAW = "".join(f"<6>[{BEGINS_S + n}.000000] usb 1-1: USB disconnect\n" for n in range(3))
FROM_BOOT = (
    '{"_TRANSPORT": "kernel", "_SOURCE_MONOTONIC_TIMESTAMP": "1000", "MESSAGE": "Linux version 5"}'
)
LOGS: dict[str, tuple[dict[str, Any], bool]] = {  # where it is read from, and whether it is whole
    "a ring that has wrapped": ({KMSG: LATE, JOURNAL: ABSENT}, False),
    "dmesg alone": ({KMSG: DENIED, JOURNAL: DENIED, DMESG: RAW}, False),
    "a whole ring": ({KMSG: WHOLE, JOURNAL: ABSENT}, True),
    "a ring and the journal": ({KMSG: LATE, JOURNAL: FROM_BOOT}, True),
}
RUNS: dict[str, tuple[dict[str, float] | None, bool]] = {  # an earlier run; whether it had the gap
    "no archive": (None, False),
    "a complete run after the gap": ({"complete_s": BEGINS_S + 900.0}, True),
    "a complete run within the gap": ({"complete_s": BEGINS_S - 900.0}, False),
    "an incomplete run after the gap": ({"complete_s": 0.0}, False),
    "an archive of an older version": ({}, False),
}
MACHINES = {"h100-8x-r535": False, "demo": True, "h100-8x-ib": True}  # does the state tell?


@pytest.mark.parametrize(("log", "run", "machine"), [*itertools.product(LOGS, RUNS, MACHINES)])
def test_what_tells_of_a_lost_beginning(log: str, run: str, machine: str) -> None:
    readings, whole = LOGS[log]
    seen, had_it = RUNS[run]
    healthy = base(machine)
    made_at = healthy.meta.made_at or 0.0
    booted_s = made_at - UPTIME_S
    known: dict[str, Any] = {
        BOOT_ID: "b001\n",
        "file:/proc/uptime": f"{UPTIME_S} 1.0\n",
        **readings,
    }
    if seen is not None:
        row = {"boot_id": "b001", "first_s": booted_s + 60, "last_s": booted_s + BEGINS_S + 900}
        row |= {name: seconds and booted_s + seconds for name, seconds in seen.items()}
        known |= dict.fromkeys(KEYS.values(), []) | {KEYS["runs"]: 1, KEYS["boots"]: [row]}
    report = judged(patch(healthy, known))
    complete = whole or had_it or MACHINES[machine]
    assert (report.exit_code == 0) is complete, report.exit_code


def test_a_run_of_another_boot_had_none_of_this_one() -> None:
    healthy = base("h100-8x-r535")
    booted_s = (healthy.meta.made_at or 0.0) - UPTIME_S
    late = booted_s + BEGINS_S + 900
    row = {"boot_id": "b000", "first_s": late, "last_s": late, "complete_s": late}
    past = dict.fromkeys(KEYS.values(), []) | {KEYS["runs"]: 1, KEYS["boots"]: [row]}
    known = {BOOT_ID: "b001\n", "file:/proc/uptime": f"{UPTIME_S} 1.0\n", **past}
    report = judged(patch(healthy, {**known, **LOGS["a ring that has wrapped"][0]}))
    assert report.exit_code == 3
