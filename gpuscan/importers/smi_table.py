"""`nvidia-smi` without options: the table, two or three lines a GPU."""

import re

from gpuscan.importers import smi_words
from gpuscan.importers.part import ADDRESS, TOLD_GPUS, Part, answer
from gpuscan.importers.smi_query import COMPUTES, INIT, cuda
from gpuscan.pci import pci_address
from gpuscan.recording import Reading

VERSION = re.compile(r"(?:Driver|KMD) Version: *([\d.]+)")
CUDA = re.compile(r"CUDA (?:UMD )?Version: *(\d+\.\d+)")
FIRST = re.compile(
    r"^\| +(?P<index>\d+) +(?P<name>\S.*?) +(?P<persistence>On|Off|N/A|Unknown Error) +\| +"
    rf"(?P<address>{ADDRESS}) +\S+ *\| +(?P<v_unc>\S.*?) *\|"
)
SECOND = re.compile(
    r"^\| *(?P<fan>\S+) +(?P<core_c>\d+C|N/A|ERR!) +(?P<pstate>P\d+|N/A|ERR!) +"
    r"(?P<power>[\d.]+W|N/A|ERR!|Unknown Error) */ *(?P<power_limit>[\d.]+W|N/A|ERR!) *"
    r"\| *(?P<used>\S+) */ *(?P<memory>\S+) *\| *(?P<busy>\S+) +(?P<compute_mode>\S.*?) *\|"
)
PROGRAM = re.compile(r"^\| +(\d+) +(?:\S+ +\S+ +)?(\d+) +([CGM+]+) +\S")


def readings(part: Part) -> list[Reading]:
    """Return what the table tells of each GPU; names that were cut ("Tesla V100-SXM2...") are
    left out.
    """
    gpus: dict[str, dict[str, str]] = {}
    words: dict[str, str] = {}
    programs: dict[str, list[str]] = {}
    for line in part.text.splitlines():
        if hit := FIRST.match(line):
            words = {name: word for name, word in hit.groupdict().items() if name != "address"}
            gpus[pci_address(hit["address"])] = words
        elif words and "core_c" not in words and (hit := SECOND.match(line)):
            words |= {
                name: word for name, word in hit.groupdict().items() if name not in ("fan", "used")
            }
        elif (hit := PROGRAM.match(line)) and hit[3] in COMPUTES:
            programs.setdefault(hit[1], []).append(hit[2])
    if not gpus:
        return []
    shown = "Processes" in part.text
    found = [
        reading
        for address, told in gpus.items()
        for reading in smi_words.readings(address, _facts(told, programs, shown))
    ]
    return [
        answer(INIT, True),
        *_versions(part.text),
        answer(TOLD_GPUS, list(gpus)),
        *_indexes(gpus),
        *found,
    ]


def _facts(words: dict[str, str], programs: dict[str, list[str]], shown: bool) -> dict[str, str]:
    told = {
        fact: word
        for fact, word in words.items()
        if fact not in ("index", "name") or not word.endswith("...")
    }
    if not shown:
        return told
    return told | {"programs": " ".join(programs.get(words["index"], []))}


def _versions(text: str) -> list[Reading]:
    version, runtime = VERSION.search(text), CUDA.search(text)
    found = [answer("nvml:nvmlSystemGetDriverVersion()", version[1])] if version else []
    return found + (
        [answer("nvml:nvmlSystemGetCudaDriverVersion()", cuda(runtime[1]))] if runtime else []
    )


def _indexes(gpus: dict[str, dict[str, str]]) -> list[Reading]:
    return [
        answer(f"nvml:nvmlDeviceGetHandleByIndex({words['index']})", address)
        for address, words in gpus.items()
    ]
