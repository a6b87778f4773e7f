"""Tests between two GPUs: where what fails has one GPU in common, that GPU is blamed, and not
those at the other ends.
"""

from collections import Counter
from collections.abc import Sequence

from gpuscan.model import Node, is_unread, read_or
from gpuscan.model.outcome import Result, Status

Pair = tuple[str, str]


def of_one_end(results: Sequence[Result], node: Node) -> list[Result]:
    """Return the results with each failure between two GPUs blamed on that one of them which
    explains the others, too.
    """
    tests = read_or(node.tests, ())
    pairs = {f"test:{test.label}": (test.gpu, test.to) for test in tests if test.to}
    if not pairs or is_unread(node.gpus):
        return list(results)
    addresses = {gpu.label: gpu.address for gpu in node.gpus}
    every = Counter(gpu for pair in pairs.values() for gpu in pair)
    failing: dict[str, list[Pair]] = {}
    for result in results:
        if result.status is Status.FAIL and result.subject in pairs:
            failing.setdefault(result.check, []).append(pairs[result.subject])
    suspects = {check: _suspects(found, every) for check, found in failing.items()}
    told = []
    for result in results:
        named = suspects.get(result.check, set()) & set(pairs.get(result.subject, ()))
        if result.status is Status.FAIL and len(named) == 1:
            (gpu,) = named
            alike = failing[result.check]
            count = sum(gpu in pair for pair in alike)
            share = f"{'all' if count == len(alike) else f'{count} of the'} {len(alike)} pairs that fail so"
            told.append(_blaming(result, gpu, addresses.get(gpu), share))
        else:
            told.append(result)
    return told


def _suspects(failing: Sequence[Pair], every: Counter[str]) -> set[str]:
    """Return the GPU that all failing pairs have in common, else those most of whose pairs fail."""
    common = set.intersection(*map(set, failing))
    if len(common) == 1:
        return common
    wrong = Counter(gpu for pair in failing for gpu in pair)
    return {gpu for gpu, count in wrong.items() if 2 * count > every[gpu]}


def _blaming(result: Result, gpu: str, address: str | None, share: str) -> Result:
    findings = (
        finding._replace(culprits=(gpu,), message=f"{finding.message}; {gpu} is in {share}")
        for finding in result.findings
    )
    return result._replace(address=address or result.address, findings=tuple(findings))
