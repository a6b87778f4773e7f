"""What a state folder has beside this node's hold, for whoever expected one."""

import os
from collections.abc import Iterator
from typing import Any

from gpuscan.durations import format_moment
from gpuscan.state import last
from gpuscan.state.place import StateError

MOST_REASONS = 3  # of another machine's hold that are named


def told_elsewhere(folder: str) -> Iterator[str]:
    """Yield sentences on the last run, a swap that is under way, and the holds of other machines
    whose recordings were judged here.
    """
    found = _read(last.path_in(folder))
    if found:
        at = format_moment(found["at"])
        yield f"the last run, {at}, ended with {found['verdict']} ({found['exit_code']})"
        if found["swap"]:
            ticket = found["swap"].get("ticket") or "a swap"
            yield f"{ticket} is under way: gpuscan swap verify exercises what was held"
    try:
        names = sorted(os.listdir(os.path.join(folder, "machines")))
    except OSError:
        return
    for other in filter(None, (_read(last.path_in(folder, name)) for name in names)):
        if other["hold"]:
            yield f"held on {_name(other)}, whose recording was judged here: {_reasons(other)}"


def _read(path: str) -> dict[str, Any] | None:
    try:
        return last.read(path)
    except StateError:
        return None


def _name(found: dict[str, Any]) -> str:
    ids = found["machine"]
    return str(
        ids.get("hostname")
        or ids.get("dmi_serial")
        or ids.get("machine_id")
        or "a machine without a name"
    )


def _reasons(found: dict[str, Any]) -> str:
    reasons = found["hold"]["reasons"]
    told = [f"{one['subject'].replace(':', ' ', 1)} ({one['check']})" for one in reasons]
    more = f" and {len(told) - MOST_REASONS} more" if len(told) > MOST_REASONS else ""
    return ", ".join(told[:MOST_REASONS]) + more
