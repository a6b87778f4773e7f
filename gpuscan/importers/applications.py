"""What a program prints when CUDA refuses it: errors by number, name or text."""

import re

from gpuscan.importers.part import Importer, Part, answer
from gpuscan.recording import Reading
from gpuscan.recording.keys import CUDA_ERRORS

# CUDA's texts and names of the errors that say something about the node or a GPU
ERRORS = {
    2: ("out of memory", "MemoryAllocation", "OUT_OF_MEMORY"),
    3: ("initialization error", "InitializationError", "NOT_INITIALIZED"),
    35: ("driver version is insufficient for CUDA runtime version", "InsufficientDriver"),
    46: (
        "all CUDA-capable devices are busy or unavailable",
        "DevicesUnavailable",
        "DEVICE_UNAVAILABLE",
    ),
    100: ("no CUDA-capable device is detected", "NoDevice", "NO_DEVICE"),
    101: ("invalid device ordinal", "InvalidDevice", "INVALID_DEVICE"),
    214: ("uncorrectable ECC error encountered", "ECCUncorrectable", "ECC_UNCORRECTABLE"),
    220: (
        "uncorrectable NVLink error detected during the execution",
        "NvlinkUncorrectable",
        "NVLINK_UNCORRECTABLE",
    ),
    304: (
        "OS call failed or operation not supported on this OS",
        "OperatingSystem",
        "OPERATING_SYSTEM",
    ),
    700: ("an illegal memory access was encountered", "IllegalAddress", "ILLEGAL_ADDRESS"),
    716: ("misaligned address", "MisalignedAddress", "MISALIGNED_ADDRESS"),
    719: ("unspecified launch failure", "LaunchFailure", "LAUNCH_FAILED"),
    802: ("system not yet initialized", "SystemNotReady", "SYSTEM_NOT_READY"),
    803: (
        "system has unsupported display driver / cuda driver combination",
        "SystemDriverMismatch",
        "SYSTEM_DRIVER_MISMATCH",
    ),
    804: (
        "compatibility was attempted on non supported HW",
        "CompatNotSupportedOnDevice",
        "COMPAT_NOT_SUPPORTED_ON_DEVICE",
    ),
    999: ("unknown error", "Unknown", "UNKNOWN"),
}
UNMISTAKABLE = (802, 803)  # texts that only CUDA prints
CODES = "|".join(map(str, ERRORS))
NUMBER = re.compile(
    rf"\b(?:cuda|cu)[A-Z]\w* returned ({CODES})\b|\bcode[= ]({CODES})\(cuda"
    rf"|\bCUDA(?: driver| runtime)? error:? ({CODES})\b|\bError ({CODES}): "
)
NAME = re.compile(r"\b(?:cudaError|CUDA_ERROR_)([A-Za-z]\w+)")
CONTEXT = re.compile(r"cuda|\bcu[A-Z]", re.IGNORECASE)


def cuda_error(line: str) -> int:
    """Return the CUDA error that a program's line names, 0 for none.

    >>> cuda_error("CUDA error: system not yet initialized"), cuda_error("all is well")
    (802, 0)
    """
    if hit := NUMBER.search(line):
        return int(next(filter(None, hit.groups())))
    if hit := NAME.search(line):
        return next((code for code, names in ERRORS.items() if hit[1] in names[1:]), 0)
    low = line.lower()
    for code, (text, *_) in ERRORS.items():
        if text.lower() in low and (CONTEXT.search(line) or code in UNMISTAKABLE):
            return code
    return 0


def readings(part: Part) -> list[Reading]:
    """Return one reading: a list of [error, line].

    >>> readings(Part("application log", "CUDA error: system not yet initialized"))[0].value
    [[802, 'CUDA error: system not yet initialized']]
    """
    errors = [[code, line.strip()] for line in part.text.splitlines() if (code := cuda_error(line))]
    return [answer(CUDA_ERRORS, errors)] if errors else []


def _has_error(line: str, kind: str) -> bool:
    return kind != "kernel log" and cuda_error(line) != 0


IMPORTER = Importer(
    name="application log",
    reads="CUDA errors of a program",
    readings=readings,
    fits=_has_error,
)
