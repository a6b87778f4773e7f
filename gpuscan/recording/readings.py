"""Readings and recordings: every raw answer of one node, value or error, with its time."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any, NamedTuple

from gpuscan.model import READING_KINDS, Unread
from gpuscan.recording.meta import Meta, parse_meta

# stands in a list or record of values for one that an imported text does not contain
NOT_RECORDED = "not recorded"


@lru_cache(maxsize=64)  # many recordings share one scope, and compiling it takes a millisecond
def _compile_scope(scope: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, scope)) or "(?!)")


class Reading(NamedTuple):
    """One answer: *value*, or *error* if there was none.

    *at_s* is Unix time; *ms* is how long the answer took; *phase* is the part of the run in which
    it was read.
    """

    key: str
    value: Any
    error: Unread | None = None
    at_s: float = 0.0
    ms: float = 0.0
    phase: str = "scan"


class Recording:
    """Readings by key, in the order in which they came; readings are only ever added.

    *meta* may be given as JSON; *scope* is globs of the keys that the collection set out to read.
    """

    def __init__(
        self,
        meta: Meta | Mapping[str, Any],
        scope: Iterable[str],
        readings: Iterable[Reading] = (),
    ) -> None:
        self.meta = meta if isinstance(meta, Meta) else parse_meta(meta)
        self.scope = tuple(scope)
        self._covered: re.Pattern[str] | None = None
        self._by_key: dict[str, list[Reading]] = {}
        for reading in readings:
            self.add(reading)

    def add(self, reading: Reading) -> None:
        """Append one reading."""
        self._by_key.setdefault(reading.key, []).append(reading)

    def widen(self, patterns: Iterable[str]) -> None:
        """Add globs to the scope."""
        self.scope = (*self.scope, *patterns)
        self._covered = None

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Reading]:
        return (reading for readings in self._by_key.values() for reading in readings)

    def keys(self) -> Iterable[str]:
        """Return every key that was asked, answered or not."""
        return self._by_key.keys()

    def all(self, key: str) -> list[Reading]:
        """Return every reading of *key* in time order, an empty list if it was never asked."""
        return self._by_key.get(key, [])

    def get(self, key: str) -> Any:
        """Return the newest value of *key*, or `Unread` with the reason why there is none."""
        readings = self._by_key.get(key)
        if readings:
            newest = readings[-1]
            if newest.error is None:
                return newest.value
            known = newest.error.kind in READING_KINDS
            return newest.error if known else newest.error._replace(kind="garbled")
        if not self.covers(key):
            return Unread(key, "not-recorded", "outside the scope of this recording")
        return Unread(key, "blocked-behind", "not asked: the scan ended before")

    def covers(self, key: str) -> bool:
        """Return whether *key* lies within what this recording set out to read."""
        if self._covered is None:
            self._covered = _compile_scope(self.scope)
        return self._covered.match(key) is not None
