"""What exercises the faults that a node is held for: by the hold, and by what the archive has of
the runs that found them.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from gpuscan.engine.case import SWAP
from gpuscan.engine.drives import COMPUTE, PORT, STATE, drive_of
from gpuscan.engine.lifting import Place, find_part, serial_in
from gpuscan.engine.rates import rate_of
from gpuscan.errors import UsageError, near_misses
from gpuscan.model import Fault, Held, Node, is_unread, read_or
from gpuscan.model.outcome import Action
from gpuscan.model.proof import SECONDS, FaultRate, ProofAsked
from gpuscan.model.select import find_gpus, listed
from gpuscan.model.subject import parse_subject

LOGGED = "xid.faults"  # the check of what the driver logged
ANY_OF_PORT = "infiniband.symbol_errors"
ANY = "burnin.completion"  # stands for any fault of a GPU of which none is known
NO_FAULT = "no fault of it is known, so these were the usual tests"
GONE = "it is in no slot of this node: once it is back, or changed, run gpuscan swap verify"
OTHER = "another GPU is in its slot, serial {}"
PROVE_SWAP = ": gpuscan swap verify proves the swap"


def ask_all(node: Node, held: Sequence[Held] | None = None) -> tuple[ProofAsked, ...]:
    """Return what exercises each reason of a node's hold, or of *held*, that is awake and is a
    fault: `swap begin` found none.
    """
    if held is None:
        held = () if is_unread(node.past) else node.past.held
    return tuple(ask(one, node) for one in held if not one.asleep and one.check != SWAP)


def ask_named(node: Node, names: Sequence[str]) -> tuple[ProofAsked, ...]:
    """Return what exercises what these parts are, or were until lately, held for (`gpu:SXM4`,
    `SXM4`, `port:mlx5_0/1`, a serial number); one that was not held for the faults that the archive
    has of it, else for any. A part that is gone since it was named, or a GPU where none could be
    listed, lacks what would show its fault.
    """
    found = [one for name in names for one in _ask_part(node, name) or [_gone(node, name)]]
    return tuple(dict.fromkeys(found))


def refuse_unknown(node: Node, names: Iterable[str]) -> None:
    """Raise UsageError for a name of no part, as far as the parts are known."""
    for name in names:
        if _ask_part(node, name) or (is_unread(node.gpus) and _split(name)[0] != "port"):
            continue
        several = find_gpus(read_or(node.gpus, ()), _split(name)[1])
        if several:
            raise UsageError(f"--part {name}: names {listed(several)}: give a slot or an address")
        raise UsageError(f"--part {name}: no such part; {_known(node, name)}")


def _split(name: str) -> tuple[str, str]:
    """Return a part's kind, empty if none is given, and its name."""
    kind, _, bare = name.partition(":")
    return (kind, bare) if kind in ("gpu", "port") else ("", name)


def _known(node: Node, name: str) -> str:
    """Say what can be named instead, and what is held though it is not in the node."""
    gone = [f"; {told}" for told in told_not_held(node)]
    parts = [gpu.label for gpu in read_or(node.gpus, ())] + [
        port.label for port in read_or(node.ports, ())
    ]
    return near_misses(_split(name)[1], parts, "parts") + "".join(gone)


def told_not_held(node: Node) -> list[str]:
    """Return sentences on parts whose hold sleeps or was lifted lately, without a proof."""
    if is_unread(node.past):
        return []
    asleep = [one for one in node.past.held if one.asleep]
    return [
        *(f"{_named(one)} is held ({one.check}) and not in the node" for one in asleep),
        *(
            f"{_named(one)} was held until lately ({one.check}) and not exercised since:"
            f" --part {one.subject}"
            for one in node.past.lifted
            if ask(one, node).tests
        ),
    ]


def _named(held: Held) -> str:
    serial = f", serial {held.serial}" if held.serial else ""
    return f"{held.subject.replace(':', ' ', 1)}{serial}"


def _gone(node: Node, name: str) -> ProofAsked:
    kind, bare = _split(name)
    lacks = GONE
    if is_unread(node.gpus) and kind != "port":
        lacks = f"the GPUs could not be listed ({node.gpus.text})"
    return ProofAsked(ANY, f"{kind or 'gpu'}:{bare}", "", lacks=lacks)


def _ask_part(node: Node, name: str) -> list[ProofAsked]:
    """Return what exercises one part, nothing for a name of none."""
    kind, bare = _split(name)
    subjects = {name, *(f"{each}:{bare}" for each in ([kind] if kind else ["gpu", "port"]))}
    past = node.past
    for held in () if is_unread(past) else (past.held, past.lifted):
        asked = ask_all(node, held)
        mine = [one for one in asked if one.subject in subjects or one.serial == bare]
        if mine:
            return mine
    ports = [one for one in read_or(node.ports, ()) if bare in (one.label, one.hca)]
    gpus = find_gpus(read_or(node.gpus, ()), bare)
    if kind != "port" and len(gpus) == 1:
        return _ask_not_held(node, "gpu", gpus[0])
    return _ask_not_held(node, "port", ports[0]) if kind != "gpu" and len(ports) == 1 else []


def _ask_not_held(node: Node, kind: str, part: Any) -> list[ProofAsked]:
    """Return what exercises the faults that the archive has of a part, else any."""
    subject, serial = f"{kind}:{part.label}", serial_in(kind, part)
    faults = () if is_unread(node.past) else node.past.faults
    mine = {
        one.check: one
        for one in faults
        if (one.serial == serial if serial and one.serial else one.subject == subject)
    }
    if not mine:
        check, drive = (ANY, COMPUTE) if kind == "gpu" else (ANY_OF_PORT, PORT)
        labels = (part.label,) if kind == "gpu" else ()
        usual = ProofAsked(check, subject, serial, labels, tests=drive.tests, unit=drive.unit)
        return [usual._replace(note=NO_FAULT)]
    held = (
        Held(0, one.action, one.check, subject, part.label, part.address or "", serial, one.message,
             "", one.boot_id, "", one.at_s)
        for one in mine.values()
    )  # fmt: skip
    return [ask(each, node) for each in held]


def ask(held: Held, node: Node) -> ProofAsked:
    """Return what exercises the fault of one reason of a hold."""
    found_in = [label.split() for label in held.tests.split("; ") if label]
    names = tuple(dict.fromkeys(words[1] for words in found_in if len(words) > 1))
    codes = tuple(dict.fromkeys(map(_code, last_faults(held, node))))
    drive = drive_of(held.check, codes, names)
    asked = ProofAsked(held.check, held.subject, held.serial, unit=drive.unit, tests=drive.tests)
    if drive == STATE or held.action == Action.FIX_CONFIG:
        return asked._replace(by_state=True, tests=(), unit="")
    if drive.lacks:
        return asked._replace(lacks=drive.lacks)
    found = find_part(held, node)
    asked = asked._replace(gpus=() if drive == PORT else _labels(held, node))
    if found.place is Place.ABSENT or not (asked.gpus or drive == PORT):
        return asked._replace(lacks=GONE)
    other = serial_in(parse_subject(held.subject).kind, found.record) if found.record else ""
    replaced = found.place is Place.REPLACED
    is_verified = not is_unread(node.past) and held not in node.past.held  # by swap verify
    advice = "" if is_verified else PROVE_SWAP
    links = len(read_or(getattr(found.record, "nvlinks", ()), ()))
    pairs = tuple((words[0], words[2]) for words in found_in if len(words) > 2)
    asked = asked._replace(
        note=OTHER.format(other) + advice if replaced else "",
        rate=rate_of(held, links),
        pairs=pairs,
        watched=drive.watched,
    )
    return _with_past(asked, held, node)


def last_faults(held: Held, node: Node) -> list[Fault]:
    """Return the faults that a reason of a hold is about: those of the newest run with any."""
    faults = () if is_unread(node.past) else node.past.faults
    mine = [one for one in faults if one.check == held.check and _is_about(one, held)]
    newest_s = max((one.at_s for one in mine), default=0.0)
    return [one for one in mine if one.at_s == newest_s]


def _code(fault: Fault) -> str:
    """Return the code that the driver logged of a fault (`xid:79`), empty for another fault."""
    if fault.check != LOGGED or not fault.same:
        return ""
    try:
        observed = json.loads(fault.same)["observed"]
    except (ValueError, TypeError, KeyError, RecursionError):  # what is stored may be anything
        return ""
    kind = "sxid" if fault.message.startswith("SXid ") else "xid"
    return f"{kind}:{observed}" if isinstance(observed, int) else ""


def _is_about(fault: Fault, held: Held) -> bool:
    if held.serial and fault.serial:
        return fault.serial == held.serial
    about = parse_subject(fault.subject)
    return fault.subject == held.subject or held.slot in about.label.split()


def _labels(held: Held, node: Node) -> tuple[str, ...]:
    """Return the held GPU by its label; of a reason that is the node's all GPUs."""
    gpus = read_or(node.gpus, ())
    if parse_subject(held.subject).kind != "gpu":
        return tuple(gpu.label for gpu in gpus)
    names = {held.slot, held.address} - {""}
    return tuple(gpu.label for gpu in gpus if {gpu.label, gpu.address} & names)


def _with_past(asked: ProofAsked, held: Held, node: Node) -> ProofAsked:
    """Add what earlier runs of the same tests on the same part came to."""
    subjects = {f"test:{label}" for label in held.tests.split("; ")}
    burnt = () if is_unread(node.past) else node.past.burnt
    known = [one for one in burnt if one.subject in subjects]
    seconds = sum(one.seconds for one in known)
    if not seconds:
        return asked
    operations = sum(one.operations for one in known)
    exposure = seconds if asked.unit == SECONDS else operations
    events = max(one.wrong_runs for one in known)
    runs = f"{events} run{'s' if events > 1 else ''}"
    rate = FaultRate(events, exposure, asked.unit, f"the archive: wrong in {runs}")
    return asked._replace(
        hot_c=max(one.hot_c for one in known),
        rate=rate if exposure and events else asked.rate,
        per_s=operations / seconds,
    )
