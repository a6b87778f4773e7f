"""Rules of the GPUs' links, modes, clocks and counters over generated states: the class of each by
a table that knows nothing of the checks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest
from nodes_recordings import base, judged

from gpuscan.recording import patch

GPUS = [
    key.split("(")[1].rstrip(")")
    for key in base("h100-8x-ib").keys()
    if key.startswith("nvml:nvmlDeviceGetPerformanceState(")
]
ONE = GPUS[2]
WIDTHS, GENERATIONS, STATES = (1, 4, 8, 16), (1, 3, 4, 5), (0, 2, 8)
SEED, LINKS = 20, 60
FLAGS = (0x8, 0x40, 0x80, 0x48, 0x88)


def call(name: str, gpu: str = "*", *args: int) -> str:
    return f"nvml:nvmlDeviceGet{name}({','.join([gpu, *map(str, args)])})"


class LinkCase(NamedTuple):
    """The PCIe links of a node: *broken* GPUs have this width and generation, the rest x16 at 5."""

    width: int
    generation: int
    state: int
    everywhere: bool
    busy: bool
    profile: str

    def code(self) -> int:
        """By the rule: width counts always, generation in P0; a node whose links all run at the
        same lower generation has a setting to correct.
        """
        slow = self.generation < 5 and self.state == 0
        if self.width < 16 or (slow and not self.everywhere):
            return 40
        return 20 if slow else 0

    def changes(self) -> dict[str, Any]:
        where = GPUS if self.everywhere else [ONE]
        states = {call("PerformanceState", gpu): self.state for gpu in GPUS}
        widths = {call("CurrPcieLinkWidth", gpu): self.width for gpu in where}
        return (
            states
            | widths
            | {call("CurrPcieLinkGeneration", gpu): self.generation for gpu in where}
        )


def link_cases() -> Iterator[LinkCase]:
    grid = list(
        product(WIDTHS, GENERATIONS, STATES, (False, True), (False, True), ("h100-8x", "default"))
    )
    yield from (LinkCase(*row) for row in random.Random(SEED).sample(grid, LINKS))


@pytest.mark.sweep
@pytest.mark.parametrize("case", list(link_cases()), ids=str)
def test_links(case: LinkCase) -> None:
    recording = patch(base("h100-8x-ib"), case.changes())
    assert judged(recording, case.profile, busy=case.busy).exit_code == case.code()


MODES = list(product(("EccMode", "MigMode"), (0, 1), (0, 1), (None, False, True)))


def mode_code(current: int, pending: int, wanted: bool | None) -> int:
    """By the rule: what will be as wanted takes a reset, what will not be is a setting."""
    if wanted is None:
        return 30 if current != pending else 0
    if pending == wanted:
        return 0 if current == wanted else 30
    return 20


@pytest.mark.parametrize(("mode", "current", "pending", "wanted"), MODES)
def test_modes(mode: str, current: int, pending: int, wanted: bool | None) -> None:
    recording = patch(base("h100-8x-ib"), {call(mode, gpu): [current, pending] for gpu in GPUS})
    key = "gpu.ecc" if mode == "EccMode" else "gpu.mig"
    settings = [] if wanted is None else [f"{key}={str(wanted).lower()}"]
    report = judged(recording, "default", settings)
    assert report.exit_code == mode_code(current, pending, wanted)


@pytest.mark.parametrize("mode", ["EccMode", "MigMode", "PersistenceMode", "ComputeMode"])
@pytest.mark.parametrize("odd", range(0, 8, 3))
def test_modes_that_differ(mode: str, odd: int) -> None:
    values = {"EccMode": [0, 0], "MigMode": [1, 1], "PersistenceMode": 0, "ComputeMode": 3}
    recording = patch(base("h100-8x-ib"), {call(mode, GPUS[odd]): values[mode]})
    assert judged(recording, "default").exit_code == 20


SLOWDOWNS = list(product(FLAGS, ("steady", "first", "last"), (False, True), (False, True)))


@pytest.mark.sweep
@pytest.mark.parametrize(("flags", "when", "busy", "everywhere"), SLOWDOWNS)
def test_slowdowns(flags: int, when: str, busy: bool, everywhere: bool) -> None:
    """Steady ones fail, busy or idle, on one GPU or on all; a flash warns."""
    samples = {"steady": [flags, flags], "first": [flags, 1], "last": [1, flags]}[when]
    where = GPUS if everywhere else [ONE]
    changes = {call("CurrentClocksEventReasons", gpu): {"samples": samples} for gpu in where}
    report = judged(patch(base("h100-8x-ib"), changes), "h100-8x", busy=busy)
    assert (report.exit_code, report.verdict) == (
        (40, "hardware") if when == "steady" else (0, "warn")
    )


@pytest.mark.parametrize("growth", [1, 7, 31, 32, 400, 5000])
@pytest.mark.parametrize("busy", [False, True])
def test_replays(growth: int, busy: bool) -> None:
    """DCGM allows 31 a minute on x16 at generation 5; a scan lasts about a second."""
    key = call("PcieReplayCounter", ONE)
    report = judged(patch(base("h100-8x-ib"), {key: {"growth": growth}}), busy=busy)
    assert (report.exit_code, report.verdict) == ((40, "hardware") if growth > 31 else (0, "warn"))


KINDS = ("DLP", "TLP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "MalfTLP", "UnsupReq", "ACSViol")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 9, 10, 60, 500])
def test_nonfatal_errors(kind: str, number: int) -> None:
    """Requests that are not supported are counted at boot; a few may stay unanswered."""
    text = f"{kind} {number}\nTOTAL_ERR_NONFATAL {number}\n"
    key = f"file:/sys/bus/pci/devices/{ONE}/aer_dev_nonfatal"
    unanswered = kind in ("CmpltTO", "CmpltAbrt", "UnxCmplt")
    harmless = kind in ("UnsupReq", "ACSViol") or (unanswered and number < 10)
    report = judged(patch(base("h100-8x-ib"), {key: text}))
    assert report.exit_code == (0 if harmless else 30)


@pytest.mark.sweep
@pytest.mark.parametrize("used_mib", [645, 3072, 3073, 40960])
@pytest.mark.parametrize("owner", ["", "Compute", "MPSCompute", "Graphics"])
@pytest.mark.parametrize("busy", [False, True])
def test_memory_in_use(used_mib: int, owner: str, busy: bool) -> None:
    """Memory that no program owns, and programs that compute, fail on a drained node."""
    changes: dict[str, Any] = {call("MemoryInfo", ONE): {"with": {"used": used_mib << 20}}}
    if owner:
        changes[call(f"{owner}RunningProcesses", ONE)] = [{"pid": 77, "usedGpuMemory": None}]
    report = judged(patch(base("h100-8x-ib"), changes), busy=busy)
    fault = "Compute" in owner or (not owner and used_mib > 3072)
    assert report.exit_code == (20 if fault and not busy else 0)
    assert report.verdict == (
        "software" if fault and not busy else "warn" if fault or owner else "pass"
    )
