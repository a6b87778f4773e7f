"""`nvidia-smi -L`, `nvlink -s` and `-e`, and `topo -m`: lists that name GPUs by index and UUID."""

import re
from collections.abc import Iterable

from gpuscan.importers import smi_words
from gpuscan.importers.part import Importer, Part, answer, begins_with, by_index
from gpuscan.recording import Reading
from gpuscan.recording.keys import COUNT, IMPORTED_GPUS, INIT, UNREAD_LINES, command, field

GPU = re.compile(r"^\s*GPU (\d+): (.*?)(?: \(UUID: (GPU-[0-9a-fA-F-]++)\))?(?:(?<!\s)\s++)?$")
LINK = re.compile(r"^\s*Link (\d+): (.*\S|)\s*$")
ERRORS = re.compile(r"(Replay|Recovery|CRC) Errors: (\d+)")
RATE = re.compile(r"(\d+(?:\.\d+)?) GB/s")
DEAD = "all links are inActive"
FIELDS = {"Replay": 161, "Recovery": 162, "CRC": 163}
ROW = re.compile(r"^GPU(\d+)\s")
STATE, SPEED, LINKS = 165, 164, 91  # NVML fields
MOST_LINKS = 64  # of one GPU: Rubin, the newest announced, has 36
MOST_DIGITS = 9


class Links:
    """What is shown of one GPU's links.

    *fields* are by NVML field and link; *dead* is set if all links are said to be inactive.
    """

    def __init__(self) -> None:
        self.fields: dict[tuple[int, int], int] = {}
        self.dead = False

    def count(self) -> int:
        """Return the number of links."""
        return max((link for _, link in self.fields), default=-1) + 1


def list_readings(part: Part) -> list[Reading]:
    """Return the readings of the GPUs in `-L` and `nvlink`, and of their links.

    >>> text = "GPU 0: NVIDIA H200 (UUID: GPU-10000000-0000-4000-8000-000000000000)"
    >>> for reading in list_readings(Part("nvidia-smi -L and nvlink", text)):
    ...     print(reading.key, reading.value)
    nvml:nvmlInit() True
    nvml:nvmlDeviceGetCount() 1
    import:cards ['GPU 0']
    nvml:nvmlDeviceGetHandleByPciBusId(GPU 0) True
    nvml:nvmlDeviceGetName(GPU 0) NVIDIA H200
    nvml:nvmlDeviceGetUUID(GPU 0) GPU-10000000-0000-4000-8000-000000000000
    nvml:nvmlDeviceGetIndex(GPU 0) 0
    """
    words: dict[str, dict[str, str]] = {}
    links: dict[str, Links] = {}
    unread: list[str] = []
    gpu = ""
    for line in part.text.splitlines():
        if hit := GPU.match(line):
            gpu = by_index(hit[1])
            words[gpu] = {"name": hit[2], "index": hit[1], **({"uuid": hit[3]} if hit[3] else {})}
            links[gpu] = Links()
        elif gpu and DEAD in line:
            links[gpu].dead = True
        elif gpu and (hit := LINK.match(line)):
            known = len(hit[1]) <= MOST_DIGITS and int(hit[1]) < MOST_LINKS
            if not known or ("GB/s" in hit[2] and not RATE.match(hit[2])):
                unread.append(line.strip())
            else:
                _note(links[gpu], int(hit[1]), hit[2])
    if not words:
        return []
    made = [answer(INIT, True)]
    if _lists_all(words, part.command) and not any(
        one.fields or one.dead for one in links.values()
    ):
        made.append(answer(COUNT, len(words)))
    made.append(answer(IMPORTED_GPUS, list(words)))
    for gpu, facts in words.items():
        made += smi_words.gpu_readings(gpu, facts)
    made += [answer(UNREAD_LINES, unread)] if unread else []
    most = max(one.count() for one in links.values())
    for gpu, own in links.items():
        made += link_readings(gpu, own, most)
    return made


def _lists_all(gpus: Iterable[str], command: str) -> bool:
    """Return whether a list is of all GPUs, from the first on, and not of those asked for."""
    complete = all(gpu == by_index(number) for number, gpu in enumerate(gpus))
    return complete and not re.search(r"(?:\s-i|--id)[ =]\d", command)


def _note(links: Links, link: int, text: str) -> None:
    if hit := ERRORS.match(text):
        links.fields[FIELDS[hit[1]], link] = int(hit[2])
    elif hit := RATE.match(text):
        links.fields[STATE, link], links.fields[SPEED, link] = 1, round(float(hit[1]) * 1000)
    elif "inactive" in text.lower():
        links.fields[STATE, link] = 0


def link_readings(gpu: str, links: Links, most: int) -> list[Reading]:
    """Return the readings of a GPU's links.

    A GPU whose links are all inactive has as many as its siblings; without siblings it may have
    none.
    """
    if links.dead:
        links.fields = {(STATE, link): 0 for link in range(most)}
    elif not links.fields:
        return []
    values = [answer(field(gpu, code, link), value) for (code, link), value in links.fields.items()]
    return [answer(field(gpu, LINKS), links.count()), *values]


def topology_readings(part: Part) -> list[Reading]:
    """Return the GPUs that have a row in the matrix, and the matrix itself."""
    gpus = [by_index(hit[1]) for line in part.text.splitlines() if (hit := ROW.match(line))]
    if not gpus:
        return []
    matrix = answer(command("nvidia-smi topo -m"), part.text)
    made = [answer(INIT, True), answer(IMPORTED_GPUS, gpus), matrix]
    for number, gpu in enumerate(gpus):
        made += smi_words.gpu_readings(gpu, {"index": str(number)})
    return made


TOPOLOGY = Importer(
    name="nvidia-smi topo -m",
    reads="nvidia-smi topo -m",
    readings=topology_readings,
    begins=begins_with(r"^\s*GPU0\s+(?:GPU1|CPU Affinity|X\b|NIC0)"),
)
LISTING = Importer(
    name="nvidia-smi -L and nvlink",
    reads="nvidia-smi -L and nvlink",
    readings=list_readings,
    opens=re.compile(r"^\s*GPU \d+:"),
    begins=begins_with(r"^\s*GPU \d+: .*(?:\(UUID: |$)|^\s+Link \d+: |all links are inActive"),
)
