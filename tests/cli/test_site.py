"""What the site configuration decides for every run: state folder, archive, skipped checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from paths import ROOT
from program import Call

from gpuscan.profile.site import SCHEMA


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "site.yaml"
    monkeypatch.setenv("GPUSCAN_CONFIG", str(path))
    monkeypatch.delenv("GPUSCAN_STATE_DIR", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)  # the state folder is the one of root's runs
    return path


def test_the_state_folder_is_where_the_site_wants_it(
    config: Path, tmp_path: Path, call: Call
) -> None:
    config.write_text(f"state_dir: {tmp_path}/own\narchive_mib: 8\n")
    call("clear", "--reason", "a first event")
    assert (tmp_path / "own" / "history.sqlite").exists()
    assert call("status").out.startswith("incomplete (3): not scanned yet")
    assert call("history", "list", "--state-dir", str(tmp_path / "own")).code == 0
    assert call("status", "--state-dir", str(tmp_path / "other")).code == 3


def test_what_the_site_skips_no_profile_judges(config: Path, call: Call) -> None:
    config.write_text("skip:\n  nvlink: no bridges here\n  'thermal.*': measured elsewhere\n")
    done = call("judge", "demo", "--format", "json")
    report = json.loads(done.out)
    skipped = {
        row["id"].split(".")[0]: row["reason"]
        for row in report["checks"]
        if "here" in row.get("reason", "") and row["status"] == "skip"
    }
    assert "no bridges here" in skipped["nvlink"]
    assert done.code == 0
    assert report["partial"] == []  # a site's decision narrows as little as a profile's


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("state_dir: here", "1:12: $.state_dir: 'here' does not match '^/'"),
        ("archive_mib: -1", "1:14: $.archive_mib: -1 is less than or equal to"),
        ("skip: [nvlink]", "1:7: $.skip: ['nvlink'] is not an object"),
        ("skip:\n  nvlink: 5", "2:11: $.skip.nvlink: 5 is not a string"),
        ("skip:\n  nvlnk: why", "2:3: $.skip.nvlnk: no check is called nvlnk: did you mean nvlink"),
        ("deadline: soon", "1:11: $.deadline: 'soon' is not a number"),
        ("format: yml", "1:9: $.format: 'yml' is not one of"),
        ("statedir: /x", "1:1: $.statedir: unknown key; did you mean state_dir?"),
    ],
)
def test_a_mistake_has_its_place(config: Path, call: Call, text: str, mistake: str) -> None:
    config.write_text(f"{text}\n")
    done = call("judge", "demo", "-q")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"gpuscan: {config}:{mistake}")


def test_status_says_where_the_configuration_is_wrong(config: Path, call: Call) -> None:
    config.write_text("state_dir: here\n")
    done = call("status")
    assert (done.code, done.err.startswith(f"gpuscan: {config}:1:12: ")) == (2, True)


def test_every_key_is_described() -> None:
    page = (ROOT / "docs" / "operators.md").read_text("utf-8")
    keys = {**SCHEMA["properties"], **SCHEMA["properties"]["limits"]["properties"]}
    assert [key for key in keys if f"| `{key}` |" not in page] == []
