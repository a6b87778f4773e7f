"""Text for people: worst first, equal subjects folded, the next action last."""

from collections.abc import Iterator, Sequence

from gpuscan.engine.blame import IDENTITY, Target
from gpuscan.engine.case import HOLD_CHECK, PROFILE_CHECK
from gpuscan.engine.report import Report
from gpuscan.model import read_or
from gpuscan.model.devices import model_name
from gpuscan.model.outcome import EXIT_OK, EXIT_WARN, Action, Status
from gpuscan.model.report_rows import BlindSpot
from gpuscan.renderers.findings import count_statuses, render_results
from gpuscan.renderers.headline import headline, is_of_proof, partial_lines, shown_code
from gpuscan.renderers.lines import INDENT, Line, indented
from gpuscan.text import counted, printable

VERDICT_STYLES = {"pass": "bold green", "warn": "bold yellow", "incomplete": "bold magenta"}
FAILED_STYLE = "bold red"
MOST_UNREAD = 6  # facts that were not read and are named
NEXT = {
    "pass": "This node may go to work.",
    "warn": "This node may go to work; see the warnings.",
    "partial": (
        "Nothing is wrong in what was judged, and that is not the whole node: judge the rest "
        "before it goes to work."
    ),
    "swap": (
        "Nothing is wrong in what was judged, but a swap is under way: run gpuscan swap verify "
        "before the node goes to work."
    ),
    "full-required": (
        "Incomplete: keep the node drained. --require-full asks for the whole node: judge it "
        "without what left the rest out."
    ),
    "fail-on-warn": (
        "Warnings count as failures (--fail-on warn): keep the node drained until "
        "they are resolved."
    ),
    "incomplete": (
        "Incomplete: keep the node drained. Run `gpuscan doctor` to see what could not "
        "be read, then rerun."
    ),
    "incomplete-file": (
        "Incomplete: keep the node drained. This input does not show all that the verdict needs."
    ),
    "proof": (
        "Incomplete: keep the node drained. Mend what kept the proof from its end, then run it "
        "again."
    ),
    "no-profile": "Incomplete: keep the node drained. Name a profile, or write one, then rerun.",
}


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the reports as plain text."""
    return "".join(f"{line.text}\n" for line in lines(reports, verbosity=verbosity, many=many))


def lines(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> list[Line]:
    """Return the lines of one report, or one line for each report where there are *many*."""
    if many or verbosity < 0:
        whole = [_one_line(report, named=many) for report in reports]
    else:
        (report,) = reports
        results = render_results(report.results, verbosity=verbosity)
        whole = [
            *_head(report),
            Line(""),
            *results,
            *([Line("")] if results else []),
            *_gpus(report, verbosity),
            *_changes(report, verbosity),
            *_burnin(report, verbosity),
            *_proof(report),
            *_tail(report, verbosity),
        ]
    return [line._replace(text=printable(line.text)) for line in whole]


def _one_line(report: Report, *, named: bool) -> Line:
    text = headline(report) + ("; held" if report.hold_told else "")
    if named:
        return Line(f"{report.run.recording}: {text}")
    return Line(text, VERDICT_STYLES.get(report.verdict, FAILED_STYLE), len(text))


def _head(report: Report) -> Iterator[Line]:
    version = report.run.gpuscan_version
    node = read_or(report.host.hostname, "") or report.run.recording or "this node"
    module = read_or(report.software.module_version, "")
    driver = f", driver {module}" if module else ""
    yield Line(f"gpuscan {version}  {node}: {_models(report)}{driver}")
    yield from map(indented, report.notes)


def _models(report: Report) -> str:
    """Count the GPUs by model; one that does not answer is of the model that its device id has."""
    names: dict[str, list[str]] = {}
    for part in report.parts:
        if part.kind == "gpu":
            model = model_name(part.device_id) if part.device_id else "NVIDIA GPU"
            names.setdefault(model, []).append(part.name or "")
    if names:
        return ", ".join(f"{len(same)} x {max(same) or model}" for model, same in names.items())
    unlisted = any(spot.fact == "gpus" for spot in report.blind_spots)
    return "GPUs not read" if unlisted else "no NVIDIA GPU"


def _gpus(report: Report, verbosity: int) -> list[Line]:
    """Show what was measured on the GPUs, if everything is to be shown."""
    if verbosity < 1:
        return []
    from gpuscan.renderers import gpus

    return gpus.lines(report)


def _changes(report: Report, verbosity: int) -> list[Line]:
    """Say what a comparison with an earlier recording found, where there was one."""
    if not report.changes:
        return []
    from gpuscan.renderers import changed

    first, *rest = changed.lines(report.changes, whole=verbosity > 0)
    return [indented(first, "Changed: "), *map(indented, rest)]


def _burnin(report: Report, verbosity: int) -> list[Line]:
    """Show what a burn-in measured, where there was one."""
    if not any(row.test is not None for row in report.measurements):
        return []
    from gpuscan.renderers import burnin

    return burnin.lines(report, whole=verbosity > 0)


def _proof(report: Report) -> list[Line]:
    """Show what became of the faults that the node is held for, where a burn-in exercised any."""
    if not report.run.proof and not any(row.seconds for row in report.proof):
        return []
    from gpuscan.renderers import proof

    return list(proof.lines(report.proof))


def _tail(report: Report, verbosity: int) -> Iterator[Line]:
    if verbosity == 0:
        yield from _left_out(report)
    label = f"Verdict: {report.verdict}"
    failed = report.action is not Action.NONE
    complete = ", not all was read" if failed and not report.complete else ""
    counts = count_statuses(report.results)
    yield Line(
        f"{label} (exit code {shown_code(report)}{complete}); {counts}",
        VERDICT_STYLES.get(report.verdict, FAILED_STYLE),
        len(label),
    )
    yield from (Line(text, hang=len(INDENT)) for text in partial_lines(report))
    yield from _next(report)
    if report.proposed:
        from gpuscan.renderers import proof

        yield indented(proof.proposal(report.proposed), "Prove:   ")


def _left_out(report: Report) -> Iterator[Line]:
    """Name what could have been read and was not, else say that -v shows what was skipped."""
    spots = [spot for spot in report.blind_spots if _could_be_read(spot)]
    unique = list(dict.fromkeys(_short_name(spot.fact) for spot in spots))
    skipped = sum(result.status is Status.SKIP for result in report.results)
    more = f" and {len(unique) - MOST_UNREAD} more" if len(unique) > MOST_UNREAD else ""
    if unique:
        yield indented(f"{', '.join(unique[:MOST_UNREAD])}{more} (-v shows why)", "Not read: ")
    elif skipped and not report.blind_spots:
        yield Line(f"{counted(skipped, 'check was', 'checks were')} skipped (-v shows why)")


def _could_be_read(spot: BlindSpot) -> bool:
    """Return whether a fact is one that this kind of scan reads, on this hardware."""
    if spot.kind == "not-recorded":
        return spot.fact.startswith("changes[]")
    return spot.kind != "not-supported"


def _short_name(fact: str) -> str:
    if fact.startswith("changes[].identity"):
        return "where cables lead"
    if fact.startswith("changes[]"):
        return "what identifies parts"
    if fact.endswith(".growth"):
        return "growth of counters"
    return fact.removeprefix("gpus[].").split(".")[0].replace("[]", "")


def _next(report: Report) -> Iterator[Line]:
    """Say what to do with the node, to which parts, and how to see that it worked."""
    if report.action is not Action.NONE:
        from gpuscan.engine.steps import find_steps

        steps = find_steps(report)
        for step in steps:
            yield indented(step.todo, "Next:    " if step is steps[0] else "Also:    ")
            yield from (indented(_identity(target)) for target in step.targets)
        for number, proof in enumerate(dict.fromkeys(step.proof for step in steps)):
            yield indented(proof, INDENT if number else "Then:    ")
        yield from _held(report)
        return
    yield Line(NEXT[_outlook(report)])


def _outlook(report: Report) -> str:
    """Return the key of NEXT: the verdict, or the one thing that stands behind it."""
    if report.exit_code == EXIT_WARN:
        return "fail-on-warn"
    if report.exit_code == EXIT_OK and (report.swap_left or report.partial):
        return "swap" if report.swap_left else "partial"
    if report.partial and report.run.require_full and _is_read(report):
        return "full-required"
    unknown = {result.check for result in report.results if result.status is Status.UNKNOWN}
    if unknown == {PROFILE_CHECK}:
        return "no-profile"
    if report.run.proof and unknown and all(map(is_of_proof, unknown)):
        return "proof"
    is_file = report.verdict == "incomplete" and report.run.recording is not None
    return "incomplete-file" if is_file else report.verdict


def _is_read(report: Report) -> bool:
    return all(result.status is not Status.UNKNOWN for result in report.results)


def _held(report: Report) -> Iterator[Line]:
    """Say what is held, and what lifts it, as far as no finding says so already."""
    if not report.held:
        return
    from gpuscan.engine.lifting import lifted_by

    told = {
        (finding.same, result.subject)
        for result in report.results
        if result.check == HOLD_CHECK
        for finding in result.findings
    }
    by_proof: dict[str, dict[str, None]] = {}
    for one in report.held:
        if not one.asleep and (one.check, one.subject) not in told:
            subject = one.subject.replace(":", " ", 1)
            by_proof.setdefault(lifted_by(one), {})[f"{subject} ({one.check})"] = None
    for proof, names in by_proof.items():
        yield indented(f"{', '.join(names)}: {proof}", "Held:    ")
    if report.hold_told:
        yield indented(report.hold_told)


def _identity(target: Target) -> str:
    named = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in zip(IDENTITY, target[1:], strict=True)
        if value
    ]
    return f"{target.subject.replace(':', ' ', 1)}{': ' if named else ''}{', '.join(named)}"
