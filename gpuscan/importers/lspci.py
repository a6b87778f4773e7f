"""`lspci`, short or with -v: which devices are on PCI, which NVIDIA GPUs answer there, and how
wide their links are.
"""

import re
from collections.abc import Mapping

from gpuscan.collectors.bus import block_key
from gpuscan.importers.part import NAMELESS, TOLD_GPUS, Part, answer
from gpuscan.recording import Reading

PCI = "/sys/bus/pci/devices"
DEVICE = re.compile(
    r"^(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<what>.*)$"
)
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
    """Return the listing of devices, what identifies each, and the blocks of NVIDIA's GPUs and of
    the bridges above them.
    """
    blocks = _blocks(part.text)
    nameless = blocks.pop("", "")
    if not blocks:
        return _nameless(nameless)
    found = [
        answer(f"file:{PCI}/{address}/uevent", _uevent(text)) for address, text in blocks.items()
    ]
    whole = not re.search(r"\s-s\b", part.command)
    gpus = [address for address, text in blocks.items() if _is_gpu(text)]
    listing = (
        [answer(f"dir:{PCI}", list(blocks)), answer("dir:/sys/bus/pci/slots", [])]
        if whole
        else [answer(TOLD_GPUS, gpus)]
    )
    above = _bridges(blocks)
    for address in gpus:
        way = _way(address, above)
        if way:
            found.append(
                answer(
                    f"link:{PCI}/{address}",
                    "../../../devices/" + "/".join([f"pci{way[0][:7]}", *way, address]),
                )
            )
        found += [answer(block_key(one), blocks[one]) for one in (*way[-1:], address)]
    return [*listing, *found]


def _nameless(text: str) -> list[Reading]:
    """A fragment without a device's line is taken for the GPU that its reader wonders about."""
    if not re.search(r"LnkSta:|LnkCap:|header type 7f|UESta:", text):
        return []
    return [answer(TOLD_GPUS, [NAMELESS]), answer(block_key(NAMELESS), text)]


def _blocks(text: str) -> dict[str, str]:
    """Return each device's lines by its address; those above the first device stand under ""."""
    blocks: dict[str, list[str]] = {"": []}
    address = ""
    for line in text.splitlines():
        if hit := DEVICE.match(line):
            address = hit["address"] if hit["address"].count(":") == 2 else f"0000:{hit['address']}"
            blocks[address] = []
        blocks[address].append(line)
    return {address: "\n".join(lines) + "\n" for address, lines in blocks.items()}


def _is_gpu(text: str) -> bool:
    identity = _uevent(text)
    return "PCI_ID=10DE" in identity and identity.startswith("PCI_CLASS=3")


def _uevent(text: str) -> str:
    """Return what the kernel's uevent file would say of a device; without numbers only whether it
    is a GPU of NVIDIA's.
    """
    line = text.partition("\n")[0].partition(" ")[2]
    numbers = NUMBERS.search(line) or PLAIN_NUMBERS.search(line)
    driver = DRIVER.search(text)
    tail = f"DRIVER={driver[1]}\n" if driver else ""
    if numbers:
        return (
            f"PCI_CLASS={numbers['class'].lstrip('0').upper()}00\nPCI_ID={numbers['vendor']}:{numbers['device']}\n".upper()
            + tail
        )
    kind = line.partition(":")[0].partition(" [")[0]
    nvidia = ": NVIDIA Corporation" in line or ": nVidia Corporation" in line
    device = UNNAMED_DEVICE.search(line)
    ids = f"{'10DE' if nvidia else 'FFFF'}:{device[1].upper() if device else ''}"
    return f"PCI_CLASS={CLASSES.get(kind, OTHER_CLASS)}\nPCI_ID={ids}\n{tail}"


def _bridges(blocks: Mapping[str, str]) -> dict[str, str]:
    """Return the bridge above each bus, by domain and bus."""
    found = {}
    for address, text in blocks.items():
        if hit := BUSES.search(text):
            found[f"{address.split(':')[0]}:{hit[2]}"] = address
    return found


def _way(address: str, above: Mapping[str, str]) -> list[str]:
    """Return the bridges from the root port down to a device."""
    way: list[str] = []
    bridge = above.get(address.rpartition(":")[0])
    while bridge and bridge not in way:
        way.insert(0, bridge)
        bridge = above.get(bridge.rpartition(":")[0])
    return way
