"""`ibstat`, `ibstatus` and `ibv_devinfo`: the ports' state as sysfs has it."""

import re

from gpuscan.importers.part import Part, answer
from gpuscan.recording import Reading

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
    "sleep": 1, "polling": 2, "disabled": 3, "portconfigurationtraining": 4, "linkup": 5, "linkerrorrecovery": 6, "phytest": 7,
    "phy test": 7,
}  # fmt: skip
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
    r"^\s*(?:CA '(?P<ibstat>[^']+)'|Infiniband device '(?P<ibstatus>[^']+)' port (?P<port>\d+) status:|hca_id:\s*(?P<devinfo>\S+))"
)
PORT = re.compile(r"^\s*(?:Port (\d+):|port:\s*(\d+))\s*$")
PAIR = re.compile(r"^\s*([A-Za-z_][\w. ]*?):\s*(.*?)\s*$")
RATES = {
    "1": 2.5,
    "2": 5,
    "4": 10,
    "8": 10,
    "16": 14,
    "32": 25,
    "64": 50,
    "128": 100,
    "256": 200,
}  # Gb/s a lane, by ibv's code


def readings(part: Part) -> list[Reading]:
    """Return the listing of HCAs and ports, and the files of each as far as the tool tells them."""
    hcas: dict[str, dict[str, str]] = {}
    ports: dict[tuple[str, str], dict[str, str]] = {}
    hca = port = ""
    for line in part.text.splitlines():
        if hit := HCA.match(line):
            hca, port = hit["ibstat"] or hit["ibstatus"] or hit["devinfo"], hit["port"] or ""
            hcas.setdefault(hca, {})
        elif hca and (numbered := PORT.match(line)):
            port = numbered[1] or numbered[2]
        elif hca and (pair := PAIR.match(line)):
            (ports.setdefault((hca, port), {}) if port else hcas[hca])[
                pair[1].lower().replace("_", " ")
            ] = pair[2]
        if hca and port:
            ports.setdefault((hca, port), {})
    if not ports:
        return []
    found = [answer(f"dir:{ROOT}", list(hcas))]
    for name, words in hcas.items():
        found.append(
            answer(f"dir:{ROOT}/{name}/ports", [number for owner, number in ports if owner == name])
        )
        found += _of_hca(f"{ROOT}/{name}", words)
    return found + [
        reading
        for (owner, number), words in ports.items()
        for reading in _of_port(f"{ROOT}/{owner}/ports/{number}", words)
    ]


def _of_hca(base: str, words: dict[str, str]) -> list[Reading]:
    files = {
        "fw_ver": ("firmware version", "fw ver"),
        "hca_type": ("ca type",),
        "board_id": ("board id",),
        "node_guid": ("node guid",),
    }
    found = []
    for file, names in files.items():
        word = next((words[name] for name in names if words.get(name)), "")
        if word:
            found.append(
                answer(f"file:{base}/{file}", _guid(word) if file == "node_guid" else word)
            )
    return found


def _guid(word: str) -> str:
    """`0xb8cef60300aabbcc` reads in sysfs as groups of four digits."""
    return ":".join(re.findall("....", word.removeprefix("0x").replace(":", "")))


def _of_port(base: str, words: dict[str, str]) -> list[Reading]:
    files = {
        "link_layer": words.get("link layer", ""),
        "state": _named(words.get("state", ""), STATES, STATE_NAMES),
        "phys_state": _named(
            words.get("physical state", words.get("phys state", "")), PHYSICAL, PHYSICAL_NAMES
        ),
        "rate": _rate(words),
    }
    return [answer(f"file:{base}/{name}", word) for name, word in files.items() if word]


def _named(word: str, numbers: dict[str, int], names: dict[int, str]) -> str:
    """Return `4: ACTIVE` for `Active`, `PORT_ACTIVE (4)` and itself; a word that nobody knows
    keeps its own.
    """
    bare = re.sub(r"^(?:PORT_)|^\d+: *| \(\d+\)$", "", re.sub(r"^\d+: *", "", word)).strip()
    if not bare:
        return ""
    number = numbers.get(
        bare.lower().replace("_", "") if bare.lower() not in numbers else bare.lower()
    )
    return f"{number}: {names[number]}" if number is not None else f"9: {bare}"


def _rate(words: dict[str, str]) -> str:
    """`Rate: 400` and `rate: 400 Gb/sec (4X NDR)` are the same; ibv_devinfo tells lanes and speed
    of a lane.
    """
    rate = words.get("rate", "")
    if rate:
        return rate if "Gb/sec" in rate else f"{rate} Gb/sec"
    width, speed = (
        words.get("active width", ""),
        re.search(r"([\d.]+) Gbps", words.get("active speed", "")),
    )
    lanes = re.match(r"(\d+)X", width)
    return (
        f"{int(lanes[1]) * float(speed[1]):g} Gb/sec ({width.split()[0]})"
        if lanes and speed
        else ""
    )
