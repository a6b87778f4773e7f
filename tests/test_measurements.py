"""Measurements: the numbers of each part with unit and subject, and only those that were read."""

from __future__ import annotations

from typing import Any

from building import RECORDINGS, demo_node, lost

from gpuscan import collectors, measurements
from gpuscan.facts import is_unread
from gpuscan.recording import load


def test_every_card_s_numbers_have_unit_and_subject() -> None:
    node = demo_node()
    rows = measurements.measured(node)
    for gpu in node.gpus:
        mine = {row["name"]: (row["value"], row["unit"]) for row in rows if row["subject"] == f"gpu:{gpu.label}"}
        assert mine["temperature.core_c"] == (gpu.temperature.core_c, "C")
        assert mine["power.usage_w"] == (gpu.power.usage_w, "W")
        assert mine["pcie.replays.total"] == (gpu.pcie.replays.total, "replays")
    assert {row["address"] for row in rows} == {gpu.address for gpu in node.gpus}


def test_ports_have_numbers_too() -> None:
    rows = measurements.measured(collectors.node(load(str(RECORDINGS / "h100-8x-ib.json.gz"))))
    rates = [row for row in rows if row["name"] == "rate_gbps"]
    assert {(row["value"], row["unit"]) for row in rates} == {(400.0, "Gb/s")}
    assert all(row["subject"].startswith("port:mlx5_") for row in rates)
    assert len({(row["name"], row["subject"]) for row in rows}) == len(rows)


def test_what_was_not_read_is_no_number() -> None:
    node: Any = demo_node()  # records are typed as if all were read
    first, *rest = node.gpus
    silent = first._replace(temperature=lost(), power=first.power._replace(usage_w=lost()))
    rows = measurements.measured(node._replace(gpus=(silent, *rest)))
    mine = {row["name"] for row in rows if row["address"] == first.address}
    assert not mine & {"temperature.core_c", "temperature.memory_c", "power.usage_w"}
    assert "power.limit_w" in mine
    assert not [row for row in rows if is_unread(row["value"])]
    assert measurements.measured(node._replace(gpus=lost(), ports=lost())) == ()
