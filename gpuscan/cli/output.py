"""Where a result goes: standard output, a terminal, files; each format through its renderer."""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from gpuscan import renderers
from gpuscan.engine.report import Report, worst_exit_code
from gpuscan.errors import UsageError, complain, mute, near_misses
from gpuscan.files import is_special, write_atomically
from gpuscan.model.outcome import EXIT_STYLES, FAILED


class Shown(NamedTuple):
    """How to tell it: format, file, verbosity (-1 one line, 0, 1 all), exit style, `warn` to fail
    on warnings.

    *files* are further (format, file) pairs: one scan feeds several readers.
    """

    format: str
    output: str
    verbosity: int
    exit_style: str
    fail_on: str
    files: Sequence[tuple[str, str]] = ()


def report_files(words: Sequence[str]) -> list[tuple[str, str]]:
    """Split `--report junit=a.xml` into format and file; raises UsageError for another shape."""
    pairs = [word.partition("=") for word in words]
    for word, (format_, _, file) in zip(words, pairs, strict=True):
        if not format_ or not file:
            raise UsageError(
                f"--report {word}: write it as FORMAT=FILE, as in --report junit=gpuscan.xml"
            )
    return [(format_, file) for format_, _, file in pairs]


def refuse_unusable(show: Shown, *beside: str) -> None:
    """Raise UsageError for a format, style or file that will not do, before any work is begun;
    *beside* are written, too.
    """
    renderers.find(show.format)
    if show.exit_style not in ("full", *EXIT_STYLES):
        known = near_misses(show.exit_style, ["full", *EXIT_STYLES], "exit styles")
        raise UsageError(f"unknown exit style '{show.exit_style}': {known}")
    if show.fail_on not in ("", "warn"):
        raise UsageError(
            f"--fail-on {show.fail_on}: only 'warn' can be given; failures always count"
        )
    for format_, file in show.files:
        renderers.find(format_)
        refuse_unwritable(file)
    if show.output and show.output != "-":
        refuse_unwritable(show.output)
    files = [
        file
        for file in (*beside, show.output, *(file for _, file in show.files))
        if file and file != "-"
    ]
    places = [os.path.realpath(file) for file in files if not is_special(file)]
    twice = next((file for file in files if places.count(os.path.realpath(file)) > 1), "")
    if twice:
        raise UsageError(
            f"{twice}: named for two things, and one would take the other's place: name two files"
        )


def refuse_unwritable(file: str) -> None:
    """Raise UsageError where *file* cannot be written: minutes of work must not come before that
    is known.
    """
    folder = os.path.dirname(os.path.realpath(file))
    special = is_special(file)
    if not special and not os.path.isdir(folder):
        raise UsageError(f"{file}: there is no folder {folder}")
    if os.path.isdir(file):
        raise UsageError(f"{file}: cannot be written: Is a directory")
    if not (os.access(file, os.W_OK) if special else os.access(folder, os.W_OK | os.X_OK)):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        raise UsageError(
            f"{file}: cannot be written: {'Read-only file system' if read_only else 'Permission denied'}"
        )


def tell(reports: Sequence[Report], show: Shown, *, many: bool = False) -> int:
    """Print the reports, one line or array item each where there are *many*, and return the exit
    code of the worst.

    Files come first, and one that cannot be written is told last, with the exit code of what is
    proven: neither costs the other, whichever has gone. What cannot go where `--output` says goes
    to standard output.
    """
    if show.fail_on:
        reports = [
            report._replace(run={**report.run, "fail_on": show.fail_on}) for report in reports
        ]
    lost: list[UsageError] = []
    for format_, file in show.files:
        try:
            write(renderers.find(format_)(reports, verbosity=show.verbosity, many=many), file)
        except UsageError as error:
            lost.append(error)
    render = renderers.find(show.format, on_terminal=not show.output and _on_terminal())
    text = render(reports, verbosity=show.verbosity, many=many)
    for place in (show.output, *([""] if show.output not in ("", "-") else [])):
        try:
            write(text, place)
            break
        except UsageError as error:
            lost.append(error)
    code = worst_exit_code(reports, show.exit_style)
    if lost:
        for other in lost[1:]:
            complain(f"gpuscan: {other}")
        lost[0].verdict = code if any(report.exit_code >= FAILED for report in reports) else 0
        raise lost[0]
    return code


def _on_terminal() -> bool:
    return (sys.stdout is not None and sys.stdout.isatty()) or os.environ.get(
        "FORCE_COLOR", ""
    ) not in ("", "0")


def width() -> int:
    """Return the terminal's width in columns, 0 where standard output is none."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def write(text: str, output: str) -> None:
    """Write a result to standard output, or to a file beside its place and rename it there."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except (
        UnicodeEncodeError
    ):  # half a surrogate pair, which no file has and a recording by hand may
        data = text.encode("utf-8", "backslashreplace")
    if output and output != "-":
        write_atomically(output, data)
        return
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (
        OSError,
        AttributeError,
    ) as error:  # a full disk, or started with standard output closed
        mute()
        raise UsageError(
            f"standard output cannot be written: {getattr(error, 'strerror', '') or 'it is closed'}"
        ) from None
