"""How a fact is made of a reading: parsed, or `Unread` with the reason."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from gpuscan.model import Counter, Fact, Unread, is_unread
from gpuscan.model.nvml import TOO_OLD
from gpuscan.recording import NOT_RECORDED, Recording

T = TypeVar("T")
R = TypeVar("R")
Sources = dict[str, tuple[str, ...]]  # a fact's path in the node -> its reading keys
# of one node: sixteen SXM modules, or 32 GPUs in expansion chassis, are the most that are sold;
# what says more has failed, and is no number to count to
MOST_GPUS = 256


def take(recording: Recording, key: str, parse: Callable[[Any], Any], since: int = 0) -> Any:
    """Return the parsed newest value of *key*, or Unread.

    *since* is the first driver branch that can answer: under an older one, `not-supported` and
    `not-found` become `too-old-driver`, as does "function not found" whatever the branch: a branch
    gains functions in its life. A value that *parse* refuses is `garbled`.
    """
    value = recording.get(key)
    if not is_unread(value):
        return parsed(key, value, parse)
    if value.kind not in ("not-supported", "not-found"):
        return value
    if since and 0 < driver_branch(recording) < since:
        return value._replace(kind="too-old-driver", text=f"needs driver R{since}")
    if value.code in TOO_OLD and key.startswith("nvml:"):
        return value._replace(kind="too-old-driver", text="needs a newer driver")
    return value


def make_all(make: Callable[[Iterable[T]], Iterable[R]], rows: Sequence[T]) -> list[R]:
    """Return all that *make* makes of rows; raises MemoryError where it ended before their end.

    Python ends some iterators without a word where memory runs out, and what was not made of a log
    would look as if it had never been logged.
    """
    taken = 0

    def feed() -> Iterator[T]:
        nonlocal taken
        for row in rows:
            taken += 1
            yield row

    made = list(make(feed()))
    if taken < len(rows):
        raise MemoryError
    return made


def parsed(key: str, value: Any, parse: Callable[[Any], Any]) -> Any:
    """Return *value* parsed, or Unread `garbled` if *parse* refuses it."""
    try:
        fact = parse(value)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  # the border: a value from outside may be anything
        return Unread(key, "garbled", f"makes no sense: {value!r:.80}")
    return fact._replace(key=key) if is_unread(fact) else fact


def growth(first: int, last: int) -> int:
    """Return how much a counter grew; one that fell was reset in between, and grew since."""
    return last - first if last >= first else last


def counter(
    recording: Recording,
    key: str,
    parse: Callable[[Any], Any],
    since: int = 0,
) -> Fact[Counter]:
    """Return a `Counter` of the readings of *key*: the newest total, and its growth since the first
    one. The growth of a counter that was read once is `not-recorded`.
    """
    newest = take(recording, key, parse, since)
    if is_unread(newest):
        return newest
    earlier = samples(recording, key, parse)[:-1]
    if not earlier:
        once = Unread(key, "not-recorded", "read once: no growth can be seen")
        return Counter(newest, once)
    for sample in earlier:
        if is_unread(sample):
            return Counter(newest, sample)
    return Counter(newest, growth(earlier[0], newest), seconds_between(recording, key))


def samples(recording: Recording, key: str, parse: Callable[[Any], Any]) -> list[Any]:
    """Return every reading of *key*, parsed, in time order."""
    return [
        parsed(key, reading.value, parse) if reading.error is None else reading.error
        for reading in recording.all(key)
    ]


def seconds_between(recording: Recording, key: str) -> float:
    """Return the seconds between the first and the last reading of *key*, 0 if not known."""
    times_s = [reading.at_s for reading in recording.all(key)]
    return max(times_s[-1] - times_s[0], 0.0) if len(times_s) > 1 else 0.0


def driver_branch(recording: Recording) -> int:
    """Return the loaded driver's branch (580 for 580.159.04), 0 if it is not known."""
    for key in ("nvml:nvmlSystemGetDriverVersion()", "file:/proc/driver/nvidia/version"):
        value = recording.get(key)
        match = re.search(r"(?:^|\s)(\d{3,4})\.\d+", value) if isinstance(value, str) else None
        if match:
            return int(match[1])
    return 0


def offered(recording: Recording, key: str, parse: Callable[[Any], Any]) -> Any:
    """Return the parsed value of a key that no scan reads, only imported texts have."""
    if key not in recording:
        return Unread(key, "not-recorded", "no scan reads it")
    return take(recording, key, parse)


def if_told(parse: Callable[[Any], Any], value: Any) -> Any:
    """Parse one of several values of a reading; Unread if an imported text does not have it."""
    if value == NOT_RECORDED:
        return Unread("", "not-recorded", "not in this input")
    return parse(value)


def text(value: Any) -> str:
    """Parse a line of text; an empty one is refused."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value.strip()


def integer(value: Any) -> int:
    """Parse an integer or its text; 0.0, NVML's value of an unfilled field, is neither."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(value)
    return int(value, 0) if isinstance(value, str) else value


def count(value: Any) -> int:
    """Parse an integer from 0 to 2^64 - 1."""
    number = integer(value)
    if not 0 <= number < 1 << 64:
        raise ValueError(value)
    return number


def gpu_count(value: Any) -> int:
    """Parse a number of GPUs."""
    if count(value) > MOST_GPUS:
        raise ValueError(value)
    return count(value)


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
