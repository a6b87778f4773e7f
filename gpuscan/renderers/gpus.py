"""The GPUs' numbers in tables, a row for each GPU, as readers of nvidia-smi expect them."""

from collections.abc import Mapping, Sequence

from gpuscan.engine.report import Report
from gpuscan.renderers.grid import Cell, Column, tables
from gpuscan.renderers.lines import Line
from gpuscan.text import printable

NONE = Cell("-")
# The measurements that are shown: group, heading, and the facts that a cell joins with a slash.
COLUMNS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("temperature, °C", "core", ("temperature.core_c",)),
    ("temperature, °C", "memory", ("temperature.memory_c",)),
    ("power, W", "now/limit", ("power.usage_w", "power.limit_w")),
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


def lines(report: Report) -> list[Line]:
    """Return the tables, none where nothing of any GPU was measured."""
    gpus = [part for part in report.parts if part.kind == "gpu"]
    values = {(row.address, row.name): row.value for row in report.measurements if row.test is None}
    columns = [
        Column(group, head, tuple(_cell(gpu.address, facts, values) for gpu in gpus))
        for group, head, facts in COLUMNS
    ]
    known = [column for column in columns if any(cell != NONE for cell in column.cells)]
    if not known:
        return []
    names = [printable(gpu.slot) for gpu in gpus]
    return [*tables(names, known)[1:], Line("")]


def _cell(address: str, facts: Sequence[str], values: Mapping[tuple[str, str], float]) -> Cell:
    found = [values.get((address, fact)) for fact in facts]
    if all(value is None for value in found):
        return NONE
    return Cell("/".join("-" if value is None else f"{value:.0f}" for value in found))
