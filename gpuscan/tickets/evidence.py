"""The evidence of a failure, in one folder: recording, report, ticket, holders, NVIDIA's log."""

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from gpuscan import __version__, renderers
from gpuscan.durations import format_utc
from gpuscan.engine.report import Report
from gpuscan.errors import UsageError
from gpuscan.files import write_atomically
from gpuscan.model import read_or
from gpuscan.recording import Recording, save
from gpuscan.renderers.json_ import document
from gpuscan.text import as_json
from gpuscan.tickets.parts import failures
from gpuscan.tickets.ticket import TicketInput, build_ticket, render_ticket

BUG_REPORT_S = 120.0  # NVIDIA allows an hour; a caller waiting for a verdict does not
HOLDERS_S = 10.0
MANIFEST = "MANIFEST.json"
TICKET = "ticket.md"


def refuse_unusable(directory: str) -> None:
    """Raise UsageError, before any work, where no folder can be made in *directory*."""
    if not os.path.isdir(directory):
        raise UsageError(
            f"--collect-on-fail {directory}: no such folder: create it first (mkdir -p {directory})"
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UsageError(f"--collect-on-fail {directory}: this user cannot write there")


def collect(
    recording: Recording,
    report: Report,
    directory: str,
    *,
    bug_report_s: float = BUG_REPORT_S,
    root: str = "/",
    live: bool = True,
) -> str:
    """Write <host>-<UTC time>/ into *directory* and return its path.

    nvidia-bug-report.sh gets *bug_report_s* seconds (0: it is not run); listing the processes that
    hold the GPUs, below *root*, gets HOLDERS_S more. A signal cuts both short, and the folder is
    still completed. Of a recording (not *live*) nothing on this machine is asked. Without a failure
    there is no ticket. Raises UsageError, and leaves nothing
    behind, where the folder cannot be written.
    """
    from gpuscan.live.signals import recorded_stop_signals

    draft = ""
    try:
        with recorded_stop_signals():
            draft = tempfile.mkdtemp(prefix=".gpuscan-", dir=directory)
            _fill(draft, recording, report, bug_report_s, root if live else None)
            place = _rename(draft, os.path.join(directory, _name(report)))
    except OSError as error:
        raise UsageError(
            f"{directory}: cannot keep the evidence: {error.strerror or error}"
        ) from None
    finally:
        if draft:
            shutil.rmtree(draft, ignore_errors=True)  # renamed already if all went well
    return place


def _name(report: Report) -> str:
    started = report.run.started_at
    at = re.sub(r"[-:]", "", started) if started else time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    host = re.sub(r"[^A-Za-z0-9._-]", "_", read_or(report.host.hostname, "")).lstrip(".")
    return f"{host[:64] or 'unknown-host'}-{at}"


def _rename(draft: str, place: str) -> str:
    """Rename the folder; a name that is taken (two runs within a second) gets a number."""
    for number in range(1, 1000):
        wanted = place if number == 1 else f"{place}-{number}"
        if not os.path.lexists(wanted):
            os.rename(draft, wanted)
            return wanted
    raise FileExistsError(17, f"{place} is taken")


def _fill(
    draft: str, recording: Recording, report: Report, bug_report_s: float, root: str | None
) -> None:
    from gpuscan.live.evidence import bug_report, describe_file
    from gpuscan.live.holders import holders

    def keep(name: str, text: str) -> dict[str, Any]:
        path = os.path.join(draft, name)
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
        return describe_file(path)

    recorded = os.path.join(draft, "recording.json.gz")
    save(recording, recorded)
    files = [describe_file(recorded)]
    files.append(keep("report.json", renderers.find("json")([report], verbosity=0)))
    files.append(keep("report.txt", renderers.find("text")([report], verbosity=0)))
    held = None if root is None else holders(HOLDERS_S, root)
    if root is not None:
        files.append(keep("holders.json", json.dumps(held, indent=1) + "\n"))
        files.append(bug_report(draft, bug_report_s))
    data = json.loads(as_json(document(report)))
    if failures(data):  # a swap may begin with a healthy part
        ticket = build_ticket(TicketInput(data, holders=held, files=files))
        files.append(keep(TICKET, render_ticket(ticket, "markdown")))
    keep(MANIFEST, json.dumps(_manifest(data, files), indent=1) + "\n")


def _manifest(data: Mapping[str, Any], files: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "gpuscan_version": __version__,
        "made_at": format_utc(time.time()),
        "hostname": data["host"].get("hostname"),
        "headline": data["summary"]["headline"],
        "files": files,
    }
