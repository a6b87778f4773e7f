"""What a mistyped word may have meant."""

import re
from collections.abc import Collection

MOST = 3  # suggestions
SHORTEST_BEGINNING = 3  # letters of a beginning that stands for a word
MOST_LISTED = 20  # words: more of them are a wall, in which nobody finds anything


def closest(word: str, known: Collection[str]) -> list[str]:
    """Return the known words that *word* is a slip of the fingers away from, else those that it
    begins.

    Case and punctuation do not count, nor the area before a dot. A digit is never a slip for
    another one: SXM9 is none for SXM8.

    >>> closest("h100x8", ["h100", "h100-8x"]), closest("mlx5_3", ["mlx5_7"])
    (['h100-8x'], [])
    >>> closest("row_remap", ["memory.row_remap"])
    ['memory.row_remap']
    """
    plain = _plain(word)
    if not plain or plain.isdigit():
        return []
    most = max(1, len(plain) // 3)
    rated: dict[int, list[str]] = {}
    for one in dict.fromkeys(known):
        forms = {_plain(one), _plain(one.rpartition(".")[2])}
        likely = [form for form in forms if abs(len(form) - len(plain)) <= most]
        distances = [_distance(plain, form) for form in likely if not _swaps_digits(plain, form)]
        rated.setdefault(min(distances, default=most + 1), []).append(one)
    nearest = min(rated, default=most + 1)
    if nearest <= most:
        return rated[nearest][:MOST]
    begun = [one for one in dict.fromkeys(known) if _plain(one).startswith(plain)]
    return begun[:MOST] if len(plain) >= SHORTEST_BEGINNING else []


def _plain(word: str) -> str:
    return re.sub(r"[\W_]+", "", word.lower())


def _swaps_digits(one: str, other: str) -> bool:
    masked = [re.sub(r"\d", "0", word) for word in (one, other)]
    return _distance(one, other) > _distance(masked[0], masked[1])


def _distance(one: str, other: str) -> int:
    """Return how many letters must be put in, left out, replaced or swapped with their neighbour.

    >>> _distance("rnu", "run"), _distance("memroy", "memory"), _distance("scan", "schema")
    (1, 1, 4)
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, wanted in enumerate(other, 1):
            steps = [last[column] + 1, now[-1] + 1, last[column - 1] + (letter != wanted)]
            swapped = row > 1 and column > 1 and one[row - 2] == wanted
            if swapped and letter == other[column - 2]:
                steps.append(before[column - 2] + 1)
            now.append(min(steps))
        before, last = last, now
    return last[-1]
