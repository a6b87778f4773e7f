"""The folder of evidence that a failed node leaves: recording, report, ticket, holders, NVIDIA's
log, and their hashes.
"""

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
from gpuscan.recording import Recording, save
from gpuscan.renderers.json_ import document
from gpuscan.tickets import ticket

BUG_REPORT_S = 120.0  # NVIDIA allows it an hour; whoever waits for a verdict does not
HOLDERS_S = 10.0
MANIFEST = "MANIFEST.json"
TICKET = "ticket.md"


def refuse_unusable(directory: str) -> None:
    """Raise UsageError where no folder can be made in *directory*, before any work is begun."""
    if not os.path.isdir(directory):
        raise UsageError(
            f"--collect-on-fail {directory}: there is no such folder: make it first (mkdir -p {directory})"
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
) -> str:
    """Write <host>-<UTC time>/ into *directory* and return its path; raises UsageError where that
    fails, leaving nothing.

    nvidia-bug-report.sh is given *bug_report_s* seconds (0: it is not run), the look at processes
    below *root* ten more. A signal that stops us cuts these two short; the folder is finished all
    the same. Without a failure there is no ticket.
    """
    from gpuscan.live.evidence import undisturbed

    draft = ""
    try:
        with undisturbed():
            draft = tempfile.mkdtemp(prefix=".gpuscan-", dir=directory)
            _fill(draft, recording, report, bug_report_s, root)
            place = _renamed(draft, os.path.join(directory, _name(report)))
    except OSError as error:
        raise UsageError(
            f"{directory}: the evidence cannot be kept: {error.strerror or error}"
        ) from None
    finally:
        if draft:
            shutil.rmtree(draft, ignore_errors=True)  # not there any more where all went well
    return place


def _name(report: Report) -> str:
    started = report.run.get("started_at")
    at = re.sub(r"[-:]", "", started) if started else time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    host = re.sub(r"[^A-Za-z0-9._-]", "_", str(report.host.get("hostname") or "")).lstrip(".")
    return f"{host[:64] or 'unknown-host'}-{at}"


def _renamed(draft: str, place: str) -> str:
    """Give the folder its name; one that is taken (two runs within a second) gets a number."""
    for number in range(1, 1000):
        wanted = place if number == 1 else f"{place}-{number}"
        if not os.path.lexists(wanted):
            os.rename(draft, wanted)
            return wanted
    raise FileExistsError(17, f"{place} is taken")


def _fill(draft: str, recording: Recording, report: Report, bug_report_s: float, root: str) -> None:
    from gpuscan.live.evidence import bug_report, hashed, holders

    def kept(name: str, text: str) -> dict[str, Any]:
        place = os.path.join(draft, name)
        write_atomically(place, text.encode("utf-8", "backslashreplace"))
        return hashed(place)

    save(recording, os.path.join(draft, "recording.json.gz"))
    files = [hashed(os.path.join(draft, "recording.json.gz"))]
    files.append(kept("report.json", renderers.find("json")([report], verbosity=0)))
    files.append(kept("report.txt", renderers.find("text")([report], verbosity=0)))
    held = holders(HOLDERS_S, root)
    files += [
        kept("holders.json", json.dumps(held, indent=1) + "\n"),
        bug_report(draft, bug_report_s),
    ]
    data = json.loads(json.dumps(document(report), default=str))
    if any(
        finding["severity"] == "fail" for finding in data["findings"]
    ):  # a healthy part may be swapped, too
        files.append(
            kept(TICKET, ticket.render(ticket.build(data, "", (), held, files), "markdown"))
        )
    kept(MANIFEST, json.dumps(_manifest(data, files), indent=1) + "\n")


def _manifest(data: Mapping[str, Any], files: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "gpuscan_version": __version__,
        "made_at": format_utc(time.time()),
        "hostname": data["host"].get("hostname"),
        "headline": data["summary"]["headline"],
        "files": files,
    }
