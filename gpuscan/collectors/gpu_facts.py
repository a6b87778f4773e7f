"""What is read of one GPU: one table of facts, each with its call, parser, and the first driver
branch that answers it.

To add a fact of a GPU, add a line here and a field of the same name to the record in
gpuscan/model/gpu.py, then run tests/support/generate.py.
"""

from collections.abc import Callable, Iterator
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
    Unread,
    is_unread,
    read_or,
)
from gpuscan.recording import Recording

FIELD = "nvmlDeviceGetFieldValues"
# the most that any generation has; read in one batch, cut to the GPU's own number (field 91)
LINKS = 18


class Query(NamedTuple):
    """How one fact of a GPU is read.

    *call* is an NVML function, or, if it starts with a slash, a file of the PCI device in sysfs.
    *args* follow the GPU in the call; *since* is the first driver branch with it. *older* are the
    calls of older drivers and GPUs, newest first: each is asked where none before it is supported.
    *twice* takes a second reading at the end of the scan, for the growth of a counter. *momentary*
    facts show what the GPU is doing, and are not read again after a burn-in.
    """

    fact: str
    call: str
    parse: Callable[[Any], Any]
    args: str = ""
    since: int = 0
    twice: bool = False
    momentary: bool = False
    older: "tuple[Query, ...]" = ()

    def key(self, address: str) -> str:
        """Return the reading's key for one GPU."""
        if self.call.startswith("/"):
            return f"file:/sys/bus/pci/devices/{address}{self.call}"
        return f"nvml:{self.call}({address}{self.args})"

    def keys(self, address: str) -> tuple[str, ...]:
        """Return the keys of the call and of its older ones."""
        return self.key(address), *(older.key(address) for older in self.older)

    def asked(self, recording: Recording, address: str) -> tuple[str, ...]:
        """Return the call's key, and those of the older ones that were asked."""
        key, *older = self.keys(address)
        return key, *(one for one in older if one in recording)

    def fact_of(self, recording: Recording, address: str) -> Any:
        """Return the fact for one GPU, or Unread."""
        return self.answer(recording, address)[0]

    def answer(self, recording: Recording, address: str) -> tuple[Any, str]:
        """Return the fact, or Unread, and its key: what the first call answers that is supported.

        An older call that the recording does not hold was not there to be asked.
        """
        fact, key = self._own_answer(recording, address), self.key(address)
        for older in self.older:
            if not is_absent(fact) or older.key(address) not in recording:
                continue
            before, fact = fact, older._own_answer(recording, address)
            if is_absent(fact) and before.kind == "not-supported":
                fact = before  # not that the driver is too old: another one would not answer either
            else:
                key = older.key(address)
        return fact, key

    def _own_answer(self, recording: Recording, address: str) -> Any:
        key = self.key(address)
        fact = (
            counter(recording, key, self.parse, self.since)
            if self.twice
            else take(recording, key, self.parse, self.since)
        )
        if self.call.startswith("/") and is_unread(fact) and fact.kind == "not-found":
            return fact._replace(
                kind="not-supported", text="the kernel counts no such errors of this device"
            )
        return fact


def is_absent(fact: Any) -> bool:
    """Return whether a call is not supported, by this GPU or this driver."""
    return is_unread(fact) and fact.kind in ("not-supported", "too-old-driver")


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
    Query(
        "graphics_processes",
        "nvmlDeviceGetGraphicsRunningProcesses",
        parse.processes,
        since=535,
        momentary=True,
    ),
    Query(
        "mps_processes",
        "nvmlDeviceGetMPSComputeRunningProcesses",
        parse.processes,
        since=535,
        momentary=True,
    ),
    Query("application_clock_mhz", "nvmlDeviceGetApplicationsClock", count, ",0"),
    Query("default_application_clock_mhz", "nvmlDeviceGetDefaultApplicationsClock", count, ",0"),
    Query("sm_clock_mhz", "nvmlDeviceGetClockInfo", count, ",1", momentary=True),
    Query("memory_clock_mhz", "nvmlDeviceGetClockInfo", count, ",2", momentary=True),
    Query("enforced_limit_w", "nvmlDeviceGetEnforcedPowerLimit", parse.watts),
    Query("link_generation", "nvmlDeviceGetMaxPcieLinkGeneration", count),
    Query("sram", "nvmlDeviceGetSramEccErrorStatus", parse.sram, since=535),
    Query("remapped_rows", "nvmlDeviceGetRemappedRows", parse.remapped_rows, since=450),
    Query("spare_rows", "nvmlDeviceGetRowRemapperHistogram", parse.spare_rows, since=460),
    Query("unrepairable_memory", "nvmlDeviceGetUnrepairableMemoryFlag_v1", flag, since=590),
    Query("repair", "nvmlDeviceGetRepairStatus", parse.repair, since=580),
    Query("recovery_action", FIELD, count, ",230,0", since=565),
    Query(
        "fabric",
        "nvmlDeviceGetGpuFabricInfoV",
        parse.fabric,
        since=550,
        older=(Query("fabric", "nvmlDeviceGetGpuFabricInfo", parse.fabric, since=525),),
    ),
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
    older=(Query("clock_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", count, twice=True),),
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
)
ALSO = (  # told by a call that another fact asks for
    Query("memory_used_mib", "nvmlDeviceGetMemoryInfo", parse.used_mib),
    Query("nonfatal_kinds", "/aer_dev_nonfatal", parse.aer_kinds),
)
MARGIN = Query("core_margin_c", "nvmlDeviceGetMarginTemperature", parse.margin_celsius)
SLOWDOWN = "nvmlDeviceGetTemperatureThreshold"
LINK_COUNT = Query("nvlinks", FIELD, count, ",91,0")
# the rate of links 0 to 11 as GPUs before Hopper give it, each link in a field of its own
RATE_FIELDS = (*range(84, 90), *range(132, 138))


def _link_queries(link: int) -> tuple[Query, ...]:
    """Return what is asked of one NVLink, in the order of the record's fields.

    GPUs before Hopper give state and rate by older calls (NCCL asks likewise).
    """
    state = Query("active", "nvmlDeviceGetNvLinkState", parse.link_active, f",{link}")
    rates = [
        Query("rate_mb_s", FIELD, count, f",{field},0") for field in RATE_FIELDS[link : link + 1]
    ]
    return (
        Query("active", FIELD, parse.link_active, f",165,{link}", older=(state,)),
        Query("rate_mb_s", FIELD, count, f",164,{link}", older=tuple(rates)),
        Query("replays", FIELD, count, f",161,{link}", twice=True),
        Query("recoveries", FIELD, count, f",162,{link}", twice=True),
        Query("crc_errors", FIELD, count, f",163,{link}", twice=True),
    )


def _link5_queries(link: int) -> tuple[Query, ...]:
    """Return what is asked of one NVLink of generation 5 in place of the older error counters."""
    return (
        Query("receive_errors", FIELD, count, f",208,{link}", twice=True),
        Query("integrity_errors", FIELD, count, f",211,{link}", twice=True),
        Query("failed_recoveries", FIELD, count, f",214,{link}", twice=True),
        Query("bit_error_rate", FIELD, parse.bit_error_rate, f",220,{link}"),
    )


# link by link, because NVML asks the driver once for fields of one link that stand together
LINK_ASKS = tuple(map(_link_queries, range(LINKS)))
LINK5_ASKS = tuple(map(_link5_queries, range(LINKS)))
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
# asked once it is known that these GPUs do not have the counters in their place
FURTHER = tuple(ask for asks in LINK5_ASKS for ask in asks)


def further_keys(known: Recording, address: str) -> list[str]:
    """Return what is asked of one GPU where the first answers are "not supported": older calls,
    and the error counters of NVLink 5. Of links only those that the GPU has.
    """
    links = read_or(take(known, LINK_COUNT.key(address), LINK_COUNT.parse), 0)
    asks = [ask for ask in EVERY if ask not in _ALL_LINKS]
    asks += [ask for queries in LINK_ASKS[:links] for ask in queries]
    keys = [key for ask in asks for key in _older_keys(known, ask, address)]
    counts = LINK_ASKS[0][-1]
    if links and counts.key(address) in known and is_absent(counts.fact_of(known, address)):
        keys += [ask.key(address) for queries in LINK5_ASKS[:links] for ask in queries]
    return keys


_ALL_LINKS = frozenset(ask for queries in LINK_ASKS for ask in queries)


def _older_keys(known: Recording, ask: Query, address: str) -> Iterator[str]:
    """Yield an older call's key once no newer one is supported."""
    newer = ask
    for older in ask.older:
        key = newer.key(address)
        if key not in known or not is_absent(take(known, key, newer.parse, newer.since)):
            return
        yield older.key(address)
        newer = older


def wants_margin(known: Recording, address: str) -> bool:
    """Return whether a GPU's margin to its limit is read: it takes 2 ms, and only Blackwell and
    newer have no threshold in its place.
    """
    threshold = known.get(f"nvml:{SLOWDOWN}({address},1)")
    return is_unread(threshold) and threshold.kind == "not-supported"


def facts(recording: Recording, address: str) -> dict[str, Any]:
    """Return the facts of one GPU that this table has, by name."""
    values = {ask.fact: ask.fact_of(recording, address) for ask in (*OWN, *ALSO)}
    values[MARGIN.fact] = _margin(recording, address)
    values |= {ask.fact: offered(recording, ask.key(address), ask.parse) for ask in OFFERED}
    for group in GROUPS:
        values[group.fact] = group.record(*(ask.fact_of(recording, address) for ask in group.asks))
    values["nvlinks"] = _links(recording, address)
    values["clock_reasons"] = _clock_reasons(recording, address)
    return values


def sources(recording: Recording, address: str) -> dict[str, tuple[str, ...]]:
    """Return the reading keys behind each fact of one GPU, by the fact's path within it."""
    keys = {
        ask.fact: ask.asked(recording, address)
        for ask in (*OWN, *OFFERED, *ALSO, MARGIN, CLOCKS, LINK_COUNT)
    }
    keys |= {
        f"{group.fact}.{ask.fact}": ask.asked(recording, address)
        for group in GROUPS
        for ask in group.asks
    }
    for number in range(LINKS):
        for ask in (*LINK_ASKS[number], *LINK5_ASKS[number]):
            keys[f"nvlinks[{number}].{ask.fact}"] = ask.asked(recording, address)
    return keys


def _margin(recording: Recording, address: str) -> Fact[int]:
    key = MARGIN.key(address)
    if key not in recording and not wants_margin(recording, address):
        return Unread(key, "not-supported", "the GPU has a slowdown temperature in its place")
    return MARGIN.fact_of(recording, address)  # type: ignore[no-any-return]


def _links(recording: Recording, address: str) -> Fact[tuple[NvLink, ...]]:
    """Return the GPU's NVLinks: as many as it says that it has, and whichever else is up.

    Nothing public says whether the number still counts a link that is down.
    """
    number: Fact[int] = take(recording, LINK_COUNT.key(address), LINK_COUNT.parse)
    if is_unread(number):
        return number
    links = tuple(_link(recording, address, n) for n in range(LINKS))
    return tuple(link for link in links if link.number < number or link.active is True)


def _link(recording: Recording, address: str, number: int) -> NvLink:
    asked = (ask.fact_of(recording, address) for ask in LINK_ASKS[number])
    further = (_further(recording, ask, address) for ask in LINK5_ASKS[number])
    return NvLink(number, *asked, *further)


def _further(recording: Recording, ask: Query, address: str) -> Any:
    """Return a fact that is asked for only where the GPU lacks another."""
    key = ask.key(address)
    if key not in recording:
        return Unread(key, "not-recorded", "not asked: the GPU has other counters")
    return ask.fact_of(recording, address)


def _clock_reasons(recording: Recording, address: str) -> Fact[ClockReasons]:
    """Return the reasons that all samples show. One that flashes while the P-state changes is in
    *flashed* if it is a hardware slowdown, else nowhere.
    """
    newest, key = CLOCKS.answer(recording, address)
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
