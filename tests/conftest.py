"""Fixtures that whole runs share (the fake NVML, compiled once, and the machines it plays), and
the sorting of tests into tiers.
"""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_nvml import NoCompiler, build
from hypothesis import settings
from machine import EIGHT, Machine
from program import Call

from gpuscan.recording import Recording, load

# A stand-in for the CUDA binding, which every test would import, and gpuscan's own check modules.
collect_ignore = ["fake_cuda/binding", "outputs/checks"]
settings.register_profile("untimed", deadline=None)  # machines are noisy; no test is about time
settings.load_profile("untimed")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs like this, and the programs under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Under nohup, too. A handler lets this process live on, and is not inherited.
    signal.signal(signal.SIGHUP, lambda *_: None)

MACHINES = {"library", "machine", "eight"}  # fixtures that need processes of their own
SAMPLE = 10  # one sweep in so many belongs to the default tests as well


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what fakes a machine as `system`, and a stable sample of the sweep as `smoke`."""
    for item in items:
        own = any(item.get_closest_marker(tier) for tier in ("burnin", "contrib"))
        if MACHINES & set(getattr(item, "fixturenames", ())) and not own:
            item.add_marker("system")
        if item.get_closest_marker("sweep") and zlib.crc32(item.name.encode()) % SAMPLE == 0:
            item.add_marker("smoke")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library's folder."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # which all workers share
    try:
        return build(base)
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
