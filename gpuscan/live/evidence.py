"""Evidence beyond a recording: NVIDIA's own bug report, and the hashes of files."""

import hashlib
import os
import shutil
from typing import Any

from gpuscan.durations import format_utc
from gpuscan.errors import UsageError
from gpuscan.files import open_input, refuse_foreign
from gpuscan.live import signals
from gpuscan.live.command import run_command
from gpuscan.live.process import STDOUT

SCRIPT = "nvidia-bug-report.sh"
LOG = "nvidia-bug-report.log"  # the script appends .gz where there is gzip
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
MOST_OUTPUT_BYTES = 1 << 16


def describe_file(path: str) -> dict[str, Any]:
    """Return a file's row: {name, bytes, sha256, made_at (UTC)}; raises OSError."""
    with open_input(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        status = os.fstat(file.fileno())
    made_at = format_utc(status.st_mtime)
    return {
        "name": os.path.basename(path),
        "bytes": status.st_size,
        "sha256": digest,
        "made_at": made_at,
    }


def bug_report(directory: str, limit_s: float) -> dict[str, Any]:
    """Run nvidia-bug-report.sh into *directory* for at most *limit_s* seconds; return its file's
    row, or {name, error}.

    A log that was cut off is kept, and its row has both: NVIDIA says that even that may be enough.
    The script touches every GPU and may hang in the driver; it is then killed with everything it
    started, or abandoned.
    """
    folders = [folder for folder in os.environ.get("PATH", "").split(":") if folder[:1] == "/"]
    path = ":".join([*folders, PATH])
    script = shutil.which(SCRIPT, path=path)
    if script is None:
        return {"name": LOG, "error": f"{SCRIPT} is not installed here"}
    try:
        refuse_foreign(script)
    except (UsageError, OSError) as error:
        return {"name": LOG, "error": f"not run: {error}"}
    if limit_s <= 0:
        return {"name": LOG, "error": "not run: no time was left for it"}
    return _log_row(directory, _run(script, directory, limit_s))


def _run(script: str, directory: str, limit_s: float) -> str:
    """Run the script in *directory*, as it does not quote paths; return what went wrong, if
    anything. What it calls is never the caller's.
    """
    try:
        done = run_command(
            [script, "--output-file", LOG],
            {"PATH": PATH, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
            limit_s,
            most_bytes=(MOST_OUTPUT_BYTES, 0),
            go_on=lambda: not signals.received,
            stderr=STDOUT,
            cwd=directory,
        )
    except InterruptedError:
        return "cut off by a signal"
    except TimeoutError:
        return f"cut off after {limit_s:g} s; run {SCRIPT} --safe-mode by hand where it hangs"
    except OSError as error:
        return f"{SCRIPT} could not be started: {error.strerror or error}"
    if done.code == 0:
        return ""
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    texts = [line.strip() for line in lines if line.strip()]
    return f"{SCRIPT} failed: {texts[-1][:200] if texts else f'exit code {done.code}'}"


def _log_row(directory: str, error: str) -> dict[str, Any]:
    for name in (f"{LOG}.gz", LOG):
        path = os.path.join(directory, name)
        if os.path.isfile(path) and os.path.getsize(path):
            return describe_file(path) | ({"error": error} if error else {})
    return {"name": LOG, "error": error or f"{SCRIPT} ended well, but wrote no log"}
