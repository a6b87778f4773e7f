"""What the commands do: each takes plain values, returns an exit code, and raises GpuscanError to be told about."""

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan import __version__, collectors, profile, renderers, suite
from gpuscan.collectors.kernel import pci_address
from gpuscan.errors import GpuscanError, ProfileError, UsageError, near_misses
from gpuscan.facts import Node, is_unread
from gpuscan.outcome import EXIT_INCOMPLETE, EXIT_STYLES, Report, Status, worst_exit_code
from gpuscan.recording import Recording, load, patch, save, write_beside
from gpuscan.verdict import Case
from gpuscan.verdict import judge as verdict

DEMOS = {"demo": "h200-4x", "demo-broken": "h200-4x"}


class Machine(NamedTuple):
    """A live scan: the one that began at start (or None), the roots to read below, the seconds it may take."""

    scanner: Any
    root: str
    driver_root: str
    deadline_s: float


class Wanted(NamedTuple):
    """What to judge by: profile and settings, selectors of checks, cards, further folders of checks."""

    profile: str
    settings: Sequence[str]
    only: Sequence[str]
    skip: Sequence[str]
    gpus: str
    checks: Sequence[str]
    busy: bool = False


WANT_ALL = Wanted("auto", (), (), (), "", ())


class Shown(NamedTuple):
    """How to tell it: format, file, verbosity (-1 one line, 0, 1 all), exit style, `warn` to fail on warnings.

    *files* are further (format, file) pairs: one scan feeds several readers.
    """

    format: str
    output: str
    verbosity: int
    exit_style: str
    fail_on: str
    files: Sequence[tuple[str, str]] = ()


class Plan(NamedTuple):
    """A judgement prepared before the machine is touched, so that a typing error costs no scan."""

    checks: tuple[suite.Check, ...]
    skipped: frozenset[str]
    named: profile.Profile | None
    want: Wanted


def run(machine: Machine, want: Wanted, show: Shown, record: str) -> int:
    """Scan and judge this machine."""
    plan = _prepare(want, show)
    if record:
        _refuse_unwritable(record)
    recording, stopped = _scan(machine, want)
    if plan.named is not None:
        recording.meta["profile"] = plan.named.name
    report = _judged(recording, "", plan)
    if record:
        save(recording, record)
    code = _tell([report], show)
    return 128 + stopped if stopped else code


def judge(files: Sequence[str], want: Wanted, show: Shown) -> int:
    """Judge recordings, each by the profile named, else by its own, else by the one that matches.

    What cannot be read does not keep the rest from being told; it ends in a usage error all the same.
    """
    plan = _prepare(want, show)
    reports, errors = [], []
    for file in files:
        try:
            reports.append(_judged(opened(file), file, plan))
        except GpuscanError as error:
            errors.append(str(error))
    code = _tell(reports, show, many=len(files) > 1) if reports else 0
    if errors:
        raise UsageError("\n".join(errors))
    return code


def collect(machine: Machine, file: str, *, redact: bool, profile: str) -> int:
    """Record this machine."""
    _refuse_unwritable(file)
    recording, stopped = _scan(machine, None)
    if profile:
        recording.meta["profile"] = profile
    if redact:
        from gpuscan.redaction import redacted

        recording = redacted(recording)
    save(recording, file)
    number = sum(1 for _ in recording)
    missed = sum(reading.error is not None for reading in recording)
    print(f"{file}: {number} readings, {missed} of them errors; judge it with gpuscan judge {file}", file=sys.stderr)
    return 128 + stopped if stopped else 0


def validate(names: Sequence[str]) -> int:
    """Load every profile and tell all mistakes, not just the first file's."""
    wrong = 0
    for name in names:
        try:
            loaded = profile.load(name)
            _refuse_unknown_checks(loaded, all_checks([]), WANT_ALL)
            print(f"{name}: valid")
        except GpuscanError as error:
            wrong += 1
            print(*(f"gpuscan: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
    return 2 if wrong else 0


def capture(files: Sequence[str], machine: Machine, output: str) -> int:
    """Write the profile of good nodes; a node that a bundled profile or the common checks fail is refused."""
    from gpuscan.capture import captured

    recordings = [opened(file) for file in files] if files else [_scan(machine, None)[0]]
    nodes = []
    for name, recording in zip(files or ["this node"], recordings, strict=True):
        node = collectors.node(recording)
        _refuse_unfit(name, node)
        nodes.append(node)
    write(captured(nodes), output)
    return 0


def _refuse_unfit(name: str, node: Node) -> None:
    """A profile is a promise about good nodes: one that fails, or could not be read, must not make it."""
    chosen, _ = profile.choose(node)
    report = verdict(Case(node, chosen._replace(vouches=True), all_checks([])))
    wrong = [result for result in report.results if result.status in (Status.FAIL, Status.UNKNOWN)]
    if wrong:
        what = wrong[0].findings[0].message if wrong[0].findings else wrong[0].reason
        told = f"{wrong[0].check} on {wrong[0].subject}: {what}"
        raise UsageError(f"{name} is no good node by profile {chosen.name}: {told}; see gpuscan run --profile {chosen.name}")


def _refuse_unwritable(file: str) -> None:
    folder = os.path.dirname(os.path.abspath(file))
    if not os.path.isdir(folder):
        raise UsageError(f"{file}: there is no folder {folder}")


def _prepare(want: Wanted, show: Shown) -> Plan:
    renderers.find(show.format)
    if show.exit_style not in ("full", *EXIT_STYLES):
        known = near_misses(show.exit_style, ["full", *EXIT_STYLES], "exit styles")
        raise UsageError(f"unknown exit style '{show.exit_style}': {known}")
    if show.fail_on not in ("", "warn"):
        raise UsageError(f"--fail-on {show.fail_on}: only 'warn' can be given; failures always count")
    for format_, file in show.files:
        renderers.find(format_)
        _refuse_unwritable(file)
    if show.output and show.output != "-":
        _refuse_unwritable(show.output)
    checks, skipped = suite.select(all_checks(want.checks), want.only, want.skip)
    named = None if want.profile == "auto" else profile.load(want.profile, want.settings)
    if named is not None:
        _refuse_unknown_checks(named, checks, want)
    return Plan(checks, skipped, named, want)


def _refuse_unknown_checks(named: profile.Profile, checks: Sequence[suite.Check], want: Wanted) -> None:
    known = [one.id for one in checks]
    strangers = [name for name in (*named.data["skip"], *named.data["optional"]) if name not in known]
    if strangers and not want.only:
        raise ProfileError(f"profile {named.name}: no check is called {strangers[0]}: {near_misses(strangers[0], known, 'checks')}")


def _scan(machine: Machine, want: Wanted | None) -> tuple[Recording, int]:
    """Return this machine's recording: from the scan begun at start, if that reads what is wanted, else from a new one."""
    from gpuscan.source.scanner import Request, Scanner

    for folder in (machine.root, machine.driver_root):
        if folder and not os.path.isdir(folder):
            raise UsageError(f"{folder}: no such folder")
    names = _cards_named(want.gpus) if want and want.gpus else []
    cards = tuple(names) if all(":" in name for name in names) else ()  # whoever is named otherwise must be looked for
    request = Request(machine.root, machine.driver_root, machine.deadline_s, cards)
    scanner = machine.scanner
    if scanner is not None and scanner.request != request:
        scanner.cancel()
        scanner = None
    return (scanner or Scanner(request)).finish()


def _cards_named(gpus: str) -> list[str]:
    """Split the list that `--gpus` was given; PCI addresses may be in upper case, with a long domain or with none.

    >>> _cards_named("00000000:1B:00.0, 1b:00.0, SXM2")
    ['0000:1b:00.0', '0000:1b:00.0', 'SXM2']
    """
    import re

    names = [name.strip() for name in gpus.split(",")]
    shape = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?")
    addresses = [name if name.count(":") > 1 else f"0000:{name}" for name in names]
    return [pci_address(address) if shape.fullmatch(name) else name for name, address in zip(names, addresses, strict=True)]


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
    return patch(restore_copy(demo), faults["set"], faults["log"])


def restore_copy(recording: Recording) -> Recording:
    """Return a copy whose meta data may be changed."""
    return Recording(recording.meta, recording.scope, list(recording))


def recorded(replay: str, machine: Machine) -> tuple[Recording, int]:
    """Return the recording to speak of, and the signal that cut it short: a file's, or this machine's."""
    return (opened(replay), 0) if replay else _scan(machine, None)


def _judged(recording: Recording, file: str, plan: Plan) -> Report:
    node = collectors.node(recording)
    chosen, note = _profile_of(recording, node, plan)
    notes = [note] if note else []
    if plan.want.gpus:
        node, chosen, told = _restricted(node, chosen, plan.want.gpus)
        notes.append(told)
    if recording.meta.get("synthetic"):
        notes.append("this recording is synthetic")
    if "ended_by_signal" in recording.meta:
        notes.append(f"the scan was ended by signal {recording.meta['ended_by_signal']}: this report is partial")
    run_facts = {
        "gpuscan_version": __version__,
        "started_at": _utc(recording.meta.get("made_at")),
        "duration_s": recording.meta.get("duration_s"),
        "level": "passive",
        "profile": {"name": chosen.name, "vouches": chosen.vouches, "chosen": note or "named"},
        "recording": file or None,
        "synthetic": bool(recording.meta.get("synthetic")),
        "context": "busy" if plan.want.busy else "idle",
        "drill": False,
        "ended_by_signal": recording.meta.get("ended_by_signal"),
        "scope": list(recording.scope) if not plan.want.gpus else [f"gpus: {plan.want.gpus}"],
        "selected": list(plan.want.only),
    }
    report = verdict(Case(node, chosen, plan.checks, plan.skipped, run_facts, tuple(notes), plan.want.busy))
    return _partial(report) if "ended_by_signal" in recording.meta else report


def _partial(report: Report) -> Report:
    """A scan that was cut short proves faults, but never health."""
    if report.exit_code == 0:
        report = report._replace(verdict="incomplete", exit_code=EXIT_INCOMPLETE)
    return report._replace(complete=False)


def _profile_of(recording: Recording, node: Node, plan: Plan) -> tuple[profile.Profile, str]:
    if plan.named is not None:
        return plan.named, f"profile {plan.named.name}"
    own = recording.meta.get("profile")
    if own:
        if str(own) not in profile.known_names():  # a name only: a recording is data and must not point at files
            raise ProfileError(f"profile {own}, named in the recording, is not known here: name one with --profile")
        return profile.load(str(own), plan.want.settings), f"profile {own}, named in the recording"
    return profile.choose(node, plan.want.settings)


def _restricted(node: Node, chosen: profile.Profile, gpus: str) -> tuple[Node, profile.Profile, str]:
    total = 0 if is_unread(node.gpus) else len(node.gpus)
    node = profile.only_gpus(node, _cards_named(gpus))
    data = {**chosen.data, "skip": {**chosen.data["skip"], **dict.fromkeys(COUNTING, "--gpus leaves cards out")}}
    return node, chosen._replace(data=data), f"{len(node.gpus)} of {total} cards are judged (--gpus)"


COUNTING = ("inventory.card_count", "inventory.counted_alike")


def report_files(words: Sequence[str]) -> list[tuple[str, str]]:
    """Split `--report junit=a.xml` into format and file; raises UsageError for another shape."""
    pairs = [word.partition("=") for word in words]
    for word, (format_, _, file) in zip(words, pairs, strict=True):
        if not format_ or not file:
            raise UsageError(f"--report {word}: write it as FORMAT=FILE, as in --report junit=gpuscan.xml")
    return [(format_, file) for format_, _, file in pairs]


def busy(context: str) -> bool:
    """Return whether `--context` says that jobs run on the node."""
    if context not in ("idle", "busy"):
        raise UsageError(f"--context {context}: a node is idle (drained) or busy (jobs run on it)")
    return context == "busy"


def all_checks(folders: Sequence[str]) -> tuple[suite.Check, ...]:
    """Return the bundled checks and those of further folders."""
    return suite.load([suite.bundled("checks"), *folders])


def _utc(seconds: Any) -> str | None:
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if isinstance(seconds, (int, float)) else None


def _tell(reports: Sequence[Report], show: Shown, *, many: bool = False) -> int:
    """Print the reports, one line or array item each where there are *many*, and return the exit code of the worst."""
    if show.format == "text" and not show.output and _on_terminal():
        from gpuscan.renderers import terminal

        terminal.show(reports, verbosity=show.verbosity, many=many)
    else:
        write(renderers.find(show.format)(reports, verbosity=show.verbosity, many=many), show.output)
    for format_, file in show.files:
        write(renderers.find(format_)(reports, verbosity=show.verbosity, many=many), file)
    return worst_exit_code(reports, show.exit_style, fail_on_warn=show.fail_on == "warn")


def _on_terminal() -> bool:
    return (sys.stdout is not None and sys.stdout.isatty()) or os.environ.get("FORCE_COLOR", "") not in ("", "0")


def write(text: str, output: str) -> None:
    """Write a result to standard output, or to a file beside its place and rename it there."""
    data = text.encode("utf-8", "surrogateescape")
    if output and output != "-":
        write_beside(output, data)
        return
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, AttributeError) as error:  # a full disk, or started with standard output closed
        mute()
        raise UsageError(f"standard output cannot be written: {getattr(error, 'strerror', '') or 'it is closed'}") from None


def mute() -> None:
    """Send standard output nowhere: what is still in its buffer cannot reach anybody, and the flush at exit must not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


SCHEMAS = ("profile", "recording", "report")


def schema(what: str) -> str:
    """Return a JSON Schema as text."""
    if what not in SCHEMAS:
        raise UsageError(f"no schema '{what}': {near_misses(what, list(SCHEMAS), 'schemas')}")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "schemas", f"{what}.schema.json"), encoding="utf-8") as file:
        return file.read()
