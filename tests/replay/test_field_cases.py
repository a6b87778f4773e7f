"""The field cases: what nodes printed, and the right verdict; read where they lie, as others keep
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from paths import SHARED
from program import Call

FILE = SHARED / "cases" / "field_cases.yaml"
CLASSES = {
    "no-fault": 0,
    "monitor": 0,
    "application": 0,
    "configuration-or-software": 20,
    "reset-or-reboot-fixable": 30,
    "hardware-replacement": 40,
    "incomplete": 3,
}


class Judged(NamedTuple):
    """What gpuscan makes of a case."""

    code: int
    report: dict[str, Any]
    err: str


def cases() -> list[dict[str, Any]]:
    return (
        [case for case in yaml.safe_load(FILE.read_text("utf-8"))["cases"] if case["scored"]]
        if FILE.exists()
        else []
    )


CASES = cases()
absent = pytest.mark.skipif(not CASES, reason="the field cases are not here")


def judged(case: Mapping[str, Any], folder: Path, call: Call) -> Judged:
    (folder / "case.txt").write_text(case["input"], "utf-8")
    done = call("judge", str(folder / "case.txt"), "--format", "json")
    return Judged(done.code, json.loads(done.out) if done.out else {}, done.err)


def wanted(case: Mapping[str, Any]) -> set[int]:
    """The exit codes that are right, by their tens from 20 on; `accept` names classes or codes."""
    verdict = case["verdict"]
    return {tens(CLASSES.get(one, one)) for one in verdict.get("accept") or [verdict["class"]]}


def tens(code: int) -> int:
    return code // 10 * 10 if code >= 20 else code


def found(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every event that was extracted: incidents and their echoes."""
    for incident in report["incidents"]:
        yield incident
        yield from incident["echoes"]


def lines_of(report: Mapping[str, Any], kind: str, code: int, place: str) -> int:
    """How many lines of a code were read, on one part where it is named."""
    hits = [
        row
        for row in found(report)
        if row["kind"] == kind and row["code"] == code and row["address"].startswith(place)
    ]
    return sum(row["events"] for row in hits)


def lacks(case: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    """What should have been extracted and was not."""
    missing = []
    for kind, word in (("xid", "pci"), ("sxid", "switch")):
        for one in case["expect"].get(kind, ()):
            place = str(one.get(word, "")).lower()
            lines = lines_of(report, kind, one["code"], place)
            if not lines or ("count" in one and lines != one["count"]):
                missing.append(
                    f"{kind} {one['code']} on {place or 'any'}: {lines} lines, not"
                    f" {one.get('count', 'some')}"
                )
    return missing


@absent
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any], tmp_path: Path, call: Call) -> None:
    done = judged(case, tmp_path, call)
    assert tens(done.code) in wanted(case), (
        done.code,
        done.err,
        case["verdict"]["why"],
        messages(done.report),
    )
    assert lacks(case, done.report) == []


def messages(report: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['severity']} {row['subject']} {row['action']}: {row['message']}"
        for row in report.get("findings", ())
    ]


@absent
def test_no_fault_passes_and_no_healthy_node_is_drained(tmp_path: Path, call: Call) -> None:
    worst = {case["id"]: (judged(case, tmp_path, call).code, wanted(case)) for case in CASES}
    healthy = {name for name, (code, classes) in worst.items() if code == 0 and 0 not in classes}
    drained = {name for name, (code, classes) in worst.items() if code >= 20 and classes == {0}}
    assert (healthy, drained) == (set(), set())
