"""Writing results: to standard output, a terminal or files, in the formats that were asked for."""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from gpuscan import renderers
from gpuscan.engine.report import Report, worst_exit_code
from gpuscan.errors import UsageError, complain, mute
from gpuscan.files import is_special, write_atomically
from gpuscan.model.outcome import EXIT_OK, EXIT_WARN, FAILED
from gpuscan.renderers import nagios
from gpuscan.text import harmless, text_bytes, wrapped

FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")  # bixense.com/clicolors


class OutputOptions(NamedTuple):
    """The format and file (empty: standard output) of the result, how much of it (-1 one line, 0,
    1 everything), the exit style, and `warn` if warnings fail.

    *files* are (format, file) pairs of further reports.
    """

    format: str = "text"
    output: str = ""
    verbosity: int = 0
    exit_style: str = "full"
    fail_on: str = ""
    files: Sequence[tuple[str, str]] = ()


def parse_report(value: str) -> tuple[str, str]:
    """Split `--report junit=a.xml` into format and file; raises UsageError for another shape."""
    format_, _, file = value.partition("=")
    if not format_ or not file:
        raise UsageError(f"--report {value}: write FORMAT=FILE, e.g. --report junit=gpuscan.xml")
    return format_, file


def check_options(options: OutputOptions, *others: str) -> None:
    """Raise UsageError for an unknown format, a file that cannot be written, or a file that is
    named twice; *others* are files that the command writes as well.
    """
    for format_, file in options.files:
        renderers.find(format_)
        check_writable(file)
    if options.output and options.output != "-":
        check_writable(options.output)
    named = [*others, options.output, *(file for _, file in options.files)]
    files = [file for file in named if file and file != "-" and not is_special(file)]
    places = [os.path.realpath(file) for file in files]
    for file, place in zip(files, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(
                f"{file}: the same file is used for two outputs; name a different file for each"
            )


def check_writable(file: str) -> None:
    """Raise UsageError where *file* cannot be written, before minutes of work are spent on it."""
    folder = os.path.dirname(os.path.realpath(file))
    special = is_special(file)
    if not special and not os.path.isdir(folder):
        raise UsageError(f"{file}: cannot be written: there is no folder {folder}; create it first")
    if os.path.isdir(file):
        raise UsageError(f"{file}: cannot be written: is a folder; name a file in it")
    if not (os.access(file, os.W_OK) if special else os.access(folder, os.W_OK | os.X_OK)):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        why = "Read-only file system" if read_only else "Permission denied"
        raise UsageError(f"{file}: cannot be written: {why}")


def write_reports(reports: Sequence[Report], options: OutputOptions, *, many: bool = False) -> int:
    """Write the reports, one line or array item each where there are *many*; return the exit code
    of the worst.

    Files come first. One that cannot be written is reported last, by a UsageError that carries the
    exit code of a proven failure: neither costs the other. A failure that cannot go into the file
    of `--output` goes to standard output; a pass is then not told at all.
    """
    reports = [with_fail_on(report, options) for report in reports]
    errors: list[UsageError] = []
    done: list[str] = []
    for format_, file in options.files:
        # -q is for who watches the terminal: a file has the whole report
        whole = max(options.verbosity, 0)
        text = renderers.find(format_)(reports, verbosity=whole, many=many)
        if _write_if_possible(text, file, errors):
            done.append(file)
    code = worst_exit_code(reports, options.exit_style)
    failed = any(report.exit_code >= FAILED for report in reports)
    if all(report.exit_code in (EXIT_OK, EXIT_WARN) for report in reports):
        done = []  # a pass would contradict the exit code of a run that cannot tell it
    if errors and not failed:
        _raise_first(errors, 0, done)  # exit code 2: a pass that is printed would contradict it
    styled = not options.output and _on_terminal()
    render = renderers.find(options.format, on_terminal=styled)
    text = render(reports, verbosity=options.verbosity, many=many)
    if options.exit_style == "nagios" and options.format == "text":
        text = nagios.with_first_line(text, reports, brief=options.verbosity < 0)
    written = _write_if_possible(text, options.output, errors, styled=styled)
    if failed and not written and options.output not in ("", "-"):
        _write_if_possible(text, "", errors)
    if errors:
        _raise_first(errors, code if failed else 0, done)
    return code


def with_fail_on(report: Report, options: OutputOptions) -> Report:
    """Return a report that knows of `--fail-on`: it derives its exit code from it."""
    if not options.fail_on:
        return report
    return report._replace(run=report.run._replace(fail_on=options.fail_on))


def _raise_first(errors: Sequence[UsageError], verdict: int, done: Sequence[str]) -> NoReturn:
    for other in errors[1:]:
        complain(f"gpuscan: {other}")
    errors[0].verdict, errors[0].written = verdict, tuple(done)
    raise errors[0]


def _write_if_possible(
    text: str, file: str, errors: list[UsageError], *, styled: bool = False
) -> bool:
    try:
        write(text, file, styled=styled)
    except UsageError as error:
        errors.append(error)
        return False
    return True


def _on_terminal() -> bool:
    forced = any(os.environ.get(name, "") not in ("", "0") for name in FORCING)
    return forced or (sys.stdout is not None and sys.stdout.isatty())


def terminal_width() -> int:
    """Return the terminal's width in columns, 0 if standard output is not a terminal."""
    import shutil

    terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it was closed at start
    return shutil.get_terminal_size().columns if terminal else 0


def tell(text: str, output: str = "") -> None:
    """Write sentences: wrapped between words where they go to a terminal. JSON stays as it is."""
    is_prose = not output and text[:1] not in ("{", "[")
    write(wrapped(text, terminal_width()) if is_prose else text, output)


def write(text: str, output: str, *, styled: bool = False) -> None:
    """Write a result to standard output, or atomically to a file.

    The one door to both: only a *styled* text, whose parts were made printable before they were
    coloured, may steer a terminal.
    """
    safe = text if styled else harmless(text)
    data = safe.encode("utf-8", "backslashreplace")
    if output and output != "-":
        write_atomically(output, data)
        return
    try:
        is_data = safe[:1] in ("{", "[", "<")  # JSON and XML are UTF-8 in any locale
        sys.stdout.buffer.write(data if is_data else text_bytes(safe))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, AttributeError) as error:  # a full disk, or it was closed at start
        mute()
        why = getattr(error, "strerror", "") or "it is closed"
        raise UsageError(f"standard output cannot be written: {why}") from None
