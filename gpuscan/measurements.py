"""What was measured on the parts, judged or not: numbers with their unit, for trends over many reports."""

from collections.abc import Iterator
from typing import Any

from gpuscan.facts import Node, is_unread

GPU = (
    ("temperature.core_c", "C"),
    ("temperature.memory_c", "C"),
    ("power.usage_w", "W"),
    ("power.limit_w", "W"),
    ("performance_state", "P-state"),
    ("pcie.generation", "generation"),
    ("pcie.width", "lanes"),
    ("pcie.replays.total", "replays"),
    ("ecc_errors.corrected_aggregate", "errors"),
    ("ecc_errors.uncorrected_aggregate", "errors"),
    ("remapped_rows.correctable", "rows"),
    ("remapped_rows.uncorrectable", "rows"),
)
PORT = (("rate_gbps", "Gb/s"), ("link_downed.total", "times"), ("symbol_errors.total", "errors"))


def measured(node: Node) -> tuple[dict[str, Any], ...]:
    """Return name, value, unit and subject of each; what was not read is left out here and told among the blind spots."""
    kinds = (("gpu", node.gpus, GPU), ("port", node.ports, PORT))
    return tuple(row for kind, records, facts in kinds if not is_unread(records) for row in _rows(kind, records, facts))


def _rows(kind: str, records: tuple[Any, ...], facts: tuple[tuple[str, str], ...]) -> Iterator[dict[str, Any]]:
    for record in records:
        for fact, unit in facts:
            value = record
            for name in fact.split("."):
                value = value if is_unread(value) else getattr(value, name)
            if not is_unread(value):
                yield {"name": fact, "value": value, "unit": unit, "subject": f"{kind}:{record.label}", "address": record.address}
