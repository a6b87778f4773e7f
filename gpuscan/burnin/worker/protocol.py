"""The worker's protocol: a plan comes in as one JSON line and further tests as one line each;
heartbeats, samples and results go out, one JSON line each.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

from gpuscan.burnin.results import MAX_LISTED, BurnInResult, BurnInStatus
from gpuscan.burnin.worker.detecting import Mismatches, Proof
from gpuscan.errors import UsageError
from gpuscan.text import counted

TESTS = (
    "gemm-exact",
    "gemm-stress",
    "memory",
    "hbm",
    "pcie",
    "peer",
    "nccl",
    "hang",  # a drill: a kernel that never ends
)
HEARTBEAT_S = 1.0
KNOWN_KEYS = {
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


class WorkerPlan(NamedTuple):
    """What a worker is to do: the GPU's PCI address, tests in order, whether more tests follow line
    by line, and the CPUs to run on (all if none).
    """

    gpu: str
    tests: list[dict[str, Any]]
    more: bool = False
    cpus: tuple[int, ...] = ()


def parse_plan(text: str) -> WorkerPlan:
    """Parse the first line, `{"card": "0000:1b:00.0", "tests": [], "more": true, "cpus": [0, 1]}`;
    raises UsageError.
    """
    try:
        plan = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the worker's plan is not JSON: {error}") from error
    if (
        not isinstance(plan, dict)
        or not isinstance(plan.get("card"), str)
        or not isinstance(plan.get("tests"), list)
    ):
        raise UsageError("the worker's plan needs 'card' (a PCI address) and 'tests' (a list)")
    _refuse_unknown_keys(plan, "", "the worker's plan")
    for test in plan["tests"]:
        _refuse_unknown_test(test)
    return WorkerPlan(
        plan["card"], plan["tests"], bool(plan.get("more", False)), tuple(plan.get("cpus", ()))
    )


def parse_test(text: str) -> dict[str, Any]:
    """Parse one further test, `{"test": "gemm-exact", "dtype": "bf16", "seconds": 4}`; raises
    UsageError.
    """
    try:
        test = json.loads(text)
    except ValueError as error:
        raise UsageError(f"a test of the worker's plan is not JSON: {error}") from error
    _refuse_unknown_test(test)
    return dict(test)


def _refuse_unknown_test(test: Any) -> None:
    if not isinstance(test, dict) or test.get("test") not in TESTS:
        raise UsageError(
            f"the worker's plan has an unknown test: {test!r}; known: {', '.join(TESTS)}"
        )
    options = {name: value for name, value in test.items() if name != "test"}
    _refuse_unknown_keys(options, test["test"], f"the test {test['test']}")


def _refuse_unknown_keys(row: dict[str, Any], test: str, where: str) -> None:
    unknown = sorted(row.keys() - KNOWN_KEYS[test])
    if unknown:
        known = ", ".join(sorted(KNOWN_KEYS[test]))
        raise UsageError(f"{where} has no {unknown[0]!r}; known: {known}")


class EventWriter:
    """Writes one JSON line per event, each with its kind and a monotonic time; heartbeats at most
    once a second.
    """

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = out or sys.stdout
        self._clock = clock
        self._last_beat_s = float("-inf")
        self.test = ""

    def write(self, kind: str, **fields: Any) -> None:
        """Write one line and flush it."""
        line: dict[str, Any] = {"kind": kind, "at_s": round(self._clock(), 3)}
        if self.test:
            line["test"] = self.test
        self._out.write(json.dumps(line | fields) + "\n")
        self._out.flush()

    def heartbeat(self, **fields: Any) -> None:
        """Say that work goes on, unless the last heartbeat was less than a second ago."""
        if self._clock() - self._last_beat_s >= HEARTBEAT_S:
            self._last_beat_s = self._clock()
            self.write("heartbeat", **fields)


def make_result(
    status: BurnInStatus, text: str, *, numbers: dict[str, Any] | None = None
) -> BurnInResult:
    """Return the result of a test that compared nothing."""
    return BurnInResult(status, text, operations=0, mismatches=0, numbers=numbers or {})


def judge_comparison(
    operations: int, what: str, mismatches: Mismatches, proof: Proof, **numbers: Any
) -> BurnInResult:
    """Return a correctness test's result: unknown where the detector missed an injected flip,
    whatever it found afterwards.

    Mismatches seen during that proof, other than the injected ones, count as well.

    >>> judge_comparison(3, "words", Mismatches(), Proof(True)).text
    'no corruption seen in 3 words'
    >>> judge_comparison(3, "words", Mismatches(), Proof(False)).status.value
    'unknown'
    """
    count = mismatches.total + proof.wrong
    result = BurnInResult(
        BurnInStatus.PASS,
        f"no corruption seen in {operations} {what}",
        operations=operations,
        mismatches=count,
        first=(*proof.first, *mismatches.first)[:MAX_LISTED],
        numbers=numbers,
        proof=proof.to_json(),
    )
    if not proof.proven:
        text = "the detector missed a flip that was injected, so its results prove nothing"
        return result._replace(status=BurnInStatus.UNKNOWN, text=text)
    if count:
        text = f"{counted(count, 'mismatch', 'mismatches')} in {operations} {what}"
        return result._replace(status=BurnInStatus.FAIL, text=text)
    return result
