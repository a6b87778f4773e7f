"""NVLink errors in words: the hex words of Xid 74 (up to Hopper) and of Xid 144 to 150 (NVLink 5)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gpuscan.catalogue import document
from gpuscan.model.outcome import Action

UNITS = {144: "SAW", 145: "RLW", 146: "TLW", 147: "TREX", 148: "NVLPW", 149: "NETIR", 150: "MSE"}
LINK_AT, LINK_BITS, NO_LINK = 13, 0x1F, 31  # of the first word
ACTIONS = {"RESET_GPU": Action.RESET_GPU, "XID_154_EVAL": Action.RESTART_APP}
SIGNAL = ("INVESTIGATE_LINK_SI", "INVESTIGATE_LINK_SI_AND_CABLES", "INVESTIGATE_SW_USER_LINK_SI")
INVESTIGATE = {
    "IGNORE": "nothing to follow up",
    "CONTACT_SUPPORT": "a ticket, if it comes again",
    "CHECK_NVLINK_FAILURE_FLOW": "an echo, if another link of the partition failed within 30 seconds; else report it",
    "SYMPATHETIC_REPORT_SOLO": "an echo of another error; report it only where it is alone",
    "REPORT_ISSUE": "no reason is given; report it if it comes more than once a day",
    "INVESTIGATE_LINK_SI": "the link's signal is bad: look at connectors and boards if it comes again",
    "INVESTIGATE_LINK_SI_AND_CABLES": "the link's signal is bad: look at cables and connectors if it comes again",
    "INVESTIGATE_SW_USER": "software or an administrator took the link down",
    "INVESTIGATE_SW_USER_LINK_SI": "software took the link down, perhaps for a bad signal",
    "INVESTIGATE_PEER_DEVICE": "the far end did it: look at the other GPU or the switch",
    "INVESTIGATE_HOST": "look for the cause in the host",
}
# the reason of a link that went down, where it says more than what is to be investigated
LINK_DOWN = {
    32: "the far end lost the training of the link, for a reason that it does not give",
    33: "the far end went to sleep",
    34: "the far end was switched off",
    35: "the far end was switched off, and its port is locked",
    36: "the far end got too hot: look at the cooling of the switch",
    37: "the far end was forced down or reset",
    42: "the signal or the cable is bad",
    43: "the signal or the cable is bad",
}


class Row(NamedTuple):
    """What one line of Xid 144 to 150 says; *link* is -1 where it is of no single link, *reason*
    in our words.
    """

    unit: str
    sub_unit: str
    link: int
    severity: str
    immediate: str
    investigate: str
    reason: str
    action: Action


def decode5(xid: int, words: Sequence[int], branch: int = 0, unit: str = "") -> Row | None:
    """Return what the first two words of Xid 144 to 150 mean, or None where no row of NVIDIA's
    table has them.

    *branch* is the driver's first number (its layout changed in 575), 0 if it is not known: then
    the layout is the one that fits. *unit* is the unit that the line prints, "" if it is not known;
    a row of another unit does not fit.
    """
    if len(words) < 2:
        return None
    for row in document("nvlink5")["entries"]:
        if row["xid"] == xid and words[1] in row["status"] and _fits(row, words[0], branch, unit):
            return _row(row, words[0], unit)
    return None


def rows(xid: int) -> list[tuple[str, str]]:
    """Return what the table says of one Xid, in words: what the line prints, and what that asks
    for and why.
    """
    known = [
        (row, _row(row, NO_LINK << LINK_AT, ""))
        for row in document("nvlink5")["entries"]
        if row["xid"] == xid
    ]
    return [
        (
            f"{'/'.join(dict.fromkeys(row['names']))} {_what(row)}",
            f"{said.action.value}: {said.reason}",
        )
        for row, said in known
    ]


def _what(row: dict[str, Any]) -> str:
    """Return which second words a row is for or, where only the first tells rows apart, the reason
    of a link-down.
    """
    if row["reason"] > 0:
        return f"reason {row['reason']}"
    bit = " with the extra bit" if int(row["before"][1], 16) & 0x400 else ""
    return ", ".join(f"0x{status:x}" for status in row["status"]) + bit


def _fits(row: dict[str, Any], word: int, branch: int, unit: str) -> bool:
    changed_in = document("nvlink5")["changed_in"]
    layouts = [("before", 0)] * (not branch or branch < changed_in) + [("from", 1)] * (
        not branch or branch >= changed_in
    )
    for layout, name in layouts:
        mask, value = (int(text, 16) for text in row[layout])
        if word & mask == value and (not unit or unit.upper() == row["names"][name]):
            return True
    return False


def _row(row: dict[str, Any], word: int, unit: str) -> Row:
    link = word >> LINK_AT & LINK_BITS
    ignored = Action.NONE if row["investigate"] == "IGNORE" else Action.MONITOR
    return Row(
        unit=UNITS[row["xid"]],
        sub_unit=unit.upper() or row["names"][-1],
        link=-1 if link == NO_LINK else link,
        severity=row["severity"],
        immediate=row["immediate"],
        investigate=row["investigate"],
        reason=LINK_DOWN.get(row["reason"], INVESTIGATE[row["investigate"]]),
        action=ACTIONS.get(row["immediate"], ignored),
    )


# Xid 74: what the bits of its seven words mean (NVIDIA Xid catalogue, sheet of Hopper); words and
# bits count from 1 and 0.
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
        "an ECC or parity error in the link's hardware: more than twice on a link it is to be replaced",
    ),
    "mechanical": (
        Action.RESET_GPU,
        "perhaps a bad connection: reseat and look at the mechanics if it comes again",
    ),
    "signal": (
        Action.RESET_GPU,
        "the link's signal is marginal: run the field diagnostic if it comes again",
    ),
    "unexpected": (Action.RESET_GPU, "an error that should not come: report it if it comes again"),
    "fabric": (
        Action.RESET_GPU,
        "an echo of the far end, after which all GPUs and switches of the fabric have to be reset",
    ),
    "sympathetic": (
        Action.RESET_GPU,
        "an echo: the far end of the link failed, so look for the root there",
    ),
    "corrected": (Action.MONITOR, "corrected errors of the link passed a limit; work may go on"),
    "informational": (Action.NONE, "for information only"),
    "": (Action.RESET_GPU, "no bit is set whose meaning NVIDIA has published"),
}


def kind74(registers: Sequence[int]) -> str:
    """Return the gravest kind of error (a key of BITS) that the seven words of Xid 74 tell of; ""
    if none is known.
    """
    found = set(_kinds(registers))
    return next((kind for kind in BITS if kind in found), "")


def _kinds(registers: Sequence[int]) -> Iterator[str]:
    for kind, words in BITS.items():
        for word, bits in words.items():
            if word <= len(registers) and any(registers[word - 1] >> bit & 1 for bit in bits):
                yield kind


def decode74(registers: Sequence[int]) -> tuple[Action, str]:
    """Return what the seven words of Xid 74 ask for on their first occurrence, and why."""
    return MEANINGS[kind74(registers)]
