"""Measurements: the numbers of each part with unit and subject, and only those that were read."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from building import demo_node, lost, was_read
from burnt import NOT, burn_test, burnt, load, whole
from paths import RECORDINGS, ROOT

from gpuscan import collectors, recording
from gpuscan.engine import measurements
from gpuscan.model import BurnTest, Rate, is_unread
from gpuscan.model.report_rows import Measurement
from gpuscan.renderers import json_

SCHEMA = ROOT / "gpuscan" / "schemas" / "report.schema.json"


def test_every_gpu_s_numbers_have_unit_and_subject() -> None:
    node = demo_node()
    rows = measurements.measurements_of(node)
    for gpu in was_read(node.gpus):
        mine = {
            row.name: (row.value, row.unit) for row in rows if row.subject == f"gpu:{gpu.label}"
        }
        assert mine["temperature.core_c"] == (gpu.temperature.core_c, "C")
        assert mine["power.usage_w"] == (gpu.power.usage_w, "W")
        assert mine["pcie.replays.total"] == (was_read(gpu.pcie.replays).total, "replays")
    assert {row.address for row in rows} == {gpu.address for gpu in was_read(node.gpus)}


def test_ports_have_numbers_too() -> None:
    rows = measurements.measurements_of(
        collectors.node(recording.load(str(RECORDINGS / "h100-8x-ib.json.gz")))
    )
    rates = [row for row in rows if row.name == "rate_gbps"]
    assert {(row.value, row.unit) for row in rates} == {(400.0, "Gb/s")}
    assert all(row.subject.startswith("port:mlx5_") for row in rates)
    assert len({(row.name, row.subject) for row in rows}) == len(rows)


def test_what_was_not_read_is_no_number() -> None:
    node: Any = demo_node()  # records are typed as if all were read
    first, *rest = node.gpus
    silent = first._replace(temperature=lost(), power=first.power._replace(usage_w=lost()))
    rows = measurements.measurements_of(node._replace(gpus=(silent, *rest)))
    mine = {row.name for row in rows if row.address == first.address}
    assert not mine & {"temperature.core_c", "temperature.memory_c", "power.usage_w"}
    assert "power.limit_w" in mine
    assert not [row for row in rows if is_unread(row.value)]
    assert measurements.measurements_of(node._replace(gpus=lost(), ports=lost())) == ()


def rows_of(*tests: BurnTest) -> list[Measurement]:
    node: Any = demo_node(tests=tests)
    return [row for row in measurements.measurements_of(node) if row.test is not None]


def test_what_a_burn_in_measured_has_test_and_gpu() -> None:
    rates = (
        Rate("gemm_bf16_tflops", 640.1, (655.2,), NOT),
        Rate("gemm_fp8_tflops", 1226.0, (), 1230.0),
    )
    one = burn_test(
        "SXM1", "stress-bf16", seconds=15.2, load=load(core_c=61, tensor_active=0.91)
    )._replace(rates=rates)
    rows = rows_of(one)
    told = {row.name: (row.value, row.unit) for row in rows}
    assert told == {
        "burnin.seconds": (15.2, "s"),
        "burnin.gemm_bf16_tflops": (640.1, "TFLOP/s"),
        "burnin.gemm_bf16_tflops.again": (655.2, "TFLOP/s"),
        "burnin.gemm_fp8_tflops": (1226.0, "TFLOP/s"),
        "burnin.core_c": (61, "C"),
        "burnin.tensor_active": (0.91, "share"),
    }
    of = {
        "subject": "test:SXM1 stress-bf16",
        "address": "0000:01:00.0",
        "test": "stress-bf16",
        "card": "SXM1",
    }
    assert all(of.items() <= row._asdict().items() and row.to is None for row in rows)


def test_a_pair_names_both_and_what_was_compared_is_counted() -> None:
    facts: dict[str, Any] = {"what": "results", "operations": 1 << 27, "mismatches": 2}
    rows = rows_of(burn_test("SXM1", "peer", {"peer_one_way_gbps": 391.4}, to="SXM12", **facts))
    assert {(row.test, row.card, row.to, row.subject) for row in rows} == {
        ("peer", "SXM1", "SXM12", "test:SXM1 peer SXM12")
    }
    told = {row.name: (row.value, row.unit) for row in rows}
    assert told["burnin.peer_one_way_gbps"] == (391.4, "GB/s")
    assert (told["burnin.operations"], told["burnin.mismatches"]) == (
        (1 << 27, "results"),
        (2, "words"),
    )


def test_units_of_tools_and_collectives() -> None:
    rates = {
        "ib_write_bw_gbps": 392.0,
        "ib_write_lat_us": 2.1,
        "all-reduce NVLS 8 1GiB": 466.0,
        "sm_percent": 99.0,
    }
    units = {row.name: row.unit for row in rows_of(burn_test("node", "tool", rates))}
    wanted = {
        "burnin.ib_write_bw_gbps": "Gb/s",
        "burnin.ib_write_lat_us": "us",
        "burnin.all-reduce NVLS 8 1GiB": "GB/s",
    }
    assert wanted | {"burnin.sm_percent": "%", "burnin.seconds": "s"} == units


def test_a_test_of_which_nothing_was_read_has_no_number() -> None:
    silent = burn_test(
        "SXM1",
        "stress-bf16",
        seconds=lost(),
        rates=lost(),
        load=lost(),
        what=lost(),
        operations=lost(),
    )
    assert rows_of(silent) == []
    node: Any = demo_node(tests=lost())
    assert not [row for row in measurements.measurements_of(node) if row.test is not None]


def test_every_number_is_its_own_and_the_schema_takes_them() -> None:
    one = burnt(whole(4))
    assert len({(row.name, row.subject) for row in one.measurements}) == len(one.measurements) > 300
    item = json.loads(SCHEMA.read_text("utf-8"))["properties"]["measurements"]
    rows = json.loads(json_.render([one], verbosity=0))["measurements"]
    jsonschema.Draft202012Validator(item).validate(rows)
    assert {name for row in rows for name in row} <= item["items"]["properties"].keys(), (
        "each key is described"
    )
