"""A case: all that one judgement needs, brought to today's check ids."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuscan.engine.conclude import Circumstance
from gpuscan.engine.suite import Check, aliases, expand
from gpuscan.model import Held, Node, is_unread
from gpuscan.model.report_rows import NotJudged, RunInfo
from gpuscan.profile import Profile

HOLD_CHECK = "history.hold"
SWAP = "swap.begin"  # in place of a check: what a swap holds its parts for
PROFILE_CHECK = "profile.match"
HOLD_ALIASES = {"history.no_hold_stands": HOLD_CHECK}


class Case(NamedTuple):
    """One node, what it is judged by, and how.

    *skipped* are the ids that the user left out, *run* what the report says of this judgement. On a
    *busy* node, findings that its jobs cause or that may wait until they end only warn. *left_out*
    is what of the node is not judged; see `partial`.
    """

    node: Node
    profile: Profile
    checks: Sequence[Check]
    skipped: frozenset[str] = frozenset()
    run: RunInfo = RunInfo()
    notes: tuple[str, ...] = ()
    busy: bool = False
    circumstances: frozenset[Circumstance] = frozenset()
    left_out: tuple[NotJudged, ...] = ()


def with_current_ids(case: Case) -> Case:
    """Return the case with renamed checks called by their current ids in profile and past, and the
    profile's areas and globs replaced by the ids that they select.
    """
    renamed = aliases(case.checks) | HOLD_ALIASES
    data, past = case.profile.data, case.node.past
    skip = expand(case.checks, data["skip"])
    optional = list(expand(case.checks, dict.fromkeys(data["optional"], "")))
    profile = case.profile._replace(data={**data, "skip": skip, "optional": optional})
    case = case._replace(profile=profile)
    if is_unread(past):
        return case
    past = past._replace(
        held=rename_held(past.held, renamed),
        faults=tuple(
            fault._replace(check=renamed.get(fault.check, fault.check)) for fault in past.faults
        ),
    )
    return case._replace(node=case.node._replace(past=past))


def rename_held(held: Sequence[Held], renamed: Mapping[str, str]) -> tuple[Held, ...]:
    """Return the reasons of a hold with renamed checks (old id -> current id)."""
    return tuple(one._replace(check=renamed.get(one.check, one.check)) for one in held)
