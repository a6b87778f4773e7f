"""The hold as people see it, and how an operator lifts it: `explain hold` and `clear --reason`."""

import json
import time
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.engine.hold import lifted_by
from gpuscan.errors import UsageError
from gpuscan.state import last
from gpuscan.state.archive import Archive
from gpuscan.state.place import locked, replace, set_aside, state_dir
from gpuscan.state.whoami import this_machine
from gpuscan.text import printable

RULES = """\
A run that ends with exit code 20 or above holds the node, and a reboot does not lift the hold.
  20 to 31: lifted by a passing run of the whole node, at the level that the hold names or above.
  40, 41:   lifted by gpuscan swap verify, or by a passing run in which the held part (by its
            serial number) is no longer in the node.
  any:      lifted by gpuscan clear --reason TEXT; the reason goes into the archive.
"""


def render_hold(folder: str, format_: str) -> str:
    """Return what is held on this node, why, since when, and what lifts it."""
    stored = last.read(last.path_in(state_dir(folder)))
    held = stored["hold"] if stored else None
    if format_ == "json":
        return json.dumps(held, indent=1) + "\n"
    if held is None:
        return f"{RULES}\nNothing is held on this node.\n"
    lines = [f"This node is held with exit code {held['code']} ({held['verdict']}):"]
    for reason in held["reasons"]:
        serial = f", serial {reason['serial']}" if reason["serial"] else ""
        since = format_moment(reason["since_s"])
        lines += [
            f"  {reason['subject']}{serial}: {reason['message']}",
            f"    {reason['check']}: {reason['action']}, exit code {reason['code']}, since {since}",
            f"    {lifted_by(reason['code'], reason['level'])}",
        ]
    return "".join(f"{printable(line)}\n" for line in [*RULES.splitlines(), "", *lines])


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
        reasons = stored["hold"]["reasons"] if stored and stored["hold"] else []
        _archive(folder, root, reason, reasons)
        if stored is not None:
            unproven = {"verdict": "incomplete", "complete": False, "exit_code": 3}
            replace(path, {**stored, "hold": None, "swap": None, **unproven})
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
