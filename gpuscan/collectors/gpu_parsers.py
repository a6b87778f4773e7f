"""What NVML and sysfs answer about one GPU, parsed into facts and records.

A parser takes the value of a reading. It raises ValueError, or whatever the wrong type raises, for
an answer that makes no sense.
"""

from typing import Any

from gpuscan.collectors.reading import count, flag, if_told, integer, text
from gpuscan.model import (
    AerKind,
    Fabric,
    Fact,
    Mode,
    Process,
    RemappedRows,
    Repair,
    SpareRows,
    Sram,
    Unread,
    is_unread,
)
from gpuscan.recording import NOT_RECORDED

SRAM_BUCKETS = ("L2", "Sm", "Pcie", "Mcu", "Other")
PCIE_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
NO_BIT_ERRORS = 0xFFF
NVLINK_STATES = (0, 1, 2)  # down, up, asleep: up, and woken by traffic


def mode(value: Any) -> Mode:
    """Parse [current, pending]."""
    current, pending = value
    return Mode(if_told(flag, current), if_told(flag, pending))


def remapped_rows(value: Any) -> RemappedRows:
    """Parse [correctable, uncorrectable, pending, failed]."""
    correctable, uncorrectable, pending, failed = value
    return RemappedRows(
        if_told(count, correctable),
        if_told(count, uncorrectable),
        if_told(flag, pending),
        if_told(flag, failed),
    )


def spare_rows(value: Any) -> SpareRows:
    """Parse the row remapper's histogram."""
    return SpareRows(*(count(value[name]) for name in SpareRows._fields))


def repair(value: Any) -> Repair:
    """Parse [channel pending, TPC pending]."""
    channel, tpc = value
    return Repair(if_told(flag, channel), if_told(flag, tpc))


def sram(value: Any) -> Sram:
    """Parse nvmlEccSramErrorStatus_t."""
    buckets = {name: if_told(count, value[f"aggregateUncBucket{name}"]) for name in SRAM_BUCKETS}
    return Sram(
        _sum(value["volatileUncParity"], value["volatileUncSecDed"]),
        _sum(value["aggregateUncParity"], value["aggregateUncSecDed"]),
        if_told(flag, value["bThresholdExceeded"]),
        ", ".join(name for name, errors in buckets.items() if not is_unread(errors) and errors),
    )


def _sum(first: Any, second: Any) -> Fact[int]:
    """Add two counts; if one is unread the other proves something only if it is not 0."""
    counts: list[Fact[int]] = [if_told(count, value) for value in (first, second)]
    total = sum(number for number in counts if not is_unread(number))
    unread = [number for number in counts if is_unread(number)]
    return unread[0] if unread and not total else total


def fabric(value: Any) -> Fabric:
    """Parse nvmlGpuFabricInfo_t or a version of nvmlGpuFabricInfoV_t; the older ones lack the
    health mask, which has two bits or four for each question, and the summary.
    """
    return Fabric(
        state=count(value["state"]),
        status=count(value["status"]),
        cluster=if_told(text, value.get("clusterUuid", NOT_RECORDED)),
        clique=if_told(count, value.get("cliqueId", NOT_RECORDED)),
        degraded_bandwidth=_health(value, 0),
        route_recovery=_health(value, 2),
        route_unhealthy=_health(value, 4),
        access_timeout=_health(value, 6),
        misconfigured=_health(value, 8, 0xF),
        partition=_health(value, 12),
        summary=if_told(count, value.get("healthSummary", NOT_RECORDED)),
    )


def _health(value: Any, shift: int, width: int = 0x3) -> Fact[int]:
    if "healthMask" not in value:
        return Unread("", "too-old-driver", "needs driver R550")
    return count(value["healthMask"]) >> shift & width


def total_mib(value: Any) -> int:
    """Parse the total of nvmlMemory_t, in bytes."""
    return count(value["total"]) >> 20


def used_mib(value: Any) -> Fact[int]:
    """Parse the memory in use of nvmlMemory_t, in bytes, including what the driver reserves."""
    used = if_told(count, value.get("used", NOT_RECORDED))
    return used if is_unread(used) else int(used) >> 20


def watts(value: Any) -> float:
    """Parse milliwatts."""
    return count(value) / 1000


def processes(value: Any) -> tuple[Process, ...]:
    """Parse a list of nvmlProcessInfo_t."""
    if not isinstance(value, list):
        raise ValueError(value)
    return tuple(Process(count(row["pid"])) for row in value)


def lanes(value: Any) -> int:
    """Parse a PCIe width; a GPU that is off the bus reads as all ones, which is x63."""
    if count(value) not in PCIE_WIDTHS:
        raise ValueError(value)
    return count(value)


def link_active(value: Any) -> bool:
    """Parse an NVLink's state."""
    if integer(value) not in NVLINK_STATES:
        raise ValueError(value)
    return bool(value)


def bit_error_rate(value: Any) -> float:
    """Parse NVML's bit error rate: the mantissa in bits 11 to 8, the negative exponent of ten in
    bits 7 to 0; 15 and 255 stand for no errors.
    """
    bits = count(value)
    mantissa, exponent = bits >> 8 & 0xF, bits & 0xFF
    return 0.0 if bits == NO_BIT_ERRORS else float(f"{mantissa}e-{exponent}")


def aer_total(value: Any) -> int:
    """Parse `aer_dev_fatal`, whose last line reads `TOTAL_ERR_FATAL 0`."""
    name, number = text(value).splitlines()[-1].split()
    if not name.startswith("TOTAL_ERR"):
        raise ValueError(value)
    return count(number)


def aer_kinds(value: Any) -> tuple[AerKind, ...]:
    """Parse the kinds of `aer_dev_nonfatal` that were counted: `CmpltTO 60` and the like."""
    rows = [line.split() for line in text(value).splitlines()]
    counted = [AerKind(name, count(number)) for name, number in rows]
    return tuple(one for one in counted if one.total and not one.name.startswith("TOTAL_"))


def celsius(value: Any) -> int:
    """Parse a temperature or a limit; 0 stands for "not known"."""
    if count(value) == 0:
        raise ValueError(value)
    return count(value)


def margin_celsius(value: Any) -> int:
    """Parse the degrees left to the GPU's limit (T.Limit): negative above it."""
    return integer(value)


def memory_celsius(value: Any) -> Fact[int]:
    """Parse the memory's temperature; a GPU without a sensor in its memory answers 0."""
    return count(value) or Unread("", "not-supported", "0: no sensor")


VIRTUALIZATION = ("none", "passthrough", "vgpu", "host-vgpu", "host-vsga")  # by NVML's number


def virtualization(value: Any) -> str:
    """nvmlGpuVirtualizationMode_t of NVML: 2 is a vGPU in a guest, 3 and 4 a host of vGPUs."""
    return VIRTUALIZATION[count(value)]
