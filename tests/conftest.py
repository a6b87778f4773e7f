"""Fixtures that whole runs share: the fake NVML, compiled once a session, and fake machines that
it plays.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_nvml import NoCompiler, build
from hypothesis import settings
from machine import EIGHT, Machine
from program import Call

from gpuscan.recording import Recording, load

collect_ignore = [
    "fake_cuda/binding"
]  # a stand-in for workers: collected as a module it would stand in for everybody's binding
settings.register_profile("untimed", deadline=None)  # machines are noisy, and no test is about time
settings.load_profile("untimed")
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell starts what it sends to the background
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # else the programs that the tests start would heed none


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library's folder."""
    try:
        return build(tmp_path_factory.getbasetemp())
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> Callable[[Recording], Machine]:
    """Makes a fake machine of a recording."""

    def make(recording: Recording) -> Machine:
        folder = tmp_path / f"machine{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Machine(library, folder, recording)

    return make


@pytest.fixture
def eight(machine: Callable[[Recording], Machine]) -> Machine:
    """A healthy machine of eight H100 and eight InfiniBand ports."""
    return machine(load(str(EIGHT)))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Runs the command line within this process."""
    return Call(monkeypatch, capfd)
