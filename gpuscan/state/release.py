"""The hold as people see it, and how an operator lifts it: `explain hold` and `clear --reason`."""

import json
import time
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.engine.lifting import lifted_by
from gpuscan.errors import UsageError
from gpuscan.model import Held
from gpuscan.state import last
from gpuscan.state.archive import Archive
from gpuscan.state.place import locked, replace, set_aside, state_dir
from gpuscan.state.whoami import this_machine
from gpuscan.text import printable

RULES = """\
A run that ends with exit code 20 or above holds the node, and a reboot does not lift the hold.
  20 to 31: lifted by a passing run of the whole node, at the level that the hold names or above,
            in which the check passes on the held part; where a reboot or a power cycle was asked
            for, in a later boot, or with --tried.
  40:       lifted by such a run after a proof of work: a later boot, --tried reseat, or swap
            verify --expect PART=reseated; a port also by being up at its rate for the settle time
            (profile key limits.port_settle_s).
  41:       lifted by gpuscan swap verify of the replaced part, or by a passing run that reads
            another serial number in its slot.
  any:      lifted by a passing run whose profile states another value than the one that was
            missed, or by gpuscan clear --reason TEXT; the reason goes into the archive.
Nothing is lifted by another part's pass, by a run that did not judge the check (left out, not
read, open in the profile), or while the held part is in no slot; if the profile states a count
that is met without it, the hold sleeps until that serial number is seen again.
"""


def render_hold(folder: str, format_: str) -> str:
    """Return what is held on this node, why, since when, and what lifts it."""
    stored = last.read(last.path_in(state_dir(folder)))
    held = stored["hold"] if stored else None
    asleep = stored.get("asleep", []) if stored else []
    if format_ == "json":
        return json.dumps(held, indent=1) + "\n"
    lines = ["Nothing is held on this node."]
    if held is not None:
        lines = [f"This node is held with exit code {held['code']} ({held['verdict']}):"]
        lines += [line for reason in held["reasons"] for line in _lines_of(Held(**reason))]
    if asleep:
        lines.append("Not in the node, and held again when they are seen:")
        lines += [line for reason in asleep for line in _lines_of(Held(**reason))]
    return "".join(f"{printable(line)}\n" for line in [*RULES.splitlines(), "", *lines])


def _lines_of(held: Held) -> list[str]:
    serial = f", serial {held.serial}" if held.serial else ""
    since = format_moment(held.since_s)
    return [
        f"  {held.subject}{serial}: {held.message}",
        f"    {held.check}: {held.action}, exit code {held.code}, since {since}",
        f"    {lifted_by(held)}",
    ]


def clear_hold(folder: str, root: str, reason: str) -> str:
    """Lift this machine's hold and return what was lifted; the reason is archived first.

    A last.json that cannot be read is set aside. Raises UsageError without a reason.
    """
    if not reason.strip():
        raise UsageError("clear: --reason TEXT is required: say why the hold may be lifted")
    folder = state_dir(folder)
    path = last.path_in(folder)
    with locked(folder):
        try:
            stored = last.read(path)
        except last.Damaged:
            aside = set_aside(path)
            _archive(folder, root, reason, [])
            return f"last.json was damaged and is set aside as {aside}; nothing is held\n"
        reasons = last.reasons_in(stored) if stored else []
        _archive(folder, root, reason, reasons)
        if stored is not None:
            unproven = {"verdict": "incomplete", "complete": False, "exit_code": 3}
            replace(path, {**stored, "hold": None, "asleep": [], "swap": None, **unproven})
    if not reasons:
        return "nothing was held\n"
    lines = [f"{one['subject']}: {one['check']} ({one['code']})" for one in reasons]
    lifted = "".join(f"  {printable(line)}\n" for line in lines)
    return f"lifted:\n{lifted}The next gpuscan run decides.\n"


def _archive(folder: str, root: str, reason: str, held: list[dict[str, Any]]) -> None:
    ids = this_machine(root)
    names = [name for name in ("machine_id", "dmi_serial", "hostname") if ids[name]]
    machine = f"{names[0]}:{ids[names[0]]}" if names else "unknown"
    now = time.time()
    archive = Archive(folder, write=True)
    archive.note(machine, now, "clear", reason, held)
    archive.note(machine, now, "hold", "cleared", [])
    archive.close()
