"""The time limits: documented, with their defaults, and set in the site configuration."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from paths import ROOT
from program import start

from gpuscan.errors import ProfileError
from gpuscan.live.limits import Limits, load_limits
from gpuscan.profile.site import SCHEMA


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "site.yaml"
    monkeypatch.setenv("GPUSCAN_CONFIG", str(path))
    return path


def test_the_site_configuration_sets_limits(config: Path) -> None:
    config.write_text("limits:\n  call_s: 7\n  slow_s: 0.5\n", "utf-8")
    assert load_limits() == Limits(call_s=7, slow_s=0.5)


def test_defaults_without_a_site_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUSCAN_CONFIG", raising=False)
    monkeypatch.setattr("gpuscan.files.SITE", str(tmp_path))
    assert load_limits() == Limits()
    (tmp_path / "config.yaml").write_text("profile: h200\n", "utf-8")
    assert load_limits() == Limits()
    (tmp_path / "config.yaml").write_text("limits: {init_s: 5}\n", "utf-8")
    assert load_limits().init_s == 5


def test_yaml_is_not_imported_without_a_site_configuration() -> None:
    script = (
        "import sys, gpuscan.files as files; files.SITE = '/nonexistent'\n"
        "from gpuscan.live.limits import load_limits; load_limits()\n"
        "print(sorted({'yaml', 'jsonschema', 'gpuscan.profile'} & set(sys.modules)))"
    )
    done = start((), {"GPUSCAN_CONFIG": None}, before=(sys.executable, "-c", script))
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


def test_a_named_configuration_that_does_not_exist(config: Path) -> None:
    with pytest.raises(ProfileError, match=f"^GPUSCAN_CONFIG={config}: no such file$"):
        load_limits()


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("limits: {call_s: soon}\n", "1:18: $.limits.call_s: 'soon' is not a number"),
        ("limits: {call_s: true}\n", "1:18: $.limits.call_s: True is not a number"),
        (
            "limits:\n  cal_s: 3\n",
            "2:3: $.limits.cal_s: unknown key; did you mean call_s?",
        ),
        ("limits: {host_s: 0}\n", "1:18: $.limits.host_s: 0 is less than or equal to"),
        ("limits: {slow_s: -1}\n", "1:18: $.limits.slow_s: -1 is less than or equal to"),
        ("limits: {init_s: 1.0e+9}\n", "1:18: $.limits.init_s: 1000000000.0 is greater than"),
        ("limits: {init_s: .nan}\n", "1:18: $.limits.init_s: '.nan' is an unusual number"),
        ("limits: 5\n", "1:9: $.limits: 5 is not an object"),
    ],
)
def test_mistakes_name_their_place(config: Path, text: str, mistake: str) -> None:
    config.write_text(text, "utf-8")
    with pytest.raises(ProfileError) as raised:
        load_limits()
    assert str(raised.value).startswith(f"{config}:{mistake}")


@pytest.mark.system
@pytest.mark.parametrize("command", ["run", "info", "doctor", "collect x.json"])
@pytest.mark.parametrize("other_root", [True, False], ids=["--root", "this machine"])
def test_every_live_command_reports_a_mistake(
    command: str, other_root: bool, config: Path, tmp_path: Path
) -> None:
    """Without --root the scan has begun before the command line is read."""
    config.write_text("limits: {call_s: soon}\n", "utf-8")
    root = ("--root", str(tmp_path)) if other_root else ()
    done = start((*command.split(), *root), {"GPUSCAN_CONFIG": str(config)}, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"gpuscan: {config}:1:18: $.limits.call_s: 'soon' is not a number\n"
    assert os.listdir(tmp_path) == ["site.yaml"]


def test_the_schema_and_the_manual_know_every_limit() -> None:
    assert tuple(SCHEMA["properties"]["limits"]["properties"]) == Limits._fields
    manual = (ROOT / "docs" / "operators.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+_s)` \| (\d+) \|", manual, re.MULTILINE)
    assert {name: float(seconds) for name, seconds in rows} == Limits()._asdict()
