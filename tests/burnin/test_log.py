"""The kernel log as a burn-in follows it: whose lines are kept, and what is told where there are
more.
"""

from __future__ import annotations

from typing import Any

import pytest
from fake_burnin import FakeReader
from nodes_recordings import base
from paths import RECORDINGS

from gpuscan import collectors
from gpuscan.burnin.clock import real_clock
from gpuscan.burnin.counters import MAX_LINES, CounterLog
from gpuscan.collectors.burnin_counters import TAIL
from gpuscan.model.unread import Unread
from gpuscan.recording import Reading, load, patch

KNOWN = load(str(RECORDINGS / "h100-2x.json.gz"))
GPU = "0000:00:06.0"
XID = "4,9,9,-;NVRM: Xid (PCI:0000:00:06): 13, pid=1, name=x, Graphics SM Warp Exception"
OTHERS = "4,9,9,-;mlx5_core 0000:ab:00.0: AER: Corrected error received"


def kept(*parts: tuple[str, list[str] | None]) -> list[tuple[str, int]]:
    """Follow a log of lines (None: it cannot be read); return of each reading kept the test, and
    its lines (-1: unread).
    """
    node: Any = collectors.node(KNOWN)
    gpus = [gpu.address for gpu in node.gpus]
    log = CounterLog(FakeReader(KNOWN), KNOWN, gpus, real_clock())
    for name, lines in parts:
        error = Unread(TAIL, "garbled", "records were overwritten") if lines is None else None
        log.note_log([Reading(TAIL, lines, error)], name)
    return [
        (reading.phase, -1 if reading.error is not None else len(reading.value))
        for reading in log.readings
    ]


def test_each_test_is_told_to_have_been_looked_at() -> None:
    assert kept(("memory", []), ("memory", []), ("hbm", [])) == [("memory", 0), ("hbm", 0)]


def test_other_devices_lines_push_out_no_gpu_s() -> None:
    assert kept(("memory", [OTHERS] * 5000), ("stress-bf16", [XID])) == [
        ("memory", 0),
        ("stress-bf16", 1),
    ]


def test_a_storm_in_one_test_is_unread_and_costs_no_other() -> None:
    assert kept(("memory", [XID] * (MAX_LINES + 1)), ("memory", [XID]), ("hbm", [XID])) == [
        ("memory", -1),
        ("hbm", 1),
    ]


def test_a_gpu_is_known_by_its_address_whoever_speaks() -> None:
    assert kept(
        ("hbm", [f"4,9,9,-;pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error: {GPU}"])
    ) == [("hbm", 1)]


def test_a_log_that_is_lost_on_the_way_is_told_once_a_test_and_what_was_read_stays() -> None:
    parts = kept(
        ("hbm", []),
        ("hbm", None),
        ("hbm", None),
        ("hbm", [XID]),
        ("memory", [XID]),
        ("memory", None),
    )
    assert parts == [("hbm", 0), ("hbm", -1), ("hbm", 1), ("memory", 1), ("memory", -1)]


AER = """pcieport 0000:00:01.0: AER: {0} error {1} {2}
nvidia {2}: PCIe Bus Error: severity={3}, type=Physical Layer, (Receiver ID)
nvidia {2}:   device [10de:2335] error status/mask=00000001/0000a000
nvidia {2}:    [ 0] RxErr                  (First)"""


@pytest.mark.parametrize(
    ("words", "is_fault"),
    [
        (("Corrected", "received:", "Corrected"), False),
        (("Correctable", "message received from", "Correctable"), False),  # Linux 6.8 and newer
        (("Uncorrected (Non-Fatal)", "received:", "Uncorrected (Non-Fatal)"), True),
        (("Uncorrectable (Fatal)", "message received from", "Uncorrectable (Fatal)"), True),
    ],
)
def test_a_corrected_pcie_error_is_counted_and_is_no_fault(
    words: tuple[str, str, str], is_fault: bool
) -> None:
    """Whatever the kernel's age, and with all the lines that it takes to tell one."""
    recording = base("h200-2x-quick")
    whole: Any = collectors.node(recording)
    gpu = whole.gpus[0]
    error, came, severity = words
    lines = [
        f"4,9,9,-;{line}" for line in AER.format(error, came, gpu.address, severity).splitlines()
    ]
    node: Any = collectors.node(patch(recording, {TAIL: {"phase": "hbm", "value": lines}}))
    (logged,) = [test.logged for test in node.tests if test.label == f"{gpu.label} hbm"]
    assert bool(logged) is is_fault
