"""Files of /sys and /proc, pasted, grepped or copied: each becomes the reading of a scan."""

import re

from gpuscan.importers.part import NAMELESS, NOT_A_QUERY, Importer, Part, answer, begins_with
from gpuscan.recording import Reading
from gpuscan.recording.keys import IMPORTED_GPUS, directory, file

PATH = re.compile(r"/(?:sys|proc)/[\w./:@+-]*[\w]")
PATH_ALONE = re.compile(r"^/(?:sys|proc)/\S+$")
LINE = re.compile(rf"^({PATH.pattern})(?:\s*[:=]\s?|\s+)(.*)$")
NAMED = re.compile(r"^([a-z_]+): ?(.+?);?$")
LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
PCI_DEVICES, INFINIBAND = "/sys/bus/pci/devices", "/sys/class/infiniband"
HCA = re.compile(rf"^{INFINIBAND}/([^/]+)(?:/ports/(\d+))?/")
DEVICE = re.compile(
    r"^/sys/(?:bus/pci/devices|class/\w+/\w+/device|devices/.*?)"
    r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(/\w+)?$"
)
# a copied tree may begin anywhere above /sys or /proc, or below /sys/class/infiniband
IN_TREE = re.compile(r"(?:^|/)((?:sys|proc)/.+)$")
IN_INFINIBAND = re.compile(
    r"(?:^|/)([a-z]\w*_\d+/(?:ports/\d+/.+|fw_ver|board_id|hca_type|node_guid))$"
)


def original_path(name: str) -> str:
    """Return the path below /sys or /proc of which a file is a copy, "" if its name does not say.

    >>> original_path("node1/sys/class/infiniband/mlx5_0/fw_ver"), original_path("smi.txt")
    ('/sys/class/infiniband/mlx5_0/fw_ver', '')
    """
    if hit := IN_TREE.search(name):
        return f"/{hit[1]}"
    if hit := IN_INFINIBAND.search(name):
        return f"{INFINIBAND}/{hit[1]}"
    return ""


def readings(part: Part) -> list[Reading]:
    """Return a reading of each file, and the listings that follow from them.

    >>> part = Part("sysfs", "16", command="cat /sys/bus/pci/devices/0000:19:00.0/max_link_width")
    >>> [(reading.key, reading.value) for reading in readings(part)]
    [('import:cards', ['0000:19:00.0']),
     ('file:/sys/bus/pci/devices/0000:19:00.0/max_link_width', '16\\n')]
    """
    files = _files(part)
    answers = [answer(file(path), text) for path, text in files.items()]
    return [*_listings(list(files)), *_gpus(files), *answers]


def _files(part: Part) -> dict[str, str]:
    """Return the text of each file by path: the one that the command names, or one in each line."""
    files: dict[str, str] = {}
    whole = PATH.search(part.command)
    path = _normalise(whole[0]) if whole else ""
    is_device = path.endswith("device") or DEVICE.match(path) is not None
    rest = []
    for line in part.text.splitlines():
        named = NAMED.match(line.strip())
        if hit := LINE.match(line):
            files[_normalise(hit[1])] = f"{hit[2].strip()}\n"
        elif named and (named[1] in LINK_FILES or is_device):
            device = path or f"{PCI_DEVICES}/{NAMELESS}"
            files[f"{device}/{named[1]}"] = f"{named[2].strip()}\n"
        else:
            rest.append(line)
    text = "\n".join(rest).strip("\n")
    if path and text:
        files[path] = f"{text}\n"
    return files


def _normalise(path: str) -> str:
    """Return a path without `./`, and that of a device as a scan reads it."""
    path = path.replace("/./", "/")
    hit = DEVICE.match(path)
    return f"{PCI_DEVICES}/{hit[1]}{hit[2] or ''}" if hit else path


def _listings(paths: list[str]) -> list[Reading]:
    hcas: dict[str, list[str]] = {}
    for path in paths:
        if hit := HCA.match(path):
            ports = hcas.setdefault(hit[1], [])
            if hit[2] and hit[2] not in ports:
                ports.append(hit[2])
    if not hcas:
        return []
    ports_of = [
        answer(directory(f"{INFINIBAND}/{hca}/ports"), ports) for hca, ports in hcas.items()
    ]
    return [answer(directory(INFINIBAND), list(hcas)), *ports_of]


def _gpus(files: dict[str, str]) -> list[Reading]:
    """Return the devices whose link is shown, unless vendor or class says that they are no GPU."""
    gpus: list[str] = []
    for path in files:
        base, _, name = path.rpartition("/")
        address = base.rpartition("/")[2]
        if name not in LINK_FILES or address in gpus or not base.startswith(f"{PCI_DEVICES}/"):
            continue
        vendor = files.get(f"{base}/vendor", "0x10de").strip()
        device_class = files.get(f"{base}/class", "0x03").strip()
        if vendor == "0x10de" and device_class.startswith("0x03"):
            gpus.append(address)
    return [answer(IMPORTED_GPUS, gpus)] if gpus else []


IMPORTER = Importer(
    name="sysfs",
    reads="files of /sys and /proc",
    readings=readings,
    commands=r"/(?:sys|proc)/\S+",
    owns=rf"{NOT_A_QUERY}(?:.*\s)?/(?:sys|proc)/\S+",
    begins=begins_with(r"^/(?:sys|proc)/[\w./:@+-]+\s*[:=]|^(?:current|max)_link_(?:speed|width):"),
)
