"""`ibstat`, `ibstatus` and `ibv_devinfo`: HCAs and ports, as the files of sysfs."""

import re

from gpuscan.importers.part import Importer, Part, answer, begins_with
from gpuscan.recording import Reading
from gpuscan.recording.keys import directory, file

ROOT = "/sys/class/infiniband"
STATES = {
    "noop": 0,
    "down": 1,
    "init": 2,
    "initializing": 2,
    "initialize": 2,
    "armed": 3,
    "active": 4,
    "active_defer": 5,
}
PHYSICAL = {
    "sleep": 1,
    "polling": 2,
    "disabled": 3,
    "portconfigurationtraining": 4,
    "linkup": 5,
    "linkerrorrecovery": 6,
    "phytest": 7,
    "phy test": 7,
}
PHYSICAL_NAMES = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "Phy Test",
}
STATE_NAMES = {0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
HCA = re.compile(
    r"^\s*(?:CA '(?P<ibstat>[^']+)'"
    r"|Infiniband device '(?P<ibstatus>[^']+)' port (?P<port>\d+) status:"
    r"|hca_id:\s*(?P<devinfo>\S+))"
)
PORT = re.compile(r"^\s*(?:Port (\d+):|port:\s*(\d+))\s*$")
PAIR = re.compile(r"^\s*([A-Za-z_][\w. ]*?):\s*+(.*\S|)\s*$")
HCA_FILES = {  # the names of each value in the tools' output
    "fw_ver": ("firmware version", "fw ver"),
    "hca_type": ("ca type",),
    "board_id": ("board id",),
    "node_guid": ("node guid",),
}
Values = dict[str, str]


def readings(part: Part) -> list[Reading]:
    """Return the listing of HCAs and ports, and the files of each, as far as the tool shows them.

    >>> text = '''CA 'mlx5_0'
    ...     Firmware version: 28.39.1002
    ...     Port 1:
    ...         State: Active
    ...         Rate: 400'''
    >>> for reading in readings(Part("ibstat", text)):
    ...     print(reading.key, reading.value)
    dir:/sys/class/infiniband ['mlx5_0']
    dir:/sys/class/infiniband/mlx5_0/ports ['1']
    file:/sys/class/infiniband/mlx5_0/fw_ver 28.39.1002
    file:/sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE
    file:/sys/class/infiniband/mlx5_0/ports/1/rate 400 Gb/sec
    """
    hcas, ports = _parse(part.text)
    if not ports:
        return []
    made = [answer(directory(ROOT), list(hcas))]
    for name, values in hcas.items():
        numbers = [number for owner, number in ports if owner == name]
        made.append(answer(directory(f"{ROOT}/{name}/ports"), numbers))
        made += _hca_files(f"{ROOT}/{name}", values)
    for (owner, number), values in ports.items():
        made += _port_files(f"{ROOT}/{owner}/ports/{number}", values)
    return made


def _parse(text: str) -> tuple[dict[str, Values], dict[tuple[str, str], Values]]:
    """Return the values of each HCA, and of each port by HCA and number."""
    hcas: dict[str, Values] = {}
    ports: dict[tuple[str, str], Values] = {}
    hca = port = ""
    for line in text.splitlines():
        if hit := HCA.match(line):
            hca, port = hit["ibstat"] or hit["ibstatus"] or hit["devinfo"], hit["port"] or ""
            hcas.setdefault(hca, {})
        elif hca and (numbered := PORT.match(line)):
            port = numbered[1] or numbered[2]
        elif hca and (pair := PAIR.match(line)):
            values = ports.setdefault((hca, port), {}) if port else hcas[hca]
            values[pair[1].lower().replace("_", " ")] = pair[2]
        if hca and port:
            ports.setdefault((hca, port), {})
    return hcas, ports


def _hca_files(base: str, values: Values) -> list[Reading]:
    made = []
    for name, names in HCA_FILES.items():
        value = next((values[name] for name in names if values.get(name)), "")
        if value:
            text = _format_guid(value) if name == "node_guid" else value
            made.append(answer(file(f"{base}/{name}"), text))
    return made


def _format_guid(text: str) -> str:
    """Return `0xb8cef60300aabbcc` as sysfs writes it, in groups of four digits."""
    return ":".join(re.findall("....", text.removeprefix("0x").replace(":", "")))


def _port_files(base: str, values: Values) -> list[Reading]:
    physical = values.get("physical state", values.get("phys state", ""))
    files = {
        "link_layer": values.get("link layer", ""),
        "state": _format_state(values.get("state", ""), STATES, STATE_NAMES),
        "phys_state": _format_state(physical, PHYSICAL, PHYSICAL_NAMES),
        "rate": _format_rate(values),
    }
    return [answer(file(f"{base}/{name}"), text) for name, text in files.items() if text]


def _format_state(text: str, numbers: dict[str, int], names: dict[int, str]) -> str:
    """Return `4: ACTIVE` for `Active`, `PORT_ACTIVE (4)` and itself.

    An unknown state keeps its name, under a number that no state has.
    """
    bare = re.sub(r"^(?:PORT_)|^\d+: *| \(\d+\)$", "", re.sub(r"^\d+: *", "", text)).strip()
    if not bare:
        return ""
    low = bare.lower()
    number = numbers.get(low, numbers.get(low.replace("_", "")))
    return f"{number}: {names[number]}" if number is not None else f"9: {bare}"


def _format_rate(values: Values) -> str:
    """Return the rate as sysfs writes it.

    ibstat prints `400`, ibstatus `400 Gb/sec (4X NDR)`, and ibv_devinfo the number of lanes and
    the speed of one.
    """
    rate = values.get("rate", "")
    if rate:
        return rate if "Gb/sec" in rate else f"{rate} Gb/sec"
    width = values.get("active width", "")
    speed = re.search(r"(?<![\d.])([\d.]++) Gbps", values.get("active speed", ""))
    lanes = re.match(r"(\d+)X", width)
    if not lanes or not speed:
        return ""
    return f"{int(lanes[1]) * float(speed[1]):g} Gb/sec ({width.split()[0]})"


IMPORTER = Importer(
    name="ibstat",
    reads="ibstat, ibstatus, ibv_devinfo",
    readings=readings,
    commands=r"\bibstat(?:us)?\b|\bibv_devinfo\b",
    opens=HCA,
    begins=begins_with(r"^\s*CA '[^']+'|^\s*Infiniband device '|^\s*hca_id:"),
)
