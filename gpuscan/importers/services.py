"""`systemctl status`: whether a unit runs, how it ended, and whether it starts at boot."""

import re

from gpuscan.importers.logs import STAMPED
from gpuscan.importers.part import Importer, Part, answer, begins_with
from gpuscan.recording import Reading
from gpuscan.recording.keys import service

UNIT = re.compile(
    r"^\s*+(?:(?:[^\w\s]|x)\s*+)?(?P<unit>[\w@.\\-]+?)\.service(?: - (?P<text>.*)|\s*)$"
)
LOADED = re.compile(
    r"^\s*Loaded: (?P<loaded>\S+)(?: \((?P<where>[^;)]*)(?:; (?P<enabled>[\w-]+))?)?"
)
ACTIVE = re.compile(r"^\s*Active: (?P<active>[\w-]+)(?: \((?:Result: )?(?P<result>[^)]*)\))?")
ABSENT = re.compile(r"Unit (?P<unit>[\w@.\\-]+?)\.service could not be found")
ASKED = re.compile(r"systemctl (?:status|is-active)(?: -\S+)* ([\w@.-]+)")
STATES = ("active", "inactive", "failed", "activating")
NOT_FOUND = {"active": "inactive", "result": "", "enabled": "", "loaded": "not-found"}
UNKNOWN = {"active": "", "result": "", "enabled": "", "loaded": ""}


def readings(part: Part) -> list[Reading]:
    """Return a reading `service:<unit>` of each unit: {active, result, enabled, loaded}.

    >>> text = '''nvidia-fabricmanager.service - NVIDIA fabric manager service
    ...      Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled)
    ...      Active: failed (Result: exit-code) since Mon 2026-03-02 08:00:00 UTC; 2h ago'''
    >>> readings(Part("systemctl status", text))[0].value
    {'active': 'failed', 'result': 'exit-code', 'enabled': 'enabled', 'loaded': 'loaded'}
    """
    asked = ASKED.search(part.command)
    unit = asked[1].removesuffix(".service") if asked else ""
    units: dict[str, dict[str, str]] = {}
    for line in part.text.splitlines():
        if hit := ABSENT.search(line):
            units[hit["unit"]] = dict(NOT_FOUND)
        elif hit := UNIT.match(line):
            unit = hit["unit"]
        elif unit:
            state = _parse_state(line, part.command)
            if state:
                units.setdefault(unit, {}).update(state)
    return [
        answer(service(name), UNKNOWN | state)
        for name, state in units.items()
        if state.get("active")
    ]


def _parse_state(line: str, command: str) -> dict[str, str]:
    """Return what one line says about its unit."""
    if hit := LOADED.match(line):
        return {"loaded": hit["loaded"], "enabled": hit["enabled"] or ""}
    if hit := ACTIVE.match(line):
        return {"active": hit["active"], "result": hit["result"] or ""}
    if line.strip() in STATES and "is-active" in command:
        return {"active": line.strip()}
    return {}


def _is_message(line: str) -> bool:
    """Return whether a line is one of the unit's last messages, rather than a kernel log's."""
    return STAMPED.search(line) is not None and "kernel:" not in line


IMPORTER = Importer(
    name="systemctl status",
    reads="systemctl status",
    readings=readings,
    commands=r"\bsystemctl (?:status|is-active)",
    begins=begins_with(
        r"^\s*(?:[●×○x*↻]\s+)?[\w@.\\-]+\.service(?: - |\s*$)"
        r"|^\s*Active: (?:active|inactive|failed|activating)"
        r"|Unit \S+\.service could not be found"
    ),
    continues=_is_message,
)
