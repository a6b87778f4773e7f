"""Tests between two GPUs: failures with one GPU in common are blamed on that GPU."""

from collections import Counter
from collections.abc import Sequence

from gpuscan.engine.case import Case
from gpuscan.model import is_unread, read_or
from gpuscan.model.outcome import Result, Status

Pair = tuple[str, str]


def blame_common_end(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Blame each failure between two GPUs on the one that explains the other failures, if any."""
    gpus = case.node.gpus
    pairs = [(test.gpu, test.to) for test in read_or(case.node.tests, ()) if test.to]
    if not pairs or is_unread(gpus):
        return results
    addresses = {gpu.label: gpu.address for gpu in gpus}
    tested = Counter(gpu for pair in pairs for gpu in pair)
    failing: dict[str, list[Pair]] = {}
    for result in results:
        if _is_failed_pair(result):
            failing.setdefault(result.check, []).append(_pair(result))
    suspects = {check: _find_suspects(failed, tested) for check, failed in failing.items()}
    return tuple(
        _blame(result, suspects[result.check], failing[result.check], addresses)
        if _is_failed_pair(result)
        else result
        for result in results
    )


def _is_failed_pair(result: Result) -> bool:
    return result.status is Status.FAIL and bool(result.about.peer)


def _pair(result: Result) -> Pair:
    return result.about.gpu, result.about.peer


def _find_suspects(failing: Sequence[Pair], tested: Counter[str]) -> set[str]:
    """Return the GPU that all failing pairs have in common, else those most of whose pairs fail."""
    common = set.intersection(*map(set, failing))
    if len(common) == 1:
        return common
    failures = Counter(gpu for pair in failing for gpu in pair)
    return {gpu for gpu, count in failures.items() if 2 * count > tested[gpu]}


def _describe_share(gpu: str, failing: Sequence[Pair]) -> str:
    count = sum(gpu in pair for pair in failing)
    number = "all" if count == len(failing) else f"{count} of the"
    return f"{number} {len(failing)} pairs that fail like this"


def _blame(
    result: Result, suspects: set[str], failing: Sequence[Pair], addresses: dict[str, str]
) -> Result:
    ends = suspects & set(_pair(result))
    if len(ends) != 1:
        return result
    (gpu,) = ends
    share = _describe_share(gpu, failing)
    findings = tuple(
        finding._replace(culprits=(gpu,), message=f"{finding.message}; {gpu} is in {share}")
        for finding in result.findings
    )
    about = result.about._replace(address=addresses.get(gpu) or result.address)
    return result._replace(about=about, findings=findings)
