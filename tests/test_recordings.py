"""Every recording is judged as its expected.yaml says: verdict, exit code, and all that did not pass."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from nodes_recordings import FILES, FOLDER, NAMES, base, checks, judged, not_passed, site_pins_a_profile, skipped
from nodes_synthetic import COMMITTED, VARIANTS, eight_cards

from gpuscan import collectors, suite
from gpuscan.recording import dump, load

EXPECTED: dict[str, list[dict[str, Any]]] = {
    path.name.removesuffix(".expected.yaml"): yaml.safe_load(path.read_text("utf-8")) for path in FOLDER.glob("*.expected.yaml")
}
KEYS = {"profile", "chosen", "verdict", "exit", "not_passed", "skipped"}
CASES = [(name, entry) for name in sorted(EXPECTED) for entry in EXPECTED[name]]


def test_every_recording_has_its_expectation() -> None:
    assert sorted(EXPECTED) == sorted(NAMES)
    assert all(set(entry) == KEYS for _, entry in CASES)


@pytest.mark.parametrize(("name", "entry"), CASES, ids=[f"{name}-{entry['profile']}" for name, entry in CASES])
def test_is_judged_as_expected(name: str, entry: dict[str, Any]) -> None:
    if entry["profile"] == "auto" and site_pins_a_profile():
        pytest.skip("this machine pins a profile in /etc/gpuscan/config.yaml")
    recording = base(name)
    report = judged(recording, entry["profile"])
    assert report.run["profile"] == entry["chosen"]
    assert not_passed(report) == entry["not_passed"]
    assert (report.verdict, report.exit_code) == (entry["verdict"], entry["exit"])
    reasons = skipped(report)
    assert sorted(reasons) == sorted(entry["skipped"])
    for check, words in entry["skipped"].items():
        assert all(reason.startswith(words) for reason in reasons[check]), (check, reasons[check])


@pytest.mark.parametrize("name", NAMES)
def test_no_check_crashes(name: str) -> None:
    assert not [result.traceback for result in judged(base(name)).results if result.traceback]


def test_the_committed_synthetic_recording_is_what_its_generator_builds() -> None:
    assert dump(load(str(COMMITTED))) == dump(eight_cards()), "run: python tests/nodes_synthetic.py"


def test_the_synthetic_recordings_answer_all_that_is_asked() -> None:
    for name in ("h100-8x-ib", *VARIANTS):
        recording = base(name)
        assert [key for key in collectors.plan(recording) if key not in recording] == [], name
        assert recording.meta["synthetic"] is True, name


def test_every_check_passes_somewhere() -> None:
    """Without this a check whose condition is never true would look like one that is never wrong."""
    passed = {result.check for name in NAMES for result in judged(base(name)).results if result.status.value == "pass"}
    assert passed == {one.id for one in checks()}


def test_the_demo_is_of_the_package() -> None:
    assert "demo" not in FILES
    assert suite.bundled("checks")
