"""The installed program from outside: exit codes, streams, and that it stays calm whatever it is
given.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from building import module
from paths import RECORDINGS
from program import Call, environment, program, start

from gpuscan import __version__, files
from gpuscan.cli.schema import SCHEMAS
from gpuscan.importers.load import open_recording
from gpuscan.recording import Reading, Recording, load, save

COMMANDS = ("run", "judge", "collect", "info", "doctor", "schema", "checks", "explain", "profile")
ONE = str(RECORDINGS / "h200-1x.json.gz")


def gpuscan(
    *words: str, cwd: str | Path = "/", redirect: str = "", **changes: str
) -> subprocess.CompletedProcess[str]:
    command = (
        ["bash", "-c", f'"$0" "$@" {redirect}', *program(), *words]
        if redirect
        else [*program(), *words]
    )
    env = environment(changes)
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=env, timeout=60, check=False
    )


def test_the_version() -> None:
    done = gpuscan("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"gpuscan {__version__}\n", "")


def test_no_arguments_show_what_there_is() -> None:
    done = gpuscan()
    assert (done.returncode, done.stdout) == (2, "")
    assert all(f"  {name} " in done.stderr for name in COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command: str, call: Call) -> None:
    done = call(*command.split(), "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: gpuscan")
    told = re.findall(r"^  (?:-\w, )?--[a-z-]+(?: \S+)*?  +(\S.*)$", done.out, re.MULTILINE)
    assert "Show this message and exit." in told


MISTAKES = {
    "command": (["rnu"], "no such command: gpuscan rnu; did you mean run?"),
    "no such command": (
        ["frobnicate"],
        "no such command: gpuscan frobnicate; known commands: checks, clear, ",
    ),
    "option": (["run", "--replay", "demo", "--profiel", "x"], "--profile"),
    "value": (
        ["run", "--replay", "demo", "--deadline", "soon"],
        "--deadline soon: not a duration; write it like 300, 90s or 5m",
    ),
    "deadline": (
        ["run", "--replay", "demo", "--deadline", "0"],
        "--deadline 0: it must be between 1s and 1d",
    ),
    "profile": (
        ["run", "--replay", "demo", "--profile", "h20"],
        "unknown profile 'h20': did you mean h200",
    ),
    "profile file": (
        ["run", "--replay", "demo", "--profile", "/no/such.yaml"],
        "/no/such.yaml: No such file or directory",
    ),
    "key": (
        ["run", "--replay", "demo", "--set", "gpu.cuont=4"],
        "no such key; did you mean gpu.count",
    ),
    "set": (["run", "--replay", "demo", "--set", "gpu.count"], "write it as KEY=VALUE"),
    "selector": (
        ["run", "--replay", "demo", "--only", "memroy"],
        "selector 'memroy' matches no check: did you mean memory",
    ),
    "skip": (
        ["run", "--replay", "demo", "--skip", "zzzz"],
        "selector 'zzzz' matches no check: gpuscan checks list shows all",
    ),
    "all skipped": (
        ["run", "--replay", "demo", "--only", "pcie", "--skip", "pcie"],
        "no check is left",
    ),
    "format": (
        ["run", "--replay", "demo", "--format", "jsno"],
        "Invalid value for '--format': 'jsno' is not one of 'text', 'json', 'junit', 'junit-full', 'ctrf', 'github', 'markdown'.",
    ),
    "exit style": (
        ["run", "--replay", "demo", "--exit-style", "nagois"],
        (
            "Invalid value for '--exit-style': 'nagois' is not one of 'full', 'simple', 'nagios',"
            " 'npd'."
        ),
    ),
    "fail on": (
        ["run", "--replay", "demo", "--fail-on", "unknown"],
        "Invalid value for '--fail-on': 'unknown' is not one of 'warn'.",
    ),
    "cards": (
        ["run", "--replay", "demo", "--gpus", "SXM9"],
        "--gpus SXM9: no such GPU; known GPUs: 0000:",
    ),
    "checks": (
        ["run", "--replay", "demo", "--checks", "/no/such"],
        "/no/such: No such file or directory",
    ),
    "recording": (["run", "--replay", "/no/such.gz"], "/no/such.gz: No such file or directory"),
    "directory": (["judge", "/"], "/: is the root directory: give the directory"),
    "no file": (["judge"], "Missing argument"),
    "output": (
        ["run", "--replay", "demo", "--output", "/no/such/out"],
        "/no/such/out: cannot be written: there is no folder /no/such; create it first",
    ),
    "schema": (["schema", "reprot"], "'reprot' is not one of 'report', 'profile', 'recording'."),
    "info format": (
        ["info", "--replay", "demo", "--format", "cvs"],
        "'cvs' is not one of 'text', 'json', 'csv'.",
    ),
    "doctor format": (
        ["doctor", "--format", "junit"],
        "'junit' is not one of 'text', 'json'.",
    ),
    "checks format": (
        ["checks", "list", "--format", "jsno"],
        "'jsno' is not one of 'text', 'json'.",
    ),
    "report": (
        ["run", "--replay", "demo", "--report", "junit"],
        "--report junit: write FORMAT=FILE, e.g. --report junit=gpuscan.xml",
    ),
    "report format": (
        ["run", "--replay", "demo", "--report", "junti=a.xml"],
        "unknown format 'junti': did you mean junit",
    ),
    "report file": (
        ["run", "--replay", "demo", "--report", "json=/no/such/out"],
        "/no/such/out: cannot be written: there is no folder /no/such; create it first",
    ),
    "context": (
        ["run", "--replay", "demo", "--context", "bussy"],
        "Invalid value for '--context': 'bussy' is not one of 'idle', 'busy'.",
    ),
    "deadline that is no number": (
        ["run", "--replay", "demo", "--deadline", "nan"],
        "--deadline nan: not a duration",
    ),
    "endless deadline": (
        ["run", "--replay", "demo", "--deadline", "inf"],
        "--deadline inf: not a duration",
    ),
    "deadline of years": (
        ["doctor", "--deadline", "1e9"],
        "--deadline 1e9: it must be between 1s and 1d",
    ),
    "deadline before now": (["info", "--deadline", "-1"], "--deadline -1: not a duration"),
    "record of a replay": (
        ["run", "--replay", "demo", "--record", "x"],
        "--record cannot be combined with --replay",
    ),
    "capture of recordings under load": (
        ["profile", "capture", "--from", "demo", "--level", "quick"],
        "--level quick cannot be combined with --from",
    ),
    "root of a replay": (
        ["run", "--replay", "demo", "--root", "/tmp"],
        "--root cannot be combined with --replay",
    ),
    "driver root of a replay": (
        ["run", "--replay", "demo", "--driver-root", "/tmp"],
        "--driver-root cannot be combined with --replay",
    ),
    "vbios": (
        ["run", "--replay", "demo", "--set", "gpu.vbios=nonsense"],
        "$.gpu.vbios: 'nonsense' is not a version limit: write",
    ),
    "vbios without a version": (
        ["judge", "demo", "--set", "gpu.vbios=>="],
        "$.gpu.vbios: '>=' is not a version limit",
    ),
    "vbios of two words": (
        ["judge", "demo", "--set", "gpu.vbios===96 or so"],
        "$.gpu.vbios: '==96 or so' is not a version limit",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_on_stderr_and_exit_with_two(name: str, call: Call) -> None:
    words, told = MISTAKES[name]
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err
    assert done.err.startswith(("gpuscan: ", "Usage: "))


EMPTY = {
    "run": ("--gpus", "--replay", "--record", "--output", "--profile", "--root", "--driver-root"),
    "judge demo": ("--gpus", "--output", "--profile"),
    "info": ("--replay", "--output", "--root", "--driver-root"),
    "doctor": ("--root", "--driver-root"),
    "collect /nonexistent/x.json": ("--profile", "--root", "--driver-root"),
    "profile capture": ("--output", "--driver-root"),
}


@pytest.mark.parametrize(
    ("command", "flag"), [(command, flag) for command, flags in EMPTY.items() for flag in flags]
)
def test_an_option_that_was_given_nothing_is_no_option_left_out(
    command: str, flag: str, call: Call
) -> None:
    """As from a variable that is not set: `--gpus "$CARDS"` would judge all, `--record "$FILE"`
    keep nothing.
    """
    for words in ([f"{flag}="], [flag, ""]):
        done = call(*command.split(), *words)
        assert (done.code, done.out) == (2, "")
        assert (
            done.err
            == f"gpuscan: {flag} is empty (an unset shell variable?): give a value or leave the"
            " option out\n"
        )


@pytest.mark.parametrize(
    ("style", "code"), [("full", 2), ("simple", 2), ("nagios", 3), ("npd", 2), ("nagois", 2)]
)
@pytest.mark.parametrize(
    "words", [["run", "--replay", "/no/such"], ["run", "--bogus"], ["judge", "/no/such"]]
)
def test_mistakes_under_an_exit_style_are_not_known_and_no_verdict(
    words: list[str],
    style: str,
    code: int,
    call: Call,
) -> None:
    assert call(*words, "--exit-style", style).code == code
    assert call(words[0], f"--exit-style={style}", *words[1:]).code == code


def test_a_profile_s_unknown_checks_are_told(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("skip: {memory.no_row_remap_faild: x}\n", "utf-8")
    done = call("judge", "demo", "--profile", str(path))
    assert done.code == 2
    assert (
        f"{path}:1:8: $.skip.memory.no_row_remap_faild: no check is called"
        " memory.no_row_remap_faild: did you mean memory.row_remap"
    ) in done.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "--replay", "demo"], 0),
        (["run", "--replay", "demo-broken"], 41),
        (["run", "--replay", "demo-broken", "--exit-style", "nagios"], 2),
        (["run", "--replay", "demo-broken", "--exit-style", "simple"], 1),
        (["run", "--replay", "demo", "--no-history"], 0),
        (["run", "--replay", "demo", "--set", "gpu.count=5"], 31),
        (["run", "--replay", "demo", "--set", "driver.version=>=590"], 20),
        (["run", "--replay", "demo", "--profile", "h200-8x", "--gpus", "SXM5"], 0),
        (["judge", "demo", "demo-broken"], 41),
        (["judge", "demo", str(RECORDINGS / "h200-4x-app-xids.json.gz"), "--fail-on", "warn"], 10),
        (["judge", "demo", str(RECORDINGS / "h200-4x-app-xids.json.gz")], 0),
        (
            [
                "judge",
                "demo",
                str(RECORDINGS / "h200-4x-app-xids.json.gz"),
                "--exit-style",
                "nagios",
            ],
            1,
        ),
        (["info", "--replay", "demo-broken"], 0),
        (["schema", "profile"], 0),
    ],
)
def test_exit_codes(words: list[str], code: int, call: Call) -> None:
    done = call(*words)
    assert (done.code, done.err) == (code, "")
    assert done.out


def test_a_setting_names_what_it_changes(call: Call) -> None:
    done = call("run", "--replay", "demo", "--set", "skip.memory.row_remap=known", "-v")
    assert done.code == 0
    assert "not judged by this profile: known\n         memory.row_remap\n" in done.out


def test_run_with_replay_is_judge(call: Call) -> None:
    for options in ([], ["--format", "json"], ["-v"], ["-q"]):
        ran, judged = call("run", "--replay", ONE, *options), call("judge", ONE, *options)
        assert (ran.code, ran.out, ran.err) == (judged.code, judged.out, judged.err)


def test_quiet_is_one_line_and_verbose_shows_what_passed(call: Call) -> None:
    assert call("run", "--replay", "demo-broken", "-q").out.count("\n") == 1
    plain, verbose = call("run", "--replay", "demo"), call("run", "--replay", "demo", "-v")
    assert "pass " not in plain.out.replace("Verdict: pass", "")
    assert "pass     gpu SXM[5-8]: The driver can communicate with the GPU." in verbose.out


def test_several_files_are_a_line_each_and_json_is_an_array(call: Call) -> None:
    done = call("judge", "demo", ONE, "demo-broken")
    assert [line.split(": ")[:2] for line in done.out.splitlines()] == [
        ["demo", "pass (0)"],
        [ONE, "pass (0)"],
        ["demo-broken", "hardware (41)"],
    ]
    done = call("judge", "demo", "demo-broken", "--format", "json")
    assert [one["summary"]["exit_code"] for one in json.loads(done.out)] == [0, 41]
    assert json.loads(call("judge", "demo", "--format", "json").out)["summary"]["exit_code"] == 0


def test_broken_files_do_not_keep_the_rest_from_being_told(tmp_path: Path, call: Call) -> None:
    bad = tmp_path / "bad.gz"
    bad.write_bytes(b"\x1f\x8b")
    stranger = tmp_path / "stranger.gz"
    save(Recording({"profile": "of-another-site"}, ["*"], [Reading("k", 1)]), str(stranger))
    done = call("judge", str(bad), "demo-broken", "/no/such", str(stranger))
    assert (done.code, done.out) == (
        41,
        "demo-broken: hardware (41): replace gpu SXM7 serial 1654000000004: row remapping failed: the"
        " GPU has run out of spare rows [memory.row_remap] (+2)\n",
    )
    first, second, third = done.err.splitlines()
    assert first.startswith(f"gpuscan: {bad}: damaged or cut off")
    assert second == "gpuscan: /no/such: No such file or directory"
    assert third.startswith(
        "gpuscan: profile of-another-site, named in the recording, is not known here: name one with"
        " --profile"
    )
    done = call("judge", str(bad), "demo", "--format", "json")
    assert [one["run"]["recording"] for one in json.loads(done.out)] == ["demo"]
    assert done.code == 2
    assert call("judge", str(bad), "demo", "--exit-style", "nagios").code == 3
    assert call("judge", str(bad), str(bad)).out == ""


@pytest.mark.parametrize(
    ("files", "words", "code"),
    [
        (["demo-broken"], [], 41),
        (["demo"], [], 2),
        (["demo", "demo-broken"], [], 41),
        (["demo"], ["--set", "kernel.modules=[no_such]"], 20),
        (["incomplete"], [], 2),
        (["demo", "incomplete"], [], 2),
        ([], [], 2),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_file_that_cannot_be_read_hides_no_failure_and_passes_for_none(
    files: list[str], words: list[str], code: int, first: bool, tmp_path: Path, call: Call
) -> None:
    demo = open_recording("demo")
    demo.meta = demo.meta._replace(ended_by_signal=15)
    save(demo, str(tmp_path / "incomplete.json"))
    bad = tmp_path / "bad.gz"
    bad.write_bytes(b"\x1f\x8b")
    named = [str(tmp_path / "incomplete.json") if file == "incomplete" else file for file in files]
    done = call("judge", *([str(bad), *named] if first else [*named, str(bad)]), *words)
    assert done.code == code
    assert len(done.out.splitlines()) == len(files)
    assert done.err.startswith(f"gpuscan: {bad}: damaged or cut off")


def test_a_recording_cannot_point_at_a_file(tmp_path: Path, call: Call) -> None:
    (tmp_path / "evil.yaml").write_text("gpu: {count: 4}\n", "utf-8")
    demo = open_recording("demo")
    demo.meta = demo.meta._replace(profile=str(tmp_path / "evil.yaml"))
    save(demo, str(tmp_path / "a.json"))
    done = call("judge", str(tmp_path / "a.json"))
    assert (done.code, done.out) == (2, "")
    assert (
        call("judge", str(tmp_path / "a.json"), "--profile", str(tmp_path / "evil.yaml")).code == 0
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_printed(name: str, call: Call) -> None:
    assert json.loads(call("schema", name).out)["$id"] == f"urn:gpuscan:schema:{name}:1"


def test_output_is_written_whole_and_leaves_stdout_empty(tmp_path: Path, call: Call) -> None:
    target = tmp_path / "out.json"
    target.write_text("old", "utf-8")
    done = call("run", "--replay", "demo-broken", "--format", "json", "--output", str(target))
    assert (done.code, done.out, done.err) == (41, "", "")
    assert json.loads(target.read_text("utf-8"))["summary"]["exit_code"] == 41
    assert os.listdir(tmp_path) == ["out.json"]
    done = call("run", "--replay", "demo", "--output", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err == f"gpuscan: {tmp_path}: cannot be written: is a folder; name a file in it\n"
    assert call("run", "--replay", "demo", "--output", "-").out.endswith(
        "This node may go to work.\n"
    )


@pytest.mark.parametrize("words", [("--output", "{}"), ("-q", "--report", "json={}")])
@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_pipe_of_its_own_is_written_into(words: tuple[str, str], place: str) -> None:
    done = start(
        ["run", "--replay", "demo", "--format", "json", *(word.format(place) for word in words)]
    )
    assert (done.code, done.err) == (0, "")
    assert json.JSONDecoder().raw_decode(done.out)[0]["summary"]["exit_code"] == 0


WET = (
    '@check(action=Action.INSPECT)\ndef test_wet(node: Node) -> None:\n    """The node is dry."""\n'
)


def test_a_check_folder_of_the_user(tmp_path: Path, call: Call) -> None:
    module(tmp_path, WET + "    assert not node.gpus\n", "test_mine.py")
    done = call("run", "--replay", "demo", "--checks", str(tmp_path))
    assert done.code == 40
    assert "FAIL     node: Not so: The node is dry.\n         mine.wet: inspect\n" in done.out
    (tmp_path / "test_mine.py").write_text("import nonsense_module\n", "utf-8")
    done = call("run", "--replay", "demo", "--checks", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        f"gpuscan: {tmp_path}/test_mine.py:1: check module cannot be loaded: ModuleNotFoundError"
    )


TALKS = """\
import sys

print("loaded")
sys.stdout.write("and ready\\n")


@check(action=Action.INSPECT)
def test_wet(node: Node) -> None:
    \'\'\'The node is dry.\'\'\'
    print("looking", node.driver.module_version)
    warn("odd", observed={1, 2}, expected=sys)
    fail("wet", observed={1}, expected=frozenset({"a"}))
"""


@pytest.mark.parametrize("format_", ["json", "text", "junit", "junit-full"])
def test_what_a_check_prints_is_no_part_of_the_report(
    format_: str, tmp_path: Path, call: Call
) -> None:
    """Nor does it matter what it observed: sets and objects are told, too."""
    module(tmp_path, TALKS, "test_mine.py")
    done = call("run", "--replay", "demo", "--checks", str(tmp_path), "--format", format_)
    assert done.code == 40
    assert done.err == "loaded\nand ready\nlooking 580.159.04\n"
    assert "looking" not in done.out
    if format_ == "json":
        rows = [row for row in json.loads(done.out)["findings"] if row["check"] == "mine.wet"]
        assert [(row["message"], row["observed"]) for row in rows] == [
            ("odd", "{1, 2}"),
            ("wet", "{1}"),
        ]
        assert rows[1]["expected"] == "frozenset({'a'})"
    else:
        assert "wet" in done.out
    if format_.startswith("junit"):
        assert ElementTree.fromstring(done.out).tag == "testsuites"  # noqa: S314  # our own


def test_a_check_that_crashes_has_its_traceback_in_json_only(tmp_path: Path, call: Call) -> None:
    module(tmp_path, WET + "    1 / 0\n", "test_mine.py")
    done = call("run", "--replay", "demo", "--checks", str(tmp_path), "--format", "json")
    (row,) = [row for row in json.loads(done.out)["checks"] if row["id"] == "mine.wet"]
    assert (done.code, row["status"]) == (3, "unknown")
    assert "ZeroDivisionError" in row["traceback"]
    done = call("run", "--replay", "demo", "--checks", str(tmp_path))
    assert "Traceback" not in done.out + done.err
    assert "the check itself crashed: ZeroDivisionError: division by zero" in done.out


def test_our_own_failures_exit_with_one_and_ask_for_a_report(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr(files, "schema_text", None)  # as broken as a program can be
    done = call("schema", "report")
    assert (done.code, done.out) == (1, "")
    assert "Traceback" in done.err
    assert done.err.endswith(
        "gpuscan: internal error, not a verdict: please report it with the traceback above\n"
    )
    monkeypatch.setattr("gpuscan.importers.load.DEMOS", None)
    assert call("run", "--replay", "demo", "--exit-style", "nagios").code == 3


def test_a_reader_that_leaves_early_hears_no_complaint() -> None:
    for changes in ({}, {"FORCE_COLOR": "1"}):
        done = gpuscan(
            "run", "--replay", "demo", redirect='| head -0; echo "${PIPESTATUS[0]}"', **changes
        )
        assert (done.stdout, done.stderr) == ("141\n", "")


def test_a_full_disk_and_a_closed_output_are_told() -> None:
    done = gpuscan("run", "--replay", "demo", redirect=">/dev/full")
    assert (done.returncode, done.stderr) == (
        2,
        "gpuscan: standard output cannot be written: No space left on device\n",
    )
    done = gpuscan("run", "--replay", "demo", redirect=">&-")
    assert (done.returncode, done.stderr) == (
        2,
        "gpuscan: standard output cannot be written: it is closed\n",
    )


def test_colours_on_demand_only() -> None:
    assert "\x1b" not in gpuscan("run", "--replay", "demo").stdout
    forced = gpuscan("run", "--replay", "demo", FORCE_COLOR="1")
    assert "\x1b[1;32mVerdict: pass\x1b[0m" in forced.stdout
    assert (
        "\x1b[1;32m" not in gpuscan("run", "--replay", "demo", FORCE_COLOR="1", NO_COLOR="1").stdout
    )
    assert "\x1b" not in gpuscan("run", "--replay", "demo", FORCE_COLOR="0").stdout


def test_nothing_in_the_current_directory_is_read_or_imported(tmp_path: Path) -> None:
    trap = 'open(__file__ + ".was_run", "w")\nraise SystemExit(0)\n'
    for name in (
        "yaml",
        "json",
        "typer",
        "rich",
        "gpuscan",
        "pynvml",
        "sitecustomize",
        "usercustomize",
        "conftest",
        "jsonschema",
    ):
        (tmp_path / f"{name}.py").write_text(trap, "utf-8")
    for folder in ("checks", "profiles", "gpuscan"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(trap, "utf-8")
    (tmp_path / "checks" / "test_x.py").write_text(trap, "utf-8")
    for name in ("h200-4x", "default"):
        (tmp_path / "profiles" / f"{name}.yaml").write_text("- broken", "utf-8")
        (tmp_path / f"{name}.yaml").write_text("- broken", "utf-8")
    for name in ("demo", "config.yaml", "pyproject.toml", "pytest.ini"):
        (tmp_path / name).write_text("broken", "utf-8")
    before = {path: path.stat().st_atime_ns for path in tmp_path.rglob("*.*")}
    done = gpuscan("run", "--replay", "demo", "--set", "gpu.count=4", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == gpuscan("run", "--replay", "demo", "--set", "gpu.count=4").stdout
    assert set(before) == set(tmp_path.rglob("*.*"))


def test_the_recording_that_is_named_after_a_demo_can_be_given_by_path(
    tmp_path: Path, call: Call
) -> None:
    save(load(ONE), str(tmp_path / "demo"))
    assert "1 x NVIDIA H200" in call("judge", str(tmp_path / "demo")).out
