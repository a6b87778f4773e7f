"""What is asked of one GPU, in one table: the fact, the call behind it, how to parse it, since
which driver branch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuscan.collectors.reading import count, counter, flag, integer, offered, take, text, told
from gpuscan.model import (
    Aer,
    ClockReasons,
    EccErrors,
    Fabric,
    Mode,
    NvLink,
    Pcie,
    Power,
    Process,
    RemappedRows,
    Repair,
    RetiredPages,
    SpareRows,
    Sram,
    Temperature,
    Throttled,
    Unread,
    is_unread,
)
from gpuscan.recording import Recording

FIELD = "nvmlDeviceGetFieldValues"
# the most that any generation has; asked in one batch, cut to the GPU's own number (field 91)
LINKS = 18


class Ask(NamedTuple):
    """One fact of a GPU. *args* follow the GPU in the call; *twice* takes a second reading, for
    the growth.
    """

    fact: str
    call: str
    parse: Callable[[Any], Any]
    args: str = ""
    since: int = 0
    twice: bool = False

    def key(self, address: str) -> str:
        """Return the reading's key for one GPU; a call that begins with a slash is a file of its
        PCI device.
        """
        if self.call.startswith("/"):
            return f"file:/sys/bus/pci/devices/{address}{self.call}"
        return f"nvml:{self.call}({address}{self.args})"

    def fact_of(self, recording: Recording, address: str) -> Any:
        """Return the fact for one GPU, or Unread."""
        taken = counter if self.twice else take
        fact = taken(recording, self.key(address), self.parse, self.since)
        if self.call.startswith("/") and is_unread(fact) and fact.kind == "not-found":
            return fact._replace(
                kind="not-supported", text="the kernel counts no such errors of this device"
            )
        return fact


class Group(NamedTuple):
    """Facts that make one record of the GPU; *record* None for facts of the GPU itself."""

    fact: str
    record: Callable[..., Any]
    asks: tuple[Ask, ...]


def _mode(value: Any) -> Mode:
    current, pending = value
    return Mode(told(flag, current), told(flag, pending))


def _rows(value: Any) -> RemappedRows:
    correctable, uncorrectable, pending, failed = value
    return RemappedRows(
        told(count, correctable),
        told(count, uncorrectable),
        told(flag, pending),
        told(flag, failed),
    )


def _spares(value: Any) -> SpareRows:
    return SpareRows(*(count(value[name]) for name in SpareRows._fields))


def _repair(value: Any) -> Repair:
    channel, cluster = value
    return Repair(told(flag, channel), told(flag, cluster))


BUCKETS = ("L2", "Sm", "Pcie", "Mcu", "Other")


def _sram(value: Any) -> Sram:
    buckets = {name: told(count, value[f"aggregateUncBucket{name}"]) for name in BUCKETS}
    return Sram(
        _both(value["volatileUncParity"], value["volatileUncSecDed"]),
        _both(value["aggregateUncParity"], value["aggregateUncSecDed"]),
        told(flag, value["bThresholdExceeded"]),
        ", ".join(name for name, errors in buckets.items() if not is_unread(errors) and errors),
    )


def _both(first: Any, second: Any) -> Any:
    """Add two counts; of which one is not told the other is a proof only where it is not 0."""
    counts = [told(count, value) for value in (first, second)]
    known = sum(number for number in counts if not is_unread(number))
    return known or next((number for number in counts if is_unread(number)), known)


def _fabric(value: Any) -> Fabric:
    """The health mask holds two bits a question: degraded bandwidth, route recovery, route
    unhealthy, access timeout.
    """
    mask = count(value["healthMask"])
    return Fabric(
        state=count(value["state"]),
        status=count(value["status"]),
        degraded_bandwidth=_question(mask, 0),
        route_unhealthy=_question(mask, 4),
        access_timeout=_question(mask, 6),
        misconfigured=mask >> 8 & 0xF,
    )


def _question(mask: int, shift: int) -> int:
    return mask >> shift & 0x3


def _total_mib(value: Any) -> int:
    return count(value["total"]) >> 20


def _watts(value: Any) -> float:
    return count(value) / 1000


def _processes(value: Any) -> tuple[Process, ...]:
    if not isinstance(value, list):
        raise ValueError(value)
    return tuple(Process(count(row["pid"])) for row in value)


def _lanes(value: Any) -> int:
    """The widths that PCIe has; a GPU off the bus reads as ones, which is x63."""
    if count(value) not in (1, 2, 4, 8, 12, 16, 32):
        raise ValueError(value)
    return count(value)


def _active(value: Any) -> bool:
    """NVML_NVLINK state: 0 is down, 1 up, 2 asleep (up, and woken by traffic)."""
    if integer(value) not in (0, 1, 2):
        raise ValueError(value)
    return bool(value)


def _aer_total(value: Any) -> int:
    """The last line of `aer_dev_fatal` reads `TOTAL_ERR_FATAL 0`."""
    name, number = text(value).splitlines()[-1].split()
    if not name.startswith("TOTAL_ERR"):
        raise ValueError(value)
    return count(number)


def _celsius(value: Any) -> int:
    """0 stands for "not known" where a sensor or a limit is asked."""
    if count(value) == 0:
        raise ValueError(value)
    return count(value)


def _memory_celsius(value: Any) -> Any:
    """A GPU without a sensor in its memory says 0."""
    return count(value) or Unread("", "not-supported", "0: no sensor")


OWN = (
    Ask("nvml_index", "nvmlDeviceGetIndex", count),
    Ask("minor", "nvmlDeviceGetMinorNumber", count),
    Ask("module_id", "nvmlDeviceGetModuleId", count),
    Ask("name", "nvmlDeviceGetName", text),
    Ask("uuid", "nvmlDeviceGetUUID", text),
    Ask("serial", "nvmlDeviceGetSerial", text),
    Ask("part_number", "nvmlDeviceGetBoardPartNumber", text),
    Ask("vbios", "nvmlDeviceGetVbiosVersion", text),
    Ask("inforom", "nvmlDeviceGetInforomImageVersion", text),
    Ask("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion", text),
    Ask("memory_mib", "nvmlDeviceGetMemoryInfo", _total_mib),
    Ask("ecc_mode", "nvmlDeviceGetEccMode", _mode),
    Ask("mig_mode", "nvmlDeviceGetMigMode", _mode),
    Ask("persistence", "nvmlDeviceGetPersistenceMode", flag),
    Ask("compute_mode", "nvmlDeviceGetComputeMode", count),
    Ask("processes", "nvmlDeviceGetComputeRunningProcesses", _processes, since=535),
    Ask("sram", "nvmlDeviceGetSramEccErrorStatus", _sram, since=535),
    Ask("remapped_rows", "nvmlDeviceGetRemappedRows", _rows, since=450),
    Ask("spare_rows", "nvmlDeviceGetRowRemapperHistogram", _spares, since=460),
    Ask("unrepairable_memory", "nvmlDeviceGetUnrepairableMemoryFlag_v1", flag, since=590),
    Ask("repair", "nvmlDeviceGetRepairStatus", _repair, since=580),
    Ask("recovery_action", FIELD, count, ",230,0", since=565),
    Ask("fabric", "nvmlDeviceGetGpuFabricInfoV", _fabric, since=550),
    Ask("performance_state", "nvmlDeviceGetPerformanceState", count),
)
GROUPS = (
    Group(
        "ecc_errors",
        EccErrors,
        (  # NVML: error type 1 uncorrected, 0 corrected; counter 0 volatile, 1 aggregate
            Ask("uncorrected_volatile", "nvmlDeviceGetTotalEccErrors", count, ",1,0"),
            Ask("uncorrected_aggregate", "nvmlDeviceGetTotalEccErrors", count, ",1,1"),
            Ask("corrected_volatile", "nvmlDeviceGetTotalEccErrors", count, ",0,0"),
            Ask("corrected_aggregate", "nvmlDeviceGetTotalEccErrors", count, ",0,1"),
        ),
    ),
    Group(
        "retired_pages",
        RetiredPages,
        (
            Ask("single_bit", FIELD, count, ",29,0"),
            Ask("double_bit", FIELD, count, ",30,0"),
            Ask("pending", "nvmlDeviceGetRetiredPagesPendingStatus", flag),
        ),
    ),
    Group(
        "pcie",
        Pcie,
        (
            Ask("width", "nvmlDeviceGetCurrPcieLinkWidth", _lanes),
            Ask("max_width", "nvmlDeviceGetMaxPcieLinkWidth", _lanes),
            Ask("generation", "nvmlDeviceGetCurrPcieLinkGeneration", count),
            Ask("max_generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration", count),
            Ask("replays", "nvmlDeviceGetPcieReplayCounter", count, twice=True),
        ),
    ),
    Group(
        "aer",
        Aer,
        (
            Ask("fatal", "/aer_dev_fatal", _aer_total, twice=True),
            Ask("nonfatal", "/aer_dev_nonfatal", _aer_total, twice=True),
        ),
    ),
    Group(
        "power",
        Power,
        (
            Ask("usage_w", "nvmlDeviceGetPowerUsage", _watts),
            Ask("limit_w", "nvmlDeviceGetPowerManagementLimit", _watts),
            Ask("default_limit_w", "nvmlDeviceGetPowerManagementDefaultLimit", _watts),
        ),
    ),
    Group(
        "temperature",
        Temperature,
        (
            Ask("core_c", "nvmlDeviceGetTemperature", _celsius, ",0"),
            Ask("memory_c", FIELD, _memory_celsius, ",82,0"),
            Ask("slowdown_c", "nvmlDeviceGetTemperatureThreshold", _celsius, ",1"),
            Ask("memory_max_c", "nvmlDeviceGetTemperatureThreshold", _celsius, ",2"),
        ),
    ),
    Group(
        "throttled",
        Throttled,
        (
            Ask("thermal_ns", FIELD, count, ",75,0", twice=True),
            Ask("board_limit_ns", FIELD, count, ",77,0", twice=True),
            Ask("reliability_ns", FIELD, count, ",79,0", twice=True),
        ),
    ),
)
OF_THE_MOMENT = (
    "performance_state",
    "processes",
    "clock_reasons",
    "usage_w",
    "core_c",
    "memory_c",
    "generation",
    "width",
)
CLOCKS = Ask(
    "clock_reasons", "nvmlDeviceGetCurrentClocksEventReasons", count, since=535, twice=True
)
TOLD = (  # what only an imported text tells of: no scan asks for these
    Ask("busy_percent", "nvmlDeviceGetUtilizationRates", lambda value: count(value["gpu"])),
    Ask("link_generation", "nvmlDeviceGetMaxPcieLinkGeneration", count),
)
LINK_COUNT = Ask("nvlinks", FIELD, count, ",91,0")
LINK = (
    Ask("active", FIELD, _active, ",165,"),
    Ask("rate_mb_s", FIELD, count, ",164,"),
    Ask("replays", FIELD, count, ",161,", twice=True),
    Ask("recoveries", FIELD, count, ",162,", twice=True),
    Ask("crc_errors", FIELD, count, ",163,", twice=True),
)
# link by link: NVML asks the driver once for what stands together of one link
LINK_ASKS = tuple(
    tuple(ask._replace(args=f"{ask.args}{number}") for ask in LINK) for number in range(LINKS)
)
LINKED = tuple(ask for asks in LINK_ASKS for ask in asks)


def _calls_first(ask: Ask) -> bool:
    return ask.call == FIELD


# The field values stand together at the end, where they make one batch a GPU.
EVERY = tuple(
    sorted(
        (*OWN, *(ask for group in GROUPS for ask in group.asks), CLOCKS, LINK_COUNT, *LINKED),
        key=_calls_first,
    )
)


def facts(recording: Recording, address: str) -> dict[str, Any]:
    """Return the facts of one GPU that come from this table."""
    found = {ask.fact: ask.fact_of(recording, address) for ask in OWN}
    found |= {ask.fact: offered(recording, ask.key(address), ask.parse) for ask in TOLD}
    for group in GROUPS:
        found[group.fact] = group.record(*(ask.fact_of(recording, address) for ask in group.asks))
    found["nvlinks"] = _links(recording, address)
    found["clock_reasons"] = _clock_reasons(recording, address)
    return found


def sources(address: str) -> dict[str, tuple[str, ...]]:
    """Return the readings behind each fact of one GPU, by the fact's path within it."""
    found: dict[str, tuple[str, ...]] = {
        ask.fact: (ask.key(address),) for ask in (*OWN, *TOLD, CLOCKS, LINK_COUNT)
    }
    found |= {
        f"{group.fact}.{ask.fact}": (ask.key(address),) for group in GROUPS for ask in group.asks
    }
    for number, asks in enumerate(LINK_ASKS):
        found |= {f"nvlinks[{number}].{ask.fact}": (ask.key(address),) for ask in asks}
    return found


def _links(recording: Recording, address: str) -> Any:
    number = take(recording, LINK_COUNT.key(address), LINK_COUNT.parse)
    return (
        number
        if is_unread(number)
        else tuple(_link(recording, address, n) for n in range(min(number, LINKS)))
    )


def _link(recording: Recording, address: str, number: int) -> NvLink:
    return NvLink(number, *(ask.fact_of(recording, address) for ask in LINK_ASKS[number]))


def _clock_reasons(recording: Recording, address: str) -> Any:
    """Combine the samples: a brake that flashes while the P-state changes is no brake, so all must
    show it.
    """
    bits = counter(
        recording,
        CLOCKS.key(address),
        CLOCKS.parse,
        CLOCKS.since,
        join=lambda first, last: first & last,
    )
    if is_unread(bits):
        return bits
    once = is_unread(bits.growth) and bits.growth.kind == "not-recorded"
    held: Any = bits.total if once else bits.growth
    if is_unread(held):  # a sample that came to nothing shows nothing
        return held
    return ClockReasons(*(bool(held & bit) for bit in (0x2, 0x8, 0x10, 0x20, 0x40, 0x80)))
