"""What exercises the faults that a node is held for: by the hold, and by what the archive has of
the runs that found them.
"""

from collections.abc import Sequence

from gpuscan.engine.case import SWAP
from gpuscan.engine.drives import COMPUTE, PORT, STATE, drive_of
from gpuscan.engine.lifting import Place, find_part, serial_in
from gpuscan.engine.rates import rate_of
from gpuscan.model import Fault, Held, Node, is_unread, read_or
from gpuscan.model.outcome import Action
from gpuscan.model.proof import SECONDS, FaultRate, ProofAsked
from gpuscan.model.select import select_gpus
from gpuscan.model.subject import parse_subject

ANY = "burnin.completion"  # stands for any fault of a GPU of which none is known
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
    """Return what exercises what these parts are held for (`gpu:SXM4`, `SXM4`, a serial number); a
    GPU that is not held for the faults that the archive has of it, else for any.

    Raises UsageError for a name of no part.
    """
    asked = ask_all(node)
    found: list[ProofAsked] = []
    for name in names:
        bare = name.removeprefix("gpu:")
        subjects = {name, f"gpu:{bare}", f"port:{bare}"}
        mine = [one for one in asked if one.subject in subjects or one.serial == bare]
        found += mine or _ask_not_held(node, bare)
    return tuple(dict.fromkeys(found))


def _ask_not_held(node: Node, name: str) -> list[ProofAsked]:
    (gpu,) = read_or(select_gpus(node, [name]).gpus, ())
    subject = f"gpu:{gpu.label}"
    serial = str(read_or(gpu.serial, ""))
    faults = () if is_unread(node.past) else node.past.faults
    mine = {one.check: one for one in faults if serial and one.serial == serial}
    if not mine:
        return [
            ProofAsked(ANY, subject, serial, (gpu.label,), tests=COMPUTE.tests, unit=COMPUTE.unit)
        ]
    held = (
        Held(0, one.action, one.check, subject, gpu.label, gpu.address, serial, one.message,
             "", one.boot_id, "", one.at_s)
        for one in mine.values()
    )  # fmt: skip
    return [ask(each, node) for each in held]


def ask(held: Held, node: Node) -> ProofAsked:
    """Return what exercises the fault of one reason of a hold."""
    found_in = [label.split() for label in held.tests.split("; ") if label]
    names = tuple(dict.fromkeys(words[1] for words in found_in if len(words) > 1))
    codes = tuple(dict.fromkeys(fault.same for fault in last_faults(held, node)))
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
