"""What a check sees: facts as plain values, each booked when read, each missing one booked and
refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from gpuscan.model import Unread, is_unread
from gpuscan.model.outcome import Evidence

T = TypeVar("T")
Sources = Mapping[str, tuple[str, ...]]


class NotRead(Exception):
    """A check reached for a fact that was not read; the lens has booked it."""


class NotJudged(Exception):
    """A check reached for an expectation that the profile leaves open."""


class Book:
    """What one check on one subject has read, could not read, and may leave out."""

    def __init__(self, sources: Sources, explained: frozenset[str] = frozenset()) -> None:
        self.sources = sources
        self.explained = explained
        self.left_out: list[str] = []
        self.reads: list[Evidence] = []
        self.missing: list[tuple[str, Unread]] = []

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the readings behind a fact: its own, or those of the record that holds it."""
        keys = self.sources.get(path)
        while keys is None and path:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
            keys = self.sources.get(path)
        return keys or ()

    def saw(self, path: str, value: Any) -> None:
        """Book a fact that was read."""
        self.reads.append(Evidence(path, value, self.keys(path)))

    def missed(self, path: str, unread: Unread) -> None:
        """Book a fact that was not."""
        self.missing.append((path, unread))


class Lens:
    """A record seen through a book. It has the record's facts and nothing else of a tuple's
    abilities.
    """

    __slots__ = ("_book", "_path", "_record")
    __hash__ = None  # type: ignore[assignment]  # two lenses on one record are not one fact

    def __init__(self, record: Any, path: str, book: Book) -> None:
        _set_record(self, record)
        _set_path(self, path)
        _set_book(self, book)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise TypeError(f"{self._path} is seen through a lens: compare its facts, not its type")

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._record, name)
        if name in ("label", "address"):  # what the subject is called is no fact about its health
            return value
        return focus(value, f"{self._path}.{name}" if self._path else name, self._book)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a check cannot change {self._path}.{name}")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError(f"{self._path} is a record: compare one of its facts")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self._path} is a record: assert one of its facts")

    def __repr__(self) -> str:
        return f"<lens on {self._path or 'node'}>"


PLAIN = frozenset((bool, int, float, str))
# past the __setattr__ that refuses checks
_set_record, _set_path, _set_book = (
    vars(Lens)[slot].__set__ for slot in ("_record", "_path", "_book")
)


def focus(value: Any, path: str, book: Book) -> Any:
    """Return *value* as a check may have it; raises NotRead, after booking, for what was not read."""
    if type(value) in PLAIN:  # most facts by far
        book.saw(path, value)
        return value
    if is_unread(value):
        book.missed(path, value)
        raise NotRead(path)
    if hasattr(value, "_fields"):
        return Lens(value, path, book)
    if type(value) is tuple:
        book.saw(path, len(value))
        return tuple(_item(item, position, path, book) for position, item in enumerate(value))
    book.saw(path, value)
    return value


def _item(item: Any, position: int, path: str, book: Book) -> Any:
    if hasattr(item, "_fields") and not is_unread(item):
        return Lens(item, f"{path}[{getattr(item, 'label', position)}]", book)
    return focus(item, f"{path}[{position}]", book) if is_unread(item) else item


def look(record: T, path: str, book: Book) -> T:
    """Return *record* through a lens, typed as the record so that checks read and type-check like
    prose.
    """
    return cast(T, Lens(record, path, book))


def read(records: Iterable[T], fact: str) -> list[tuple[T, Any]]:
    """Return (record, value of *fact*) for every record where it was read; the rest are booked as
    unread.

    *fact* may be dotted (`pcie.width`). GPUs whose silence another check has already reported are
    left out; where that leaves nothing wrong the result is a skip, for what was compared is not
    all.
    """
    pairs = []
    for record in records:
        book: Book = object.__getattribute__(record, "_book")
        address = getattr(object.__getattribute__(record, "_record"), "address", None)
        if address in book.explained:
            book.left_out.append(address)
            continue
        value: Any = record
        try:
            for name in fact.split("."):
                value = getattr(value, name)
        except NotRead:
            continue
        pairs.append((record, value))
    return pairs


class Odd(NamedTuple):
    """Those that differ from what most have: the common value, the records that differ, and both
    in words.
    """

    common: Any
    odd: list[Any]
    told: str


def odd(pairs: Sequence[tuple[Any, Any]]) -> Odd:
    """Split (record, value) pairs into what most have and who differs; without a majority the
    first value is common.
    """
    values = [value for _, value in pairs]
    common = max(values, key=values.count, default=None)
    others = [(record, value) for record, value in pairs if value != common]
    return Odd(
        common,
        [record for record, _ in others],
        ", ".join(f"{record.label} {value}" for record, value in others),
    )
