"""The formats for CI systems beside JUnit: CTRF, GitHub's workflow commands, Markdown."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from building import failing, plain, report_of
from nodes_recordings import base, judged
from paths import TESTS

from gpuscan.engine.report import Report
from gpuscan.importers.load import open_recording
from gpuscan.model.outcome import Action, Status
from gpuscan.recording import Recording, patch
from gpuscan.renderers import ctrf, github, junit, markdown, text

SCHEMA = json.loads((TESTS / "support" / "ctrf.schema.json").read_text("utf-8"))
HOSTILE = "a%b\n::error::forged\r\n```\n</details> <b> ##vso[task.complete] \x1b[31m,:"
KINDS = ("demo", "demo-broken", "eight", "warned", "warnings fail", "empty", "cut short", "hostile")


def report(kind: str) -> Report:
    demo = open_recording("demo")
    made: dict[str, Recording] = {
        "demo": demo,
        "demo-broken": open_recording("demo-broken"),
        "eight": base("h100-8x-ib"),
        "warned": base("h200-4x-app-xids"),
        "warnings fail": base("h200-4x-app-xids"),
        "empty": Recording({}, ["*"]),
        "cut short": Recording(demo.meta._replace(ended_by_signal=15), ["*"], demo),
        "hostile": patch(
            Recording(demo.meta, ["*"], open_recording("demo-broken")),
            {
                "file:/proc/sys/kernel/hostname": HOSTILE,
                "dir:/dev": {"error": ["garbled", HOSTILE]},
            },
        ),
    }
    one = judged(made[kind])
    if kind == "warnings fail":
        return one._replace(run=one.run._replace(fail_on="warn"))
    return one


def document(*reports: Report) -> Any:
    whole = json.loads(ctrf.render(reports, verbosity=0))
    jsonschema.Draft7Validator(SCHEMA).validate(whole)
    return whole["results"]


@pytest.mark.parametrize("kind", KINDS)
def test_ctrf_holds_to_its_schema_and_counts_as_junit_does(kind: str) -> None:
    one = report(kind)
    told = document(one)
    statuses = Counter(test["status"] for test in told["tests"])
    suite = ElementTree.fromstring(junit.render([one], verbosity=0))[0]
    red = int(suite.get("failures", "")) + int(suite.get("errors", ""))
    assert statuses["failed"] == told["summary"]["failed"] == red
    assert statuses["skipped"] == told["summary"]["skipped"] == int(suite.get("skipped", ""))
    assert told["summary"]["tests"] == len(told["tests"]) == int(suite.get("tests", ""))
    assert bool(red) is (one.exit_code != 0)
    (host,) = told["extra"]["hosts"]
    assert (host["verdict"], host["exitCode"]) == (one.verdict, one.exit_code)
    names = [case.get("name") for case in suite.iter("testcase")]
    assert [test["name"] for test in told["tests"]] == names


def test_ctrf_says_what_each_test_found() -> None:
    results = [
        failing(Action.REPLACE, "a.fail"),
        failing(Action.MONITOR, "a.warn", Status.WARN),
        plain(Status.UNKNOWN, "a.unknown")._replace(reason="lost: gpus (gone)"),
        plain(Status.SKIP, "a.skip")._replace(reason="left out"),
        plain(Status.PASS, "a.pass"),
    ]
    rows = document(report_of(*results))["tests"]
    assert [(row["rawStatus"], row["status"], row.get("message")) for row in rows] == [
        ("fail", "failed", "it is wrong"),
        ("warn", "passed", "it is wrong"),
        ("unknown", "failed", "lost: gpus (gone)"),
        ("skip", "skipped", "left out"),
        ("pass", "passed", None),
    ]
    assert rows[0]["labels"] == {"action": "replace", "urgency": "now"}
    assert rows[0]["trace"].startswith("check: a.fail\n")


def test_ctrf_of_several_nodes_is_one_document_in_which_each_test_has_an_id() -> None:
    one = report("eight")
    one = one._replace(run=one.run._replace(started_at="2026-11-27T10:00:00Z", duration_s=1.5))
    told = document(one, one, report("demo-broken"))
    assert len({test["testId"] for test in told["tests"]}) == len(told["tests"])
    assert len(told["extra"]["hosts"]) == 3
    assert told["summary"]["start"] == 1_795_773_600_000
    assert told["summary"]["stop"] == 1_795_773_601_500


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_for_github_is_a_command_of_our_own(kind: str) -> None:
    one = report(kind)
    lines = github.render([one], verbosity=0).splitlines()
    shape = re.compile(r"::(error|warning|notice) title=[^:,\n]+::[^\n]+")
    assert all(shape.fullmatch(line) for line in lines)
    levels = Counter(line.split(" ")[0] for line in lines)
    assert max(levels.values()) <= github.MOST
    assert lines[0].startswith("::error" if one.exit_code else "::notice")
    assert f"::{one.verdict} (" in lines[0]
    assert not re.search(r"%(?!25|3A|2C)", "".join(lines))


def test_github_shows_the_heaviest_failures_first_and_no_more_than_it_keeps() -> None:
    light = [failing(Action.FIX_CONFIG, f"a.light{number}") for number in range(20)]
    unknown = plain(Status.UNKNOWN, "a.unknown")._replace(reason="lost")
    one = report_of(unknown, *light, failing(Action.REPLACE, "a.heavy"))
    lines = github.render([one], verbosity=0).splitlines()
    assert len(lines) == github.MOST
    assert lines[1] == "::error title=a.heavy[node]::it is wrong (action: replace)"
    assert "a.unknown" not in "".join(lines)


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_is_the_text_report_as_code_below_the_verdict(kind: str) -> None:
    one = report(kind)
    head, blank, *code = markdown.render([one], verbosity=0).splitlines()
    assert head == f"## gpuscan: {one.verdict} (exit code {one.exit_code})"
    assert blank == ""
    assert all(line.startswith("    ") or not line for line in code)
    told = text.render([one], verbosity=0).splitlines()
    assert [line.removeprefix("    ") for line in code] == [line.rstrip() for line in told]
