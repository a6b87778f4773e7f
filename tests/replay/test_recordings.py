"""Every recording is judged as its expected.yaml says: verdict, exit code, and all that did not
pass.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml
from faults import FAULTS
from nodes_recordings import (
    FILES,
    FOLDER,
    NAMES,
    base,
    checks,
    judged,
    not_passed,
    site_pins_a_profile,
    skipped,
)
from nodes_synthetic import COMMITTED, VARIANTS, eight_gpus

from gpuscan import collectors
from gpuscan.files import bundled
from gpuscan.recording import dump, load, patch

EXPECTED: dict[str, list[dict[str, Any]]] = {
    path.name.removesuffix(".expected.yaml"): yaml.safe_load(path.read_text("utf-8"))
    for path in FOLDER.glob("*.expected.yaml")
}
GONE = FAULTS["gpu-gone-that-was-there"]
KEYS = {"profile", "chosen", "verdict", "exit", "not_passed", "skipped"}
MAY = {"settings"}  # as with --set
CASES = [(name, entry) for name in sorted(EXPECTED) for entry in EXPECTED[name]]


def test_every_recording_has_its_expectation() -> None:
    assert sorted(EXPECTED) == sorted(NAMES)
    assert all(set(entry) - MAY == KEYS for _, entry in CASES)


def named(name: str, entry: dict[str, Any]) -> str:
    return f"{name}-{entry['profile']}{'-set' if 'settings' in entry else ''}"


@pytest.mark.parametrize(("name", "entry"), CASES, ids=[named(*case) for case in CASES])
def test_is_judged_as_expected(name: str, entry: dict[str, Any]) -> None:
    if entry["profile"] == "auto" and site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    recording = base(name)
    report = judged(recording, entry["profile"], entry.get("settings", ()))
    assert report.run.profile.name == entry["chosen"]
    assert not_passed(report) == entry["not_passed"]
    assert (report.verdict, report.exit_code) == (entry["verdict"], entry["exit"])
    assert wrongly_skipped(skipped(report), entry["skipped"]) == []


def wrongly_skipped(reasons: dict[str, set[str]], expected: dict[str, Any]) -> list[str]:
    """What is skipped and should not be, or for another reason, and what should be; the longest of
    the patterns counts.

    A check that is skipped on its subjects for several reasons has a list of them.
    """
    wrong, unused = [], set(expected)
    for check, told in reasons.items():
        pattern = max(
            (pattern for pattern in expected if fnmatchcase(check, pattern)), key=len, default=""
        )
        unused.discard(pattern)
        words = expected.get(pattern, ())
        if not words or not all(
            reason.startswith(words if type(words) is str else tuple(words)) for reason in told
        ):
            wrong.append(f"{check} is skipped: {sorted(told)}")
    return wrong + [f"{pattern} is not skipped" for pattern in sorted(unused)]


@pytest.mark.parametrize("name", NAMES)
def test_no_check_crashes(name: str) -> None:
    assert not [result.traceback for result in judged(base(name)).results if result.traceback]


def test_the_committed_synthetic_recording_is_what_its_generator_builds() -> None:
    assert dump(load(str(COMMITTED))) == dump(eight_gpus()), (
        "run: python tests/support/nodes_synthetic.py"
    )


def test_the_synthetic_recordings_answer_all_that_is_asked() -> None:
    for name in ("h100-8x-ib", *VARIANTS):
        recording = base(name)
        asked = [key for key in collectors.plan(recording) if recording.covers(key)]
        assert [key for key in asked if key not in recording] == [], name
        assert recording.meta.synthetic is True, name


def test_every_check_passes_somewhere() -> None:
    """Without this a check whose condition is never true would look like one that is never wrong.

    What compares two recordings has its stories in test_swaps.py, what is imported in
    test_imports.py.
    """
    reports = [
        judged(base(name), entry["profile"], entry.get("settings", ())) for name, entry in CASES
    ]
    past = {key: value for key, value in GONE["set"].items() if key.startswith("history:")}
    reports.append(judged(patch(base("demo"), past), "h200"))  # none has the archive's readings
    passed = {
        result.check
        for report in reports
        for result in report.results
        if result.status.value == "pass"
    }
    assert passed == {
        one.id for one in checks() if one.subject != "change" and not one.mark.imported
    }


def test_the_demo_is_of_the_package() -> None:
    assert "demo" not in FILES
    assert bundled("checks")
