"""Under pytest the same checks come to the same results, and a stranger's tests are left alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from building import module
from paths import RECORDINGS
from program import Ended, environment

from gpuscan.engine import judging
from gpuscan.engine.case import HOLD_CHECK, PROFILE_CHECK
from gpuscan.files import bundled
from gpuscan.importers.load import open_recording
from gpuscan.recording import Recording, save

pytestmark = pytest.mark.system
RECORDED = {"demo": "demo", "demo-broken": "demo-broken"} | {
    path.stem: str(path) for path in sorted(RECORDINGS.glob("*.gz"))
}
OUTCOMES = {
    "pass": "passed",
    "warn": "passed",
    "fail": "failed",
    "unknown": "failed",
    "skip": "skipped",
}
QUIET: dict[str, str | None] = {
    "PYTEST_ADDOPTS": None,
    "PYTEST_PLUGINS": None,
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
TELLS = '''
"""Writes what became of each test: {name of the test: outcome}."""

import json
import os
import re

outcomes = {}


def pytest_runtest_logreport(report):
    name = report.nodeid.rpartition("::")[2]
    if report.when == "call" or report.outcome != "passed":
        assert name not in outcomes
        outcomes[name] = report.outcome


def pytest_sessionfinish():
    with open(os.environ["TELLS_TO"], "w") as file:
        json.dump(outcomes, file)
'''


@pytest.fixture
def under_pytest(tmp_path: Path) -> Any:
    """Runs pytest in a process and a folder of its own; returns how it ended, and the outcome of
    each test by name.
    """

    def run(*words: str) -> tuple[Ended, dict[str, str]]:
        here = tmp_path / "pytest"
        here.mkdir(exist_ok=True)
        (here / "tells.py").write_text(TELLS, "utf-8")
        env = environment(QUIET | {"TELLS_TO": str(here / "told")})
        env["PYTHONPATH"] = os.pathsep.join([str(here), *filter(None, [env.get("PYTHONPATH")])])
        quiet = (
            "-c",
            os.devnull,
            "--rootdir",
            str(here),
            "-p",
            "no:cacheprovider",
            "-p",
            "tells",
            "-p",
            "gpuscan.pytest_plugin",
        )
        command = [sys.executable, "-B", "-m", "pytest", *quiet, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=here, env=env, timeout=120, check=False
        )
        told = here / "told"
        outcomes = json.loads(told.read_text("utf-8")) if told.exists() else {}
        return Ended(done.returncode, done.stdout, done.stderr), outcomes

    return run


def own_loop(replay: str, profile: str = "auto", checks: tuple[str, ...] = ()) -> dict[str, str]:
    """What gpuscan's own loop comes to, in pytest's words."""
    plan = judging.prepare(judging.Selection(profile, checks=checks))
    report = judging.judge_recording(open_recording(replay), replay, plan)
    return {
        f"test_{r.check.partition('.')[2]}[{r.subject}]": OUTCOMES[r.status.value]
        for r in report.results
        # what folds open expectations, and what an earlier run held, is no function of a module
        if r.check not in (PROFILE_CHECK, HOLD_CHECK)
    }


@pytest.mark.parametrize("name", RECORDED)
def test_every_recording_is_judged_alike(name: str, under_pytest: Any) -> None:
    done, outcomes = under_pytest(
        bundled("checks"), "--gpuscan-replay", RECORDED[name], "-q", "--no-header", "--tb=no"
    )
    expected = own_loop(RECORDED[name])
    assert outcomes == expected
    assert done.code == (1 if "failed" in expected.values() else 0), done.out + done.err
    assert "warning" not in done.out


OWN = '''
    @check(action=Action.INSPECT)
    def test_bad(gpu: Gpu) -> None:
        """It is good."""
        if gpu.label == "SXM7":
            fail("it is bad", observed=1)


    @check(action=Action.MONITOR)
    def test_odd(node: Node) -> None:
        """It is even."""
        warn("it is odd")


    @check(action=Action.REBOOT)
    def test_unread(node: Node) -> None:
        """It is read."""
        assert node.host.bios_version


    @check(action=Action.REBOOT)
    def test_open(node: Node, profile: Profile) -> None:
        """It is expected."""
        assert profile.gpu.vbios


    @check(action=Action.REBOOT)
    def test_broken(node: Node) -> None:
        """It is whole."""
        {}["missing"]
'''


def test_a_folder_of_the_user_s_own(tmp_path: Path, under_pytest: Any) -> None:
    folder = module(tmp_path / "site checks", OWN, "test_site.py")
    done, outcomes = under_pytest(folder, "--gpuscan-replay", "demo", "-rA")
    own = {
        name: outcome
        for name, outcome in own_loop("demo", checks=(folder,)).items()
        if name in outcomes
    }
    gpus = dict.fromkeys(
        ("test_bad[gpu:SXM5]", "test_bad[gpu:SXM6]", "test_bad[gpu:SXM8]"), "passed"
    )
    node = {
        "test_odd[node]": "passed",
        "test_unread[node]": "skipped",
        "test_open[node]": "skipped",
        "test_broken[node]": "failed",
    }
    assert outcomes == own == {**gpus, "test_bad[gpu:SXM7]": "failed", **node}
    assert done.code == 1
    for told in (
        "test_bad[gpu:SXM7] - fail: it is bad -> inspect",
        "it is odd (monitor)",
        "not recorded: host.bios_version",
        "KeyError: 'missing'",
    ):
        assert told in done.out, told
    assert re.search(r"SKIPPED \[1\] .*test_site\.py:(\d+:)? not recorded: ", done.out)
    assert "not judged: profile h200-4x leaves gpu.vbios open" in done.out
    assert "pytest_plugin.py" not in done.out, "no traceback shows our own code"


def test_unknown_is_a_failure_with_the_lack(tmp_path: Path, under_pytest: Any) -> None:
    demo = open_recording("demo")
    save(Recording(demo.meta, ["*"], demo), str(tmp_path / "a.json"))
    folder = module(tmp_path / "own", OWN, "test_site.py")
    done, outcomes = under_pytest(
        folder, "--gpuscan-replay", str(tmp_path / "a.json"), "-k", "unread"
    )
    assert outcomes == {"test_unread[node]": "failed"}
    assert "unknown: " in done.out
    assert "  host.bios_version was not read (" in done.out


def test_one_file_and_a_name_of_the_bundled_ones(under_pytest: Any) -> None:
    file = os.path.join(bundled("checks"), "test_memory.py")
    _, outcomes = under_pytest(
        file, "--gpuscan-replay", "demo-broken", "-k", "row_remap and not pending and SXM7"
    )
    assert outcomes == {"test_row_remap[gpu:SXM7]": "failed"}


def test_the_profile_can_be_named(tmp_path: Path, under_pytest: Any) -> None:
    (tmp_path / "mine.yaml").write_text(
        "extends: h200-4x\ngpu: {count: 5}\nskip: {power.limit: known}\n", "utf-8"
    )
    file = os.path.join(bundled("checks"), "test_inventory.py")
    _, outcomes = under_pytest(
        file,
        "--gpuscan-replay",
        "demo",
        "--gpuscan-profile",
        str(tmp_path / "mine.yaml"),
        "-k",
        "gpu_count and not match",
    )
    assert outcomes == {"test_gpu_count[node]": "failed"}
    done, _ = under_pytest(file, "--gpuscan-replay", "demo", "--gpuscan-profile", "h20")
    assert done.code == 4
    assert "ERROR: gpuscan: unknown profile 'h20': did you mean h200" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "ERROR: name the recording to judge with --gpuscan-replay FILE (or demo)"),
        (
            ("--gpuscan-replay", "/no/such.gz"),
            "ERROR: gpuscan: /no/such.gz: No such file or directory",
        ),
        (("--gpuscan-replay", os.devnull), "ERROR: gpuscan: "),
    ],
)
def test_what_cannot_be_judged_is_a_usage_error(
    words: tuple[str, ...], told: str, under_pytest: Any
) -> None:
    done, outcomes = under_pytest(bundled("checks"), *words)
    assert (done.code, outcomes) == (4, {})
    assert told in done.err
    assert "Traceback" not in done.out + done.err


def test_a_broken_neighbour_is_named(tmp_path: Path, under_pytest: Any) -> None:
    folder = module(tmp_path / "own", OWN, "test_site.py")
    (tmp_path / "own" / "test_other.py").write_text("import nonsense_module\n", "utf-8")
    done, _ = under_pytest(os.path.join(folder, "test_site.py"), "--gpuscan-replay", "demo")
    assert done.code == 4
    assert (
        f"{folder}/test_other.py:1: check module cannot be loaded: ModuleNotFoundError" in done.err
    )


STRANGER = '''
from unittest.mock import call

import pytest
from gpuscan import Action, check


@pytest.fixture
def gpu():
    return "my own"


def test_mine(gpu):
    assert gpu == "my own"


def test_node(request):
    assert call.anything


class TestThings:
    def test_profile(self):
        pass


@check(action=Action.REBOOT)
def not_a_test(node):
    """Marked, and no test by its name."""
'''


def test_a_stranger_s_tests_are_left_alone(tmp_path: Path, under_pytest: Any) -> None:
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "test_strange.py").write_text(STRANGER, "utf-8")
    done, outcomes = under_pytest(str(tmp_path / "strange"))
    assert done.code == 0, done.out
    assert outcomes == dict.fromkeys(("test_mine", "test_node", "test_profile"), "passed")


def test_a_check_that_gpuscan_would_not_load_is_no_silent_pass(
    tmp_path: Path, under_pytest: Any
) -> None:
    folder = module(tmp_path / "own", OWN, "test_site.py")
    module(tmp_path / "own", OWN, "other_test.py")
    done, outcomes = under_pytest(os.path.join(folder, "other_test.py"), "--gpuscan-replay", "demo")
    assert set(outcomes.values()) == {"failed"}
    assert "other_test.py: gpuscan loads no such check: its modules are named test_*.py" in done.out
