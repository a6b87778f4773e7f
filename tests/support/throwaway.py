"""This machine's own files in namespaces of their own, everything written to them thrown away: the
place where a test installs, enables and boots as an operator does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from paths import ROOT
from program import Ended, environment, program

ENTER = Path(__file__).with_suffix(".sh")
ENOUGH_S = 180  # for anything that is not meant to hang: only a guard, never a condition


class Throwaway:
    """One such place; `share` is the folder that the test and the place have in common."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.share = folder, folder / "share"
        self.share.mkdir()
        (folder / "over").mkdir()

    def run(self, script: str, timeout: float = ENOUGH_S) -> Ended:
        """Run the lines of *script* in bash, in a place made anew from this machine's files."""
        path = self.share / "script.sh"
        path.write_text(f"set -eu\ncd {shlex.quote(str(self.share))}\n{script}\n", "utf-8")
        kept = dict.fromkeys((str(ROOT), sys.prefix, sys.base_prefix))
        words = ["bash", str(ENTER), str(self.folder), str(path), *kept]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            env=environment({"GPUSCAN_STATE_DIR": None}),
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the first of its processes ends the rest
                raise
        return Ended(process.returncode, out, err)

    def program(self) -> Path:
        """Write `gpuscan` as an operator's installation has it, below the share; return its path."""
        path = self.share / "bin" / "gpuscan"
        path.parent.mkdir(exist_ok=True)
        lines = [
            f"export {name}={value}"
            for name, value in environment().items()
            if name == "PYTHONPATH"
        ]
        path.write_text(
            "\n".join(["#!/bin/bash", *lines, f'exec {shlex.join(program())} "$@"', ""]), "utf-8"
        )
        path.chmod(0o755)
        return path


@cache
def _lacking() -> str:
    """What keeps this machine from making such a place; nothing where it can."""
    if os.geteuid() != 0:
        return "needs root, for namespaces and an overlay"
    if shutil.which("unshare") is None:
        return "unshare (util-linux) is not installed"
    with tempfile.TemporaryDirectory(prefix="gpuscan-probe-") as folder:
        done = Throwaway(Path(folder)).run("exit 0")
    return "" if done.code == 0 else f"no namespaces with an overlay here: {done.err.strip()}"


def throwaway(factory: pytest.TempPathFactory) -> Throwaway:
    """Return a fresh place, or skip the test with the reason."""
    if lacking := _lacking():
        pytest.skip(lacking)
    return Throwaway(factory.mktemp("throwaway"))


def need(*tools: str) -> None:
    """Skip the test where one of these programs is not installed."""
    for tool in tools:
        if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:/lib/systemd") is None:
            pytest.skip(f"{tool} is not installed")
