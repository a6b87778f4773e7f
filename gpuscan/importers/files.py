"""Files of /sys and /proc that were pasted, grepped or copied: each is the reading that a scan
makes of it.
"""

import re

from gpuscan.importers.part import NAMELESS, TOLD_GPUS, Part, answer
from gpuscan.recording import Reading

PATH = re.compile(r"/(?:sys|proc)/[\w./:@+-]*[\w]")
LINE = re.compile(rf"^({PATH.pattern})(?:\s*[:=]\s?|\s+)(.*)$")
NAMED = re.compile(r"^([a-z_]+): ?(.+?);?$")
LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
IB = re.compile(r"^/sys/class/infiniband/([^/]+)(?:/ports/(\d+))?/")
DEVICE = re.compile(
    r"^/sys/(?:bus/pci/devices|class/\w+/\w+/device|devices/.*?)/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(/\w+)?$"
)


def readings(part: Part) -> list[Reading]:
    """Return a reading for each file, and the listings that follow from them."""
    files = _files(part)
    found = [answer(f"file:{path}", text) for path, text in files.items()]
    return [*_listings(list(files)), *_gpus(files), *found]


def _files(part: Part) -> dict[str, str]:
    """Return the files' text by path, one that the command names, or one a line."""
    files: dict[str, str] = {}
    whole = PATH.search(part.command)
    path = _normal(whole[0]) if whole else ""
    rest = []
    for line in part.text.splitlines():
        if hit := LINE.match(line):
            files[_normal(hit[1])] = f"{hit[2].strip()}\n"
        elif (named := NAMED.match(line.strip())) and (
            named[1] in LINK_FILES or path.endswith("device") or DEVICE.match(path)
        ):
            files[f"{path or f'/sys/bus/pci/devices/{NAMELESS}'}/{named[1]}"] = (
                f"{named[2].strip()}\n"
            )
        else:
            rest.append(line)
    text = "\n".join(rest).strip("\n")
    if path and text:
        files[path] = f"{text}\n"
    return files


def _normal(path: str) -> str:
    """Return a path without `./` in it; a device by the place under which a scan reads it."""
    path = path.replace("/./", "/")
    hit = DEVICE.match(path)
    return f"/sys/bus/pci/devices/{hit[1]}{hit[2] or ''}" if hit else path


def _listings(paths: list[str]) -> list[Reading]:
    hcas: dict[str, list[str]] = {}
    for path in paths:
        if hit := IB.match(path):
            ports = hcas.setdefault(hit[1], [])
            if hit[2] and hit[2] not in ports:
                ports.append(hit[2])
    if not hcas:
        return []
    listing = [answer("dir:/sys/class/infiniband", list(hcas))]
    return listing + [
        answer(f"dir:/sys/class/infiniband/{hca}/ports", ports) for hca, ports in hcas.items()
    ]


def _gpus(files: dict[str, str]) -> list[Reading]:
    """A device whose link is shown is taken for a GPU, unless its vendor or class says otherwise."""
    found = []
    for path in files:
        base, _, name = path.rpartition("/")
        address = base.rpartition("/")[2]
        if name in LINK_FILES and address not in found and base.startswith("/sys/bus/pci/devices/"):
            vendor, kind = (
                files.get(f"{base}/vendor", "0x10de").strip(),
                files.get(f"{base}/class", "0x03").strip(),
            )
            if vendor == "0x10de" and kind.startswith("0x03"):
                found.append(address)
    return [answer(TOLD_GPUS, found)] if found else []
