"""What nvidia-smi prints, as NVML's values and errors: one table for text, XML and CSV."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gpuscan.importers.part import answer, open_gpu, refusal
from gpuscan.recording import NOT_RECORDED, Reading
from gpuscan.recording.keys import FIELD_VALUES, file, handle, nvml

ERRORS = {  # kind and return code of NVML's error behind each text
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
COMPUTE_TYPES = ("C", "C+G", "M+C")  # processes that compute
# fmt: off
RECOVERY = {
    "none": 0, "reset": 1, "gpu reset": 1, "gpu reset required": 1, "pf flr": 1, "reboot": 2,
    "node reboot": 2, "node reboot required": 2, "os reboot": 2, "drain p2p": 3,
    "drain and reset": 4, "recover imex domain": 5, "bus reset": 6, "system reboot": 7,
}
FABRIC_STATES = {"n/a": 0, "not supported": 0, "not started": 1, "in progress": 2, "completed": 3}
STATUSES = {  # NVML's return codes
    "success": 0, "n/a": 0, "uninitialized": 1, "invalid argument": 2, "not supported": 3,
    "insufficient permissions": 4, "not found": 6, "insufficient size": 7, "driver not loaded": 9,
    "timeout": 10, "gpu is lost": 15, "gpu requires reset": 16, "operating system": 17,
    "in use": 19, "insufficient memory": 20, "no data": 21, "insufficient resources": 23,
    "not ready": 27, "gpu not found": 28, "invalid state": 29, "unknown error": 999,
}
REASONS = {  # bits of NVML's clocks event reasons
    "idle": 0x1, "applications": 0x2, "power_cap": 0x4, "hw": 0x8, "sync": 0x10, "sw_thermal": 0x20,
    "hw_thermal": 0x40, "brake": 0x80, "display": 0x100,
}
# fmt: on
COMPUTE_MODES = {"default": 0, "exclusive_thread": 1, "prohibited": 2, "exclusive_process": 3}
SWITCHES = {
    **dict.fromkeys(("enabled", "on", "yes", "active", "1"), 1),
    **dict.fromkeys(("disabled", "off", "no", "not active", "0"), 0),
}


def parse_error(word: str) -> tuple[str, int] | None:
    """Return kind and return code of the error that a text stands for, None for a value.

    >>> parse_error("[GPU requires reset]"), parse_error("N/A"), parse_error("34 C")
    (('reset-required', 16), ('not-supported', 3), None)
    """
    return ERRORS.get(_bare(word))


def _bare(word: str) -> str:
    return word.strip().strip("[]").strip().rstrip(".").lower()


def parse_number(word: str) -> int:
    """Parse the first whole number.

    >>> [parse_number(word) for word in ("3072 bank(s)", "16x", "0x1F", "1,024")]
    [3072, 16, 31, 1024]
    """
    hit = re.match(r"\s*(0x[0-9a-fA-F]+|\d[\d,]*)", word)
    if not hit:
        raise ValueError(word)
    return int(hit[1].replace(",", ""), 0 if hit[1].startswith("0x") else 10)


def parse_degrees(word: str) -> int:
    """Parse whole degrees, which may be below zero: `-3 C`."""
    return int(word.split()[0])


def parse_milliwatts(word: str) -> int:
    """Parse `80.78 W` or `105W` as milliwatts."""
    return round(float(word.split()[0].removesuffix("W")) * 1000)


def parse_switch(word: str) -> int:
    """Parse a switch, which NVML gives as 1 or 0."""
    return SWITCHES[_bare(word)]


def parse_text(word: str) -> str:
    """Return a text as NVML gives it; an empty one is an error."""
    if not word.strip():
        raise ValueError(word)
    return word.strip()


def parse_cuda_version(word: str) -> int:
    """Return a CUDA version as NVML gives it.

    >>> parse_cuda_version("13.0")
    13000
    """
    major, _, minor = word.strip().partition(".")
    return int(major) * 1000 + int(minor) * 10


class SmiRow(NamedTuple):
    """How one reading is made: its call, with `,arguments` after the GPU, and the facts it needs.

    A fact with `?` may be absent. *make* gets what was printed of each fact, None for an absent
    one, and returns None if that leaves nothing to say. Of a *raw* row only the first fact can be
    an error, and "N/A" is a value like any other.
    """

    call: str
    facts: tuple[str, ...]
    make: Callable[..., Any]
    raw: bool = False

    def key(self, gpu: str) -> str:
        """Return the reading's key for one GPU."""
        if self.call.startswith("/"):
            return file(f"/sys/bus/pci/devices/{gpu}{self.call}")
        name, *arguments = self.call.split(",")
        return nvml(name, gpu, *arguments)


def _is_missing(word: str | None) -> bool:
    return word is None or parse_error(word) is not None


def _each(parse: Callable[[str], Any]) -> Callable[..., Any]:
    """Return a maker of a list of parsed values; missing ones are NOT_RECORDED in it."""

    def make(*words: str | None) -> Any:
        if all(map(_is_missing, words)):
            return None
        return [
            NOT_RECORDED if word is None or _is_missing(word) else parse(word) for word in words
        ]

    return make


def _remapped_rows(
    correctable: str | None, uncorrectable: str | None, pending: str | None, failed: str | None
) -> Any:
    counts = _each(parse_number)(correctable, uncorrectable)
    flags = _each(parse_switch)(pending, failed)
    if not counts and not flags:
        return None
    return [*(counts or [NOT_RECORDED] * 2), *(flags or [NOT_RECORDED] * 2)]


def _total_or_sum(total: str | None, *words: str | None) -> Any:
    """Return the total if it is printed, else the sum of what is."""
    if total is not None and not _is_missing(total):
        return parse_number(total)
    numbers = [parse_number(word) for word in words if word is not None and not _is_missing(word)]
    return sum(numbers) if numbers else None


SRAM = (
    "volatileUncParity",
    "volatileUncSecDed",
    "aggregateUncParity",
    "aggregateUncSecDed",
    "aggregateUncBucketL2",
    "aggregateUncBucketSm",
    "aggregateUncBucketMcu",
    "aggregateUncBucketPcie",
    "aggregateUncBucketOther",
)


def _sram(threshold: str | None, *words: str | None) -> Any:
    counts = _each(parse_number)(*words)
    exceeded = _each(parse_switch)(threshold)
    if counts is None and exceeded is None:
        return None
    value = dict(zip(SRAM, counts or [NOT_RECORDED] * len(SRAM), strict=True))
    return value | {"bThresholdExceeded": exceeded[0] if exceeded else NOT_RECORDED}


def _spare_rows(*words: str) -> Any:
    names = ("max", "high", "partial", "low", "none")
    return dict(zip(names, map(parse_number, words), strict=True))


HEALTH = (  # what is printed for true and for false, and the bit of NVML's health mask
    ("degraded", "full", 0),
    ("true", "false", 2),
    ("true", "false", 4),
    ("true", "false", 6),
)
# fmt: off
MISCONFIGURATIONS = {
    "none": 1, "incorrect sysguid": 2, "incorrect chassis sn": 3,
    "incorrect chassis serial number": 3, "no partition": 4, "insufficient nvlinks": 5,
    "incompatible gpu fw": 6, "incompatible gpu firmware": 6, "invalid location": 7,
    "invalid state": 8,
}
# fmt: on


def _fabric(state: str, status: str | None, *health: str | None) -> Any:
    """Return NVML's fabric info.

    The health mask has two bits for each question (1 true, 2 false) and four for a
    misconfiguration.
    """
    mask = 0
    for word, (yes, no, shift) in zip(health[:4], HEALTH, strict=True):
        mask |= {yes: 1, "yes": 1, no: 2, "no": 2}.get(_bare(word or ""), 0) << shift
    mask |= MISCONFIGURATIONS.get(_bare(health[4] or ""), 0) << 8
    return {
        "state": FABRIC_STATES[_bare(state)],
        "status": STATUSES[_bare(status or "n/a")],
        "healthMask": mask,
    }


def _clock_reasons(mask: str | None, *words: str | None) -> Any:
    if mask is not None and not _is_missing(mask):
        return parse_number(mask)
    if all(map(_is_missing, words)):
        return None
    bits = zip(words, REASONS.values(), strict=True)
    return sum(bit for word, bit in bits if word and _bare(word) == "active")


def _uevent(device: str, base: str | None, sub: str | None) -> str:
    """Return the uevent file of a GPU; `0x233510DE` is the device and then the vendor."""
    ids = f"{_parse_hex(device):08X}"
    classes = _parse_hex(base or "3"), _parse_hex(sub or "2")
    return f"PCI_CLASS={classes[0]:X}{classes[1]:02X}00\nPCI_ID={ids[4:]}:{ids[:4]}\n"


def _parse_hex(word: str) -> int:
    return parse_number(word if word.startswith("0x") else f"0x{word}")


def _compute_mode(word: str) -> int:
    mode = _bare(word).replace(" ", "_")
    for short in ("process", "thread"):
        mode = mode.replace(f"e._{short}", f"exclusive_{short}")
    return COMPUTE_MODES[mode]


def _utilization(gpu: str, memory: str | None) -> Any:
    of_memory = NOT_RECORDED if memory is None or _is_missing(memory) else parse_number(memory)
    return {"gpu": parse_number(gpu), "memory": of_memory}


def _programs(pids: str) -> Any:
    return [{"pid": int(pid)} for pid in pids.split()]


def _memory(word: str) -> Any:
    return {"total": parse_number(word) << 20}


def _performance_state(word: str) -> int:
    return int(word.strip().removeprefix("P"))


ROWS = (
    SmiRow("nvmlDeviceGetName", ("name",), parse_text),
    SmiRow("nvmlDeviceGetUUID", ("uuid",), parse_text),
    SmiRow("nvmlDeviceGetSerial", ("serial",), parse_text),
    SmiRow("nvmlDeviceGetIndex", ("index",), parse_number),
    SmiRow("nvmlDeviceGetMinorNumber", ("minor",), parse_number),
    SmiRow("nvmlDeviceGetModuleId", ("module",), parse_number),
    SmiRow("nvmlDeviceGetBoardPartNumber", ("part_number",), parse_text),
    SmiRow("nvmlDeviceGetVbiosVersion", ("vbios",), parse_text),
    SmiRow("nvmlDeviceGetInforomImageVersion", ("inforom",), parse_text),
    SmiRow("nvmlDeviceGetGspFirmwareVersion", ("gsp",), parse_text),
    SmiRow("/uevent", ("device_id", "class?", "subclass?"), _uevent),
    SmiRow("nvmlDeviceGetMemoryInfo", ("memory",), _memory),
    SmiRow("nvmlDeviceGetEccMode", ("ecc", "ecc_pending?"), _each(parse_switch)),
    SmiRow("nvmlDeviceGetMigMode", ("mig", "mig_pending?"), _each(parse_switch)),
    SmiRow("nvmlDeviceGetPersistenceMode", ("persistence",), parse_switch),
    SmiRow("nvmlDeviceGetComputeMode", ("compute_mode",), _compute_mode),
    SmiRow("nvmlDeviceGetComputeRunningProcesses", ("programs",), _programs),
    SmiRow(
        "nvmlDeviceGetSramEccErrorStatus",
        (
            "sram_threshold?",
            "v_sram_parity?",
            "v_sram_secded?",
            "a_sram_parity?",
            "a_sram_secded?",
            "sram_l2?",
            "sram_sm?",
            "sram_mcu?",
            "sram_pcie?",
            "sram_other?",
        ),
        _sram,
    ),
    SmiRow(
        "nvmlDeviceGetRemappedRows",
        ("rows_correctable?", "rows_uncorrectable?", "rows_pending?", "rows_failed?"),
        _remapped_rows,
    ),
    SmiRow(
        "nvmlDeviceGetRowRemapperHistogram",
        ("bank_max", "bank_high", "bank_partial", "bank_low", "bank_none"),
        _spare_rows,
    ),
    SmiRow("nvmlDeviceGetUnrepairableMemoryFlag_v1", ("unrepairable",), parse_switch),
    SmiRow("nvmlDeviceGetRepairStatus", ("channel_repair?", "tpc_repair?"), _each(parse_switch)),
    SmiRow(f"{FIELD_VALUES},230,0", ("recovery",), lambda word: RECOVERY[_bare(word)]),
    SmiRow(
        "nvmlDeviceGetGpuFabricInfoV",
        (
            "fabric",
            "fabric_status?",
            "fabric_bandwidth?",
            "fabric_recovery?",
            "fabric_route?",
            "fabric_timeout?",
            "fabric_mistake?",
        ),
        _fabric,
        raw=True,
    ),
    SmiRow("nvmlDeviceGetPerformanceState", ("pstate",), _performance_state),
    SmiRow(
        "nvmlDeviceGetTotalEccErrors,1,0",
        ("v_unc?", "v_dram_unc?", "v_sram_unc?", "v_sram_parity?", "v_sram_secded?"),
        _total_or_sum,
    ),
    SmiRow(
        "nvmlDeviceGetTotalEccErrors,1,1",
        ("a_unc?", "a_dram_unc?", "a_sram_unc?", "a_sram_parity?", "a_sram_secded?"),
        _total_or_sum,
    ),
    SmiRow(
        "nvmlDeviceGetTotalEccErrors,0,0", ("v_cor?", "v_dram_cor?", "v_sram_cor?"), _total_or_sum
    ),
    SmiRow(
        "nvmlDeviceGetTotalEccErrors,0,1", ("a_cor?", "a_dram_cor?", "a_sram_cor?"), _total_or_sum
    ),
    SmiRow(f"{FIELD_VALUES},29,0", ("pages_single",), parse_number),
    SmiRow(f"{FIELD_VALUES},30,0", ("pages_double",), parse_number),
    SmiRow("nvmlDeviceGetRetiredPagesPendingStatus", ("pages_pending",), parse_switch),
    SmiRow("nvmlDeviceGetCurrPcieLinkWidth", ("width",), parse_number),
    SmiRow("nvmlDeviceGetMaxPcieLinkWidth", ("width_max",), parse_number),
    SmiRow("nvmlDeviceGetCurrPcieLinkGeneration", ("generation",), parse_number),
    SmiRow("nvmlDeviceGetMaxPcieLinkGeneration", ("generation_max",), parse_number),
    SmiRow("nvmlDeviceGetGpuMaxPcieLinkGeneration", ("generation_own",), parse_number),
    SmiRow("nvmlDeviceGetPcieReplayCounter", ("replays",), parse_number),
    SmiRow("nvmlDeviceGetPowerUsage", ("power",), parse_milliwatts),
    SmiRow("nvmlDeviceGetPowerManagementLimit", ("power_limit",), parse_milliwatts),
    SmiRow("nvmlDeviceGetPowerManagementDefaultLimit", ("power_default",), parse_milliwatts),
    SmiRow("nvmlDeviceGetTemperature,0", ("core_c",), parse_number),
    SmiRow("nvmlDeviceGetMarginTemperature", ("margin_c",), parse_degrees),
    SmiRow(f"{FIELD_VALUES},82,0", ("memory_c",), parse_number),
    SmiRow("nvmlDeviceGetTemperatureThreshold,1", ("slowdown_c",), parse_number),
    SmiRow("nvmlDeviceGetTemperatureThreshold,2", ("memory_max_c",), parse_number),
    SmiRow(
        "nvmlDeviceGetCurrentClocksEventReasons",
        ("reasons?", *(f"reason_{name}?" for name in REASONS)),
        _clock_reasons,
    ),
    SmiRow("nvmlDeviceGetClockInfo,1", ("sm_clock",), parse_number),
    SmiRow("nvmlDeviceGetClockInfo,2", ("memory_clock",), parse_number),
    SmiRow("nvmlDeviceGetUtilizationRates", ("busy", "busy_memory?"), _utilization),
)


def gpu_readings(gpu: str, words: Mapping[str, str]) -> list[Reading]:
    """Return the readings of one GPU from what is printed of each fact, its handle first.

    NVML could open the GPU, unless at least half of its values are unknown errors.

    >>> for reading in gpu_readings("0000:19:00.0", {"core_c": "34 C", "ecc": "[N/A]"}):
    ...     print(reading.key, reading.value if reading.error is None else reading.error.kind)
    nvml:nvmlDeviceGetHandleByPciBusId(0000:19:00.0) True
    nvml:nvmlDeviceGetEccMode(0000:19:00.0) not-supported
    nvml:nvmlDeviceGetTemperature(0000:19:00.0,0) 34
    """
    made = [reading for row in ROWS for reading in _read(row, gpu, words)]
    unknown = [one for one in made if one.error is not None and one.error.code == UNKNOWN_ERROR]
    asked = [one for one in made if not _is_identity(one.key)]
    if unknown and 2 * len(unknown) >= len(asked):
        return [refusal(handle(gpu), "garbled", "Unknown Error", UNKNOWN_ERROR), *made]
    return [open_gpu(gpu), *made]


IDENTITY = tuple(f"nvml:nvmlDeviceGet{name}(" for name in ("Name", "UUID", "Index", "Serial"))


def _is_identity(key: str) -> bool:
    """Return whether the driver keeps a fact, and gives it even for a GPU that no longer
    answers.
    """
    return key.startswith(IDENTITY)


def _read(row: SmiRow, gpu: str, words: Mapping[str, str]) -> list[Reading]:
    """Return the reading of one row: a value, an error, or none where the facts are not printed."""
    printed = {fact: words.get(fact.rstrip("?")) for fact in row.facts}
    if any(word is None and not fact.endswith("?") for fact, word in printed.items()):
        return []
    present = [word for word in printed.values() if word is not None]
    error = _find_error(row, present)
    if error is not None:
        kind, code = error
        text = next(word for word in present if parse_error(word) == error)
        return [refusal(row.key(gpu), kind, text.strip(" []"), code)]
    try:
        value = row.make(*printed.values())
    except (ValueError, KeyError, IndexError, TypeError):
        text = f"nvidia-smi prints {' '.join(present)!r:.80}"
        return [refusal(row.key(gpu), "garbled", text)]
    return [] if value is None else [answer(row.key(gpu), value)]


def _find_error(row: SmiRow, present: list[str]) -> tuple[str, int] | None:
    """Return the error that stands for a whole row.

    That is any error but "not supported", or "not supported" if all facts are. Of a raw row only
    the first fact counts, unless it is N/A, which is a value there.
    """
    if row.raw:
        is_value = parse_error(present[0]) == ERRORS["n/a"]
        present = [] if is_value else present[:1]
    errors = [error for word in present if (error := parse_error(word))]
    serious = next((error for error in errors if error[0] != "not-supported"), None)
    if serious:
        return serious
    return errors[0] if errors and len(errors) == len(present) else None
