"""What was measured on the parts, judged or not: numbers with their unit, for trends over many
reports.
"""

from collections.abc import Iterator
from typing import Any

from gpuscan.model import BurnTest, Node, is_unread, read_or
from gpuscan.model.report_rows import Measurement

GPU = (
    ("temperature.core_c", "C"),
    ("temperature.memory_c", "C"),
    ("temperature.slowdown_c", "C"),
    ("temperature.memory_max_c", "C"),
    ("power.usage_w", "W"),
    ("power.limit_w", "W"),
    ("performance_state", "P-state"),
    ("sm_clock_mhz", "MHz"),
    ("memory_clock_mhz", "MHz"),
    ("memory_used_mib", "MiB"),
    ("memory_mib", "MiB"),
    ("busy_percent", "%"),
    ("pcie.generation", "generation"),
    ("pcie.width", "lanes"),
    ("pcie.replays.total", "replays"),
    ("ecc_errors.corrected_aggregate", "errors"),
    ("ecc_errors.uncorrected_aggregate", "errors"),
    ("retired_pages.double_bit", "pages"),
    ("remapped_rows.correctable", "rows"),
    ("remapped_rows.uncorrectable", "rows"),
    ("nvlinks", "links"),
)
PORT = (("rate_gbps", "Gb/s"), ("link_downed.total", "times"), ("symbol_errors.total", "errors"))
LOAD = {
    "core_c": "C",
    "memory_c": "C",
    "power_w": "W",
    "most_power_w": "W",
    "sm_clock_mhz": "MHz",
    "hw_slowdown": "share",
    "hw_thermal": "share",
    "sw_thermal": "share",
    "power_brake": "share",
    "power_cap": "share",
    "pcie_generation": "generation",
    "pcie_width": "lanes",
    "sm_active": "share",
    "tensor_active": "share",
    "dram_active": "share",
}
UNITS = {
    "tflops": "TFLOP/s",
    "gbps": "GB/s",
    "us": "us",
    "ms": "ms",
    "s": "s",
    "c": "C",
    "w": "W",
    "mhz": "MHz",
    "percent": "%",
}
BURNIN = "burnin."
AGAIN = ".again"


def measurements_of(node: Node) -> tuple[Measurement, ...]:
    """Return the numbers that were read; what was not read is left out here and listed among the
    blind spots.
    """
    kinds = (("gpu", node.gpus, GPU), ("port", node.ports, PORT))
    rows = [
        row
        for kind, records, facts in kinds
        if not is_unread(records)
        for row in _rows(kind, records, facts)
    ]
    tests = read_or(node.tests, ())
    return (*rows, *(row for test in tests for row in _burnt(test)))


def _rows(
    kind: str, records: tuple[Any, ...], facts: tuple[tuple[str, str], ...]
) -> Iterator[Measurement]:
    for record in records:
        for fact, unit in facts:
            value = record
            for name in fact.split("."):
                value = value if is_unread(value) else getattr(value, name)
            for name, number in _numbers_of(fact, value):
                subject = f"{kind}:{record.label}"
                yield Measurement(name, number, unit, subject, record.address)


def _numbers_of(fact: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield a fact's number under its name; of NVLinks how many there are and how many are up."""
    if is_unread(value):
        return
    if fact != "nvlinks":
        yield fact, value
        return
    yield "nvlinks.count", len(value)
    if not any(is_unread(link.active) for link in value):
        yield "nvlinks.up", sum(link.active for link in value)


def _burnt(test: BurnTest) -> Iterator[Measurement]:
    """Yield what one test of the burn-in measured; its label, its GPU and the other GPU are
    always known.
    """
    for name, value, unit in _numbers(test):
        if not is_unread(value):
            yield Measurement(
                name=f"{BURNIN}{name}",
                value=value,
                unit=unit,
                subject=f"test:{test.label}",
                address=test.address,
                test=f"{test.name} {test.part}".rstrip(),
                card=test.gpu,
                to=test.to or None,
            )


def _numbers(test: BurnTest) -> Iterator[tuple[str, Any, str]]:
    yield "seconds", test.seconds, "s"
    what = "operations" if is_unread(test.what) else test.what or "operations"
    yield "operations", test.operations, what
    yield "mismatches", test.mismatches, what if test.kind == "tool" else "words"
    for rate in read_or(test.rates, ()):
        yield rate.label, rate.value, unit_of(rate.label)
        yield from ((f"{rate.label}{AGAIN}", again, unit_of(rate.label)) for again in rate.again)
    if not is_unread(test.load):
        for name, unit in LOAD.items():
            yield name, getattr(test.load, name), unit


def unit_of(label: str) -> str:
    """Return the unit that a rate's label ends in; InfiniBand's are in gigabits, and a collective's
    bare label means GB/s.

    >>> unit_of("gemm_bf16_tflops"), unit_of("ib_write_gbps")
    ('TFLOP/s', 'Gb/s')
    """
    if label.startswith("ib_") and label.endswith("gbps"):
        return "Gb/s"
    return UNITS.get(label.rpartition("_")[2], "GB/s")
