"""Hostile corners: the installed program in surroundings that broke or altered others."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import NONE, SCRIPT, TREE, Call, Changes, Ended, environment, program, start
from wide import widened

from gpuscan.files import bundled
from gpuscan.importers.load import open_recording
from gpuscan.recording import Recording, patch, save
from gpuscan.text import IN_ASCII

pytestmark = pytest.mark.system
DEMO = ("run", "--replay", "demo-broken")
LIVE = ("run", "-q", "--deadline", "20", "--no-history")
VERDICTS = (0, 3, 20, 30, 31, 40, 41)


def usual(*words: str) -> Ended:
    """What the program says where nothing is odd."""
    return start(words)


def shell(redirect: str, *words: str, changes: Changes = NONE) -> Ended:
    return start(words, changes, before=("bash", "-c", f'"$0" "$@" {redirect}'))


HOSTILE = {
    "pytest.ini": "[pytest]\naddopts = --no-such-option\n",
    "conftest.py": "raise SystemExit(0)\n",
    "gpuscan/__init__.py": "raise SystemExit(0)\n",
    "gpuscan/checks/test_x.py": "raise SystemExit(0)\n",
    **{
        f"{name}.py": "raise SystemExit(0)\n"
        for name in ("yaml", "json", "typer", "rich", "junit_xml", "pynvml", "jsonschema", "re")
    },
    "sitecustomize.py": "raise SystemExit(0)\n",
    "profiles/h200-4x.yaml": "- broken\n",
    "profiles/default.yaml": "- broken\n",
    "checks/test_x.py": "raise SystemExit(0)\n",
    "demo-broken": "broken",
    "config.yaml": "profile: nonsense\n",
    ".env": "FORCE_COLOR=1\n",
}


@pytest.mark.parametrize(
    "words",
    [DEMO, (*DEMO, "--format", "junit"), ("profile", "show", "h200-4x"), ("checks", "list")],
)
def test_the_current_folder_is_not_looked_at(words: tuple[str, ...], tmp_path: Path) -> None:
    for name, text in HOSTILE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    before = sorted(tmp_path.rglob("*"))
    assert start(words, cwd=tmp_path) == usual(*words)
    assert sorted(tmp_path.rglob("*")) == before, "and nothing is written there"


def test_what_pytest_listens_to_is_nothing_to_us() -> None:
    changes = {
        "PYTEST_ADDOPTS": "--no-such-option",
        "PYTEST_PLUGINS": "no_such_plugin",
        "PYTHONOPTIMIZE": "2",
    }
    assert start(DEMO, changes) == usual(*DEMO)


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_asserts_are_alive_without_python_s(flag: str) -> None:
    words = (*DEMO, "-v")
    start_it = [
        sys.executable,
        flag,
        *([str(SCRIPT)] if SCRIPT.exists() else ["-m", "gpuscan"]),
        *words,
    ]
    done = subprocess.run(
        start_it,
        capture_output=True,
        text=True,
        cwd="/",
        env=environment(),
        timeout=60,
        check=False,
    )
    assert Ended(done.returncode, done.stdout, done.stderr) == usual(*words)


@pytest.mark.parametrize(
    "changes",
    [
        {"HOME": None},
        {"HOME": "/no/such"},
        {"TMPDIR": "/no/such", "TEMP": "/no/such", "TMP": "/no/such"},
        {"PATH": ""},
        {"PATH": None},
        {"TERM": None},
        {"TERM": "dumb"},
        {"COLUMNS": "20"},
        {"COLUMNS": "nonsense"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "no_SUCH.locale"},
        {"PYTHONWARNINGS": "error"},
        {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "7"},
    ],
    ids=str,
)
def test_an_odd_environment_changes_nothing(changes: Changes) -> None:
    before = (sys.executable,) if "PATH" in changes and SCRIPT.exists() else ()
    assert start(DEMO, changes, before=before) == usual(*DEMO)


@pytest.mark.parametrize("changes", [{"PATH": ""}, {"HOME": None, "TMPDIR": "/no/such"}], ids=str)
def test_a_live_scan_in_an_odd_environment_comes_to_a_verdict(changes: Changes) -> None:
    before = (sys.executable,) if "PATH" in changes and SCRIPT.exists() else ()
    done = start(LIVE, changes, before=before)
    assert (done.code in VERDICTS, done.err) == (True, "")
    assert re.fullmatch(r"\w+ \(\d+\).*\n", done.out)


def test_nowhere_to_write_at_all(tmp_path: Path) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(
            "unshare -m is missing or not allowed here: no file system can be made read-only for"
            " one program"
        )
    save(open_recording("demo"), str(tmp_path / "a.json"))
    bind = 'mount --bind -o ro "$m" "$m"; mount -o remount,ro,bind "$m"'
    freeze = f"for m in / /tmp /var/tmp /dev/shm; do {bind}; done >/dev/null 2>&1"
    before = (
        "unshare",
        "-m",
        "bash",
        "-c",
        f'{freeze}; touch /tmp/x 2>/dev/null && exit 99; exec "$0" "$@"',
    )
    done = start(("judge", str(tmp_path / "a.json")), before=before)
    if done.code == 99:
        pytest.skip("this file system cannot be made read-only")
    assert done == usual("judge", str(tmp_path / "a.json"))
    done = start(LIVE, before=before)
    assert (done.code in VERDICTS, done.err) == (True, "")


def everywhere(path: str) -> None:
    """Let everybody read a folder."""
    for folder, _, names in os.walk(path):
        os.chmod(folder, 0o755)
        for name in names:
            mode = os.stat(os.path.join(folder, name)).st_mode
            os.chmod(os.path.join(folder, name), stat.S_IMODE(mode) & ~0o022 | 0o444)


def needed(name: str, seen: dict[str, importlib.metadata.Distribution]) -> None:
    """Collect a distribution and those that it needs."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    if seen.setdefault(name.lower(), found) is found:
        for word in found.requires or ():
            if "extra ==" not in word:
                needed(re.split(r"[ ;<>=!~\[(]", word)[0], seen)


@pytest.fixture(scope="module")
def copied() -> Iterator[Path]:
    """A copy of the program that everybody may read, wherever this one lies; its script stands at
    its top.
    """
    folder = Path(tempfile.mkdtemp(prefix="gpuscan-of-all-"))
    try:
        shutil.copytree(
            Path(TREE) / "gpuscan", folder / "gpuscan", ignore=shutil.ignore_patterns("__pycache__")
        )
        for part in ("checks", "profiles"):
            shutil.copytree(
                bundled(part),
                folder / "gpuscan" / part,
                ignore=shutil.ignore_patterns("__pycache__"),
                dirs_exist_ok=True,
            )
        seen: dict[str, importlib.metadata.Distribution] = {}
        for name in (
            "typer",
            "rich",
            "PyYAML",
            "jsonschema",
            "nvidia-ml-py",
            "junit-xml",
            "psutil",
        ):
            needed(name, seen)
        for one in seen.values():
            for file in one.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    (folder / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(str(one.locate_file(file)), folder / file)
        (folder / "start.py").write_text("from gpuscan.__main__ import main\n\nmain()\n", "utf-8")
        everywhere(str(folder))
        yield folder
    finally:
        shutil.rmtree(folder)


def as_nobody(copied: Path, *words: str, cwd: str | Path = "/") -> Ended:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing: root cannot try what others can")
    drop = (
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    )
    command = [*drop, os.path.realpath(sys.executable), "-B", str(copied / "start.py"), *words]
    env = environment({"PYTHONPATH": None, "HOME": "/nonexistent"})
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=env, timeout=60, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_who_is_not_root_judges_alike(copied: Path) -> None:
    assert as_nobody(copied, *DEMO) == usual(*DEMO)
    done = as_nobody(copied, "profile", "validate", "h200-4x")
    assert (done.code, done.out) == (0, "h200-4x: valid\n")


def test_who_is_not_root_scans_as_far_as_allowed(copied: Path) -> None:
    done = as_nobody(copied, *LIVE)
    assert (done.code in VERDICTS, done.err) == (True, "")
    done = as_nobody(copied, "doctor")
    assert (done.code in (0, 3), done.err) == (True, "")
    assert "uid 65534" in done.out or os.geteuid() != 0


def test_a_folder_that_cannot_be_written(copied: Path) -> None:
    folder = copied / "closed"
    folder.mkdir(mode=0o555)
    for words in (["--output", "out.txt"], ["--report", "json=out.json"]):
        done = as_nobody(copied, *DEMO, *words, cwd=folder)
        assert (done.code, done.err) == (
            2,
            f"gpuscan: {words[1].removeprefix('json=')}: cannot be written: Permission denied\n",
        )
    assert as_nobody(copied, *DEMO, cwd=folder) == usual(*DEMO)
    assert os.listdir(folder) == []


def strange() -> Recording:
    demo = open_recording("demo")
    changes: dict[str, Any] = {
        "nvml:nvmlDeviceGetTemperature(0000:00:06.0,0)": 99,
        "file:/proc/sys/kernel/hostname": "nöde-☃",
    }
    return patch(Recording(demo.meta, ["*"], demo), changes)


def in_ascii(told: str) -> str:
    """Return a text as a locale without letters has it."""
    words = "".join(IN_ASCII.get(char, char) for char in told)
    return words.encode("ascii", "backslashreplace").decode("ascii")


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("colour", [None, "1"])
def test_text_is_readable_in_a_locale_without_letters(colour: str | None, tmp_path: Path) -> None:
    file = str(tmp_path / "hötü.json")
    save(strange(), file)
    wide = {"FORCE_COLOR": colour, "COLUMNS": "200"}
    for words in (["judge", file], ["judge", file, file], ["info", "--replay", file]):
        plain, rich = start(words, ASCII | wide), start(words, wide | {"LC_ALL": "C.UTF-8"})
        assert plain.out.isascii()
        assert (plain.code, plain.err) == (rich.code, rich.err)
        assert plain.out == in_ascii(rich.out)
        assert "n\\xf6de-\\u2603" in plain.out or "h\\xf6t\\xfc.json: hardware (40)" in plain.out
    document = ["judge", file, "--format", "junit"]
    assert start(document, ASCII | wide) == start(document, wide | {"LC_ALL": "C.UTF-8"})
    assert "99 C" in start(["judge", file], ASCII | wide).out
    done = start(["judge", "/no/sü☃ch.json", "--profile", "h200"], ASCII)
    assert (done.code, done.err.isascii()) == (2, True)
    assert re.fullmatch(r"gpuscan: /no/s(\\\w+)+ch\.json: No such file or directory\n", done.err)
    done = start(
        ["profile", "show", "h200", "--set", "skip.memory.row_remap=weil es so ist ☃ü"],
        ASCII,
    )
    assert (done.code, done.err) == (0, "")
    assert r"\u2603\u00fc" in done.out


@pytest.mark.parametrize("colour", [None, "1"])
@pytest.mark.parametrize(
    ("redirect", "told"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")]
)
def test_an_output_that_takes_nothing_is_no_verdict(
    redirect: str, told: str, colour: str | None
) -> None:
    done = shell(redirect, *DEMO, changes={"FORCE_COLOR": colour})
    assert (done.code, done.out, done.err) == (
        41,
        "",
        f"gpuscan: standard output cannot be written: {told}\n",
    )


@pytest.mark.parametrize(
    ("replayed", "style", "code"),
    [("demo", (), 2), ("demo-broken", (), 41), ("demo-broken", ("nagios",), 2)],
)
@pytest.mark.parametrize("words", [("--output", "/dev/full"), ("--report", "json=/dev/full")])
def test_where_a_file_takes_nothing_what_is_proven_counts(
    replayed: str, style: tuple[str, ...], code: int, words: tuple[str, str]
) -> None:
    """And the report of a failure is to be read on standard output, wherever it was to go; a pass
    is not told, as the exit code says otherwise.
    """
    run = (
        "run",
        "--replay",
        replayed,
        *(word for name in style for word in ("--exit-style", name)),
    )
    done = shell("", *run, *words)
    assert (done.code, done.err) == (
        code,
        "gpuscan: /dev/full: cannot be written: No space left on device\n",
    )
    assert done.out == (usual(*run).out if replayed == "demo-broken" else "")


def test_an_output_that_takes_nothing_costs_no_other(tmp_path: Path) -> None:
    """Standard output that has gone (a lost ssh session) costs no file, and a file that takes
    nothing costs not the rest.
    """
    file = tmp_path / "a.json"
    done = shell(">/dev/full", *DEMO, "--report", f"json={file}")
    assert (done.code, json.loads(file.read_text("utf-8"))["summary"]["exit_code"]) == (41, 41)
    file.unlink()
    done = shell("", *DEMO, "--report", "junit=/dev/full", "--report", f"json={file}")
    assert (done.code, done.err) == (
        41,
        "gpuscan: /dev/full: cannot be written: No space left on device\n",
    )
    assert done.out == usual(*DEMO).out
    assert file.exists()


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full", "<&- 2>&-"])
@pytest.mark.parametrize(
    "words", [("run", "--bogus"), ("run", "--replay", "/no/such"), ("profile", "validate", "zzz")]
)
def test_mistakes_that_nobody_can_hear_are_not_told_on_standard_output(
    words: tuple[str, ...], redirect: str
) -> None:
    assert shell(redirect, *words) == Ended(2, "", "")


@pytest.mark.parametrize("redirect", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_streams_change_no_verdict(redirect: str, tmp_path: Path) -> None:
    assert shell(redirect, *DEMO) == usual(*DEMO)
    done = shell(redirect, *LIVE, "--record", str(tmp_path / "a.json"))
    assert (done.code in VERDICTS, done.out.count("\n"), done.err) == (True, 1, "")
    assert start(("judge", "-q", str(tmp_path / "a.json"))).out == done.out


@pytest.mark.smoke
def test_all_streams_closed_and_the_recording_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert shell("<&- >&- 2>&-", "collect", str(file)).code == 0
    assert start(("judge", "-q", str(file))).code in VERDICTS


def test_narrow_and_coloured_into_a_pipe() -> None:
    done = start(DEMO, {"FORCE_COLOR": "1", "COLUMNS": "20"})
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.out)
    assert (done.code, done.err, plain == done.out) == (41, "", False)
    assert "".join(plain.split()) == "".join(usual(*DEMO).out.split())


@pytest.mark.parametrize("number", range(1, 17))
def test_any_number_of_gpus_is_judged_by_that_number(
    number: int, tmp_path: Path, call: Call
) -> None:
    file = str(tmp_path / "a.json")
    save(widened(number), file)
    done = call("judge", file, "--set", f"gpu.count={number}")
    assert (done.code, done.err) == (0, ""), done.out
    assert f": {number} x NVIDIA H200, " in done.out
    for wrong in {number + 1, number - 1} - {0}:
        done = call("judge", file, "--set", f"gpu.count={wrong}")
        assert done.code in (20, 31, 30, 40, 41), done.out
        assert "inventory.gpu_count" in done.out


def test_the_program_under_test_is_the_one_that_the_tests_import() -> None:
    words = [sys.executable, "-c", "import gpuscan; print(gpuscan.__file__)"]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd="/", env=environment(), check=True
    )
    assert Path(done.stdout.strip()).parent == Path(TREE) / "gpuscan"
    assert program()
