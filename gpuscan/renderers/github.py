"""Workflow commands of GitHub Actions: printed by a step, they become annotations.

GitHub shows the first ten errors and the first ten warnings of a step, so each host's headline
comes first and the heaviest findings follow.
"""

from collections.abc import Iterator, Sequence

from gpuscan.engine.report import Report
from gpuscan.model.outcome import Finding, Result, Status
from gpuscan.renderers.cases import clean, host_of, is_red, worst
from gpuscan.renderers.headline import headline
from gpuscan.text import printable

MOST = 10  # annotations of one level that GitHub shows of a step


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the annotations, one a line."""
    heads = [_head(report) for report in reports]
    errors = [line for report in reports for line in _errors(report)]
    warnings = [line for report in reports for line in _warnings(report)]
    red = sum(head.startswith("::error") for head in heads)
    shown = [*heads, *errors[: max(MOST - red, 0)], *warnings[:MOST]]
    return "".join(f"{line}\n" for line in shown)


def command(level: str, title: str, message: str) -> str:
    """Return one workflow command; what would end its title or message early is escaped.

    >>> command("error", "a: b, c", "100 % of it")
    '::error title=a%3A b%2C c::100 %25 of it'
    """
    name = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return printable(clean(text)).replace("%", "%25")


def _head(report: Report) -> str:
    level = "notice" if report.exit_code == 0 else "error"
    return command(level, f"gpuscan on {host_of(report)}", headline(report))


def _errors(report: Report) -> Iterator[str]:
    """Yield a line for each red result, failures first, the heaviest of them first."""
    red = [one for one in report.results if is_red(one, report)]
    for result in sorted(red, key=_weight, reverse=True):
        finding = worst(result) if result.findings else None
        yield _line("error", result, finding, result.reason)


def _weight(result: Result) -> tuple[bool, int]:
    rank = worst(result).action.rank if result.findings else 0
    return result.status is Status.FAIL, rank


def _warnings(report: Report) -> Iterator[str]:
    for result in report.results:
        if result.status is Status.WARN and not is_red(result, report):
            yield _line("warning", result, worst(result), "")


def _line(level: str, result: Result, finding: Finding | None, reason: str) -> str:
    told = f"{finding.message} (action: {finding.action.value})" if finding else reason
    return command(level, f"{result.check}[{result.subject}]", told)
