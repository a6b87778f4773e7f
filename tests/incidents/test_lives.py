"""The life of an incident: cures have ranks, the state clears only what it can know, and what
returns climbs its ladder.
"""

from __future__ import annotations

from typing import Any

import pytest
from building import was_read
from nodes_recordings import base

from gpuscan import catalogue, collectors
from gpuscan.incidents.diagnose import Situation, exit_code, find_incidents
from gpuscan.incidents.lives import Work
from gpuscan.kernellog.event import Event
from gpuscan.model import Unread
from gpuscan.model.outcome import ACTIONS, Action

GPU, PORT, OTHER_PORT = "0000:1b:00.0", "0000:15:01.0", "0000:d9:01.0"
CURES = {
    "reset": (Event("reset", 0, "reset:gpu", address=GPU, line=2, at_s=900.0), Action.RESET_GPU),
    "reload": (Event("reset", 0, "reset:driver", line=2, at_s=900.0), Action.RESET_GPU),
    "boot": (Event("boot", 0, "boot:kernel", line=2, at_s=0.0), Action.REBOOT),
}
CODES = [entry for entry in catalogue.entries("xid") if entry.code != 154]


def xid(code: int, at_s: float = 100.0, line: int = 1, **more: Any) -> Event:
    return Event("xid", code, f"xid:{code}", address=GPU, line=line, at_s=at_s, **more)


def situation(action: int | None = None, **more: Any) -> Situation:
    """One GPU, with this recovery action or, if None, an old driver that has none."""
    (gpu, *_) = was_read(collectors.node(base("demo")).gpus)
    silent = Unread("", "not-supported", "an old driver")
    answers: Any = silent if action is None else action
    return Situation((gpu._replace(address=GPU, recovery_action=answers),), 580, **more)


def code(*events: Event, known: Situation | None = None) -> int:
    return exit_code(find_incidents(events, known or situation()))


@pytest.mark.sweep
@pytest.mark.parametrize("name", CURES)
def test_a_cure_ends_what_asks_for_its_rank_or_less(name: str) -> None:
    cure, heals = CURES[name]
    wrong = []
    for entry in CODES:
        event = xid(entry.code)
        (alone,) = find_incidents([event], situation())
        ended = Action(alone.action).rank <= heals.rank
        right = 0 if ended else ACTIONS[Action(alone.asks)].exit_code
        if code(event, cure) != right:
            wrong.append(entry.id)
    assert wrong == []


@pytest.mark.sweep
def test_a_clear_state_ends_mapped_codes_up_to_a_power_cycle() -> None:
    wrong = []
    for entry in CODES:
        (alone,) = find_incidents([xid(entry.code)], situation())
        mapped = entry.state == "mapped" and Action(alone.action).rank <= Action.POWER_CYCLE.rank
        right = 0 if mapped else ACTIONS[Action(alone.asks)].exit_code
        if code(xid(entry.code), known=situation(0)) != right:
            wrong.append(entry.id)
    assert wrong == []
    full = xid(64, text="Row Remapper Error: All reserved rows for bank are remapped")
    assert code(full, known=situation(0)) == 41


@pytest.mark.parametrize("root", [62, 79, 109, 120, 158])
@pytest.mark.parametrize("echo", [46, 119])
def test_history_absorbs_nothing_alive(root: int, echo: int) -> None:
    assert code(xid(root), xid(echo, 146.0, 2), known=situation(0)) == 30
    assert code(xid(root), known=situation(0)) == 0


def test_no_echo_crosses_a_cure() -> None:
    for cure, _ in CURES.values():
        assert code(xid(120), cure, xid(119, 930.0, 3)) == 30
        assert code(xid(120), xid(119, 146.0, 1), cure) == 0


@pytest.mark.parametrize(
    ("returns", "exits"),
    [(79, (30, 31, 40)), (62, (30, 31, 40)), (95, (30, 30, 40)), (48, (30, 30, 40))],
)
def test_what_needs_a_cure_climbs_when_it_returns(returns: int, exits: tuple[int, ...]) -> None:
    events = [xid(returns, 3600.0 * n, n) for n in range(1, 4)]
    for count, right in enumerate(exits, 1):
        assert code(*events[:count]) == right
        assert code(*events[:count], known=situation(0)) == (right if count > 1 else 0)
    burst = [xid(returns, 100.0 + n, n) for n in range(1, 6)]
    assert code(*burst, known=situation(0)) == 0, "one burst is one fault"


def test_a_code_that_stays_does_not_climb_by_itself() -> None:
    hourly = [xid(119, 3600.0 * n, n) for n in range(1, 9)]
    assert code(*hourly) == 30
    resets = [CURES["reset"][0]._replace(line=n, at_s=1000.0 * n) for n in (2, 4, 6)]
    back = [xid(119, 1000.0 * n, n) for n in (1, 3, 5, 7)]
    mixed = sorted([*resets, *back], key=lambda event: event.line)
    (one,) = find_incidents(mixed, situation())
    assert one.action == "reboot", "resets prove no reboot"


def test_pcie_errors_belong_to_a_lost_gpu_only_below_their_port() -> None:
    error = Event("aer", 0, "aer:fatal", address=PORT, line=2, at_s=110.0)
    above = {GPU: (PORT,)}
    lost = situation(0, above=above)
    assert code(xid(79), error._replace(address=OTHER_PORT), known=lost) == 30
    assert code(error._replace(line=0, at_s=95.0), xid(79), known=lost) == 40
    far = error._replace(line=0, at_s=95.0, address=OTHER_PORT)
    (own, _) = sorted(find_incidents([far, xid(79)], lost), key=lambda one: one.kind != "xid")
    assert own.action == "reboot", "another port's error is no cause"


@pytest.mark.parametrize(
    ("after_s", "right"), [(1000.0 + 100.0, 0), (1000.0 + 99.0, 30), (0.0, 30)]
)
def test_declared_work_ends_what_was_logged_before_it(after_s: float, right: int) -> None:
    known = situation(booted_s=1000.0, works=[Work("reset", after_s)])
    assert code(xid(119), known=known) == right
    assert code(xid(79), known=known) == 30, "a reset ends no more than a reset"


def test_what_the_driver_takes_back_is_history() -> None:
    asked = xid(154, values={"to": 2})
    assert code(asked) == 30
    assert code(asked, CURES["reset"][0]) == 30
    assert code(asked, CURES["reset"][0], xid(154, 930.0, 3, values={"to": 0})) == 0
