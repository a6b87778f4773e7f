"""Proposes a proof after a repair, of what is or was lately held and was not exercised since."""

from collections.abc import Iterable, Sequence

from gpuscan.engine.case import SWAP, Case
from gpuscan.engine.confidence import exposure_for
from gpuscan.engine.drives import PORT
from gpuscan.engine.hold import key_of
from gpuscan.engine.lifting import Place, find_part, last_found
from gpuscan.engine.proving import ask
from gpuscan.model import Held, Node, is_unread
from gpuscan.model.outcome import LEVELS
from gpuscan.model.proof import LONGEST_S, SECONDS, USUAL_S, ProofAsked, ProofRow, Proposal
from gpuscan.model.subject import parse_subject

NAMED = ("gpu", "port")  # kinds of parts that --part takes
SURE = 0.9  # that a proof longer than usual is proposed for
VERIFY = "gpuscan swap verify --level quick"
VERIFY_S = 300.0  # that level, and what the hold asks for


def propose_proof(
    case: Case, held: Sequence[Held], rows: Iterable[ProofRow] = ()
) -> Proposal | None:
    """Return the command that exercises what a run of this machine leaves *held*, lifts (the *rows*
    say what unproven), or finds lifted; None where a proof was this run, where the fault still
    shows, or where nothing here exercises it.
    """
    past = case.node.past
    if is_unread(past) or case.run.proof or case.run.recording:
        return None
    before = {key_of(one) for one in past.held}
    kept = [one for one in held if key_of(one) in before and _is_open(one, past.at_s)]
    if any(one.check == SWAP and not one.asleep for one in held):
        changed = [one for one in kept if find_part(one, case.node).place is Place.REPLACED]
        return _proposal(VERIFY, _asked(changed, case.node), VERIFY_S)
    lifted = lifted_unproven(past.held, rows)
    if case.run.level == LEVELS[0]:
        lifted += [one for one in past.lifted if key_of(one) not in before]
    return propose(case.node, kept, lifted)


def lifted_unproven(held: Iterable[Held], rows: Iterable[ProofRow]) -> list[Held]:
    """Return what of *held* a run lifts though nothing exercised it."""
    unproven = {(row.check, row.subject, row.serial) for row in rows if row.unproven}
    return [one for one in held if key_of(one) in unproven]


def propose(node: Node, kept: Sequence[Held], lifted: Sequence[Held]) -> Proposal | None:
    """Return the command that exercises what is still held, and what was until lately."""
    held, free = _asked(kept, node), _asked(lifted, node)
    free = [one for one in free if parse_subject(one.subject).kind in NAMED]
    parts = ",".join(dict.fromkeys(one.subject for one in free))
    words = f"{' --hold' if held else ''} --part {parts}" if parts else ""
    seconds = _needed_s([*held, *free])
    sure = f" --confidence {SURE}" if seconds > USUAL_S else ""
    return _proposal(f"gpuscan prove{words}{sure}", [*held, *free], max(seconds, USUAL_S))


def _needed_s(asked: Iterable[ProofAsked]) -> float:
    """Return about how long the rarest of these faults takes to show, where its rate is known: the
    plan, which knows the steps, tells it again.
    """
    needs = [0.0]
    for one in asked:
        per_s = 1.0 if one.rate and one.rate.unit == SECONDS else one.per_s
        if one.rate and per_s:
            needs.append(exposure_for(one.rate, SURE) / per_s)
    return min(max(needs), LONGEST_S)


def _is_open(held: Held, now_s: float) -> bool:
    """Return whether a reason was found by an earlier run only, and not exercised since."""
    return not held.of_root and held.exercised_s <= last_found(held) < now_s


def _asked(held: Iterable[Held], node: Node) -> list[ProofAsked]:
    """Return what exercises these reasons, as far as anything here does."""
    asked = (ask(one, node) for one in held if not one.asleep and one.check != SWAP)
    return [one for one in asked if one.tests and not one.lacks]


def _proposal(command: str, asked: Sequence[ProofAsked], seconds: float) -> Proposal | None:
    tests = {one.tests for one in asked}
    needs = PORT.tests[0] if tests == {PORT.tests} else ""
    faults = tuple(
        dict.fromkeys(f"{one.subject.replace(':', ' ', 1)} ({one.check})" for one in asked)
    )
    return Proposal(command, faults, seconds, needs) if faults else None
