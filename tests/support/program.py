"""The program as its users start it: the console script in a process of its own, and the command
line within this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

import gpuscan as package
from gpuscan.cli import app as cli

TREE = str(Path(package.__file__).resolve().parent.parent)
SCRIPT = Path(sys.executable).parent / "gpuscan"
Changes = Mapping[str, str | None]
NONE: Changes = MappingProxyType({})
OURS = ("FORCE_COLOR", "NO_COLOR", "PYTHONPATH", "COLUMNS", "GPUSCAN_SHARED")


class Ended(NamedTuple):
    """What one call came to."""

    code: int
    out: str
    err: str


@cache
def program() -> tuple[str, ...]:
    """The words that start it: the console script, or where that is not installed the module."""
    return (str(SCRIPT),) if SCRIPT.exists() else (sys.executable, "-m", "gpuscan")


@cache
def _path() -> dict[str, str]:
    """What makes the program import the package that the tests import; nothing where it is the
    installed one.
    """
    words = [sys.executable, "-c", "import gpuscan; print(gpuscan.__file__)"]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd="/", env=_without_ours(), check=False
    )
    return {} if done.stdout.strip() == package.__file__ else {"PYTHONPATH": TREE}


def _without_ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OURS}


@cache
def _states() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpuscan-states-")


def _fresh() -> str:
    """A state's folder of its own for each call: no test sees another's hold, nor writes where
    this machine has its own.
    """
    return os.path.join(_states().name, os.urandom(8).hex())


def environment(changes: Changes = NONE) -> dict[str, str]:
    """This process's environment without what would colour a test, and with *changes*; None
    removes.
    """
    whole: Changes = {**_without_ours(), **_path(), "GPUSCAN_STATE_DIR": _fresh(), **changes}
    return {name: value for name, value in whole.items() if value is not None}


def start(
    words: Sequence[str],
    changes: Changes = NONE,
    *,
    cwd: str | Path = "/",
    before: Sequence[str] = (),
) -> Ended:
    """Run the program with *words* in a process of its own; *before* are words that start it, as
    `setpriv`.
    """
    done = subprocess.run(
        [*before, *program(), *words],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        cwd=cwd,
        env=environment(changes),
        timeout=60,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Call:
    """Run the command line within this process, which is ten times as fast."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, *words: str) -> Ended:
        """Return what it came to."""
        for name in ("FORCE_COLOR", "NO_COLOR"):
            self.monkeypatch.delenv(name, raising=False)
        self.monkeypatch.setattr(sys, "argv", ["gpuscan", *words])
        code = cli.start(None)
        sys.stdout.flush()
        out, err = self.capfd.readouterr()
        return Ended(code, out, err)
