"""Nothing that was read may be lost in silence where memory runs out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from gpuscan.collectors.reading import make_all


def test_all_is_made() -> None:
    assert make_all(lambda rows: (2 * row for row in rows), range(5)) == [0, 2, 4, 6, 8]
    assert make_all(lambda rows: [row for row in rows if row > 9], range(5)) == []


@pytest.mark.parametrize("taken", range(4))
def test_what_ends_too_early_is_out_of_memory(taken: int) -> None:
    def cut(rows: Iterable[int]) -> Iterator[int]:
        for row in rows:
            if row == taken:
                return
            yield row

    with pytest.raises(MemoryError):
        make_all(cut, range(5))
