"""Tests between two GPUs: where the failing pairs have one GPU in common, that GPU is blamed, and
not those at the other ends.
"""

from collections import Counter
from collections.abc import Sequence

from gpuscan.model import Node, is_unread
from gpuscan.model.outcome import Result, Status

Pair = tuple[str, str]


def blame_common_ends(results: Sequence[Result], node: Node) -> list[Result]:
    """Return the results, with each failure between two GPUs blamed on the one that explains the
    other failures as well.
    """
    tests = () if is_unread(node.tests) else node.tests
    pairs = {f"test:{test.label}": (test.gpu, test.to) for test in tests if test.to}
    if not pairs or is_unread(node.gpus):
        return list(results)
    addresses = {gpu.label: gpu.address for gpu in node.gpus}
    tested = Counter(gpu for pair in pairs.values() for gpu in pair)
    failing: dict[str, list[Pair]] = {}
    for result in results:
        if result.status is Status.FAIL and result.subject in pairs:
            failing.setdefault(result.check, []).append(pairs[result.subject])
    suspects = {check: _find_suspects(failed, tested) for check, failed in failing.items()}
    blamed = []
    for result in results:
        ends = suspects.get(result.check, set()) & set(pairs.get(result.subject, ()))
        if result.status is Status.FAIL and len(ends) == 1:
            (gpu,) = ends
            share = _describe_share(gpu, failing[result.check])
            blamed.append(_blame(result, gpu, addresses.get(gpu), share))
        else:
            blamed.append(result)
    return blamed


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


def _blame(result: Result, gpu: str, address: str | None, share: str) -> Result:
    findings = (
        finding._replace(culprits=(gpu,), message=f"{finding.message}; {gpu} is in {share}")
        for finding in result.findings
    )
    return result._replace(address=address or result.address, findings=tuple(findings))
