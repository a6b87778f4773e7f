"""Text and JSON for readers: folding, wrapping, and evidence that must not steer a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from building import failing, plain, report_of

from gpuscan import renderers
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.errors import UsageError
from gpuscan.importers.load import open_recording
from gpuscan.model.outcome import Action, Evidence, Finding, Result, Status
from gpuscan.model.report_rows import BlindSpot, ReportedGpu, RunInfo
from gpuscan.model.subject import NODE, Subject, parse_subject
from gpuscan.recording import Recording, patch
from gpuscan.renderers import folding, json_, terminal, text
from gpuscan.text import printable

HOSTILE = (
    "evil\x1b[2J\x1b]0;title\x07\r\nVerdict: pass (exit code 0)\x00\x9b\u202e\u2028\x7f\udcff end"
)


def report(recording: Recording | str, profile: str = "auto") -> Report:
    plan = judging.prepare(judging.Selection(profile))
    return judging.judge_recording(
        open_recording(recording) if isinstance(recording, str) else recording, "file.json.gz", plan
    )


def said(one: Report, verbosity: int = 0) -> str:
    return text.render([one], verbosity=verbosity)


@pytest.mark.parametrize(
    ("subjects", "folded"),
    [
        (["node"], "node"),
        (["gpu:SXM5"], "gpu SXM5"),
        (["gpu:SXM5", "gpu:SXM6", "gpu:SXM7"], "gpu SXM[5-7]"),
        (["gpu:SXM7", "gpu:SXM2", "gpu:SXM1"], "gpu SXM[1-2,7]"),
        (["gpu:SXM9", "gpu:SXM10", "gpu:SXM12"], "gpu SXM[9-10,12]"),
        (["gpu:0000:1b:00.0"], "gpu 0000:1b:00.0"),
        (["gpu:0000:1b:00.0", "gpu:0000:43:00.0"], "gpu 0000:1b:00.0, 0000:43:00.0"),
        (["gpu:SXM1", "gpu:slot2"], "gpu SXM1, slot2"),
        (["gpu:SXM1", "gpu:0000:1b:00.0"], "gpu SXM1, 0000:1b:00.0"),
        (["port:mlx5_0/1", "port:mlx5_1/1"], "port mlx5_[0-1]/1"),
        (["port:mlx5_0/1", "port:mlx5_0/2"], "port mlx5_0/1, mlx5_0/2"),
        (["gpu:slot01", "gpu:slot02"], "gpu slot0[1-2]"),
        (["gpu:slot09", "gpu:slot10"], "gpu slot09, slot10"),
    ],
)
def test_subjects_are_folded(subjects: list[str], folded: str) -> None:
    assert folding.fold([parse_subject(subject) for subject in subjects]) == folded


def test_the_worst_comes_first_and_the_next_action_last() -> None:
    one = report_of(
        plain(Status.PASS, "a.fine"),
        failing(Action.MONITOR, "a.odd", Status.WARN),
        failing(Action.RESET_GPU, "a.light"),
        plain(Status.UNKNOWN, "a.unread")._replace(reason="lost: x (gone)"),
        failing(Action.REPLACE, "a.heavy", subject="gpu:SXM5"),
        plain(Status.SKIP, "a.left")._replace(reason="left out by --skip"),
    )
    checks = [
        line.strip().partition(":")[0]
        for line in said(one, 1).splitlines()
        if line.startswith(" " * 9 + "a.")
    ]
    assert checks == ["a.heavy", "a.light", "a.unread", "a.odd", "a.left", "a.fine"]
    lines = said(one).splitlines()
    assert not [line for line in lines if "a.fine" in line or "a.left" in line], (
        "what is fine is shown with -v only"
    )
    assert (
        lines[-6]
        == "Verdict: hardware (exit code 41, not all was read); 2 fail, 1 unknown, 1 warn, 1 skip,"
        " 1 pass"
    )
    assert lines[-5].startswith("Next:    Save nvidia-bug-report.sh")
    assert lines[-4] == "         gpu SXM5"
    assert lines[-3].startswith("Also:    End all programs on the GPU and reset it")
    assert lines[-2].startswith("Then:    Another serial number is in the slot")
    assert lines[-1] == "         After the reset, gpuscan run passes."


def test_the_broken_demo_names_the_part_to_pull() -> None:
    out = said(report("demo-broken"))
    assert "FAIL     gpu SXM7: row remapping failed" in out
    assert "         memory.row_remap: replace\n" in out
    assert (
        "         gpu SXM7: address 0000:00:09.0, serial 1654000000004, part number"
        " 692-2G520-0282-001\n" in out
    )
    assert "Verdict: hardware (exit code 41, not all was read); " in out


def test_culprits_of_the_node_are_named_with_what_identifies_them() -> None:
    finding = Finding(Status.FAIL, "some are silent", Action.REBOOT, ("SXM5", "SXM6"))
    one = report_of(Result("a.count", NODE, Status.FAIL, "All answer.", findings=(finding,)))
    one = one._replace(
        parts=(ReportedGpu("gpu", "SXM6", "0000:06:00.0", name="X", device_id="10de:1"),)
    )
    assert "\n         gpu SXM5\n         gpu SXM6: address 0000:06:00.0\n" in said(one)


def test_equal_results_are_one_row_and_different_ones_are_not() -> None:
    hot = [failing(Action.INSPECT, "a.cool", subject=f"gpu:SXM{n}") for n in (1, 2, 3)]
    other = hot[2]._replace(findings=(hot[2].findings[0]._replace(message="it is another"),))
    out = said(report_of(*hot[:2], other))
    assert "FAIL     gpu SXM[1-2]: it is wrong\n" in out
    assert "FAIL     gpu SXM3: it is another\n" in out


def test_a_shared_cause_is_said() -> None:
    one = failing(Action.INSPECT)
    shared = one._replace(findings=(one.findings[0]._replace(shared=True),))
    words = "half of the GPUs or more show it: a shared cause"
    assert words in said(report_of(shared))
    assert words not in said(report_of(one))


@pytest.mark.parametrize(
    ("results", "verdict", "advice"),
    [
        ([plain(Status.PASS)], "pass (exit code 0); 1 pass", "This node may go to work."),
        (
            [failing(Action.MONITOR, severity=Status.WARN)],
            "warn (exit code 0); 1 warn",
            "This node may go to work; see the warnings.",
        ),
        (
            [plain(Status.UNKNOWN)],
            "incomplete (exit code 3); 1 unknown",
            "Incomplete: keep the node drained",
        ),
        ([], "incomplete (exit code 3); ", "Incomplete: keep"),
    ],
)
def test_what_to_do_without_a_failure(results: list[Result], verdict: str, advice: str) -> None:
    *_, told, last = said(report_of(*results)).splitlines()
    assert told == f"Verdict: {verdict}"
    assert last.startswith(advice)


def test_skips_and_blind_spots_are_hinted_at() -> None:
    skipped = report_of(plain(Status.PASS), plain(Status.SKIP))
    assert "1 check was skipped (-v shows why)" in said(skipped)
    assert "-v shows why" not in said(skipped, 1)
    facts = ("gpus[].nvlinks", "ports", "ports")
    for kind, hint in (("no-permission", "Not read: nvlinks, ports"), ("not-recorded", "Verdict")):
        spots = tuple(BlindSpot(fact, kind, text="", subjects=()) for fact in facts)
        assert hint in said(skipped._replace(blind_spots=spots))
    assert "shows why" not in said(report_of(plain(Status.PASS)))


def test_one_line_a_report() -> None:
    good = report_of(plain(Status.PASS), run=RunInfo(recording="a.gz"))
    bad = report_of(
        failing(Action.REBOOT, subject="gpu:SXM5"),
        failing(Action.REPLACE, "a.c"),
        run=RunInfo(recording="b.gz"),
    )
    assert (
        text.render([good, bad], verbosity=0, many=True)
        == "a.gz: pass (0)\nb.gz: hardware (41): replace node: it is wrong [a.c] (+1)\n"
    )
    assert (
        text.render([bad], verbosity=-1) == "hardware (41): replace node: it is wrong [a.c] (+1)\n"
    )
    assert text.render([good], verbosity=0, many=True) == "a.gz: pass (0)\n", (
        "one that is left of many"
    )


def test_the_head_names_host_gpus_and_driver() -> None:
    one = report_of(
        plain(Status.PASS), run=RunInfo(gpuscan_version="9.9", recording="a.gz"), notes=("a note",)
    )
    assert said(one).splitlines()[:2] == ["gpuscan 9.9  a.gz: no NVIDIA GPU", "         a note"]
    models = enumerate((("H200", "10de:1"), (None, "10de:1"), (None, "10de:2")))
    gpus = tuple(
        ReportedGpu("gpu", f"SXM{n}", "", name=name, device_id=device)
        for n, (name, device) in models
    )
    host, driver = one.host._replace(hostname="n1"), one.software._replace(module_version="580.1")
    one = one._replace(parts=gpus, host=host, software=driver)
    assert (
        said(one).splitlines()[0]
        == "gpuscan 9.9  n1: 2 x H200, 1 x NVIDIA GPU 10de:2, driver 580.1"
    )


def hostile_report() -> Report:
    changes: dict[str, Any] = {
        "file:/proc/sys/kernel/hostname": HOSTILE,
        "nvml:nvmlDeviceGetName(0000:00:06.0)": HOSTILE,
    }
    log = [f"NVRM: Xid (PCI:0000:00:06): 48, pid='<unknown>', name=<unknown>, {HOSTILE}"]
    whole = open_recording("demo")
    recording = patch(
        Recording(whole.meta, ["*"], whole),
        {**changes, "dir:/dev": {"error": ["garbled", HOSTILE]}},
        log,
    )
    return report(recording)


@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_control_characters_never_reach_the_text(verbosity: int) -> None:
    one = hostile_report()
    out = said(one, verbosity)
    assert all(line.isprintable() for line in out.split("\n")), [
        line for line in out.split("\n") if not line.isprintable()
    ]
    assert not [line for line in out.splitlines() if line.startswith("Verdict: pass")], (
        "evidence forges no line"
    )
    if verbosity >= 0:
        assert (
            r"evil\x1b[2J\x1b]0;title\x07  Verdict: pass (exit code 0)\x00\x9b\u202e \x7f\udcff end"
            in out
        )


def test_json_carries_hostile_evidence_as_it_is() -> None:
    out = json_.render([hostile_report()], verbosity=0)
    assert out.isascii()
    assert any(HOSTILE in finding["message"] for finding in json.loads(out)["findings"])


def test_harmless_leaves_ordinary_text_alone() -> None:
    for ordinary in ("", "96 °C → 50 %, „ok“", "中文", "a  b"):
        assert printable(ordinary) == ordinary
    assert printable("a\tb\u00a0c\nd") == "a b c d"


def shown(one: Report, width: int, monkeypatch: pytest.MonkeyPatch, **colour: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm", "COLUMNS": str(width)} | colour).items():
        monkeypatch.setenv(name, value)
    return terminal.render([one], verbosity=1)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_are_wrapped_to_the_terminal_and_hang(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = report("demo-broken")._replace(measurements=())  # tables are as wide as they are
    lines = shown(one, width, monkeypatch).splitlines()
    assert [line for line in lines if line.endswith(" ")] == []
    assert max(map(len, lines)) <= width
    starts = (
        "FAIL ",
        "UNKNOWN ",
        "WARN ",
        "skip ",
        "pass ",
        "gpuscan ",
        "Verdict: ",
        "Next: ",
        "Also: ",
        "Then: ",
        " " * 9,
    )
    free = [line for line in lines if line and not line.startswith(starts)]
    assert len(free) <= (2 if width == 40 else 0), (
        free
    )  # what does not hang is wrapped by the terminal's own rule
    assert "".join("".join(lines).split()) == "".join(said(one, 1).split()), (
        "wrapping loses and adds nothing"
    )


def test_colour_tells_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    one = report("demo-broken")
    bare = shown(one, 200, monkeypatch, NO_COLOR="1", FORCE_COLOR="1")
    coloured = shown(one, 200, monkeypatch, FORCE_COLOR="1")
    assert "\x1b[1;31m" in coloured
    assert "\x1b[31m" not in bare
    assert "\x1b[1;31m" not in bare
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == re.sub(r"\x1b\[[0-9;]*m", "", bare)


def test_rich_sees_no_markup_in_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    one = failing(Action.REBOOT)
    odd = one._replace(
        findings=(one.findings[0]._replace(message="[red]a[/red] :warning: [link=x]y"),)
    )
    assert "[red]a[/red] :warning: [link=x]y" in shown(report_of(odd), 200, monkeypatch)


def test_json_of_one_is_an_object_and_of_many_an_array() -> None:
    good = report_of(plain(Status.PASS))
    assert json.loads(json_.render([good], verbosity=0))["summary"]["verdict"] == "pass"
    assert [
        d["summary"]["exit_code"]
        for d in json.loads(json_.render([good, good], verbosity=0, many=True))
    ] == [0, 0]
    assert isinstance(json.loads(json_.render([good], verbosity=0, many=True)), list), (
        "even where only one of many could be read"
    )


def test_json_tells_usable_only_of_zero() -> None:
    for results, usable in (
        ([plain(Status.PASS)], True),
        ([plain(Status.UNKNOWN)], False),
        ([failing(Action.FIX_CONFIG)], False),
    ):
        summary = json_.document(report_of(*results))["summary"]
        assert summary["usable"] is usable
        assert summary["counts"][results[0].status.value] == 1


def test_json_names_the_parts_that_the_action_is_for() -> None:
    document = json_.document(report("demo-broken"))
    assert (
        document["summary"]["headline"]
        == "hardware (41): replace gpu SXM7 serial 1654000000004: row remapping failed: the GPU has"
        " run out of spare rows [memory.row_remap] (+2)"
    )
    part = {
        "subject": "gpu:SXM7",
        "address": "0000:00:09.0",
        "serial": "1654000000004",
        "part_number": "692-2G520-0282-001",
    }
    assert document["summary"]["targets"] == [part]
    (finding,) = [row for row in document["findings"] if row["check"] == "memory.row_remap"]
    (row,) = [
        one
        for one in document["checks"]
        if one["id"] == finding["check"] and one["subject"] == finding["subject"]
    ]
    assert finding["evidence"] == row["evidence"] != []
    assert {row["subject"] for row in document["measurements"]} == {
        "gpu:SXM5",
        "gpu:SXM6",
        "gpu:SXM7",
    }


def test_an_incident_s_target_is_the_gpu_and_the_node_s_is_none() -> None:
    gpu = ReportedGpu("gpu", "SXM6", "0000:06:00.0", serial="1")
    incident = failing(Action.REBOOT)._replace(
        about=Subject("incident", "Xid 79 on SXM6", "0000:06:00.0")
    )
    gone = failing(Action.REBOOT, "a.c")._replace(
        about=Subject("incident", "Xid 79 on 0000:07:00.0", "0000:07:00.0")
    )
    again = failing(Action.REBOOT, "a.d")._replace(about=Subject("gpu", "SXM6", "0000:06:00.0"))
    one = report_of(
        incident,
        gone,
        again,
        failing(Action.REBOOT, "a.e"),
        failing(Action.FIX_CONFIG, "a.f"),
        parts=(gpu,),
    )
    assert [tuple(target) for target in one.targets] == [
        ("gpu:SXM6", "0000:06:00.0", "1", None),
        ("incident:Xid 79 on 0000:07:00.0", "0000:07:00.0", None, None),
    ]
    assert report_of(failing(Action.REBOOT), parts=(gpu,)).targets == ()
    assert report_of(plain(Status.PASS), parts=(gpu,)).targets == ()


def test_the_same_evidence_is_told_once() -> None:
    seen = (Evidence("gpus[SXM1].access", "lost", ("k",)),) * 3
    (row,) = json_.document(report_of(plain(Status.PASS)._replace(evidence=seen)))["checks"]
    assert row["evidence"] == [{"fact": "gpus[SXM1].access", "value": "lost", "readings": ["k"]}]


def test_unknown_formats_name_their_neighbours() -> None:
    with pytest.raises(UsageError, match="unknown format 'jsn': did you mean json"):
        renderers.find("jsn")
    with pytest.raises(
        UsageError, match="known formats: ctrf, github, json, junit, junit-full, markdown, text"
    ):
        renderers.find("zz")


def test_without_a_terminal_nothing_heavy_is_imported() -> None:
    program = (
        "import sys; sys.argv = ['gpuscan', 'run', '--replay', 'demo']; from gpuscan.__main__"
        " import main; main()"
    )
    environment = {
        key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "PYTHONPATH")
    }
    command = [sys.executable, "-X", "importtime", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment, cwd="/"
    )
    modules = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in modules
    assert not modules & {"rich", "jsonschema", "pynvml", "sqlite3", "pytest", "hypothesis"}
    assert "Verdict: pass" in done.stdout


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({1: "a"}, {"1": "a"}),
        ({1, 2}, "{1, 2}"),
        ((1, 2), [1, 2]),
        (b"\xff", "b'\\xff'"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (float("nan"), "nan"),
        ([float("inf")], "[inf]"),
        (CYCLE, "[[...]]"),
    ],
    ids=str,
)
def test_whatever_a_check_observed_json_stays_whole(value: Any, shown: Any) -> None:
    """Sets become words by themselves; keys that are no words, NaN and circles would leave no
    JSON, or none that all can read.
    """
    finding = Finding(Status.FAIL, "it is wrong", Action.INSPECT, observed=value, expected=value)
    result = failing(Action.INSPECT)._replace(findings=(finding,))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    (row,) = json.loads(json_.render([report_of(result)], verbosity=0), parse_constant=refuse)[
        "findings"
    ]
    assert (row["observed"], row["expected"]) == (shown, shown)
