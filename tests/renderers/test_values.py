"""`-v`: what was read stands beside each check that passed, and the GPUs' numbers in a table."""

from __future__ import annotations

import re

import pytest
from nodes_recordings import NAMES, base, judged

from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.model.outcome import Evidence, Status
from gpuscan.recording import patch
from gpuscan.renderers import text
from gpuscan.renderers.grid import WIDTH
from gpuscan.renderers.values import in_one_line


def shown(report: Report) -> str:
    return text.render([report], verbosity=1)


def rows(report: Report) -> dict[str, str]:
    """Return what stands below the title of each check that passed, by its id."""
    found = re.findall(r"^pass .*\n((?: {9}.*\n)+)", shown(report), re.MULTILINE)
    told = (" ".join(row.split()).partition(": ") for row in found)
    return {check: values for check, _, values in told}


@pytest.mark.parametrize("name", NAMES)
def test_every_passed_check_shows_what_it_read(name: str) -> None:
    report = judged(base(name), "")
    told = rows(report)
    passed = [one for one in report.results if one.status is Status.PASS and one.evidence]
    assert passed
    for result in passed:
        if result.about.kind == "test":
            continue
        assert "=" in told[result.check], result.check
        judged_by = any(one.fact.startswith("profile.") for one in result.evidence)
        assert ("(profile: " in told[result.check]) is judged_by, result.check


def test_value_and_limit_are_readable() -> None:
    told = rows(judged(base("h100-8x-ib"), ""))
    assert told["power.limit"] == "power.limit=700 W (profile: power_limit=700 W)"
    assert told["thermal.core_temperature"] == (
        "temperature.core=30 to 37 °C, temperature.slowdown=89 °C"
    )
    assert told["memory.ecc_mode"] == "ecc_mode.current=on (profile: ecc=on)"


def test_the_table_has_a_row_for_each_gpu() -> None:
    clocks = {
        f"nvml:nvmlDeviceGetClockInfo(0000:{bus}:00.0,{which})": mhz
        for bus in ("1b", "43")
        for which, mhz in ((1, 345), (2, 2619))
    }
    plan = judging.prepare(judging.Selection("h100-8x"))
    report = judging.judge_recording(patch(base("h100-8x-ib"), clocks), "a.json.gz", plan)
    whole = shown(report)
    lines = whole[whole.rindex("\npass ") : whole.index("Verdict: ")].splitlines()
    for head in ("core, °C", "power, W", "clocks, MHz", "slowed", "ECC errors", "NVLinks"):
        assert any(head in line for line in lines), head
    for number in range(1, 9):
        assert sum(line.startswith(f"SXM{number} ") for line in lines) >= 2
    assert max(len(line) for line in lines if line.startswith("SXM")) <= WIDTH
    assert sum(" 345 2619 nothing " in " ".join(line.split()) for line in lines) == 2


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "a.b=None"),
        ("", "a.b=-"),
        ([], "a.b=none"),
        (["x", "y"], "a.b=x or y"),
        (float("nan"), "a.b=nan"),
        (2**70, f"a.b={2**70}"),
        ("x" * 99, f"a.b={'x' * 37}..."),
        ({"k": 1}, "a.b={'k': 1}"),
    ],
)
def test_any_value_can_be_told(value: object, told: str) -> None:
    assert in_one_line([Evidence("gpus[SXM1].a.b", value, ())]) == told


def test_more_than_a_few_values_are_counted() -> None:
    serials = [Evidence(f"gpus[{n}].serial", f"16540{n}", ()) for n in range(8)]
    assert in_one_line(serials) == "serial=8 different values"
