"""Expectations of one value or of several: `power_limit_w: 700`, `power_limit_w: [275, 400]`."""

from typing import Any


def options(expected: Any) -> tuple[Any, ...]:
    """Return the values that an expectation accepts.

    >>> options(700), options([275, 400]), options(None)
    ((700,), (275, 400), ())
    """
    if expected is None:
        return ()
    return tuple(expected) if isinstance(expected, (list, tuple)) else (expected,)


def in_words(expected: Any) -> str:
    """Return an expectation as a sentence has it.

    >>> in_words(700), in_words([275, 400])
    ('700', '275 or 400')
    """
    return " or ".join(
        f"{value:g}" if type(value) is float else str(value) for value in options(expected)
    )
