"""Whole burn-ins through the command line: real worker processes on a stand-in for the CUDA driver,
on a fake machine of two H100. What the scheduler decides is tested in test_scheduler.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from machine import (
    ENOUGH_S,
    MARK,
    Done,
    Machine,
    finished,
    living,
    nobody_left,
    wait_for,
)
from paths import RECORDINGS, ROOT, TESTS

from gpuscan import collectors
from gpuscan.profile import load as load_profile
from gpuscan.recording import Recording, load, patch

pytestmark = pytest.mark.burnin
TWO = RECORDINGS / "h100-2x.json.gz"
# nothing here is about a time limit: a busy machine must not run into one
LIMITS = "init=60,call=45,host=30,worker=60"
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)
IGNORE_SIGNALS = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN);"
    "signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
)
Make = Callable[[Recording], Machine]


@pytest.fixture
def two(machine: Make) -> Machine:
    return machine(load(str(TWO)))


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The profile of a GPU without floors: the stand-in's speeds mean nothing."""
    burnin = load_profile("h100").data["burnin"]
    floors = [key for key, value in burnin.items() if isinstance(value, (int, float))]
    path = tmp_path / "slow.yaml"
    lines = ["extends: h100", "burnin:", "  estimates: []", *(f"  {key}: null" for key in floors)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def env(faults: Mapping[str, Any] | None = None) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(TESTS), str(TESTS / "fake_cuda" / "binding")])
    return {"PYTHONPATH": path, "FAKE_CUDA_FAULTS": json.dumps(faults or {})}


def label(machine: Machine, address: str) -> str:
    gpus = was_read(collectors.node(machine.recording).gpus)
    return next(gpu.label for gpu in gpus if gpu.address == address)


def quick(machine: Machine, profile: str, *words: str) -> tuple[str, ...]:
    return machine.scan("--level", "quick", "--profile", profile, *words)


def passed(done: Done, check: str) -> set[str]:
    return {name for name, status in done.of(f"burnin.{check}").items() if status == "pass"}


def found(done: Done, check: str) -> list[dict[str, Any]]:
    return [row for row in done.report["findings"] if row["check"] == f"burnin.{check}"]


def start(
    two: Machine, profile: str, *words: str, faults: Mapping[str, Any] | None = None
) -> tuple[Any, dict[str, str]]:
    whole = two.env(LIMITS) | env(faults)
    return two.start(two.command(*quick(two, profile, *words)), whole), whole


def steps_of(checkpoint: Path) -> int:
    """How many steps of its round a checkpoint has done."""
    if not checkpoint.exists():
        return 0
    return int((load(str(checkpoint)).meta.checkpoint or {})["steps"])


def workers(mark: str) -> list[int]:
    """The workers of a run that was started with this mark."""
    return [
        pid
        for pid in living(mark)
        if "gpuscan.burnin.worker.main" in Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    ]


def put_tool(folder: Path, script: str) -> dict[str, str]:
    """Put a `dcgmi` on PATH."""
    tool = folder / "bin" / "dcgmi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    tool.chmod(0o755)
    return {"PATH": f"{tool.parent}:{os.environ['PATH']}"}


def test_two_good_gpus_pass(two: Machine, profile: str, tmp_path: Path) -> None:
    """Also as a background job, whose terminal's Ctrl-C means others."""
    checkpoint = tmp_path / "soak.json.gz"
    whole = two.env(LIMITS) | env()
    words = quick(two, profile, "--checkpoint", str(checkpoint))
    command = two.command(*words, before=(sys.executable, "-c", IGNORE_SIGNALS))
    with two.start(command, whole, start_new_session=True) as process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        os.killpg(process.pid, signal.SIGINT)
        done = finished(process, whole)
    assert done.verdict == (0, "pass", True), done.report["findings"]
    assert done.report["run"]["level"] == "quick"
    assert "level quick on 2 GPUs" in done.err
    assert not checkpoint.exists(), "the report is out"
    labels = [part["slot"] for part in done.report["parts"] if part["kind"] == "gpu"]
    names = ("memory", "hbm", "pcie", "exact-bf16", "stress-fp8", "exact-bf16-hot", "pcie-together")
    for one, other in (labels, reversed(labels)):
        assert {f"test:{one} {name}" for name in names} <= passed(done, "completion")
        assert f"test:{one} peer {other}" in passed(done, "corruption")
    assert len(passed(done, "product_match")) == 2 * 6
    replay = ("run", "--format", "json", "--profile", profile, "--replay", str(two.file))
    again = two.plain(*replay, env=env())
    assert again.report["checks"] == done.report["checks"]


def test_a_slow_gpu_is_tried_again(two: Machine, profile: str, tmp_path: Path) -> None:
    """Its memory takes longer by the stand-in's own clock, however busy this machine is.

    The parent ignores SIGCHLD; how another program ended is known all the same.
    """
    slow, good = two.gpus()
    faults = {slow: {"triad_ms": 6e-5}, good: {"triad_ms": 5e-5}}
    path = put_tool(tmp_path, "echo no host engine >&2; exit 3")
    words = quick(two, profile, "--only", "burnin")
    before = (sys.executable, "-c", IGNORE_SIGNALS)
    done = two.plain(*words, limits=LIMITS, env=env(faults) | path, before=before)
    rows = found(done, "node_median")
    assert done.code == 20
    assert {(row["address"], row["action"]) for row in rows} == {(slow, "investigate")}
    (row,) = rows
    assert "hbm_triad_gbps" in row["message"]
    assert "at a second try" in row["message"]
    tool = two.recorded.all("run:dcgmi diag -r 1 -j")[-1]
    assert tool.error is not None
    assert tool.error.text == "no host engine"


def test_a_gpu_that_is_lost_costs_its_own_tests(two: Machine, profile: str, tmp_path: Path) -> None:
    """And no other program is let loose on it."""
    bad, good = two.gpus()
    path = put_tool(tmp_path, f"touch {tmp_path}/started")
    faults = env({bad: {"fail": {"cuMemcpyAsync": 214}}})
    done = two.plain(*quick(two, profile), limits=LIMITS, env=faults | path)
    (row,) = found(done, "completion")
    assert (done.code, row["address"], row["action"]) == (30, bad, "reset-gpu")
    assert "CUDA_ERROR_ECC_UNCORRECTABLE" in row["message"]
    assert f"test:{label(two, good)} exact-fp64" in passed(done, "corruption")
    assert not (tmp_path / "started").exists()


def test_a_silent_worker_is_killed(two: Machine, profile: str) -> None:
    bad, good = two.gpus()
    faults = env({bad: {"hang": "cuMemcpyAsync"}})
    limits = LIMITS.replace("worker=60", "worker=8")
    words = quick(two, profile, "--only", "burnin")
    done = two.plain(*words, limits=limits, env=faults)
    rows = [row for row in found(done, "completion") if row["address"] == bad]
    assert len(rows) == 1
    assert "the worker was silent" in rows[0]["message"]
    assert done.code == 30


def test_a_worker_that_ignores_signals_costs_no_report(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint, bad = tmp_path / "soak.json.gz", two.gpus()[0]
    faults = {bad: {"hang": "cuMemcpyAsync", "folder": str(tmp_path)}}
    process, whole = start(two, profile, "--checkpoint", str(checkpoint), faults=faults)
    with process:
        wait_for((tmp_path / "hanging").exists)
        process.send_signal(signal.SIGINT)
        done = finished(process, whole)
    assert done.code == 128 + signal.SIGINT
    assert passed(done, "completion"), "what was done before is reported"
    assert "was killed" not in done.err, "by the burn-in itself, not from its checkpoint"
    assert "process died" not in done.err


def test_a_signal_ends_it_and_what_was_found_is_reported(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "soak.json.gz"
    month = ("--level", "long", "--duration", "30d")
    process, whole = start(two, profile, "--checkpoint", str(checkpoint), *month)
    with process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        process.send_signal(signal.SIGTERM)
        done = finished(process, whole)
    assert done.code == 128 + signal.SIGTERM
    summary = done.report["summary"]
    assert (summary["verdict"], summary["complete"]) == ("incomplete", False)
    assert passed(done, "completion")
    assert checkpoint.exists()
    assert f"saved in {checkpoint}: rerun the same command to resume" in done.err


def test_a_lost_terminal_leaves_report_and_checkpoint(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """The ssh session is gone: nobody sees what is printed any more."""
    checkpoint, report = tmp_path / "soak.json.gz", tmp_path / "report.json"
    month = ("--level", "long", "--duration", "30d")  # so that it cannot end by itself
    words = quick(
        two, profile, *month, "--checkpoint", str(checkpoint), "--report", f"json={report}"
    )
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        two.command(*words, before=(sys.executable, "-c", ON_TERMINAL)),
        env=two.env(LIMITS) | env(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    wait_for(lambda: steps_of(checkpoint) > 0)
    os.close(ours)
    process.wait(ENOUGH_S)
    assert json.loads(report.read_text("utf-8"))["summary"]["verdict"] == "incomplete"
    assert checkpoint.exists()


def test_a_killed_one_resumes_from_its_checkpoint(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "soak.json.gz"
    process, whole = start(two, profile, "--checkpoint", str(checkpoint))
    with process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert nobody_left(whole[MARK])
    began_at = (load(str(checkpoint)).meta.checkpoint or {})["began_at"]
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began_at))
    words = quick(two, profile, "--checkpoint", str(checkpoint))
    done = two.plain(*words, limits=LIMITS, env=env())
    assert done.code == 0, done.report["findings"]
    assert "resumed after" in done.err
    assert f"begun {began})" in done.err
    assert any(began in note for note in done.report["notes"])
    assert not checkpoint.exists()
    labels = [label(two, gpu) for gpu in two.gpus()]
    assert {f"test:{one} {name}" for one in labels for name in ("memory", "exact-bf16-hot")} <= (
        passed(done, "completion")
    )


def test_a_killed_scheduler_leaves_its_checkpoint(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """As when the host is out of memory: what was done is judged, and is not all of it."""
    checkpoint = tmp_path / "soak.json.gz"
    month = ("--level", "long", "--duration", "30d")
    process, whole = start(two, profile, "--checkpoint", str(checkpoint), *month)
    with process:
        wait_for(lambda: steps_of(checkpoint) > 3)
        (parent,) = {
            int(Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[1])
            for pid in workers(whole[MARK])
        }
        os.kill(parent, signal.SIGKILL)
        done = finished(process, whole)
    assert done.verdict == (3, "incomplete", False)
    assert checkpoint.exists()
    assert "rerun the same command" in done.err
    assert passed(done, "completion"), "what was done is judged"


def test_a_checkpoint_that_cannot_be_written_is_refused_before(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    words = quick(two, profile, "--checkpoint", str(tmp_path / "no" / "such"))
    done = two.plain(*words, limits=LIMITS, env=env())
    assert done.code == 2
    assert "cannot be written" in done.err


def test_a_checkpoint_stays_until_the_report_is_out(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "soak.json.gz"
    words = quick(two, profile, "--checkpoint", str(checkpoint))
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            two.command(*words),
            env=two.env(LIMITS) | env(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert "standard output cannot be written" in done.stderr
    assert steps_of(checkpoint) > 20


def test_floors_are_captured_from_a_good_node(machine: Make, tmp_path: Path) -> None:
    """Of GPUs that no profile has floors for."""
    recording = load(str(TWO))
    changes = {
        reading.key: str(reading.value).replace("10DE:2330", "10DE:2FFF")
        for reading in recording
        if reading.key.endswith("/uevent") and "10DE:2330" in str(reading.value)
    }
    other = machine(patch(recording, changes))
    file = tmp_path / "captured.yaml"
    fast = env({gpu: {"ms": 1e-5} for gpu in other.gpus()})
    words = ("profile", "capture", "--level", "quick", "--output", str(file))
    done = other.plain(*words, limits=LIMITS, env=fast)
    assert done.code == 0, done.err
    floors = load_profile(str(file)).data["burnin"]
    assert floors["gemm_bf16_tflops"] > 0
    assert floors["peer_one_way_gbps"] is not None


@pytest.mark.parametrize(
    ("change", "file", "message"),
    [
        (
            {"nvml:nvmlDeviceGetVbiosVersion(0000:00:06.0)": "96.00.74.00.01"},
            "captured.yaml",
            "the GPUs differ in vbios",
        ),
        (
            {"nvml:nvmlDeviceGetRemappedRows(0000:00:07.0)": [0, 0, 0, 1]},
            "captured.yaml",
            "captured.yaml",
        ),
        ({}, "no/captured.yaml", "no/captured.yaml"),
        ({}, "", "is a folder"),
    ],
    ids=["differ", "faulty", "no folder", "a folder"],
)
def test_capture_refuses_before_the_gpus_are_loaded(
    machine: Make, tmp_path: Path, change: dict[str, Any], file: str, message: str
) -> None:
    node = machine(patch(load(str(TWO)), change))
    words = ("profile", "capture", "--level", "quick", "--output", str(tmp_path / file))
    done = node.plain(*words, limits=LIMITS, env=env())
    assert (done.code, done.out) == (2, "")
    assert message in done.err or "does not pass" in done.err
    assert "level quick" not in done.err


def test_after_a_swap_the_gpus_are_loaded(two: Machine, profile: str, tmp_path: Path) -> None:
    words = ("swap", "verify", "--format", "json", "--profile", profile)
    state = ("--state-dir", str(tmp_path / "state"))
    done = two.plain(*words, *state, limits=LIMITS, env=env())
    assert done.report["run"]["level"] == "quick"
    assert passed(done, "corruption")
