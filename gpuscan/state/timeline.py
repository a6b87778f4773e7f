"""What happened to a machine, in order: faults, boots, work tried, swaps, holds; for tickets."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscan.durations import format_utc
from gpuscan.errors import UsageError
from gpuscan.model.outcome import FAILED
from gpuscan.state.archive import BACK_DAYS, DAY_S, Archive
from gpuscan.state.history import open_archive
from gpuscan.state.whoami import this_machine

HOLDERS_S = 10.0
EVENTS = {  # kind of event in the archive: kind and text in the timeline
    "tried": ("tried", "{}"),
    "swap-begin": ("swap", "swap {} was begun"),
    "swap-end": ("swap", "swap {} was proven"),
    "clear": ("clear", "cleared: {}"),
    "proof": ("proof", "{}"),
    "hold": ("hold", "{}"),
}


def find_newest_failing(folder: str) -> tuple[Any, list[dict[str, Any]]]:
    """Return the report and the timeline of the newest stored run that failed.

    Raises UsageError where none is stored.
    """
    archive = open_archive(folder)
    run = archive.newest_failing(FAILED)
    if run is None:
        raise UsageError(f"{archive.path}: no failing run is stored: no ticket")
    rows = sorted(_entries(archive, run["machine"], run["at"]), key=lambda row: row["at"])
    return run["report"], rows


def _entries(archive: Archive, machine: str, until_s: float) -> Iterator[dict[str, Any]]:
    """Yield {at, kind, text, subject} of everything known of a machine, up to a run."""
    since_s = until_s - BACK_DAYS * DAY_S
    for fault in archive.faults(machine, since_s, until_s):
        text = f"{fault['message']} ({fault['check']}: {fault['action']})"
        subject = None if fault["subject"] == "node" else fault["subject"]
        yield _entry(fault["at_s"], "fault", text, subject)
    boot = ""
    for run in archive.verdicts(machine, since_s, until_s):
        if boot and run["boot_id"] and run["boot_id"] != boot:
            yield _entry(run["at"], "boot", "the machine had been rebooted since the previous run")
        boot = run["boot_id"] or boot
        if run["exit_code"] == 0:
            yield _entry(run["at"], "pass", f"a run ended with {run['verdict']}")
    for event in archive.events(machine):
        if event["kind"] in EVENTS and event["at"] >= since_s:
            kind, text = EVENTS[event["kind"]]
            yield _entry(event["at"], kind, text.format(event["text"]))


def _entry(at_s: float, kind: str, text: str, subject: str | None = None) -> dict[str, Any]:
    return {"at": format_utc(at_s), "kind": kind, "text": text, "subject": subject}


def find_holders(document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the processes that hold the GPUs' device files now.

    None where the report is of another machine or another boot.
    """
    boot_id = document["host"].get("boot_id")
    if not boot_id or boot_id != this_machine()["boot_id"]:
        return None
    from gpuscan.live.holders import holders as read_holders

    return read_holders(HOLDERS_S)
