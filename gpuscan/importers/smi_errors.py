"""What nvidia-smi says instead of an answer: the errors of NVML behind its words."""

import re

from gpuscan.importers.part import (
    ADDRESS,
    COMPLAINT,
    TOLD_GPUS,
    Part,
    answer,
    by_index,
    handle,
    refusal,
)
from gpuscan.importers.smi_query import INIT
from gpuscan.importers.smi_words import lack
from gpuscan.pci import pci_address
from gpuscan.recording import Reading

HANDLE = re.compile(
    rf"Unable to determine the device handle for GPU ?(?P<card>{ADDRESS}|\d+): *(?P<why>.*)",
    re.IGNORECASE,
)
INITS = (  # words on the start of NVML: its return code and kind
    (r"Driver/library version mismatch", "not-found", 18),
    (r"couldn'?t communicate with the NVIDIA driver|Driver Not Loaded", "not-found", 9),
    (
        r"couldn'?t find libnvidia-ml|NVML Shared Library Not Found|nvidia-smi: (?:command )?not found",
        "not-found",
        12,
    ),
    (r"Failed to initialize NVML: Unknown Error", "garbled", 999),
    (r"Failed to initialize NVML: Insufficient Permissions", "no-permission", 4),
    (r"Failed to initialize NVML: GPU access blocked by the operating system", "no-permission", 17),
    (r"Failed to initialize NVML: (?:GPU is lost|GPU-is-lost)", "lost", 15),
    (r"Failed to initialize NVML: GPU requires reset", "reset-required", 16),
    (r"Failed to initialize NVML: Timeout", "timed-out", 10),
    (r"Failed to initialize NVML: \S", "garbled", 999),
)
NO_GPUS = re.compile(r"No devices were found")
INFOROM = re.compile(rf"infoROM is corrupted at gpu (?P<card>{ADDRESS})", re.IGNORECASE)
LIBRARY = re.compile(r"NVML library version: *(\d+(?:\.\d+)+)")
HIDDEN = re.compile(r"container|docker|\bpod\b|kubectl|singularity|apptainer", re.IGNORECASE)
OTHER_WORDS = (
    "Unable to determine the device handle for",
    "No devices were found",
    "infoROM is corrupted at gpu",
)
WORDS = re.compile("|".join([*(words for words, _, _ in INITS), *OTHER_WORDS]), re.IGNORECASE)


def readings(part: Part) -> list[Reading]:
    """Return NVML's errors, and the words themselves, which prove that somebody expected an
    answer.
    """
    said = [line.strip() for line in part.text.splitlines() if WORDS.search(line)]
    found = [
        reading
        for line in said
        for reading in _of_line(line, HIDDEN.search(part.command) is not None)
    ]
    gpus = [
        reading.key.partition("(")[2].rstrip(")")
        for reading in found
        if reading.key.startswith(handle("")[:-1])
    ]
    if not any(reading.key == INIT for reading in found) and found:
        found.insert(0, answer(INIT, True))
    if gpus:
        found.append(answer(TOLD_GPUS, list(dict.fromkeys(gpus))))
    return [*found, answer(COMPLAINT, said)] if said else []


def _of_line(line: str, inside: bool) -> list[Reading]:
    if hit := HANDLE.search(line):
        gpu = by_index(hit["card"]) if hit["card"].isdecimal() else pci_address(hit["card"])
        return [_unopened(gpu, hit["why"], inside)]
    if hit := INFOROM.search(line):
        return [
            answer(handle(gpu := pci_address(hit["card"])), True),
            refusal(
                f"nvml:nvmlDeviceGetInforomImageVersion({gpu})",
                "garbled",
                "infoROM is corrupted",
                14,
            ),
        ]
    if NO_GPUS.search(line):
        return [answer("nvml:nvmlDeviceGetCount()", 0)]
    found = next(
        ((kind, code) for words, kind, code in INITS if re.search(words, line, re.IGNORECASE)), None
    )
    return [refusal(INIT, found[0], line, found[1])] if found else []


def _unopened(gpu: str, why: str, inside: bool) -> Reading:
    """A container sees a GPU that it may not open as one that fails for an unknown reason."""
    words = why.partition(".")[0].strip()
    kind, code = lack(words) or ("garbled", 999)
    if kind == "garbled" and inside:
        return refusal(
            handle(gpu),
            "no-permission",
            f"{words}, asked from within a container: look on its host",
            17,
        )
    return refusal(handle(gpu), kind, why.strip() or words, code)
