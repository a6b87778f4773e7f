"""From node, profile and checks to a report: run each check, explain echoes by their root, ask the
past, conclude.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.engine import hold
from gpuscan.engine.conclude import Circumstance, conclude, worst_action
from gpuscan.engine.escalation import escalated, marked
from gpuscan.engine.lens import FactLog, ProfileLens, look
from gpuscan.engine.pairs import blame_common_ends
from gpuscan.engine.report import Report
from gpuscan.engine.reported import incidents_of, parts_of, plain
from gpuscan.engine.slots import of_the_slot
from gpuscan.engine.suite import Check, aliases, call
from gpuscan.model import Node, Unread, is_unread
from gpuscan.model.outcome import HARMLESS, Action, Finding, Result, Status
from gpuscan.profile import Profile
from gpuscan.profile.keys import is_choice

NOUNS = {
    "gpu": "NVIDIA GPU",
    "port": "InfiniBand port",
    "incident": "incident",
    "node": "node",
    "change": "such part",
    "service": "service",
    "test": "such test in this burn-in",
}
SHARED_FROM_GPUS = 3
HOLD_ALIASES = {"history.no_hold_stands": hold.CHECK}
Needs = Mapping[str, frozenset[str]]
LISTS = ("gpus", "ports", "app_errors", "complaints")
EVERY_GPU_GIVES = ("access", "device_id", "kernel_driver", "name", "uuid")  # no GPU lacks these


class Case(NamedTuple):
    """All that a judgement needs beside the checks; *skipped* are the ids that the user left out.

    On a *busy* node what its jobs cause, and what may wait until they end, only warns.
    """

    node: Node
    profile: Profile
    checks: Sequence[Check]
    skipped: frozenset[str] = frozenset()
    run: Mapping[str, Any] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    busy: bool = False
    circumstances: frozenset[Circumstance] = frozenset()


def judge(case: Case) -> Report:
    """Return the report on one node; pure: the same case gives the same report."""
    case = _by_todays_ids(case)
    needs = _all_needs(case.checks)
    with redirect_stdout(
        sys.stderr
    ):  # standard output carries the report, and nothing that a check prints
        found = _run(case, needs)
    parts, checks = parts_of(case.node), {one.id: one for one in case.checks}
    results = marked(
        _mark_shared(blame_common_ends(_explain(found, case, needs), case.node), case), checks, case.node
    )
    results = of_the_slot(escalated(results, checks, case.node, parts), case.node.changes)
    conclusion = conclude(results, circumstances=case.circumstances, optional=case.profile.optional)
    held = hold.standing(case.node, results, case.run, conclusion)
    results += hold.results_of(held, results, case.node)
    return Report(
        run=dict(case.run),
        host=plain(case.node.host),
        software=plain(case.node.driver),
        parts=parts,
        results=results,
        blind_spots=_blind_spots(results),
        notes=case.notes,
        incidents=incidents_of(case.node),
        held=hold.after(held, results, parts, case.run, case.node),
        optional=case.profile.optional,
        circumstances=case.circumstances,
    )


def _by_todays_ids(case: Case) -> Case:
    """Return the case with checks that were renamed called by their new ids in profile and past."""
    renamed = aliases(case.checks) | HOLD_ALIASES
    data, past = case.profile.data, case.node.past
    skip = {renamed.get(name, name): why for name, why in data["skip"].items()}
    optional = [renamed.get(name, name) for name in data["optional"]]
    profile = case.profile._replace(data={**data, "skip": skip, "optional": optional})
    if is_unread(past):
        return case._replace(profile=profile)
    past = past._replace(
        held=tuple(one._replace(check=renamed.get(one.check, one.check)) for one in past.held),
        faults=tuple(one._replace(check=renamed.get(one.check, one.check)) for one in past.faults),
    )
    return case._replace(profile=profile, node=case.node._replace(past=past))


def _run(case: Case, needs: Needs) -> list[Result]:
    results: list[Result] = []
    all_silent = all(_is_silent(one, case.node) for one in case.checks)
    for one in case.checks:
        if _is_silent(one, case.node):
            results += [_of_another_input(one)] if all_silent else []
            continue
        reason = _left_out(one, case)
        if reason:
            results.append(Result(one.id, "node", None, Status.SKIP, one.title, reason))
            continue
        roots = needs[one.id]
        wrong = [r for r in results if r.address and r.check in roots and _wrong(r, case)]
        quiet = {
            r.address: f"{r.check} ({r.subject})"
            for r in reversed(wrong)
            if r.address and (r.findings or r.unread)
        }
        results += [
            _examine(one, path, record, case, quiet) for path, record in _subjects(one, case.node)
        ] or [_without_subject(one, case)]
    return results


def _is_silent(one: Check, node: Node) -> bool:
    """Tell whether a check has no word here: on swaps or a burn-in where there is none, on what
    only other tools tell in a scan.
    """
    absent = (one.subject == "change" and not node.changes) or (
        one.subject == "test" and not is_unread(node.tests) and not node.tests
    )
    return absent or (one.mark.imported and not node.imported)


def _of_another_input(one: Check) -> Result:
    ways = {
        "change": "nothing was compared (gpuscan diff does that)",
        "test": "nothing was exercised (--level quick does that)",
    }
    way = ways.get(one.subject, "no scan asks for it, another tool's output tells it")
    return Result(one.id, "node", None, Status.SKIP, one.title, f"does not apply: {way}")


def _left_out(one: Check, case: Case) -> str:
    if one.id in case.skipped:
        return "left out by --skip"
    return (
        f"not judged by this profile: {case.profile.data['skip'][one.id]}"
        if one.id in case.profile.data["skip"]
        else ""
    )


def _subjects(one: Check, node: Node) -> list[tuple[str, Any]]:
    """Return (path, record) of each subject; a list that was not read stands for itself, once."""
    if one.subject == "node":
        return [("", node)]
    records = getattr(node, f"{one.subject}s")
    if is_unread(records):
        return [(f"{one.subject}s", records)]
    kinds = one.mark.kinds
    return [
        (f"{one.subject}s[{record.label}]", record)
        for record in records
        if not kinds or record.kind in kinds
    ]


def _without_subject(one: Check, case: Case) -> Result:
    """An empty log is good news, if it is the whole log; a part that is not there is none."""
    log: Any = case.node.kernel_log
    if one.subject == "incident" and log.whole is True:
        return Result(one.id, "node", None, Status.PASS, one.title)
    if one.subject == "incident":
        return Result(
            one.id,
            "node",
            None,
            Status.SKIP,
            one.title,
            "what is left of this boot's log is silent, its beginning is gone",
        )
    return Result(
        one.id,
        "node",
        None,
        Status.SKIP,
        one.title,
        f"does not apply: no {NOUNS[one.subject]} in this node",
    )


def _examine(one: Check, path: str, record: Any, case: Case, quiet: Mapping[str, str]) -> Result:
    book = FactLog(case.node.sources, frozenset(quiet))
    if is_unread(record):
        book.add_missing(path, record)
        status, reason = _status(one, (), book, case)
        return Result(one.id, "node", None, status, one.title, reason, unread=tuple(book.missing))
    answer = call(
        one, look(record, path, book), ProfileLens(case.profile, case.profile.data, "", book)
    )
    if answer.crash:
        book.add_missing(
            path,
            Unread(
                one.file, "garbled", f"the check itself crashed: {answer.crash.splitlines()[-1]}"
            ),
        )
    findings = (
        tuple(_eased(one, finding) for finding in answer.findings) if case.busy else answer.findings
    )
    status, reason = _status(one, findings, book, case)
    if answer.not_judged and status is Status.PASS:
        status, reason = _open(answer.not_judged, case.profile)
    if status is Status.PASS and _of_nothing(book):
        status, reason = Status.SKIP, "does not apply: nothing in this node to compare"
    if book.left_out and status is Status.PASS:
        status, reason = Status.SKIP, f"explained by {quiet[book.left_out[0]]}"
    return Result(
        check=one.id,
        subject="node" if one.subject == "node" else f"{one.subject}:{record.label}",
        address=getattr(record, "address", None),
        status=status,
        title=one.title,
        reason=reason,
        findings=findings,
        evidence=tuple(book.reads),
        unread=tuple(book.missing),
        traceback=answer.crash,
    )


def _of_nothing(book: FactLog) -> bool:
    """Tell whether a check saw nothing but an empty list of parts, which no expectation asked for."""
    return bool(book.reads) and all(seen.fact in LISTS and not seen.value for seen in book.reads)


def _eased(one: Check, finding: Finding) -> Finding:
    return (
        finding._replace(severity=Status.WARN)
        if one.mark.jobs or finding.urgency == "next-idle"
        else finding
    )


def _waits(one: Check) -> bool:
    """Tell whether what a check finds only warns on a busy node."""
    return one.mark.jobs or one.mark.urgency == "next-idle"


def _status(
    one: Check, findings: Sequence[Finding], book: FactLog, case: Case
) -> tuple[Status, str]:
    """Derive the status: a proven failure, else what was not read, else a warning, else a pass."""
    if any(finding.severity is Status.FAIL for finding in findings):
        return Status.FAIL, ""
    needed = [
        (path, unread) for path, unread in book.missing if not _harmless(path, unread, case.profile)
    ]
    if needed:
        return Status.UNKNOWN, _said(needed)
    if findings:
        return Status.WARN, ""
    return (Status.SKIP, _said(book.missing)) if book.missing else (Status.PASS, "")


def _harmless(path: str, unread: Unread, profile: Profile) -> bool:
    """Tell whether a lack is a skip: outside the scope, or a thing that this hardware or driver
    does not have.
    """
    required = any(
        _covered(path, asked) for asked in (*profile.data["capabilities"], *EVERY_GPU_GIVES)
    )
    if unread.kind == "not-supported":
        return path.startswith(("gpus[", "changes[")) and not required
    return unread.kind in HARMLESS and not (unread.kind == "too-old-driver" and required)


def _covered(path: str, asked: str) -> bool:
    """Tell whether a capability asks for the fact at *path*: `nvlinks` for all of a link,
    `nvlinks.active` for that alone.
    """
    fact = f"{capability(path)}."
    return fact.startswith(f"{asked}.") or f"{asked}.".startswith(fact)


def capability(path: str) -> str:
    """Return the fact of a GPU that a path leads to, without numbers:
    `gpus[SXM6].nvlinks[3].active` is `nvlinks.active`.
    """
    return re.sub(r"\[[^]]*\]", "", path.partition("].")[2] or path)


def _said(missing: Sequence[tuple[str, Unread]]) -> str:
    path, unread = missing[0]
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    kind = unread.kind.replace("-", " ")
    return f"{kind}: {path or 'node'} ({unread.text}){more}"


def _open(expectation: str, profile: Profile) -> tuple[Status, str]:
    if profile.vouches or is_choice(expectation):
        return Status.SKIP, f"not judged: profile {profile.name} leaves {expectation} open"
    return (
        Status.UNKNOWN,
        f"nothing says what {expectation} should be here: name a profile, or --set {expectation}=…",
    )


def _all_needs(checks: Sequence[Check]) -> Needs:
    """Return, for each check, the ids that it needs and those that they need; each comes after its
    needs.
    """
    needs: dict[str, frozenset[str]] = {}
    for one in checks:
        needs[one.id] = frozenset(one.mark.needs).union(
            *(needs.get(need, frozenset()) for need in one.mark.needs)
        )
    return needs


def _wrong(result: Result, case: Case) -> bool:
    """Tell whether a result can explain others: it failed, or it is an unknown that itself makes
    the scan incomplete.
    """
    if result.status is Status.UNKNOWN:
        return result.check not in case.profile.optional
    return result.status is Status.FAIL


def _explain(results: list[Result], case: Case, needs: Needs) -> list[Result]:
    """Turn the echoes of a failed need into skips; a proven failure with a heavier action is no
    echo.
    """
    eased = {one.id for one in case.checks if case.busy and _waits(one)}
    wrong = [
        r for r in results if _wrong(r, case) or (r.status is Status.WARN and r.check in eased)
    ]
    explained = []
    for result in results:
        roots = [
            root
            for root in wrong
            if root.check in needs[result.check] and _same_place(root, result, wrong)
        ]
        root = next((root for root in roots if _covers(root, result)), None)
        judged = (
            result.status is not Status.SKIP
            or result.unread
            or result.reason.startswith("explained")
        )
        if root is None or not judged:
            explained.append(result)
            continue
        kept = result._replace(
            status=Status.SKIP, reason=f"explained by {root.check} ({root.subject})", findings=()
        )
        explained.append(kept)
    return explained


def _same_place(root: Result, result: Result, wrong: Sequence[Result]) -> bool:
    if root.subject in (result.subject, "node") or (
        root.address and root.address == result.address
    ):
        return True
    culprits = {name for finding in result.findings for name in finding.culprits}
    blamed = {r.subject.partition(":")[2] for r in wrong if r.check == root.check}
    return bool(culprits) and culprits <= blamed


def _covers(root: Result, result: Result) -> bool:
    if root.status is Status.WARN:  # what jobs cause explains no more than other warnings
        return result.status is Status.WARN
    if root.status is Status.UNKNOWN:
        return result.status is Status.UNKNOWN
    return (
        result.status is not Status.FAIL
        or worst_action((result,)).rank <= worst_action((root,)).rank
    )


def _mark_shared(results: Sequence[Result], case: Case) -> tuple[Result, ...]:
    """Where half of three or more GPUs show one fault, its cause is shared: no part of a GPU is
    to be replaced for it.
    """
    gpus = (
        frozenset()
        if is_unread(case.node.gpus)
        else frozenset(gpu.address for gpu in case.node.gpus)
    )
    own = {
        one.id for one in case.checks if not one.mark.shared
    }  # a GPU's own flag: no shared cause can set it
    hit: dict[tuple[str, str], set[str]] = {}
    for result in results:
        if result.status is Status.FAIL and result.address in gpus and result.check not in own:
            hit.setdefault(_fault(result), set()).add(result.address)
    enough = [
        fault
        for fault, places in hit.items()
        if len(gpus) >= SHARED_FROM_GPUS and 2 * len(places) >= len(gpus)
    ]
    return tuple(
        _shared(r) if r.status is Status.FAIL and r.address in gpus and _fault(r) in enough else r
        for r in results
    )


def _fault(result: Result) -> tuple[str, str]:
    """Return what makes two failures one fault: the check, and of incidents what was logged (Xid 48
    is not Xid 79).

    Of what is only slow in a burn-in it is the test, too: memory of one GPU and transfers of the
    others are two faults.
    """
    kind, _, name = result.subject.partition(":")
    if kind == "incident":
        return result.check, str([finding.observed for finding in result.findings])
    slow = kind == "test" and all(finding.impact == "performance" for finding in result.findings)
    return result.check, name.split(" ")[1] if slow else ""


def _shared(result: Result) -> Result:
    findings = []
    for finding in result.findings:
        action = Action.INSPECT if finding.action is Action.REPLACE else finding.action
        findings.append(finding._replace(shared=True, action=action))
    return result._replace(findings=tuple(findings))


def _blind_spots(results: Sequence[Result]) -> tuple[dict[str, Any], ...]:
    """Return what could not be seen, once for each fact and reason, with the subjects it was
    missing on.
    """
    spots: dict[tuple[str, str, str], set[str]] = {}
    for result in results:
        if result.status in (Status.SKIP, Status.UNKNOWN) and not result.reason.startswith(
            "explained"
        ):
            for path, unread in result.unread:
                spots.setdefault((_unnumbered(path), unread.kind, unread.text), set()).add(
                    result.subject
                )
    return tuple(
        {"fact": fact, "kind": kind, "text": text, "subjects": sorted(subjects)}
        for (fact, kind, text), subjects in spots.items()
    )


def _unnumbered(path: str) -> str:
    head, bracket, tail = path.partition("[")
    return f"{head}[]{_unnumbered(tail.partition(']')[2])}" if bracket else path
