"""What other programs print of a burn-in is read right, and never as a pass where it says nothing;
and how they are run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from building import demo_node, was_read
from hypothesis import given
from hypothesis import strategies as st
from paths import RECORDINGS

from gpuscan import collectors
from gpuscan.burnin.plan import make_plan
from gpuscan.burnin.request import BurnInOptions
from gpuscan.burnin.tools import programs as tools
from gpuscan.burnin.tools.programs import Tool, is_tool, wanted
from gpuscan.burnin.tools.run import run
from gpuscan.model import Unread, is_unread
from gpuscan.model.burnin import BurnTest
from gpuscan.recording import Reading, Recording, load
from gpuscan.recording.redaction import redact

DCGM, NVB, NCCL = (
    "run:dcgmi diag -r 2 -j",
    "run:nvbandwidth -j",
    "run:all_reduce_perf -b 1G -e 1G -f 2 -g 4 -c 1",
)
BURN = "run:gpu_burn -m 90% -tc 300"
BW = "run:ib_write_bw -d mlx5_0 -F --report_gbits -s 1048576 -D 5 loopback"
LAT = "run:ib_write_lat -d mlx5_0 -F -s 8 -n 10000 loopback"
GPUS = tuple(
    gpu._replace(label=f"SXM{2 * number + 2}")
    for number, gpu in enumerate(was_read(demo_node().gpus))
)  # by NVML's index


def made(key: str, stdout: str, exit_code: int = 0, stderr: str = "") -> dict[str, BurnTest]:
    """Return the records of one program's output by label."""
    value = {"stdout": stdout, "stderr": stderr, "exit_code": exit_code}
    found = tools.tests(Recording({}, ["run:*"], [Reading(key, value, ms=2500)]), GPUS)
    assert len({one.label for one in found}) == len(found) > 0
    return {one.label: one for one in found}


def failing(key: str, kind: str) -> BurnTest:
    (one,) = tools.tests(
        Recording({}, ["run:*"], [Reading(key, None, Unread(key, kind, "no"))]), GPUS
    )
    return one


def is_lacking(record: BurnTest, kind: str) -> bool:
    """Tell whether a record has no fact but its name, each for the same reason."""
    named = {"label", "address", "kind", "gpu", "to", "hot", "name", "part"}
    facts: list[Any] = [value for name, value in record._asdict().items() if name not in named]
    return all(is_unread(fact) and fact.kind == kind for fact in facts)


def unread(fact: Any) -> Unread:
    assert is_unread(fact)
    return fact


# dcgmi
# ---------------------------------------------------------------------------------------------------------------


def result(
    index: int, status: str = "Pass", *codes: tuple[int, str], **more: Any
) -> dict[str, Any]:
    """Return one GPU's result as DCGM 4 writes it."""
    warnings = [
        {"warning": text, "error_id": code, "error_category": 10, "error_severity": 2}
        for code, text in codes
    ]
    return {
        "entity_group": "GPU",
        "entity_group_id": 1,
        "entity_id": index,
        "status": status,
        **more,
    } | ({"warnings": warnings} if warnings else {})


def case(name: str, *results: dict[str, Any], summary: str = "") -> dict[str, Any]:
    return {"name": name, "results": list(results)} | (
        {"test_summary": {"status": summary}} if summary else {}
    )


def diag(*cases: Any, root: str = "DCGM Diagnostic", **more: Any) -> str:
    inner = {"test_categories": [{"category": "Hardware", "tests": list(cases)}]}
    return json.dumps({root: inner, "metadata": {"version": "4.6.0"}} | more, indent=1)


def test_a_passing_diagnostic_has_one_record_a_test() -> None:
    four = [result(index) for index in range(4)]
    text = "warning: an old configuration\n" + diag(
        case("memory", *four, summary="Pass"), None, case("pcie", *four)
    )
    records = made(DCGM, text)
    assert list(records) == ["node dcgmi-diag memory", "node dcgmi-diag pcie"]
    assert {
        (one.ended, one.kind, one.gpu, one.address, one.action) for one in records.values()
    } == {("ran", "tool", "node", "", "")}
    assert {one.seconds for one in records.values()} == {2.5}
    assert unread(records["node dcgmi-diag memory"].mismatches).kind == "not-recorded"


def test_a_gpu_that_fails_is_named_with_the_action_of_its_heaviest_code() -> None:
    bad = result(1, "Fail", (40, "It was hot."), (80, "Row remap failure on GPU 1."))
    records = made(
        DCGM, diag(case("memory", result(0), bad, result(2), result(3), summary="Fail")), 226
    )
    assert {label: one.ended for label, one in records.items()} == {
        "SXM2 dcgmi-diag memory": "ran",
        "SXM4 dcgmi-diag memory": "failed",
        "SXM6 dcgmi-diag memory": "ran",
        "SXM8 dcgmi-diag memory": "ran",
    }
    failed = records["SXM4 dcgmi-diag memory"]
    assert (failed.action, failed.address, failed.gpu) == ("replace", GPUS[1].address, "SXM4")
    assert "DCGM code 80 ROW_REMAP_FAILURE" in was_read(failed.text)
    assert "Row remap failure on GPU 1." in was_read(failed.text)


def test_the_older_root_and_its_gpus() -> None:
    old = [
        {"name": "Denylist", "results": [{"gpu_ids": "0,1,2,3", "status": "PASS"}]},
        {
            "name": "Memory",
            "results": [
                {"gpu_id": "2", "status": "FAIL", "warnings": [{"warning": "Bad.", "error_id": 58}]}
            ],
        },
        {
            "name": "Power",
            "results": [{"gpu_id": "0", "status": "FAIL", "warnings": ["No code here."]}],
        },
        {"name": "PCIe", "results": [{"gpu_id": "0", "status": "WARN", "warnings": "Slow."}]},
    ]
    records = made(DCGM, diag(*old, root="DCGM GPU Diagnostic"), 1)
    assert {label: (one.ended, one.action) for label, one in records.items()} == {
        "node dcgmi-diag Denylist": ("ran", ""),
        "SXM6 dcgmi-diag Memory": ("failed", "inspect"),
        "SXM2 dcgmi-diag Power": ("failed", ""),
        "SXM2 dcgmi-diag PCIe": ("warned", ""),
    }


def test_a_serial_number_names_the_gpu_where_ids_have_shifted() -> None:
    entities = [
        {"entity_id": 0, "serial_num": str(GPUS[3].serial)},
        {"entity_id": 1, "serial_num": "of another machine"},
    ]
    groups = [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}]
    text = diag(
        case("memory", result(0, "Fail"), result(1, "Fail"), result(2, "Fail"), result(9, "Fail")),
        entity_groups=groups,
    )
    assert list(made(DCGM, text, 1)) == [
        "SXM8 dcgmi-diag memory",
        "node dcgmi-diag memory GPU 1",
        "SXM6 dcgmi-diag memory",
        "node dcgmi-diag memory GPU 9",
    ]
    old = json.loads(
        diag(case("memory", {"gpu_id": "0", "status": "Fail"}), root="DCGM GPU Diagnostic")
    )
    old["GPU Device Serials"] = {"0": str(GPUS[2].serial)}
    assert list(made(DCGM, json.dumps(old), 1)) == ["SXM6 dcgmi-diag memory"]


def test_what_was_left_out_or_is_not_understood_has_not_passed() -> None:
    skipped = made(
        DCGM, diag(case("eud", result(0, "Skip", info=["needs root"]), result(1, "Skip")))
    )["node dcgmi-diag eud"]
    assert (unread(skipped.ended).kind, "needs root" in unread(skipped.ended).text) == (
        "not-recorded",
        True,
    )
    mixed = made(DCGM, diag(case("eud", result(0), result(1, "Skip"))))
    assert (
        mixed["SXM2 dcgmi-diag eud"].ended,
        unread(mixed["SXM4 dcgmi-diag eud"].ended).kind,
    ) == ("ran", "not-recorded")
    odd = made(DCGM, diag(case("eud", result(0, "Splendid"))))["SXM2 dcgmi-diag eud"]
    assert unread(odd.ended).kind == "garbled"
    warned = made(DCGM, diag(case("pcie", result(0, "Pass", (3, "Replays.")))))[
        "SXM2 dcgmi-diag pcie"
    ]
    assert (warned.ended, warned.action) == ("warned", "inspect")


def test_a_summary_that_is_worse_than_its_results_counts() -> None:
    records = made(
        DCGM, diag(case("pcie", result(0), summary="Fail"), case("nvlink", summary="Fail")), 226
    )
    assert {label: one.ended for label, one in records.items()} == {
        "SXM2 dcgmi-diag pcie": "ran",
        "node dcgmi-diag pcie": "failed",
        "node dcgmi-diag nvlink": "failed",
    }


def test_what_the_summary_alone_tells_is_kept_beside_a_gpu_that_fails() -> None:
    fabric = {"status": "Fail", "warnings": [{"warning": "Not trained.", "error_id": 112}]}
    test = case("software", result(0), result(1, "Fail", (5, "Some errors."))) | {
        "test_summary": fabric
    }
    records = made(DCGM, diag(test), 226)
    assert {label: (one.ended, one.action) for label, one in records.items()} == {
        "SXM2 dcgmi-diag software": ("ran", ""),
        "SXM4 dcgmi-diag software": ("failed", "monitor"),
        "node dcgmi-diag software": ("failed", "fix-config"),
    }


def test_the_software_tests_of_dcgm_3_blame_a_gpu_only_for_the_one_error_there_is() -> None:
    """They have one result of all GPUs, with the errors of all and the number of the GPU that
    the last is of.
    """
    rows = {
        code: {"warnings": f"Of GPU {gpu}.", "error_id": code}
        for code, gpu in ((80, 0), (85, 3), (18, -1))
    }

    def told(gpu: int, *codes: int) -> list[tuple[str, str, str]]:
        bad = {"gpu_id": gpu, "status": "Fail", "warnings": [rows[code] for code in codes]}
        records = made(DCGM, diag({"name": "Row Remap", "results": [bad]}), 226)
        return [
            (one.gpu, was_read(one.action), was_read(one.text).rpartition("; ")[2])
            for one in records.values()
        ]

    assert told(0, 80) == [("SXM2", "replace", "Of GPU 0.")]
    assert told(3, 80, 85) == [("node", "replace", "Of GPU 3.")]
    assert told(-1, 18) == [("node", "fix-config", "Of GPU -1.")]


def test_a_test_that_was_broken_off_is_no_skip() -> None:
    record = made(DCGM, diag(case("pcie", result(0, "Skip", (47, "Aborted.")))), 0)[
        "SXM2 dcgmi-diag pcie"
    ]
    assert (unread(record.ended).kind, "Aborted." in unread(record.ended).text) == ("garbled", True)


def test_a_failure_without_a_word_is_told_in_ours() -> None:
    assert (
        made(DCGM, diag(case("pcie", result(0, "Fail"))), 226)["SXM2 dcgmi-diag pcie"].text
        == "DCGM says no more than Fail"
    )


def test_an_unknown_code_is_to_be_investigated() -> None:
    record = made(DCGM, diag(case("pcie", result(0, "Fail", (9999, "New.")))), 226)[
        "SXM2 dcgmi-diag pcie"
    ]
    assert (record.action, record.text) == ("investigate", "DCGM code 9999; New.")


def test_a_diagnostic_that_broke_off_is_unread_and_what_it_had_found_is_kept() -> None:
    inner = json.loads(diag(case("memory", result(0, "Fail"))))
    inner["DCGM Diagnostic"]["runtime_error"] = "The hostengine went away."
    records = made(DCGM, json.dumps(inner), 1)
    assert "went away" in unread(records["node dcgmi-diag runtime"].ended).text
    assert records["SXM2 dcgmi-diag memory"].ended == "failed"
    alone = made(DCGM, json.dumps({"DCGM Diagnostic": {"runtime_error": "No."}}), 1)
    assert [unread(one.ended).kind for one in alone.values()] == ["garbled"]
    broken = made(
        DCGM,
        diag(case("memory", result(0, "Fail")), {"name": "pcie", "results": 7}, case("empty")),
        1,
    )
    assert broken["SXM2 dcgmi-diag memory"].ended == "failed"
    assert {unread(broken[f"node dcgmi-diag {name}"].ended).kind for name in ("pcie", "empty")} == {
        "garbled"
    }


def test_iterations_are_all_judged() -> None:
    once = json.loads(diag(case("memory", result(0), result(1))))
    twice = json.loads(diag(case("memory", result(0), result(1, "Fail"))))
    records = made(DCGM, json.dumps({"iterations": [once, twice], "Overall Result": "Fail"}), 1)
    assert {label: one.ended for label, one in records.items()} == {
        "node dcgmi-diag memory": "ran",
        "SXM2 dcgmi-diag memory": "ran",
        "SXM4 dcgmi-diag memory": "failed",
    }
    assert list(made(DCGM, json.dumps({"iterations": [once, once]}))) == [
        "node dcgmi-diag memory",
        "node dcgmi-diag memory (2)",
    ]


NOTHING = (
    "",
    "{",
    "{}",
    "[]",
    "no",
    '{"nvbandwidth": {}}',
    '{"DCGM Diagnostic": {}}',
    '{"DCGM Diagnostic": {"test_categories": []}}',
)


@pytest.mark.parametrize("key", [DCGM, NVB, NCCL, BURN, BW, LAT])
@pytest.mark.parametrize("text", [*NOTHING, diag(case("memory", result(0)))[:-20], diag()])
def test_an_empty_or_cut_off_output_is_garbled(key: str, text: str) -> None:
    (record,) = made(key, text).values()
    assert is_lacking(record, "garbled")


def test_a_service_that_does_not_run_is_named() -> None:
    (record,) = made(
        DCGM, "Error: Unable to connect to host engine. Host engine connection invalid.\n", 1
    ).values()
    assert unread(record.ended).text.endswith(
        "nv-hostengine is not running: systemctl start nvidia-dcgm"
    )


@pytest.mark.parametrize("key", [DCGM, NVB, NCCL, BURN, BW, LAT])
def test_a_program_without_an_answer(key: str) -> None:
    absent = failing(key, "not-found")
    assert is_lacking(absent, "not-recorded")
    assert unread(absent.ended).text == f"{key[4:].split()[0]} is not on PATH"
    for kind in ("timed-out", "no-permission", "garbled"):
        assert is_lacking(failing(key, kind), kind)
    assert (absent.kind, absent.gpu, absent.address) == ("tool", "node", "")


# nvbandwidth
# ---------------------------------------------------------------------------------------------------------


def table(rows: list[list[float | None]]) -> list[list[str]]:
    return [["N/A" if value is None else f"{value:g}" for value in row] for row in rows]


def square(gbps: float, **other: float) -> list[list[float | None]]:
    """Return a table of four GPUs' pairs; *other* reads r1c2=120."""
    return [[None if r == c else other.get(f"r{r}c{c}", gbps) for c in range(4)] for r in range(4)]


def passed(
    name: str, rows: list[list[float | None]], about: str = "bandwidth (GB/s)"
) -> dict[str, Any]:
    return {
        "name": name,
        "status": "Passed",
        "bandwidth_description": about,
        "bandwidth_matrix": table(rows),
        "sum": 1.0,
    }


def nvb(*cases: Any, **more: Any) -> str:
    return json.dumps({"nvbandwidth": {"version": "v0.8", "testcases": list(cases)} | more})


def rates(record: BurnTest) -> list[tuple[str, float]]:
    return [(rate.label, rate.value) for rate in was_read(record.rates)]


def test_the_least_rate_counts_and_its_gpus_are_named() -> None:
    ways = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"
    both = "host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce"
    stacked = square(300) + square(301) + square(601, r0c3=555.5)
    text = nvb(
        passed(ways[0], [[55, 54, 26.5, 55]]),
        passed(ways[1], [[54, 53, 52, 51]]),
        passed(both[0], [[40, 41, 42, 43]]),
        passed(both[1], [[40, 41, 12, 43]]),
        passed("device_to_device_memcpy_write_ce", square(390, r1c2=120)),
        passed(
            "device_to_device_bidirectional_memcpy_read_ce",
            stacked,
            "GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
        ),
        passed(
            "device_to_device_bidirectional_memcpy_write_ce",
            square(390),
            "GPU(row) <-> GPU(column) bandwidth (GB/s)",
        ),
        passed("device_local_copy", [[1500, 1490, 1500, 1500]]),
        passed("host_device_latency_sm", [[700, 700, 700, 700]], "memory latency (ns)"),
    )
    records = made(NVB, text)
    assert {
        label.split()[-1]: (rates(one), one.text, one.ended) for label, one in records.items()
    } == {
        ways[0]: ([("pcie_to_card_gbps", 26.5)], "least: SXM6", "ran"),
        ways[1]: ([("pcie_to_host_gbps", 51)], "least: SXM8", "ran"),
        both[0]: ([], "", "ran"),
        both[1]: ([("pcie_both_added_gbps", 54)], "least: SXM6", "ran"),
        "device_to_device_memcpy_write_ce": (
            [("peer_one_way_gbps", 120)],
            "least: SXM4 and SXM6",
            "ran",
        ),
        "device_to_device_bidirectional_memcpy_read_ce": (
            [("peer_both_gbps", 555.5)],
            "least: SXM2 and SXM8",
            "ran",
        ),
        "device_to_device_bidirectional_memcpy_write_ce": ([], "", "ran"),
        "device_local_copy": ([("hbm_copy_engine_gbps", 2980)], "least: SXM4", "ran"),
        "host_device_latency_sm": ([], "", "ran"),
    }
    (rate,) = was_read(records[f"node nvbandwidth {ways[0]}"].rates)
    assert (rate.usual, rate.again) == (54.5, ())


def test_gpus_are_named_by_the_addresses_that_it_lists() -> None:
    listed = [
        f"{n}: NVIDIA H200 ({gpu.address.replace('0000:', '00000000:', 1)[:-2]}): (host)"
        for n, gpu in enumerate(GPUS[::-1])
    ]
    text = nvb(
        passed("host_to_device_memcpy_ce", [[55, 54, 53, 26]]), **{"GPU Device list": listed}
    )
    assert next(iter(made(NVB, text).values())).text == "least: SXM2"


def test_what_nvbandwidth_did_not_measure() -> None:
    text = nvb(
        {"name": "a", "status": "Waived"},
        {"name": "b", "status": "Not Found"},
        {"name": "c", "status": "Error"},
        {"name": "d", "status": "Running"},
        passed("device_to_host_memcpy_ce", [[None, None]]),
        passed("host_to_device_memcpy_ce", [[float("nan"), 50]]),
        passed("device_local_copy", [[float("inf"), 50]]),
        7,
        error="cuda error",
    )
    ends = {label.split()[-1]: one.ended for label, one in made(NVB, text, 1).items()}
    assert ends.pop("c") == "failed"
    assert {name: unread(ended).kind for name, ended in ends.items()} == {
        "a": "not-recorded",
        "b": "not-recorded",
        "d": "garbled",
        "device_to_host_memcpy_ce": "garbled",
        "host_to_device_memcpy_ce": "garbled",
        "device_local_copy": "garbled",
        "unnamed": "garbled",
        "error": "garbled",
    }


SPOILT = " Invalid value when checking the pattern at 0x7f0000000000\n Current offset : 4096 \n"


@pytest.mark.parametrize(
    "text",
    [
        nvb(
            error="Invalid value when checking the pattern at <0x7f0000000000>: Current offset [ 4096/8192]"
        ),
        SPOILT
        + nvb(
            error="ASSERT in expression h_errorFlag == 0 in void memcmpPatternHelper() : memcpy.cpp:165"
        ),
        SPOILT,
    ],
)
def test_data_that_arrived_wrong_fails(text: str) -> None:
    """The GPU itself says so before the JSON, in newer versions; the JSON then only has the line
    of its source.
    """
    (record,) = made(NVB, text, 1).values()
    assert (record.label, record.ended) == ("node nvbandwidth verification", "failed")
    assert "0x7f0000000000" in was_read(record.text)


def test_the_testcase_in_which_data_arrived_wrong_is_named() -> None:
    text = SPOILT + nvb(
        passed("a", [[1.0]]),
        {"name": "device_to_device_memcpy_read_ce", "status": "Running"},
        error="ASSERT",
    )
    records = made(NVB, text, 1)
    assert was_read(records["node nvbandwidth verification"].text).startswith(
        "device_to_device_memcpy_read_ce: Invalid value"
    )
    assert (
        unread(records["node nvbandwidth device_to_device_memcpy_read_ce"].ended).kind == "garbled"
    )


# nccl-tests
# ----------------------------------------------------------------------------------------------------------


def nccl(
    wrong: str = "0",
    end: str = "0 OK",
    ranks: int = 4,
    head: str = "validation: 1",
    second: str = "0",
) -> str:
    gpus = "\n".join(
        f"#  Rank {n:2} Group  0 Pid {99 + n} on gpu-node-17 device {n:2} [0000:{n:02}:00] NVIDIA H200"
        for n in range(ranks)
    )
    return f"""# nThread 1 nGpus {ranks} minBytes 1073741824 maxBytes 1073741824 step: 2(factor) {head} graph: 0
#
# Using devices
{gpus}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1   4478.9  239.73  359.60      {wrong}   4470.3  240.19  360.29      {second}
# Out of bounds values : {end}
# Avg bus bandwidth    : 359.9
"""


def test_an_all_reduce() -> None:
    record = made(NCCL, nccl())["node all_reduce_perf"]
    assert (record.ended, record.mismatches, record.operations) == ("ran", 0, 2 * 268435456)
    assert rates(record) == [("all-reduce any 4 1GiB", 360.29)]
    for text in (nccl(wrong="7", end="1 FAILED"), nccl(second="7"), nccl(end="7 FAILED")):
        record = made(NCCL, text, 1)["node all_reduce_perf"]
        assert (record.ended, record.mismatches) == ("failed", 7)
    assert made(NCCL, nccl(end="0 FAILED"), 1)["node all_reduce_perf"].mismatches == 1


def test_very_many_wrong_values_of_an_all_reduce() -> None:
    """Counts from a million on are written with an exponent."""
    record = made(NCCL, nccl(wrong="2.68435e+08", second="1e+06", end="2 FAILED"), 1)[
        "node all_reduce_perf"
    ]
    assert (record.ended, record.mismatches) == ("failed", 269435000)


OLD = (  # the last column is a deviation, which sums of floats may have, and there is no root
    nccl().replace("#wrong", "error").replace("      -1  ", "  ").replace("    root", ""),
    {"359.60      0": "359.60  1e-07", "360.29      0": "360.29  2e-07"},
)


@pytest.mark.parametrize(
    ("end", "ended", "wrong"),
    [("0 OK", "ran", 0), ("2 FAILED", "failed", 2), ("-9 FAILED", "failed", 9)],
)
def test_the_table_of_an_older_all_reduce(end: str, ended: str, wrong: int) -> None:
    text = OLD[0].replace("0 OK", end)
    for new, old in OLD[1].items():
        text = text.replace(new, old)
    record = made(NCCL, text, int(ended == "failed"))["node all_reduce_perf"]
    assert (record.ended, record.mismatches, rates(record)) == (
        ended,
        wrong,
        [("all-reduce any 4 1GiB", 360.29)],
    )


@pytest.mark.parametrize(
    "text",
    [
        nccl(ranks=1),
        nccl(wrong="N/A"),
        nccl(head="validation: 0"),
        nccl().split("# Out of")[0],
        nccl().replace("  1073741824 ", "#", 1),
        nccl().replace("360.29", "inf"),
        nccl().replace("#wrong", "i_max"),
    ],
)
def test_an_all_reduce_that_proves_nothing(text: str) -> None:
    assert is_lacking(made(NCCL, text)["node all_reduce_perf"], "garbled")


# gpu_burn
# ------------------------------------------------------------------------------------------------------------


def burn(
    errors: str = "0 - 0 ",
    words: tuple[str, ...] = ("OK", "OK"),
    work: str = "900 (51234 Gflop/s) - 880 (50111 Gflop/s) ",
) -> str:
    ends = "".join(f"\tGPU {n}: {word}\n" for n, word in enumerate(words))
    early = "\r10.0%  proc'd: 100 (51000 Gflop/s) - 100 (50000 Gflop/s)   errors: 0 - 0   temps: 50 C - 51 C "
    return (
        "GPU 0: NVIDIA H200 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
        f"{early}\n\tSummary at:   Sat\n\n\r100.0%  proc'd: {work}  errors: {errors}  temps: 60 C - 61 C \n"
        f"Killing processes with SIGTERM (soft kill)\ndone\n\nTested {len(words)} GPUs:\n{ends}"
    )


def test_gpu_burn() -> None:
    records = made(BURN, burn(), 1)  # its exit code tells nothing
    assert {label: (one.ended, one.operations, rates(one)) for label, one in records.items()} == {
        "SXM2 gpu_burn": ("ran", 900, [("gpu_burn_gflops", 51234)]),
        "SXM4 gpu_burn": ("ran", 880, [("gpu_burn_gflops", 50111)]),
    }
    assert {one.mismatches for one in records.values()} == {0}
    records = made(BURN, burn("0 - 12  (WARNING!)", ("OK", "FAULTY")))
    assert [(one.ended, one.mismatches) for one in records.values()] == [("ran", 0), ("failed", 12)]
    records = made(BURN, burn("3  (WARNING!)- 0 "))
    assert [one.ended for one in records.values()] == ["failed", "ran"]
    died = burn("0 - -1  (DIED!)", ("OK", "OK"), "900 (51234 Gflop/s) - -1 (0 Gflop/s) ")
    assert [one.ended for one in made(BURN, died).values()] == ["ran", "failed"]


def test_counts_of_gpu_burn_that_are_none() -> None:
    """A client that is gone has whatever was in memory, and very many errors turn negative."""
    died = burn(
        "0 - 1641686072  (DIED!)", ("OK", "FAULTY"), "900 (51234 Gflop/s) - -1 (0 Gflop/s) "
    )
    many = burn("0 - -524288000  (WARNING!)", ("OK", "FAULTY"))
    for text, told in (
        (died, "its work on this GPU died"),
        (many, "gpu_burn calls the GPU FAULTY"),
    ):
        failed = made(BURN, text)["SXM4 gpu_burn"]
        assert (failed.ended, failed.text, unread(failed.mismatches).kind) == (
            "failed",
            told,
            "not-recorded",
        )


def test_gpu_burn_that_proves_nothing() -> None:
    text = burn().replace("proc'd", "nothing")
    assert {unread(one.ended).kind for one in made(BURN, text).values()} == {"garbled"}
    for text, code in (
        (burn().split("Tested")[0], 0),
        (burn().replace("\tGPU 1: OK\n", ""), 0),
        (burn(), -9),
    ):
        (record,) = made(BURN, text, code).values()
        assert is_lacking(record, "garbled")
    assert (
        "No clients are alive"
        in unread(
            made(BURN, "", 123, "No clients are alive!  Aborting\n")["node gpu_burn"].ended
        ).text
    )


# perftest
# ------------------------------------------------------------------------------------------------------------

LINE = "-" * 87
LOCAL = " local address: LID 0x03 QPN 0x3352b PSN 0xa7af12 RKey 0x10011b4d VAddr 0x007f10cb874000\n"
GID = " GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:06:116\n"
BW_TEXT = f"""{LINE}
                    RDMA_Write BW Test
 Number of qps   : 1\t\tTransport type : IB
{LOCAL}{GID}{LINE}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 1500.000000 != 3300.016000. CPU Frequency is not max.
 1048576    141000           0.00               393.98             0.046967
{LINE}
"""
LAT_TEXT = f"""{LINE}
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]
 8       10000          1.01           6.84         1.08              1.10          0.20            1.21
{LINE}
"""


def test_perftest() -> None:
    assert rates(made(BW, BW_TEXT)["node ib_write_bw mlx5_0"]) == [("ib_write_gbps", 393.98)]
    megabytes = BW_TEXT.replace("Gb/sec", "MB/sec").replace("393.98", "46966.4")
    ((_, gbps),) = rates(made(BW, megabytes)["node ib_write_bw mlx5_0"])
    assert abs(gbps - 393.98) < 0.01
    assert rates(made(LAT, LAT_TEXT)["node ib_write_lat mlx5_0"]) == [("ib_write_latency_us", 1.08)]
    for text, code in (
        (BW_TEXT, 1),
        (BW_TEXT.replace("141000", "0     "), 0),
        (BW_TEXT.replace(" 1048576 ", " Completion with error ", 1), 0),
        (BW_TEXT.replace("393.98", "nan"), 0),
    ):
        (record,) = made(BW, text, code).values()
        assert is_lacking(record, "garbled")


# all of them
# ---------------------------------------------------------------------------------------------------------

SOUND = {
    DCGM: diag(case("memory", result(0))),
    NVB: nvb(passed("a", [[1.0]])),
    NCCL: nccl(),
    BURN: burn(),
    BW: BW_TEXT,
    LAT: LAT_TEXT,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


def ended_well(key: str, text: str) -> bool:
    return any(not is_unread(one.ended) and one.ended == "ran" for one in made(key, text).values())


@given(st.sampled_from(sorted(SOUND)), st.text() | JSON.map(json.dumps))
def test_garbage_never_passes(key: str, text: str) -> None:
    assert not ended_well(key, text)


@given(
    st.sampled_from(
        [
            "results",
            "test_summary",
            "status",
            "warnings",
            "entity_id",
            "test_categories",
            "tests",
            "name",
        ]
    ),
    JSON,
)
def test_a_broken_diagnostic_never_breaks_the_reader(name: str, value: Any) -> None:
    def put(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: value if key == name else put(part) for key, part in item.items()}
        return [put(part) for part in item] if isinstance(item, list) else item

    text = json.dumps(
        put(json.loads(diag(case("memory", result(0, "Fail", (80, "x")), summary="Fail"))))
    )
    assert not ended_well(DCGM, text) or str(value).strip().lower() in ("pass", "passed")


@given(
    st.sampled_from(
        ["bandwidth_matrix", "status", "name", "testcases", "error", "GPU Device list"]
    ),
    JSON,
)
def test_a_broken_table_never_breaks_the_reader(name: str, value: Any) -> None:
    root = json.loads(
        nvb(passed("device_local_copy", [[1.0]]), error="", **{"GPU Device list": []})
    )["nvbandwidth"]
    root = (
        {**root, name: value}
        if name in root
        else {**root, "testcases": [{**root["testcases"][0], name: value}]}
    )
    made(NVB, json.dumps({"nvbandwidth": root}))


@given(st.sampled_from(sorted(SOUND)), st.data())
def test_an_output_that_is_cut_off_never_breaks_the_reader(key: str, data: st.DataObject) -> None:
    text = SOUND[key]
    made(key, text[data.draw(st.integers(0, len(text))) : data.draw(st.integers(0, len(text)))])


@pytest.mark.parametrize("key", sorted(SOUND))
def test_the_sound_outputs_pass(key: str) -> None:
    assert ended_well(key, SOUND[key])


@pytest.mark.parametrize(
    ("name", "key", "text", "code"),
    [
        ("dcgmi-diag", DCGM, diag(case("memory", result(0))), 205),
        ("dcgmi-diag", DCGM, diag(case("memory", result(0)), case("eud", result(0, "Skip"))), 226),
        (
            "dcgmi-diag",
            DCGM,
            diag(case("memory", result(0, "Pass", (56, "Too little memory.")))),
            226,
        ),
        ("nvbandwidth", NVB, nvb(passed("a", [[1.0]]), {"name": "b", "status": "Waived"}), 1),
    ],
)
def test_a_code_that_contradicts_what_passed_is_no_pass(
    name: str, key: str, text: str, code: int
) -> None:
    assert unread(made(key, text, code)[f"node {name} exit code"].ended).kind == "garbled"
    assert f"node {name} exit code" not in made(key, text, 0)


def test_other_readings_are_let_alone() -> None:
    keys = [
        "run:dcgmi discovery -l",
        "run:nvbandwidthish",
        "run:lspci -Dnnvv",
        "file:/proc/modules",
    ]
    assert not any(map(is_tool, keys))
    assert tools.tests(Recording({}, ["*"], [Reading(key, "text") for key in keys]), GPUS) == []


def test_names_that_programs_print_are_replaced() -> None:
    groups = [
        {"entity_group": "GPU", "entities": [{"entity_id": 0, "serial_num": "1650000000001"}]}
    ]
    old: dict[str, Any] = {"GPU Device Serials": {"0": "1650000000002", "1": "1650000000003"}}
    texts = {
        DCGM: diag(case("memory", result(0)), entity_groups=groups, **old),
        NCCL: nccl(),
        NVB: nvb(
            passed("a", [[1.0]]),
            Hostname="gpu-node-18.example.org",
            **{"GPU Device list": ["0: H200: (gpu-node-18)"]},
        ),
        BW: BW_TEXT,
    }
    readings = [
        Reading(key, {"stdout": text, "stderr": "", "exit_code": 0}) for key, text in texts.items()
    ]
    shown = json.dumps([reading.value for reading in redact(Recording({}, ["*"], readings))])
    for name in (
        "1650000000001",
        "1650000000002",
        "1650000000003",
        "gpu-node-17",
        "gpu-node-18",
        "192:168:06:116",
    ):
        assert name not in shown
    assert "1073741824" in shown


# which are wanted
# ----------------------------------------------------------------------------------------------------


def names(asked: list[Tool]) -> list[str]:
    return [tool.name for tool in asked]


def test_which_programs_a_level_asks_for() -> None:
    assert wanted("passive", 8, ["mlx5_0"], 1e6) == []
    assert wanted("quick", 8, ["mlx5_0"], 1e6) == [
        Tool("dcgmi-diag", "run:dcgmi diag -r 1 -j", 60, 10)
    ]
    medium = wanted("medium", 8, ["mlx5_0", "mlx5_1"], 1e6)
    assert names(medium) == [
        "dcgmi-diag",
        "nvbandwidth",
        "all_reduce_perf",
        "ib_write_bw",
        "ib_write_bw",
        "ib_write_lat",
        "ib_write_lat",
    ]
    assert [tool.key for tool in medium[:3]] == [DCGM, NVB, NCCL.replace("-g 4", "-g 8")]
    assert {BW, LAT, BW.replace("_0", "_1"), LAT.replace("_0", "_1")} == {
        tool.key for tool in medium[3:]
    }
    assert names(wanted("long", 1, [], 1e6)) == ["dcgmi-diag", "nvbandwidth", "gpu_burn"]
    assert wanted("long", 1, [], 1e6)[-1].key == BURN
    assert all(is_tool(tool.key) for tool in medium)


def test_each_port_that_is_up_and_that_perftest_knows_is_looped_back() -> None:
    port = was_read(collectors.node(load(str(RECORDINGS / "h100-8x-ib.json.gz"))).ports)[0]
    told: list[tuple[str, int, Any, str]] = [
        ("mlx4_0", 1, "DOWN", "InfiniBand"),
        ("mlx4_0", 2, "ACTIVE", "InfiniBand"),
        ("mlx5_1", 1, "ACTIVE", "Ethernet"),
        ("rdmap0s31", 1, "ACTIVE", "Unknown"),  # AWS's
        ("mlx5_2", 1, Unread("", "timed-out", ""), "InfiniBand"),
    ]
    ports = tuple(
        port._replace(hca=hca, number=n, state=state, link_layer=layer)
        for hca, n, state, layer in told
    )
    asked = make_plan(demo_node(ports=ports), BurnInOptions("medium")).tools
    keys = [tool.key for tool in asked if tool.name == "ib_write_bw"]
    assert keys == [BW.replace("mlx5_0", "mlx4_0 -i 2"), BW.replace("mlx5_0", "mlx5_1")]
    assert list(made(keys[0], BW_TEXT)) == ["node ib_write_bw mlx4_0 port 2"]


def test_a_program_is_left_out_where_its_time_is_not_left() -> None:
    assert wanted("quick", 8, [], 5) == []
    assert wanted("quick", 8, [], 20) == [Tool("dcgmi-diag", "run:dcgmi diag -r 1 -j", 20, 10)]
    assert names(wanted("medium", 8, ["mlx5_0"], 130)) == [
        "nvbandwidth",
        "all_reduce_perf",
        "ib_write_bw",
        "ib_write_lat",
    ]


# how they are run
# ----------------------------------------------------------------------------------------------------


def program(folder: Path, name: str, text: str) -> Mapping[str, str]:
    """Write a program and return the environment in which it is found."""
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_a_program_that_runs_through(tmp_path: Path) -> None:
    text = '#!/bin/sh\nprintf "%s|" "$@" "$CUDA_DEVICE_ORDER" "${CUDA_VISIBLE_DEVICES-unset}" "$PWD"\necho hm >&2\nexit 226\n'
    environment = {**program(tmp_path, "dcgmi", text), "CUDA_VISIBLE_DEVICES": "3"}
    reading = run(DCGM, 60, environment=environment)
    assert reading.error is None
    assert reading.key == DCGM
    assert reading.value == {
        "stdout": f"diag|-r|2|-j|PCI_BUS_ID|unset|{os.getcwd()}|",
        "stderr": "hm\n",
        "exit_code": 226,
    }
    assert reading.at_s > 1e9
    beside = run(BURN, 60, environment=program(tmp_path, "gpu_burn", text))
    assert beside.value["stdout"].endswith(f"|{tmp_path.resolve()}|")


@pytest.mark.parametrize(
    "name",
    ["CUDA_VISIBLE_DEVICES", "CUDA_FORCE_PTX_JIT", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_DEVICE_ORDER"],
)
def test_what_others_chose_for_cuda_is_not_heeded(tmp_path: Path, name: str) -> None:
    environment = {
        **program(tmp_path, "nvbandwidth", "#!/bin/sh\nenv\n"),
        name: "chosen",
        "NCCL_DEBUG": "kept",
    }
    seen = run("run:nvbandwidth -j", 60, environment=environment).value["stdout"].splitlines()
    assert f"{name}=chosen" not in seen
    assert {
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_MPS_PIPE_DIRECTORY=/nonexistent",
        "NCCL_DEBUG=kept",
    } <= set(seen)


@pytest.mark.parametrize(("given", "seen"), [({}, "0"), ({"NCCL_NVLS_ENABLE": "1"}, "1")])
def test_multicast_is_left_off_unless_it_was_asked_for(
    tmp_path: Path, given: dict[str, str], seen: str
) -> None:
    text = '#!/bin/sh\necho "$NCCL_NVLS_ENABLE"\n'
    assert (
        run(NCCL, 60, environment={**program(tmp_path, "all_reduce_perf", text), **given}).value[
            "stdout"
        ]
        == f"{seen}\n"
    )


def test_programs_that_give_no_answer(tmp_path: Path) -> None:
    def kind(key: str, environment: Mapping[str, str]) -> tuple[str, str]:
        reading = run(key, 60, environment=environment)
        assert reading.value is None
        assert reading.error is not None
        return reading.error.kind, reading.error.text

    assert kind(NVB, {"PATH": str(tmp_path)}) == ("not-found", "nvbandwidth is not on PATH")
    assert kind(BW, {"PATH": str(tmp_path)}) == ("not-found", "ib_write_bw is not on PATH")
    assert kind(
        NVB, program(tmp_path, "nvbandwidth", "#!/bin/sh\necho no driver >&2\nexit 3\n")
    ) == ("garbled", "no driver")
    assert kind(NVB, program(tmp_path, "nvbandwidth", "#!/bin/sh\nkill -9 $$\n")) == (
        "garbled",
        "exit code -9",
    )
    assert kind(NVB, program(tmp_path, "nvbandwidth", "#!/no/such/shell\n"))[0] == "garbled"
    (tmp_path / "nvbandwidth").chmod(0o644)
    assert kind(NVB, {"PATH": str(tmp_path)})[0] == "no-permission"


STUBBORN = """#!/bin/sh
trap '' TERM
sleep 1000 &
echo $$ $! > "$PIDS.new" && mv "$PIDS.new" "$PIDS"
echo at work
while :; do wait; done
"""


def gone(pids: Path) -> bool:
    """Tell whether all processes are gone (or dead and not yet collected by whoever inherited
    them), waiting for it.
    """
    for pid in pids.read_text().split():
        path = Path("/proc", pid, "stat")
        ends_s = time.monotonic() + 20
        while path.exists() and path.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            if time.monotonic() > ends_s:
                return False
            time.sleep(0.02)
    return True


def test_a_program_past_its_limit_is_ended_with_its_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    environment = {**program(tmp_path, "nvbandwidth", STUBBORN), "PIDS": str(pids)}
    readings = (
        run(NVB, limit_s, environment=environment) for limit_s in (1, 8, 64)
    )  # the machine may be busy
    reading = next(reading for reading in readings if pids.exists())
    assert reading.error is not None
    assert (reading.value, reading.error.kind) == (None, "timed-out")
    assert gone(pids)


def test_a_program_ends_with_the_burn_in(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    environment = {
        **program(tmp_path, "nvbandwidth", STUBBORN.replace("trap", "# trap")),
        "PIDS": str(pids),
    }
    reading = run(NVB, 1000, lambda: not pids.exists(), environment)
    assert reading.error is not None
    assert reading.error.kind == "timed-out"
    assert "burn-in" in reading.error.text
    assert gone(pids)


def test_a_program_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    text = (
        f"#!/bin/sh\ntrap 'echo yes > {told}; exit 1' TERM\nsleep 1000 & touch {told}.ready\nwait\n"
    )
    reading = run(
        DCGM, 1000, lambda: not Path(f"{told}.ready").exists(), program(tmp_path, "dcgmi", text)
    )
    assert reading.error is not None
    assert told.read_text() == "yes\n"


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = f"#!/bin/sh\nsleep 1000 &\necho $! > {pids}\necho done\n"  # and it holds the pipe open
    reading = run(NVB, 1000, environment=program(tmp_path, "nvbandwidth", text))
    assert reading.value == {"stdout": "done\n", "stderr": "", "exit_code": 0}
    assert gone(pids)


def test_the_last_of_a_long_output_is_kept(tmp_path: Path) -> None:
    text = f"#!{sys.executable}\nfor n in range(10):\n    print(str(n) * (1 << 20), end='')\nprint('end')\n"
    value = run(NVB, 1000, environment=program(tmp_path, "nvbandwidth", text)).value
    assert len(value["stdout"]) == 8 << 20
    assert value["stdout"].endswith("9end\n")


PERFTEST = f"""#!{sys.executable}
import socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
assert "loopback" not in sys.argv
if sys.argv[-1] == "127.0.0.1":
    with socket.create_connection(("127.0.0.1", port)) as server:
        print("client", *sys.argv[1:-3], server.recv(9).decode())
else:
    with socket.create_server(("", port)) as server:
        server.accept()[0].sendall(b"served")
        print("not the client's")
"""


def test_a_loopback_has_a_server_that_listens_first(tmp_path: Path) -> None:
    value = run(BW, 1000, environment=program(tmp_path, "ib_write_bw", PERFTEST)).value
    assert value == {
        "stdout": "client -d mlx5_0 -F --report_gbits -s 1048576 -D 5 served\n",
        "stderr": "",
        "exit_code": 0,
    }


def test_a_loopback_without_its_server_is_no_measurement(tmp_path: Path) -> None:
    text = PERFTEST.replace("else:", "else:\n    sys.exit(1)")
    reading = run(BW, 1000, environment=program(tmp_path, "ib_write_bw", text))
    assert reading.error is not None
    assert (reading.error.kind, "refused" in reading.error.text) == ("garbled", True)
