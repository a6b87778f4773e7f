"""What a check sees: facts and expectations as plain values. Each one that it reads is logged as
evidence; one that was not read, or that the profile leaves open, ends the check.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast

from gpuscan.model import Unread, is_unread
from gpuscan.model.outcome import Evidence
from gpuscan.profile.keys import is_table

if TYPE_CHECKING:
    from gpuscan.profile import Profile

T = TypeVar("T")
Sources = Mapping[str, tuple[str, ...]]


class NotRead(Exception):
    """A check asked for a fact that was not read; the fact log has the reason."""


class NotJudged(Exception):
    """A check asked for an expectation that the profile leaves open."""


class FactLog:
    """What one check read of one subject, and what it could not read.

    *sources* maps a fact's path to its reading keys. *explained* holds the addresses of GPUs whose
    unread facts another check already reports; `read` skips them and lists them in *left_out*.
    """

    def __init__(self, sources: Sources, explained: frozenset[str] = frozenset()) -> None:
        self.sources = sources
        self.explained = explained
        self.left_out: list[str] = []
        self.reads: list[Evidence] = []
        self.missing: list[tuple[str, Unread]] = []

    def keys(self, path: str) -> tuple[str, ...]:
        """Return the reading keys behind a fact, else those of the closest record around it."""
        keys = self.sources.get(path)
        while keys is None and path:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
            keys = self.sources.get(path)
        return keys or ()

    def add_read(self, path: str, value: Any) -> None:
        """Log a fact that was read."""
        self.reads.append(Evidence(path, value, self.keys(path)))

    def add_missing(self, path: str, unread: Unread) -> None:
        """Log a fact that was not read."""
        self.missing.append((path, unread))


class Lens:
    """A record as a check sees it: its facts, and none of the other abilities of a tuple."""

    __slots__ = ("_log", "_path", "_record")
    __hash__ = None  # type: ignore[assignment]  # two lenses on one record are not one fact

    def __init__(self, record: Any, path: str, log: FactLog) -> None:
        _set_record(self, record)
        _set_path(self, path)
        _set_log(self, log)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise TypeError(f"{self._path} is seen through a lens: compare its facts, not its type")

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._record, name)
        if name in ("label", "address"):  # a subject's name says nothing about its health
            return value
        return focus(value, f"{self._path}.{name}" if self._path else name, self._log)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a check cannot change {self._path}.{name}")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError(f"{self._path} is a record: compare one of its facts")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self._path} is a record: assert one of its facts")

    def __repr__(self) -> str:
        return f"<lens on {self._path or 'node'}>"


PLAIN = frozenset((bool, int, float, str))
# these bypass the __setattr__ that refuses checks
_set_record, _set_path, _set_log = (
    vars(Lens)[slot].__set__ for slot in ("_record", "_path", "_log")
)


class ProfileLens:
    """The profile as a check sees it: each expectation that it reads is logged, and an open one
    (`null`) ends the check.
    """

    def __init__(
        self, profile: "Profile", data: Mapping[str, Any], path: str, log: FactLog | None = None
    ) -> None:
        self._profile, self._data, self._path, self._log = profile, data, path, log

    def get(self, name: str) -> Any:
        """Return an expectation, or None if the profile leaves it open, without logging it."""
        return self._data.get(name)

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        if name not in self._data:
            raise AttributeError(
                f"profiles have no key {path}: add it to gpuscan/schemas/profile.schema.json"
            )
        value = self._data[name]
        if isinstance(value, dict) and not is_table(path):
            return ProfileLens(self._profile, value, path, self._log)
        if value is None:
            raise NotJudged(path)
        if self._log is not None:
            self._log.reads.append(
                Evidence(f"profile.{path}", value, (f"profile:{self._profile.name}",))
            )
        return value


def focus(value: Any, path: str, log: FactLog) -> Any:
    """Return *value* as a check may have it; raises NotRead, after logging it, if it was not
    read.
    """
    if type(value) in PLAIN:  # by far the most common case
        log.add_read(path, value)
        return value
    if is_unread(value):
        log.add_missing(path, value)
        raise NotRead(path)
    if hasattr(value, "_fields"):
        return Lens(value, path, log)
    if type(value) is tuple:
        log.add_read(path, len(value))
        return tuple(_item(item, position, path, log) for position, item in enumerate(value))
    log.add_read(path, value)
    return value


def _item(item: Any, position: int, path: str, log: FactLog) -> Any:
    if is_unread(item):
        return focus(item, f"{path}[{position}]", log)
    if hasattr(item, "_fields"):
        return Lens(item, f"{path}[{getattr(item, 'label', position)}]", log)
    return item


def look(record: T, path: str, log: FactLog) -> T:
    """Return *record* through a lens, typed as the record."""
    return cast(T, Lens(record, path, log))


def read(records: Iterable[T], fact: str) -> list[tuple[T, Any]]:
    """Return (record, value of *fact*) for every record in which it was read; log the others.

    *fact* may be dotted (`pcie.width`). GPUs whose unread facts another check already reports are
    left out; a check that then finds nothing wrong is skipped, because it did not see all GPUs.
    """
    pairs = []
    for record in records:
        log: FactLog = object.__getattribute__(record, "_log")
        address = getattr(object.__getattribute__(record, "_record"), "address", None)
        if address in log.explained:
            log.left_out.append(address)
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
    """The value that most records have, the records that differ, and those as text:
    `SXM2 96.00.A5, SXM4 96.00.A7`.
    """

    common: Any
    odd: list[Any]
    told: str


def odd(pairs: Sequence[tuple[Any, Any]]) -> Odd:
    """Split (record, value) pairs into the most common value and the records that differ from it;
    without a majority the first value is the common one.
    """
    values = [value for _, value in pairs]
    common = max(values, key=values.count, default=None)
    others = [(record, value) for record, value in pairs if value != common]
    return Odd(
        common,
        [record for record, _ in others],
        ", ".join(f"{record.label} {value}" for record, value in others),
    )


def odd_siblings(gpus: Iterable[T], fact: str) -> Odd:
    """Return the GPUs in which *fact* differs from what most of their siblings have; only GPUs of
    one device id are siblings, and one whose id was not read has none.
    """
    models: dict[Any, list[tuple[T, Any]]] = {}
    for gpu, value in read(gpus, fact):
        models.setdefault(_device_id(gpu), []).append((gpu, value))
    splits = [odd(pairs) for pairs in models.values()]
    differing = [split for split in splits if split.odd]
    return Odd(
        ", ".join(str(split.common) for split in differing),
        [gpu for split in differing for gpu in split.odd],
        ", ".join(split.told for split in differing),
    )


def _device_id(gpu: Any) -> Any:
    record = object.__getattribute__(gpu, "_record")
    return record.address if is_unread(record.device_id) else record.device_id
