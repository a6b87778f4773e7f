"""The hold as people see it, and how an operator lifts it: `explain hold` and `clear --reason`."""

import contextlib
import json
import os
import time
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.engine.hold import summary
from gpuscan.engine.lifting import lifted_by
from gpuscan.errors import UsageError
from gpuscan.model import Held
from gpuscan.state import begun, holds, last
from gpuscan.state.archive import Archive
from gpuscan.state.exercised import told_exercised
from gpuscan.state.place import locked, node_state, set_aside, state_dir
from gpuscan.state.whoami import this_machine
from gpuscan.text import printable

RULES = """\
A run that ends with exit code 20 or above holds the node, and a reboot does not lift the hold.
  20 to 31:  lifted by a passing run of the whole node, at the level that the hold names or above, \
in which the check passes on the held part; where a reboot or a power cycle was asked for, in a \
later boot, or with --tried.
  40:        lifted by such a run after a proof of work: a later boot, --tried reseat, or swap \
verify --expect PART=reseated; a port also by being up at its rate for the settle time (profile \
key limits.port_settle_s).
  41:        lifted by gpuscan swap verify of the replaced part, or by a passing run that reads \
another serial number in its slot.
  any:       lifted by a passing run whose profile states another value than the one that was \
missed, or by gpuscan clear --reason TEXT; the reason goes into the archive.
Only root lifts what root holds in its state folder; another user's run sets and lifts none there.
Nothing is lifted by another part's pass, by a run that did not judge the check (left out, not \
read, open in the profile), or while the held part is in no slot; if the profile states a count \
that is met without it, the hold sleeps until that serial number is seen again.
"""


def render_hold(folder: str, format_: str) -> str:
    """Return what is held on this node, why, since when, and what lifts it."""
    place, here = state_dir(folder), this_machine()
    held, lacks = _stored(place, here)
    node = node_state(folder)
    if node:
        more, told = holds.of_root(node, here)
        held, lacks = held + more, lacks + told
    awake = [one for one in held if not one.asleep]
    if format_ == "json":
        return json.dumps(summary(awake), indent=1) + "\n"
    lines = ["Nothing is held on this node."]
    if awake:
        code = max(one.code for one in awake)
        lines = [f"This node is held with exit code {code} ({last.VERDICTS[code]}):"]
        lines += [line for one in awake for line in _lines_of(one)]
    elif lacks:
        lines = ["Whether this node is held is not known."]
    lines += lacks
    if len(awake) < len(held):
        lines.append("Not in the node, and held again when they are seen:")
        lines += [line for one in held if one.asleep for line in _lines_of(one)]
    return "".join(f"{printable(line)}\n" for line in [*RULES.splitlines(), "", *lines])


def _stored(folder: str, here: dict[str, str]) -> tuple[tuple[Held, ...], tuple[str, ...]]:
    """Return the hold as far as this user may read it: last.json, or what everybody may know."""
    path = last.path_in(folder)
    if os.path.lexists(path) and not os.access(path, os.R_OK):
        return holds.of_root(folder, here)
    last.read(path)  # what cannot be read at all is told as the mistake that it is
    found = holds.load(path, begun.find(folder), None, "")
    return found.held, found.lacks


def _lines_of(held: Held) -> list[str]:
    serial = f", serial {held.serial}" if held.serial else ""
    since = format_moment(held.since_s)
    exercised = told_exercised(held._asdict())
    return [
        f"  {held.subject}{serial}: {held.message}",
        f"    {held.check}: {held.action}, exit code {held.code}, since {since}",
        *([f"    {exercised}"] if exercised else []),
        f"    {lifted_by(held)}",
    ]


def clear_hold(folder: str, root: str, reason: str) -> str:
    """Lift this machine's hold and return what was lifted; the reason is archived first.

    A last.json that cannot be read is set aside. Raises UsageError without a reason.
    """
    if not reason.strip():
        raise UsageError("clear: --reason TEXT is required: say why the hold may be lifted")
    named, folder = folder, state_dir(folder)
    path = last.path_in(folder)
    with locked(folder):
        try:
            stored = last.read(path)
        except last.Damaged:
            aside = set_aside(path)
            _archive(folder, root, reason, [])
            _forget(folder)
            return f"last.json was damaged and is set aside as {aside}; nothing is held\n"
        notes = begun.find(folder)
        held = holds.load(path, notes, None, "").held
        reasons = holds.stored(held)
        _archive(folder, root, reason, reasons)
        if stored is not None:
            unproven = {"verdict": "incomplete", "complete": False, "exit_code": 3, "headline": ""}
            nothing: dict[str, Any] = {"hold": None, "asleep": [], "unread": [], "swap": None}
            last.write(folder, path, {**stored, **nothing, **unproven})
        _forget(folder)
    if not reasons:
        return f"nothing was held\n{_kept_by_root(named, root)}"
    lines = [f"{one['subject']}: {one['check']} ({one['code']})" for one in reasons]
    lifted = "".join(f"  {printable(line)}\n" for line in lines)
    return f"lifted:\n{lifted}The next gpuscan run decides.\n{_kept_by_root(named, root)}"


def _kept_by_root(named: str, root: str) -> str:
    """Say that root holds the node, where this user cannot lift that."""
    node = node_state(named, root)
    held, _ = holds.of_root(node, this_machine(root)) if node else ((), ())
    return "root holds this node: only root lifts that\n" if held else ""


def _forget(folder: str) -> None:
    """Remove the notes of runs that are over, and what everybody may know of a set-aside file."""
    for note in begun.find(folder):
        if not note.alive:
            begun.end(note)
    if not os.path.lexists(last.path_in(folder)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(last.public_path(folder))


def _archive(folder: str, root: str, reason: str, held: list[dict[str, Any]]) -> None:
    ids = this_machine(root)
    names = [name for name in ("machine_id", "dmi_serial", "hostname") if ids[name]]
    machine = f"{names[0]}:{ids[names[0]]}" if names else "unknown"
    now = time.time()
    archive = Archive(folder, write=True)
    archive.note(machine, now, "clear", reason, held)
    archive.note(machine, now, "hold", "cleared", [])
    archive.close()
