"""`nvidia-smi -L`, `nvidia-smi nvlink -s` and `-e`, `nvidia-smi topo -m`: lists that name GPUs by
index and UUID.
"""

import re

from gpuscan.importers import smi_words
from gpuscan.importers.part import TOLD_GPUS, Part, answer, by_index
from gpuscan.importers.smi_query import INIT
from gpuscan.recording import Reading

GPU = re.compile(r"^\s*GPU (\d+): (.*?)(?: \(UUID: (GPU-[0-9a-fA-F-]+)\))?\s*$")
LINK = re.compile(r"^\s*Link (\d+): (.*?)\s*$")
ERRORS = re.compile(r"(Replay|Recovery|CRC) Errors: (\d+)")
RATE = re.compile(r"([\d.]+) GB/s")
DEAD = "all links are inActive"
FIELDS = {"Replay": 161, "Recovery": 162, "CRC": 163}
ROW = re.compile(r"^GPU(\d+)\s")
STATE, SPEED, COUNT = 165, 164, 91


class Links:
    """What was told of one GPU's links: their fields by number, and whether all were said to be
    inactive.
    """

    def __init__(self) -> None:
        self.fields: dict[tuple[int, int], int] = {}
        self.dead = False

    def numbers(self) -> int:
        """Return how many links were told of."""
        return max((number for _, number in self.fields), default=-1) + 1


def listed(part: Part) -> list[Reading]:
    """Return the GPUs of `-L` and of `nvlink`, and their links."""
    words: dict[str, dict[str, str]] = {}
    links: dict[str, Links] = {}
    gpu = ""
    for line in part.text.splitlines():
        if hit := GPU.match(line):
            gpu = by_index(hit[1])
            words[gpu] = {"name": hit[2], "index": hit[1], **({"uuid": hit[3]} if hit[3] else {})}
            links[gpu] = Links()
        elif gpu and DEAD in line:
            links[gpu].dead = True
        elif gpu and (hit := LINK.match(line)):
            _note(links[gpu], int(hit[1]), hit[2])
    if not words:
        return []
    found = [reading for name, told in words.items() for reading in smi_words.readings(name, told)]
    most = max(one.numbers() for one in links.values())
    found += [reading for name, one in links.items() for reading in _of_links(name, one, most)]
    whole = not re.search(r"(?:\s-i|--id)[ =]\d", part.command) and list(words) == [
        by_index(n) for n in range(len(words))
    ]
    count = (
        [answer("nvml:nvmlDeviceGetCount()", len(words))]
        if whole and not any(one.fields or one.dead for one in links.values())
        else []
    )
    return [answer(INIT, True), *count, answer(TOLD_GPUS, list(words)), *found]


def _note(links: Links, number: int, said: str) -> None:
    if hit := ERRORS.match(said):
        links.fields[FIELDS[hit[1]], number] = int(hit[2])
    elif hit := RATE.match(said):
        links.fields[STATE, number], links.fields[SPEED, number] = 1, round(float(hit[1]) * 1000)
    elif "inactive" in said.lower():
        links.fields[STATE, number] = 0


def _of_links(gpu: str, links: Links, most: int) -> list[Reading]:
    """A GPU of which all links are said to be inactive has as many as its siblings; alone, it may
    well have none.
    """
    if links.dead:
        links.fields = {(STATE, number): 0 for number in range(most)}
    if not links.fields and not links.dead:
        return []
    field = "nvml:nvmlDeviceGetFieldValues({},{},{})"
    head = answer(field.format(gpu, COUNT, 0), links.numbers())
    return [
        head,
        *(
            answer(field.format(gpu, code, number), value)
            for (code, number), value in links.fields.items()
        ),
    ]


def topology(part: Part) -> list[Reading]:
    """Return the GPUs that the matrix has a row of, and the matrix as it is."""
    gpus = [by_index(hit[1]) for line in part.text.splitlines() if (hit := ROW.match(line))]
    handles = [
        reading
        for n, gpu in enumerate(gpus)
        for reading in smi_words.readings(gpu, {"index": str(n)})
    ]
    return (
        [
            answer(INIT, True),
            answer(TOLD_GPUS, gpus),
            answer("run:nvidia-smi topo -m", part.text),
            *handles,
        ]
        if gpus
        else []
    )
