"""`nvidia-smi --query-…=… --format=csv`: a header, or the command above, names the columns."""

import re
from collections.abc import Sequence

from gpuscan.importers import smi_words
from gpuscan.importers.part import ADDRESS, TOLD_GPUS, Part, answer, by_index, handle, refusal
from gpuscan.importers.smi_query import INIT, cuda
from gpuscan.pci import pci_address
from gpuscan.recording import Reading

BUS_ID = re.compile(ADDRESS)
QUERY = re.compile(r"--query-([a-z-]+)=(\S+)")
FACTS = {
    "name": "name", "gpu_name": "name", "uuid": "uuid", "gpu_uuid": "uuid", "serial": "serial", "gpu_serial": "serial",
    "index": "index", "vbios_version": "vbios", "inforom.img": "inforom", "inforom.image": "inforom",
    "pci.device_id": "device_id", "memory.total": "memory", "ecc.mode.current": "ecc", "ecc.mode.pending": "ecc_pending",
    "mig.mode.current": "mig", "mig.mode.pending": "mig_pending", "persistence_mode": "persistence",
    "compute_mode": "compute_mode", "pstate": "pstate", "temperature.gpu": "core_c", "temperature.memory": "memory_c",
    "power.draw": "power", "power.draw.instant": "power", "power.limit": "power_limit", "power.default_limit": "power_default",
    "utilization.gpu": "busy", "utilization.memory": "busy_memory", "pcie.link.gen.current": "generation",
    "pcie.link.gen.gpucurrent": "generation", "pcie.link.gen.max": "generation_max", "pcie.link.gen.gpumax": "generation_own",
    "pcie.link.width.current": "width", "pcie.link.width.max": "width_max",
    "ecc.errors.uncorrected.volatile.total": "v_unc", "ecc.errors.uncorrected.aggregate.total": "a_unc",
    "ecc.errors.corrected.volatile.total": "v_cor", "ecc.errors.corrected.aggregate.total": "a_cor",
    "ecc.errors.uncorrected.volatile.sram": "v_sram_unc", "ecc.errors.uncorrected.volatile.dram": "v_dram_unc",
    "ecc.errors.uncorrected.volatile.device_memory": "v_dram_unc", "ecc.errors.uncorrected.aggregate.sram": "a_sram_unc",
    "ecc.errors.uncorrected.aggregate.dram": "a_dram_unc", "ecc.errors.uncorrected.aggregate.device_memory": "a_dram_unc",
    "ecc.errors.sram.threshold_exceeded": "sram_threshold", "remapped_rows.correctable": "rows_correctable",
    "remapped_rows.uncorrectable": "rows_uncorrectable", "remapped_rows.pending": "rows_pending",
    "remapped_rows.failure": "rows_failed", "remapped_rows.histogram.max": "bank_max", "remapped_rows.histogram.high": "bank_high",
    "remapped_rows.histogram.partial": "bank_partial", "remapped_rows.histogram.low": "bank_low",
    "remapped_rows.histogram.none": "bank_none", "retired_pages.single_bit_ecc.count": "pages_single",
    "retired_pages.sbe": "pages_single", "retired_pages.double_bit.count": "pages_double", "retired_pages.dbe": "pages_double",
    "retired_pages.pending": "pages_pending", "fabric.state": "fabric", "fabric.status": "fabric_status",
    "fabric.health.bandwidth": "fabric_bandwidth", "fabric.health.route_unhealthy": "fabric_route",
    "gpu_recovery_action": "recovery", "clocks_event_reasons.active": "reasons", "clocks_throttle_reasons.active": "reasons",
    **{
        f"clocks_{word}_reasons.{name}": f"reason_{fact}"
        for word in ("event", "throttle")
        for name, fact in (
            ("gpu_idle", "idle"), ("applications_clocks_setting", "applications"), ("sw_power_cap", "power_cap"),
            ("hw_slowdown", "hw"), ("hw_thermal_slowdown", "hw_thermal"), ("hw_power_brake_slowdown", "brake"),
            ("sw_thermal_slowdown", "sw_thermal"), ("sync_boost", "sync"),
        )
    },
    "platform.module_id": "module",
}  # fmt: skip
OTHERS = (
    "pci.bus_id",
    "gpu_bus_id",
    "driver_version",
    "cuda_version",
    "count",
    "gpu_count",
    "timestamp",
    "pid",
    "process_name",
    "minor_number",
)
STATES = ("gpu requires reset", "gpu is lost", "unknown error")


def is_header(line: str) -> bool:
    """Tell whether a line names columns: most of its words are names that nvidia-smi knows, some
    with a unit.
    """
    names = columns_of(line)
    known = sum(name in FACTS or name in OTHERS for name in names)
    dotted = sum(
        "." in name and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) is not None for name in names
    )
    return known > 0 and 2 * (known + dotted) >= len(names)


def columns_of(line: str) -> list[str]:
    """Split `index, power.draw [W]` into names."""
    return [re.sub(r"\s*\[.*?\]\s*$", "", cell).strip() for cell in line.split(",")]


def readings(part: Part) -> list[Reading]:
    """Return the readings of each row; of rows without known columns only what state the GPU is
    in.
    """
    lines = [
        line
        for line in part.text.splitlines()
        if "," in line or BUS_ID.search(line) or line.strip()
    ]
    asked = QUERY.search(part.command)
    what = asked[1] if asked else ""
    columns = columns_of(asked[2]) if asked else []
    if lines and is_header(lines[0]):
        columns, lines = columns_of(lines[0]), lines[1:]
    if what in ("compute-apps", "accounted-apps") or ("pid" in columns and "index" not in columns):
        return _of_programs(columns, lines)
    found: list[Reading] = []
    gpus: list[str] = []
    for cells in ([cell.strip() for cell in line.split(",")] for line in lines):
        if columns and len(cells) != len(columns):
            continue
        if not columns and not _is_row(cells):
            continue
        words = dict(zip(columns, cells, strict=False))
        gpu = _gpu(words, cells, len(gpus), part.command)
        gpus.append(gpu)
        told = {FACTS[name]: word for name, word in words.items() if name in FACTS}
        found += _of_node(words) + (
            smi_words.readings(gpu, told) if columns else _state(gpu, cells)
        )
    return [answer(INIT, True), answer(TOLD_GPUS, gpus), *found] if gpus else []


def _is_row(cells: Sequence[str]) -> bool:
    return (
        BUS_ID.fullmatch(cells[0]) is not None
        or cells[0].isdecimal()
        or any(smi_words.lack(cell) for cell in cells)
    )


def _gpu(words: dict[str, str], cells: Sequence[str], row: int, command: str) -> str:
    """Name a row's GPU: by its address, its index, else its place in the listing of all."""
    address = next(
        (
            word
            for name, word in words.items()
            if name.endswith("bus_id") and BUS_ID.fullmatch(word)
        ),
        "",
    )
    address = address or next((cell for cell in cells if BUS_ID.fullmatch(cell)), "")
    if address:
        return pci_address(address)
    index = words.get("index", "" if words else cells[0])
    chosen = re.search(r"(?:\s-i|--id)[ =](\d+)\b", command)
    return by_index(index if index.isdecimal() else chosen[1] if chosen else row)


def _of_node(words: dict[str, str]) -> list[Reading]:
    found = []
    if re.fullmatch(r"[\d.]+", words.get("driver_version", "")):
        found.append(answer("nvml:nvmlSystemGetDriverVersion()", words["driver_version"]))
    if re.fullmatch(r"\d+\.\d+", words.get("cuda_version", "")):
        found.append(answer("nvml:nvmlSystemGetCudaDriverVersion()", cuda(words["cuda_version"])))
    number = words.get("count", words.get("gpu_count", ""))
    return found + (
        [answer("nvml:nvmlDeviceGetCount()", int(number))] if number.isdecimal() else []
    )


def _state(gpu: str, cells: Sequence[str]) -> list[Reading]:
    """Of columns that nobody named: a GPU in whose row the driver puts a state is in that state."""
    for cell in cells:
        found = smi_words.lack(cell)
        if found and cell.strip("[] .").lower() in STATES:
            return [refusal(handle(gpu), found[0], cell.strip("[]"), found[1])]
    return [answer(handle(gpu), True)]


def _of_programs(columns: Sequence[str], lines: Sequence[str]) -> list[Reading]:
    """`--query-compute-apps`: programs by GPU, which is named by address or UUID."""
    rows = [
        dict(zip(columns, (cell.strip() for cell in line.split(",")), strict=False))
        for line in lines
    ]
    by_gpu: dict[str, list[str]] = {}
    for words in rows:
        address, uuid = words.get("gpu_bus_id", ""), words.get("gpu_uuid", "")
        gpu = pci_address(address) if BUS_ID.fullmatch(address) else uuid
        if gpu and words.get("pid", "").isdecimal():
            by_gpu.setdefault(gpu, []).append(words["pid"])
    found = [answer(INIT, True)]
    for gpu, pids in by_gpu.items():
        known = {"programs": " ".join(pids)} | ({"uuid": gpu} if gpu.startswith("GPU-") else {})
        found += smi_words.readings(gpu, known)
    return [*found, answer(TOLD_GPUS, list(by_gpu))]
