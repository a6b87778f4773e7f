"""Decode NVLink errors: the registers of Xid 74 (up to Hopper) and of Xid 144 to 150 (NVLink 5)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan.catalogue import document
from gpuscan.model.outcome import Action

UNITS = {144: "SAW", 145: "RLW", 146: "TLW", 147: "TREX", 148: "NVLPW", 149: "NETIR", 150: "MSE"}
LINK_AT, LINK_BITS, NO_LINK = 13, 0x1F, 31  # of the first register
ACTIONS = {"RESET_GPU": Action.RESET_GPU, "XID_154_EVAL": Action.RESTART_APP}
SIGNAL = ("INVESTIGATE_LINK_SI", "INVESTIGATE_LINK_SI_AND_CABLES", "INVESTIGATE_SW_USER_LINK_SI")
INVESTIGATE = {
    "IGNORE": "nothing to follow up",
    "CONTACT_SUPPORT": "open a ticket if it happens again",
    "CHECK_NVLINK_FAILURE_FLOW": "an echo if another link of the partition failed within 30 "
    "seconds; otherwise report it",
    "SYMPATHETIC_REPORT_SOLO": "an echo of another error; report it only if it occurs alone",
    "REPORT_ISSUE": "no reason is given; report it if it happens more than once a day",
    "INVESTIGATE_LINK_SI": "poor signal on the link: check connectors and boards if it happens "
    "again",
    "INVESTIGATE_LINK_SI_AND_CABLES": "poor signal on the link: check cables and connectors if it "
    "happens again",
    "INVESTIGATE_SW_USER": "software or an administrator took the link down",
    "INVESTIGATE_SW_USER_LINK_SI": "software took the link down, possibly because of a poor signal",
    "INVESTIGATE_PEER_DEVICE": "the far end took the link down: check the other GPU or the switch",
    "INVESTIGATE_HOST": "look for the cause in the host",
}
# reasons of a link-down that say more than what to investigate
LINK_DOWN = {
    32: "the far end lost link training and gives no reason",
    33: "the far end went to sleep",
    34: "the far end was powered off",
    35: "the far end was powered off and its port is locked",
    36: "the far end overheated: check the cooling of the switch",
    37: "the far end was forced down or reset",
    42: "poor signal or bad cable",
    43: "poor signal or bad cable",
}


class Nvlink5Error(NamedTuple):
    """What one line of Xid 144 to 150 says; *link* is -1 if it does not name a single link."""

    unit: str
    sub_unit: str
    link: int
    severity: str
    immediate: str
    investigate: str
    reason: str
    action: Action


def decode_nvlink5(
    xid: int, words: Sequence[int], branch: int = 0, unit: str = ""
) -> Nvlink5Error | None:
    """Return the meaning of the first two registers of Xid 144 to 150, None if it is not published.

    *branch* is the driver's branch, since the layout changed in 575; if it is 0 (unknown), any
    layout that fits is taken. *unit* is the unit that the line prints, "" if unknown; rows of
    other units do not fit.
    """
    if len(words) < 2:
        return None
    for row in document("nvlink5")["entries"]:
        if row["xid"] == xid and words[1] in row["status"] and _fits(row, words[0], branch, unit):
            return _decode_row(row, words[0], unit)
    return None


def describe_rows(xid: int) -> list[tuple[str, str]]:
    """Return NVIDIA's table for one Xid as (what the line prints, the action and its reason)."""
    described = []
    for row in document("nvlink5")["entries"]:
        if row["xid"] == xid:
            error = _decode_row(row, NO_LINK << LINK_AT, "")
            printed = f"{'/'.join(dict.fromkeys(row['names']))} {_describe_registers(row)}"
            described.append((printed, f"{error.action.value}: {error.reason}"))
    return described


def _describe_registers(row: dict[str, Any]) -> str:
    """Return the second registers that a row is for, or the reason of a link-down."""
    if row["reason"] > 0:
        return f"reason {row['reason']}"
    bit = " with the extra bit" if int(row["before"][1], 16) & 0x400 else ""
    return ", ".join(f"0x{status:x}" for status in row["status"]) + bit


def _fits(row: dict[str, Any], word: int, branch: int, unit: str) -> bool:
    changed_in = document("nvlink5")["changed_in"]
    for layout, name in (("before", 0), ("from", 1)):
        if branch and (branch < changed_in) != (layout == "before"):
            continue
        mask, value = (int(text, 16) for text in row[layout])
        if word & mask == value and (not unit or unit.upper() == row["names"][name]):
            return True
    return False


def _decode_row(row: dict[str, Any], word: int, unit: str) -> Nvlink5Error:
    link = word >> LINK_AT & LINK_BITS
    ignored = Action.NONE if row["investigate"] == "IGNORE" else Action.MONITOR
    return Nvlink5Error(
        unit=UNITS[row["xid"]],
        sub_unit=unit.upper() or row["names"][-1],
        link=-1 if link == NO_LINK else link,
        severity=row["severity"],
        immediate=row["immediate"],
        investigate=row["investigate"],
        reason=LINK_DOWN.get(row["reason"], INVESTIGATE[row["investigate"]]),
        action=ACTIONS.get(row["immediate"], ignored),
    )


# Xid 74: the bits of its seven registers (NVIDIA Xid catalogue, Hopper sheet); registers count from
# 1, bits from 0.
BITS: dict[str, dict[int, tuple[int, ...]]] = {
    "ecc": {1: (4, 5), 3: (0, 1, 2, 6), 5: (18, 19, 21, 22, 24, 25, 27, 28)},
    "mechanical": {1: (8, 9, 12, 16, 17, 24, 28)},
    "signal": {1: (21, 22), 3: (16, 19)},
    "unexpected": {1: (27, 29), 3: (13, 17, 18)},
    "fabric": {4: (18,)},
    "sympathetic": {1: (1, 20), 4: (16, 17)},
    "corrected": {5: (20, 23, 26, 29)},
    "informational": {1: (0, 23, 30)},
}
MEANINGS: dict[str, tuple[Action, str]] = {
    "ecc": (
        Action.RESET_GPU,
        "an ECC or parity error in the link's hardware: replace it after the third on one link",
    ),
    "mechanical": (
        Action.RESET_GPU,
        "possibly a bad connection: reseat and check the mechanics if it happens again",
    ),
    "signal": (
        Action.RESET_GPU,
        "marginal signal on the link: run the field diagnostic if it happens again",
    ),
    "unexpected": (Action.RESET_GPU, "an unexpected error: report it if it happens again"),
    "fabric": (
        Action.RESET_GPU,
        "an echo of the far end: reset all GPUs and switches of the fabric",
    ),
    "sympathetic": (
        Action.RESET_GPU,
        "an echo: the far end of the link failed, so look for the cause there",
    ),
    "corrected": (Action.MONITOR, "corrected link errors passed a limit; jobs may continue"),
    "informational": (Action.NONE, "for information only"),
    "": (Action.RESET_GPU, "NVIDIA has published no meaning for the bits that are set"),
}


def classify_xid74(registers: Sequence[int]) -> str:
    """Return the most serious kind of error (a key of BITS) in the registers of Xid 74.

    "" if no published bit is set.

    >>> classify_xid74([0x10, 0, 0, 0, 0, 0, 0]), classify_xid74([0] * 7)
    ('ecc', '')
    """
    for kind, words in BITS.items():
        for word, bits in words.items():
            if word <= len(registers) and any(registers[word - 1] >> bit & 1 for bit in bits):
                return kind
    return ""
