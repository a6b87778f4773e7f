"""A line that names an Xid or SXid and is one character off never makes a log look healthy."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from logs import WAYS

from gpuscan.engine import judging
from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.keeping import reading_value, select_lines
from gpuscan.kernellog.lines import parse_lines
from gpuscan.kernellog.needles import is_needed
from gpuscan.recording import Meta, Reading, Recording

UNTIL_S = 1.75e9
XID = "NVRM: Xid (PCI:0000:3b:00): "
MESSAGES = (
    f"{XID}79, pid=812, name=python, GPU has fallen off the bus.",
    "NVRM: Xid (0000:3b:00): 79, GPU has fallen off the bus.",
    f"{XID}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    f"{XID}48, pid=0, An uncorrectable double bit error (DBE) has been detected on GPU in the"
    " framebuffer at partition 2, subpartition 1.",
    f"{XID}64, pid=1896, Row Remapper Error: (0x1d2000) - All reserved rows for bank are remapped",
    f"{XID}74, pid=0, NVLink: fatal error detected on link 5(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 95, pid=812, name=python, Uncontained: LTC TAG (0x2,0x0)."
    " physAddr: 0x1a2b3c. RST: Yes, D-RST: No",
    f"{XID}119, pid=1234, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4"
    " GSP! Expected function 103 (GSP_RM_ALLOC) (0x2080 0x4).",
    f"{XID}120, GSP task exception: load access page fault (cause:0xd) @ pc:0x1a2b3c4",
    f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    f"{XID}62, 224f811e 00000000 00000000 2026bd4e 2026a8f4 20269e2a 202695e4 00000000",
    f"{XID}149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 05 (0x000a4c6 0x00000004 0x0 0x0 0x0 0x0)",
    f"{XID}140, An uncorrectable ECC error detected (possible firmware handling failure) DRAM:0,"
    " LTC:1, MMU:0, PCIE:0",
    "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 44 egress non-posted PRIV error",
    "nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 32 LTSSM Fault Up",
    "nvidia-nvswitch2: SXid (PCI:0000:c1:00.0): 10004, Host PRI timeout",
)
ANY = "0123456789abcdefXzN:;()[],. <>\"'=-_/"
LEVEL = re.compile(r"<?(\d+)[>,]")
SAMPLED, ALL = 500, 60_000


def damaged(chance: random.Random, line: str) -> str:
    """Return a line with one character lost, changed, added, or swapped with the next."""
    at, char = chance.randrange(len(line)), chance.choice(ANY)
    return chance.choice(
        (
            line[:at] + line[at + 1 :],
            line[:at] + char + line[at + 1 :],
            line[:at] + char + line[at:],
            line[:at] + line[at + 1 : at + 2] + line[at] + line[at + 2 :],
        )
    )


def exit_code(lines: list[str], plan: judging.Plan) -> int:
    raw = [line.encode() for line in lines]
    rows = [(number, line) for number, line in enumerate(raw, 1) if is_needed(line)]
    value = reading_value(select_lines(rows, until_s=UNTIL_S), len(raw), raw, raw, until_s=UNTIL_S)
    meta = Meta(made_at=UNTIL_S, fragment="a kernel log")
    recording = Recording(meta, ["log:*"], [Reading("log:x", value, at_s=UNTIL_S)])
    return judging.judge_recording(recording, "x", plan).exit_code


def codes(line: str) -> set[tuple[str, int]]:
    return {(event.kind, event.code) for event in read_events(parse_lines([line], UNTIL_S))}


def is_by_another_writer(line: str) -> bool:
    """Return whether a line's level is that of a user's message, as any program may write it."""
    level = LEVEL.match(line)
    return level is not None and int(level[1]) >= 8


def wrong(seed: int, inputs: int) -> Iterator[tuple[int, str]]:
    """Yield the exit code of each damaged line that looks healthy, and the line."""
    chance, plan = random.Random(seed), judging.prepare(judging.Selection())
    for _ in range(inputs):
        message, way = chance.choice(MESSAGES), WAYS[chance.choice(list(WAYS))]
        around = way("Linux version 6.8.0-31-generic (a@b)"), way("usb 1-1: new device number 2")
        line = way(message)
        other = damaged(chance, line)
        if codes(other) - codes(line) or is_by_another_writer(other):
            continue  # it is a valid line: of another code, or of another writer
        code = exit_code([around[0], other, around[1]], plan)
        if code < 3 and exit_code([around[0], line, around[1]], plan) >= 20:
            yield code, other


def test_a_damaged_line_never_looks_healthy() -> None:
    assert list(wrong(1, SAMPLED)) == []


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(8))
def test_no_damaged_line_looks_healthy(seed: int) -> None:
    assert list(wrong(seed + 2, ALL // 8)) == []


@pytest.mark.parametrize("word", ["0x0 (Node Reboot Required)", "0x0 (OS Reboot)"])
def test_a_recovery_action_that_contradicts_itself_is_not_cleared(word: str) -> None:
    (event,) = read_events(
        parse_lines([f"{XID}154, GPU recovery action changed from 0x1 to {word}"])
    )
    assert "to" not in event.values


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("NVRM: Xid (invalid): some error", 0),
        ("NVRM: Xid error: xyz, invalid data", 0),
        ("NVRM: Xid (", 3),
        ("NVRM: Xid (PCI", 3),
        ("NVRM: Xid (GPU-1234): 79, GPU has fallen off the bus.", 3),
        ("NVRM: Xid 79 on GPU 0", 3),
    ],
)
def test_a_line_without_any_number_names_no_code(line: str, code: int) -> None:
    plan = judging.prepare(judging.Selection())
    boot = "[    0.000000] Linux version 6.8.0-31-generic (a@b)"
    assert exit_code([boot, f"[    9.000000] {line}"], plan) == code


@pytest.mark.parametrize(
    "line",
    [
        "kern  :'rr   : 2025-02-23T16:24:18,123456+00:00 nvidia-nvswitch2: SXid (PCI:0000:c1:00.0):"
        " 10004, Host PRI timeout",
        "Sun 2025-02-23 16:24:18 U:TC node01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=812,"
        " name=python, GPU has fallen off the bus.",
    ],
)
def test_a_character_that_looks_like_a_quote_or_a_tag_hides_no_line(line: str) -> None:
    way = line.partition("nvidia")[0] if "nvidia" in line else line.partition("NVRM")[0]
    plan = judging.prepare(judging.Selection())
    clean = way.replace("'rr ", "err ").replace("U:TC", "UTC")
    around = f"{clean}Linux version 6.8.0-31-generic (a@b)", f"{clean}usb 1-1: new device number 2"
    assert exit_code([around[0], line, around[1]], plan) == 3
