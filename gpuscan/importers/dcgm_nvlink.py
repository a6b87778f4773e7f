"""`dcgmi nvlink -s` and `-e`: the state of each GPU's NVLinks, and what they counted."""

import re
from collections.abc import Iterator

from gpuscan.importers import smi_words
from gpuscan.importers.part import Importer, Part, answer, begins_with, by_index
from gpuscan.importers.smi_links import FIELDS, STATE, Links, link_readings
from gpuscan.recording import Reading
from gpuscan.recording.keys import IMPORTED_GPUS, INIT

TITLE = re.compile(r"NvLink Link Status|NVLINK Error Counts")
GPU = re.compile(r"^\s*gpuId (?P<gpu>\d+): *(?P<links>(?:[UDX_] ?)*)")
SWITCH = re.compile(r"^\s*(?:NvSwitches:|physicalId \d+:)")
LINKS = re.compile(r"^\s*(?P<links>[UDX_](?: [UDX_])*)(?:\s|$)")
STATES = {"U": 1, "D": 0, "X": 0}  # up, down, disabled; `_` is a link that this GPU does not have
COUNTED_GPU = re.compile(r"^\s*\| GPU (\d+) +\|")
COUNTED_LINK = re.compile(r"^\s*\| Link (\d+) +\|")
COUNT = re.compile(r"^\s*\| -> (Replay|Recovery|CRC FLIT) Error +\| (\d+) +\|")


def readings(part: Part) -> list[Reading]:
    """Return the readings of the GPUs' links; a row that was cut off has no links.

    >>> text = '''GPUs:
    ...     gpuId 0:
    ...         U D _'''
    >>> [(one.key, one.value) for one in readings(Part("dcgmi nvlink", text)) if ",165," in one.key]
    [('nvml:nvmlDeviceGetFieldValues(GPU 0,165,0)', 1),
     ('nvml:nvmlDeviceGetFieldValues(GPU 0,165,1)', 0)]
    """
    links: dict[str, Links] = {}
    for gpu, code, link, value in _facts(part.text):
        own = links.setdefault(by_index(gpu), Links())
        if code:
            own.fields[code, link] = value
    if not links:
        return []
    made = [answer(INIT, True), answer(IMPORTED_GPUS, list(links))]
    for gpu in links:
        made += smi_words.gpu_readings(gpu, {"index": gpu.removeprefix("GPU ")})
    most = max(own.count() for own in links.values())
    return [*made, *(one for gpu, own in links.items() for one in link_readings(gpu, own, most))]


def _facts(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield (GPU, NVML field or 0, link, value)."""
    gpu = link = ""
    for line in text.splitlines():
        if SWITCH.match(line):
            gpu = ""
        elif hit := GPU.match(line) or (LINKS.match(line) if gpu else None):
            gpu = hit.groupdict().get("gpu") or gpu
            yield gpu, 0, 0, 0
            for number, letter in enumerate(hit["links"].split()):
                if letter in STATES:
                    yield gpu, STATE, number, STATES[letter]
        elif hit := COUNTED_GPU.match(line):
            gpu = hit[1]
            yield gpu, 0, 0, 0
        elif hit := COUNTED_LINK.match(line):
            link = hit[1]
        elif gpu and link and (hit := COUNT.match(line)):
            yield gpu, FIELDS[hit[1].split()[0]], int(link), int(hit[2])


IMPORTER = Importer(
    name="dcgmi nvlink",
    reads="dcgmi nvlink -s and -e",
    readings=readings,
    commands=r"\bdcgmi nvlink\b",
    begins=begins_with(
        r"^\s*\| +NvLink Link Status|^\s*\| NVLINK Error Counts|^\s*gpuId \d+:|^Key: Up=U, Down=D"
    ),
    continues=lambda line: COUNT.match(line) is not None,
)
