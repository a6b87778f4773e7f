"""`gpuscan info`: what is in the node, for people, JSON or CSV; no judgement."""

import csv
import io
import json
from typing import Any

from gpuscan import collectors
from gpuscan.errors import UsageError, near_misses
from gpuscan.facts import Node, Unread, is_unread
from gpuscan.recording import Recording
from gpuscan.renderers.text import harmless

FORMATS = ("text", "json", "csv")
GPU_COLUMNS = ("slot", "address", "name", "serial", "part_number", "uuid", "vbios", "memory_mib", "nvlinks_up", "access")
PORT_COLUMNS = ("slot", "address", "state", "phys_state", "rate_gbps", "firmware", "board_id")


def render(recording: Recording, format_: str) -> str:
    """Return the inventory as text; raises UsageError for an unknown format."""
    if format_ not in FORMATS:
        raise UsageError(f"unknown format '{format_}': {near_misses(format_, list(FORMATS), 'formats')}")
    node = collectors.node(recording)
    gpus, ports = _gpus(node), _ports(node)
    if format_ == "json":
        host, driver = _record(node.host), _record(node.driver)
        parts = {"gpus": _unless_unread(node.gpus, gpus), "ports": _unless_unread(node.ports, ports)}
        return json.dumps({"host": host, "driver": driver, **parts}, indent=1) + "\n"
    if format_ == "csv":
        return _csv(gpus, ports)
    return "\n".join([*_head(node), "", *_table(gpus, GPU_COLUMNS), *([""] if ports else []), *_table(ports, PORT_COLUMNS)]) + "\n"


def _unless_unread(fact: object, rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """A list that could not be read is null: no cards and no answer are not the same."""
    return None if is_unread(fact) else rows


def _gpus(node: Node) -> list[dict[str, Any]]:
    rows = []
    for gpu in () if is_unread(node.gpus) else node.gpus:
        links: Any = gpu.nvlinks
        up = None if is_unread(links) else sum(1 for link in links if not is_unread(link.active) and link.active)
        facts = {"slot": gpu.label, "nvlinks_up": up}
        rows.append({column: facts.get(column, _shown(getattr(gpu, column, None))) for column in GPU_COLUMNS} | facts)
    return rows


def _ports(node: Node) -> list[dict[str, Any]]:
    rows = []
    for port in () if is_unread(node.ports) else node.ports:
        rows.append({"slot": port.label} | {column: _shown(getattr(port, column)) for column in PORT_COLUMNS[1:]})
    return rows


def _record(record: Any) -> dict[str, Any]:
    return {name: _shown(value) for name, value in zip(record._fields, record, strict=True)}


def _shown(value: Any) -> Any:
    """A fact that was not read is null, and its kind is told by `gpuscan doctor`."""
    return None if is_unread(value) else value


def _head(node: Node) -> list[str]:
    host, driver = node.host, node.driver
    return [
        f"host    {_word(host.hostname)}, {_word(host.vendor)} {_word(host.product)}, serial {_word(host.serial)}",
        f"system  {_word(host.os)}, kernel {_word(host.kernel)}",
        f"driver  {_word(driver.module_version)} ({_word(driver.flavour)}), CUDA {_word(driver.cuda_version)}",
    ]


def _word(value: object) -> str:
    if is_unread(value):
        unread: Unread = value
        return f"({unread.kind.replace('-', ' ')})"
    return "-" if value is None else harmless(str(value))


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[str]:
    if not rows:
        return []
    cells = [list(columns)] + [[_word(row[column]) for column in columns] for row in rows]
    widths = [max(len(line[n]) for line in cells) for n in range(len(columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _csv(gpus: list[dict[str, Any]], ports: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    columns = ["kind", *dict.fromkeys((*GPU_COLUMNS, *PORT_COLUMNS))]
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({"kind": "gpu", **row} for row in gpus)
    writer.writerows({"kind": "port", **row} for row in ports)
    return out.getvalue()
