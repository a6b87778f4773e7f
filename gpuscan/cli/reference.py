"""`gpuscan checks` and `gpuscan explain`: what is judged, on whose authority, and exit codes."""

import json
import re
from collections.abc import Sequence
from typing import Any

from gpuscan.engine.suite import Check
from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import ACTIONS, EXIT_STYLES, EXIT_WARN, Action, exit_code
from gpuscan.table import align

EXITS = {
    0: (
        "pass, warn",
        "Everything the profile expects was read, and nothing failed. Only 0 means: back to work.",
    ),
    1: ("-", "gpuscan itself broke; never a verdict. Report it."),
    2: ("-", "Wrong usage, an unknown or invalid profile, or a broken check module."),
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


def render_checks(checks: Sequence[Check], format_: str, width: int = 0) -> str:
    """Return all checks: id, action, title."""
    if format_ == "json":
        return json.dumps([_row(one) for one in checks], indent=1) + "\n"
    rows = [(one.id, one.mark.action.value, one.title) for one in checks]
    return "".join(f"{line}\n" for line in align(rows, width=width))


def _row(one: Check) -> dict[str, Any]:
    mark = one.mark
    return {
        "id": one.id,
        "area": one.area,
        "title": one.title,
        "subject": one.subject,
        "action": mark.action.value,
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
    raise UsageError(
        f"no check is called '{name}': {near_misses(name, [one.id for one in checks], 'checks')}"
    )


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
