"""`dcgmi nvlink -s` and `-e`: the state of each GPU's NVLinks, and what they counted."""

import re
from collections.abc import Iterator

from gpuscan.importers import smi_words
from gpuscan.importers.part import Importer, Part, answer, begins_with, by_index, refusal
from gpuscan.importers.smi_links import FIELDS, STATE, Links, link_readings
from gpuscan.importers.smi_links import LINKS as LINKS_OF_GPU
from gpuscan.recording import Reading
from gpuscan.recording.keys import IMPORTED_GPUS, INIT, field

TITLE = re.compile(r"NvLink Link Status|NVLINK Error Counts")
GPU = re.compile(r"^\s*gpuId (?P<gpu>\d+): *(?P<links>(?:[UDX_] ?)*)")
SWITCH = re.compile(r"^\s*(?:NvSwitches:|physicalId \d+:)")
LINKS = re.compile(r"^\s*(?P<links>[UDX_](?: [UDX_])*)(?:\s|$)")
UP, DOWN, DISABLED = 1, 0, -1
STATES = {"U": UP, "D": DOWN, "X": DISABLED}  # `_` is a link that this GPU does not have
ROWLESS = "GPU of a row without its name"
ROW = -1  # in place of a field: the GPU has a row, if only of links that it does not have
COUNTED_GPU = re.compile(r"^\s*\| GPU (\d+) +\|")
COUNTED_LINK = re.compile(r"^\s*\| Link (\d+) +\|")
WITHIN = re.compile(
    r"^\s*(?:\+[-=]|\||GPUs:|gpuId \d|NvSwitches:|physicalId \d|[UDX_](?: [UDX_])*\s*$)"
)
COUNT = re.compile(r"^\s*\| -> (Replay|Recovery|CRC FLIT) Error +\| (\d+) +\|")


def readings(part: Part) -> list[Reading]:
    """Return the readings of the GPUs' links; a row that was cut off has no links.

    A disabled link is down where another GPU has that link up; disabled alike, it is not in use.

    >>> text = '''GPUs:
    ...     gpuId 0:
    ...         U D _'''
    >>> [(one.key, one.value) for one in readings(Part("dcgmi nvlink", text)) if ",165," in one.key]
    [('nvml:nvmlDeviceGetFieldValues(GPU 0,165,0)', 1),
     ('nvml:nvmlDeviceGetFieldValues(GPU 0,165,1)', 0)]
    """
    links: dict[str, Links] = {}
    rows: set[str] = set()
    for gpu, code, link, value in _facts(part.text):
        name = gpu if gpu == ROWLESS else by_index(gpu)
        own = links.setdefault(name, Links())
        if code == ROW:
            rows.add(name)
        elif code:
            own.fields[code, link] = value
    if not links:
        return []
    _settle_disabled(list(links.values()))
    made = [answer(INIT, True), answer(IMPORTED_GPUS, list(links))]
    for gpu in links:
        index = {} if gpu == ROWLESS else {"index": gpu.removeprefix("GPU ")}
        made += smi_words.gpu_readings(gpu, index)
    most = max(own.count() for own in links.values())
    for gpu, own in links.items():
        made += link_readings(gpu, own, most)
        made += [] if own.fields or gpu in rows else [_no_row(gpu)]
    return made


def _settle_disabled(gpus: list[Links]) -> None:
    used = {key for own in gpus for key, value in own.fields.items() if value == UP}
    for own in gpus:
        for key in [key for key, value in own.fields.items() if value == DISABLED]:
            if key in used:
                own.fields[key] = DOWN
            else:
                del own.fields[key]


def _no_row(gpu: str) -> Reading:
    return refusal(field(gpu, LINKS_OF_GPU), "garbled", "the text has no row of this GPU's links")


def _facts(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield (GPU, NVML field, ROW or 0, link, value)."""
    gpu, link, of_switches = ROWLESS, "", False
    for line in text.splitlines():
        if SWITCH.match(line):
            of_switches = True
        elif hit := GPU.match(line) or (None if of_switches else LINKS.match(line)):
            row = hit["links"].split()
            whose, gpu = hit.groupdict().get("gpu") or gpu, ROWLESS
            if not row:
                gpu = whose  # its row comes next
            yield whose, ROW if row else 0, 0, 0
            for number, letter in enumerate(row):
                if letter in STATES:
                    yield whose, STATE, number, STATES[letter]
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
    continues=lambda line: WITHIN.match(line) is not None,
)
