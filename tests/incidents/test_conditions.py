"""Conditions: each predicate where it holds and where it does not, and what they make of the codes
that need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpuscan import catalogue
from gpuscan.incidents.conditions import PREDICATES, Choice, Context, choose_action, holds
from gpuscan.kernellog.event import Event
from gpuscan.model.outcome import RECOVERY_ACTIONS, Action

GPU, OTHER = "0000:1b:00.0", "0000:43:00.0"
BOOT = Event("boot", 0, "")
RESET = Event("reset", 0, "", address=GPU)
ALL_RESET = Event("reset", 0, "")
DAY_S = 86400.0


def xid(
    code: int, text: str = "", at_s: float | None = 100.0, address: str = GPU, **more: Any
) -> Event:
    return Event("xid", code, f"xid:{code}", address=address, at_s=at_s, text=text, **more)


def line(entry: str, at_s: float | None = 100.0, address: str = GPU, **more: Any) -> Event:
    return Event(entry.partition(":")[0], 0, entry, address=address, at_s=at_s, **more)


def asked(event: Event, *around: Event, **context: Any) -> str:
    """What an event asks for; *around* may hold it, else it is the only event."""
    events = around or (event,)
    return choose_action(
        catalogue.entry(event.entry), event, Context(events, **context)
    ).action.value


PLAIN: dict[str, list[tuple[Any, Event, dict[str, Any], bool]]] = {
    "text_contains": [
        ("is full", xid(64, "table is full"), {}, True),
        (["a b", "is full"], xid(64, "table is full"), {}, True),
        (["a b"], xid(64, "a  b"), {}, False),
    ],
    "text_matches": [
        ("^GSP ", xid(1, "GSP task"), {}, True),
        ("^GSP ", xid(1, "no GSP task"), {}, False),
    ],
    "rst": [
        (True, xid(94, values={"rst": True}), {}, True),
        (False, xid(94, values={"rst": True}), {}, False),
        (False, xid(94), {}, False),
    ],
    "d_rst": [(True, xid(94, values={"d_rst": True}), {}, True), (True, xid(94), {}, False)],
    "to": [
        ([1, 2], xid(154, values={"to": 2}), {}, True),
        ([1], xid(154, values={"to": 2}), {}, False),
        ([0], xid(154), {}, False),
    ],
    "severity": [
        (["Non-fatal"], line("sxid:1", severity="Non-fatal"), {}, True),
        (["Non-fatal"], line("sxid:1", severity="Nonfatal"), {}, True),
        (["Fatal"], line("sxid:1", severity="Non-fatal"), {}, False),
        (["Fatal"], line("sxid:1"), {}, False),
    ],
    "branch_at_least": [
        (550, xid(144), {"branch": 550}, True),
        (550, xid(144), {"branch": 549}, False),
        (550, xid(144), {"branch": 0}, False),
    ],
    "branch_below": [
        (560, xid(144), {"branch": 559}, True),
        (560, xid(144), {"branch": 560}, False),
        (560, xid(144), {"branch": 0}, False),
    ],
    "architecture": [
        (["volta", "pascal"], xid(61), {"architecture": "volta"}, True),
        (["volta"], xid(61), {"architecture": "hopper"}, False),
        (["volta"], xid(61), {}, False),
    ],
    "state": [
        ({"remap_failed": True}, xid(64), {"state": {"remap_failed": True}}, True),
        ({"remap_failed": True}, xid(64), {"state": {"remap_failed": False}}, False),
        ({"remap_failed": True}, xid(64), {"state": {"remap_failed": None}}, False),
        ({"remap_pending": False}, xid(63), {"state": {}}, False),
        ({"remap_pending": False}, xid(63), {"state": {"remap_pending": None}}, False),
        ({"remap_pending": False}, xid(63), {"state": {"remap_pending": False}}, True),
        ({"recovery_action": [1, 2]}, xid(63), {"state": {"recovery_action": 2}}, True),
        ({"recovery_action": [1, 2]}, xid(63), {"state": {"recovery_action": 0}}, False),
        ({"recovery_action": [0]}, xid(63), {"state": {}}, False),
        ({"lost": True, "needs_reset": True}, xid(63), {"state": {"lost": True}}, False),
    ],
    "value": [
        (
            {"init": [0x24], "rm": [0x1C]},
            line("nvrm:x", values={"init": 0x24, "rm": 0x1C}),
            {},
            True,
        ),
        ({"init": [0x24], "rm": [0x1C]}, line("nvrm:x", values={"init": 0x24}), {}, False),
    ],
}


def test_predicates_of_the_event_and_the_gpu() -> None:
    wrong = [
        (name, wanted, event.text, context)
        for name, cases in PLAIN.items()
        for wanted, event, context, expected in cases
        if holds({name: wanted}, event, Context((event,), **context)) is not expected
    ]
    assert wrong == []


ME = xid(119)
NEAR = {"entries": ["xid:79", "aer:fatal"], "within_s": 60, "when": "before"}
COMPANY: dict[str, tuple[Mapping[str, Any], tuple[Event, ...], bool]] = {
    "before": (NEAR, (xid(79, at_s=40.0), ME), True),
    "too long before": (NEAR, (xid(79, at_s=39.9), ME), False),
    "after": (NEAR, (ME, xid(79)), False),
    "wanted after": ({**NEAR, "when": "after"}, (ME, xid(79, at_s=160.0)), True),
    "wanted after, was before": ({**NEAR, "when": "after"}, (xid(79), ME), False),
    "any side": ({**NEAR, "when": "any"}, (ME, xid(79)), True),
    "another code": (NEAR, (xid(74), ME), False),
    "another kind": (NEAR, (line("aer:fatal", address="0000:00:01.0"), ME), True),
    "another GPU": (NEAR, (xid(79, address=OTHER), ME), True),
    "another GPU, same wanted": ({**NEAR, "same_part": True}, (xid(79, address=OTHER), ME), False),
    "same GPU": ({**NEAR, "same_part": True}, (xid(79), ME), True),
    "before a boot": (NEAR, (xid(79), BOOT, ME), False),
    "no stamps": (NEAR, (xid(79, at_s=None), ME), True),
    "other clock": (NEAR, (xid(79, at_s=None, wall_s=5.0), ME), True),
    "value": ({**NEAR, "entries": ["xid:154"], "to": [2]}, (xid(154, values={"to": 2}), ME), True),
    "another value": (
        {**NEAR, "entries": ["xid:154"], "to": [2]},
        (xid(154, values={"to": 1}), ME),
        False,
    ),
    "alone": (NEAR, (ME,), False),
    "not in the log": (NEAR, (xid(79),), True),
}


def test_companions() -> None:
    wrong = [
        name
        for name, (wanted, events, expected) in COMPANY.items()
        if holds({"companion": wanted}, ME, Context(events)) is not expected
    ]
    assert wrong == []


def test_an_event_is_its_twins_companion_not_its_own() -> None:
    twin = xid(119)
    wanted = {"companion": {"entries": ["xid:119"], "within_s": 1, "when": "any"}}
    assert not holds(wanted, ME, Context((ME,)))
    assert twin == ME
    assert holds(wanted, ME, Context((ME, twin)))


def at(*times: float | None, code: int = 92, **more: Any) -> list[Event]:
    return [
        xid(code, at_s=None if time is None else time % 1000, wall_s=time, **more) for time in times
    ]


RECURRED: dict[str, tuple[dict[str, Any], list[Event], bool]] = {
    "three times": ({"times": 3, "within_s": 100}, at(10.0, 50.0, 110.0), True),
    "too slowly": ({"times": 3, "within_s": 100}, at(10.0, 50.0, 110.1), False),
    "twice": ({"times": 3, "within_s": 100}, at(10.0, 50.0), False),
    "a later three": ({"times": 3, "within_s": 100}, at(10.0, 500.0, 550.0, 600.0), True),
    "one burst": ({"times": 3, "within_s": 100}, at(10.0, 10.5, 11.4, 12.2), False),
    "bursts": ({"times": 2, "within_s": 100}, at(10.0, 10.5, 50.0, 50.1), True),
    "no stamps": ({"times": 2, "within_s": 100}, at(None, None, None), False),
    "other GPU": ({"times": 2, "within_s": 100}, [*at(10.0), *at(50.0, address=OTHER)], False),
    "other code": ({"times": 2, "within_s": 100}, [*at(10.0), *at(50.0, code=93)], False),
    "over a boot": ({"times": 2, "within_s": 100}, [*at(10.0), BOOT, *at(50.0)], True),
    "a boot between": (
        {"times": 2, "within_s": 100, "across": "boot"},
        [*at(10.0), BOOT, *at(50.0)],
        True,
    ),
    "no boot between": ({"times": 2, "within_s": 100, "across": "boot"}, at(10.0, 50.0), False),
    "only a reset between": (
        {"times": 2, "within_s": 100, "across": "boot"},
        [*at(10.0), RESET, *at(50.0)],
        False,
    ),
    "a reset between": (
        {"times": 2, "within_s": 100, "across": "reset"},
        [*at(10.0), RESET, *at(50.0)],
        True,
    ),
    "a reset of another": (
        {"times": 2, "within_s": 100, "across": "reset"},
        [*at(10.0), RESET._replace(address=OTHER), *at(50.0)],
        False,
    ),
    "a reset of all": (
        {"times": 2, "within_s": 100, "across": "reset"},
        [*at(10.0), ALL_RESET, *at(50.0)],
        True,
    ),
    "a boot as well": (
        {"times": 2, "within_s": 100, "across": "reset"},
        [*at(10.0), BOOT, *at(50.0)],
        True,
    ),
    "too long ago": (
        {"times": 2, "within_s": 100, "across": "boot"},
        [*at(10.0), BOOT, *at(150.0)],
        False,
    ),
}


def test_recurrence() -> None:
    wrong = []
    for name, (wanted, events, expected) in RECURRED.items():
        first, last, context = events[0], events[-1], Context(events)
        found = [holds({"recurred": wanted}, event, context) for event in (last, first)]
        if found != [expected, expected and first.address == last.address]:
            wrong.append((name, found))
    assert wrong == []


def test_recurrence_since_boot_stays_within_the_boot() -> None:
    wanted = {"recurred": {"times": 2, "within_s": 100}}
    before, first, second = xid(92, at_s=20.0), xid(92, at_s=10.0), xid(92, at_s=60.0)
    assert holds(wanted, second, Context((first, second)))
    assert not holds(wanted, first, Context((before, BOOT, first)))


@pytest.mark.parametrize(
    ("after", "reset", "boot"),
    [
        ((BOOT,), True, True),
        ((RESET,), True, False),
        ((ALL_RESET,), True, False),
        ((), False, False),
        ((xid(45),), False, False),
    ],
)
def test_what_follows(after: tuple[Event, ...], reset: bool, boot: bool) -> None:
    events = (BOOT, RESET, ME, *after)
    assert holds({"followed_by": "reset"}, ME, Context(events)) is reset
    assert holds({"followed_by": "boot"}, ME, Context(events)) is boot
    elsewhere = (ME, RESET._replace(address=OTHER))
    assert not holds({"followed_by": "reset"}, ME, Context(elsewhere))


def test_all_predicates_of_one_condition_must_hold() -> None:
    both = {"rst": False, "d_rst": True}
    assert holds(both, xid(95, values={"rst": False, "d_rst": True}), Context())
    assert not holds(both, xid(95, values={"rst": True, "d_rst": True}), Context())


def test_a_predicate_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        holds({"eval": "1"}, ME, Context())
    assert len(PREDICATES) == 14


FAILED, SRAM = {"state": {"remap_failed": True}}, {"state": {"sram_threshold": True}}
REMAPPER = "Row Remapper Error: (0x0000000012345000) - "
CODES: dict[str, tuple[Event, tuple[Event, ...], dict[str, Any], str]] = {
    "1 is legacy": (xid(1, "something"), (), {}, "investigate"),
    "1 of the GSP": (xid(1, "GSP task exception: x"), (), {}, "reset-gpu"),
    "13": (xid(13), (), {}, "restart-app"),
    "31": (xid(31), (), {}, "restart-app"),
    "44": (xid(44), (), {}, "monitor"),
    "45": (xid(45, "Ch 00000008"), (), {}, "restart-app"),
    "45 with its cause": (xid(45, "Ch 00000008 caused by previous Xid 149"), (), {}, "none"),
    "48": (xid(48), (), {}, "reset-gpu"),
    "48 without a spare": (xid(48), (), FAILED, "replace"),
    "48 in bad SRAM": (xid(48), (), SRAM, "replace"),
    "51": (xid(51), (), {}, "investigate"),
    "51 of 610": (
        xid(51, "BAD_TSG encountered on runlist: 1 with error code: 2"),
        (),
        {},
        "reset-gpu",
    ),
    "61": (xid(61), (), {}, "investigate"),
    "61 on Volta": (xid(61), (), {"architecture": "volta"}, "reset-gpu"),
    "63": (xid(63), (), {}, "reset-gpu"),
    "63 done": (xid(63), (), {"state": {"remap_pending": False, "remap_failed": False}}, "none"),
    "63 pending": (
        xid(63),
        (),
        {"state": {"remap_pending": True, "remap_failed": False}},
        "reset-gpu",
    ),
    "63 without a spare": (
        xid(63),
        (),
        {"state": {"remap_pending": False, "remap_failed": True}},
        "replace",
    ),
    "64": (xid(64, f"{REMAPPER}Internal driver error"), (), {}, "reset-gpu"),
    "64, bank full": (
        xid(64, f"{REMAPPER}All reserved rows for bank are remapped"),
        (),
        {},
        "replace",
    ),
    "64, table full": (xid(64, f"{REMAPPER}Row Remapping table is full"), (), {}, "replace"),
    "64, reserved row": (
        xid(64, f"{REMAPPER}Attempting to remap a reserved row"),
        (),
        {},
        "replace",
    ),
    "64, pages": (
        xid(64, "Dynamic Page Retirement: retired page table is full"),
        (),
        {},
        "replace",
    ),
    "64, flag": (xid(64), (), FAILED, "replace"),
    "79": (xid(79), (), {}, "reboot"),
    "92": (xid(92), (), {}, "monitor"),
    "94": (xid(94), (), {}, "restart-app"),
    "94, No": (xid(94, values={"rst": False, "d_rst": False}), (), {}, "restart-app"),
    "94, RST": (xid(94, values={"rst": True, "d_rst": False}), (), {}, "reset-gpu"),
    "94, D-RST": (xid(94, values={"rst": False, "d_rst": True}), (), {}, "reset-gpu"),
    "94, flag": (xid(94), (), FAILED, "replace"),
    "94, SRAM": (xid(94), (), SRAM, "replace"),
    "95": (xid(95), (), {}, "reset-gpu"),
    "95, SRAM": (xid(95), (), SRAM, "replace"),
    "109": (xid(109), (), {}, "reset-gpu"),
    "110": (xid(110), (), {}, "power-cycle"),
    "119": (xid(119), (), {}, "reset-gpu"),
    "119 of a lost GPU": (xid(119), (), {"state": {"lost": True}}, "reboot"),
    "120": (xid(120), (), {}, "reset-gpu"),
    "136": (xid(136), (), {}, "reset-gpu"),
    "139": (xid(139), (), {"branch": 570}, "restart-app"),
    "139 of old": (xid(139), (), {"branch": 535}, "restart-app"),
    "140": (xid(140), (), {}, "reset-gpu"),
    "140, flag": (xid(140), (), FAILED, "replace"),
    "143": (xid(143, "Error status 0x65 while polling for FSP boot complete"), (), {}, "reset-gpu"),
    "143, fuses": (xid(143, "FSP fuse error check has failed. Status = 0x1."), (), {}, "replace"),
    "144": (xid(144), (), {}, "reset-gpu"),
    "144 of keys": (xid(144, "key rotation"), (), {"branch": 550}, "reboot"),
    "154 without number": (xid(154), (), {}, "investigate"),
    "154 of tomorrow": (xid(154, values={"to": 99}), (), {}, "investigate"),
    "163": (xid(163, "disengaged: too hot"), (), {}, "monitor"),
    "163 by timeout": (xid(163, "disengaged: timeout"), (), {}, "reset-gpu"),
    "171": (xid(171), (), {}, "reset-gpu"),
    "172": (xid(172), (), SRAM, "replace"),
    "unknown": (xid(999), (), {}, "investigate"),
    "SXid 20034": (line("sxid:20034", severity="Fatal"), (), {}, "reset-gpu"),
    "SXid 10001": (line("sxid:10001", severity="Non-fatal"), (), {}, "none"),
    "SXid 10001, Fatal": (line("sxid:10001", severity="Fatal"), (), {}, "reset-gpu"),
    "SXid 11002": (line("sxid:11002"), (), {}, "investigate"),
    "SXid 11002, Fatal": (line("sxid:11002", severity="Fatal"), (), {}, "reset-gpu"),
    "SXid 11002, Non-fatal": (line("sxid:11002", severity="Non-fatal"), (), {}, "none"),
    "SXid 12020": (line("sxid:12020", severity="Fatal"), (), {}, "reboot"),
    "SXid 12028": (line("sxid:12028", severity="Non-fatal"), (), {}, "reset-gpu"),
    "SXid 19055": (line("sxid:19055", severity="Fatal"), (), {}, "monitor"),
    "SXid 22013": (line("sxid:22013", severity="Non-fatal"), (), {}, "none"),
    "SXid unknown": (line("sxid:99999"), (), {}, "investigate"),
    "SXid unknown, Fatal": (line("sxid:99999", severity="Fatal"), (), {}, "reset-gpu"),
    "SXid unknown, Non-fatal": (line("sxid:99999", severity="Non-fatal"), (), {}, "monitor"),
}


def test_codes_alone() -> None:
    wrong = {
        name: action
        for name, (event, events, context, expected) in CODES.items()
        if (action := asked(event, *events, **context)) != expected
    }
    assert wrong == {}


BESIDE: dict[str, tuple[tuple[Event, ...], int, str]] = {
    "16 beside a dead GSP": ((xid(16), xid(119)), 0, "reset-gpu"),
    "31 that takes the host with it": (
        (xid(31), xid(154, values={"to": 2}, address=OTHER)),
        0,
        "reboot",
    ),
    "31 and a reset": ((xid(31), xid(154, values={"to": 1})), 0, "restart-app"),
    "32 and a bad PCIe link": ((line("aer:nonfatal"), xid(32)), 1, "inspect"),
    "44 after a dead GSP": ((xid(119), xid(44)), 1, "reset-gpu"),
    "48 contained": ((xid(48), xid(94)), 0, "reset-gpu"),
    "64 with a spare channel": (
        (xid(64, f"{REMAPPER}Row Remapping table is full"), xid(160)),
        0,
        "reset-gpu",
    ),
    "79 after a fatal AER error": (
        (line("aer:fatal", 90.0, "0000:00:01.0"), xid(79)),
        1,
        "inspect",
    ),
    "79 after the link was lost": (
        (line("aer:surprise-down", 90.0, "0000:00:01.0"), xid(79)),
        1,
        "inspect",
    ),
    "79 before a fatal AER error": ((xid(79), line("aer:fatal", 110.0)), 0, "reboot"),
    "109 after 13": ((xid(13, at_s=95.0), xid(109)), 1, "restart-app"),
    "109 after 13 of another GPU": ((xid(13, address=OTHER), xid(109)), 1, "reset-gpu"),
    "109 after 13 that needs a reset": (
        (xid(13), xid(109), xid(154, values={"to": 1})),
        1,
        "reset-gpu",
    ),
    "109 that needs a reboot": ((xid(13), xid(109), xid(154, values={"to": 2})), 1, "reboot"),
    "119 after 79": ((xid(79), xid(119, at_s=500.0)), 1, "reboot"),
    "119 after another's 79": ((xid(79, address=OTHER), xid(119)), 1, "reset-gpu"),
    "171 beside its 48": ((xid(48), xid(171)), 1, "none"),
    "20034 of a lost GPU": (
        (xid(79), line("sxid:20034", address=OTHER, severity="Fatal")),
        1,
        "reboot",
    ),
}


def test_codes_in_company() -> None:
    wrong = {
        name: action
        for name, (events, number, expected) in BESIDE.items()
        if (action := asked(events[number], *events)) != expected
    }
    assert wrong == {}


def test_xid_154_asks_for_its_recovery_action() -> None:
    actions = {number: asked(xid(154, values={"to": number})) for number in RECOVERY_ACTIONS}
    assert actions == {number: action.value for number, action in RECOVERY_ACTIONS.items()}


def test_79_again_after_a_boot_within_a_week() -> None:
    first, again = xid(79, at_s=500.0, wall_s=0.0), xid(79, at_s=9.0, wall_s=6 * DAY_S)
    assert asked(again, first, BOOT, again) == "inspect"
    assert asked(again, first, again) == "reboot", "the same boot: the same loss"
    late = again._replace(wall_s=8 * DAY_S)
    assert asked(late, first, BOOT, late) == "reboot"


def test_why_and_how_soon() -> None:
    contained = xid(94, values={"d_rst": True})
    chosen = choose_action(catalogue.entry("xid:94"), contained, Context())
    assert (chosen.action, chosen.urgency) == (Action.RESET_GPU, "next-idle")
    assert "D-RST: Yes" in chosen.because
    lost = choose_action(catalogue.entry("xid:79"), xid(79), Context())
    assert lost == Choice(Action.REBOOT, "", "now")
    remapped = choose_action(catalogue.entry("xid:63"), xid(63), Context())
    assert remapped.urgency == "next-idle"


def link5(text: str, code: int = 149, at_s: float = 100.0, **more: Any) -> Event:
    return xid(code, text, at_s, wall_s=at_s, **more)


SIGNAL5 = (
    "NETIR_LINK_EVT Fatal XC0 i0 Link {:02} (0x004505c6 0x00000000 0x00000000 0x00000000 0x00000000"
    " 0x00000000)"
)
BER5 = "NETIR_BER_EVENT  Nonfatal   XC0 i0 Link 03 (0x00006226 0x00000001 0x0 0x0 0x0 0x0)"
REMAP5 = "RLW_REMAP Nonfatal XC1 i0 Link 02 (0x00000004 0x00000001 0x00000000 0x00000000)"


def test_an_nvlink5_line_is_decoded_by_its_own_words() -> None:
    ignored = "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000 0x00000000 0x00000000)"
    assert asked(link5(SIGNAL5.format(8))) == "reset-gpu"
    assert asked(link5(ignored, severity="Fatal")) == "monitor", (
        "the words count, not the word Fatal"
    )
    given = link5("", values={"unit": "NETIR_LINK_EVT", "registers": ["0x026001c6", "0x0"]})
    assert asked(given) == "monitor"
    assert asked(link5(SIGNAL5.format(8)), branch=580) == "reset-gpu", (
        "of another layout: the code's own action"
    )


def test_an_nvlink5_line_of_no_table_goes_by_its_word() -> None:
    unknown = "NETIR_LINK_EVT {} XC0 i0 Link 00 (0x03f001c6 0x00000000)"
    assert asked(link5(unknown.format("Nonfatal"), severity="Nonfatal")) == "monitor"
    assert asked(link5(unknown.format("Fatal"), severity="Fatal")) == "reset-gpu"
    assert asked(link5("", severity="")) == "reset-gpu"


def test_a_link_whose_signal_is_bad_again_is_to_be_looked_at() -> None:
    first, again = link5(SIGNAL5.format(8)), link5(SIGNAL5.format(8), at_s=5000.0)
    assert asked(again, first, again) == "inspect"
    for other in (link5(SIGNAL5.format(9), at_s=5000.0), link5(SIGNAL5.format(8), at_s=130.0)):
        assert asked(first, first, other) == "reset-gpu", "another link, or the same failure"
    errors = [link5(BER5, at_s=at_s) for at_s in (100.0, 300.0, 900.0)]
    assert [asked(errors[0], *errors[:count]) for count in (1, 2, 3)] == [
        "monitor",
        "monitor",
        "inspect",
    ]


def test_xid_154_decides_where_the_row_says_so() -> None:
    me = link5(REMAP5, 145)
    assert asked(me) == "restart-app"
    assert asked(me, me, xid(154, values={"to": 1})) == "reset-gpu"
    assert asked(me, me, xid(154, values={"to": 2}), xid(154, values={"to": 1})) == "reset-gpu", (
        "the last one holds"
    )
    assert asked(me, me, xid(154, values={"to": 0})) == "restart-app"
    assert asked(me, me, xid(154, values={"to": 2}, address=OTHER)) == "restart-app"
    assert asked(me, me, xid(154, values={"to": 2}, at_s=200.0)) == "restart-app"


def link4(words: str, at_s: float = 100.0, link: int = 14) -> Event:
    return xid(74, f"NVLink: fatal error detected on link {link}({words})", at_s, wall_s=at_s)


ECC4, MECHANICAL4 = "0x10, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", "0x100, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"


def test_xid_74_is_decoded_by_its_own_words() -> None:
    assert asked(link4("0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0")) == "none"
    assert asked(link4("0x0, 0x0, 0x0, 0x0, 0x100000, 0x0, 0x0")) == "monitor"
    assert asked(link4(ECC4)) == "reset-gpu"
    assert asked(xid(74, "NVLink: fatal error detected on link 1")) == "reset-gpu"
    assert asked(xid(74, "", values={"link": 1, "registers": ["0x1"] + ["0x0"] * 6})) == "none"


def test_the_same_link_more_than_twice_is_the_part() -> None:
    errors = [link4(ECC4, at_s) for at_s in (100.0, 300.0, 900.0)]
    assert [asked(errors[0], *errors[:count]) for count in (1, 2, 3)] == [
        "reset-gpu",
        "reset-gpu",
        "replace",
    ]
    assert asked(errors[0], *errors[:2], link4(ECC4, 900.0, link=3)) == "reset-gpu"
    assert asked(errors[0], *errors[:2], link4(MECHANICAL4, 900.0)) == "reset-gpu"
    loose = [link4(MECHANICAL4, at_s) for at_s in (100.0, 300.0)]
    assert [asked(loose[0], *loose[:count]) for count in (1, 2)] == ["reset-gpu", "inspect"]


def test_xid_74_beside_a_lost_gpu_is_its_echo() -> None:
    me = link4(ECC4)
    events = (xid(79, address=OTHER), me)
    chosen = choose_action(catalogue.entry("xid:74"), me, Context(events))
    assert chosen.action is Action.RESET_GPU
    assert "fell off the bus" in chosen.because


def test_every_condition_can_be_evaluated() -> None:
    wrong: list[tuple[str, object]] = []
    for entry in (*catalogue.entries("xid"), *catalogue.entries("sxid")):
        event = line(entry.id)
        context = Context((event,))
        for condition in entry.conditions:
            holds(condition.when, event, context)
            if not condition.because[0].islower():
                wrong.append((entry.id, condition.because))
        alone = choose_action(entry, event, context)
        if entry.conditions and alone != Choice(entry.action, "", entry.urgency):
            wrong.append((entry.id, alone))
    assert wrong == []
