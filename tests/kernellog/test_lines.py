"""The kernel log's lines: every way to write one, what belongs together, what only quotes, and
what neighbours cannot hide.
"""

from __future__ import annotations

import time
from calendar import timegm
from typing import Any

import pytest
from hostlines import FITS
from hypothesis import given
from hypothesis import strategies as st
from logs import USERS, WAYS, XID

from gpuscan.kernellog import stamps
from gpuscan.kernellog.event import Event
from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.keeping import select_lines
from gpuscan.kernellog.lines import is_gap, parse_lines, parse_numbered_lines
from gpuscan.kernellog.needles import is_needed
from gpuscan.kernellog.record import Record
from gpuscan.live.grep import search_lines

NOW_S = float(timegm((2025, 7, 1, 0, 0, 0)))
WALL_S = float(timegm((2025, 2, 23, 16, 24, 18)))


def read(*lines: str | bytes) -> list[Record]:
    return list(parse_lines(lines, NOW_S))


def found(*lines: str | bytes) -> list[Event]:
    return list(read_events(parse_lines(lines, NOW_S)))


def the(*lines: str | bytes) -> Event:
    (one,) = found(*lines)
    return one


def codes(*lines: str | bytes) -> list[tuple[int, str]]:
    return [(one.code, one.address) for one in found(*lines)]


@pytest.mark.parametrize("way", WAYS)
def test_a_line_counts_whatever_wrote_it(way: str) -> None:
    (record,) = read(WAYS[way](XID))
    assert (record.message, record.kernel, record.line) == (XID, True, 1)
    one = the(WAYS[way](XID))
    assert (one.code, one.address, one.pid, one.process) == (79, "0000:3b:00.0", 812, "python")
    assert one.text == "GPU has fallen off the bus."


WITH_UPTIME = (
    "dmesg",
    "dmesg with caller",
    "dmesg -d",
    "dmesg --raw",
    "rsyslog",
    "/dev/kmsg",
    "journalctl -o json",
    "syslogd's call",
)
WITH_DATE = (
    "dmesg -T",
    "dmesg, iso",
    "journalctl",
    "journalctl, iso",
    "journalctl, full",
    "rsyslog",
    "Talos",
    "journalctl -o json",
)


@pytest.mark.parametrize("way", WITH_UPTIME)
def test_seconds_since_boot(way: str) -> None:
    assert read(WAYS[way](XID))[0].at_s == 3600.25


@pytest.mark.parametrize("way", WITH_DATE)
def test_unix_time(way: str) -> None:
    wall_s = read(WAYS[way](XID))[0].wall_s
    assert wall_s is not None
    assert int(wall_s) == WALL_S


@pytest.mark.parametrize("way", USERS)
def test_quoted_lines_are_not_events(way: str) -> None:
    assert found(USERS[way](XID)) == []
    assert (
        found("[ 1.000000] usb 1-1: new device", USERS[way](XID), "[ 2.000000] usb 1-2: new device")
        == []
    )


def test_a_segfault_is_the_kernels_own_message() -> None:
    (record,) = read(
        "[ 10.000000] python3[2254]: segfault at 0 ip 00007f sp 00007f error 4 in"
        " libnccl.so.2[7f+1]"
    )
    assert record.kernel


@pytest.mark.parametrize(
    ("stamp", "until", "year"),
    [
        ("Dec 31 23:59:58", (2026, 1, 2), 2025),
        ("Jan  1 00:00:01", (2026, 1, 2), 2026),
        ("Jan  3 00:00:00", (2026, 1, 2, 23), 2026),
        ("Jan  5 00:00:00", (2026, 1, 2), 2025),
        ("Feb 29 12:00:00", (2026, 1, 2), 2024),
    ],
)
def test_a_stamp_without_a_year_is_of_the_newest_that_fits(
    stamp: str, until: tuple[int, ...], year: int
) -> None:
    until_s = float(timegm((*until, 0, 0, 0, 0)[:6]))
    (record,) = parse_lines([f"{stamp} node01 kernel: x"], until_s)
    assert record.wall_s is not None
    assert time.gmtime(record.wall_s).tm_year == year


@pytest.mark.parametrize(
    "text",
    [
        "Feb 30 12:00:00 node01 kernel: x",
        "Xyz  1 12:00:00 node01 kernel: x",
        "2025-99-01T00:00:00Z h kernel: x",
    ],
)
def test_a_stamp_that_is_no_time_costs_the_time_only(text: str) -> None:
    (record,) = read(text)
    assert (record.message, record.wall_s) == ("x", None)


def test_delta_stamps_take_the_last_full_one() -> None:
    first, second, _ = read("[Feb23 16:24] a", "[  +0.000844] b", "[ 1.000000] c")
    assert first.wall_s == second.wall_s == WALL_S - 18


def test_continuation_lines_join_their_message() -> None:
    got = read(
        "[ 1.000000] first",
        "               second",
        "\tthird",
        "[ 2.000000] fourth",
        "bare",
        "[ 3.000000] fifth",
    )
    assert [(one.message, one.line, one.end) for one in got] == [
        ("first\nsecond\nthird", 1, 3),
        ("fourth", 4, 4),
        ("bare", 5, 5),
        ("fifth", 6, 6),
    ]


def test_the_dictionary_of_kmsg_is_not_part_of_the_message() -> None:
    got = read(
        "3,1,5,-;one\\x0atwo", " SUBSYSTEM=pci", " DEVICE=+pci:0000:af:00.0", "3,2,6,-;three"
    )
    assert [one.message for one in got] == ["one\ntwo", "three"]


def test_an_indented_log_is_a_log() -> None:
    assert codes(f"    [ 1.000000] {XID}", "    [ 1.100000] x") == [(79, "0000:3b:00.0")]


def test_a_continuation_may_itself_be_an_event() -> None:
    assert codes("[ 1.000000] NVRM: a table", f"            {XID}") == [(79, "0000:3b:00.0")]


def test_a_line_left_out_between_ends_a_message() -> None:
    got = list(parse_numbered_lines([(1, "[ 1.000000] a"), (2, "   b"), (9, "   c")], NOW_S))
    assert [one.message for one in got] == ["a\nb", "c"]


@pytest.mark.parametrize(
    "line",
    [
        b"\0\0\0[ 1.000000] " + XID.encode() + b"\r\n",
        b"\x1b[32m[ 1.000000] \x1b[0m\x1b[33mNVRM: \x1b[0m" + XID[6:].encode(),
        b"[ 1.000000] " + XID.encode() + b" \xff\xfe" + b"x" * 100_000,
        b"\xef\xbb\xbf[ 1.000000] " + XID.encode(),
    ],
    ids=["zeros and carriage return", "colours", "no UTF-8, and endless", "byte order mark"],
)
def test_bytes_that_no_log_should_have(line: bytes) -> None:
    assert codes(line) == [(79, "0000:3b:00.0")]


def test_a_half_written_line_of_json_counts() -> None:
    line = WAYS["journalctl -o json"](XID)
    assert codes(line[:-1]) == [(79, "0000:3b:00.0")]
    assert codes('{"__CURSOR":"a","_TRANSPORT":"stdout","MESSAGE":"' + XID) == []


@pytest.mark.parametrize(
    "line",
    [
        "printk: 17 messages dropped",
        "** 31 printk messages dropped **",
        "net_ratelimit: 33 callbacks suppressed",
        "Missed 23 kernel messages",
    ],
)
def test_dropped_messages_are_recognised(line: str) -> None:
    (record,) = read(f"[ 1.000000] {line}")
    assert is_gap(record)
    assert is_needed(line.encode())


XIDS: dict[str, dict[str, Any]] = {
    "NVRM: Xid (0000:03:00): 14, Channel 00000001": {"address": "0000:03:00.0", "code": 14, "text": "Channel 00000001"},
    "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 94, pid=812, name=python, Contained: SM (0x1). RST: No, D-RST: Yes": {
        "mig": "GPU-I:05 GPU-CI:00",
        "process": "python",
        "values": {"source": "SM", "rst": False, "d_rst": True},
    },
    "NVRM: Xid (PCI:00000018:01:00): 62, 0c83(1870) 00000000 00000000": {"address": "0018:01:00.0"},
    "NVRM: Xid (PCI:00010000:01:00): 62, 0c83(1870) 00000000 00000000": {"address": "10000:01:00.0"},
    "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": {"pid": 0, "process": ""},
    "NVRM: Xid (PCI:0000:c1:00): 31, pid=12901, Ch 0000003b, intr 00000000. MMU Fault: ENGINE HOST0 HUBCLIENT_HOST_CPU faulted @ "
    "0x1_0c3c0000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE": {
        "pid": 12901,
        "values": {
            "channel": "0000003b",
            "engine": "HOST0",
            "client": "HUBCLIENT_HOST_CPU",
            "fault_address": "0x1_0c3c0000",
            "fault_type": "FAULT_PDE",
            "access": "ACCESS_TYPE_VIRT_WRITE",
        },
    },
    "NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=my prog, v2, Ch 00000001 caused by previous Xid 149": {
        "process": "my prog, v2",
        "cause": 149,
    },
    "NVRM: Xid (PCI:0000:01:00): 38, pid=1670,": {"code": 38, "pid": 1670, "text": ""},
    "NVRM: Xid (PCI:0000:01:00): 38, pid=1670, name=pyth": {"process": "pyth"},
    "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)": {
        "values": {"from": 0, "to": 2},
    },
    "NVRM: Xid (PCI:0003:00:00): 74, pid=1, name=a, NVLink: fatal error detected on link 14"
    "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)": {
        "values": {"link": 14, "registers": ["0x0", "0x0", "0x10000", "0x0", "0x0", "0x0", "0x0"]}
    },
    "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x0215e5c6 0x00000000)": {
        "severity": "Fatal",
        "values": {
            "link": -1, "registers": ["0x0215e5c6", "0x00000000"], "unit": "NETIR_LINK_EVT", "xc": 0, "instance": 0, "subcode": 33,
        },
    },
    "NVRM: Xid (PCI:0000:23:00): 1, GSP task exception: load access page fault (cause:0xd) @ pc:0x1, partition:2#0, task:3": {
        "code": 120,
        "entry": "xid:120",
        "values": {"printed": 1},
    },
    "NVRM: Xid (PCI:0000:38:00): 13, Graphics SM Warp Exception on (GPC 10, TPC 1, SM 1): Out Of Range Address": {
        "values": {"gpc": 10, "tpc": 1, "sm": 1, "reason": "Out Of Range Address"}
    },
    "NVRM: Xid (PCI:0000:9b:00): 119, pid=7, name=nvidia-smi, Timeout after 45s of waiting for RPC response from GPU5 GSP! "
    "Expected function 76 (GSP_RM_CONTROL) sequence 24174 (0x20801322 0x808).": {
        "values": {
            "seconds": 45, "function": 76, "function_name": "GSP_RM_CONTROL", "sequence": 24174,
            "registers": ["0x20801322", "0x808"],
        },
    },
    "NVRM: Xid (PCI:0000:05:00): 99999, unknown error": {"entry": "xid:99999"},
}  # fmt: skip


@pytest.mark.parametrize("line", XIDS)
def test_an_xid_of_any_shape(line: str) -> None:
    one = the(line)._asdict()
    assert {name: one[name] for name in XIDS[line]} == XIDS[line]


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid error: xyz, invalid data",
        "NVRM: Xid (invalid): some error",
        "xid: 13",
        "Recovered transaction xid 143",
        "NVRM: _kgspLogXid119: ********************* GSP Timeout *********************",
        "NVRM: GPU at PCI:0000:91:00: GPU-00000000-0000-0000-0000-000000000001",
        "NVRM: GPU Board Serial Number: 0000000000001",
    ],
)
def test_no_xid(line: str) -> None:
    assert [one for one in found(f"[ 1.000000] {line}") if one.kind in ("xid", "sxid")] == []


def switch(text: str, at_s: float = 38.2, unit: int = 3) -> str:
    return f"[   {at_s:.6f}] nvidia-nvswitch{unit}: SXid (PCI:0000:0{unit}:00.0): 22013, {text}"


REPORT, SEVERITY = (
    "Non-fatal, Link 44 Minion Link DLREQ interrupt",
    "Severity 0 Engine instance 44 Sub-engine instance 00",
)
DATA = "Data {0x0000002b, 0x80005302}"


@pytest.mark.parametrize(
    "order", [(REPORT, SEVERITY, DATA), (DATA, REPORT, SEVERITY), (SEVERITY, DATA, REPORT)]
)
def test_the_lines_of_one_sxid_are_one_event(order: tuple[str, ...]) -> None:
    one = the(*(switch(text, 38.2 + n / 10) for n, text in enumerate(order)))
    assert (one.code, one.severity, one.values["link"], one.address) == (
        22013,
        "Non-fatal",
        44,
        "0000:03:00.0",
    )
    assert one.values["data"] == ["0x0000002b", "0x80005302"]
    assert (one.text, one.line) == (REPORT, 1)


def test_sxids_of_other_links_switches_and_times_are_others() -> None:
    other = REPORT.replace("44", "45")
    assert (
        len(
            found(
                switch(REPORT),
                switch(other),
                switch(REPORT, unit=4),
                switch(REPORT, 40.0),
                switch(REPORT, 40.5),
            )
        )
        == 4
    )


def test_an_sxid_of_which_only_the_second_line_is_left() -> None:
    assert the(switch("Severity 1 Engine instance 60 Sub-engine instance 00")).severity == "Fatal"


FABRIC = "on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 33"


def test_sxids_in_the_fabric_managers_log() -> None:
    one = the(
        f"[Sep 10 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 {FABRIC}"
    )
    assert (one.kind, one.code, one.address, one.severity, one.values["link"]) == (
        "sxid",
        20034,
        "0000:86:00.0",
        "Fatal",
        33,
    )
    one = the(
        f"Sep 10 07:53:55 n nv-fabricmanager[841]: detected NVSwitch non-fatal error 12028 {FABRIC}"
    )
    assert (one.code, one.severity) == (12028, "Non-fatal")


def test_copies_of_one_line_from_several_sources_count_once() -> None:
    copies = [WAYS[way](XID) for way in ("dmesg", "journalctl, iso", "rsyslog", "/dev/kmsg")]
    assert len(found(*copies)) == 1
    assert len(found(*copies[::-1])) == 1


def test_a_line_that_comes_again_the_same_way_counts_again() -> None:
    assert len(found(WAYS["journalctl"](XID), WAYS["journalctl"](XID))) == 2
    assert len(found(WAYS["no prefix"](XID), WAYS["no prefix"](XID))) == 2
    twice = [f"[ 3600.250000] {XID}", f"[ 3601.250000] {XID}"]
    assert len(found(*twice, *(f"Feb 23 16:24:18 n kernel: {line}" for line in twice))) == 2


NOTICE = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0",
    "NVRM: (PCI ID: 10de:26b5) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


@pytest.mark.parametrize(
    "between", [(), ("usb 1-1: x",) * 3, ("NVRM: Xid (PCI:0000:3b:00): 43, Ch 00000018",)]
)
def test_a_notice_in_lines_of_their_own_is_one_message(between: tuple[str, ...]) -> None:
    from gpuscan.kernellog.merging import join_notices

    lines = [NOTICE[0], *between, NOTICE[1], *between, NOTICE[2], "usb 1-2: y"]
    joined = [one.message for one in join_notices(read(*(f"[ 1.000000] {line}" for line in lines)))]
    assert joined == ["\n".join(NOTICE), *between, *between, "usb 1-2: y"]


BANNER = "Linux version 6.8.0-31-generic (b@h) #31"


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way not in ("dmesg --human, delta", "syslogd's call")]
)
def test_a_firmwares_report_is_no_json(way: str) -> None:
    lines = [WAYS[way]("{1}[Hardware Error]: event severity: fatal")]
    assert [one.entry for one in found(*lines)] == ["apei:fatal"]


FABRIC_MANAGER = {
    "its log": "[Sep 17 2024 06:01:46] [ERROR] [tid 1230079] ",
    "its log, a warning": "[Sep 17 2024 06:01:46] [WARNING] [tid 7] ",
    "syslog": "Sep 17 06:01:46 node01 nv-fabricmanager[2222]: ",
    "its log in syslog": "Sep 17 06:01:46 node01 nv-fabricmanager[2222]: "
    "[Sep 17 2024 06:01:46] [ERROR] [tid 1230079] ",
}


@pytest.mark.parametrize("way", FABRIC_MANAGER)
def test_the_fabric_managers_lines_count_behind_its_prefix(way: str) -> None:
    lines = {
        "failed to find the GPU handle 10187860174420860981 in the multicast team request setup "
        "6130285411925746235.": "fm:multicast",
        "NVLink training failed for GPU 3 link 7": "fm:training",
        "the following NVLinks are not trained: GPU 1 link 4": "fm:training",
        "failed to train NVLink between GPU 2 and NVSwitch 1": "fm:training",
        "number of NVSwitches don't match with any supported topology": "fm:topology",
    }
    for text, entry in lines.items():
        written = [f"{FABRIC_MANAGER[way]}{text}".encode()]
        assert [one.entry for one in found(*written)] == [entry]
        rows = select_lines(search_lines(written), until_s=NOW_S).rows
        kept = read_events(parse_numbered_lines(rows, NOW_S))
        assert [one.entry for one in kept] == [entry], "and grep finds it"


def test_boots_and_resets_are_marked() -> None:
    lines = [
        "[    0.000000] " + BANNER,
        "[ 9.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12",
        "[ 10.000000] nvidia-nvswitch0: Probing device 0000:05:00.0",
        "[ 99.000000] nvidia 0000:3b:00.0: resetting",
    ]
    got = found(*lines)
    assert [one.entry for one in got] == [
        "boot:kernel",
        "reset:driver",
        "reset:nvswitch",
        "reset:gpu",
    ]
    assert [dict(one.values) for one in got[:2]] == [
        {"kernel": "6.8.0-31-generic"},
        {"driver": "535.183.01"},
    ]
    assert [one.address for one in got[2:]] == ["0000:05:00.0", "0000:3b:00.0"]


def test_journalctls_mark_and_the_banner_are_one_boot() -> None:
    got = found(
        f"Jul  1 10:00:00 n kernel: {XID}", "-- Boot 0123 --", f"Jul  1 11:00:00 n kernel: {BANNER}"
    )
    assert [one.kind for one in got] == ["xid", "boot"]


def test_a_restarted_clock_is_a_boot() -> None:
    got = found(f"[ 3600.000000] {XID}", f"[ 20.000000] {XID}")
    assert [one.entry for one in got] == ["xid:79", "boot:time", "xid:79"]


def test_a_second_source_of_one_boot_is_no_other_boot() -> None:
    got = found(f"[ 3600.250000] {XID}", f"Feb 23 15:24:38 n kernel: [ 20.000000] {XID}")
    assert [one.entry for one in got] == ["xid:79", "xid:79"]


def test_grep_finds_every_line_of_the_catalogue() -> None:
    messages = [message for _, message, _ in FITS]
    found = [any(is_needed(line.encode()) for line in one.split("\n")) for one in messages]
    assert [message for message, hit in zip(messages, found, strict=True) if not hit] == []


def test_a_line_without_a_code_is_an_event_of_the_table() -> None:
    one = the("[ 1.000000] NVRM: GPU 0000:3E:00.0: RmInitAdapter failed! (0x22:0x56:897)")
    assert (one.kind, one.entry, one.address, one.values["init"]) == (
        "nvrm",
        "nvrm:init-failed",
        "0000:3e:00.0",
        0x22,
    )


ODD = (
    f"[    0.000000] {BANNER}", "-- Boot 0123 --", "   padded", "\tNVRM: padded", " SUBSYSTEM=pci", "", "--", "5,1,7,-;",
    "[ 2.000000] printk: 17 messages dropped", "[Feb23 16:24] human", "[  +0.1] delta", "{", "[ 5.000000] usb 1-1: x",
)  # fmt: skip
LINES = st.one_of(
    st.sampled_from([*(way(XID) for way in WAYS.values()), *(way(XID) for way in USERS.values())]),
    st.sampled_from([switch(text) for text in (REPORT, SEVERITY, DATA)]),
    st.sampled_from([f"[ 1.000000] {line}" for line in NOTICE]),
    st.sampled_from(ODD),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=60),
)
NO_LINE = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b""))
ANY = st.one_of(LINES.map(lambda line: line.encode()), NO_LINE)


def told(one: Event) -> tuple[Any, ...]:
    return (
        one.entry,
        one.address,
        one.text,
        one.line,
        one.at_s,
        one.wall_s,
        one.severity,
        repr(one.values),
    )


@given(st.lists(ANY, max_size=40))
def test_grep_and_selection_lose_no_event(lines: list[bytes]) -> None:
    """A reading of the lines that grep passes on comes to the same events as one of all lines."""
    whole = [told(one) for one in read_events(parse_lines(lines, NOW_S))]
    rows = list(search_lines(lines))
    assert [told(one) for one in read_events(parse_numbered_lines(rows, NOW_S))] == whole
    value = select_lines(rows, current=False, until_s=NOW_S)
    assert [told(one) for one in read_events(parse_numbered_lines(value.rows, NOW_S))] == whole, (
        "and the lines that are kept tell it again"
    )


def test_the_time_of_a_difference_is_kept() -> None:
    """`dmesg --human`: the lines that are kept have the full timestamp that others count from."""
    xid = WAYS["dmesg --human, delta"](XID).encode()
    flood = [b"[Feb23 16:24] usb", *[xid] * 3000, b"[Feb23 17:24] usb", b"[  +0.1] usb", xid]
    value = select_lines(list(search_lines(flood)), current=False, until_s=NOW_S)
    assert [number for number, _ in value.rows if number in (1, 3002, 3003)] == [1, 3002]
    assert (len(value.rows), value.left_out) == (2002, 1001)
    times = [told(one)[5] for one in read_events(parse_numbered_lines(value.rows, NOW_S))]
    whole = [told(one)[5] for one in read_events(parse_lines(flood, NOW_S))]
    assert None not in times
    assert (times[0], times[-1]) == (whole[0], whole[-1])


STAMPED = [way for way in WAYS if way not in ("no prefix", "dmesg --human, delta")]


@given(st.lists(ANY, max_size=12), st.lists(ANY, max_size=12), st.sampled_from(STAMPED))
def test_no_neighbour_hides_a_fault(before: list[bytes], after: list[bytes], way: str) -> None:
    line = WAYS[way](XID.replace("3b", "5e").replace(": 79,", ": 48,"))
    assert (48, "0000:5e:00.0") in codes(*before, line, *after)


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_stamp_is_a_crash(month: str, clock: str) -> None:
    assert stamps.parse_yearless_date(month, clock, clock, NOW_S) is None
    assert stamps.parse_iso(month) is None or isinstance(stamps.parse_iso(month), float)
