"""`lspci`, short or with -v: the devices on PCI, whether NVIDIA GPUs answer, their link widths."""

import re
from collections.abc import Mapping

from gpuscan.collectors.bus import block_key
from gpuscan.importers.part import NAMELESS, Importer, Part, answer, begins_with
from gpuscan.recording import Reading
from gpuscan.recording.keys import IMPORTED_GPUS, directory, file, link

PCI = "/sys/bus/pci/devices"
DEVICE = re.compile(
    r"^(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<what>.*)$"
)
BROKEN_OFF = re.compile(r"^ ?(?:\[[0-9a-f]{4}:[0-9a-f]{4}\] )?\(rev [0-9a-f]{2}\)")  # by a terminal
CLASSES = {
    "VGA compatible controller": "30000",
    "3D controller": "30200",
    "Display controller": "38000",
}
OTHER_CLASS = "FF0000"
NUMBERS = re.compile(
    r"\[(?P<class>[0-9a-f]{4})\]: .*\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]"
)
PLAIN_NUMBERS = re.compile(
    r"^(?P<class>[0-9a-f]{4}): (?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\b"
)
UNNAMED_DEVICE = re.compile(r"NVIDIA Corporation Device ([0-9a-f]{4})\b")
DRIVER = re.compile(r"Kernel driver in use: (\S+)")
BUSES = re.compile(r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2})")


def readings(part: Part) -> list[Reading]:
    """Return the listing of devices, the identity of each, and the output for each GPU.

    Each NVIDIA GPU also gets the output for the bridge above it.

    >>> text = "19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff)"
    >>> for reading in readings(Part("lspci", text)):
    ...     print(reading.key, repr(reading.value))
    dir:/sys/bus/pci/devices ['0000:19:00.0']
    dir:/sys/bus/pci/slots []
    file:/sys/bus/pci/devices/0000:19:00.0/uevent 'PCI_CLASS=30200\\nPCI_ID=10DE:2330\\n'
    run:lspci -vvvs 0000:19:00.0 '19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff)\\n'
    """
    blocks = _split_devices(part.text)
    nameless = blocks.pop("", "")
    if not blocks:
        return _nameless(nameless)
    made = [
        answer(file(f"{PCI}/{address}/uevent"), _uevent(text)) for address, text in blocks.items()
    ]
    gpus = [address for address, text in blocks.items() if _is_gpu(text)]
    if re.search(r"\s-s\b", part.command):  # only the devices that were asked for
        listing = [answer(IMPORTED_GPUS, gpus)]
    else:
        listing = [
            answer(directory(PCI), list(blocks)),
            answer(directory("/sys/bus/pci/slots"), []),
        ]
    bridges = _bridges(blocks)
    for address in gpus:
        path = _bridges_above(address, bridges)
        if path:
            target = "/".join(["../../../devices", f"pci{path[0][:7]}", *path, address])
            made.append(answer(link(f"{PCI}/{address}"), target))
        made += [answer(block_key(device), blocks[device]) for device in (*path[-1:], address)]
    return [*listing, *made]


def _nameless(text: str) -> list[Reading]:
    """Return the readings of a fragment that names no device: it is taken for a GPU's."""
    if not re.search(r"LnkSta:|LnkCap:|header type 7f|UESta:", text):
        return []
    return [answer(IMPORTED_GPUS, [NAMELESS]), answer(block_key(NAMELESS), text)]


def _split_devices(text: str) -> dict[str, str]:
    """Return each device's lines by its address; those above the first device are under ""."""
    blocks: dict[str, list[str]] = {"": []}
    address = ""
    for line in text.splitlines():
        if BROKEN_OFF.match(line) and address:
            blocks[address][-1] += f" {line.lstrip()}"
            continue
        if hit := DEVICE.match(line):
            address = hit["address"] if hit["address"].count(":") == 2 else f"0000:{hit['address']}"
            blocks[address] = []
        blocks[address].append(line)
    return {address: "\n".join(lines) + "\n" for address, lines in blocks.items()}


def _is_gpu(text: str) -> bool:
    identity = _uevent(text)
    return "PCI_ID=10DE" in identity and identity.startswith("PCI_CLASS=3")


def _uevent(text: str) -> str:
    """Return the kernel's uevent file of a device; without numbers, as far as names tell."""
    line = text.partition("\n")[0].partition(" ")[2]
    numbers = NUMBERS.search(line) or PLAIN_NUMBERS.search(line)
    driver = DRIVER.search(text)
    tail = f"DRIVER={driver[1]}\n" if driver else ""
    if numbers:
        ids = f"{numbers['vendor']}:{numbers['device']}".upper()
        return f"PCI_CLASS={numbers['class'].lstrip('0').upper()}00\nPCI_ID={ids}\n{tail}"
    kind = line.partition(":")[0].partition(" [")[0]
    nvidia = ": NVIDIA Corporation" in line or ": nVidia Corporation" in line
    device = UNNAMED_DEVICE.search(line)
    ids = f"{'10DE' if nvidia else 'FFFF'}:{device[1].upper() if device else ''}"
    return f"PCI_CLASS={CLASSES.get(kind, OTHER_CLASS)}\nPCI_ID={ids}\n{tail}"


def _bridges(blocks: Mapping[str, str]) -> dict[str, str]:
    """Return the bridge above each bus, by domain and bus."""
    bridges = {}
    for address, text in blocks.items():
        if hit := BUSES.search(text):
            bridges[f"{address.split(':')[0]}:{hit[2]}"] = address
    return bridges


def _bridges_above(address: str, bridges: Mapping[str, str]) -> list[str]:
    """Return the bridges from the root port down to a device."""
    path: list[str] = []
    bridge = bridges.get(address.rpartition(":")[0])
    while bridge and bridge not in path:
        path.insert(0, bridge)
        bridge = bridges.get(bridge.rpartition(":")[0])
    return path


IMPORTER = Importer(
    name="lspci",
    reads="lspci",
    readings=readings,
    commands=r"\blspci\b",
    opens=re.compile(r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] "),
    begins=begins_with(
        r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S|^\s+Lnk(?:Sta|Cap)2?:"
        r"|Unknown header type 7f|^\s+[UC]ESta:"
    ),
)
