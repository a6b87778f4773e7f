"""What happened to a machine, in order: faults, boots, work tried, swaps, holds; for tickets."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscan.durations import format_utc
from gpuscan.errors import UsageError
from gpuscan.model.outcome import FAILED
from gpuscan.state.archive import BACK_DAYS, DAY_S, Archive
from gpuscan.state.exercised import told_proofs
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
    "command": ("command", "{}"),
}


def find_newest_failing(
    folder: str,
) -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the report and the timeline of the newest stored run that failed, and the proofs on
    its machine up to then, oldest first.

    Raises UsageError where none is stored.
    """
    archive = open_archive(folder)
    run = archive.newest_failing(FAILED)
    if run is None:
        raise UsageError(f"{archive.path}: no failing run is stored: no ticket")
    rows = sorted(_entries(archive, run["machine"], run["at"]), key=lambda row: row["at"])
    events = archive.proofs(run["at"] - BACK_DAYS * DAY_S)
    mine = (one for one in events if one["machine"] == run["machine"] and one["at"] <= run["at"])
    proofs = [{**row, "at": format_utc(row["at"])} for row in told_proofs(mine)]
    return run["report"], rows, proofs


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
            yield _entry(event["at"], kind, text.format(event["text"]), _subject_of(event))


def _subject_of(event: Mapping[str, Any]) -> str | None:
    """Return the part that a proof was on; any other event is the node's."""
    data = event["data"]
    is_of_part = event["kind"] == "proof" and isinstance(data, dict)
    return str(data.get("subject", "node")) if is_of_part else None


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
