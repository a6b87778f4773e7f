"""`systemctl status`: whether a unit runs, how it ended, and whether it starts at boot."""

import re

from gpuscan.importers.part import Part, answer
from gpuscan.recording import Reading

UNIT = re.compile(r"^\s*(?:[^\w\s]|x|\*)?\s*(?P<unit>[\w@.\\-]+?)\.service(?: - (?P<text>.*))?\s*$")
LOADED = re.compile(
    r"^\s*Loaded: (?P<loaded>\S+)(?: \((?P<where>[^;)]*)(?:; (?P<enabled>[\w-]+))?)?"
)
ACTIVE = re.compile(r"^\s*Active: (?P<active>[\w-]+)(?: \((?:Result: )?(?P<result>[^)]*)\))?")
ABSENT = re.compile(r"Unit (?P<unit>[\w@.\\-]+?)\.service could not be found")


def readings(part: Part) -> list[Reading]:
    """Return a reading `service:<unit>` for each unit: {active, result, enabled, loaded}."""
    found: dict[str, dict[str, str]] = {}
    unit = _asked(part.command)
    for line in part.text.splitlines():
        if hit := ABSENT.search(line):
            found[hit["unit"]] = {
                "active": "inactive",
                "result": "",
                "enabled": "",
                "loaded": "not-found",
            }
        elif hit := UNIT.match(line):
            unit = hit["unit"]
        elif unit and (hit := LOADED.match(line)):
            found.setdefault(unit, {}).update(loaded=hit["loaded"], enabled=hit["enabled"] or "")
        elif unit and (hit := ACTIVE.match(line)):
            found.setdefault(unit, {}).update(active=hit["active"], result=hit["result"] or "")
        elif (
            unit
            and line.strip() in ("active", "inactive", "failed", "activating")
            and "is-active" in part.command
        ):
            found.setdefault(unit, {}).update(active=line.strip())
    whole = {"active": "", "result": "", "enabled": "", "loaded": ""}
    return [
        answer(f"service:{name}", whole | told)
        for name, told in found.items()
        if told.get("active")
    ]


def _asked(command: str) -> str:
    hit = re.search(r"systemctl (?:status|is-active)(?: -\S+)* ([\w@.-]+)", command)
    return hit[1].removesuffix(".service") if hit else ""
