"""`gpuscan status`: the last verdict and the hold, at once; everything imported here is light."""

import json
import os
import sys
import time
from typing import Any, NamedTuple

from gpuscan.durations import UNITS_S, format_moment, parse_duration
from gpuscan.errors import GpuscanError, complain, mute
from gpuscan.state import begun, last
from gpuscan.state.exercised import is_exercised, told_exercised
from gpuscan.state.place import StateError, node_state, refuse_shared, state_dir
from gpuscan.state.whoami import this_machine

# the command's options; cli/state.py declares the same ones to typer
DEFAULTS = {
    "--max-age": "24h",
    "--profile": "",
    "--on-incomplete": "",
    "--format": "text",
    "--state-dir": "",
    "--root": "/",
    "--exit-style": "full",
}
CHOICES = {
    "--on-incomplete": ("pass",),
    "--format": ("text", "oneline", "json"),
    "--exit-style": ("full", "simple", "nagios", "npd"),
}
CLOCK_SKEW_S = 300.0  # a run this far in the future cannot be explained by clocks that differ
WIDTH = 80  # bytes of a line that a login banner or a prolog's message takes whole
PASS, INCOMPLETE, FAILED = 0, 3, 20

Answer = dict[str, Any]  # what `status --format json` prints
LAST_KEYS = (
    "at",
    "boot_id",
    "profile",
    "level",
    "scope",
    "verdict",
    "exit_code",
    "complete",
    "headline",
)


def print_status(arguments: list[str]) -> int | None:
    """Print the answer for plain options such as `--format oneline --max-age 15m`, and return the
    exit code; None for anything else, --help and mistakes included, which typer deals with.
    """
    options = parse_options(arguments)
    if options is None:
        return None
    max_age_s = parse_duration(options["--max-age"])
    if max_age_s is None:
        return None
    lenient = options["--on-incomplete"] == "pass"
    asked = (options["--root"], max_age_s, options["--profile"], lenient)
    try:
        found = answer(options["--state-dir"], *asked)
    except GpuscanError:  # a mistake in the site configuration
        return None
    _say(render(found, options["--format"]))
    return exit_code(found, options["--exit-style"])


def _say(text: str) -> None:
    """Print the answer. An output that is full or closed does not change it: the exit code is what
    a prolog goes by.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        mute()
        why = getattr(error, "strerror", "") or "it is closed"
        complain(f"gpuscan: standard output cannot be written: {why}")


def parse_options(arguments: list[str]) -> dict[str, str] | None:
    """Return the value of every option; None where an argument is not a known option with a known
    value.

    >>> parse_options(["--format=json"])["--format"], parse_options(["--format", "yaml"])
    ('json', None)
    """
    options = dict(DEFAULTS)
    rest = iter(arguments)
    for argument in rest:
        name, has_value, value = argument.partition("=")
        if not has_value:
            value = next(rest, "")
        if name not in DEFAULTS or not value or value not in CHOICES.get(name, (value,)):
            return None
        options[name] = value
    return options


def answer(folder: str, root: str, max_age_s: float, profile: str, lenient: bool) -> Answer:
    """Return what is known of this node: verdict, exit code, reason, hold, swap, last run.

    *lenient* turns an incomplete answer into a pass, but never where there may be a hold or a swap.
    What root keeps counts for every user, beside the user's own runs.
    """
    asked = Asked(this_machine(root), max_age_s, profile, lenient)
    own, _ = _answer_from(state_dir(folder), asked)
    node = node_state(folder, root)
    if not node or not _is_kept(node):
        return own
    roots, firm = _answer_from(node, asked)
    if max(own["exit_code"], roots["exit_code"]) >= FAILED:
        return max(roots, own, key=lambda each: int(each["exit_code"]))
    return roots if firm or roots["exit_code"] == PASS or not own["usable"] else own


class Asked(NamedTuple):
    """What `status` is asked of which machine."""

    here: dict[str, str]
    max_age_s: float
    profile: str
    lenient: bool


def _is_kept(folder: str) -> bool:
    paths = (last.path_in(folder), last.public_path(folder))
    return any(os.path.lexists(path) for path in paths) or bool(begun.find(folder))


def _answer_from(folder: str, asked: Asked) -> tuple[Answer, bool]:
    """Return what one folder answers, and whether it stands whatever another folder says: where
    there is a hold or a swap, or may be.
    """
    notes = begun.find(folder)
    held = [reason for note in notes for reason in _reasons_of(note)]
    try:
        found = _read(folder, asked.here)
    except StateError as error:
        return _failed_or(held, _answer(INCOMPLETE, "incomplete", str(error))), True
    if found is None:
        return _failed_or(held, _unscanned(folder, notes, asked)), bool(notes)
    same_boot = bool(asked.here["boot_id"]) and found["boot_id"] == asked.here["boot_id"]
    if not same_boot and not last.same_machine(found["machine"], asked.here):
        other = "the saved verdict is of another machine; run gpuscan run"
        return _answer(INCOMPLETE, "incomplete", other), False
    if found["hold"] or held:
        found = {**found, "hold": _joined(found["hold"], held)}
        hold = found["hold"]
        return _answer(hold["code"], hold["verdict"], _hold_reason(hold), found), True
    lost = _lost(found, notes)
    if lost:
        return _answer(INCOMPLETE, "incomplete", lost, found), True
    doubt = _doubt(found, same_boot, asked.max_age_s, asked.profile)
    if not doubt:
        return _answer(found["exit_code"], found["verdict"], _headline(found), found), False
    if asked.lenient and not found["swap"]:
        told = f"{doubt}; allowed by --on-incomplete pass"
        return _answer(PASS, "pass", told, found), False
    command = "swap verify" if found["swap"] else "run"
    told = f"{doubt}; run gpuscan {command}"
    return _answer(INCOMPLETE, "incomplete", told, found), bool(found["swap"])


def _read(folder: str, here: dict[str, str]) -> dict[str, Any] | None:
    """Return last.json, or what everybody may know of it where this user may not read it."""
    path = last.path_in(folder)
    if os.access(path, os.R_OK):
        return _distrusted(last.read(path), folder)
    found = last.read_public(folder, here)
    if found is None and os.path.lexists(path):
        return last.read(path)  # says why it cannot be read
    return found


def _distrusted(found: dict[str, Any] | None, folder: str) -> dict[str, Any] | None:
    """Return what was found with the doubt that others may write the folder: a hold stands."""
    try:
        refuse_shared(folder)
    except StateError as error:
        return {**found, "nonsense": str(error)} if found else found
    return found


def _reasons_of(note: begun.Note) -> list[dict[str, Any]]:
    """Return what a run holds that is not in last.json yet; where only its exit code is known, as
    one reason without a part.
    """
    if not note.code:
        return []
    entries = [each for each in begun.read(note) or () if last.is_reason(each)]
    verdict = last.VERDICTS.get(note.code)
    if entries or verdict is None:
        return entries
    message = "a run found it and could not store more than its exit code"
    action = last.ACTIONS[note.code]
    return [{"code": note.code, "action": action, "since_s": note.at_s, "message": message}]


def _joined(hold: dict[str, Any] | None, more: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a hold with the reasons of runs that could not store theirs."""
    if hold is not None and not more:
        return hold
    reasons = [*(hold["reasons"] if hold else ()), *more]
    code = max(reason["code"] for reason in reasons)
    since_s = min(reason["since_s"] for reason in reasons)
    return {"code": code, "verdict": last.VERDICTS[code], "since": since_s, "reasons": reasons}


def _failed_or(held: list[dict[str, Any]], otherwise: Answer) -> Answer:
    if not held:
        return otherwise
    hold = _joined(None, held)
    whole = _answer(hold["code"], hold["verdict"], _hold_reason(hold))
    return {**whole, "hold": hold}


def _unscanned(folder: str, notes: list[begun.Note], asked: Asked) -> Answer:
    lost = _lost(None, notes)
    if lost:
        return _answer(INCOMPLETE, "incomplete", lost)
    if asked.lenient and not os.path.exists(os.path.join(folder, "history.sqlite")):
        return _answer(PASS, "pass", "not scanned yet; allowed by --on-incomplete pass")
    return _answer(INCOMPLETE, "incomplete", "not scanned yet; run gpuscan run")


def _lost(found: dict[str, Any] | None, notes: list[begun.Note]) -> str:
    """Return why a hold may have been lost, empty where none can be."""
    if found is not None and found["unread"]:
        return "an entry of the stored hold makes no sense; see gpuscan explain hold"
    if found is not None and found["nonsense"]:
        return f"last.json: {found['nonsense']}; run gpuscan run"
    ended = [note for note in notes if not note.alive]
    if not ended:
        return ""
    newest_s = max(note.at_s for note in ended)
    at = f" at {format_moment(newest_s)}" if last.is_time(newest_s) else ""
    return f"a run began{at} and was not stored; run gpuscan run"


def _headline(found: dict[str, Any]) -> str:
    """Return the stored headline without the verdict, which the answer begins with."""
    verdict = f"{found['verdict']} ({found['exit_code']})"
    told = str(found.get("headline", "")).removeprefix(verdict)
    return told.removeprefix(": ").removeprefix("; ")


def _doubt(found: dict[str, Any], same_boot: bool, max_age_s: float, profile: str) -> str:
    """Return why the last run does not speak for the node as it is now, empty if it does."""
    age_s = time.time() - found["at"]
    if found["swap"]:
        ticket = found["swap"].get("ticket")
        return f"{f'swap {ticket}' if ticket else 'a swap'} is not verified yet"
    if not same_boot:
        return "rebooted since the last run"
    if age_s < -CLOCK_SKEW_S:
        return "the last run is in the future (was the clock set back?)"
    if age_s > max_age_s:
        return f"the last run is {_age(age_s)} old"
    if profile and _profile_name(profile) != found["profile"]:
        return f"the last run used profile {found['profile']}, not {_profile_name(profile)}"
    if not found["scope"].get("full"):
        limits = [str(one) for one in found["scope"].get("limits") or ("not the whole node",)]
        return f"partial: {'; '.join(limits)}"
    failed = found["exit_code"] >= FAILED
    if not failed and (not found["complete"] or found["exit_code"] == INCOMPLETE):
        return "the last run was incomplete"
    return ""


def _profile_name(profile: str) -> str:
    is_file = "/" in profile or profile.endswith((".yaml", ".yml"))
    return os.path.basename(profile).removesuffix(".yaml") if is_file else profile


def _age(age_s: float) -> str:
    for unit, size_s in reversed(UNITS_S.items()):
        if age_s >= 2 * size_s:
            return f"{age_s / size_s:.0f} {unit}"
    return f"{age_s:.0f} s"


def _hold_reason(hold: dict[str, Any]) -> str:
    """Return what to do with which part first: a prolog's message is cut."""
    reasons = hold["reasons"]
    worst: dict[str, Any] = max(reasons, key=lambda reason: reason.get("code", 0), default={})
    more = f" (+{len(reasons) - 1})" if len(reasons) > 1 else ""
    subject = worst.get("subject", "a part").replace(":", " ", 1)
    date = time.strftime("%Y-%m-%d", time.gmtime(hold["since"]))
    found = f": {worst['check']}" if worst.get("check") else ""
    action = worst.get("action") or "investigate"
    return f"{action} {subject}{found}{more}, held since {date}"


def _answer(code: int, verdict: str, reason: str, found: dict[str, Any] | None = None) -> Answer:
    return {
        "exit_code": code,
        "verdict": verdict,
        "usable": code == PASS,
        "reason": reason,
        "hold": found["hold"] if found else None,
        "swap": found["swap"] if found else None,
        "last": {key: found.get(key) for key in LAST_KEYS} if found else None,
    }


def render(found: Answer, format_: str) -> str:
    """Return the answer as text, as one line of at most WIDTH bytes, or as JSON."""
    if format_ == "json":
        return json.dumps(_with_exercised(found), indent=1) + "\n"
    line = f"{found['verdict']} ({found['exit_code']})"
    if found["reason"]:
        line += f": {found['reason']}"
    line = _one_line(line)
    if format_ == "oneline":
        return _truncate(line) + "\n"
    return "\n".join([line, *_details(found)]) + "\n"


def _with_exercised(found: Answer) -> Answer:
    """Return the answer with whether each held fault was exercised since (null: need not be)."""
    if not found["hold"]:
        return found
    reasons = [{**one, "exercised": is_exercised(one)} for one in found["hold"]["reasons"]]
    return {**found, "hold": {**found["hold"], "reasons": reasons}}


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _truncate(line: str) -> str:
    """Cut a line to WIDTH bytes, its newline included."""
    data = line.encode("utf-8", "replace")
    return line if len(data) < WIDTH else data[: WIDTH - 4].decode("utf-8", "ignore") + "..."


def _details(found: Answer) -> list[str]:
    lines = []
    hold, run = found["hold"], found["last"]
    for reason in hold["reasons"] if hold else ():
        serial = f", serial {reason['serial']}" if reason.get("serial") else ""
        text = f"{reason.get('subject', 'node')}{serial}: {reason.get('message', '')}"
        lines.append(f"  {_one_line(text)}")
        exercised = told_exercised(reason)
        lines += [f"    {exercised}"] if exercised else []
    if hold:
        lines.append("  gpuscan explain hold shows what lifts it")
    if run and run["at"]:
        at = format_moment(run["at"])
        lines.append(f"  last run {at}, profile {run['profile']}, level {run['level']}")
    return lines


def exit_code(found: Answer, style: str) -> int:
    """Return the exit code under an exit style; only another style than full needs the table."""
    if style == "full":
        return int(found["exit_code"])
    from gpuscan.model.outcome import exit_code as code_in_style

    return code_in_style(str(found["verdict"]), int(found["exit_code"]), style)
