"""Errors that nvidia-smi prints, as those of NVML."""

import re

from gpuscan.importers.part import (
    ADDRESS,
    Importer,
    Part,
    answer,
    begins_with,
    by_index,
    open_gpu,
    refusal,
)
from gpuscan.importers.smi_words import parse_error
from gpuscan.pci import pci_address
from gpuscan.recording import Reading
from gpuscan.recording.keys import COUNT, IMPORTED_GPUS, INIT, SMI_ERRORS, handle, nvml, parse_nvml

HANDLE = re.compile(
    rf"Unable to determine the device handle for GPU ?(?P<gpu>{ADDRESS}|\d+): *(?P<why>.*)",
    re.IGNORECASE,
)
INITS = (  # errors of NVML's start: their text, kind and return code
    (r"Driver/library version mismatch", "not-found", 18),
    (r"couldn'?t communicate with the NVIDIA driver|Driver Not Loaded", "not-found", 9),
    (
        r"couldn'?t find libnvidia-ml|NVML Shared Library Not Found"
        r"|nvidia-smi: (?:command )?not found",
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
INFOROM = re.compile(rf"infoROM is corrupted at gpu (?P<gpu>{ADDRESS})", re.IGNORECASE)
INFOROM_CORRUPTED, NO_PERMISSION, UNKNOWN_ERROR = 14, 17, 999  # NVML's return codes
HIDDEN = re.compile(r"container|docker|\bpod\b|kubectl|singularity|apptainer", re.IGNORECASE)
OTHER_ERRORS = (
    "Unable to determine the device handle for",
    "No devices were found",
    "infoROM is corrupted at gpu",
)
ERROR = "|".join([*(text for text, _, _ in INITS), *OTHER_ERRORS])
ERRORS = re.compile(ERROR, re.IGNORECASE)


def readings(part: Part) -> list[Reading]:
    """Return NVML's errors, and the lines, which prove that an answer was expected.

    >>> text = "Failed to initialize NVML: Driver/library version mismatch"
    >>> error, complaint = readings(Part("nvidia-smi error", text))
    >>> error.key, error.error.kind, error.error.code
    ('nvml:nvmlInit()', 'not-found', 18)
    """
    lines = [line.strip() for line in part.text.splitlines() if ERRORS.search(line)]
    in_container = HIDDEN.search(part.command) is not None
    made = [reading for line in lines for reading in _parse_error(line, in_container)]
    gpus = [
        parse_nvml(reading.key)[1][0] for reading in made if reading.key.startswith(handle("")[:-1])
    ]
    if made and not any(reading.key == INIT for reading in made):
        made.insert(0, answer(INIT, True))
    if gpus:
        made.append(answer(IMPORTED_GPUS, list(dict.fromkeys(gpus))))
    return [*made, answer(SMI_ERRORS, lines)] if lines else []


def _parse_error(line: str, in_container: bool) -> list[Reading]:
    if hit := HANDLE.search(line):
        gpu = by_index(hit["gpu"]) if hit["gpu"].isdecimal() else pci_address(hit["gpu"])
        return [_unopened(gpu, hit["why"], in_container)]
    if hit := INFOROM.search(line):
        gpu = pci_address(hit["gpu"])
        version = nvml("nvmlDeviceGetInforomImageVersion", gpu)
        corrupted = refusal(version, "garbled", "infoROM is corrupted", INFOROM_CORRUPTED)
        return [open_gpu(gpu), corrupted]
    if NO_GPUS.search(line):
        return [answer(COUNT, 0)]
    for text, kind, code in INITS:
        if re.search(text, line, re.IGNORECASE):
            return [refusal(INIT, kind, line, code)]
    return []


def _unopened(gpu: str, why: str, in_container: bool) -> Reading:
    """Return the error of a GPU that could not be opened.

    A GPU that a container may not open fails there with "Unknown Error".
    """
    text = why.partition(".")[0].strip()
    kind, code = parse_error(text) or ("garbled", UNKNOWN_ERROR)
    if kind == "garbled" and in_container:
        advice = f"{text}, asked from inside a container: check on its host"
        return refusal(handle(gpu), "no-permission", advice, NO_PERMISSION)
    return refusal(handle(gpu), kind, why.strip() or text, code)


IMPORTER = Importer(
    name="nvidia-smi error",
    reads="errors of nvidia-smi",
    readings=readings,
    begins=begins_with(ERROR, re.IGNORECASE),
)
