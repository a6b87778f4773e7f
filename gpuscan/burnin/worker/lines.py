"""The worker's protocol: a plan comes in as one JSON line, and heartbeats, samples and results go
out, one JSON line each.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO

from gpuscan.errors import UsageError

TESTS = (
    "gemm-exact",
    "gemm-stress",
    "memory",
    "hbm",
    "pcie",
    "peer",
    "nccl",
    "hang",
)  # hang: a drill of a stuck GPU, nothing else
BEAT_S = 1.0
KNOWN = {
    "": {"card", "tests", "more", "cpus"},
    "gemm-exact": {"dtype", "seconds", "size", "kernel", "label"},
    "gemm-stress": {"dtype", "seconds", "size", "kernel", "label", "pulse_s"},
    "memory": {"patterns", "passes", "fraction", "fade_s", "label"},
    "hbm": {"seconds", "mib", "label"},
    "pcie": {"seconds", "mib", "label"},
    "hang": {"label"},
    "nccl": {"cards", "ops", "mib", "seconds", "label"},
    "peer": {"peers", "seconds", "mib", "label"},
}


class Plan(NamedTuple):
    """What a worker is to do: the GPU's PCI address, the tests in their order, whether more come
    line by line, its processors.
    """

    gpu: str
    tests: list[dict[str, Any]]
    more: bool = False
    cpus: tuple[int, ...] = ()


def plan(text: str) -> Plan:
    """Read a plan; UsageError says what is wrong with it."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the worker's plan is not JSON: {error}") from error
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("card"), str)
        or not isinstance(found.get("tests"), list)
    ):
        raise UsageError("the worker's plan needs 'card' (a PCI address) and 'tests' (a list)")
    _known(found, "", "the worker's plan")
    for test in found["tests"]:
        _refuse_unknown(test)
    return Plan(
        found["card"], found["tests"], bool(found.get("more", False)), tuple(found.get("cpus", ()))
    )


def one_more(text: str) -> dict[str, Any]:
    """Read one further test; UsageError says what is wrong with it."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"a test of the worker's plan is not JSON: {error}") from error
    _refuse_unknown(found)
    return dict(found)


def _refuse_unknown(test: Any) -> None:
    if not isinstance(test, dict) or test.get("test") not in TESTS:
        raise UsageError(
            f"the worker's plan has an unknown test: {test!r}; known: {', '.join(TESTS)}"
        )
    _known(
        {name: value for name, value in test.items() if name != "test"},
        test["test"],
        f"the test {test['test']}",
    )


def _known(found: dict[str, Any], of: str, where: str) -> None:
    unknown = sorted(found.keys() - KNOWN[of])
    if unknown:
        raise UsageError(f"{where} has no {unknown[0]!r}; known: {', '.join(sorted(KNOWN[of]))}")


class Teller:
    """Writes lines, each with its kind and a monotonic time; heartbeats at most once a second."""

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = out or sys.stdout
        self._clock = clock
        self._beaten_s = float("-inf")
        self.test = ""

    def tell(self, kind: str, **fields: Any) -> None:
        """Write one line at once."""
        line = (
            {"kind": kind, "at_s": round(self._clock(), 3)}
            | ({"test": self.test} if self.test else {})
            | fields
        )
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()

    def beat(self, **fields: Any) -> None:
        """Say that work goes on, unless that was said a moment ago."""
        if self._clock() - self._beaten_s >= BEAT_S:
            self._beaten_s = self._clock()
            self.tell("heartbeat", **fields)


class Outcome(NamedTuple):
    """What a test found: *status* pass, fail, unknown or skip; a sentence; wrong words; numbers
    with units in their names.
    """

    status: str
    text: str
    operations: int = 0
    mismatches: int = 0
    first: tuple[dict[str, str], ...] = ()
    numbers: Mapping[str, Any] = MappingProxyType({})
    proof: Mapping[str, Any] = MappingProxyType({})


def judged(
    operations: int,
    what: str,
    mismatches: int,
    first: list[dict[str, str]],
    proof: dict[str, Any],
    **numbers: Any,
) -> Outcome:
    """Return a correctness test's outcome: unknown where the detector did not prove itself,
    whatever it then found.

    What was wrong while it proved itself, besides the flips that were injected, is wrong, too.

    >>> judged(3, "words", 0, [], {"proven": True}).text
    'no corruption seen in 3 words'
    >>> judged(3, "words", 0, [], {"proven": False}).status
    'unknown'
    """
    mismatches, first = mismatches + proof.get("wrong", 0), [*proof.get("first", ()), *first][:8]
    kept = (operations, mismatches, tuple(first), numbers, proof)
    if not proof.get("proven"):
        return Outcome(
            "unknown",
            "the detector did not find a flip that was injected: what it sees proves nothing",
            *kept,
        )
    if mismatches:
        return Outcome("fail", f"{mismatches} wrong words in {operations} {what}", *kept)
    return Outcome("pass", f"no corruption seen in {operations} {what}", *kept)
