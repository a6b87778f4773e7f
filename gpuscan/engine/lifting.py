"""What lifts a hold: one rule, which the report's sentences, `explain hold` and docs/swaps.md
repeat.

A passing run lifts what the work that was asked for has mended, on the part that was held.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from gpuscan.engine.conclude import Conclusion
from gpuscan.model import Held, Node, Unread, is_unread, read_or
from gpuscan.model.identity import real
from gpuscan.model.outcome import (
    ACTIONS,
    FAILED,
    LEVELS,
    WORK,
    Action,
    Finding,
    Result,
    SkipReason,
    Status,
)
from gpuscan.model.report_rows import NotJudged, RunInfo
from gpuscan.model.subject import NODE, parse_subject
from gpuscan.profile import Profile

REPLACE = ACTIONS[Action.REPLACE].exit_code
LISTS = {"gpu": "gpus", "port": "ports", "disk": "disks"}  # of the node, by kind of part
SERIALS = {"gpu": "serial", "port": "hca_serial", "disk": "serial"}
SEEN_BY_STATE = (Action.FIX_CONFIG, Action.INVESTIGATE, Action.RESET_GPU)  # a pass shows the work
INCIDENT = "incident"
OF_NO_PART = (NODE.kind, INCIDENT, "test")  # kinds of results that may be about any part
EXPECTATION = "profile."  # begins the path of an expectation in a result's evidence


class Proof(NamedTuple):
    """What a run says of held parts: what it read, found and was told.

    *worked* are the marks (subject, address, serial) of the parts that `swap verify` has proven to
    be reseated or replaced.
    """

    node: Node
    results: Sequence[Result]
    run: RunInfo
    profile: Profile
    worked: frozenset[str] = frozenset()


class Place(Enum):
    """Where a held part is now: in the node, another serial in its slot, or in no slot."""

    HERE = "here"
    REPLACED = "replaced"
    ABSENT = "absent"


class Found(NamedTuple):
    """Where a held part is, and the record of what is there now; None for what is no listed
    part.
    """

    place: Place
    record: Any = None


def proves_health(conclusion: Conclusion, left_out: Sequence[NotJudged]) -> bool:
    """Return whether a run proves the whole node healthy: it passed, complete and of full scope."""
    return conclusion.exit_code == 0 and conclusion.complete and not left_out


def after_pass(held: Iterable[Held], proof: Proof) -> tuple[Held, ...]:
    """Return the reasons that a passing run of full scope leaves, some of them asleep."""
    return tuple(
        one._replace(asleep=_may_sleep(one, proof))
        for one in (watch(each, proof.node) for each in held)
        if not lifts(one, proof)
    )


def watch(held: Held, node: Node) -> Held:
    """Return a reason with what any run sees of its part: that it is back, or lost its link again.

    A port that went down again begins its time to settle anew.
    """
    found = find_part(held, node)
    if found.place is Place.HERE and found.record is not None:
        held = held._replace(asleep=False)
    downs = link_downs(found.record)
    if downs > held.link_downed >= 0:
        held = held._replace(seen_s=_now_s(node))
    return held._replace(link_downed=max(held.link_downed, downs))


def lifts(held: Held, proof: Proof) -> bool:
    """Return whether a passing run of full scope lifts one reason.

    Below *inspect*: the check passes on that part, after a reboot where one was asked for. Inspect:
    after a proof of work. Replace: another serial number is in the slot.
    """
    found = find_part(held, proof.node)
    if held.of_root or held.code < FAILED or found.place is Place.ABSENT:
        return False  # what could not be read was held: only a person can say
    if held.code >= REPLACE and found.place is Place.REPLACED:
        return True
    if LEVELS.index(proof.run.level) < LEVELS.index(held.level):
        return False
    judged = _results_on(held, found, proof.results)
    if not _passes(held, judged, proof):
        return False
    if _expects_otherwise(held, judged):
        return True
    return held.code < REPLACE and _was_worked_on(held, found, proof)


def find_part(held: Held, node: Node) -> Found:
    """Return where the part of a reason is: by its serial number, else by slot or address.

    Whatever is no listed part (the node, a test, an incident) is always here.
    """
    about = parse_subject(held.subject)
    records = getattr(node, LISTS[about.kind]) if about.kind in LISTS else Unread("", "", "")
    if is_unread(records):
        return Found(Place.HERE)
    same = [one for one in records if held.serial and serial_in(about.kind, one) == held.serial]
    in_slot = [one for one in records if one.label == about.label]
    in_slot += [one for one in records if held.address and one.address == held.address]
    here = [one for one in in_slot if one in same] or same or in_slot
    if not here:
        return Found(Place.ABSENT)
    other = not same and held.serial and serial_in(about.kind, here[0])
    return Found(Place.REPLACED if other else Place.HERE, here[0])


def serial_in(kind: str, record: Any) -> str:
    """Return the serial number of a listed part, a port's adapter's; empty if it was not read."""
    return real(getattr(record, SERIALS[kind])) or "" if kind in SERIALS else ""


def link_downs(record: Any) -> int:
    """Return how often a port's link went down, -1 where that was not read or it is no port."""
    counter = getattr(record, "link_downed", None)
    return -1 if counter is None or is_unread(counter) else int(counter.total)


def _results_on(held: Held, found: Found, results: Sequence[Result]) -> list[Result]:
    """Return the results of a reason's check on its part, else those that are about no part."""
    mine = [one for one in results if one.check == held.check]
    about = [one for one in mine if _is_about(one, held, found.record)]
    return about or [one for one in mine if one.about.kind in OF_NO_PART and not one.about.gpu]


def _is_about(result: Result, held: Held, record: Any) -> bool:
    if record is None:
        return result.subject == held.subject
    kind, about = parse_subject(held.subject).kind, result.about
    if about.kind == kind:
        return bool(about.label == record.label)
    if kind != "gpu" or about == NODE:
        return False
    return result.address == record.address or record.label in (about.gpu, about.peer)


def _passes(held: Held, judged: Sequence[Result], proof: Proof) -> bool:
    """Return whether the check has looked at the part and found nothing.

    A log whose beginning is gone shows nothing of the boot in which the fault was logged.
    """
    later = _is_later_boot(held, proof.node)
    if any(one.skip_reason is SkipReason.SILENT_LOG for one in judged):
        return later
    others = [one for one in judged if one.about.kind == INCIDENT and not _names(one, held)]
    if others and len(others) == len(judged):  # the log tells of other parts only
        log = proof.node.kernel_log
        return later or (not is_unread(log) and log.whole is True)
    seen = [one for one in judged if one.status in (Status.PASS, Status.WARN)]
    return bool(seen) and all(_is_pass(one, proof.run) for one in seen)


def _names(incident: Result, held: Held) -> bool:
    return incident.subject == held.subject or incident.address == (held.address or None)


def _is_pass(result: Result, run: RunInfo) -> bool:
    """Return whether a result shows no fault: what only warns because jobs run is one."""
    return run.context != "busy" or not any(_is_fault(finding) for finding in result.findings)


def _is_fault(finding: Finding) -> bool:
    return ACTIONS[finding.action].exit_code >= FAILED


def _expects_otherwise(held: Held, judged: Sequence[Result]) -> bool:
    """Return whether the profile now states another value than the one that the part missed."""
    before = json.loads(held.expects)
    now = json.loads(expectations(judged))
    return any(name in now and now[name] != value for name, value in before.items())


def expectations(results: Iterable[Result]) -> str:
    """Return what results were judged by, as JSON: the profile's key -> its value."""
    values: Mapping[str, Any] = {
        seen.fact.removeprefix(EXPECTATION): seen.value
        for result in results
        for seen in result.evidence
        if seen.fact.startswith(EXPECTATION)
    }
    return json.dumps(values, default=str, sort_keys=True)


def _was_worked_on(held: Held, found: Found, proof: Proof) -> bool:
    """Return whether what a reason asked for was done since it was last found."""
    action = Action(held.action)
    if action in SEEN_BY_STATE or found.place is Place.REPLACED:
        return True
    if _is_later_boot(held, proof.node) or proof.worked & marks(held):
        return True
    if held.subject == str(NODE) and proof.worked:
        return True
    works = () if is_unread(proof.node.past) else proof.node.past.tried
    done = [one for one in works if one.at_s > last_found(held)]
    return any(action in WORK.get(one.work, ()) for one in done) or _has_settled(held, found, proof)


def marks(held: Held) -> frozenset[str]:
    """Return what a held part is known by: subject, address, serial."""
    return frozenset((held.subject, held.address, held.serial)) - {""}


def last_found(held: Held) -> float:
    """Return when a reason was last found (Unix time)."""
    return max(held.seen_s, held.since_s)


def _is_later_boot(held: Held, node: Node) -> bool:
    boot_id = read_or(node.host.boot_id, "")
    return bool(boot_id and held.boot_id) and boot_id != held.boot_id


def _has_settled(held: Held, found: Found, proof: Proof) -> bool:
    """Return whether a port has been up for the time that the profile gives it to settle."""
    settle_s = proof.profile.data["limits"]["port_settle_s"]
    if settle_s is None or parse_subject(held.subject).kind != "port" or found.record is None:
        return False
    up = read_or(found.record.state, "") == "ACTIVE"
    return up and _now_s(proof.node) - last_found(held) >= settle_s


def _now_s(node: Node) -> float:
    return 0.0 if is_unread(node.past) else node.past.at_s


def _may_sleep(held: Held, proof: Proof) -> bool:
    """Return whether a held part is gone, and the profile states a count that is met without it.

    Another part in its slot does not wake it.
    """
    if find_part(held, proof.node).place is not Place.ABSENT:
        return held.asleep
    kind, data = parse_subject(held.subject).kind, proof.profile.data
    counts = {"gpu": data["gpu"]["count"], "port": data["infiniband"]["ports"]}
    expected, present = counts.get(kind), read_or(getattr(proof.node, LISTS[kind]), ())
    counted = [one for one in present if getattr(one, "role", "") != "display"]
    return expected is not None and len(counted) >= expected


def lifted_by(held: Held) -> str:
    """Return the sentence on what lifts a reason of a hold.

    >>> one = Held(20, "fix-config", "a.b", "node", "", "", "", "", "quick", "", "", 0.0)
    >>> lifted_by(one)
    'a passing run of full scope at level quick or above lifts it, or gpuscan clear --reason'
    """
    if held.of_root:
        return "only root lifts it: gpuscan explain hold, as root, says how"
    return f"{_proof_of(held)}, or gpuscan clear --reason"


def _proof_of(held: Held) -> str:
    action = Action(held.action)
    if held.asleep:
        return "it sleeps until that serial number is seen again"
    if action is Action.REPLACE:
        other = ", or a passing run that reads another serial number in its slot"
        return f"gpuscan swap verify lifts it{other if held.serial else ''}"
    if held.check.startswith("swap."):  # no run judges it
        return "gpuscan swap verify lifts it"
    top = held.level == LEVELS[-1]
    level = "" if held.level == LEVELS[0] else f" at level {held.level}{'' if top else ' or above'}"
    run = f"a passing run of full scope{level}"
    if action is Action.INSPECT:
        return f"after the work ({_works(held.subject)}) {run} lifts it"
    if action in SEEN_BY_STATE:
        return f"{run} lifts it"
    return f"{run} after a reboot (or with --tried {action.value}) lifts it"


def _works(subject: str) -> str:
    """Return the proofs of work that let a passing run lift an `inspect`."""
    about = parse_subject(subject)
    part = f"cable:{about.label}" if about.kind == "port" else subject
    proofs = ["a reboot", "--tried reseat"]
    if about.kind in LISTS:
        proofs.append(f"swap verify --expect {part}=reseated")
    if about.kind == "port":
        proofs.append("or the port up at its rate for the settle time")
    return ", ".join(proofs)
