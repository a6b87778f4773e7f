"""The GPUs' numbers in tables, a row for each GPU, as readers of nvidia-smi expect them."""

from collections.abc import Mapping, Sequence

from gpuscan.engine.report import Report
from gpuscan.model.report_rows import ReportPart
from gpuscan.renderers.grid import Cell, Column, tables
from gpuscan.renderers.lines import Line
from gpuscan.text import printable

NONE = Cell("-")
SLOWED_BY = {  # NVML clocks event reasons; idleness and the power limit are no slowdown
    "hw_thermal": "heat (hw)",
    "sw_thermal": "heat (sw)",
    "hw_slowdown": "hw",
    "power_brake": "brake",
    "application_clocks": "app clocks",
    "sync_boost": "sync boost",
    "flashed": "flash",
}
# The measurements that are shown: group, heading, and the facts that a cell joins with a slash.
COLUMNS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("core, °C", "now/limit", ("temperature.core_c", "temperature.slowdown_c")),
    ("memory, °C", "now/limit", ("temperature.memory_c", "temperature.memory_max_c")),
    ("power, W", "now/limit", ("power.usage_w", "power.limit_w")),
    ("clocks, MHz", "SM", ("sm_clock_mhz",)),
    ("clocks, MHz", "memory", ("memory_clock_mhz",)),
    ("state", "P", ("performance_state",)),
    ("memory, MiB", "used/total", ("memory_used_mib", "memory_mib")),
    ("busy", "%", ("busy_percent",)),
    (
        "ECC errors",
        "corr/uncorr",
        ("ecc_errors.corrected_aggregate", "ecc_errors.uncorrected_aggregate"),
    ),
    ("remapped rows", "corr/uncorr", ("remapped_rows.correctable", "remapped_rows.uncorrectable")),
    ("PCIe", "gen", ("pcie.generation",)),
    ("PCIe", "lanes", ("pcie.width",)),
    ("NVLinks", "up/all", ("nvlinks.up", "nvlinks.count")),
)
AFTER_CLOCKS = 5  # the place of the column of what slows them


def lines(report: Report) -> list[Line]:
    """Return the tables, none where nothing of any GPU was measured."""
    gpus = [part for part in report.parts if part.kind == "gpu"]
    values = {(row.address, row.name): row.value for row in report.measurements if row.test is None}
    columns = [
        Column(group, head, tuple(_cell(gpu.address, facts, values) for gpu in gpus))
        for group, head, facts in COLUMNS
    ]
    if not any(cell != NONE for column in columns for cell in column.cells):
        return []
    columns.insert(AFTER_CLOCKS, _slowed(report, gpus))
    known = [column for column in columns if any(cell != NONE for cell in column.cells)]
    names = [printable(gpu.slot) for gpu in gpus]
    return [*tables(names, known)[1:], Line("")]


def _slowed(report: Report, gpus: Sequence[ReportPart]) -> Column:
    """Return what slows the clocks of each GPU, as far as checks looked at it."""
    seen: dict[str | None, dict[str, bool]] = {}
    for result in report.results:
        for fact, value, _ in result.evidence if result.about.kind == "gpu" else ():
            _, reason, name = fact.rpartition("clock_reasons.")
            if reason and type(value) is bool:
                seen.setdefault(result.address, {})[name] = value
    return Column("slowed", "by", tuple(_reasons(seen.get(gpu.address, {})) for gpu in gpus))


def _reasons(reasons: Mapping[str, bool]) -> Cell:
    if not reasons:
        return NONE
    active = [SLOWED_BY.get(name, name) for name, is_active in reasons.items() if is_active]
    return Cell(", ".join(active) or "nothing")


def _cell(address: str, facts: Sequence[str], values: Mapping[tuple[str, str], float]) -> Cell:
    found = [values.get((address, fact)) for fact in facts]
    if all(value is None for value in found):
        return NONE
    return Cell("/".join("-" if value is None else f"{value:.0f}" for value in found))
