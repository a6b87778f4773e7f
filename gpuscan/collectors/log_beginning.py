"""What tells of the beginning of this boot's kernel log, where the log itself has lost it."""

from typing import Any

from gpuscan.collectors.log_text import LogText, booted_s
from gpuscan.collectors.past import KEYS
from gpuscan.model import Fact, Unread, is_unread, read_or
from gpuscan.recording import Recording

BOOT_ID = "file:/proc/sys/kernel/random/boot_id"
BOOTS = KEYS["boots"]


def find_substitute(recording: Recording, log: LogText, gpus: Any) -> Fact[str]:
    """Return what tells of the missing beginning of a live machine's log, Unread if nothing does;
    "" where none is missing, or the input is a fragment, which owes none.

    From R565 on each GPU says what recovery it needs; and an earlier complete run of this boot had
    the beginning, if it came after the first line that is left.
    """
    fragment = recording.meta.imported is not None or recording.meta.fragment is not None
    if fragment or is_unread(log.whole) or log.whole:
        return ""
    if not is_unread(gpus) and not any(is_unread(gpu.recovery_action) for gpu in gpus):
        return "the GPUs' recovery action"
    if _has_earlier_run(recording, log):
        return "an earlier run in this boot"
    return Unread(log.keys[0], "not-found", "the beginning of this boot's log is lost")


def _has_earlier_run(recording: Recording, log: LogText) -> bool:
    """Return whether a complete run of this boot came after the first line of its log."""
    boot = recording.get(BOOT_ID)
    rows, booted = recording.get(BOOTS), booted_s(recording)
    records = read_or(log.records, [])
    if not isinstance(boot, str) or not isinstance(rows, list) or not booted or not records:
        return False
    runs = [
        row.get("complete_s", 0.0)
        for row in rows
        if isinstance(row, dict) and row.get("boot_id") == boot.strip()
    ]
    begins_s = booted + (records[0].at_s or 0.0)
    return any(isinstance(run, float) and run >= begins_s for run in runs)
