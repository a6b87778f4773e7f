"""`gpuscan status`: the stored verdict and the hold, at once, for this machine, this boot and a
whole, fresh run only.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from program import Call, start

from gpuscan.state import last
from gpuscan.state.whoami import this_machine

REASON = {
    "code": 41, "action": "replace", "check": "memory.row_remap", "subject": "gpu:SXM4",
    "slot": "SXM4",
    "address": "0000:52:00.0", "serial": "1650000000004", "message": "a row remap failed",
    "level": "passive",
    "boot_id": "x", "profile": "h100-8x", "since_s": 1.7e9,
}  # fmt: skip
AGES = 1e6  # a smaller time is an age, negative, or lies so far ahead
HOLD: dict[str, Any] = {"code": 41, "verdict": "hardware", "since": 1.7e9, "reasons": [REASON]}
SWAP = {"ticket": "OPS-7", "parts": ["gpu:SXM4"]}


def stored(folder: Path, **changes: Any) -> str:
    """Write a last.json of this machine and boot: a whole run by h100-8x that passed a minute ago,
    with *changes*.
    """
    here = this_machine()
    document = {
        "format": last.FORMAT,
        "schema_version": last.SCHEMA_VERSION,
        "machine": {name: here[name] for name in ("machine_id", "dmi_serial", "hostname")},
        "boot_id": here["boot_id"],
        "at": time.time() - 60,
        "verdict": "pass",
        "exit_code": 0,
        "complete": True,
        "headline": "pass (0)",
        "profile": "h100-8x",
        "level": "passive",
        "scope": {"full": True, "limits": []},
        "hold": None,
        "swap": None,
    }
    folder.mkdir(exist_ok=True)
    if "at" in changes and changes["at"] < AGES:
        changes["at"] += time.time()
    (folder / "last.json").write_text(json.dumps({**document, **changes}))
    return str(folder)


ELSEWHERE = {"machine": {"machine_id": "a" * 32, "dmi_serial": "", "hostname": "b"}, "boot_id": "c"}
REBOOTED = {"boot_id": "another"}
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...], int, str]] = {
    "passed": ({}, (), 0, ""),
    "warned": ({"verdict": "warn"}, (), 0, ""),
    "failed by profile": (
        {"verdict": "incomplete", "exit_code": 3, "complete": False},
        (),
        3,
        "incomplete",
    ),
    "another boot": (REBOOTED, (), 3, "rebooted since"),
    "old": ({"at": -90000}, (), 3, "25 h old"),
    "old, but that will do": ({"at": -90000}, ("--max-age", "7d"), 0, ""),
    "fresh, but not enough": ({"at": -1000}, ("--max-age", "15m"), 3, "17 m old"),
    "from the future": ({"at": 4000}, (), 3, "was the clock set back?"),
    "the profile": ({}, ("--profile", "h100-8x"), 0, ""),
    "the profile's file": ({}, ("--profile", "/etc/gpuscan/h100-8x.yaml"), 0, ""),
    "another profile": ({}, ("--profile", "h200-8x"), 3, "used profile h100-8x, not h200-8x"),
    "part of the node": (
        {"scope": {"full": False, "limits": ["--only xid"]}},
        (),
        3,
        "incomplete (3): partial: --only xid; run gpuscan run",
    ),
    "a swap under way": ({"swap": SWAP}, (), 3, "swap OPS-7 is not verified yet"),
    "held": (
        {"hold": HOLD, "verdict": "hardware", "exit_code": 41},
        (),
        41,
        "hardware (41): replace gpu SXM4: memory.row_remap, held since",
    ),
    "held over a reboot": ({"hold": HOLD, **REBOOTED}, (), 41, "held since 2023-11-14"),
    "held for long": ({"hold": HOLD, "at": 1.7e9, **REBOOTED}, (), 41, "held since"),
    "held, and the last run passed": ({"hold": HOLD}, (), 41, "held since"),
    "another machine": (ELSEWHERE, (), 3, "of another machine"),
    "another machine's hold": ({**ELSEWHERE, "hold": HOLD}, (), 3, "of another machine"),
}
LENIENT: dict[str, tuple[dict[str, Any], int]] = {
    "another boot": (REBOOTED, 0),
    "old": ({"at": 1.7e9}, 0),
    "held": ({"hold": HOLD}, 41),
    "held over a reboot": ({"hold": HOLD, **REBOOTED}, 41),
    "swap": ({"swap": SWAP}, 3),
    "incomplete": ({"exit_code": 3, "complete": False, "verdict": "incomplete"}, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_status(call: Call, tmp_path: Path, name: str) -> None:
    changes, words, code, told = CASES[name]
    folder = stored(tmp_path, **changes)
    done = call("status", "--state-dir", folder, *words)
    assert (done.code, done.err) == (code, "")
    assert told in done.out
    document = json.loads(call("status", "--state-dir", folder, "--format", "json", *words).out)
    assert (document["exit_code"], document["usable"]) == (code, code == 0)
    held = None
    if "hold" in changes and "another machine" not in name:
        held = {**HOLD, "reasons": [{**one, "exercised": False} for one in HOLD["reasons"]]}
    assert document["hold"] == held
    line = call("status", "--state-dir", folder, "--format", "oneline", *words).out
    assert line.count("\n") == 1
    assert len(line.encode()) <= 80


@pytest.mark.parametrize(
    ("changes", "exercised", "told"),
    [
        ({}, False, "\n    not exercised since the fault\n"),
        ({"exercised_s": 1.7e9}, False, "\n    not exercised since the fault\n"),
        ({"exercised_s": 1.8e9}, True, "\n    exercised 2027-01-15 08:00 UTC, did not show\n"),
        ({"exercised_s": 1.8e9, "seen_s": 1.9e9}, False, "\n    not exercised since the fault\n"),
        ({"check": "driver.version"}, None, ""),
    ],
)
def test_a_hold_tells_whether_its_fault_was_exercised(
    call: Call, tmp_path: Path, changes: dict[str, Any], exercised: bool | None, told: str
) -> None:
    hold = {**HOLD, "reasons": [{**HOLD["reasons"][0], **changes}]}
    folder = stored(tmp_path, hold=hold)
    document = json.loads(call("status", "--state-dir", folder, "--format", "json").out)
    assert document["hold"]["reasons"][0]["exercised"] is exercised
    text = call("status", "--state-dir", folder).out
    assert told in text
    assert ("exercised" in text) is bool(told)
    assert ("exercised" in call("explain", "hold", "--state-dir", folder).out) is bool(told)


@pytest.mark.parametrize("name", LENIENT)
def test_a_prolog_may_let_the_unknown_pass_but_no_hold_and_no_swap(
    call: Call, tmp_path: Path, name: str
) -> None:
    changes, code = LENIENT[name]
    assert (
        call("status", "--state-dir", stored(tmp_path, **changes), "--on-incomplete", "pass").code
        == code
    )


def test_nothing_stored(call: Call, tmp_path: Path) -> None:
    assert call("status", "--state-dir", str(tmp_path)).code == 3
    assert call("status", "--state-dir", str(tmp_path), "--on-incomplete", "pass").code == 0
    (
        tmp_path / "history.sqlite"
    ).touch()  # there was something: a hold may have been lost with last.json
    assert call("status", "--state-dir", str(tmp_path), "--on-incomplete", "pass").code == 3


@pytest.mark.parametrize(
    "text", ["", "{", '{"format": "gpuscan-last", "schema_version": "2.0"}', "[]", '"x"']
)
def test_what_cannot_be_read_may_hold(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "last.json").write_text(text)
    for words in ((), ("--on-incomplete", "pass")):
        done = call("status", "--state-dir", str(tmp_path), *words)
        assert done.code == 3
        assert "last.json" in done.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--max-age", "soon"), "--max-age soon: not a duration"),
        (("--format", "xml"), "'xml' is not one of 'text', 'oneline', 'json'"),
        (("--on-incomplete", "fail"), "'--on-incomplete': 'fail' is not one of 'pass'"),
        (("--exit-style", "odd"), "'odd' is not one of"),
        (("--no-such",), "No such option"),
    ],
)
def test_bad_words(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = start(["status", "--state-dir", str(tmp_path), *words])
    assert done.code == 2
    assert told in done.err


@pytest.mark.parametrize(
    ("style", "code"), [("full", 41), ("simple", 1), ("nagios", 2), ("npd", 1)]
)
def test_exit_styles(tmp_path: Path, style: str, code: int) -> None:
    assert (
        start(["status", "--state-dir", stored(tmp_path, hold=HOLD), f"--exit-style={style}"]).code
        == code
    )


def test_both_ways_say_the_same(call: Call, tmp_path: Path) -> None:
    """The installed program answers before the command line is imported; what it says is what the
    command says.
    """
    folder = stored(tmp_path, hold=HOLD)
    for words in (
        (),
        ("--format", "json"),
        ("--format=oneline",),
        ("--max-age=1h", "--profile", "x"),
    ):
        quick = start(["status", "--state-dir", folder, *words])
        assert quick == call("status", "--state-dir", folder, *words)
        assert quick.code == 41


def test_a_hostile_last_json_steers_no_terminal(call: Call, tmp_path: Path) -> None:
    reason = {**REASON, "message": "\x1b[2J\nVerdict: pass", "subject": "gpu:\x1b[31m" + "é" * 90}
    folder = stored(tmp_path, hold={**HOLD, "reasons": [reason]})
    for format_ in ("text", "oneline"):
        out = call("status", "--state-dir", folder, "--format", format_).out
        assert "\x1b" not in out
        assert "\nVerdict" not in out
    assert len(call("status", "--state-dir", folder, "--format", "oneline").out.encode()) <= 80


def test_below_another_root(call: Call, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "machine-id").write_text("a" * 32 + "\n")
    folder = stored(tmp_path / "state", hold=HOLD, **ELSEWHERE)
    assert call("status", "--state-dir", folder).code == 3
    assert call("status", "--state-dir", folder, "--root", str(root)).code == 41
