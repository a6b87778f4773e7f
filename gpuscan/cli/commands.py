"""What the commands do: each takes plain values, returns an exit code, and raises GpuscanError to
be told about.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuscan import collectors, profile
from gpuscan.cli import output
from gpuscan.cli.output import Shown
from gpuscan.cli.scanning import PASSIVE, Machine, scan, settled
from gpuscan.engine import judging
from gpuscan.engine.judging import Wanted
from gpuscan.engine.report import Report
from gpuscan.engine.verdict import Case
from gpuscan.engine.verdict import judge as verdict
from gpuscan.errors import GpuscanError, UsageError, complain, near_misses
from gpuscan.files import schema_text
from gpuscan.importers.load import opened
from gpuscan.model import Node
from gpuscan.model.outcome import FAILED, Status
from gpuscan.recording import Recording, save
from gpuscan.state import remembering
from gpuscan.state.remembering import Memory

if TYPE_CHECKING:
    from gpuscan.swap.compare import SwapOptions


def run(
    machine: Machine, want: Wanted, show: Shown, record: str, memory: Memory, evidence: str = ""
) -> int:
    """Scan and judge this machine; where it fails, keep the evidence in a new folder below
    *evidence*.
    """
    output.refuse_unusable(show, record, machine.wish.checkpoint)
    plan = judging.prepare(want)
    if record:
        output.refuse_unwritable(record)
    if machine.wish.level != PASSIVE.level:
        from gpuscan.burnin.exercise import require_burnin_checks

        require_burnin_checks(plan)
    if evidence:
        from gpuscan.tickets.evidence import refuse_unusable

        refuse_unusable(evidence)
    recording, stopped, report, store = settled(machine, plan, memory)
    trouble = _kept(recording, record, plan) if record else ""
    try:
        code = output.tell([report], show)
    finally:  # a reader that went away must cost neither the hold nor the evidence
        remembering.stored(store, report, "live", memory)
        if evidence and report.exit_code >= FAILED:
            recording.meta = recording.meta._replace(**judging.provenance(recording, plan))
            _collected(recording, report, evidence, machine, stopped)
    if trouble and report.exit_code < FAILED:
        raise UsageError(trouble)
    if machine.wish.checkpoint:
        from gpuscan.burnin.exercise import remove_finished_checkpoint

        remove_finished_checkpoint(machine.wish, recording)
    if trouble:
        complain(f"gpuscan: {trouble}")
    return 128 + stopped if stopped else code


def _kept(recording: Recording, file: str, plan: judging.Plan) -> str:
    """Save a recording before it is judged, and return what went wrong: that must not cost the
    verdict.
    """
    recording.meta = recording.meta._replace(**judging.provenance(recording, plan))
    try:
        save(recording, file)
    except GpuscanError as error:
        return str(error)
    return ""


def _collected(
    recording: Recording, report: Report, directory: str, machine: Machine, stopped: int
) -> None:
    """Keep the evidence of a failure, after the report is out, and say where it is: what goes wrong
    must not cost the verdict.

    NVIDIA's script gets two minutes at most, no more than the scan was given, and none where a
    signal ended the scan.
    """
    from gpuscan.tickets.evidence import BUG_REPORT_S, collect

    limit_s = 0.0 if stopped else min(BUG_REPORT_S, machine.scan_s())
    complain(
        f"gpuscan: collecting evidence in {directory} (up to {limit_s:.0f} s for nvidia-bug-report.sh)"
    )
    try:
        complain(
            f"gpuscan: evidence: {collect(recording, report, directory, bug_report_s=limit_s, root=machine.root)}"
        )
    except GpuscanError as error:
        complain(f"gpuscan: {error}")


def refuse_with_replay(
    record: str | None,
    root: str,
    driver_root: str | None,
    evidence: str | None = None,
    **load: object,
) -> None:
    """Raise UsageError for options that only a scan of this machine can follow; *load* are those
    of a burn-in, by name.
    """
    scan = (
        ("--record", record),
        ("--collect-on-fail", evidence),
        ("--root", root != "/"),
        ("--driver-root", driver_root),
    )
    for flag, value in (*scan, *((f"--{name}", value) for name, value in load.items())):
        if value:
            raise UsageError(
                f"{flag} goes with a scan of this machine, and --replay makes none: leave one of them out"
            )


def judge(files: Sequence[str], want: Wanted, show: Shown, memory: Memory) -> int:
    """Judge recordings, each by the profile named, else by its own, else by the one that matches.

    With a state's folder each is judged with its machine's past in mind, and stored there.

    What cannot be read does not keep the rest from being told; it ends in a usage error, unless a
    failure is proven.
    """
    output.refuse_unusable(show)
    plan = judging.prepare(want)
    reports, errors = [], []
    for file in files:
        try:
            recording = opened(file)
            store = remembering.told(recording, memory, own=remembering.of_this_machine(recording))
            reports.append(judging.judged(recording, file, plan))
            remembering.stored(store, reports[-1], "replay", memory)
        except GpuscanError as error:
            errors.append(str(error))
    code = output.tell(reports, show, many=len(files) > 1) if reports else 0
    if errors and not any(report.exit_code >= FAILED for report in reports):
        raise UsageError("\n".join(errors))
    if errors:
        complain("\n".join(f"gpuscan: {line}" for error in errors for line in error.splitlines()))
    return code


def diff(before: str, after: str, want: Wanted, wish: "SwapOptions", show: Shown) -> int:
    """Judge the recording *after* beside the recording *before*."""
    from gpuscan.swap.compare import compare_recordings

    output.refuse_unusable(show)
    plan = judging.prepare(want)
    return output.tell(
        [compare_recordings(opened(before), opened(after), plan, wish, (before, after))], show
    )


def collect(machine: Machine, file: str, *, redact: bool, profile: str, firmware: str = "") -> int:
    """Record this machine, with the firmware that a file lists."""
    from gpuscan.importers import firmware as bmc

    output.refuse_unwritable(file)
    rows = bmc.load(firmware) if firmware else []
    recording, stopped = scan(machine, None)
    if rows:
        bmc.add(recording, rows)
    if profile:
        recording.meta = recording.meta._replace(profile=profile)
    if redact:
        from gpuscan.recording import redaction

        recording = redaction.redact(recording)
    save(recording, file)
    number = sum(1 for _ in recording)
    missed = sum(reading.error is not None for reading in recording)
    complain(
        f"{file}: {number} readings, {missed} of them errors; judge it with gpuscan judge {file}"
    )
    return 128 + stopped if stopped else 0


def validate(names: Sequence[str]) -> int:
    """Load every profile and tell all mistakes, not just the first file's."""
    wrong = 0
    checks = judging.all_checks()
    for name in names:
        try:
            loaded = profile.load(name)
            judging.refuse_unknown_checks(loaded, checks)
            output.write(f"{name}: valid\n", "")
        except GpuscanError as error:
            wrong += 1
            complain("\n".join(f"gpuscan: {line}" for line in str(error).splitlines()))
    return 2 if wrong else 0


def capture(files: Sequence[str], machine: Machine, file: str) -> int:
    """Write the profile of good nodes; a node that a bundled profile or the common checks fail is
    refused.
    """
    from gpuscan.profile.capture import capture_profile

    if file and file != "-":
        output.refuse_unwritable(file)
    nodes = [_fit(file, opened(file)) for file in files] if files else [_exercised(machine)]
    output.write(capture_profile(nodes), file)
    return 0


def _exercised(machine: Machine) -> Node:
    """Return this node; where it is to be exercised, what refuses it without that does so before
    minutes are spent.
    """
    from gpuscan.profile.capture import capture_profile

    recording, stopped = scan(machine, None)
    if machine.wish.level != "passive" and not stopped:
        from gpuscan.burnin.exercise import run_burnin

        capture_profile([_fit("this node", recording)])
        stopped = run_burnin(machine, recording, judging.prepare(Wanted()))
    if stopped:
        raise UsageError("the scan was ended by a signal: nothing is captured of half a scan")
    return _fit("this node", recording)


def _fit(name: str, recording: Recording) -> Node:
    """A profile is a promise about good nodes: one that fails, or could not be read, must not make
    it.
    """
    node = collectors.node(recording)
    chosen, _ = profile.choose(node)
    report = verdict(Case(node, chosen._replace(vouches=True), judging.all_checks()))
    wrong = [result for result in report.results if result.status in (Status.FAIL, Status.UNKNOWN)]
    if wrong:
        what = wrong[0].findings[0].message if wrong[0].findings else wrong[0].reason
        told = f"{wrong[0].check} on {wrong[0].subject}: {what}"
        at = f" --level {recording.meta.level}" if recording.meta.level is not None else ""
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        see = f"see gpuscan run --profile {chosen.name}{at}"
        raise UsageError(f"{name} is no good node by profile {chosen.name}: {told}{more}; {see}")
    return node


def recorded(replay: str, machine: Machine) -> tuple[Recording, int]:
    """Return the recording to speak of, and the signal that cut it short: a file's, or this
    machine's.
    """
    return (opened(replay), 0) if replay else scan(machine, None)


SCHEMAS = ("profile", "recording", "report")


def schema(what: str) -> str:
    """Return a JSON Schema as text."""
    if what not in SCHEMAS:
        raise UsageError(f"no schema '{what}': {near_misses(what, list(SCHEMAS), 'schemas')}")
    return schema_text(what)
