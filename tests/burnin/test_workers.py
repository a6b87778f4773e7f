"""One worker process as the parent sees it, on a stand-in for the CUDA driver."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator

import pytest
from machine import wait_for
from paths import ROOT, TESTS

from gpuscan.burnin.launcher import ProcessLauncher
from gpuscan.burnin.workers import Worker, end_all

pytestmark = pytest.mark.burnin
GPU = "0000:1b:00.0"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (TESTS / "fake_cuda" / "binding", TESTS, ROOT):
        monkeypatch.syspath_prepend(str(path))
    monkeypatch.delenv("FAKE_CUDA_FAULTS", raising=False)


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    started: list[Worker] = []
    yield started
    end_all(started)


def open_gpu(workers: list[Worker]) -> Worker:
    """Start a worker, and wait until it has opened its GPU, or ended."""
    worker = Worker(GPU)
    workers.append(worker)

    def heard() -> object:
        if ProcessLauncher().wait([worker], 0.2):
            worker.take()
        return worker.hello or worker.error or worker.ended

    wait_for(heard)
    return worker


def run_test(worker: Worker) -> dict[str, object]:
    """Let it run a short test, and return the result's line."""
    lines: list[dict[str, object]] = []
    worker.send({"test": "hbm", "seconds": 0})

    def heard() -> object:
        if ProcessLauncher().wait([worker], 0.2):
            lines.extend(worker.take())
        return worker.ended or any(line["kind"] == "result" for line in lines)

    wait_for(heard)
    return next(line for line in lines if line["kind"] == "result")


def test_it_opens_its_gpu_and_runs_a_test(workers: list[Worker]) -> None:
    worker = open_gpu(workers)
    assert worker.hello["card"] == GPU
    assert run_test(worker)["status"] == "pass"
    end_all(workers)
    assert worker.ended


def test_a_library_that_prints_a_lot_blocks_nothing(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUDA_CHATTER", "1")
    assert run_test(open_gpu(workers))["status"] == "pass"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("CUDA_FORCE_PTX_JIT", "1"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G"),
        ("CUDA_MPS_PIPE_DIRECTORY", "/tmp"),  # noqa: S108
    ],
)
def test_settings_for_cuda_in_the_environment_are_dropped(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The stand-in opens no GPU where it sees one of them."""
    monkeypatch.setenv(name, value)
    assert open_gpu(workers).hello


def test_without_a_writable_folder_standard_error_is_dropped(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert open_gpu(workers).hello


def test_a_missing_interpreter_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(OSError, match="No such file"):
        Worker(GPU)


def test_how_it_died_is_known(workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_FAULTS", "no JSON")
    worker = open_gpu(workers)
    assert "exited with code 1 (json.decoder.JSONDecodeError" in worker.ended


def test_a_kill_from_outside_is_known(workers: list[Worker]) -> None:
    worker = open_gpu(workers)
    os.kill(worker.child.pid, 9)

    def ended() -> object:
        worker.take()
        return worker.ended

    wait_for(ended)
    assert "SIGKILL" in worker.ended
