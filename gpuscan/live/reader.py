"""What the two kinds of reader have in common: where they read, and the answers they give."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

# key, value, error (kind, text, code) or None
Answer = tuple[str, Any, tuple[str, str, int | None] | None]


class Places(NamedTuple):
    """The parent's first message: the roots to read below, and after how many seconds an NVML call
    (*slow_s*), a command (*run_s*) or one that asks the whole fabric (*sweep_s*) is too slow.
    """

    root: str = "/"
    driver_root: str = ""
    slow_s: float = 5.0
    run_s: float = 8.0
    sweep_s: float = 32.0


class Reader(Protocol):
    """Groups the keys that can be read in one call, and answers a group."""

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        """Yield the keys in the groups in which they are read, in their order."""

    def answer(self, batch: list[str]) -> list[Answer]:
        """Return one answer per key."""
