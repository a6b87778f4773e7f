"""How often a held fault came: as the log and the counters of its boot had it."""

from __future__ import annotations

from typing import Any

import pytest
from faults import FAULTS
from over_time import EIGHT, Node

from gpuscan.collectors import node as collect
from gpuscan.engine import judging
from gpuscan.engine.rates import COUNTERS, DOCUMENTED
from gpuscan.recording import load

UPTIME_S = collect(load(EIGHT)).host.uptime_s
XID = "NVRM: Xid (PCI:0000:52:00): 119, pid=1, name=x, Timeout waiting for RPC from GSP0!"


def held(report: dict[str, Any]) -> tuple[str, int, float]:
    (one,) = report["hold"]["reasons"]
    return one["check"], one["events"], one["over_s"]


@pytest.mark.parametrize(
    ("fault", "check", "least"),
    [
        ("ecc-uncorrectable", "memory.uncorrectable_ecc", 2),
        ("pcie-replays-storm", "pcie.replays", 4000),
        ("nvlink-crc-many", "nvlink.link_errors", 150),
        ("port-symbol-error-storm", "infiniband.symbol_errors", 121),
        ("aer-fatal", "pcie.fatal_errors", 1),
    ],
)
def test_a_counter_tells_how_often_a_fault_came(
    node: Node, fault: str, check: str, least: int
) -> None:
    _, report = node.judged(FAULTS[fault]["set"])
    found, events, over_s = held(report)
    assert (found, over_s) == (check, UPTIME_S)
    assert events >= least


def test_a_fault_that_nothing_counts_has_no_rate(node: Node) -> None:
    _, report = node.judged(FAULTS["nvlink-one-down"]["set"])
    assert held(report) == ("nvlink.links", 0, 0.0)


def test_the_log_counts_and_a_run_that_looks_elsewhere_keeps_it(node: Node) -> None:
    _, report = node.judged({}, log=(XID,))
    assert held(report) == ("xid.faults", 1, UPTIME_S)
    _, report = node.judged({}, "--only", "thermal")
    assert held(report) == ("xid.faults", 1, UPTIME_S)


def test_every_check_with_a_counter_or_a_limit_is_one() -> None:
    assert {*COUNTERS, *DOCUMENTED} <= {check.id for check in judging.all_checks()}
