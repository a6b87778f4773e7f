"""Run the checks: each on each of its subjects, through a lens that logs what was read."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscan.engine.case import Case
from gpuscan.engine.explain import all_needs, explained, is_wrong
from gpuscan.engine.fitting import fit_profile
from gpuscan.engine.lens import FactLog, ProfileLens, look
from gpuscan.engine.status import Outcome, derive_status, open_expectation, saw_only_empty_lists
from gpuscan.engine.suite import Check, call
from gpuscan.model import Node, Unread, is_unread
from gpuscan.model.outcome import Finding, Result, Root, SkipReason, Status
from gpuscan.model.subject import NODE, Subject

NOUNS = {
    "gpu": "NVIDIA GPU",
    "port": "InfiniBand port",
    "incident": "incident",
    "node": "node",
    "change": "such part",
    "service": "service",
    "test": "such test in this burn-in",
}
OTHER_INPUTS = {
    "change": "nothing was compared (gpuscan diff does that)",
    "test": "nothing was exercised (--level quick does that)",
}


def run_checks(case: Case) -> tuple[Result, ...]:
    """Return the results of all checks of a case, in their order."""
    needs = all_needs(case.checks)
    other_input = {one.id for one in case.checks if _needs_other_input(one, case.node)}
    results: list[Result] = []
    for one in case.checks:
        if one.id in other_input:
            if len(other_input) == len(case.checks):  # else nothing would be reported at all
                results.append(_skip(one, *_describe_other_input(one)))
        else:
            results += _run(one, case, _silent_parts(results, needs[one.id], case))
    return tuple(results)


def _run(one: Check, case: Case, silent: Mapping[str, Root]) -> list[Result]:
    if one.id in case.skipped:
        return [_skip(one, "left out by --skip", SkipReason.LEFT_OUT)]
    skip = case.profile.data["skip"]
    if one.id in skip:
        reason = f"not judged by this profile: {skip[one.id]}"
        return [_skip(one, reason, SkipReason.NOT_JUDGED)]
    results = [
        _examine(one, path, record, case, silent) for path, record in _subjects(one, case.node)
    ]
    return results or [_without_subject(one, case.node)]


def _silent_parts(results: list[Result], needs: frozenset[str], case: Case) -> dict[str, Root]:
    """Return, by address, the parts that a needed check reported, with its first result."""
    silent: dict[str, Root] = {}
    if not needs:
        return silent
    for one in results:
        if one.check not in needs or not one.address:
            continue
        if is_wrong(one, case) and (one.findings or one.unread):
            silent.setdefault(one.address, Root(one.check, one.about))
    return silent


def _needs_other_input(one: Check, node: Node) -> bool:
    """Return whether a check has nothing to say on this kind of input.

    So it is on swaps or burn-ins where there was none, and on what only other tools report.
    """
    absent = (one.subject == "change" and not node.changes) or (
        one.subject == "test" and not is_unread(node.tests) and not node.tests
    )
    return absent or (one.mark.imported and not node.imported)


def _describe_other_input(one: Check) -> tuple[str, SkipReason]:
    why = OTHER_INPUTS.get(one.subject, "no scan asks for it, another tool's output tells it")
    return f"does not apply: {why}", SkipReason.OTHER_INPUT


def _skip(one: Check, reason: str, skip_reason: SkipReason) -> Result:
    return Result(one.id, NODE, Status.SKIP, one.title, reason, skip_reason=skip_reason)


def _subjects(one: Check, node: Node) -> Iterator[tuple[str, Any]]:
    """Yield (path, record) of each subject; a list that was not read stands for itself, once."""
    if one.subject == NODE.kind:
        yield "", node
        return
    records = getattr(node, f"{one.subject}s")
    if is_unread(records):
        yield f"{one.subject}s", records
        return
    kinds = one.mark.kinds
    for record in records:
        if not kinds or record.kind in kinds:
            yield f"{one.subject}s[{record.label}]", record


def _without_subject(one: Check, node: Node) -> Result:
    """Return the result of a check without subjects: an empty log is a pass if it is whole."""
    if one.subject != "incident":
        reason = f"does not apply: no {NOUNS[one.subject]} in this node"
        return _skip(one, reason, SkipReason.NOT_APPLICABLE)
    log: Any = node.kernel_log
    if log.whole is True:
        return Result(one.id, NODE, Status.PASS, one.title)
    reason = "what is left of this boot's log is silent, its beginning is gone"
    return _skip(one, reason, SkipReason.SILENT_LOG)


def _examine(one: Check, path: str, record: Any, case: Case, silent: Mapping[str, Root]) -> Result:
    own = getattr(record, "address", None)  # what was read of the subject itself is judged
    log = FactLog(case.node.sources, frozenset(silent) - {own})
    if is_unread(record):
        log.add_missing(path, record)
        outcome = derive_status((), log.missing, case.profile)
        return _result(one, NODE, outcome, log)
    profile = fit_profile(case.profile, record)
    answer = call(one, look(record, path, log), ProfileLens(profile, profile.data, "", log))
    if answer.crash:
        last = answer.crash.splitlines()[-1]
        log.add_missing(path, Unread(one.file, "garbled", f"the check itself crashed: {last}"))
    findings = answer.findings
    if case.busy:
        findings = tuple(_ease(one, finding) for finding in findings)
    outcome = derive_status(findings, log.missing, profile)
    if answer.not_judged and outcome.status is Status.PASS:
        outcome = open_expectation(answer.not_judged, profile)
    if outcome.status is Status.PASS and saw_only_empty_lists(log):
        reason = "does not apply: nothing in this node to compare"
        outcome = Outcome(Status.SKIP, reason, SkipReason.NOTHING_TO_COMPARE)
    result = _result(one, _subject_of(one, record), outcome, log, findings, answer.crash)
    if log.left_out and outcome.status is Status.PASS:
        return explained(result, silent[log.left_out[0]])
    return result


def _result(
    one: Check,
    about: Subject,
    outcome: Outcome,
    log: FactLog,
    findings: tuple[Finding, ...] = (),
    crash: str = "",
) -> Result:
    return Result(
        check=one.id,
        about=about,
        status=outcome.status,
        title=one.title,
        reason=outcome.reason,
        findings=findings,
        evidence=tuple(log.reads),
        unread=tuple(log.missing),
        traceback=crash,
        skip_reason=outcome.skip_reason,
        finds_corruption=one.mark.finds_corruption,
        shows_measurements=one.mark.shows_measurements,
    )


def _subject_of(one: Check, record: Any) -> Subject:
    if one.subject == NODE.kind:
        return NODE
    about = Subject(one.subject, record.label, getattr(record, "address", None))
    if one.subject == "incident":
        return about._replace(entry=record.entry)
    if one.subject == "test":
        return about._replace(gpu=record.gpu, test=record.name, peer=record.to)
    return about


def _ease(one: Check, finding: Finding) -> Finding:
    waits = one.mark.jobs or finding.urgency == "next-idle"
    return finding._replace(severity=Status.WARN) if waits else finding
