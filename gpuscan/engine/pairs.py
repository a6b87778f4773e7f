"""Tests between two cards: where what fails has one card in common, that card is blamed, and not
those at the other ends.
"""

from collections import Counter
from collections.abc import Sequence

from gpuscan.model import Node, is_unread
from gpuscan.model.outcome import Result, Status

Pair = tuple[str, str]


def of_one_end(results: Sequence[Result], node: Node) -> list[Result]:
    """Return the results with each failure between two cards blamed on that one of them which
    explains the others, too.
    """
    tests = () if is_unread(node.tests) else node.tests
    pairs = {f"test:{test.label}": (test.card, test.to) for test in tests if test.to}
    if not pairs or is_unread(node.gpus):
        return list(results)
    addresses = {card.label: card.address for card in node.gpus}
    every = Counter(card for pair in pairs.values() for card in pair)
    failing: dict[str, list[Pair]] = {}
    for result in results:
        if result.status is Status.FAIL and result.subject in pairs:
            failing.setdefault(result.check, []).append(pairs[result.subject])
    suspects = {check: _suspects(found, every) for check, found in failing.items()}
    told = []
    for result in results:
        named = suspects.get(result.check, set()) & set(pairs.get(result.subject, ()))
        if result.status is Status.FAIL and len(named) == 1:
            (card,) = named
            alike = failing[result.check]
            count = sum(card in pair for pair in alike)
            share = f"{'all' if count == len(alike) else f'{count} of the'} {len(alike)} pairs that fail so"
            told.append(_blaming(result, card, addresses.get(card), share))
        else:
            told.append(result)
    return told


def _suspects(failing: Sequence[Pair], every: Counter[str]) -> set[str]:
    """Return the card that all failing pairs have in common, else those most of whose pairs fail."""
    common = set.intersection(*map(set, failing))
    if len(common) == 1:
        return common
    wrong = Counter(card for pair in failing for card in pair)
    return {card for card, count in wrong.items() if 2 * count > every[card]}


def _blaming(result: Result, card: str, address: str | None, share: str) -> Result:
    findings = (
        finding._replace(culprits=(card,), message=f"{finding.message}; {card} is in {share}")
        for finding in result.findings
    )
    return result._replace(address=address or result.address, findings=tuple(findings))
