"""What counts as a kernel's log, and a line that names an Xid and was not understood."""

from __future__ import annotations

from typing import Any

import pytest
from logs import USERS, WAYS, XID

from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.keeping import reading_value, select_lines
from gpuscan.kernellog.lines import parse_lines

STAMPS = (  # of a journal or a syslog in other languages, behind a file's name, behind a number
    "M\u00e4r 05 10:14:07 node01 ",
    "11\u6708 15 14:15:47 node01 ",
    "f\u00e9vr. 23 16:24:18 node01 ",
    "\u0430\u043f\u0440 15 16:50:03 node01 ",
    "4\uc6d4 15 16:50:03 node01 ",
    "15 abr 16:50:03 node01 ",
    "/var/log/kern.log.1:Apr 15 16:50:03 node01 ",
    "kern.log.2.gz:2025-04-15T16:50:03.123456+02:00 node01 ",
    "    812 Apr 15 16:50:03 node01 ",
)


def value(*lines: str) -> dict[str, Any]:
    raw = [line.encode() for line in lines]
    return reading_value(select_lines(enumerate(raw, 1)), len(raw), raw, raw)


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("uptime", ["", "[ 5411.000100] "])
def test_what_stands_before_kernel_is_a_stamp(stamp: str, uptime: str) -> None:
    (event,) = read_events(parse_lines([f"{stamp}kernel: {uptime}{XID}"]))
    assert (event.code, event.address) == (79, "0000:3b:00.0")
    assert "unread" not in value(f"{stamp}kernel: {uptime}{XID}")


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("who", ["monitor[812]: ", "monitor[812]: kernel: ", 'echo "kernel: '])
def test_a_program_behind_any_stamp_only_quotes(stamp: str, who: str) -> None:
    line = f"{stamp}{who}{XID}"
    assert list(read_events(parse_lines([line]))) == []
    assert "unread" not in value(line)


@pytest.mark.parametrize("before", ["## ", "node01: ", "12:", "at noon "])
def test_a_code_behind_an_unknown_prefix_is_unread(before: str) -> None:
    read = value("[    0.000000] Linux version 6.8.0", f"{before}word {XID}")
    assert [number for number, _ in read["unread"]] == [2]


def test_a_code_that_is_cut_off_is_unread() -> None:
    assert value("[ 3600.250000] NVRM: Xid (PCI:0000:3b:00")["unread"]


@pytest.mark.parametrize("way", WAYS)
def test_a_code_that_counts_is_not_unread(way: str) -> None:
    read = value(WAYS[way](XID))
    assert (read["kernel"], "unread" in read) == (True, False)


@pytest.mark.parametrize("user", USERS)
def test_a_quotation_is_not_unread(user: str) -> None:
    assert "unread" not in value(USERS[user](XID))


@pytest.mark.parametrize(
    "line",
    [
        "/dev/nvme0n1p2 /boot ext4 rw,relatime 0 0",
        "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw,errors=remount-ro",
        "the nvidia_driver package was updated",
    ],
)
def test_words_of_a_kernel_make_no_kernel_log(line: str) -> None:
    assert value(line)["kernel"] is False


@pytest.mark.parametrize("user", ["docker", "kubernetes", "JSON"])
def test_a_container_may_have_printed_the_log_itself(user: str) -> None:
    assert value(USERS[user](XID))["kernel"] is False


@pytest.mark.parametrize("user", ["a program", "a program's JSON", "a program in the journal"])
def test_a_log_in_which_a_program_quotes_is_understood(user: str) -> None:
    assert value(USERS[user](XID))["kernel"] is True


def test_a_quoted_line_may_be_an_export_of_the_log() -> None:
    """Of a tool that writes CSV, for example: nothing in it was understood."""
    read = value(f'"2025-03-05","node01","Mar 05 10:00:13 node01 kernel: {XID}"')
    assert read["kernel"] is False
