"""JUnit: the schema that Jenkins' xunit plugin validates by, and what each reader makes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from building import failing, plain, report_of
from junit_schema import SCHEMA
from lxml import etree
from paths import RECORDINGS
from program import Call

from gpuscan.cli.output import OutputOptions, write_reports
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.importers.load import open_recording
from gpuscan.model import Unread, read_or
from gpuscan.model.outcome import ACTIONS, Action, Evidence, Finding, Result, Status
from gpuscan.model.report_rows import ProfileInfo, RunInfo
from gpuscan.model.subject import Subject
from gpuscan.recording import Recording, load, patch, save
from gpuscan.renderers import cases, junit

HOSTILE = (
    "a\x00b\x07\x08\x0b\x0c\x0e\x1f\x7f\x85\x9b1m \x1b[31;1mred\x1b[0m \x1b]0;title\x07"
    " \x1b]8;;http://x\x1b\\link \x1bc\x1b(B \x1b ]]> <![CDATA[ &amp; <b> \"'\n\r\n\t ]]]]>><!-- --"
    " --> \ud800 \udfff \udc80 \ufffe\uffff\ufdd0\U0001fffe\U0010ffff 中文 \u202e"
)
WORKED = RunInfo(profile=ProfileInfo("p"), gpuscan_version="1", duration_s=1234.56789)


def report(recording: Recording, name: str = "file.json.gz", profile: str = "auto") -> Report:
    return judging.judge_recording(recording, name, judging.prepare(judging.Selection(profile)))


@cache
def reports(name: str) -> tuple[Report, ...]:
    """What the schema is tried on."""
    eight = load(str(RECORDINGS / "h100-8x-ib.json.gz"))
    many = (open_recording("demo"), open_recording("demo-broken"), eight, eight)
    made: dict[str, tuple[Recording, ...]] = {
        "demo": many[:1],
        "demo-broken": many[1:2],
        "eight GPUs": many[2:3],
        "empty": (Recording({}, ["*"]),),
        "outside its scope": (Recording({}, []),),
        "many": many,
        "cut short": (Recording(many[0].meta._replace(ended_by_signal=15), ["*"], many[0]),),
        "hostile": (hostile(),),
    }
    return tuple(report(one) for one in made[name])


def hostile() -> Recording:
    demo = open_recording("demo")
    log = [
        f"NVRM: Xid (PCI:0000:00:06): 48, pid='<unknown>', name=<unknown>, {HOSTILE}"
        f" {'x' * 100_000}"
    ]
    changes: dict[str, Any] = {
        "file:/proc/sys/kernel/hostname": HOSTILE,
        "file:/proc/sys/kernel/random/boot_id": HOSTILE,
        "nvml:nvmlDeviceGetName(0000:00:06.0)": HOSTILE,
        "dir:/dev": {"error": ["garbled", HOSTILE]},
    }
    return patch(Recording(demo.meta, ["*"], demo), changes, log)


KINDS = (
    "demo",
    "demo-broken",
    "eight GPUs",
    "empty",
    "outside its scope",
    "many",
    "cut short",
    "hostile",
)


def rendered(*some: Report, full: bool = False) -> str:
    return (junit.render_full if full else junit.render)(some, verbosity=0, many=len(some) > 1)


def tree(*some: Report, full: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(rendered(*some, full=full).encode())


def suite(one: Report, *, full: bool = False) -> ElementTree.Element:
    (only,) = tree(one, full=full)
    return only


def flat(root: ElementTree.Element) -> Iterator[tuple[str, dict[str, str], str]]:
    return ((one.tag, one.attrib, (one.text or "").strip()) for one in root.iter())


def case(*results: Result, **changes: Any) -> ElementTree.Element:
    """The only case of a report that holds one result."""
    (only,) = suite(report_of(*results, run=WORKED._replace(**changes))).iter("testcase")
    return only


def mistakes(text: str) -> list[str]:
    if not SCHEMA.exists():
        pytest.skip(
            "junit-10.xsd is not beside this checkout: name its folder's parent in GPUSCAN_SHARED"
        )
    schema = etree.XMLSchema(etree.parse(str(SCHEMA)))
    schema.validate(etree.fromstring(text.encode()))
    return [str(error) for error in schema.error_log]


@pytest.mark.parametrize("kind", KINDS)
def test_the_strict_flavour_holds_to_the_schema(kind: str) -> None:
    assert mistakes(rendered(*reports(kind))) == []


def test_the_schema_would_notice() -> None:
    text = rendered(*reports("demo"))
    assert mistakes(text.replace("<testcase ", '<testcase assertions="1" ', 1))
    assert mistakes(text.replace('time="1.000"', 'time="1.00000"', 1))


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_has_a_name_of_its_own_and_the_counts_are_right(kind: str) -> None:
    root = tree(*reports(kind))
    cases = list(root.iter("testcase"))
    assert len({(one.get("classname"), one.get("name")) for one in cases}) == len(cases)
    for one in root:
        for count, word in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            assert one.get(count) == str(len(list(one.iter(word)))), (count, word)
    assert root.get("tests") == str(len(cases))
    for count, word in (("failures", "failure"), ("errors", "error")):
        assert root.get(count) == str(len(list(root.iter(word))))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_red_exactly_where_the_node_may_work(kind: str) -> None:
    for one in reports(kind):
        red = [bad for word in ("failure", "error") for bad in suite(one).iter(word)]
        assert bool(red) is (one.exit_code != 0)


@pytest.mark.parametrize("kind", KINDS)
def test_properties_are_all_that_the_full_flavour_adds(kind: str) -> None:
    strict, full = tree(*reports(kind)), tree(*reports(kind), full=True)
    told = [one.find("properties") for one in full.iter("testcase")]
    for one in full.iter("testcase"):
        for properties in one.findall("properties"):
            one.remove(properties)
    assert sum(one is not None for one in told) == sum(len(each.results) for each in reports(kind))
    assert list(flat(strict)) == list(flat(full))


def test_a_suite_a_host_with_what_identifies_the_run() -> None:
    root = tree(*reports("many"))
    assert [one.get("hostname") for one in root] == [
        read_or(one.host.hostname, "") or "file" for one in reports("many")
    ]
    (eight,) = reports("eight GPUs")
    one = suite(eight)
    assert one.get("name") == "gpuscan h100-8x"
    assert one.get("timestamp") == str(eight.run.started_at).removesuffix("Z")
    told = {row.get("name"): row.get("value") for row in one.iterfind("properties/property")}
    wanted = {
        "profile": "h100-8x",
        "boot_id": eight.host.boot_id,
        "driver": eight.software.module_version,
    }
    assert wanted.items() <= told.items()
    assert (told["exit_code"], told["verdict"]) == (str(eight.exit_code), eight.verdict)


def test_the_same_host_twice_is_told_apart() -> None:
    first, second = (list(one.iter("testcase")) for one in list(tree(*reports("many")))[2:])
    assert {one.get("name", "") + " #2" for one in first} == {one.get("name") for one in second}


def test_two_gpus_of_one_name_are_told_apart() -> None:
    results = [
        plain(Status.PASS)._replace(about=Subject("gpu", "SXM1", f"0000:0{n}:00.0")) for n in (1, 2)
    ]
    one = suite(report_of(*results, run=WORKED))
    assert [each.get("name") for each in one.iter("testcase")] == [
        "a.b[gpu:SXM1]",
        "a.b[gpu:SXM1] #2",
    ]


@pytest.mark.parametrize("action", [action for action in Action if ACTIONS[action].exit_code])
def test_a_failure_s_type_is_the_verdict_of_its_worst_finding(action: Action) -> None:
    light = Finding(Status.FAIL, "it is odd", Action.FIX_CONFIG)
    heavier = Finding(Status.FAIL, "it is wrong", action, ("SXM1", "SXM2"), 3, 0, source="NVIDIA")
    warned = Finding(Status.WARN, "it is hot", Action.REPLACE)
    result = failing(action)._replace(
        findings=(warned, light, heavier) if action is not Action.FIX_CONFIG else (warned, heavier)
    )
    failure = case(result).find("failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == (ACTIONS[action].verdict, "it is wrong")
    assert failure.text is not None
    lines = failure.text.splitlines()
    told = [
        "fail: it is wrong",
        f"action: {action.value}",
        "observed: 3",
        "expected: 0",
        "culprits: SXM1, SXM2",
        "source: NVIDIA",
    ]
    assert set(told) <= set(lines)
    assert "warn: it is hot" in lines


def test_messages_are_repeated_in_the_text_which_is_all_that_some_readers_show() -> None:
    for kind in KINDS:
        for word in ("failure", "error", "skipped"):
            for one in tree(*reports(kind)).iter(word):
                message, text = one.get("message"), one.text
                assert message is not None
                assert text is not None
                assert " ".join(message.split())[:4000] in " ".join(text.split())


def test_unknown_is_an_error_with_what_was_not_read() -> None:
    result = plain(Status.UNKNOWN)._replace(
        reason="lost: gpus (gone)", unread=(("gpus", Unread("k", "lost", "gone")),)
    )
    error = case(result._replace(traceback="Traceback: x")).find("error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == ("incomplete", "lost: gpus (gone)")
    assert error.text is not None
    assert error.text.endswith("unread: gpus (lost: gone)\n    Traceback: x")


def test_a_skip_says_why() -> None:
    one = suite(
        report_of(
            plain(Status.PASS),
            plain(Status.SKIP, "a.c")._replace(reason="left out by --skip"),
            run=WORKED,
        )
    )
    skipped = one.find("testcase/skipped")
    assert skipped is not None
    assert (skipped.get("message"), skipped.text) == ("left out by --skip", "left out by --skip")


def test_a_warning_passes_with_its_text_and_fails_where_warnings_count() -> None:
    warned = failing(Action.MONITOR, severity=Status.WARN)
    one = case(warned)
    assert [child.tag for child in one] == ["system-out"]
    assert "warn: it is wrong\n" in str(one[0].text)
    one = case(warned, fail_on="warn")
    assert [(child.tag, child.get("type"), child.get("message")) for child in one] == [
        ("failure", "warn", "it is wrong")
    ]


def test_the_same_evidence_is_told_once() -> None:
    seen = (Evidence("gpus[SXM1].access", "lost", ("k",)),) * 3
    assert (
        str(case(failing(Action.REBOOT)._replace(evidence=seen))[0].text).count("evidence: ") == 1
    )


def test_hostile_text_loses_its_escapes_and_nothing_else() -> None:
    text = rendered(*reports("hostile"))
    allowed = all(char in "\t\n\r" or " " <= char <= "~" or char >= "\xa0" for char in text)
    assert allowed
    assert not [char for char in text if "\ud800" <= char <= "\udfff" or char in "\ufffe\uffff"]
    (one,) = reports("hostile")
    host = suite(one).get("hostname")
    assert host is not None
    assert host.startswith("ab red  link   ]]> <![CDATA[ &amp; <b>")
    assert cases.clean("\x1b]0;no end\nFAIL is here") == "]0;no end\nFAIL is here", (
        "an escape without end swallows nothing"
    )


def test_endless_lines_are_cut() -> None:
    assert max(map(len, rendered(*reports("hostile")).splitlines())) < 3 * cases.LONGEST_LINE
    assert cases.clean("short\n" + "x" * 5000) == "short\n" + "x" * cases.LONGEST_LINE + "… (cut)"


def test_times_have_three_decimals() -> None:
    assert suite(report_of(plain(Status.PASS), run=WORKED)).get("time") == "1234.568"
    assert {one.get("time") for one in tree(*reports("demo")).iter("testcase")} == {"0.000"}


def test_one_scan_feeds_several_readers(tmp_path: Path, call: Call) -> None:
    files = [tmp_path / name for name in ("a.xml", "b.json", "c.xml", "d.txt")]
    words = [
        f"--report={form}={file}"
        for form, file in zip(("junit", "json", "junit-full", "text"), files, strict=True)
    ]
    files[0].write_text("what was there before", "utf-8")
    done = call("run", "--replay", "demo-broken", *words)
    assert (done.code, done.err) == (41, "")
    assert done.out == files[3].read_text("utf-8")
    assert json.loads(files[1].read_text("utf-8"))["summary"]["exit_code"] == 41
    for file in (files[0], files[2]):
        assert {one.get("type") for one in ElementTree.parse(file).getroot().iter("failure")} == {
            "hardware",
            "reboot",
        }
    assert sorted(tmp_path.iterdir()) == files, "what is written beside its place is gone"


def test_a_report_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.xml").mkdir()
    done = call("run", "--replay", "demo", "--report", f"junit={tmp_path}/a.xml")
    assert (done.code, done.err) == (
        2,
        f"gpuscan: {tmp_path}/a.xml: cannot be written: is a folder; name a file in it\n",
    )
    assert os.listdir(tmp_path) == ["a.xml"]


def test_where_warnings_count_every_format_says_so(tmp_path: Path, call: Call) -> None:
    warned = str(tmp_path / "warned.json.gz")
    save(load(str(RECORDINGS / "h200-4x-app-xids.json.gz")), warned)
    words = ("--report", f"json={tmp_path}/a.json", "--report", f"junit={tmp_path}/a.xml")
    done = call("run", "--replay", warned, *words)
    assert (
        done.code,
        json.loads((tmp_path / "a.json").read_text("utf-8"))["summary"]["usable"],
    ) == (0, True)
    assert "(exit code 0)" in done.out
    assert ElementTree.parse(tmp_path / "a.xml").getroot().get("failures") == "0"
    done = call("run", "--replay", warned, *words, "--fail-on", "warn")
    document = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert (done.code, document["summary"]["exit_code"], document["summary"]["usable"]) == (
        10,
        10,
        False,
    )
    assert document["run"]["fail_on"] == "warn"
    assert "Verdict: warn (exit code 10); " in done.out
    assert done.out.splitlines()[-1].startswith(
        "Warnings count as failures (--fail-on warn): keep the node drained"
    )
    failures = list(ElementTree.parse(tmp_path / "a.xml").getroot().iter("failure"))
    assert len(failures) == document["summary"]["counts"]["warn"] > 0
    assert {one.get("type") for one in failures} == {"warn"}


def test_what_counts_warnings_changes_no_other_verdict(tmp_path: Path) -> None:
    show = OutputOptions("json", str(tmp_path / "a"), 0, "full", "warn")
    for results, code in (
        ([failing(Action.REPLACE), failing(Action.MONITOR, "a.c", Status.WARN)], 41),
        ([plain(Status.PASS)], 0),
    ):
        assert write_reports([report_of(*results, run=WORKED)], show) == code
        assert json.loads((tmp_path / "a").read_text("utf-8"))["summary"]["exit_code"] == code


def test_a_value_in_a_traceback_forges_no_line() -> None:
    trace = "Traceback\n  File x\nValueError: a\nVerdict: pass (exit code 0)\x1b[2J\n"
    crashed = plain(Status.UNKNOWN)._replace(reason="garbled", traceback=trace)
    told = junit.render([report_of(crashed)], verbosity=0)
    assert "    Verdict: pass (exit code 0)" in told
    assert "\nVerdict: pass" not in told
    assert "\x1b" not in told


def test_a_value_in_a_reason_forges_no_line() -> None:
    skipped = plain(Status.SKIP)._replace(
        reason="not supported: a (b\nVerdict: pass (exit code 0))"
    )
    told = junit.render([report_of(skipped)], verbosity=0)
    assert "Verdict: pass" in told
    assert "\nVerdict: pass" not in told
