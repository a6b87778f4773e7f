"""The driver: whether NVML answers, the versions of module and library, the loaded modules."""

import re
from typing import Any

from gpuscan.collectors.reading import Sources, count, flag, gpu_count, take, text
from gpuscan.model import Driver, Unread, is_unread
from gpuscan.model.nvml import meaning_of
from gpuscan.recording import Recording
from gpuscan.recording.keys import (
    COUNT,
    CUDA_VERSION,
    DRIVER_VERSION,
    INIT,
    NVML_PROCESS,
    NVML_VERSION,
)

MODULE_BANNER = "file:/proc/driver/nvidia/version"
MODULES = "file:/proc/modules"
CONFIDENTIAL = "nvml:nvmlSystemGetConfComputeState()"

KIND_ACCESS = ("timed-out", "lost", "reset-required")
WORD_ACCESS = {  # the same by NVML's message, for recordings without the code
    "driver not loaded": "not-loaded",
    "library not found": "no-library",
    "version mismatch": "mismatch",
}


def plan(known: Recording) -> list[str]:
    """Return the driver's keys, whatever is known."""
    return [
        MODULE_BANNER,
        MODULES,
        INIT,
        DRIVER_VERSION,
        NVML_VERSION,
        CUDA_VERSION,
        COUNT,
        CONFIDENTIAL,
    ]


def scope() -> list[str]:
    """Return the same keys: none contains the name of a part."""
    return plan(Recording({}, ()))


def _module_version(value: Any) -> str:
    """`NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build` is
    580.159.04.
    """
    hit = re.search(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", text(value), re.MULTILINE)
    if not hit:
        raise ValueError(value)
    return hit[1]


def _flavour(value: Any) -> str:
    if "Kernel Module" not in text(value):
        raise ValueError(value)
    return "open" if "Open Kernel Module" in text(value) else "proprietary"


def _cuda(value: Any) -> str:
    return f"{count(value) // 1000}.{value % 1000 // 10}"


def driver(recording: Recording, sources: Sources) -> Driver:
    """Return the driver's facts."""
    keys = {
        "access": INIT,
        "module_version": MODULE_BANNER,
        "flavour": MODULE_BANNER,
        "library_version": DRIVER_VERSION,
        "nvml_version": NVML_VERSION,
        "cuda_version": CUDA_VERSION,
        "nvml_count": COUNT,
        "confidential_compute": CONFIDENTIAL,
        "nvml_process": NVML_PROCESS,
    }
    sources.update({f"driver.{fact}": (key,) for fact, key in keys.items()})
    return Driver(
        access=access(recording.get(INIT)),
        module_version=take(recording, MODULE_BANNER, _module_version),
        flavour=take(recording, MODULE_BANNER, _flavour),
        library_version=take(recording, DRIVER_VERSION, text),
        nvml_version=take(recording, NVML_VERSION, text),
        cuda_version=take(recording, CUDA_VERSION, _cuda),
        nvml_count=take(recording, COUNT, gpu_count),
        confidential_compute=take(
            recording, CONFIDENTIAL, lambda value: flag(value["ccFeature"]), since=535
        ),
        nvml_process=_process(recording),
    )


def _process(recording: Recording) -> Any:
    """Return Unread where NVML's reading process died or hung: only then is there a reading."""
    answer = recording.get(NVML_PROCESS) if NVML_PROCESS in recording else True
    return answer if is_unread(answer) else True


def modules(recording: Recording, sources: Sources) -> Any:
    """Return the names of the loaded kernel modules."""
    sources["kernel_modules"] = (MODULES,)
    return take(
        recording, MODULES, lambda value: tuple(_module(line) for line in text(value).splitlines())
    )


def _module(line: str) -> str:
    """`nvidia_uvm 1830912 0 - Live 0x0000000000000000 (O)` is nvidia_uvm."""
    name, size = line.split()[:2]
    int(size)
    return name


def access(answer: Any) -> Any:
    """Return the access that an opening call's answer means: `ok`, a failure, or Unread.

    Denied and blocked stay Unread, because they say nothing about the GPU.
    """
    if not is_unread(answer):
        return (
            "ok" if answer is True else Unread(INIT, "garbled", f"makes no sense: {answer!r:.80}")
        )
    if answer.code is not None and (meant := meaning_of(answer.code).access):
        return meant
    for words, meaning in (
        WORD_ACCESS.items() if answer.code is None and answer.kind == "not-found" else ()
    ):
        if words in answer.text.lower():
            return meaning
    return answer.kind if answer.kind in KIND_ACCESS else answer
