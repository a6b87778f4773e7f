"""The result of one burn-in test on one GPU: a record here, JSON on the worker's pipe and in
recordings.

This module is the only place that knows the JSON's keys. A result looks like this (a worker's own
result has everything up to `options`; the scheduler adds the rest):

    {"seconds": 4.1, "error": null, "status": "pass", "text": "no corruption seen in 2664 …",
     "operations": 2664, "mismatches": 0, "first": [], "numbers": {"tflops": 787.0, "got": "bd7e…"},
     "proof": {"proven": true, …}, "options": {"dtype": "bf16", "seconds": 4},
     "load": {"samples": 4, "core_c": 62, …}, "step": "exact-bf16", "kind": "exact", "hot": false,
     "runs": 1, "again": {"status": "pass", "mismatches": 0, …}, "earlier": {}}
"""

from collections.abc import Mapping
from enum import Enum
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.model.burnin import Mismatch

MAX_LISTED = 8  # mismatches that a result lists one by one
EMPTY: Mapping[str, Any] = MappingProxyType({})


class BurnInStatus(str, Enum):
    """How a test ended, from best to worst.

    `unknown` means that it proves nothing, `lost` that CUDA lost the GPU, `stuck` that the GPU did
    not finish what was started.
    """

    SKIP = "skip"
    PASS = "pass"  # noqa: S105
    UNKNOWN = "unknown"
    FAIL = "fail"
    LOST = "lost"
    STUCK = "stuck"

    @property
    def severity(self) -> int:
        """Return the rank, 0 for the best."""
        return list(BurnInStatus).index(self)

    @property
    def ended_early(self) -> bool:
        """Return whether the GPU failed before the test was done."""
        return self in (BurnInStatus.LOST, BurnInStatus.STUCK)


class CudaFailure(NamedTuple):
    """CUDA's name and number of an error, or our own name: HUNG, NOT_STARTED, NO_DRIVER,
    NO_BINDING, PLAN.
    """

    name: str
    code: int = 0


class LoadSummary(NamedTuple):
    """What NVML showed of a GPU during a test.

    *values* are keyed as the fields of `model.Load`, and `margin_c`, the degrees left to the GPU's
    limit; *missing* holds, for each sampled value that was never answered, the kind and text of the
    error.
    """

    samples: int = 0
    values: Mapping[str, float] = EMPTY
    missing: Mapping[str, tuple[str, str]] = EMPTY

    @classmethod
    def from_json(cls, value: Any) -> "LoadSummary":
        """Parse a result's `load`; ValueError where it makes no sense."""
        row = _mapping(value, "load")
        missing = {
            name: (str(kind), str(text))
            for name, (kind, text) in _mapping(row.get("lacks"), "lacks").items()
        }
        values = {
            name: _number(number)
            for name, number in row.items()
            if name not in ("samples", "lacks")
        }
        return cls(_count(row.get("samples", 0)), values, missing)

    def to_json(self) -> dict[str, Any]:
        """Return a result's `load`."""
        row: dict[str, Any] = {"samples": self.samples, **self.values}
        if self.missing:
            row["lacks"] = {name: list(error) for name, error in self.missing.items()}
        return row


class SecondTry(NamedTuple):
    """What a repetition found after a mismatch, a deviating product or a low rate; None where it
    does not say.
    """

    status: BurnInStatus | None = None
    text: str | None = None
    mismatches: int | None = None
    numbers: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, value: Any) -> "SecondTry":
        """Parse a result's `again`; ValueError where it makes no sense."""
        row = _mapping(value, "again")
        return cls(
            BurnInStatus(row["status"]) if "status" in row else None,
            str(row["text"]) if "text" in row else None,
            _count(row["mismatches"]) if "mismatches" in row else None,
            _mapping(row["numbers"], "numbers") if "numbers" in row else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a result's `again`."""
        row = self._asdict()
        if self.status is not None:
            row["status"] = self.status.value
        if self.numbers is not None:
            row["numbers"] = dict(self.numbers)
        return {name: value for name, value in row.items() if value is not None}


class BurnInResult(NamedTuple):
    """One test on one GPU, over all rounds so far.

    *operations* and *mismatches* are None where nothing was compared (the GPU could not be opened,
    or hung). *numbers* are the newest round's measurements by the test's own names
    (`rates.rates` turns them into labelled rates), *proof* shows that the detector found injected
    flips, *options* are what the worker was asked. *kind* and *step* name the planned step. *again*
    is the newest second try; *earlier* has, by rate label, the tries of the slowest earlier round.
    *details* are further keys, as the worker's greeting gives them when a GPU is opened.
    """

    status: BurnInStatus
    text: str = ""
    seconds: float | None = None
    error: CudaFailure | None = None
    operations: int | None = None
    mismatches: int | None = None
    first: tuple[Mismatch, ...] = ()
    numbers: Mapping[str, Any] = EMPTY
    proof: Mapping[str, Any] = EMPTY
    options: Mapping[str, Any] = EMPTY
    load: LoadSummary | None = None
    step: str = ""
    kind: str = ""
    hot: bool = False
    runs: int | None = None
    again: SecondTry | None = None
    earlier: Mapping[str, tuple[float, ...]] | None = None
    details: Mapping[str, Any] = EMPTY

    @property
    def product_hash(self) -> str:
        """Return the hash of a matrix product, empty where the test makes none."""
        return str(self.numbers.get("got", ""))

    @classmethod
    def from_json(cls, value: Any) -> "BurnInResult":
        """Parse a result; ValueError where it makes no sense."""
        try:
            return cls._parse(_mapping(value, "result"))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no result of a burn-in test: {error}") from error

    @classmethod
    def _parse(cls, row: Mapping[str, Any]) -> "BurnInResult":
        error = row.get("error") or {}
        return cls(
            status=BurnInStatus(row["status"]),
            text=str(row.get("text", "")),
            seconds=_number(row["seconds"]) if "seconds" in row else None,
            error=CudaFailure(str(error["name"]), int(error.get("code", 0))) if error else None,
            operations=_count(row["operations"]) if "operations" in row else None,
            mismatches=_count(row["mismatches"]) if "mismatches" in row else None,
            first=tuple(map(parse_mismatch, row.get("first") or ())),
            numbers=_mapping(row.get("numbers"), "numbers"),
            proof=_mapping(row.get("proof"), "proof"),
            options=_mapping(row.get("options"), "options"),
            load=LoadSummary.from_json(row["load"]) if row.get("load") else None,
            step=str(row.get("step", "")),
            kind=str(row.get("kind", "")),
            hot=row.get("hot") is True,
            runs=_count(row["runs"]) if "runs" in row else None,
            again=SecondTry.from_json(row["again"]) if row.get("again") else None,
            earlier=_parse_tries(row["earlier"]) if "earlier" in row else None,
            details={name: value for name, value in row.items() if name not in _KEYS},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result as the worker's pipe and the recording hold it."""
        row: dict[str, Any] = {}
        if self.seconds is not None:
            row["seconds"] = self.seconds
        if self.error is not None or self.operations is not None:
            row["error"] = self.error._asdict() if self.error is not None else None
        row |= {"status": self.status.value, "text": self.text}
        if self.operations is not None:
            row |= {
                "operations": self.operations,
                "mismatches": self.mismatches,
                "first": [format_mismatch(each) for each in self.first],
                "numbers": dict(self.numbers),
                "proof": dict(self.proof),
                "options": dict(self.options),
            }
        if self.load is not None:
            row["load"] = self.load.to_json()
        if self.step:
            row["step"] = self.step
        if self.kind:
            row["kind"] = self.kind
        if self.step:
            row["hot"] = self.hot
        if self.runs is not None:
            row["runs"] = self.runs
        if self.again is not None:
            row["again"] = self.again.to_json()
        if self.earlier is not None:
            row["earlier"] = {label: list(tries) for label, tries in self.earlier.items()}
        return row | dict(self.details)


_KEYS = frozenset(BurnInResult._fields) - {"details"}


def parse_mismatch(row: Mapping[str, Any]) -> Mismatch:
    """Parse one entry of a result's `first`."""
    named = {"gpu": row.get("card", ""), **row}
    return Mismatch(*(str(named.get(name, "")) for name in Mismatch._fields))


def format_mismatch(mismatch: Mismatch) -> dict[str, str]:
    """Return one entry of a result's `first`; the JSON's key for the GPU of a collective is
    `card`.
    """
    row = {name: value for name, value in mismatch._asdict().items() if value}
    return {("card" if name == "gpu" else name): value for name, value in row.items()}


def _parse_tries(value: Any) -> dict[str, tuple[float, ...]]:
    rows = _mapping(value, "earlier")
    return {label: tuple(map(_number, tries)) for label, tries in rows.items()}


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return EMPTY
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} is no object: {value!r:.80}")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ValueError(f"no count: {value!r:.80}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(f"no number: {value!r:.80}")
    return value
