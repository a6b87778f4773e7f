"""`gpuscan status`: the last verdict and the hold, at once; everything imported here is light."""

import json
import os
import sys
import time
from typing import Any

from gpuscan.durations import UNITS_S, format_moment, parse_duration
from gpuscan.state import last
from gpuscan.state.place import StateError, state_dir
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
    found = answer(
        options["--state-dir"], options["--root"], max_age_s, options["--profile"], lenient
    )
    sys.stdout.write(render(found, options["--format"]))
    sys.stdout.flush()
    return exit_code(found, options["--exit-style"])


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
    """
    folder = state_dir(folder)
    here = this_machine(root)
    try:
        found = last.read(last.path_in(folder))
    except StateError as error:
        return _answer(INCOMPLETE, "incomplete", str(error))
    if found is None:
        if lenient and not os.path.exists(os.path.join(folder, "history.sqlite")):
            return _answer(PASS, "pass", "not scanned yet; allowed by --on-incomplete pass")
        return _answer(INCOMPLETE, "incomplete", "not scanned yet; run gpuscan run")
    same_boot = bool(here["boot_id"]) and found["boot_id"] == here["boot_id"]
    if not same_boot and not last.same_machine(found["machine"], here):
        return _answer(
            INCOMPLETE, "incomplete", "the saved verdict is of another machine; run gpuscan run"
        )
    if found["hold"]:
        hold = found["hold"]
        return _answer(hold["code"], hold["verdict"], _hold_reason(hold), found)
    doubt = _doubt(found, same_boot, max_age_s, profile)
    if not doubt:
        return _answer(found["exit_code"], found["verdict"], found.get("headline", ""), found)
    if lenient and not found["swap"]:
        return _answer(PASS, "pass", f"{doubt}; allowed by --on-incomplete pass", found)
    command = "swap verify" if found["swap"] else "run"
    return _answer(INCOMPLETE, "incomplete", f"{doubt}; run gpuscan {command}", found)


def _doubt(found: dict[str, Any], same_boot: bool, max_age_s: float, profile: str) -> str:
    """Return why the last run does not speak for the node as it is now, empty if it does."""
    age_s = time.time() - found["at"]
    if found["swap"]:
        return f"swap {found['swap'].get('ticket', '?')} is not verified yet"
    if not same_boot:
        return "rebooted since the last run"
    if age_s < -CLOCK_SKEW_S:
        return "the last run is in the future (was the clock set back?)"
    if age_s > max_age_s:
        return f"the last run is {_age(age_s)} old"
    if profile and _profile_name(profile) != found["profile"]:
        return f"the last run used profile {found['profile']}, not {_profile_name(profile)}"
    if not found["scope"].get("full"):
        return "the last run did not judge the whole node"
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
    reasons = hold["reasons"]
    worst: dict[str, Any] = max(reasons, key=lambda reason: reason.get("code", 0), default={})
    more = f" (+{len(reasons) - 1})" if len(reasons) > 1 else ""
    subject = worst.get("subject", "node").replace(":", " ", 1)
    date = time.strftime("%Y-%m-%d", time.gmtime(hold["since"]))
    check, action = worst.get("check", "?"), worst.get("action", "?")
    return f"hold since {date}: {subject} {check} -> {action}{more}"


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
        return json.dumps(found, indent=1) + "\n"
    line = f"{found['verdict']} ({found['exit_code']})"
    if found["reason"]:
        line += f": {found['reason']}"
    line = _one_line(line)
    if format_ == "oneline":
        return _truncate(line) + "\n"
    return "\n".join([line, *_details(found)]) + "\n"


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
        text = f"{reason.get('subject', '')}{serial}: {reason.get('message', '')}"
        lines.append(f"  {_one_line(text)}")
    if hold:
        lines.append("  gpuscan explain hold shows what lifts it")
    if run:
        at = format_moment(run["at"])
        lines.append(f"  last run {at}, profile {run['profile']}, level {run['level']}")
    return lines


def exit_code(found: Answer, style: str) -> int:
    """Return the exit code under an exit style; only another style than full needs the table."""
    if style == "full":
        return int(found["exit_code"])
    from gpuscan.model.outcome import exit_code as code_in_style

    return code_in_style(str(found["verdict"]), int(found["exit_code"]), style)
