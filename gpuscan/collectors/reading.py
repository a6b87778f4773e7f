"""How a fact is taken from a reading: parsed, or `Unread` with the reason, and booked with its
source.
"""

import re
from collections.abc import Callable
from typing import Any

from gpuscan.model import Counter, Unread, is_unread
from gpuscan.recording import NOT_RECORDED, Recording

Sources = dict[str, tuple[str, ...]]


def take(recording: Recording, key: str, parse: Callable[[Any], Any], since: int = 0) -> Any:
    """Return the parsed newest value of *key*, or Unread.

    *since* is the first driver branch that can answer: under an older one, `not-supported` and
    `not-found` become `too-old-driver`. An answer that *parse* rejects is `garbled`.
    """
    value = recording.get(key)
    if is_unread(value):
        if (
            since
            and value.kind in ("not-supported", "not-found")
            and 0 < driver_branch(recording) < since
        ):
            return value._replace(kind="too-old-driver", text=f"needs driver R{since}")
        return value
    return parsed(key, value, parse)


def parsed(key: str, value: Any, parse: Callable[[Any], Any]) -> Any:
    """Return *value* as *parse* makes it, or Unread `garbled` where it makes no sense."""
    try:
        made = parse(value)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, StopIteration):
        return Unread(key, "garbled", f"makes no sense: {value!r:.80}")
    return made._replace(key=key) if is_unread(made) else made


def counter(
    recording: Recording,
    key: str,
    parse: Callable[[Any], Any],
    since: int = 0,
    join: Callable[[int, int], int] = lambda first, last: last - first if last >= first else last,
) -> Any:
    """Return a `Counter` of the readings of *key*: the newest total, and first and last joined
    (their difference).

    One reading alone shows no growth; a counter that fell was set back, and has grown to what it is
    since.
    """
    newest = take(recording, key, parse, since)
    if is_unread(newest):
        return newest
    earlier: list[Any] = [
        parsed(key, r.value, parse) if r.error is None else r.error for r in recording.all(key)[:-1]
    ]
    lack: Any = next((sample for sample in earlier if is_unread(sample)), None)
    if not earlier:
        lack = Unread(key, "not-recorded", "read once: no growth can be seen")
    return Counter(newest, lack if lack is not None else join(earlier[0], newest))


def driver_branch(recording: Recording) -> int:
    """Return the loaded driver's branch (580 for 580.159.04), 0 where it is not known."""
    for key in ("nvml:nvmlSystemGetDriverVersion()", "file:/proc/driver/nvidia/version"):
        value = recording.get(key)
        hit = re.search(r"(?:^|\s)(\d{3,4})\.\d+", value) if isinstance(value, str) else None
        if hit:
            return int(hit[1])
    return 0


def offered(recording: Recording, key: str, parse: Callable[[Any], Any]) -> Any:
    """Return the parsed value of a key that no scan asks for: where no imported text gave it, it
    was not recorded.
    """
    return (
        take(recording, key, parse)
        if key in recording
        else Unread(key, "not-recorded", "no scan asks for it")
    )


def told(parse: Callable[[Any], Any], value: Any) -> Any:
    """Parse one of several values; one that an imported text does not tell is Unread."""
    return (
        Unread("", "not-recorded", "this input does not tell it")
        if value == NOT_RECORDED
        else parse(value)
    )


def text(value: Any) -> str:
    """Parse a line of text; an empty one is an error."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value.strip()


def integer(value: Any) -> int:
    """Parse an integer, or the text of one; NVML's 0.0 of an unfilled field is neither."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(value)
    return int(value, 0) if isinstance(value, str) else value


def count(value: Any) -> int:
    """Parse an integer that is not negative and fits into the 64 bits that any of the sources has."""
    number = integer(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(value)
    return number


def flag(value: Any) -> bool:
    """Parse NVML's 0 or 1."""
    if value in (0, 1) and not isinstance(value, float):
        return bool(value)
    raise ValueError(value)


def last(value: Any) -> str:
    """Parse a path: its last part."""
    return text(value).rstrip("/").rsplit("/", 1)[-1]


def names(value: Any) -> tuple[str, ...]:
    """Parse a directory listing."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(value)
    return tuple(value)
