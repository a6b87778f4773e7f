"""What happened to a machine, in order: faults, boots, work that was tried, swaps, holds; for
tickets.
"""

import json
import time
import zlib
from collections.abc import Iterator
from typing import Any

from gpuscan.errors import UsageError
from gpuscan.model.outcome import FAILED
from gpuscan.state.archive import BACK_DAYS, DAY_S, Archive
from gpuscan.state.place import StateError
from gpuscan.state.telling import opened
from gpuscan.state.whoami import this_machine

HOLDERS_S = 10.0
KINDS = {
    "tried": "tried",
    "swap-begin": "swap",
    "swap-end": "swap",
    "clear": "clear",
    "hold": "hold",
}
WORDS = {
    "swap-begin": "swap {} was begun",
    "swap-end": "swap {} was proven",
    "tried": "{}",
    "clear": "cleared: {}",
    "hold": "{}",
}


def newest_failing(named: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the report and the timeline of the newest stored run that failed; raises UsageError
    where there is none.
    """
    archive = opened(named)
    try:
        query = "SELECT machine, at, report FROM runs WHERE exit_code >= ? AND report IS NOT NULL ORDER BY at DESC LIMIT 1"
        found = archive.rows(query, (FAILED,))
        if not found:
            raise UsageError(f"{archive.path}: no run that failed is stored: no ticket")
        machine, at, blob = found[0]
        return json.loads(zlib.decompress(blob)), sorted(
            _rows(archive, machine, at), key=lambda row: row["at"]
        )
    except (zlib.error, ValueError) as error:
        raise StateError(f"{archive.path}: damaged: {error}") from None


def _rows(archive: Archive, machine: str, until_s: float) -> Iterator[dict[str, Any]]:
    """Yield {at, kind, text, subject} of all that is known of a machine, up to a run."""
    since_s = until_s - BACK_DAYS * DAY_S
    faults = archive.rows(
        "SELECT at, subject, check_id, findings.action, message FROM findings JOIN runs ON run = runs.id"
        " WHERE machine = ? AND at >= ? AND at < ? AND severity = 'fail'",
        (machine, since_s, until_s),
    )
    for at, subject, check, action, message in faults:
        yield _row(
            at, "fault", f"{message} ({check}: {action})", None if subject == "node" else subject
        )
    query = "SELECT at, boot_id, exit_code, verdict FROM runs WHERE machine = ? AND at >= ? AND at <= ? ORDER BY at"
    runs = archive.rows(query, (machine, since_s, until_s))
    boot = ""
    for at, boot_id, code, verdict in runs:
        if boot and boot_id and boot_id != boot:
            yield _row(at, "boot", "another boot than the run before", None)
        boot = boot_id or boot
        if code == 0:
            yield _row(at, "pass", f"a run ended with {verdict}", None)
    for event in archive.events(machine):
        if event["kind"] in KINDS and event["at"] >= since_s:
            yield _row(
                event["at"], KINDS[event["kind"]], WORDS[event["kind"]].format(event["text"]), None
            )


def _row(at: float, kind: str, text: str, subject: str | None) -> dict[str, Any]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)),
        "kind": kind,
        "text": text,
        "subject": subject,
    }


def holders(document: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return who holds the devices now, where the report is of this machine in this boot; None
    elsewhere.
    """
    if (
        not document["host"].get("boot_id")
        or document["host"]["boot_id"] != this_machine()["boot_id"]
    ):
        return None
    from gpuscan.live import evidence

    return evidence.holders(HOLDERS_S)
