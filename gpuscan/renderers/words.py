"""What every format says of a report as a whole: its headline."""

from gpuscan.engine.report import Report
from gpuscan.model.outcome import Status


def headline(report: Report) -> str:
    """Return the verdict, and the worst failure, in one line."""
    failed = [(r, f) for r in report.results for f in r.findings if f.severity is Status.FAIL]
    worst = max(failed, key=lambda pair: pair[1].action.rank, default=None)
    what = (
        f": {worst[0].subject.replace(':', ' ', 1)} {worst[0].check} -> {worst[1].action.value}"
        if worst
        else ""
    )
    more = f" (+{len(failed) - 1})" if len(failed) > 1 else ""
    return f"{report.verdict} ({report.exit_code}){what}{more}"
