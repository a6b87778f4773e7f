"""`nvidia-smi --query-…=… --format=csv`: a header or the command names the columns."""

import re
from collections.abc import Sequence

from gpuscan.importers import smi_words
from gpuscan.importers.part import ADDRESS, Importer, Part, answer, by_index, open_gpu, refusal
from gpuscan.importers.smi_words import parse_cuda_version
from gpuscan.pci import pci_address
from gpuscan.recording import Reading
from gpuscan.recording.keys import (
    COUNT,
    CUDA_VERSION,
    DRIVER_VERSION,
    IMPORTED_GPUS,
    INIT,
    UNREAD_LINES,
    handle,
)

BUS_ID = re.compile(ADDRESS)
QUERY = re.compile(r"--query-([a-z-]+)=(\S+)")
FACTS = {
    "name": "name", "gpu_name": "name", "uuid": "uuid", "gpu_uuid": "uuid", "serial": "serial", "gpu_serial": "serial",
    "index": "index", "vbios_version": "vbios", "inforom.img": "inforom", "inforom.image": "inforom",
    "pci.device_id": "device_id", "memory.total": "memory", "ecc.mode.current": "ecc", "ecc.mode.pending": "ecc_pending",
    "mig.mode.current": "mig", "mig.mode.pending": "mig_pending", "persistence_mode": "persistence",
    "compute_mode": "compute_mode", "pstate": "pstate", "temperature.gpu": "core_c", "temperature.memory": "memory_c",
    "power.draw": "power", "power.draw.instant": "power", "clocks.sm": "sm_clock", "clocks.current.sm": "sm_clock", "clocks.mem": "memory_clock",
    "clocks.current.memory": "memory_clock", "power.limit": "power_limit", "power.default_limit": "power_default",
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
NO_HEADER = "columns without names (leave noheader out of --format, or paste the command too)"
STATES = ("gpu requires reset", "gpu is lost", "unknown error")
STATE_CELL = re.compile(r"\[(?:GPU requires reset|GPU is lost|Unknown Error)\]", re.IGNORECASE)
ROW = re.compile(r"^\s*(?:\d{1,2}|[0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]), ?\S")
PROGRAM_QUERIES = ("compute-apps", "accounted-apps")
WITHIN = ("", "nvidia-smi --query", "nvidia-smi -q", "nvidia-smi error")


def is_header(line: str) -> bool:
    """Return whether a line names columns: at least half are names of nvidia-smi, at least one
    is known.
    """
    names = parse_header(line)
    known = sum(name in FACTS or name in OTHERS for name in names)
    dotted = sum(
        "." in name and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name) is not None for name in names
    )
    return known > 0 and 2 * (known + dotted) >= len(names)


def parse_header(line: str) -> list[str]:
    """Split a header into the names of its columns.

    >>> parse_header("index, power.draw [W]")
    ['index', 'power.draw']
    """
    cells = map(str.strip, line.split(","))
    return [one.partition("[")[0].strip() if one.endswith("]") else one for one in cells]


def readings(part: Part) -> list[Reading]:
    """Return the readings of each row; without known columns only whether its GPU can be opened.

    >>> text = "index, temperature.gpu" + chr(10) + "0, 34"
    >>> for reading in readings(Part("nvidia-smi --query", text)):
    ...     print(reading.key, reading.value)
    nvml:nvmlInit() True
    import:cards ['GPU 0']
    nvml:nvmlDeviceGetHandleByPciBusId(GPU 0) True
    nvml:nvmlDeviceGetIndex(GPU 0) 0
    nvml:nvmlDeviceGetTemperature(GPU 0,0) 34
    """
    query = QUERY.search(part.command)
    columns = parse_header(query[2]) if query else []
    tables: list[tuple[list[str], list[list[str]]]] = [(columns, [])]
    for line in filter(str.strip, part.text.splitlines()):
        if is_header(line):
            tables.append((parse_header(line), []))
        else:
            tables[-1][1].append([cell.strip() for cell in line.split(",")])
    made: list[Reading] = []
    gpus: list[str] = []
    for columns, rows in tables:
        if (query and query[1] in PROGRAM_QUERIES) or ("pid" in columns and "index" not in columns):
            made += _program_readings(columns, rows)
        else:
            made += _gpu_rows(columns, rows, gpus, part.command)
    return [answer(INIT, True), answer(IMPORTED_GPUS, gpus), *made] if gpus else made


def _gpu_rows(
    columns: list[str], rows: list[list[str]], gpus: list[str], command: str
) -> list[Reading]:
    """Return the readings of the rows of one table, and add their GPUs to *gpus*."""
    made: list[Reading] = []
    nameless: list[str] = []
    first = len(gpus)
    for cells in rows:
        if len(cells) != len(columns) if columns else not _is_row(cells):
            continue
        words = dict(zip(columns, cells, strict=False))
        gpu = _name_gpu(words, cells, len(gpus) - first, command)
        gpus += [gpu] if gpu not in gpus else []
        made += _node_readings(words)
        if columns:
            facts = {FACTS[name]: word for name, word in words.items() if name in FACTS}
            made += smi_words.gpu_readings(gpu, facts)
        state = _access(gpu, cells)
        if not columns or state.error is not None:
            made.append(state)
        if not columns and not all(map(smi_words.parse_error, cells[1:])):
            nameless.append(", ".join(cells))
    if nameless:
        made.append(answer(UNREAD_LINES, [f"{NO_HEADER}: {nameless[0]}"]))
    return made


def _is_row(cells: Sequence[str]) -> bool:
    """Return whether cells without a header can be a GPU's."""
    return (
        BUS_ID.fullmatch(cells[0]) is not None
        or cells[0].isdecimal()
        or any(smi_words.parse_error(cell) for cell in cells)
    )


def _name_gpu(words: dict[str, str], cells: Sequence[str], row: int, command: str) -> str:
    """Return the name of a row's GPU: its address, its index, else its place among the rows."""
    named = [word for name, word in words.items() if name.endswith("bus_id")]
    addresses = [cell for cell in (*named, *cells) if BUS_ID.fullmatch(cell)]
    if addresses:
        return pci_address(addresses[0])
    index = words.get("index", "" if words else cells[0])
    if index.isdecimal():
        return by_index(index)
    chosen = re.search(r"(?:\s-i|--id)[ =](\d+)\b", command)
    return by_index(chosen[1] if chosen else row)


def _node_readings(words: dict[str, str]) -> list[Reading]:
    """Return the readings of the columns that are about the node."""
    made = []
    if re.fullmatch(r"[\d.]+", words.get("driver_version", "")):
        made.append(answer(DRIVER_VERSION, words["driver_version"]))
    if re.fullmatch(r"\d+\.\d+", words.get("cuda_version", "")):
        made.append(answer(CUDA_VERSION, parse_cuda_version(words["cuda_version"])))
    count = words.get("count", words.get("gpu_count", ""))
    if count.isdecimal():
        made.append(answer(COUNT, int(count)))
    return made


def _access(gpu: str, cells: Sequence[str]) -> Reading:
    """Return whether a GPU can be opened, by the states that the driver puts in place of values.

    A value that is unknown says nothing of the others.
    """
    states = STATES if all(map(smi_words.parse_error, cells[1:])) else STATES[:2]
    for cell in cells:
        error = smi_words.parse_error(cell)
        if error and cell.strip("[] .").lower() in states:
            kind, code = error
            return refusal(handle(gpu), kind, cell.strip("[]"), code)
    return open_gpu(gpu)


def _program_readings(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Reading]:
    """Return the programs of each GPU (`--query-compute-apps`), named by address or UUID."""
    by_gpu: dict[str, list[str]] = {}
    for cells in rows:
        words = dict(zip(columns, cells, strict=False))
        address, uuid = words.get("gpu_bus_id", ""), words.get("gpu_uuid", "")
        gpu = pci_address(address) if BUS_ID.fullmatch(address) else uuid
        if gpu and words.get("pid", "").isdecimal():
            by_gpu.setdefault(gpu, []).append(words["pid"])
    made = [answer(INIT, True)]
    for gpu, pids in by_gpu.items():
        facts = {"programs": " ".join(pids)} | ({"uuid": gpu} if gpu.startswith("GPU-") else {})
        made += smi_words.gpu_readings(gpu, facts)
    return [*made, answer(IMPORTED_GPUS, list(by_gpu))]


def _is_table(line: str, kind: str) -> bool:
    """Return whether a line is a header, a row, or a row with a state in place of values."""
    if kind not in WITHIN:
        return False
    is_row = STATE_CELL.search(line) or ROW.match(line)
    return is_row is not None or ("," in line and is_header(line))


IMPORTER = Importer(
    name="nvidia-smi --query",
    reads="nvidia-smi --query-…",
    readings=readings,
    commands=r"--query-[a-z-]+",
    owns=r"--query-",
    fits=_is_table,
    opens=re.compile(r"^[a-z_]+(?:\.[a-z_]+)*(?: \[[^\]]*\])?(?:, *[a-z_.]+(?: \[[^\]]*\])?)+$"),
)
