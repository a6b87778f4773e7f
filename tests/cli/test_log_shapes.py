"""`gpuscan log` streams lines of any shape: in bounded memory, to its deadline, with its progress
on a terminal.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from logs import XID
from program import environment, program

pytestmark = pytest.mark.system
MIB = 1 << 20
BOOT = b"[    0.000000] Linux version 6.8.0-31-generic (a@b)\n"
FAULT = f"[ 9000.000000] {XID}".encode()
QUIET = b"[   10.000000] usb 1-1: new device number 2\n"
OF_DRIVER = b"[   10.000000] nvidia-nvswitch0: open (major=510)\n"


def filled(size: int, line: bytes) -> bytes:
    return line * (size // len(line) + 1)


# what comes between a boot and a fault, of about so many bytes
SHAPES: dict[str, Callable[[int], bytes]] = {
    "one line": lambda size: BOOT + b"x" * size + b"\n" + FAULT + b"\n",
    "one line of the driver": lambda size: BOOT + FAULT + b" " + b"x" * size + b"\n",
    "no end": lambda size: BOOT + FAULT + b"\n" + b"x" * size,
    "NULs": lambda size: BOOT + b"\0" * size + b"\n" + FAULT + b"\n",
    "CR alone": lambda size: (BOOT + filled(size, QUIET) + FAULT).replace(b"\n", b"\r"),
    "CR LF": lambda size: (BOOT + filled(size, QUIET) + FAULT).replace(b"\n", b"\r\n"),
    "UTF-16": lambda size: (BOOT + filled(size // 2, QUIET) + FAULT).decode().encode("utf-16"),
    "empty lines": lambda size: BOOT + b"\n" * size + FAULT,
    "lines of the driver": lambda size: BOOT + filled(size // 10, OF_DRIVER) + FAULT,
    "lines": lambda size: BOOT + filled(size, QUIET) + FAULT,
}
# runs the words behind it, and prints their exit code and the most memory that a process took
MEASURE = (
    "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], "
    "stdout=subprocess.DEVNULL).returncode; "
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def measured(path: Path, stdin: bool) -> tuple[int, int]:
    """Return the exit code of `log`, and the memory of its largest process in KiB."""
    words = [sys.executable, "-c", MEASURE, *program(), "log", "-" if stdin else str(path)]
    with path.open("rb") as file:
        done = subprocess.run(
            words, stdin=file, capture_output=True, text=True, env=environment(), check=True
        )
    code, peak = done.stdout.split()
    return int(code), int(peak)


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_does_not_grow_with_a_log(shape: str, tmp_path: Path) -> None:
    small, large = tmp_path / "small.log", tmp_path / "large.log"
    small.write_bytes(SHAPES[shape](MIB // 4))
    large.write_bytes(SHAPES[shape](24 * MIB))
    code, least = measured(small, stdin=False)
    assert code == 30
    for stdin in (False, True):
        code, most = measured(large, stdin=stdin)
        assert (code, most < 2 * least) == (30, True), (stdin, most, least)


@pytest.mark.parametrize("packed", [False, True], ids=["file", "pipe"])
def test_a_fault_that_was_dropped_with_the_rest_of_a_line_is_no_pass(
    packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    for size in (MIB, 40 * MIB):
        path.write_bytes(BOOT + b"x" * size + FAULT + b"\n" + QUIET)
        assert measured(path, packed)[0] == 3
        path.write_bytes(BOOT + b"x" * size + b"\n" + QUIET)
        assert measured(path, packed)[0] == 0


def test_a_pipe_that_does_not_end_is_judged_at_the_deadline() -> None:
    for said, code in ((FAULT, 30), (QUIET, 3)):
        words = [*program(), "log", "-", "-q", "--deadline", "1"]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False, env=environment()
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(BOOT + said + b"\n")
            process.stdin.flush()  # and it stays open
            out = process.stdout.read()
            assert process.wait() == code, out
        assert b"partial: " in out


def test_a_pipe_that_never_ends_is_judged_at_the_deadline() -> None:
    words = [*program(), "log", "-", "--deadline", "1"]
    with subprocess.Popen(["yes", QUIET.decode()[:-1]], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(
            words, stdin=endless.stdout, capture_output=True, text=True, env=environment(), check=False
        )  # fmt: skip
        endless.kill()
    assert done.returncode == 3
    assert "not read to its end within 1 s (--deadline)" in done.stdout


def read_all(terminal: int, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield what a program writes to its terminal until it ends."""
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            yield os.read(terminal, 4096)
        elif process.poll() is not None:
            return


def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    """A pipe that is held open until a line of progress has been drawn."""
    terminal, end = pty.openpty()
    words = [*program(), "log", "-", "-q"]
    env = environment({"TERM": "xterm"})
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=end, env=env
    ) as process:
        assert process.stdin
        process.stdin.write(BOOT + filled(3 * MIB, QUIET))
        process.stdin.flush()
        shown = b""
        for piece in read_all(terminal, process):
            shown += piece
            if b"MiB read" in shown and not process.stdin.closed:
                process.stdin.close()
        assert process.wait() == 0
    os.close(end)
    os.close(terminal)
    assert b"3 MiB read" in shown
    assert shown.endswith(b"\r\x1b[K\r"), "the line is cleared in the end"
    path = tmp_path / "a.log"
    path.write_bytes(BOOT + filled(3 * MIB, QUIET))
    done = subprocess.run([*program(), "log", str(path), "-q"], capture_output=True, env=environment(), check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
