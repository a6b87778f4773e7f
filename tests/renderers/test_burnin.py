"""The tables of a burn-in: what is slow is marked, what was not measured is not hidden, and all of
it fits 80 columns.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from building import lost, plain, was_read
from burnt import NOT, burn_test, burnt, gpus, load, whole
from junit_schema import SCHEMA
from lxml import etree

from gpuscan.engine.judging import all_checks
from gpuscan.engine.report import Report
from gpuscan.model import BurnTest
from gpuscan.model.outcome import Action, Finding, Result, Status
from gpuscan.model.report_rows import ProfileInfo, RunInfo
from gpuscan.model.subject import Subject
from gpuscan.renderers import junit, terminal, text

RUN = RunInfo(profile=ProfileInfo("p"), level="quick", gpuscan_version="1")
EVIL = "a\x1b[2J\r\nVerdict: pass"


def said(*tests: BurnTest, verbosity: int = 0) -> list[str]:
    return text.render([burnt(tests)], verbosity=verbosity).splitlines()


def table(lines: list[str], group: str) -> dict[str, list[str]]:
    """The rows below the line that names *group*, by their first word, split at the gaps."""
    (start,) = [n for n, line in enumerate(lines) if group in line]
    rows = lines[start + 1 :]
    rows = rows[: rows.index("")]
    return {line.split()[0] if line[0] != " " else "": line.split() for line in rows}


def test_without_a_burn_in_nothing_is_shown() -> None:
    assert not [line for line in said() if "Burn-in" in line]


@pytest.mark.parametrize("number", [1, 2, 8, 16])
def test_any_number_of_gpus_fits_80_columns(number: int) -> None:
    lines = said(*whole(number, "SXM2"))
    assert max(map(len, lines)) <= 80
    rates = table(lines, "matrix multiplication")
    assert rates["SXM1"][1] == "699.1"
    assert ("median" in rates) is (number > 1)
    pairs = [line for line in lines if "GPU to GPU, one way" in line]
    assert len(pairs) == {1: 0, 2: 1, 8: 1, 16: 2}[number], "sixteen columns are two tables"


def test_what_is_below_the_median_is_marked_and_higher_temperatures_are_not() -> None:
    lines = said(*whole(8, "SXM5", 0.93))
    rates, loads = table(lines, "matrix multiplication"), table(lines, "in stress-bf16")
    assert rates["SXM5"][1:] == ["648.9!", "1138!", "640.6!", "344.6!", "1208!", "54.0!"]
    assert loads["SXM5"][-4:] == ["65", "76", "693", "1628!"]
    assert not [
        word for name, row in rates.items() if name != "SXM5" for word in row if "!" in word
    ]
    assert table(said(*whole(8, "SXM5", 0.88)), "matrix multiplication")["SXM5"][1] == "614.0!!"
    assert table(said(*whole(8, "SXM5", 0.96)), "matrix multiplication")["SXM5"][1] == "669.8"


def test_five_and_ten_per_cent_are_the_limits_themselves() -> None:
    speeds = {"SXM1": 100.0, "SXM2": 100.0, "SXM3": 100.0, "SXM4": 95.0, "SXM5": 90.0, "SXM6": 95.1}
    for more in ([], [("SXM7", 100.0)]):
        lines = said(
            *(
                burn_test(gpu, "hbm", {"hbm_read_gbps": speed})
                for gpu, speed in [*speeds.items(), *more]
            )
        )
        shown = {
            gpu: row[1]
            for gpu, row in table(lines, "memory (HBM)").items()
            if gpu in (*speeds, "median")
        }
        assert (shown["SXM4"], shown["SXM5"], shown["SXM6"], shown["median"]) == (
            "95.0!",
            "90.0!!",
            "95.1",
            "100.0",
        )


def test_of_two_gpus_the_slower_one_stands_out_as_it_is_judged() -> None:
    speeds = {"SXM1": 1310.0, "SXM2": 1092.0}
    lines = said(
        *(burn_test(gpu, "hbm", {"hbm_read_gbps": speed}) for gpu, speed in speeds.items())
    )
    shown = {
        gpu: row[1]
        for gpu, row in table(lines, "memory (HBM)").items()
        if gpu in (*speeds, "median")
    }
    assert (shown["SXM1"], shown["SXM2"], shown["median"]) == ("1310", "1092!!", "1310")


def test_a_gpu_that_told_nothing_keeps_its_row() -> None:
    tests = [one for one in whole(3) if one.gpu != "SXM2" and one.to != "SXM2"]
    silent = burn_test("SXM2", "stress-bf16", seconds=lost(), rates=lost(), load=lost())
    lines = said(*tests, silent)
    assert table(lines, "matrix multiplication")["SXM2"] == ["SXM2", *"------"]
    assert table(lines, "GPU to GPU, one way")["SXM2"] == ["SXM2", "-", "-"]
    assert any("- not measured" in line for line in lines)


def test_hot_stands_beside_cold_only_where_they_differ() -> None:
    def pair(hot: float, *, missing: bool = False) -> list[str]:
        cold = [burn_test(gpu, "hbm", {"hbm_read_gbps": 3000.0}) for gpu in gpus(2)]
        warm = [
            burn_test(gpu, "hbm-hot", {"hbm_read_gbps": hot}) for gpu in gpus(1 if missing else 2)
        ]
        return table(said(*cold, *warm), "memory (HBM)")["SXM1"][1:]

    assert pair(2950.0) == ["2950"]
    assert pair(2900.0) == ["3000", "2900"]
    assert pair(2950.0, missing=True) == ["3000", "2950"]


def test_two_tests_of_one_rate_are_told_apart() -> None:
    rate = {"gemm_bf16_tflops": 600.0}
    lines = said(burn_test("SXM1", "exact-bf16", rate), burn_test("SXM1", "stress-bf16", rate))
    assert table(lines, "matrix multiplication")[""] == ["bf16", "exact", "bf16", "stress"]


def test_the_second_try_counts_and_both_are_told() -> None:
    first, *rest = whole(3)
    (rate,) = was_read(first.rates)
    lines = said(first._replace(rates=(rate._replace(value=600.0, again=(699.0,)),)), *rest)
    assert table(lines, "matrix multiplication")["SXM1"][1] == "699.0"
    assert "SXM1 stress-bf16: gemm_bf16_tflops first 600.0, at a second try 699.0 TFLOP/s" in lines


def test_the_matrix_marks_the_pairs_of_a_slow_gpu() -> None:
    lines = said(*whole(8, "SXM2"))
    pairs = table(lines, "GPU to GPU, both ways")
    assert pairs["SXM2"][1:] == ["669!!"] * 7
    assert pairs["SXM1"][1:] == ["669!!", *["760·"] * 6]
    assert any(
        "GPU to GPU, one way, GB/s; median 391; from (down) to (across)" in line for line in lines
    )


def test_pairs_that_go_through_the_host_have_a_table_of_their_own() -> None:
    lines = said(burn_test("SXM1", "peer", {"peer_through_host_one_way_gbps": 21.4}, to="SXM2"))
    assert table(lines, "GPU to GPU, through the host, one way")["SXM1"] == ["SXM1", "21·"]


def test_collectives_and_other_tools_are_listed() -> None:
    node = [burn_test("node", "nccl-all-reduce", {"all-reduce NVLS 8 1GiB": 466.2})]
    node += [burn_test("node", "nccl-odd", {"of another shape": 1.5})]
    node += [burn_test("node", "nvbandwidth", {f"copy_{n}_gbps": float(n) for n in range(20)})]
    lines = said(*node)
    start = lines.index("NCCL        transport  ranks  size  bus GB/s")
    assert lines[start + 1] == "all-reduce  NVLS           8  1GiB     466.2"
    assert "node nccl-odd: of another shape 1.5 GB/s" in lines
    assert "node nvbandwidth: copy_10_gbps 10.0 GB/s" in lines
    assert "and 9 more (-v shows them)" in lines
    assert "node nvbandwidth: copy_19_gbps 19.0 GB/s" in said(*node, verbosity=1)


def test_what_was_compared_is_counted_and_never_called_more_than_that() -> None:
    (head,) = [line for line in said(*whole(2)) if line.startswith("Burn-in")]
    assert head == "Burn-in: no corruption seen in 49,344 results, 19.0 billion words read"
    bad: dict[str, Any] = {"what": "words", "operations": 100, "mismatches": 3}
    (head,) = [
        line for line in said(burn_test("SXM1", "memory", **bad)) if line.startswith("Burn-in")
    ]
    assert head == "Burn-in: 3 wrong in 100 words"
    unproven = burn_test("SXM1", "memory", what="words", operations=100, mismatches=lost())
    (head,) = [line for line in said(unproven) if line.startswith("Burn-in")]
    assert head == "Burn-in: nothing was compared"


def test_what_only_the_second_try_had_wrong_is_no_clean_burn_in() -> None:
    """The first try counted no wrong word, and a check found another product in the second one."""
    failed = ran("SXM1 stress-bf16", Status.FAIL)._replace(finds_corruption=True)
    lines = text.render([burnt(whole(2), failed)], verbosity=0).splitlines()
    (head,) = [line for line in lines if line.startswith("Burn-in")]
    assert (
        head == "Burn-in: wrong results, listed above, in 49,344 results, 19.0 billion words read"
    )


def test_marked_burn_in_checks() -> None:
    marks = {one.id: one.mark for one in all_checks()}
    assert {name for name, mark in marks.items() if mark.finds_corruption} == {
        "burnin.corruption",
        "burnin.product_match",
    }
    shown = [name for name, mark in marks.items() if mark.shows_measurements]
    assert shown == ["burnin.completion"]


def test_evidence_does_not_steer_the_terminal() -> None:
    evil = burn_test(
        EVIL,
        "peer",
        {EVIL: 1.0, "peer_one_way_gbps": 5.0},
        to="SXM2",
        what=EVIL,
        operations=1,
        mismatches=0,
    )
    hot = burn_test(EVIL, EVIL, {"hbm_read_gbps": 5.0}, load=load(power_w=5.0, core_c=5))
    lines = said(evil, hot, burn_test("node", "nccl", {EVIL: 1.0}))
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("Verdict")] == [
        "Verdict: pass (exit code 0); 1 pass"
    ]


def test_colours_follow_the_marks_and_tell_nothing_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(**settings: str) -> str:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in (
            {"TERM": "xterm", "COLUMNS": "80", "FORCE_COLOR": "1"} | settings
        ).items():
            monkeypatch.setenv(name, value)
        return terminal.render([burnt(whole(8, "SXM5"))], verbosity=0)

    coloured, bare = shown(), shown(NO_COLOR="1")
    assert "\x1b[1;31m614.0!!\x1b[0m" in coloured
    assert "\x1b[32m391·\x1b[0m" in coloured
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", bare)
    plainly = text.render([burnt(whole(8, "SXM5"))], verbosity=0)
    for told in (coloured, bare):
        assert [
            line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", told).splitlines()
        ] == plainly.splitlines()


def ran(subject: str, status: Status = Status.PASS) -> Result:
    findings = {
        Status.FAIL: (Finding(Status.FAIL, "it is stuck", Action.REBOOT),),
        Status.WARN: (Finding(Status.WARN, "odd", Action.MONITOR),),
    }
    return Result(
        "burnin.completion",
        Subject("test", subject),
        status,
        "It ran.",
        findings=findings.get(status, ()),
        shows_measurements=True,
    )


def junit_cases(report: Report, *, full: bool) -> list[ElementTree.Element]:
    made = (junit.render_full if full else junit.render)([report], verbosity=0)
    if not full and SCHEMA.exists():
        schema = etree.XMLSchema(etree.parse(str(SCHEMA)))
        assert schema.validate(etree.fromstring(made.encode())), schema.error_log
    return list(ElementTree.fromstring(made.encode()).iter("testcase"))


@pytest.mark.parametrize("status", [Status.PASS, Status.WARN, Status.FAIL])
def test_a_case_of_junit_carries_the_numbers_of_its_test(status: Status) -> None:
    other = ran("SXM1 stress-bf16")._replace(check="burnin.other", shows_measurements=False)
    report = burnt(whole(2), ran("SXM1 stress-bf16", status), other, plain(Status.PASS), run=RUN)
    told = junit_cases(report, full=False)
    assert [case.get("time") for case in told] == ["15.250", "0.000", "0.000"]
    out = told[0].findtext("system-out", "").splitlines()
    assert "burnin.gemm_bf16_tflops: 699.1 TFLOP/s" in out
    assert ("warn: odd" in out) is (status is Status.WARN)
    assert [case.find("system-out") for case in told[1:]] == [None, None]
    full = junit_cases(report, full=True)
    properties = {
        one.get("name"): one.get("value") for one in full[0].iterfind("properties/property")
    }
    assert (properties["burnin.gemm_bf16_tflops"], properties["burnin.core_c"]) == ("699.1", "61")
    assert not [
        one
        for case in full[1:]
        for one in case.iter("property")
        if str(one.get("name")).startswith("burnin.")
    ]


def test_a_case_without_numbers_is_as_any_other() -> None:
    silent = burn_test("SXM1", "stress-bf16", seconds=lost(), rates=lost())
    (case,) = junit_cases(burnt([silent], ran("SXM1 stress-bf16"), run=RUN), full=False)
    assert (case.get("time"), list(case)) == ("0.000", [])
    evil = burn_test("SXM1", "nccl", {EVIL: 1.0}, load=NOT)
    (case,) = junit_cases(burnt([evil], ran("SXM1 nccl"), run=RUN), full=False)
    assert "\x1b" not in case.findtext("system-out", "")
