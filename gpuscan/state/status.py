"""`gpuscan status`: the stored verdict and the hold, at once; everything imported here is light."""

import json
import os
import sys
import time
from typing import Any

from gpuscan.durations import UNITS_S, format_moment, parse_duration
from gpuscan.state import last
from gpuscan.state.place import StateError, state_dir
from gpuscan.state.whoami import this_machine

MAX_AGE_S = 86400.0
AHEAD_S = 300.0  # a stamp further in the future than this is no stamp
FORMATS = ("text", "oneline", "json")
STYLES = ("full", "simple", "nagios", "npd")
WIDTH = 80  # bytes of a line that a login banner or a prolog's message takes whole
PASS, INCOMPLETE, FAILED = 0, 3, 20


def told(arguments: list[str]) -> int | None:
    """Answer plain words such as `--format oneline --max-age 15m`; None for all else, which the
    command line then tells of.
    """
    wanted = {
        "--max-age": "",
        "--profile": "",
        "--on-incomplete": "",
        "--format": "text",
        "--state-dir": "",
        "--root": "/",
        "--exit-style": "full",
    }
    words = iter(arguments)
    for word in words:
        name, sign, value = word.partition("=")
        value = value if sign else next(words, "")
        if name not in wanted or not value:
            return None
        wanted[name] = value
    max_age_s = parse_duration(wanted["--max-age"]) if wanted["--max-age"] else MAX_AGE_S
    known = (
        wanted["--format"] in FORMATS
        and wanted["--exit-style"] in STYLES
        and wanted["--on-incomplete"] in ("", "pass")
    )
    if max_age_s is None or not known:
        return None
    found = answer(
        wanted["--state-dir"],
        wanted["--root"],
        max_age_s,
        wanted["--profile"],
        wanted["--on-incomplete"] == "pass",
    )
    sys.stdout.write(render(found, wanted["--format"]))
    sys.stdout.flush()
    return exit_code(found, wanted["--exit-style"])


def answer(named: str, root: str, max_age_s: float, profile: str, lenient: bool) -> dict[str, Any]:
    """Return what is known of this node: exit code, verdict, why, the hold, the swap under way, the
    last run.

    *lenient* turns an incomplete answer into a pass, but never where there may be a hold or a swap.
    """
    folder = state_dir(named)
    path = last.path_in(folder)
    here = this_machine(root)
    found, why = None, ""
    try:
        found = last.read(path)
    except StateError as error:
        return _said(INCOMPLETE, "incomplete", str(error), None)
    if found is None:
        if lenient and not os.path.exists(os.path.join(folder, "history.sqlite")):
            return _said(
                PASS, "pass", "not scanned yet, which --on-incomplete pass lets through", None
            )
        return _said(INCOMPLETE, "incomplete", "not scanned yet: gpuscan run", None)
    is_here = bool(here["boot_id"]) and found["boot_id"] == here["boot_id"]
    if not is_here and not last.same_machine(found["machine"], here):
        return _said(
            INCOMPLETE, "incomplete", "the stored verdict is another machine's: gpuscan run", None
        )
    if found["hold"]:
        return _said(found["hold"]["code"], found["hold"]["verdict"], _held(found["hold"]), found)
    why = _doubt(found, is_here, max_age_s, profile)
    if not why:
        return _said(found["exit_code"], found["verdict"], found.get("headline", ""), found)
    if lenient and not found["swap"]:
        return _said(PASS, "pass", f"{why}, which --on-incomplete pass lets through", found)
    return _said(
        INCOMPLETE,
        "incomplete",
        f"{why}: gpuscan {'swap verify' if found['swap'] else 'run'}",
        found,
    )


def _doubt(found: dict[str, Any], is_here: bool, max_age_s: float, profile: str) -> str:
    """Return why the last run does not answer for the node as it is now, or nothing."""
    age_s = time.time() - found["at"]
    if found["swap"]:
        return f"a swap is under way (ticket {found['swap'].get('ticket', '?')})"
    if not is_here:
        return "rebooted since the last run"
    if age_s < -AHEAD_S:
        return "the last run lies in the future: the clock was set back"
    if age_s > max_age_s:
        return f"the last run is {_age(age_s)} old"
    if profile and _name(profile) != found["profile"]:
        return f"the last run was by profile {found['profile']}, not {_name(profile)}"
    if not found["scope"].get("full"):
        return "the last run did not judge the whole node"
    proven = found["exit_code"] >= FAILED or (
        found["complete"] and found["exit_code"] != INCOMPLETE
    )
    return "" if proven else "the last run was incomplete"


def _name(profile: str) -> str:
    is_file = "/" in profile or profile.endswith((".yaml", ".yml"))
    return os.path.basename(profile).removesuffix(".yaml") if is_file else profile


def _age(age_s: float) -> str:
    unit, size_s = next(
        ((unit, size_s) for unit, size_s in reversed(UNITS_S.items()) if age_s >= 2 * size_s),
        ("s", 1.0),
    )
    return f"{age_s / size_s:.0f} {unit}"


def _held(hold: dict[str, Any]) -> str:
    worst: dict[str, Any] = max(hold["reasons"], key=lambda one: one.get("code", 0), default={})
    more = f" (+{len(hold['reasons']) - 1})" if len(hold["reasons"]) > 1 else ""
    what = worst.get("subject", "node").replace(":", " ", 1)
    return f"hold since {_date(hold['since'])}: {what} {worst.get('check', '?')} -> {worst.get('action', '?')}{more}"


def _date(at_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at_s))


def _said(code: int, verdict: str, why: str, found: dict[str, Any] | None) -> dict[str, Any]:
    kept = (
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
    return {
        "exit_code": code,
        "verdict": verdict,
        "usable": code == PASS,
        "reason": why,
        "hold": found["hold"] if found else None,
        "swap": found["swap"] if found else None,
        "last": {key: found.get(key) for key in kept} if found else None,
    }


def render(found: dict[str, Any], format_: str) -> str:
    """Return the answer as text, as one line of at most WIDTH bytes, or as JSON."""
    if format_ == "json":
        return json.dumps(found, indent=1) + "\n"
    line = (
        f"{found['verdict']} ({found['exit_code']}): {found['reason']}"
        if found["reason"]
        else f"{found['verdict']} ({found['exit_code']})"
    )
    line = "".join(char if char.isprintable() else " " for char in line)
    if format_ == "oneline":
        return _fitting(line) + "\n"
    return "\n".join([line, *_lines(found)]) + "\n"


def _fitting(line: str) -> str:
    """Cut a line to WIDTH bytes, its end included."""
    data = line.encode("utf-8", "replace")
    return line if len(data) < WIDTH else data[: WIDTH - 4].decode("utf-8", "ignore") + "..."


def _lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for one in found["hold"]["reasons"] if found["hold"] else ():
        serial = f", serial {one['serial']}" if one.get("serial") else ""
        told = f"{one.get('subject', '')}{serial}: {one.get('message', '')}"
        lines.append("  " + "".join(char if char.isprintable() else " " for char in told))
    if found["hold"]:
        lines.append("  gpuscan explain hold tells what lifts it")
    if found["last"]:
        at = format_moment(found["last"]["at"])
        lines.append(
            f"  last run {at}, profile {found['last']['profile']}, level {found['last']['level']}"
        )
    return lines


def exit_code(found: dict[str, Any], style: str) -> int:
    """Return the exit code under an exit style; only another style than full needs the table."""
    if style == "full":
        return int(found["exit_code"])
    from gpuscan.model.outcome import exit_code as styled

    return styled(str(found["verdict"]), int(found["exit_code"]), style)
