"""What the commands do: each takes plain values, returns an exit code, and raises GpuscanError to be told about."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan import collectors, judging, output, profile
from gpuscan.errors import GpuscanError, UsageError, complain, near_misses
from gpuscan.facts import Node
from gpuscan.judging import Wanted
from gpuscan.outcome import Status
from gpuscan.output import Shown
from gpuscan.recording import Recording, load, patch, save
from gpuscan.verdict import Case
from gpuscan.verdict import judge as verdict

DEMOS = ("demo", "demo-broken")
FAILED = 20  # exit codes from here on are proven failures


class Machine(NamedTuple):
    """A live scan: the one that began at start (or None), the roots to read below, the seconds it may take."""

    scanner: Any
    root: str
    driver_root: str
    deadline_s: float


def run(machine: Machine, want: Wanted, show: Shown, record: str) -> int:
    """Scan and judge this machine."""
    output.refuse_unusable(show)
    plan = judging.prepare(want)
    if record:
        output.refuse_unwritable(record)
    recording, stopped = _scan(machine, want)
    trouble = _kept(recording, record, plan) if record else ""
    report = judging.judged(recording, "", plan)
    code = output.tell([report], show)
    if trouble and report.exit_code < FAILED:
        raise UsageError(trouble)
    if trouble:
        complain(f"gpuscan: {trouble}")
    return 128 + stopped if stopped else code


def _kept(recording: Recording, file: str, plan: judging.Plan) -> str:
    """Save a recording before it is judged, and return what went wrong: that must not cost the verdict."""
    recording.meta |= judging.provenance(recording, plan)
    try:
        save(recording, file)
    except GpuscanError as error:
        return str(error)
    return ""


def refuse_with_replay(record: str | None, root: str, driver_root: str | None) -> None:
    """Raise UsageError for options that only a scan of this machine can follow."""
    for flag, value in (("--record", record), ("--root", root != "/"), ("--driver-root", driver_root)):
        if value:
            raise UsageError(f"{flag} goes with a scan of this machine, and --replay makes none: leave one of them out")


def judge(files: Sequence[str], want: Wanted, show: Shown) -> int:
    """Judge recordings, each by the profile named, else by its own, else by the one that matches.

    What cannot be read does not keep the rest from being told; it ends in a usage error, unless a failure is proven.
    """
    output.refuse_unusable(show)
    plan = judging.prepare(want)
    reports, errors = [], []
    for file in files:
        try:
            reports.append(judging.judged(opened(file), file, plan))
        except GpuscanError as error:
            errors.append(str(error))
    code = output.tell(reports, show, many=len(files) > 1) if reports else 0
    if errors and not any(report.exit_code >= FAILED for report in reports):
        raise UsageError("\n".join(errors))
    if errors:
        complain("\n".join(f"gpuscan: {line}" for error in errors for line in error.splitlines()))
    return code


def collect(machine: Machine, file: str, *, redact: bool, profile: str) -> int:
    """Record this machine."""
    output.refuse_unwritable(file)
    recording, stopped = _scan(machine, None)
    if profile:
        recording.meta["profile"] = profile
    if redact:
        from gpuscan.redaction import redacted

        recording = redacted(recording)
    save(recording, file)
    number = sum(1 for _ in recording)
    missed = sum(reading.error is not None for reading in recording)
    complain(f"{file}: {number} readings, {missed} of them errors; judge it with gpuscan judge {file}")
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
    """Write the profile of good nodes; a node that a bundled profile or the common checks fail is refused."""
    from gpuscan.capture import captured

    recordings = [opened(file) for file in files] if files else [_scan(machine, None)[0]]
    nodes = []
    for name, recording in zip(files or ["this node"], recordings, strict=True):
        node = collectors.node(recording)
        _refuse_unfit(name, node)
        nodes.append(node)
    output.write(captured(nodes), file)
    return 0


def _refuse_unfit(name: str, node: Node) -> None:
    """A profile is a promise about good nodes: one that fails, or could not be read, must not make it."""
    chosen, _ = profile.choose(node)
    report = verdict(Case(node, chosen._replace(vouches=True), judging.all_checks()))
    wrong = [result for result in report.results if result.status in (Status.FAIL, Status.UNKNOWN)]
    if wrong:
        what = wrong[0].findings[0].message if wrong[0].findings else wrong[0].reason
        told = f"{wrong[0].check} on {wrong[0].subject}: {what}"
        raise UsageError(f"{name} is no good node by profile {chosen.name}: {told}; see gpuscan run --profile {chosen.name}")


def _scan(machine: Machine, want: Wanted | None) -> tuple[Recording, int]:
    """Return this machine's recording: from the scan begun at start, if that reads what is wanted, else from a new one."""
    from gpuscan.source.scanner import Request, Scanner

    if "GPUSCAN_LIMITS" in os.environ:
        from gpuscan.source.live import limits_from

        limits_from(os.environ["GPUSCAN_LIMITS"])  # the scan's process reads it, too, but nobody would see it complain
    for folder in (machine.root, machine.driver_root):
        if folder and not os.path.isdir(folder):
            raise UsageError(f"{folder}: no such folder")
    names = judging.cards_named(want.gpus) if want and want.gpus else []
    cards = tuple(names) if all(":" in name for name in names) else ()  # whoever is named otherwise must be looked for
    request = Request(machine.root, machine.driver_root, machine.deadline_s, cards)
    scanner = machine.scanner
    if scanner is not None and scanner.request != request:
        scanner.cancel()
        scanner = None
    return (scanner or Scanner(request)).finish()


def opened(file: str) -> Recording:
    """Load a recording, or one of the demos that come with gpuscan."""
    if file not in DEMOS:
        return load(file)
    here = os.path.dirname(os.path.abspath(__file__))
    demo = load(os.path.join(here, "demo.json.gz"))
    if file == "demo":
        return demo
    import json

    with open(os.path.join(here, "demo-broken.json"), encoding="utf-8") as changes:
        faults = json.load(changes)
    return patch(demo, faults["set"], faults["log"])


def recorded(replay: str, machine: Machine) -> tuple[Recording, int]:
    """Return the recording to speak of, and the signal that cut it short: a file's, or this machine's."""
    return (opened(replay), 0) if replay else _scan(machine, None)


SCHEMAS = ("profile", "recording", "report")


def schema(what: str) -> str:
    """Return a JSON Schema as text."""
    if what not in SCHEMAS:
        raise UsageError(f"no schema '{what}': {near_misses(what, list(SCHEMAS), 'schemas')}")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "schemas", f"{what}.schema.json"), encoding="utf-8") as file:
        return file.read()
