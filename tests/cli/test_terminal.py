"""On a terminal, nothing breaks inside a word, and nothing is lost by wrapping."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

COMMANDS = (
    "run --replay demo-broken",
    "run --replay demo-broken -v",
    "judge demo demo-broken -q",
    "judge demo --skip nothing.of.this.name",
    "judge /no/such/file/in/a/folder/that/has/quite/a/long/name/for/a/message/of/one/line.json.gz",
    "explain hold",
    "explain exit",
    "explain action",
    "explain xid 79",
    "explain memory.row_remap swap.is_proven",
    "checks list memory",
    "checks show nvlink.links power.limit",
    "profile list",
    "status",
    "history list",
    "doctor",
    "info --replay demo",
    "swap begin --replay demo --part gpu:SXM5 --ticket OPS-7",
)
STATEFUL = ("status", "history", "swap", "explain hold")
DIFFERENT = ("info ", "swap begin ")  # other tables on a terminal; another answer the second time


def environment(state: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HOME": str(state),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "NO_COLOR": "1",
    }


def on_terminal(command: str, width: int, state: Path) -> str:
    """Return what a command shows on a terminal of *width* columns."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    words = [sys.executable, "-m", "gpuscan", *command.split()]
    program = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(state), cwd=state
    )
    os.close(theirs)
    shown = b""
    while block := _block(ours):
        shown += block
    os.close(ours)
    program.wait()
    bold = re.compile(r"\x1b\[[0-9;]*m")
    return bold.sub("", shown.decode("utf-8").replace("\r\n", "\n"))


def _block(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the program has ended
        return b""


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_breaks_inside_a_word(command: str, tmp_path: Path) -> None:
    state = ["--state-dir", str(tmp_path / "state")] if command.startswith(STATEFUL) else []
    words = " ".join([command, *state])
    piped = subprocess.run(
        [sys.executable, "-m", "gpuscan", *words.split()],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        cwd=tmp_path,
        check=False,
    )
    plain = sorted("".join((piped.stdout + piped.stderr).split()))
    for width in (80, 200):
        lines = on_terminal(words, width, tmp_path).splitlines()
        longest = max(lines, key=len)
        assert len(longest) <= width or " " not in longest.strip(), longest
        if not command.startswith(DIFFERENT):
            assert sorted("".join("".join(lines).split())) == plain
