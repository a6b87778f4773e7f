"""`gpuscan doctor`: what can be seen, and what would show more."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from paths import RECORDINGS
from program import Call

from gpuscan import __version__, collectors
from gpuscan.cli import visibility
from gpuscan.collectors.log_text import JOURNAL, KMSG
from gpuscan.errors import UsageError
from gpuscan.recording import Recording, load, patch
from gpuscan.state import footprint

EIGHT = load(str(RECORDINGS / "h100-8x-ib.json.gz"))


def as_json(recording: Recording) -> dict[str, Any]:
    return dict(json.loads(visibility.render(recording, "json")))


def area(recording: Recording, name: str) -> dict[str, Any]:
    (found,) = [one for one in as_json(recording)["areas"] if one["area"] == name]
    return dict(found)


def test_every_reading_that_is_planned_belongs_to_an_area() -> None:
    assert [key for key in collectors.plan(EIGHT) if not visibility._area_of(key)] == []


def test_a_whole_scan_is_read_in_every_area() -> None:
    document = as_json(EIGHT)
    assert (document["gpuscan_version"], document["uid"]) == (__version__, os.geteuid())
    assert [one["area"] for one in document["areas"]] == [name for name, _ in visibility.AREAS]
    for one in document["areas"]:
        assert one["answered"] + sum(one["lacks"].values()) == one["asked"] > 0, one
    assert sum(one["asked"] for one in document["areas"]) == len(list(EIGHT))
    assert area(EIGHT, "DMI")["lacks"] == {}


def test_text_has_a_line_an_area_and_leaves_out_what_was_not_asked() -> None:
    lines = visibility.render(EIGHT, "text").splitlines()
    assert lines[0].startswith(f"gpuscan {__version__}, Python ")
    assert [line[:14].strip() for line in lines[1 : len(visibility.AREAS) + 1] if line.strip()] == [
        name for name, _ in visibility.AREAS
    ]
    (line,) = [line for line in lines if line.startswith("DMI")]
    asked = area(EIGHT, "DMI")["asked"]
    assert line == f"DMI           {asked} of {asked} read"
    assert "InfiniBand" not in visibility.render(
        patch(EIGHT, {"*/sys/class/infiniband*": None, "*/sys/class/net/*": None}), "text"
    )


@pytest.mark.parametrize(
    ("glob", "error", "name", "hint"),
    [
        ("kmsg:*", ["no-permission", "Operation not permitted", 1], "kernel log", "CAP_SYSLOG"),
        (
            "file:/sys/class/dmi/id/product_serial",
            ["no-permission", "Permission denied", 13],
            "DMI",
            "run as root",
        ),
        (
            "nvml:nvmlInit()",
            ["not-found", "Driver Not Loaded", 9],
            "NVML",
            "load the nvidia kernel module",
        ),
        ("nvml:nvmlInit()", ["not-found", "Not Found", 12], "NVML", "--driver-root"),
        (
            "nvml:nvmlInit()",
            ["garbled", "Driver/library version mismatch", 18],
            "NVML",
            "reload the module or reboot",
        ),
        ("nvml:nvmlInit()", ["timed-out", "no answer", None], "NVML", "the driver is stuck"),
        ("dir:/sys/class/infiniband", ["not-found", "No such file", 2], "InfiniBand", "mlx5_ib"),
        ("dir:/dev", ["not-found", "No such file", 2], "device files", "/dev is not visible here"),
    ],
)
def test_what_is_missing_comes_with_what_would_help(
    glob: str, error: list[Any], name: str, hint: str
) -> None:
    recording = patch(EIGHT, {glob: {"error": error}})
    found = area(recording, name)
    assert found["lacks"][error[0]] >= 1
    assert hint in found["hint"]
    text = visibility.render(recording, "text")
    assert f"1 {error[0].replace('-', ' ')}" in text
    assert f"\n              -> {found['hint']}\n" in text


def test_an_nvml_code_of_another_area_is_no_hint() -> None:
    recording = patch(
        EIGHT, {"file:/proc/uptime": {"error": ["not-found", "Bad file descriptor", 9]}}
    )
    assert area(recording, "host")["hint"] == ""


def test_warnings() -> None:
    assert (
        "there is no NVIDIA GPU on the PCI bus"
        in as_json(patch(EIGHT, {"dir:/sys/bus/pci/devices": []}))["warnings"]
    )
    cut = patch(
        EIGHT,
        {KMSG: ["6,17,5500000,-;later"], JOURNAL: {"error": ["not-found", "no journalctl", 2]}},
    )
    (told,) = [one for one in as_json(cut)["warnings"] if "kernel log" in one]
    assert told.startswith("the kernel log only reaches back to ")
    assert f"warning: {told}\n" in visibility.render(cut, "text")
    assert not [one for one in as_json(EIGHT)["warnings"] if "shadows" not in one]


def test_packages_that_shadow_the_binding_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "WRONG_BINDINGS", ("PyYAML", "no-such-package-at-all"))
    version = metadata.version("PyYAML")
    (told,) = [one for one in as_json(EIGHT)["warnings"] if "shadows" in one]
    assert told.startswith(
        f"the package PyYAML {version} shadows nvidia-ml-py: pip uninstall PyYAML, then pip install"
    )


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown format 'jsn'"):
        visibility.render(EIGHT, "jsn")


def test_it_says_where_the_state_is_and_what_it_takes(tmp_path: Path, call: Call) -> None:
    state = tmp_path / "state"
    call("judge", "demo", "-q", "--state-dir", str(state))
    found = footprint.measure(str(state))
    assert (found.folder, found.most_bytes, found.trouble) == (str(state), 256 << 20, "")
    assert found.runs == 1
    text = visibility.render(EIGHT, "text", found)
    owner = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    (line,) = [line for line in text.splitlines() if line.startswith("state")]
    assert line.startswith(f"state         {state}: 1 run stored, 0.")
    assert line.endswith(f" of at most 256 MiB; written by {owner}")
    assert json.loads(visibility.render(EIGHT, "json", found))["state"] == found._asdict()
    assert "1 run stored, " in call("history", "list", "--state-dir", str(state)).out
