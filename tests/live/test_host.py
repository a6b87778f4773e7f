"""What the host's reader makes of files, commands and the kernel's ring buffer: every answer
bounded, every lack told.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from gpuscan.live.child import fork_reader
from gpuscan.live.host import MOST_BYTES, HostReader
from gpuscan.live.process import end_what_is_left
from gpuscan.live.reader import Places
from gpuscan.live.supervisor import ReadOptions, ReadSupervisor


def answer(key: str, **places: Any) -> tuple[Any, tuple[str, str, int | None] | None]:
    ((_, value, lack),) = HostReader(Places(**places)).answer([key])
    return value, lack


def test_commands() -> None:
    assert answer("run:echo two words") == ("two words\n", None)
    assert answer(r"run:printf \377") == ("\udcff", None)
    assert answer("run:no-such-command") == (None, ("not-found", "No such file or directory", 2))


def test_commands_that_fail() -> None:
    value, lack = answer("run:ls /no/such")
    assert (value, lack and lack[0]) == (None, "garbled")
    assert lack is not None
    assert "/no/such" in lack[1]
    assert answer("run:false") == (None, ("garbled", "exit code 1", 5))


def test_a_command_that_takes_too_long() -> None:
    value, lack = answer("run:sleep 1000", run_s=0.2)
    assert (value, lack) == (None, ("timed-out", "gave no answer within 0.2 s", 110))


def test_of_a_long_output_the_end_is_kept() -> None:
    value, lack = answer("run:seq 1 3000000", run_s=60.0)
    assert lack is None
    assert len(value) == MOST_BYTES
    assert value.endswith("\n2999999\n3000000\n")


def test_commands_belong_to_this_machine(tmp_path: Path) -> None:
    assert answer("run:echo", root=str(tmp_path)) == (
        None,
        ("not-supported", "commands are not run for another root", 95),
    )


@pytest.mark.system
def test_a_killed_reader_takes_its_command_along() -> None:
    """Killed early, since the deadline is near: the command must not go on alone."""
    seconds = "1061.5"
    guard = ReadSupervisor(
        {"host": fork_reader("host")}, ReadOptions(deadline_s=2.0), lambda key, seconds: None
    )
    try:
        (reading,) = guard.read([f"run:sleep {seconds}"])
    finally:
        guard.close()
        end_what_is_left()
    assert reading.error is not None
    assert reading.error.kind == "blocked-behind"
    ends = time.monotonic() + 10
    while any(seconds.encode() in line for line in command_lines()):
        assert time.monotonic() < ends
        time.sleep(0.01)


def command_lines() -> list[bytes]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    return lines


def test_the_kernels_records_of_another_root(tmp_path: Path) -> None:
    """A plain file of them will do there; lines that continue a record are left out."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kmsg").write_bytes(b"6,0,0,-;first\n SUBSYSTEM=pci\n4,1,5,-;second \xff\n")
    value, lack = answer("kmsg:/dev/kmsg", root=str(tmp_path))
    assert (value, lack) == (["6,0,0,-;first", "4,1,5,-;second \udcff"], None)


def test_what_is_lost_of_a_log_that_is_followed_is_told(tmp_path: Path) -> None:
    """A file that grows stands in for the ring buffer: first nothing, then what came; of too much
    nobody can say what it was.
    """
    log = tmp_path / "kmsg"
    log.write_bytes(b"6,0,0,-;before\n")
    reader, key = HostReader(Places()), f"tail:{log}"
    said: list[tuple[Any, Any]] = []
    for more in (b"", b"4,1,5,-;during\n", bytes(2 * MOST_BYTES), b"4,3,7,-;after\n"):
        with log.open("ab") as file:
            file.write(more)
        said += [(value, lack and lack[0]) for _, value, lack in reader.answer([key])]
    assert said == [
        ([], None),
        (["4,1,5,-;during"], None),
        (None, "garbled"),
        (["4,3,7,-;after"], None),
    ]


def test_here_only_the_device_will_do(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_bytes(b"6,0,0,-;first\n")
    assert answer(f"kmsg:{tmp_path}/kmsg") == (None, ("garbled", "not the kernel's device", 22))


def test_a_device_that_says_nothing_is_not_waited_for() -> None:
    """A terminal nobody types at stands in for a ring buffer read to its end."""
    ours, theirs = os.openpty()
    try:
        name = os.ttyname(theirs)
        assert stat.S_ISCHR(os.stat(name).st_mode)
        assert answer(f"kmsg:{name}") == ([], None)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("file:/proc/no-such", "not-found"),
        ("file:/proc/self/status/more", "not-found"),
        ("file:/proc", "garbled"),
        ("dir:/proc/self/status", "not-found"),
        ("link:/proc/self/status", "garbled"),
    ],
)
def test_kinds_of_lack(key: str, kind: str) -> None:
    value, lack = answer(key)
    assert (value, lack and lack[0]) == (None, kind)
