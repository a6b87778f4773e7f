"""`checks`, `explain` and `profile`: what can be looked up, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building import module
from program import Call

from gpuscan import profile
from gpuscan.engine import judging
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.model.outcome import ACTIONS, BROKEN_STYLES, EXIT_STYLES, Action

IDS = tuple(one.id for one in judging.all_checks())
ONE = "memory.row_remap"
OWN = '''
    @check(action=Action.REBOOT, needs="driver.loaded", urgency="next-idle", impact="capacity", source="me", aliases=["site.old"])
    def test_new(gpu: Gpu) -> None:
        """It is new.

        Because I say so.
        """
        assert gpu.persistence
'''


def answer(call: Call, *words: str) -> str:
    """What a look-up prints; it never fails."""
    done = call(*words)
    assert (done.code, done.err) == (0, "")
    return done.out


def data(call: Call, *words: str) -> Any:
    return json.loads(answer(call, *words, "--format", "json"))


def test_every_check_is_listed_with_its_action_and_title(call: Call) -> None:
    head, *lines = answer(call, "checks", "list").splitlines()
    assert head.split() == [
        "CHECK",
        "FAILURE",
        "ASKS",
        "FOR",
        "SEVERITY",
        "WHAT",
        "HOLDS",
        "ON",
        "A",
        "HEALTHY",
        "NODE",
    ]
    assert [line.split()[0] for line in lines] == sorted(IDS)
    assert (
        answer(call, "checks") == answer(call, "explain", "check") == answer(call, "checks", "list")
    )
    rows = data(call, "checks", "list")
    for line, row in zip(lines, rows, strict=True):
        assert line.split(maxsplit=3) == [row["id"], row["action"], row["severity"], row["title"]]
        assert row["severity"] == ("warn" if Action(row["action"]) in WARN_ONLY else "fail")
        assert row["area"] == row["id"].split(".")[0]
    keys = {
        "id",
        "area",
        "title",
        "subject",
        "action",
        "severity",
        "urgency",
        "impact",
        "source",
        "needs",
        "voided_by",
        "aliases",
    }
    assert {frozenset(row) for row in rows} == {frozenset(keys)}


@pytest.mark.parametrize("words", [("checks", "show", ONE), ("explain", "check", ONE)])
def test_one_check_with_its_reasons(words: tuple[str, ...], call: Call) -> None:
    lines = answer(call, *words).splitlines()
    assert lines[:3] == [ONE, "", "Every faulty memory row was remapped to a spare row."]
    row = ACTIONS[Action.REPLACE]
    assert {
        f"action    replace: {row.todo}",
        f"then      {row.proof}",
        "subject   gpu",
        "urgency   now",
    } <= set(lines)
    assert any(line.startswith("source    NVIDIA") for line in lines)
    whole = data(call, *words)
    assert (whole["id"], whole["action"], whole["todo"]) == (ONE, "replace", row.todo)
    assert Path(whole["file"]).name == "test_memory.py"


def test_every_check_can_be_shown(call: Call) -> None:
    for name in IDS[::7]:
        assert answer(call, "checks", "show", name).startswith(f"{name}\n\n")


def test_checks_of_a_folder_of_one_s_own(tmp_path: Path, call: Call) -> None:
    folder = module(tmp_path / "own", OWN, "test_site.py")
    assert answer(call, "checks", "list", "--checks", folder).count("\n") == len(IDS) + 2
    for name in ("site.new", "site.old"):
        out = answer(call, "checks", "show", name, "--checks", folder)
        assert out.startswith("site.new\n\nIt is new.\n\nBecause I say so.\n\nsubject   gpu\n")
    assert "urgency   next-idle\nimpact    capacity\nsource    me\nneeds     driver.loaded\n" in out
    assert "busy      only warns while jobs run (--context busy)\n" in out
    row = next(
        row for row in data(call, "checks", "list", "--checks", folder) if row["id"] == "site.new"
    )
    assert (row["needs"], row["aliases"], row["source"]) == (["driver.loaded"], ["site.old"], "me")
    assert (
        data(call, "checks", "show", "site.new", "--checks", folder)["text"]
        .splitlines()[-1]
        .strip()
        == "Because I say so."
    )


def test_every_exit_code_is_explained(call: Call) -> None:
    lines = answer(call, "explain", "exit").splitlines()
    told = data(call, "explain", "exit")
    codes = [row["exit"] for row in told["codes"]]
    assert set(codes) == {
        0,
        10,
        3,
        *BROKEN_STYLES["full"],
        *(row.exit_code for row in ACTIONS.values()),
    }
    assert [line.split()[0] for line in lines] == [*map(str, codes), "128+n:"]
    assert told["styles"] == EXIT_STYLES
    for row in told["codes"]:
        assert answer(call, "explain", "exit", str(row["exit"])).startswith(
            f"{row['exit']:<4}{row['verdict']}"
        )
        assert data(call, "explain", "exit", str(row["exit"]))["codes"] == [row]
        for action in row["actions"]:
            assert ACTIONS[Action(action)].exit_code == row["exit"]


@pytest.mark.parametrize(
    ("code", "styles"),
    [
        ("3", "(simple 3, nagios 3, npd 2)"),
        ("10", "(simple 1, nagios 1, npd 1)"),
        ("41", "(simple 1, nagios 2, npd 1)"),
    ],
)
def test_other_styles_are_told(code: str, styles: str, call: Call) -> None:
    assert answer(call, "explain", "exit", code).rstrip().endswith(styles)


def test_signals_have_exit_codes_of_their_own(call: Call) -> None:
    assert (
        answer(call, "explain", "exit", "143")
        == "143  128+n: ended by signal n; the report is partial and marked incomplete.\n"
    )
    assert data(call, "explain", "exit", "130")["exit"] == 130


NONSENSE = {
    ("checks", "show"): "checks show: no check named; write gpuscan checks show ID",
    ("checks", "lst"): "'lst' is not one of 'list', 'show'",
    ("checks", "show", "memory.no_row_remap_faild"): f"did you mean {ONE}",
    ("checks", "show", "zzzz"): "no check is called 'zzzz': gpuscan checks list shows all ",
    ("checks", "list", "--checks", "/no/such"): "/no/such: No such file or directory",
    (
        "explain",
        "xdi",
        "48",
    ): "explain xdi: gpuscan prints no such code, check or action; did you mean",
    ("explain", "99999"): "explain 99999: neither an Xid nor an SXid",
    ("explain", ","): "explain: nothing named",
    ("explain", "action", "repalce"): "no action is called 'repalce': did you mean replace?",
    ("checks", "show", "memory"): "memory is an area of checks: gpuscan checks list memory shows",
    ("checks", "list", "memroy"): "selector 'memroy' matches no check: did you mean memory?",
    ("explain", "exit", "5"): "exit code 5: gpuscan never uses it",
    ("explain", "exit", "²"): "exit code ²: gpuscan never uses it",
    ("explain", "exit", "128"): "exit code 128: gpuscan never uses it",
    ("explain", "exit", "193"): "exit code 193: gpuscan never uses it",
    ("explain", "exit", "9" * 5000): "gpuscan never uses it",
    ("explain", "exit", "--format", "yaml"): "'yaml' is not one of 'text', 'json'",
    ("explain",): "Missing argument",
    ("profile", "show", "h20"): "unknown profile 'h20': did you mean h200",
    ("profile", "show", "h200", "--set", "gpu.cuont=4"): "no such key; did you mean gpu.count",
    ("profile", "show"): "Missing argument",
    ("profile", "diff", "h200", "/no/such.yaml"): "/no/such.yaml: No such file or directory",
    ("profile", "list", "--format", "jsn"): "'jsn' is not one of 'text', 'json'",
    ("profile", "validate", "h20"): "unknown profile 'h20': did you mean h200",
    ("profile", "validate"): "Missing argument",
    ("profile", "lst"): "no such command: gpuscan profile lst; did you mean list?",
}


@pytest.mark.parametrize("words", NONSENSE, ids=lambda words: " ".join(words)[:40])
def test_nonsense_exits_with_two_and_a_hint(words: tuple[str, ...], call: Call) -> None:
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert NONSENSE[words] in done.err
    assert "Traceback" not in done.err


def test_profiles_are_listed(call: Call) -> None:
    names = sorted(profile.list_profiles())
    lines = answer(call, "profile", "list").splitlines()
    assert [line.split()[0] for line in lines] == names
    rows = data(call, "profile", "list")
    assert [row["name"] for row in rows] == names
    assert all(
        row["description"] and row["description"] in line
        for row, line in zip(rows, lines, strict=True)
    )


@pytest.mark.parametrize("name", sorted(profile.list_profiles()))
def test_what_is_shown_loads_back_as_the_same_profile(
    name: str, tmp_path: Path, call: Call
) -> None:
    shown = tmp_path / f"{name}.yaml"
    shown.write_text(answer(call, "profile", "show", name), "utf-8")
    whole, again = profile.load(name), profile.load(str(shown))
    assert again.name == whole.name
    assert {**again.data, "match": None} == {**whole.data, "match": None}
    told = data(call, "profile", "show", name)
    assert told == {"name": name, **whole.data}


def test_what_is_shown_has_the_settings_in_it(tmp_path: Path, call: Call) -> None:
    reason = "known: \"it\" is 'so' # ☃"
    words = (
        "--set",
        "gpu.count=3",
        "--set",
        f"skip.{ONE}={json.dumps(reason)}",
        "--set",
        "driver.version=>=535,<600",
    )
    shown = tmp_path / "mine.yaml"
    shown.write_text(answer(call, "profile", "show", "h200-4x", *words), "utf-8")
    again = profile.load(str(shown)).data
    assert (again["gpu"]["count"], again["driver"]["version"]) == (3, ">=535,<600")
    assert again["skip"][ONE] == reason
    assert data(call, "profile", "show", "h200-4x", *words)["gpu"]["count"] == 3


def test_profiles_are_compared(tmp_path: Path, call: Call) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: h200-4x\ngpu: {count: 3, vbios: '==1.2'}\n", "utf-8")
    out = answer(call, "profile", "diff", "h200-4x", str(mine))
    assert (
        out
        == f'gpu.count: 4 in h200-4x, 3 in {mine}\ngpu.vbios: null in h200-4x, "==1.2" in {mine}\n'
    )
    rows = data(call, "profile", "diff", "h200-4x", str(mine))
    assert rows == [
        {"key": "gpu.count", "first": 4, "second": 3},
        {"key": "gpu.vbios", "first": None, "second": "==1.2"},
    ]
    assert answer(call, "profile", "diff", "h200", "h200") == "no difference\n"
    assert data(call, "profile", "diff", "h200", "h200") == []


def test_every_mistake_of_several_files_is_told(tmp_path: Path, call: Call) -> None:
    bad = {
        "a": "gpu:\n  count: eight\n  cuont: 8\ndriver: {version: 5}\n",
        "b": "gpu: {count: 1}\ngpu: {count: 2}\n",
        "c": "skip: {memory.no_row_remap_faild: because}\n",
    }
    for name, text in bad.items():
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    files = [str(tmp_path / f"{name}.yaml") for name in bad]
    done = call("profile", "validate", "h200", *files, "/no/such.yaml")
    assert (done.code, done.out) == (2, "h200: valid\n")
    assert all(line.startswith("gpuscan: ") for line in done.err.splitlines())
    for told in (
        f"{files[0]}:2:10: $.gpu.count: 'eight' is not",
        f"{files[0]}:3:3: $.gpu",
        f"{files[0]}:4:19: $.driver.version: 5 is not",
        f"{files[1]}:2:1: ",
        f"{files[2]}:1:8: $.skip.memory.no_row_remap_faild: no check is called",
        "/no/such.yaml: No such file or directory",
    ):
        assert told in done.err, told


def test_every_bundled_profile_is_valid(call: Call) -> None:
    names = sorted(profile.list_profiles())
    assert answer(call, "profile", "validate", *names) == "".join(
        f"{name}: valid\n" for name in names
    )
