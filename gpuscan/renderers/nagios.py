"""The first line that Nagios shows of a plugin: `GPUSCAN CRITICAL - … | performance data`."""

from collections.abc import Sequence

from gpuscan.engine.report import Report
from gpuscan.model import read_or
from gpuscan.model.outcome import Status, exit_code
from gpuscan.renderers.headline import headline
from gpuscan.text import printable

STYLE = "nagios"
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")  # by exit code
WORST_FIRST = (2, 3, 1, 0)  # a proven failure wins over what is not known
COUNTED = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.PASS, Status.SKIP)


def with_first_line(text: str, reports: Sequence[Report], *, brief: bool = False) -> str:
    """Return a report's text below the line that Nagios shows; *brief* leaves only that line."""
    codes = [exit_code(one.verdict, one.exit_code, STYLE) for one in reports]
    worst = min(range(len(reports)), key=lambda number: WORST_FIRST.index(codes[number]))
    line = state_line(codes[worst], _told(reports, worst), _performance(reports))
    return line if brief else line + text


def state_line(code: int, told: str, performance: str = "") -> str:
    """Return the line of an exit code; a bar begins the performance data, so text has none.

    >>> state_line(2, "hardware (41): a | b", "fail=1"), state_line(0, "")
    ('GPUSCAN CRITICAL - hardware (41): a / b | fail=1\\n', 'GPUSCAN OK\\n')
    """
    plain = printable(told).replace("|", "/")
    line = f"GPUSCAN {STATES[code]}" + (f" - {plain}" if plain else "")
    return (f"{line} | {performance}" if performance else line) + "\n"


def _told(reports: Sequence[Report], worst: int) -> str:
    line = headline(reports[worst])
    if len(reports) == 1:
        return line
    host = read_or(reports[worst].host.hostname, "") or reports[worst].run.recording or "?"
    return f"{host}: {line}, the worst of {len(reports)} nodes"


def _performance(reports: Sequence[Report]) -> str:
    """Return the number of results of each status, of GPUs, and the seconds of the scan."""
    results = [result.status for report in reports for result in report.results]
    gpus = sum(part.kind == "gpu" for report in reports for part in report.parts)
    seconds = sum(report.run.duration_s or 0 for report in reports)
    counts = [f"{status.value}={results.count(status)}" for status in COUNTED]
    return " ".join([*counts, f"gpus={gpus}", f"time={seconds:.3f}s"])
