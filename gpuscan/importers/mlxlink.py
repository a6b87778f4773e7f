"""`mlxlink`: the state of a port, as the files of sysfs, and the quality of its link."""

import re
from collections.abc import Iterator

from gpuscan.importers.infiniband import PHYSICAL, PHYSICAL_NAMES, ROOT
from gpuscan.importers.part import NAMELESS, Importer, Part, answer, begins_with, refusal
from gpuscan.importers.said import Line, reading
from gpuscan.recording import Reading
from gpuscan.recording.keys import LINK_QUALITY, directory, file

PAIR = re.compile(r"^\s*+(?P<name>[A-Z][\w /().\[\]-]*?)(?<! ) *+: (?P<value>.*\S|)\s*$")
BANNER = re.compile(r"^=++ *+([^\s=]++).*=\s*$")
ASKED = re.compile(r"-d +(\S+)")
LANE_GBPS = {"SDR": 2.5, "QDR": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
BERS = {
    "effective physical ber": "effective-ber",
    "symbol ber": "symbol-ber",
    "raw physical ber": "raw-ber",
}
NO_ERRORS = "15E-255"  # what the firmware reports where it counted none
FAULTS = re.compile(
    r"^(?:module fw fault|datapath fw fault|tx fault|rx los|tx los)(?: \[per lane\])?$"
)
WELL = re.compile(r"no issue|n/a|^-?$", re.IGNORECASE)
ACTIVE = "active"
Values = dict[str, str]


def readings(part: Part) -> list[Reading]:
    """Return each port's state, physical state and rate, and what its counters say of the link.

    >>> text = '''State : Polling
    ... Physical state : ETH_AN_FSM_ENABLE'''
    >>> [reading.key for reading in readings(Part("mlxlink", text))][-1]
    'text:links'
    """
    asked = ASKED.search(part.command)
    ports = list(_ports(part.text, asked[1] if asked else ""))
    lines = [line for name, values in ports for line in _quality(name, values)]
    states = [(name, values) for name, values in ports if _is_infiniband(values)]
    made = [answer(directory(ROOT), list(dict.fromkeys(name for name, _ in states)))]
    for name, values in states:
        made.append(answer(directory(f"{ROOT}/{name}/ports"), ["1"]))
        made += _files(f"{ROOT}/{name}/ports/1", values)
    return [*(made if states else []), *reading(LINK_QUALITY, lines)]


def _ports(text: str, asked: str) -> Iterator[tuple[str, Values]]:
    """Yield the device and the values of each run in a text."""
    name, values = asked or NAMELESS, Values()
    for line in text.splitlines():
        banner, command = BANNER.match(line), ASKED.search(line) if "mlxlink" in line else None
        if banner or command:
            if values:
                yield name, values
            name, values = (banner or command)[1], Values()  # type: ignore[index]
        elif hit := PAIR.match(line):
            if hit["name"] == "State" and "state" in values:
                yield name, values
                values = Values()
            values[hit["name"].lower()] = hit["value"]
    if values:
        yield name, values


def _is_infiniband(values: Values) -> bool:
    """Return whether a port's state is shown, and it is of InfiniBand as far as the text says."""
    ethernet = values.get("physical state", "").startswith("ETH") or (
        ACTIVE in values.get("state", "").lower() and not values.get("speed", "").startswith("IB")
    )
    return "state" in values and not ethernet


def _files(base: str, values: Values) -> list[Reading]:
    active = values["state"].lower() == ACTIVE
    number = PHYSICAL.get(values.get("physical state", "").lower())
    if number is None and not active:  # why it is down decides what it asks for
        return [refusal(file(f"{base}/state"), "garbled", "mlxlink's physical state is not known")]
    made = [answer(file(f"{base}/state"), "4: ACTIVE" if active else "1: DOWN")]
    if number is not None:
        made.append(answer(file(f"{base}/phys_state"), f"{number}: {PHYSICAL_NAMES[number]}"))
    lane = LANE_GBPS.get(values.get("speed", "").removeprefix("IB-"))
    width = re.match(r"(\d+)x", values.get("width", ""), re.IGNORECASE)
    if active and lane and width:
        made.append(answer(file(f"{base}/rate"), f"{lane * int(width[1]):g} Gb/sec"))
    return made


def _quality(name: str, values: Values) -> Iterator[Line]:
    for key, value in values.items():
        if kind := BERS.get(key):
            yield _rate(name, kind, value)
        elif FAULTS.match(key) and re.search(r"[1-9]|fault|yes", value, re.IGNORECASE):
            yield Line(name, "module-fault", f"{key}: {value}")
        elif key == "recommendation":
            kind = "well" if WELL.search(value) else "advice"
            yield Line(name, kind, value)
        elif key == "state":
            up = value.lower() == ACTIVE
            yield Line(name, "up" if up else "down", f"state: {value}")


def _rate(name: str, kind: str, text: str) -> Line:
    if text in ("N/A", ""):
        return Line(name, "not-measured", f"{kind}: {text}")
    try:
        value = 0.0 if text.upper() == NO_ERRORS else float(text)
    except ValueError:
        return Line(name, "", f"{kind}: {text}")
    return Line(name, kind, f"{kind}: {text}", value)


IMPORTER = Importer(
    name="mlxlink",
    reads="mlxlink",
    readings=readings,
    commands=r"\bmlxlink\b",
    owns=r"\bmlxlink\b",
    begins=begins_with(
        r"^Operational Info\s*$|^Physical Counters and BER Info|^(?:Raw|Effective) Physical BER *:"
        r"|^Symbol BER *:|^Troubleshooting Info\s*$|^=+ \S+ FEC Counters =+"
    ),
)
