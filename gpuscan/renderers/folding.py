"""Short names for many subjects: `gpu SXM[5-8]`."""

import re
from collections.abc import Sequence

from gpuscan.model.subject import Subject
from gpuscan.text import counted

MOST_TESTS = 4  # of a burn-in that are named
MOST_PLACES = 8  # pairs of GPUs that are named


def fold(subjects: Sequence[Subject]) -> str:
    """Fold subjects of one kind whose labels differ in their number only; others are listed.

    >>> fold([Subject("gpu", "SXM5"), Subject("gpu", "SXM6")]), fold([Subject("node")])
    ('gpu SXM[5-6]', 'node')
    """
    first = subjects[0]
    if len(subjects) == 1:
        return first.label if first.kind == "incident" else f"{first.kind} {first.label}".rstrip()
    if first.kind == "test":
        return f"test {_fold_tests(subjects)}"
    return f"{first.kind} {fold_names([subject.label for subject in subjects])}"


def fold_names(names: Sequence[str]) -> str:
    """Fold names that differ in one number only, before the port's or at the end; others are
    listed.

    >>> fold_names(["SXM7", "SXM5", "SXM6"]), fold_names(["mlx5_0/1", "mlx5_1/1"])
    ('SXM[5-7]', 'mlx5_[0-1]/1')
    >>> fold_names(["mlx5_0/1", "mlx5_1/2"])
    'mlx5_0/1, mlx5_1/2'
    """
    numbered = [re.fullmatch(r"(.*?)(0|[1-9]\d*)(/\d+)?", name) for name in names]
    stems = {(match[1], match[3] or "") for match in numbered if match}
    if len(names) == 1 or len(stems) != 1 or not all(numbered):
        return ", ".join(names)
    numbers = sorted(int(match[2]) for match in numbered if match)
    stem, tail = stems.pop()
    return f"{stem}[{ranges(numbers)}]{tail}"


def _fold_tests(tests: Sequence[Subject]) -> str:
    """Fold a burn-in's tests by what was tested: `exact-gemm on SXM[5-8], peer on SXM5 to SXM6`."""
    by_name: dict[str, list[Subject]] = {}
    for one in tests:
        by_name.setdefault(one.test, []).append(one)
    if len(by_name) <= MOST_TESTS:
        return ", ".join(f"{name} on {_fold_places(alike)}" for name, alike in by_name.items())
    gpus = dict.fromkeys(one.gpu for alike in by_name.values() for one in alike)
    first = ", ".join(list(by_name)[:MOST_TESTS])
    others = len(by_name) - MOST_TESTS
    return f"{first} and {counted(others, 'more test')} on {fold_names(list(gpus))}"


def _fold_places(tests: Sequence[Subject]) -> str:
    places = [f"{one.gpu} to {one.peer}" if one.peer else one.gpu for one in tests]
    unique = list(dict.fromkeys(places))
    if not any(one.peer for one in tests):
        return fold_names(unique)
    more = f" and {len(unique) - MOST_PLACES} more" if len(unique) > MOST_PLACES else ""
    return f"{', '.join(unique[:MOST_PLACES])}{more}"


def ranges(numbers: Sequence[int]) -> str:
    """Fold sorted numbers.

    >>> ranges([5, 6, 7, 9])
    '5-7,9'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
