"""What nvidia-smi prints, as the values and errors that NVML gives for the same: one table for
text, XML and CSV.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpuscan.importers.part import answer, handle, refusal
from gpuscan.recording import NOT_RECORDED, Reading

Words = Mapping[str, str]  # fact -> what was printed of it
LACKS = {  # NVML's error behind each word
    "n/a": ("not-supported", 3),
    "not supported": ("not-supported", 3),
    "not available": ("not-supported", 3),
    "requested functionality has been deprecated": ("not-supported", 3),
    "function not found": ("not-supported", 13),
    "insufficient permissions": ("no-permission", 4),
    "timeout": ("timed-out", 10),
    "gpu is lost": ("lost", 15),
    "gpu requires reset": ("reset-required", 16),
    "gpu access blocked by the operating system": ("no-permission", 17),
    "unknown error": ("garbled", 999),
    "err!": ("garbled", 999),
}
UNKNOWN_ERROR = 999
FIELD = "nvmlDeviceGetFieldValues"
RECOVERY = {
    "none": 0, "reset": 1, "gpu reset": 1, "gpu reset required": 1, "pf flr": 1, "reboot": 2, "node reboot": 2,
    "node reboot required": 2, "os reboot": 2, "drain p2p": 3, "drain and reset": 4, "recover imex domain": 5, "bus reset": 6,
    "system reboot": 7,
}  # fmt: skip
FABRIC_STATES = {"n/a": 0, "not supported": 0, "not started": 1, "in progress": 2, "completed": 3}
STATUSES = {  # NVML's return codes in its own words
    "success": 0, "n/a": 0, "uninitialized": 1, "invalid argument": 2, "not supported": 3, "insufficient permissions": 4,
    "not found": 6, "insufficient size": 7, "driver not loaded": 9, "timeout": 10, "gpu is lost": 15, "gpu requires reset": 16,
    "operating system": 17, "in use": 19, "insufficient memory": 20, "no data": 21, "insufficient resources": 23,
    "not ready": 27, "gpu not found": 28, "invalid state": 29, "unknown error": 999,
}  # fmt: skip
REASONS = {
    "idle": 0x1, "applications": 0x2, "power_cap": 0x4, "hw": 0x8, "sync": 0x10, "sw_thermal": 0x20, "hw_thermal": 0x40,
    "brake": 0x80, "display": 0x100,
}  # fmt: skip
COMPUTE_MODES = {"default": 0, "exclusive_thread": 1, "prohibited": 2, "exclusive_process": 3}


def lack(word: str) -> tuple[str, int] | None:
    """Return (kind of lack, return code) where a word stands for an error.

    >>> lack("[GPU requires reset]"), lack("N/A"), lack("34 C")
    (('reset-required', 16), ('not-supported', 3), None)
    """
    return LACKS.get(_bare(word))


def _bare(word: str) -> str:
    return word.strip().strip("[]").strip().rstrip(".").lower()


def number(word: str) -> int:
    """Parse the first whole number of `3072 bank(s)`, `16x`, `0x1F`, `1,024`."""
    hit = re.match(r"\s*(0x[0-9a-fA-F]+|\d[\d,]*)", word)
    if not hit:
        raise ValueError(word)
    return int(hit[1].replace(",", ""), 0 if hit[1].startswith("0x") else 10)


def real(word: str) -> float:
    """Parse `80.78 W`."""
    return float(word.split()[0].removesuffix("W"))


def truth(word: str) -> int:
    """Parse a switch: NVML gives 1 or 0."""
    known = {
        "enabled": 1,
        "disabled": 0,
        "on": 1,
        "off": 0,
        "yes": 1,
        "no": 0,
        "active": 1,
        "not active": 0,
        "1": 1,
        "0": 0,
    }
    return known[_bare(word)]


def plain(word: str) -> str:
    """Return a word as NVML would give it."""
    if not word.strip():
        raise ValueError(word)
    return word.strip()


class Row(NamedTuple):
    """One reading: its call (with `,arguments` behind the GPU) and the facts that make it; `fact?`
    may be absent.

    *make* gets their words, None for an absent one, and returns None where that leaves nothing to
    say. Of *raw* rows only the first fact can be an error, and "N/A" is a word like others.
    """

    call: str
    facts: tuple[str, ...]
    make: Callable[..., Any]
    raw: bool = False

    def key(self, gpu: str) -> str:
        """Return the reading's key for one GPU."""
        if self.call.startswith("/"):
            return f"file:/sys/bus/pci/devices/{gpu}{self.call}"
        name, _, arguments = self.call.partition(",")
        return f"nvml:{name}({gpu}{',' if arguments else ''}{arguments})"


def _each(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Return what makes a list of words, each parsed; a missing one is told as such, all missing
    are nothing to say.
    """

    def make(*words: str | None) -> Any:
        if all(word is None or lack(word) for word in words):
            return None
        return [NOT_RECORDED if word is None or lack(word) else parse(word) for word in words]

    return make


def _rows(
    correctable: str | None, uncorrectable: str | None, pending: str | None, failed: str | None
) -> Any:
    counts, flags = _each(number)(correctable, uncorrectable), _each(truth)(pending, failed)
    return (
        [*(counts or [NOT_RECORDED] * 2), *(flags or [NOT_RECORDED] * 2)]
        if counts or flags
        else None
    )


def _sum(*words: str | None) -> Any:
    told = [number(word) for word in words if word is not None and not lack(word)]
    return sum(told) if told else None


def _total_or_sum(total: str | None, *words: str | None) -> Any:
    return _sum(*words) if total is None or lack(total) else number(total)


SRAM = (
    "volatileUncParity", "volatileUncSecDed", "aggregateUncParity", "aggregateUncSecDed", "aggregateUncBucketL2",
    "aggregateUncBucketSm", "aggregateUncBucketMcu", "aggregateUncBucketPcie", "aggregateUncBucketOther",
)  # fmt: skip


def _sram(threshold: str | None, *words: str | None) -> Any:
    if all(word is None or lack(word) for word in (threshold, *words)):
        return None
    value = dict(
        zip(
            SRAM,
            (NOT_RECORDED if word is None or lack(word) else number(word) for word in words),
            strict=True,
        )
    )
    return value | {
        "bThresholdExceeded": NOT_RECORDED
        if threshold is None or lack(threshold)
        else truth(threshold)
    }


def _spares(*words: str) -> Any:
    return dict(zip(("max", "high", "partial", "low", "none"), map(number, words), strict=True))


QUESTIONS = (
    ("degraded", "full", 0),
    ("true", "false", 2),
    ("true", "false", 4),
    ("true", "false", 6),
)
MISTAKES = {
    "none": 1, "incorrect sysguid": 2, "incorrect chassis sn": 3, "incorrect chassis serial number": 3, "no partition": 4,
    "insufficient nvlinks": 5, "incompatible gpu fw": 6, "incompatible gpu firmware": 6, "invalid location": 7,
    "invalid state": 8,
}  # fmt: skip


def _fabric(state: str, status: str | None, *health: str | None) -> Any:
    """Make NVML's fabric info; its health mask has two bits a question, 1 true and 2 false, and
    four for a mistake.
    """
    mask = 0
    for word, (yes, no, shift) in zip(health[:4], QUESTIONS, strict=True):
        bare = _bare(word or "")
        mask |= {yes: 1, "yes": 1, no: 2, "no": 2}.get(bare, 0) << shift
    mask |= MISTAKES.get(_bare(health[4] or ""), 0) << 8
    return {
        "state": FABRIC_STATES[_bare(state)],
        "status": STATUSES[_bare(status or "n/a")],
        "healthMask": mask,
    }


def _reasons(mask: str | None, *words: str | None) -> Any:
    if mask is not None and not lack(mask):
        return number(mask)
    if all(word is None or lack(word) for word in words):
        return None
    return sum(
        bit
        for word, bit in zip(words, REASONS.values(), strict=True)
        if word and _bare(word) == "active"
    )


def _identity(device: str, base: str | None, sub: str | None) -> str:
    """Return the uevent file of a GPU: `0x233510DE` names the device, then the vendor."""
    ids = f"{number(device if device.startswith('0x') else f'0x{device}'):08X}"
    classes = [
        number(word if word.startswith("0x") else f"0x{word}") for word in (base or "3", sub or "2")
    ]
    return f"PCI_CLASS={classes[0]:X}{classes[1]:02X}00\nPCI_ID={ids[4:]}:{ids[:4]}\n"


def _mode(word: str) -> int:
    return COMPUTE_MODES[
        _bare(word)
        .replace(" ", "_")
        .replace("e._process", "exclusive_process")
        .replace("e._thread", "exclusive_thread")
    ]


def _busy(gpu: str, memory: str | None) -> Any:
    return {
        "gpu": number(gpu),
        "memory": NOT_RECORDED if memory is None or lack(memory) else number(memory),
    }


def _programs(pids: str) -> Any:
    return [{"pid": int(pid)} for pid in pids.split()]


ROWS = (
    Row("nvmlDeviceGetName", ("name",), plain),
    Row("nvmlDeviceGetUUID", ("uuid",), plain),
    Row("nvmlDeviceGetSerial", ("serial",), plain),
    Row("nvmlDeviceGetIndex", ("index",), number),
    Row("nvmlDeviceGetMinorNumber", ("minor",), number),
    Row("nvmlDeviceGetModuleId", ("module",), number),
    Row("nvmlDeviceGetBoardPartNumber", ("part_number",), plain),
    Row("nvmlDeviceGetVbiosVersion", ("vbios",), plain),
    Row("nvmlDeviceGetInforomImageVersion", ("inforom",), plain),
    Row("nvmlDeviceGetGspFirmwareVersion", ("gsp",), plain),
    Row("/uevent", ("device_id", "class?", "subclass?"), _identity),
    Row("nvmlDeviceGetMemoryInfo", ("memory",), lambda word: {"total": number(word) << 20}),
    Row("nvmlDeviceGetEccMode", ("ecc", "ecc_pending?"), _each(truth)),
    Row("nvmlDeviceGetMigMode", ("mig", "mig_pending?"), _each(truth)),
    Row("nvmlDeviceGetPersistenceMode", ("persistence",), truth),
    Row("nvmlDeviceGetComputeMode", ("compute_mode",), _mode),
    Row("nvmlDeviceGetComputeRunningProcesses", ("programs",), _programs),
    Row(
        "nvmlDeviceGetSramEccErrorStatus",
        ("sram_threshold?", "v_sram_parity?", "v_sram_secded?", "a_sram_parity?", "a_sram_secded?", "sram_l2?", "sram_sm?",
         "sram_mcu?", "sram_pcie?", "sram_other?"),
        _sram,
    ),
    Row("nvmlDeviceGetRemappedRows", ("rows_correctable?", "rows_uncorrectable?", "rows_pending?", "rows_failed?"), _rows),
    Row("nvmlDeviceGetRowRemapperHistogram", ("bank_max", "bank_high", "bank_partial", "bank_low", "bank_none"), _spares),
    Row("nvmlDeviceGetUnrepairableMemoryFlag_v1", ("unrepairable",), truth),
    Row("nvmlDeviceGetRepairStatus", ("channel_repair?", "tpc_repair?"), _each(truth)),
    Row(f"{FIELD},230,0", ("recovery",), lambda word: RECOVERY[_bare(word)]),
    Row(
        "nvmlDeviceGetGpuFabricInfoV",
        ("fabric", "fabric_status?", "fabric_bandwidth?", "fabric_recovery?", "fabric_route?", "fabric_timeout?",
         "fabric_mistake?"),
        _fabric,
        raw=True,
    ),
    Row("nvmlDeviceGetPerformanceState", ("pstate",), lambda word: int(word.strip().removeprefix("P"))),
    Row(
        "nvmlDeviceGetTotalEccErrors,1,0",
        ("v_unc?", "v_dram_unc?", "v_sram_unc?", "v_sram_parity?", "v_sram_secded?"),
        _total_or_sum,
    ),
    Row(
        "nvmlDeviceGetTotalEccErrors,1,1",
        ("a_unc?", "a_dram_unc?", "a_sram_unc?", "a_sram_parity?", "a_sram_secded?"),
        _total_or_sum,
    ),
    Row("nvmlDeviceGetTotalEccErrors,0,0", ("v_cor?", "v_dram_cor?", "v_sram_cor?"), _total_or_sum),
    Row("nvmlDeviceGetTotalEccErrors,0,1", ("a_cor?", "a_dram_cor?", "a_sram_cor?"), _total_or_sum),
    Row(f"{FIELD},29,0", ("pages_single",), number),
    Row(f"{FIELD},30,0", ("pages_double",), number),
    Row("nvmlDeviceGetRetiredPagesPendingStatus", ("pages_pending",), truth),
    Row("nvmlDeviceGetCurrPcieLinkWidth", ("width",), number),
    Row("nvmlDeviceGetMaxPcieLinkWidth", ("width_max",), number),
    Row("nvmlDeviceGetCurrPcieLinkGeneration", ("generation",), number),
    Row("nvmlDeviceGetMaxPcieLinkGeneration", ("generation_max",), number),
    Row("nvmlDeviceGetGpuMaxPcieLinkGeneration", ("generation_own",), number),
    Row("nvmlDeviceGetPcieReplayCounter", ("replays",), number),
    Row("nvmlDeviceGetPowerUsage", ("power",), lambda word: round(real(word) * 1000)),
    Row("nvmlDeviceGetPowerManagementLimit", ("power_limit",), lambda word: round(real(word) * 1000)),
    Row("nvmlDeviceGetPowerManagementDefaultLimit", ("power_default",), lambda word: round(real(word) * 1000)),
    Row("nvmlDeviceGetTemperature,0", ("core_c",), number),
    Row(f"{FIELD},82,0", ("memory_c",), number),
    Row("nvmlDeviceGetTemperatureThreshold,1", ("slowdown_c",), number),
    Row("nvmlDeviceGetTemperatureThreshold,2", ("memory_max_c",), number),
    Row("nvmlDeviceGetCurrentClocksEventReasons", ("reasons?", *(f"reason_{name}?" for name in REASONS)), _reasons),
    Row("nvmlDeviceGetUtilizationRates", ("busy", "busy_memory?"), _busy),
)  # fmt: skip


def readings(gpu: str, words: Words) -> list[Reading]:
    """Return the readings of one GPU, its handle first: NVML opened it, unless the words say
    otherwise.
    """
    found = [made for row in ROWS for made in _read(row, gpu, words)]
    unknown = [
        reading
        for reading in found
        if reading.error is not None and reading.error.code == UNKNOWN_ERROR
    ]
    if unknown and 2 * len(unknown) >= len(
        [reading for reading in found if not _is_name(reading.key)]
    ):
        return [refusal(handle(gpu), "garbled", "Unknown Error", UNKNOWN_ERROR), *found]
    return [answer(handle(gpu), True), *found]


def _is_name(key: str) -> bool:
    """Tell whether a fact is kept by the driver: it is told even of a GPU that answers nothing
    any more.
    """
    return key.startswith(
        tuple(f"nvml:nvmlDeviceGet{name}(" for name in ("Name", "UUID", "Index", "Serial"))
    )


def _read(row: Row, gpu: str, words: Words) -> list[Reading]:
    key = row.key(gpu)
    told = {fact: words.get(fact.rstrip("?")) for fact in row.facts}
    if any(word is None and not fact.endswith("?") for fact, word in told.items()):
        return []
    given = [word for word in told.values() if word is not None]
    asked = [] if row.raw and lack(given[0]) == LACKS["n/a"] else given[:1] if row.raw else given
    lacks = [found for word in asked if (found := lack(word))]
    worst = next((found for found in lacks if found[0] != "not-supported"), None)
    if worst or (lacks and len(lacks) == len(asked)):
        kind, code = worst or lacks[0]
        return [
            refusal(
                key,
                kind,
                next(word for word in given if lack(word) == (kind, code)).strip(" []"),
                code,
            )
        ]
    try:
        value = row.make(*told.values())
    except (ValueError, KeyError, IndexError, TypeError):
        return [refusal(key, "garbled", f"nvidia-smi prints {' '.join(given)!r:.80}")]
    return [] if value is None else [answer(key, value)]
