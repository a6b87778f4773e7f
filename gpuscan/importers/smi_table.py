"""`nvidia-smi` without options: the table, two or three lines for each GPU."""

import re

from gpuscan.importers import smi_words
from gpuscan.importers.part import ADDRESS, Importer, Part, answer, begins_with
from gpuscan.importers.smi_words import COMPUTE_TYPES, parse_cuda_version
from gpuscan.pci import pci_address
from gpuscan.recording import Reading
from gpuscan.recording.keys import (
    CUDA_VERSION,
    DRIVER_VERSION,
    IMPORTED_GPUS,
    INIT,
    handle_by_index,
)

VERSION = re.compile(r"(?:Driver|KMD) Version: *([\d.]+)")
CUDA = re.compile(r"CUDA (?:UMD )?Version: *(\d+\.\d+)")
FIRST = re.compile(
    r"^\| +(?P<index>\d+) +(?P<name>\S.*?)(?<! ) ++(?P<persistence>On|Off|N/A|Unknown Error) +\| +"
    rf"(?P<address>{ADDRESS}) ++[^\s|]++ *+\| ++(?P<v_unc>\S.*?)(?<! ) *+\|"
)
SECOND = re.compile(
    r"^\| *+(?P<fan>\S++) ++(?P<core_c>\d+C|N/A|ERR!) +(?P<pstate>P\d+|N/A|ERR!) +"
    r"(?P<power>[\d.]+W|N/A|ERR!|Unknown Error) */ *(?P<power_limit>[\d.]+W|N/A|ERR!) *"
    r"\| *+(?P<used>[^\s/]++) *+/ *+(?P<memory>[^\s|]++) *+\| *+(?P<busy>[^\s|]++) ++"
    r"(?P<compute_mode>\S.*?)(?<! ) *+\|"
)
UNCOUNTED = ("Off", "On")  # in place of a count where ECC is off, or MIG on (R535)
PROGRAM = re.compile(r"^\| +(\d+) +(?:\S+ +\S+ +)?(\d+) +([CGM+]+) +\S")


def readings(part: Part) -> list[Reading]:
    """Return what the table shows of each GPU, except names that it cut off (`Tesla V100-S...`).

    >>> text = (
    ...     "|   0  NVIDIA H200      On  |   00000000:19:00.0 Off |      0 |" + chr(10) +
    ...     "| N/A   34C    P0    105W /  700W |   0MiB / 143771MiB |   0%  Default |"
    ... )
    >>> made = {reading.key: reading.value for reading in readings(Part("nvidia-smi", text))}
    >>> made["nvml:nvmlDeviceGetName(0000:19:00.0)"]
    'NVIDIA H200'
    >>> made["nvml:nvmlDeviceGetTemperature(0000:19:00.0,0)"]
    34
    """
    gpus: dict[str, dict[str, str]] = {}
    words: dict[str, str] = {}
    programs: dict[str, list[str]] = {}
    for line in part.text.splitlines():
        if hit := FIRST.match(line):
            words = {name: word for name, word in hit.groupdict().items() if name != "address"}
            if words["v_unc"] in UNCOUNTED:
                words["v_unc"] = "N/A"
            gpus[pci_address(hit["address"])] = words
        elif words and "core_c" not in words and (hit := SECOND.match(line)):
            words |= {
                name: word for name, word in hit.groupdict().items() if name not in ("fan", "used")
            }
        elif (hit := PROGRAM.match(line)) and hit[3] in COMPUTE_TYPES:
            programs.setdefault(hit[1], []).append(hit[2])
    if not gpus:
        return []
    made = [answer(INIT, True), *_versions(part.text), answer(IMPORTED_GPUS, list(gpus))]
    made += [answer(handle_by_index(words["index"]), address) for address, words in gpus.items()]
    for address, words in gpus.items():
        facts = {
            fact: word for fact, word in words.items() if fact != "name" or not word.endswith("...")
        }
        if "Processes" in part.text:
            facts["programs"] = " ".join(programs.get(words["index"], []))
        made += smi_words.gpu_readings(address, facts)
    return made


def _versions(text: str) -> list[Reading]:
    driver, cuda = VERSION.search(text), CUDA.search(text)
    made = [answer(DRIVER_VERSION, driver[1])] if driver else []
    return [*made, answer(CUDA_VERSION, parse_cuda_version(cuda[1]))] if cuda else made


IMPORTER = Importer(
    name="nvidia-smi",
    reads="nvidia-smi",
    readings=readings,
    commands=r"nvidia-smi\b",
    begins=begins_with(rf"^\| NVIDIA-SMI |^\+-{{20,}}[+-]*\+\s*$|{FIRST.pattern}"),
    opens=re.compile(r"^\| NVIDIA-SMI "),
)
