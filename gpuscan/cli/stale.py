"""Removes reports of an earlier run where this one ends without a verdict.

A CI job that runs again in its workspace would otherwise publish the report of the run before,
which may be green.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Sequence

from gpuscan.text import is_one_edit_away

JUDGING = (("run",), ("judge",), ("log",), ("diff",), ("prove",), ("swap", "verify"))
FLAGS = ("--report", "--output")
HEAD = 200  # bytes of a file that show whether it is a report
OURS = re.compile(
    rb'<\?xml version="1\.0" encoding="UTF-8"\?>\n<testsuites name="gpuscan"'
    rb'|\[?\{\s*"schema_version"'
    rb'|\{\s*"reportFormat": "CTRF",\s*"specVersion": "[\d.]+",\s*"generatedBy": "gpuscan'
    rb"|::(?:error|notice) title=gpuscan"
    rb"|## gpuscan: "
    rb"|gpuscan \d+\.\d"
    rb"|GPUSCAN (?:OK|WARNING|CRITICAL|UNKNOWN)\b"
    rb"|(?:[^\n]{0,80}: )?(?:pass|warn|incomplete|software|reboot|hardware) \(\d+\)"
)


def remove_reports(arguments: Sequence[str], written: Sequence[str] = ()) -> None:
    """Remove what `--report` and `--output` of a judging command name (mistyped or not), if it is
    a report of ours and was not *written* by this run: nothing else is ever removed, whatever a
    mistyped command line names.
    """
    if not any(tuple(arguments[: len(words)]) == words for words in JUDGING):
        return
    for path in _named(arguments):
        if path in written:
            continue
        with contextlib.suppress(OSError, ValueError):  # not there, or not for this user
            _remove(os.path.realpath(path))


def _named(arguments: Sequence[str]) -> Iterator[str]:
    for position, argument in enumerate(arguments):
        word, sign, value = argument.partition("=")
        flag = next((one for one in FLAGS if word == one or is_one_edit_away(word, one)), "")
        if not flag:
            continue
        text = value if sign else "".join(arguments[position + 1 : position + 2])
        if flag == "--output":
            yield text
            continue
        for report in re.split(r",(?=[a-z-]+=)", text):
            yield report.partition("=")[2]


def _remove(path: str) -> None:
    """Remove a regular file that begins as a report does, within the folder that was looked at."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = os.path.basename(path)
        if not stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode):
            return
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=folder), "rb") as file:
            is_ours = OURS.match(file.read(HEAD)) is not None
        if is_ours:
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
