"""`gpuscan checks` and `gpuscan explain`: what is judged, on whose authority, and exit codes."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan.engine.case import HOLD_ALIASES
from gpuscan.engine.suite import WARN_ONLY, Check, hint_at_checks, select
from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import ACTIONS, EXIT_STYLES, EXIT_WARN, Action, exit_code
from gpuscan.table import align

NO_VERDICT = "-"
EXITS = {
    0: (
        "pass, warn",
        "Everything the profile expects was read, and nothing failed. Only 0 means: back to work.",
    ),
    1: (NO_VERDICT, "gpuscan itself broke; never a verdict. Report it."),
    2: (NO_VERDICT, "Wrong usage, an unknown or invalid profile, or a broken check module."),
    3: (
        "incomplete",
        "Something needed was not read, and nothing failed. See gpuscan doctor.",
    ),
    10: ("warn", "Warnings and nothing worse; only with --fail-on warn."),
    20: ("software", "A setting, a service, the driver, or a fault of unknown class."),
    30: ("reboot", "A GPU reset or a reboot clears it."),
    31: (
        "reboot",
        "Only a power cycle clears it (in a virtual machine: stop it and start it again).",
    ),
    40: ("hardware", "Inspect: reseat, cable, power, cooling, field diagnostic."),
    41: ("hardware", "Replace the part."),
}
SIGNALS = "128+n: ended by signal n; the report is partial and marked incomplete."
MOST_SIGNALS = 64


HEADER = ("CHECK", "FAILURE ASKS FOR", "SEVERITY", "WHAT HOLDS ON A HEALTHY NODE")


class Other(NamedTuple):
    """A result that is no check's: its title, why it is there, and what to do about it."""

    title: str
    why: str
    todo: str


# ids that a report prints beside those of the checks
OTHERS = {
    "history.hold": Other(
        "No hold that an earlier run set stands.",
        "A verdict of 20 or more holds the node until the work that it asked for is proven.",
        "gpuscan explain hold shows what holds this node, and what lifts it.",
    ),
    "profile.match": Other(
        "A profile says what this machine must have.",
        "No profile knows this machine, so nobody said what is right here.",
        "Name one with --profile, or write one: gpuscan profile capture.",
    ),
    "proof.exercised": Other(
        "The fault that the node is held for was exercised, and did not show.",
        "Nothing on this machine exercises it, or the proof was cut short.",
        "Do what the report names, or run gpuscan prove again, with --time for longer.",
    ),
    "swap.begin": Other(
        "No swap is under way.",
        "gpuscan swap begin holds the node until the swap is proven.",
        "Change the part, then run gpuscan swap verify.",
    ),
    "swap.is_proven": Other(
        "The part that was to be changed was changed, and nothing else.",
        "Nothing is known of the node before the swap, so nothing can be proven.",
        "Run gpuscan swap begin before a swap, or list the new serials: --expected-parts.",
    ),
    "verdict": Other(
        "The verdict is one that lets the node work.",
        "In JUnit only: the scan was cut short, or every check was skipped.",
        "Run gpuscan again; gpuscan doctor shows what cannot be read.",
    ),
}
OTHER_ALIASES = HOLD_ALIASES


def render_other(name: str, format_: str) -> str:
    """Return what a result means that is no check's."""
    id_ = OTHER_ALIASES.get(name, name)
    one = OTHERS[id_]
    if format_ == "json":
        return json.dumps({"id": id_, **one._asdict()}, indent=1) + "\n"
    return f"{id_}\n\n{one.title}\n\n{one.why}\n\ntodo      {one.todo}\n"


def render_actions(name: str, format_: str) -> str:
    """Return what an action asks for and how to see that it worked, or all of them."""
    words = [action.value for action in Action]
    if name and name.lower() not in words:
        raise UsageError(f"no action is called '{name}': {near_misses(name, words, 'actions')}")
    chosen = [Action(name.lower())] if name else list(Action)
    if format_ == "json":
        rows = [{"action": action.value, **ACTIONS[action]._asdict()} for action in chosen]
        return json.dumps(rows[0] if name else rows, indent=1) + "\n"
    return "".join(
        f"{action.value:<13}{ACTIONS[action].verdict} ({ACTIONS[action].exit_code})\n"
        f"{'':<13}{ACTIONS[action].todo}\n{'':<13}Then: {ACTIONS[action].proof}\n"
        for action in chosen
    )


def render_checks(checks: Sequence[Check], format_: str, width: int = 0) -> str:
    """Return checks sorted by id: id, action and severity of a failure, title."""
    ordered = sorted(checks, key=lambda one: one.id)
    if format_ == "json":
        return json.dumps([_row(one) for one in ordered], indent=1) + "\n"
    rows = [(one.id, one.mark.action.value, _severity(one), one.title) for one in ordered]
    return "".join(f"{line}\n" for line in align([HEADER, *rows], width=width))


def _severity(one: Check) -> str:
    return "warn" if one.mark.action in WARN_ONLY else "fail"


def select_checks(checks: Sequence[Check], selectors: Sequence[str]) -> Sequence[Check]:
    """Return the checks of areas, ids and globs, all without; raises UsageError."""
    return select(checks, selectors, ())[0] if selectors else checks


def _row(one: Check) -> dict[str, Any]:
    mark = one.mark
    return {
        "id": one.id,
        "area": one.area,
        "title": one.title,
        "subject": one.subject,
        "action": mark.action.value,
        "severity": _severity(one),
        "urgency": mark.urgency,
        "impact": mark.impact,
        "source": mark.source,
        "needs": list(mark.needs),
        "voided_by": list(mark.voided_by),
        "aliases": list(mark.aliases),
    }


def find_check(checks: Sequence[Check], name: str) -> Check:
    """Return the check of an id or alias; raises UsageError with near misses."""
    for one in checks:
        if name in (one.id, *one.mark.aliases):
            return one
    if any(one.area == name for one in checks):
        raise UsageError(f"{name} is an area of checks: gpuscan checks list {name} shows them")
    raise UsageError(f"no check is called '{name}': {hint_at_checks(name, checks)}")


def render_named(checks: Sequence[Check], names: Sequence[str], format_: str) -> str:
    """Return everything known about the checks of these ids; in JSON an array of several."""
    others = {*OTHERS, *OTHER_ALIASES}
    texts = [
        render_other(name, format_)
        if name in others
        else render_check(find_check(checks, name), format_)
        for name in names
    ]
    if format_ == "json" and len(texts) > 1:
        return json.dumps([json.loads(text) for text in texts], indent=1) + "\n"
    return "\n".join(texts)


def render_check(one: Check, format_: str) -> str:
    """Return everything known about one check."""
    row = ACTIONS[one.mark.action]
    if format_ == "json":
        return (
            json.dumps(
                {
                    **_row(one),
                    "text": one.text,
                    "todo": row.todo,
                    "proof": row.proof,
                    "file": one.file,
                },
                indent=1,
            )
            + "\n"
        )
    lines = [one.id, "", *(line.strip() for line in one.text.splitlines()), ""]
    lines += [
        f"subject   {one.subject}",
        f"action    {one.mark.action.value}: {row.todo}",
        f"then      {row.proof}",
    ]
    lines += [f"urgency   {one.mark.urgency}", f"impact    {one.mark.impact}"]
    lines += [f"source    {one.mark.source}"] if one.mark.source else []
    lines += [f"needs     {', '.join(one.mark.needs)}"] if one.mark.needs else []
    lines += [f"voided by {', '.join(one.mark.voided_by)}"] if one.mark.voided_by else []
    lines += (
        ["busy      only warns while jobs run (--context busy)"]
        if one.mark.jobs or one.mark.urgency != "now"
        else []
    )
    return "\n".join([*lines, f"file      {one.file}"]) + "\n"


def exits_of(verdict: str) -> list[int]:
    """Return the exit codes of a verdict, none if there is no such verdict."""
    if verdict == NO_VERDICT:
        return []
    return [code for code, (names, _) in EXITS.items() if verdict in names.split(", ")]


def is_exit_code(word: str) -> bool:
    """Return whether gpuscan uses this exit code."""
    number = int(word) if re.fullmatch("[0-9]{1,3}", word) else -1
    return number in EXITS or 128 < number <= 128 + MOST_SIGNALS


def render_exit_codes(code: str, format_: str) -> str:
    """Return what an exit code means, or all of them; raises UsageError for one that gpuscan never
    uses.
    """
    number = int(code) if re.fullmatch("[0-9]{1,3}", code) else -1
    if 128 < number <= 128 + MOST_SIGNALS:
        return (
            json.dumps({"exit": number, "meaning": SIGNALS}) + "\n"
            if format_ == "json"
            else f"{number}  {SIGNALS}\n"
        )
    if code and number not in EXITS:
        raise UsageError(
            f"exit code {code}: gpuscan never uses it; its codes are {', '.join(map(str, EXITS))}"
            " and 128+n"
        )
    chosen = {number: EXITS[number]} if code else EXITS
    if format_ == "json":
        rows = [
            {"exit": n, "verdict": verdict, "meaning": text, "actions": _actions(n)}
            for n, (verdict, text) in chosen.items()
        ]
        return json.dumps({"codes": rows, "styles": EXIT_STYLES}, indent=1) + "\n"
    lines = [_exit_line(number, *row) for number, row in chosen.items()]
    return "".join(lines if code else [*lines, f"{SIGNALS}\n"])


def _exit_line(number: int, verdict: str, text: str) -> str:
    known = [style for style in EXIT_STYLES if verdict in EXIT_STYLES[style]]
    styles = ", ".join(
        f"{style} {exit_code(verdict, number, style, fail_on_warn=number == EXIT_WARN)}"
        for style in known
    )
    actions = f" Actions: {', '.join(_actions(number))}." if _actions(number) and number else ""
    return f"{number:<4}{verdict:<12}{text}{actions}{f' ({styles})' if styles else ''}\n"


def _actions(number: int) -> list[str]:
    return [action.value for action in Action if ACTIONS[action].exit_code == number]
