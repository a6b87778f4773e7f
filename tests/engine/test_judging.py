"""Judging a recording: by the profile that it brings along, in part only, cut short, made by an
older gpuscan.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from machine import EIGHT, Machine
from nodes_recordings import base, judged, not_passed
from paths import RECORDINGS
from program import Call, start

from gpuscan import collectors
from gpuscan.collectors.log_text import KMSG
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.model import is_unread
from gpuscan.model.outcome import Status
from gpuscan.recording import Recording, load, patch, save

PCI = "dir:/sys/bus/pci/devices"
DENIED = {"error": ["no-permission", "Permission denied", 13]}


def saved(folder: Path, recording: Recording, **meta: Any) -> str:
    """Write a recording with further keys in its head and return the file."""
    file = str(folder / "recording.json")
    save(Recording(recording.meta._replace(**meta), recording.scope, recording), file)
    return file


def provenance(recording: Recording, *settings: str, profile: str = judging.AUTO) -> dict[str, Any]:
    return judging.provenance(recording, judging.prepare(judging.Selection(profile, settings)))


def anew(recording: Recording, *settings: str) -> Report:
    """The report as a command that names no profile makes it."""
    return judging.judge_recording(
        recording, "", judging.prepare(judging.Selection(judging.AUTO, settings))
    )


def report(file: str, call: Call, *words: str) -> tuple[int, dict[str, Any]]:
    done = call("judge", file, "--format", "json", *words)
    return done.code, json.loads(done.out)


# --- a scan that was cut short


@pytest.mark.parametrize("signal", [2, 15])
def test_a_scan_that_was_cut_short_proves_no_health(
    signal: int, tmp_path: Path, call: Call
) -> None:
    file = saved(tmp_path, base("demo"), ended_by_signal=signal)
    code, document = report(file, call)
    summary = document["summary"]
    assert (code, summary["exit_code"], summary["verdict"], summary["complete"]) == (
        3,
        3,
        "incomplete",
        False,
    )
    assert summary["usable"] is False
    assert document["run"]["ended_by_signal"] == signal
    assert "This node may go to work" not in call("judge", file).out
    for style, wanted in (("simple", 3), ("nagios", 3)):
        assert call("judge", file, "--exit-style", style).code == wanted


def test_a_scan_that_was_cut_short_does_not_only_warn(tmp_path: Path, call: Call) -> None:
    file = saved(tmp_path, base("h200-4x-app-xids"), ended_by_signal=15)
    for words in ([], ["--fail-on", "warn"], ["--only", "memory"]):
        code, document = report(file, call, *words)
        assert (code, document["summary"]["verdict"], document["summary"]["usable"]) == (
            3,
            "incomplete",
            False,
        )


def test_what_a_scan_that_was_cut_short_proves_stays_proven(tmp_path: Path, call: Call) -> None:
    code, document = report(
        saved(tmp_path, base("demo"), ended_by_signal=15), call, "--set", "gpu.count=5"
    )
    assert (code, document["summary"]["verdict"], document["summary"]["complete"]) == (
        31,
        "reboot",
        False,
    )


# --- what a recording says of its profile


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def again(node: Machine, folder: Path) -> tuple[int, dict[str, Any]]:
    """Judge the machine's last recording in another folder, without a word of a profile."""
    done = start(["judge", str(node.file), "--format", "json"], cwd=folder)
    return done.code, json.loads(done.out)


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "gpu.count=9"],
        ["--profile", "h100-8x", "--set", "gpu.count=9"],
        ["--set", "gpu.count=9", "--set", "gpu.power_limit_w=100"],
        ["--profile", "h200-8x"],
        ["--profile", "default"],
        [],
    ],
    ids=" ".join,
)
def test_a_recording_is_judged_again_as_it_was(
    words: list[str], eight: Machine, elsewhere: Path
) -> None:
    done = eight.run(*words)
    code, document = again(eight, elsewhere)
    assert code == done.code
    assert document["summary"] == done.report["summary"]
    assert document["findings"] == done.report["findings"]


def test_a_recording_keeps_a_profile_that_is_a_file(
    eight: Machine, elsewhere: Path, tmp_path: Path
) -> None:
    """It is judged alike in another folder after the file is gone."""
    (tmp_path / "ours.yaml").write_text(
        "extends: theirs.yaml\ngpu: {power_limit_w: 900}\n", "utf-8"
    )
    (tmp_path / "theirs.yaml").write_text("extends: h100-8x\ngpu: {count: 9}\n", "utf-8")
    done = eight.run("--profile", str(tmp_path / "ours.yaml"))
    assert done.code == 31
    assert "power.limit" in {row["check"] for row in done.report["findings"]}
    for name in ("ours.yaml", "theirs.yaml"):
        (tmp_path / name).unlink()
    code, document = again(eight, elsewhere)
    assert (code, document["summary"], document["findings"]) == (
        31,
        done.report["summary"],
        done.report["findings"],
    )
    assert document["run"]["profile"]["name"] == "ours"
    assert (eight.recorded.meta.expectations or {})["gpu"]["count"] == 9


def test_a_bundled_profile_is_kept_by_its_name() -> None:
    """So that a later gpuscan judges by what it knows then."""
    recording = load(str(EIGHT))
    recording.meta = recording.meta._replace(profile=None)
    assert provenance(recording) == {"profile": "h100-8x"}
    assert provenance(recording, profile="h100-8x") == {"profile": "h100-8x"}
    assert provenance(recording, profile="h200-8x") == {"profile": "h200-8x"}


def test_a_profile_with_settings_is_kept_whole() -> None:
    kept = provenance(base("h100-8x-ib"), "gpu.count=9")
    assert (kept["profile"], kept["expectations"]["gpu"]["count"]) == ("h100-8x", 9)
    assert kept["expectations"]["gpu"]["name"] == "NVIDIA H100 80GB HBM3"
    json.dumps(kept)


def test_a_file_named_like_a_bundled_profile_is_kept_whole(tmp_path: Path) -> None:
    file = tmp_path / "h100-8x.yaml"
    file.write_text("gpu: {count: 9}\n", "utf-8")
    kept = provenance(base("h100-8x-ib"), profile=str(file))
    assert (kept["profile"], kept["expectations"]["gpu"]["count"]) == ("h100-8x", 9)


def test_a_site_s_own_under_a_bundled_name_is_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere that name means another profile."""
    recording = Recording({}, base("h100-8x-ib").scope, base("h100-8x-ib"))
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "h100-8x.yaml").write_text(
        "extends: h100-8x\ngpu: {count: 7}\n", "utf-8"
    )
    with monkeypatch.context() as here:
        here.setattr("gpuscan.files.SITE", str(tmp_path))
        kept = [provenance(recording), provenance(recording, profile="h100-8x")]
    for one in kept:
        again = anew(Recording({**one}, recording.scope, recording))
        assert (again.run.profile.name, list(not_passed(again)), again.exit_code) == (
            "h100-8x",
            ["inventory.gpu_count"],
            20,
        )


@pytest.mark.parametrize("setting", ["gpu.count=9", "driver.version=>=990"])
def test_settings_on_a_machine_that_nobody_knows_are_kept(setting: str) -> None:
    """What was open stays unknown."""
    bare = Recording({}, base("unmatched-machine").scope, base("unmatched-machine"))
    first = anew(bare, setting)
    again = anew(Recording(provenance(bare, setting), bare.scope, bare))
    assert first.exit_code >= 20
    assert (again.exit_code, not_passed(again)) == (first.exit_code, not_passed(first))


@pytest.mark.parametrize("name", ["unmatched-machine", "unknown-card", "no-card"])
def test_a_profile_that_does_not_vouch_is_not_kept(name: str) -> None:
    """Whoever judges it again shall look for one again."""
    recording = Recording({}, base(name).scope, base(name))
    assert provenance(recording) == {}


@pytest.mark.parametrize(
    "kept",
    [
        [],
        {},
        "",
        0,
        False,
        None,
        5,
        "gpu",
        [1],
        {"gpu": 5},
        {"gpu": {"count": "nine"}},
        {"gpu": {"cuont": 9}},
        {"strange": 1},
        {"skip": {"no.such": "x"}},
    ],
    ids=str,
)
def test_expectations_that_are_damaged_are_told(kept: Any, tmp_path: Path, call: Call) -> None:
    file = saved(tmp_path, base("demo"), profile="ours", expectations=kept)
    done = call("judge", file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        ("gpuscan: profile ours", "gpuscan: the profile kept in the recording")
    )
    assert call("judge", file, "--profile", "h200-4x").code == 0


def test_a_profile_named_goes_before_the_one_that_is_kept(tmp_path: Path, call: Call) -> None:
    file = saved(tmp_path, base("demo"), **provenance(base("demo"), "gpu.count=9"))
    assert call("judge", file).code == 31
    assert call("judge", file, "--profile", "h200-4x").code == 0
    assert call("judge", file, "--set", "gpu.count=4").code == 0


# --- judgements of a part


LAST = (
    "Nothing is wrong in what was judged, and that is not the whole node: judge the rest before it"
    " goes to work."
)
PARTS = {
    "--only memory": (["--only", "memory"], ["--only memory"], "all but memory (--only memory)"),
    "--gpus": (["--gpus", "SXM5"], ["--gpus SXM5"], "3 of 4 GPUs (--gpus SXM5)"),
    "both": (
        ["--only", "memory", "--only", "pcie", "--gpus", "SXM5"],
        ["--only memory", "--only pcie", "--gpus SXM5"],
        "all but memory, PCIe (--only memory, --only pcie); 3 of 4 GPUs (--gpus SXM5)",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_judgement_of_a_part_says_so(name: str, call: Call) -> None:
    words, limits, left_out = PARTS[name]
    done = call("judge", "demo", *words)
    assert (done.code, done.out.splitlines()[-2:]) == (0, [f"partial: {left_out}", LAST])
    assert "This node may go to work" not in done.out
    assert report("demo", call, *words)[1]["run"]["limited_to"] == limits


def test_a_recording_of_the_log_alone_says_so(tmp_path: Path, call: Call) -> None:
    file = saved(tmp_path, Recording({}, [KMSG], base("demo").all(KMSG)))
    done = call("judge", file)
    assert (done.code, done.out.splitlines()[-1]) == (0, LAST)
    assert "GPUs not read" in done.out
    assert "\npartial: all but kernel log (a recording without GPUs shows no more)" in done.out
    assert report(file, call)[1]["run"]["limited_to"] == ["a recording without GPUs"]


def test_a_whole_judgement_has_no_limits(call: Call) -> None:
    assert call("judge", "demo").out.endswith("This node may go to work.\n")
    assert report("demo", call)[1]["run"]["limited_to"] == []


def test_a_part_that_is_broken_has_its_own_last_lines(call: Call) -> None:
    out = call("judge", "demo-broken", "--only", "memory").out
    assert "Nothing is wrong" not in out
    assert "Next: " in out


def test_a_part_that_only_warns_is_not_the_whole_node_either(call: Call) -> None:
    out = call(
        "judge",
        str(RECORDINGS / "h200-4x-app-xids.json.gz"),
        "--only",
        "xid",
    ).out
    assert out.splitlines()[-1] == LAST


def test_gpus_that_could_not_be_listed_are_not_none(tmp_path: Path, call: Call) -> None:
    recording = patch(
        base("demo"), {PCI: DENIED, "nvml:nvmlDeviceGetCount()": DENIED, "nvml:nvmlInit()": DENIED}
    )
    done = call("judge", saved(tmp_path, recording))
    assert done.code == 3
    first = done.out.splitlines()[0]
    assert "GPUs not read" in first
    assert "no NVIDIA GPU" not in first


# --- recordings of an older gpuscan, and of older drivers


def without(name: str, *parts: str, scope: list[str] | None = None) -> Recording:
    """A recording in which nobody asked what has these words in its key."""
    recording = base(name)
    kept = [reading for reading in recording if not any(part in reading.key for part in parts)]
    assert len(kept) < len(list(recording))
    return Recording(recording.meta, scope if scope is not None else recording.scope, kept)


CALLS = {
    "nvmlDeviceGetVbiosVersion(": "driver.vbios",
    "nvmlDeviceGetRemappedRows(": "memory.row_remap",
    ",230,0)": "recovery.action",
    "nvmlDeviceGetEccMode(": "memory.ecc_mode",
    "nvmlDeviceGetSerial(": "inventory.unique_serials",
}


@pytest.mark.parametrize("part", CALLS)
def test_a_call_that_an_older_recording_lacks_is_one_fact_unknown(part: str) -> None:
    """A recording once said that it covered everything (*): what it lacks is unknown, and its
    GPUs are not silent.
    """
    found = judged(without("h100-8x-ib", part, scope=["*"]))
    wrong = not_passed(found)
    assert "driver.gpu_access" not in wrong
    assert CALLS[part] in wrong
    assert {word for words in wrong.values() for word in words.values()} == {"unknown"}
    assert (found.exit_code, found.verdict) == (3, "incomplete")
    node = collectors.node(without("h100-8x-ib", part, scope=["*"]))
    assert {gpu.access for gpu in was_read(node.gpus)} == {"ok"}


@pytest.mark.parametrize("part", CALLS)
def test_a_call_outside_of_an_older_recording_s_scope_is_a_skip(part: str) -> None:
    scope = [pattern for pattern in collectors.scope() if part not in pattern]
    found = judged(without("h100-8x-ib", part, scope=scope))
    assert (found.exit_code, found.complete) == (0, True)
    assert "driver.gpu_access" not in not_passed(found)


def test_a_gpu_that_was_never_asked_is_not_healthy() -> None:
    found = judged(
        without("h100-8x-ib", "nvml:nvmlDeviceGetHandleByPciBusId(0000:52:00.0)", scope=["*"])
    )
    assert found.exit_code == 3
    assert "driver.gpu_access" in not_passed(found)


NEWER = {  # capability: the check that reads it, on a driver (R535) that does not have it yet
    "recovery_action": "recovery.action",
    "repair": "memory.repair_pending",
    "unrepairable_memory": "memory.unrepairable",
}


def statuses(found: Report, check: str) -> set[Status]:
    return {result.status for result in found.results if result.check == check}


@pytest.mark.parametrize("capability", NEWER)
def test_a_driver_that_is_too_old_to_tell_is_a_skip_unless_the_profile_wants_it(
    capability: str,
) -> None:
    recording = base("h100-8x-r535")
    node = collectors.node(recording)
    facts = [getattr(gpu, capability) for gpu in was_read(node.gpus)]
    assert all(is_unread(fact) and fact.kind == "too-old-driver" for fact in facts)
    check = NEWER[capability]
    found = judged(recording)
    assert (statuses(found, check), found.exit_code) == ({Status.SKIP}, 0)
    own = f"capabilities=[{capability}]"
    found = judged(recording, settings=[own])
    assert statuses(found, check) == {Status.UNKNOWN}
    assert (found.exit_code, found.verdict) == (3, "incomplete")
    open_fabric = ["capabilities=[vbios]", "gpu.fabric=null"]
    assert judged(recording, settings=open_fabric).exit_code == 0
