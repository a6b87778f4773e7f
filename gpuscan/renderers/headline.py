"""A report in one line."""

from gpuscan.engine.report import Report
from gpuscan.model.outcome import Status


def headline(report: Report) -> str:
    """Return the verdict and the worst failure: `hardware (41): gpu SXM7 memory.row_remap ->
    replace (+2)`.
    """
    verdict = f"{report.verdict} ({report.exit_code})"
    failures = [
        (result, finding)
        for result in report.results
        for finding in result.findings
        if finding.severity is Status.FAIL
    ]
    if not failures:
        return verdict
    result, finding = max(failures, key=lambda pair: pair[1].action.rank)
    subject = result.subject.replace(":", " ", 1)
    others = f" (+{len(failures) - 1})" if len(failures) > 1 else ""
    return f"{verdict}: {subject} {result.check} -> {finding.action.value}{others}"
