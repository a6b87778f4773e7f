"""What is read of one GPU: one table of facts, each with its call, parser, and the first driver
branch that answers it.

To add a fact of a GPU, add a line here and a field of the same name to the record in
gpuscan/model/gpu.py, then run tests/support/generate.py.
"""

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

from gpuscan.collectors import gpu_parsers as parse
from gpuscan.collectors.reading import (
    count,
    counter,
    flag,
    offered,
    samples,
    seconds_between,
    take,
    text,
)
from gpuscan.model import (
    Aer,
    ClockReasons,
    EccErrors,
    Fact,
    NvLink,
    Pcie,
    Power,
    RetiredPages,
    Temperature,
    Throttled,
    is_unread,
)
from gpuscan.recording import Recording

FIELD = "nvmlDeviceGetFieldValues"
# the most that any generation has; read in one batch, cut to the GPU's own number (field 91)
LINKS = 18


class Query(NamedTuple):
    """How one fact of a GPU is read.

    *call* is an NVML function, or, if it starts with a slash, a file of the PCI device in sysfs.
    *args* follow the GPU in the call; *since* is the first driver branch with it. *twice* takes a
    second reading at the end of the scan, for the growth of a counter. *momentary* facts show what
    the GPU is doing, and are not read again after a burn-in.
    """

    fact: str
    call: str
    parse: Callable[[Any], Any]
    args: str = ""
    since: int = 0
    twice: bool = False
    momentary: bool = False

    def key(self, address: str) -> str:
        """Return the reading's key for one GPU."""
        if self.call.startswith("/"):
            return f"file:/sys/bus/pci/devices/{address}{self.call}"
        return f"nvml:{self.call}({address}{self.args})"

    def fact_of(self, recording: Recording, address: str) -> Any:
        """Return the fact for one GPU, or Unread."""
        take_fact = counter if self.twice else take
        fact = take_fact(recording, self.key(address), self.parse, self.since)
        if self.call.startswith("/") and is_unread(fact) and fact.kind == "not-found":
            return fact._replace(
                kind="not-supported", text="the kernel counts no such errors of this device"
            )
        return fact


class Group(NamedTuple):
    """Facts that make one record of the GPU, in the order of the record's fields."""

    fact: str
    record: Callable[..., Any]
    asks: tuple[Query, ...]


OWN = (
    Query("nvml_index", "nvmlDeviceGetIndex", count),
    Query("minor", "nvmlDeviceGetMinorNumber", count),
    Query("module_id", "nvmlDeviceGetModuleId", count),
    Query("name", "nvmlDeviceGetName", text),
    Query("virtualization", "nvmlDeviceGetVirtualizationMode", parse.virtualization),
    Query("uuid", "nvmlDeviceGetUUID", text),
    Query("serial", "nvmlDeviceGetSerial", text),
    Query("part_number", "nvmlDeviceGetBoardPartNumber", text),
    Query("vbios", "nvmlDeviceGetVbiosVersion", text),
    Query("inforom", "nvmlDeviceGetInforomImageVersion", text),
    Query("gsp_firmware", "nvmlDeviceGetGspFirmwareVersion", text),
    Query("memory_mib", "nvmlDeviceGetMemoryInfo", parse.total_mib),
    Query("ecc_mode", "nvmlDeviceGetEccMode", parse.mode),
    Query("mig_mode", "nvmlDeviceGetMigMode", parse.mode),
    Query("persistence", "nvmlDeviceGetPersistenceMode", flag),
    Query("compute_mode", "nvmlDeviceGetComputeMode", count),
    Query(
        "processes",
        "nvmlDeviceGetComputeRunningProcesses",
        parse.processes,
        since=535,
        momentary=True,
    ),
    Query("sram", "nvmlDeviceGetSramEccErrorStatus", parse.sram, since=535),
    Query("remapped_rows", "nvmlDeviceGetRemappedRows", parse.remapped_rows, since=450),
    Query("spare_rows", "nvmlDeviceGetRowRemapperHistogram", parse.spare_rows, since=460),
    Query("unrepairable_memory", "nvmlDeviceGetUnrepairableMemoryFlag_v1", flag, since=590),
    Query("repair", "nvmlDeviceGetRepairStatus", parse.repair, since=580),
    Query("recovery_action", FIELD, count, ",230,0", since=565),
    Query("fabric", "nvmlDeviceGetGpuFabricInfoV", parse.fabric, since=550),
    Query("performance_state", "nvmlDeviceGetPerformanceState", count, momentary=True),
)
GROUPS = (
    Group(
        "ecc_errors",
        EccErrors,
        (  # NVML: error type 1 uncorrected, 0 corrected; counter 0 volatile, 1 aggregate
            Query("uncorrected_volatile", "nvmlDeviceGetTotalEccErrors", count, ",1,0"),
            Query("uncorrected_aggregate", "nvmlDeviceGetTotalEccErrors", count, ",1,1"),
            Query("corrected_volatile", "nvmlDeviceGetTotalEccErrors", count, ",0,0"),
            Query("corrected_aggregate", "nvmlDeviceGetTotalEccErrors", count, ",0,1"),
        ),
    ),
    Group(
        "retired_pages",
        RetiredPages,
        (
            Query("single_bit", FIELD, count, ",29,0"),
            Query("double_bit", FIELD, count, ",30,0"),
            Query("pending", "nvmlDeviceGetRetiredPagesPendingStatus", flag),
        ),
    ),
    Group(
        "pcie",
        Pcie,
        (
            Query("width", "nvmlDeviceGetCurrPcieLinkWidth", parse.lanes, momentary=True),
            Query("max_width", "nvmlDeviceGetMaxPcieLinkWidth", parse.lanes),
            Query("generation", "nvmlDeviceGetCurrPcieLinkGeneration", count, momentary=True),
            Query("max_generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration", count),
            Query("replays", "nvmlDeviceGetPcieReplayCounter", count, twice=True),
        ),
    ),
    Group(
        "aer",
        Aer,
        (
            Query("fatal", "/aer_dev_fatal", parse.aer_total, twice=True),
            Query("nonfatal", "/aer_dev_nonfatal", parse.aer_total, twice=True),
        ),
    ),
    Group(
        "power",
        Power,
        (
            Query("usage_w", "nvmlDeviceGetPowerUsage", parse.watts, momentary=True),
            Query("limit_w", "nvmlDeviceGetPowerManagementLimit", parse.watts),
            Query("default_limit_w", "nvmlDeviceGetPowerManagementDefaultLimit", parse.watts),
        ),
    ),
    Group(
        "temperature",
        Temperature,
        (
            Query("core_c", "nvmlDeviceGetTemperature", parse.celsius, ",0", momentary=True),
            Query("memory_c", FIELD, parse.memory_celsius, ",82,0", momentary=True),
            Query("slowdown_c", "nvmlDeviceGetTemperatureThreshold", parse.celsius, ",1"),
            Query("memory_max_c", "nvmlDeviceGetTemperatureThreshold", parse.celsius, ",2"),
        ),
    ),
    Group(
        "throttled",
        Throttled,
        (
            Query("thermal_ns", FIELD, count, ",75,0", twice=True),
            Query("board_limit_ns", FIELD, count, ",77,0", twice=True),
            Query("reliability_ns", FIELD, count, ",79,0", twice=True),
        ),
    ),
)
CLOCKS = Query(
    "clock_reasons",
    "nvmlDeviceGetCurrentClocksEventReasons",
    count,
    since=535,
    twice=True,
    momentary=True,
)
REASONS = {  # NVML clocks event reasons, by their name in ClockReasons
    "application_clocks": 0x2,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "power_brake": 0x80,
}
HARDWARE = 0x8 | 0x40 | 0x80
OFFERED = (  # only in imported texts; no scan reads these
    Query("busy_percent", "nvmlDeviceGetUtilizationRates", lambda value: count(value["gpu"])),
    Query("link_generation", "nvmlDeviceGetMaxPcieLinkGeneration", count),
)
LINK_COUNT = Query("nvlinks", FIELD, count, ",91,0")
LINK = (
    Query("active", FIELD, parse.link_active, ",165,"),
    Query("rate_mb_s", FIELD, count, ",164,"),
    Query("replays", FIELD, count, ",161,", twice=True),
    Query("recoveries", FIELD, count, ",162,", twice=True),
    Query("crc_errors", FIELD, count, ",163,", twice=True),
)
# link by link, because NVML asks the driver once for fields of one link that stand together
LINK_ASKS = tuple(
    tuple(ask._replace(args=f"{ask.args}{number}") for ask in LINK) for number in range(LINKS)
)
# the field values stand together at the end, so that they are one batch a GPU
EVERY = tuple(
    sorted(
        (
            *OWN,
            *(ask for group in GROUPS for ask in group.asks),
            CLOCKS,
            LINK_COUNT,
            *(ask for asks in LINK_ASKS for ask in asks),
        ),
        key=lambda ask: ask.call == FIELD,
    )
)


def facts(recording: Recording, address: str) -> dict[str, Any]:
    """Return the facts of one GPU that this table has, by name."""
    values = {ask.fact: ask.fact_of(recording, address) for ask in OWN}
    values |= {ask.fact: offered(recording, ask.key(address), ask.parse) for ask in OFFERED}
    for group in GROUPS:
        values[group.fact] = group.record(*(ask.fact_of(recording, address) for ask in group.asks))
    values["nvlinks"] = _links(recording, address)
    values["clock_reasons"] = _clock_reasons(recording, address)
    return values


def sources(address: str) -> dict[str, tuple[str, ...]]:
    """Return the reading keys behind each fact of one GPU, by the fact's path within it."""
    keys: dict[str, tuple[str, ...]] = {
        ask.fact: (ask.key(address),) for ask in (*OWN, *OFFERED, CLOCKS, LINK_COUNT)
    }
    keys |= {
        f"{group.fact}.{ask.fact}": (ask.key(address),) for group in GROUPS for ask in group.asks
    }
    for number, asks in enumerate(LINK_ASKS):
        keys |= {f"nvlinks[{number}].{ask.fact}": (ask.key(address),) for ask in asks}
    return keys


def _links(recording: Recording, address: str) -> Fact[tuple[NvLink, ...]]:
    number: Fact[int] = take(recording, LINK_COUNT.key(address), LINK_COUNT.parse)
    if is_unread(number):
        return number
    return tuple(_link(recording, address, n) for n in range(min(number, LINKS)))


def _link(recording: Recording, address: str, number: int) -> NvLink:
    return NvLink(number, *(ask.fact_of(recording, address) for ask in LINK_ASKS[number]))


def _clock_reasons(recording: Recording, address: str) -> Fact[ClockReasons]:
    """Return the reasons that all samples show. One that flashes while the P-state changes is in
    *flashed* if it is a hardware slowdown, else nowhere.
    """
    key = CLOCKS.key(address)
    newest: Fact[int] = take(recording, key, CLOCKS.parse, CLOCKS.since)
    if is_unread(newest):
        return newest
    seen = samples(recording, key, CLOCKS.parse)
    for sample in seen:
        if is_unread(sample):
            return sample
    steady, ever = reduce(and_, seen), reduce(or_, seen)
    return ClockReasons(
        **{reason: bool(steady & bit) for reason, bit in REASONS.items()},
        flashed=bool(ever & ~steady & HARDWARE),
        samples=len(seen),
        seconds=seconds_between(recording, key),
    )
