"""What every format tells of a report as a whole: its headline, and the parts that the action is
for.
"""

from gpuscan.engine.blame import Target, blamed
from gpuscan.model.outcome import Report, Status


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


def targets(report: Report) -> tuple[Target, ...]:
    """Return the parts that the node's action is for; none where it is for the node as a whole."""
    found: dict[str, Target] = {}
    kinds = {row["slot"]: row["kind"] for row in report.changes}
    for result in report.results:
        for finding in result.findings:
            if finding.severity is Status.FAIL and finding.action is report.action:
                found |= {
                    target.subject: target
                    for target in blamed(result, finding, report.parts, kinds)
                }
    return tuple(found.values())
