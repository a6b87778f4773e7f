"""Incidents, not lines: the root of a burst, its echoes, what has ended it, and when programs'
faults are the GPU's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Call

from gpuscan.incidents.diagnose import Situation, find_incidents
from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.lines import parse_lines
from gpuscan.model import Incident, Unread

UNLISTED = Situation(Unread("gpus", "not-recorded", "a log alone"))
GPU = "0000:9b:00"


def told(*lines: str) -> tuple[Incident, ...]:
    return find_incidents(read_events(parse_lines(lines)), UNLISTED)


def xid(
    code: int | str, at_s: float, text: str = "something", gpu: str = GPU, who: str = ""
) -> str:
    program = f" pid={who.split()[0]}, name={who.split()[1]}," if who else ""
    return f"[{at_s:12.6f}] NVRM: Xid (PCI:{gpu}): {code},{program} {text}"


def sxid(
    code: int, at_s: float, switch: int, link: int, text: str = "Fatal, Link {} LTSSM Fault Up"
) -> str:
    return (
        f"[{at_s:12.6f}] nvidia-nvswitch{switch}: SXid (PCI:0000:0{switch}:00.0): {code},"
        f" {text.format(link)}"
    )


def shown(found: tuple[Incident, ...]) -> dict[str, list[str]]:
    """Every incident's label with those of its echoes."""
    return {one.label: [echo.label for echo in one.echoes] for one in found}


LOST = xid(79, 100, "GPU has fallen off the bus.")


def test_a_lost_gpu_is_one_incident_whatever_it_leaves_behind() -> None:
    found = told(
        LOST,
        f"[  100.000010] NVRM: GPU {GPU}.0: GPU has fallen off the bus.",
        sxid(20034, 101, 3, 30),
        sxid(20034, 101.2, 4, 31),
        xid(45, 102, "Ch 00000008", who="4711 python"),
        xid(
            119,
            146,
            "Timeout after 45s of waiting for RPC response from GPU4 GSP! Expected function 76",
            who="99 nvidia-smi",
        ),
        xid(154, 147, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
    )
    (one,) = found
    assert (one.label, one.events, one.action) == ("Xid 79 on 0000:9b:00.0", 2, "reboot")
    labels = [echo.label for echo in one.echoes]
    assert sum(label.startswith("SXid 20034") for label in labels) == 2
    assert {label.split(" on ")[0] for label in labels} == {
        "SXid 20034",
        "Xid 45",
        "Xid 119",
        "Xid 154",
    }


def test_what_comes_long_after_or_on_another_gpu_is_no_echo() -> None:
    other = "0000:1b:00"
    found = told(
        LOST,
        xid(119, 5000, "Timeout waiting for RPC from GSP!"),
        xid(119, 101, "Timeout waiting for RPC", gpu=other),
    )
    assert (
        set(shown(found)) == {f"Xid 79 on {GPU}.0", f"Xid 119 on {GPU}.0", f"Xid 119 on {other}.0"}
        or len(found) == 2
    )
    assert f"Xid 119 on {other}.0" in shown(found)


def test_a_cleanup_belongs_to_the_xid_that_it_names() -> None:
    found = told(
        xid(149, 10, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x0 0x0 0x0 0x0)"),
        xid(45, 11, "Ch 8 caused by previous Xid 149"),
    )
    assert len(found) == 1
    assert found[0].code == 149
    (alone,) = told(xid(45, 11, "Ch 00000008 caused by previous Xid 119"))
    assert (alone.code, alone.action, "Xid 119" in alone.because) == (45, "reset-gpu", True)
    (plain,) = told(xid(45, 11, "Ch 00000008"))
    assert plain.action == "restart-app"


def test_the_first_of_a_burst_is_nearest_the_cause() -> None:
    (one,) = told(
        xid(62, 10, "0c83(1870) 00000000"),
        xid(45, 10.8, "Ch 8", who="1 a"),
        xid(45, 10.9, "Ch 9", who="2 b"),
    )
    assert (one.code, [echo.events for echo in one.echoes]) == (62, [2])
    (other,) = told(
        xid(
            13,
            20,
            "Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter",
        ),
        xid(109, 25, "Ch 8, errorString CTX SWITCH TIMEOUT, Info 0x58005"),
    )
    assert (other.code, other.action) == (13, "restart-app")


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        (
            (
                "[  500.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05 "
                " Release Build"
            ),
            "",
        ),
        ("[    0.000000] Linux version 6.8.0-45-generic (buildd@host)", "a boot"),
        ("[  500.000000] nvidia-nvswitch3: Probing device 0000:03:00.0, Vendor Id = 0x10de", ""),
        (
            (
                "[  101.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05 "
                " Release Build"
            ),
            "",
        ),
    ],
    ids=[
        "driver loaded, which ends no more than a reset",
        "boot",
        "switches only",
        "the very load that found it",
    ],
)
def test_a_reset_or_a_boot_ends_what_came_before(line: str, ended: str) -> None:
    (one,) = [one for one in told(LOST, line) if one.code == 79]
    assert one.ended == ended
    (before,) = [one for one in told(line, LOST) if one.code == 79]
    assert before.ended == ""


def test_new_starts_of_the_switches_end_their_sxids() -> None:
    (one,) = told(
        sxid(20034, 10, 3, 30),
        "[  500.000000] nvidia-nvswitch3: Probing device 0000:03:00.0, Vendor Id = 0x10de",
    )
    assert one.ended == "a reset"


MMU = "MMU Fault: ENGINE CE0 HUBCLIENT_HSCE0 faulted @ 0x0_0abe0000. Fault is of type FAULT_PTE"


def where(gpc: int, tpc: int) -> str:
    return f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Out Of Range Address"


def test_four_faulty_programs_are_four_faulty_programs() -> None:
    lines = [xid(13, 100 * n, where(n, 3 * n), who=f"{n} job{n}") for n in range(1, 5)]
    (one,) = told(*lines)
    assert (one.action, one.events, len(one.processes)) == ("restart-app", 4, 4)


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (
            [xid(13, 100, where(2, 4), who="1 a"), xid(13, 900, where(2, 4), who="2 b")],
            "investigate",
        ),
        (
            [xid(13, 100, where(2, 4), who="1 a"), xid(13, 900, where(2, 4), who="2 a")],
            "restart-app",
        ),
        (
            [xid(13, 100, where(2, 4), who="1 a"), xid(13, 900, where(2, 5), who="2 b")],
            "restart-app",
        ),
        (
            [xid(13, 100, where(2, 4), who="1 a"), xid(13, 101, where(2, 4), who="2 b")],
            "restart-app",
        ),
        (
            [
                xid(
                    31,
                    100,
                    "MMU Fault: ENGINE CE0 HUBCLIENT_HSCE0 faulted @ 0x0_0abe0000. Fault is of type"
                    " FAULT_PTE",
                    who=f"{n} {p}",
                )
                for n, p in ((1, "a"), (2, "b"))
            ],
            "restart-app",
        ),
    ],
    ids=[
        "one place, two programs",
        "one program twice",
        "two places",
        "one burst",
        "one address, one time",
    ],
)
def test_one_place_of_the_gpu_and_different_programs(lines: list[str], action: str) -> None:
    (one,) = told(*lines)
    assert one.action == action
    assert bool(one.because) == (action == "investigate")


def test_two_programs_faults_are_not_folded_into_each_other() -> None:
    found = told(
        xid(31, 49, "MMU Fault: ENGINE GRAPHICS", who="1 a"), xid(43, 50, "Ch 00000008", who="2 b")
    )
    assert [one.code for one in found] == [31, 43]
    (one,) = told(
        xid(31, 49, "MMU Fault: ENGINE GRAPHICS", who="1 a"), xid(43, 50, "Ch 00000008", who="1 a")
    )
    assert [echo.code for echo in one.echoes] == [43]


def test_repeats_are_counted_with_first_and_last_time() -> None:
    (one,) = told(
        *(xid(119, 10 + 6 * n, f"Timeout after 6s, function {n}") for n in range(5)),
        xid(119, 900, "Timeout"),
    )
    assert (one.events, one.times, one.first_s, one.last_s) == (6, 2, 10, 900)
    assert one.when == "6 times from 10 to 900 s after boot"


@pytest.mark.parametrize(
    "transport",
    ["{}", "Apr  4 05:03:42 node01 kernel: {}", "<3>[   10.000000] {}", "4,1227,10000000,-;{}"],
)
def test_the_transport_changes_nothing(transport: str) -> None:
    (one,) = told(transport.format(f"NVRM: Xid (PCI:{GPU}): 79, GPU has fallen off the bus."))
    assert (one.code, one.address, one.action) == (79, f"{GPU}.0", "reboot")


CODES = (13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 94, 95, 109, 119, 120, 140, 149, 154, 999)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(CODES), st.integers(0, 500), st.sampled_from((GPU, "0000:1b:00"))
        ),
        max_size=12,
    )
)
def test_every_event_is_told_once_as_an_incident_or_an_echo(
    lines: list[tuple[int, int, str]],
) -> None:
    rows = [
        xid(code, at_s, f"text {n}", gpu)
        for n, (code, at_s, gpu) in enumerate(sorted(lines, key=lambda row: row[1]))
    ]
    found = told(*rows)
    assert sum(one.events + sum(echo.events for echo in one.echoes) for one in found) == len(rows)
    assert {echo.code for one in found for echo in one.echoes} | {one.code for one in found} == {
        code for code, _, _ in lines
    }


@given(st.lists(st.tuples(st.sampled_from(CODES), st.integers(0, 500)), max_size=8))
def test_a_lost_gpu_is_never_lost_among_others(lines: list[tuple[int, int]]) -> None:
    rows = sorted([*lines, (79, 250)], key=lambda row: row[1])
    found = told(*(xid(code, at_s, f"text {n}") for n, (code, at_s) in enumerate(rows)))
    worst = [one for one in found if one.code == 79]
    assert worst
    assert worst[0].action in ("reboot", "inspect")


def test_the_report_tells_incidents_with_their_echoes(call: Call, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text("\n".join((LOST, sxid(20034, 101, 3, 30))) + "\n")
    done = call("log", str(tmp_path / "kern.log"), "--format", "json")
    assert done.code == 30
    report: dict[str, Any] = json.loads(done.out)
    (one,) = report["incidents"]
    assert (one["entry"], one["echoes"][0]["entry"], one["echoes"][0]["address"]) == (
        "xid:79",
        "sxid:20034",
        "0000:03:00.0",
    )
