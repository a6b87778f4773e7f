"""Judging one recording as the user wants it: which checks, which profile, which GPUs."""

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuscan import __version__, collectors, profile
from gpuscan.engine import suite
from gpuscan.engine.case import Case
from gpuscan.engine.conclude import Circumstance
from gpuscan.engine.measurements import measurements_of
from gpuscan.engine.partial import by_gpus, find_left_out, find_limits
from gpuscan.engine.report import Report
from gpuscan.engine.selection import AUTO as AUTO
from gpuscan.engine.selection import Selection as Selection
from gpuscan.engine.stages import judge
from gpuscan.errors import ProfileError, UsageError
from gpuscan.files import bundled
from gpuscan.model import Node, is_unread, read_or
from gpuscan.model.outcome import FAILED, LEVELS
from gpuscan.model.proof import PROOF
from gpuscan.model.report_rows import ProfileInfo, RunInfo
from gpuscan.model.select import select_gpus
from gpuscan.pci import pci_address
from gpuscan.recording import Recording
from gpuscan.text import counted

WHOLE = ("dir:/sys/bus/pci/devices", "nvml:nvmlDeviceGetCount()")  # either lists all GPUs
MOST_NAMED = 5
ADDRESS = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?")


class Plan(NamedTuple):
    """A judgement prepared before the machine is touched, so that a typing error costs no scan."""

    checks: tuple[suite.Check, ...]
    skipped: frozenset[str]
    named: profile.Profile | None
    want: Selection


def busy(context: str) -> bool:
    """Return whether `--context` says that jobs run on the node."""
    if context not in ("idle", "busy"):
        raise UsageError(f"--context {context}: a node is idle (drained) or busy (jobs run on it)")
    return context == "busy"


def all_checks(folders: Sequence[str] = ()) -> tuple[suite.Check, ...]:
    """Return the bundled checks and those of further folders."""
    return suite.load([bundled("checks"), *folders])


def prepare(want: Selection) -> Plan:
    """Load and select what is wanted; raises GpuscanError for whatever does not exist."""
    checks, skipped = suite.select(all_checks(want.checks), want.only, want.skip)
    named = None
    if want.profile != AUTO:
        object_to = None if want.only else objection(checks)
        named = profile.load(want.profile, want.settings, object_to)
    if named is not None and not want.only:
        refuse_unknown_checks(named, checks)
    return Plan(checks, skipped, named, want)


def refuse_unknown_checks(named: profile.Profile, checks: Sequence[suite.Check]) -> None:
    """Raise ProfileError where a profile speaks of a check that there is not."""
    object_to = objection(checks)
    told = [
        why for name in (*named.data["skip"], *named.data["optional"]) if (why := object_to(name))
    ]
    if told:
        if named.name in profile.list_profiles():
            profile.refuse_mistakes(named.name, object_to)
        raise ProfileError(f"profile {named.name}: {told[0]}")


def objection(checks: Sequence[suite.Check]) -> profile.Objection:
    """Return what says why a selector of checks is none, "" if it is one."""

    def object_to(selector: str) -> str:
        if suite.matches(checks, selector):
            return ""
        return f"no check is called {selector}: {suite.hint_at_checks(selector, checks)}"

    return object_to


def provenance(recording: Recording, plan: Plan) -> dict[str, Any]:
    """Return what a recording is to say of the profile that it is judged by: its name, and its
    data where no name has them.
    """
    chosen, _ = profile_of(recording, collectors.node(recording), plan)
    if (not chosen.vouches or chosen.fitted) and not plan.want.settings:
        # nothing vouched for this machine, or not for all: whoever judges it again looks again
        return {}
    if (
        chosen.vouches
        and not plan.want.settings
        and plan.want.profile in (AUTO, chosen.name)
        and profile.is_bundled(chosen.name)
    ):
        return {"profile": chosen.name}
    return {"profile": chosen.name, "expectations": dict(chosen.data), "vouches": chosen.vouches}


def judge_recording(
    recording: Recording, file: str, plan: Plan, beside: Callable[[Node], Node] = lambda node: node
) -> Report:
    """Return the report on a recording, that of *file* or of a live scan (empty).

    *beside* adds to the node what is known of it from elsewhere: an earlier recording, an import.
    """
    node = beside(collectors.node(recording))
    chosen, why = profile_of(recording, node, plan)
    if not plan.want.only:
        refuse_unknown_checks(chosen, plan.checks)
    notes = [why, *collectors.notes(recording)]
    left_out = find_left_out(recording, node, chosen, plan.want)
    total = len(read_or(node.gpus, ()))
    if recording.meta.imported is not None:
        chosen = _of_a_part(recording, node, chosen, plan)
        notes += _on_import(recording)
    if plan.want.gpus:
        node, chosen, note = _restrict(node, chosen, plan)
        notes.append(note)
        left_out += by_gpus(plan.want.gpus, len(read_or(node.gpus, ())), total)
    if recording.meta.synthetic:
        notes.append("this recording is synthetic")
    if recording.meta.ended_by_signal is not None:
        notes.append(
            f"the scan was ended by signal {recording.meta.ended_by_signal}: this report is partial"
        )
    basis = ProfileInfo(chosen.name, chosen.vouches, why)
    run = _run_info(recording, file, plan.want, basis)
    around = _circumstances(recording, node)
    case = Case(
        node,
        chosen,
        plan.checks,
        plan.skipped,
        run,
        tuple(notes),
        plan.want.busy,
        around,
        left_out,
    )
    report = judge(case)._replace(measurements=measurements_of(node))
    if report.exit_code >= FAILED:
        report = report._replace(notes=(*report.notes, *_on_history(node, file)))
    return report


def _of_a_part(
    recording: Recording, node: Node, chosen: profile.Profile, plan: Plan
) -> profile.Profile:
    """Leave out what counts GPUs where an input does not list them all: a GPU that it does not
    speak of is not missing.
    """
    known_by = (
        set() if is_unread(node.gpus) else {":" in gpu.address for gpu in node.gpus}
    )  # address or index
    if any(key in recording for key in WHOLE) and len(known_by) < 2:
        return chosen
    counting = [one.id for one in plan.checks if one.mark.counts_gpus or one.mark.expects_slots]
    absent = dict.fromkeys(counting, "this input does not list every GPU")
    return chosen._replace(data={**chosen.data, "skip": {**chosen.data["skip"], **absent}})


def _on_import(recording: Recording) -> list[str]:
    imported = recording.meta.imported
    unknown = [name for name in imported.unrecognised if name] if imported else []
    more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
    notes = list(imported.unread) if imported else []
    if unknown:
        notes.append(f"not recognised, and not judged: {', '.join(unknown[:MOST_NAMED])}{more}")
    return notes


def _circumstances(recording: Recording, node: Node) -> frozenset[Circumstance]:
    """Return what the judgement is made under: see Circumstance."""
    circumstances = set()
    if recording.meta.ended_by_signal is not None:
        circumstances.add(Circumstance.CUT_SHORT)
    imported = recording.meta.imported is not None
    if imported and not is_unread(node.ethernet_ports) and node.ethernet_ports:
        circumstances.add(Circumstance.ONLY_ETHERNET)
    if recording.meta.imported is not None and recording.meta.imported.unread:
        circumstances.add(Circumstance.NOT_UNDERSTOOD)
    return frozenset(circumstances)


def _on_history(node: Node, file: str) -> list[str]:
    """Note where nothing is known of the past: a fault that came back then looks new."""
    if is_unread(node.past):
        if file or node.past.kind != "not-recorded":
            return []
        return ["no history was read: a recurring fault looks like a new one"]
    if node.past.runs:
        return []
    return ["this is the first stored run: a recurring fault looks like a new one"]


def _run_info(recording: Recording, file: str, want: Selection, basis: ProfileInfo) -> RunInfo:
    meta = recording.meta
    return RunInfo(
        gpuscan_version=__version__,
        profile=basis,
        started_at=_utc(meta.made_at),
        duration_s=meta.duration_s,
        level=level_of(recording),
        # readable whatever the locale is
        recording=os.fsencode(file).decode("utf-8", "surrogateescape") or None,
        synthetic=bool(meta.synthetic),
        context="busy" if want.busy else "idle",
        drill=meta.drill is True,
        ended_by_signal=meta.ended_by_signal,
        scope=tuple(recording.scope) if not want.gpus else (f"gpus: {want.gpus}",),
        selected=tuple(want.only),
        limited_to=tuple(find_limits(recording, want)),
        require_full=want.require_full or None,
        proof=meta.level == PROOF or None,
    )


def level_of(recording: Recording) -> str:
    """Return the level at which the recording's GPUs were exercised."""
    level = recording.meta.level
    return str(level) if level in LEVELS else LEVELS[0]


def _utc(seconds: Any) -> str | None:
    return (
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
        if isinstance(seconds, (int, float))
        else None
    )


def profile_of(recording: Recording, node: Node, plan: Plan) -> tuple[profile.Profile, str]:
    """Return the profile that a recording is judged by, and a sentence on why."""
    if plan.named is not None:
        return plan.named, f"profile {plan.named.name}"
    own = recording.meta.profile
    if recording.meta.expectations is not None:
        kept = profile.parse_recorded(
            str(own or ""), recording.meta.expectations, plan.want.settings
        )
        vouches = recording.meta.vouches is not False
        return kept._replace(vouches=vouches), f"profile {own}, kept in the recording"
    if own:
        if (
            str(own) not in profile.list_profiles()
        ):  # a name only: a recording is data and must not point at files
            raise ProfileError(
                f"profile {own}, named in the recording, is not known here: name one with --profile"
            )
        return profile.load(str(own), plan.want.settings), f"profile {own}, named in the recording"
    if recording.meta.fragment is not None:
        return (
            profile.load(profile.BASE, plan.want.settings),
            f"{recording.meta.fragment} is judged without expectations",
        )
    return profile.choose(node, plan.want.settings)


def _restrict(node: Node, chosen: profile.Profile, plan: Plan) -> tuple[Node, profile.Profile, str]:
    total = len(read_or(node.gpus, ()))
    node = select_gpus(node, parse_gpu_names(plan.want.gpus))
    counting = [one.id for one in plan.checks if one.mark.counts_gpus]
    data = {
        **chosen.data,
        "skip": {**chosen.data["skip"], **dict.fromkeys(counting, "--gpus leaves GPUs out")},
    }
    return (
        node,
        chosen._replace(data=data),
        f"{len(read_or(node.gpus, ()))} of {counted(total, 'GPU')} judged (--gpus)",
    )


def parse_gpu_names(gpus: str) -> list[str]:
    """Split the list that `--gpus` was given; PCI addresses may be in upper case, with a long
    domain or with none.

    >>> parse_gpu_names("00000000:1B:00.0, 1b:00.0, SXM2")
    ['0000:1b:00.0', '0000:1b:00.0', 'SXM2']
    """
    names = [name.strip() for name in gpus.split(",")]
    addresses = [name if name.count(":") > 1 else f"0000:{name}" for name in names]
    return [
        pci_address(address) if ADDRESS.fullmatch(name) else name
        for name, address in zip(names, addresses, strict=True)
    ]
