"""`gpuscan info`: what is in the node, as text, JSON or CSV."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuscan import collectors
from gpuscan.errors import UsageError, near_misses
from gpuscan.model import Node, Unread, is_unread, read_or
from gpuscan.recording import Recording
from gpuscan.table import align
from gpuscan.text import printable

FORMATS = ("text", "json", "csv")
GPU_COLUMNS = (
    "slot",
    "address",
    "name",
    "serial",
    "part_number",
    "uuid",
    "vbios",
    "memory_mib",
    "nvlinks_up",
    "access",
)
PORT_COLUMNS = ("slot", "address", "state", "phys_state", "rate_gbps", "firmware", "board_id")
NIC_COLUMNS = (
    "slot", "address", "hca_type", "serial", "part_number", "psid", "firmware", "link_layer", "netdev", "mtu", "node_guid",
    "far_end",
)  # fmt: skip
NIC_FACTS = {
    "slot": "hca",
    "serial": "hca_serial",
    "part_number": "hca_part_number",
    "psid": "board_id",
}  # as the port has them
DISK_COLUMNS = ("slot", "address", "model", "serial", "firmware")


class Parts(NamedTuple):
    """One kind of part: its name in each format, the fact that lists it, its columns and rows."""

    kind: str
    listed: Any
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]


def render(recording: Recording, format_: str, width: int = 0) -> str:
    """Return the inventory as text, its tables no wider than *width* (0: as wide as they are).

    Raises UsageError for an unknown format.
    """
    if format_ not in FORMATS:
        raise UsageError(
            f"unknown format '{format_}': {near_misses(format_, list(FORMATS), 'formats')}"
        )
    node = collectors.node(recording)
    parts = (
        Parts("gpu", node.gpus, GPU_COLUMNS, _gpus(node)),
        Parts("port", node.ports, PORT_COLUMNS, _ports(node)),
        Parts("nic", node.ports, NIC_COLUMNS, _nics(node)),
        Parts("disk", node.disks, DISK_COLUMNS, _disks(node)),
    )
    if format_ == "json":
        # a list that could not be read is null: no GPUs and no answer are not the same
        lists = {f"{one.kind}s": None if is_unread(one.listed) else one.rows for one in parts}
        return (
            json.dumps(
                {"host": _record(node.host), "driver": _record(node.driver), **lists}, indent=1
            )
            + "\n"
        )
    if format_ == "csv":
        return _csv(parts)
    tables = [_table(one.rows, one.columns, width) for one in parts]
    return "\n".join([*_head(node), *(_joined(tables) or [""])]) + "\n"


def _gpus(node: Node) -> list[dict[str, Any]]:
    rows = []
    for gpu in () if is_unread(node.gpus) else node.gpus:
        links: Any = gpu.nvlinks
        up = (
            None
            if is_unread(links)
            else sum(1 for link in links if not is_unread(link.active) and link.active)
        )
        facts = {"slot": gpu.label, "nvlinks_up": up}
        rows.append(
            {
                column: facts.get(column, _shown(getattr(gpu, column, None)))
                for column in GPU_COLUMNS
            }
            | facts
        )
    return rows


def _ports(node: Node) -> list[dict[str, Any]]:
    rows = []
    for port in () if is_unread(node.ports) else node.ports:
        rows.append(
            {"slot": port.label}
            | {column: _shown(getattr(port, column)) for column in PORT_COLUMNS[1:]}
        )
    return rows


def _nics(node: Node) -> list[dict[str, Any]]:
    """Return the network adapters: a port tells what its adapter is."""
    ports = (*read_or(node.ports, ()), *read_or(node.ethernet_ports, ()))
    first = {port.hca: port for port in sorted(ports, key=lambda port: port.label, reverse=True)}
    return [
        {c: _shown(getattr(first[hca], NIC_FACTS.get(c, c))) for c in NIC_COLUMNS}
        for hca in sorted(first)
    ]


def _disks(node: Node) -> list[dict[str, Any]]:
    disks = () if is_unread(node.disks) else node.disks
    return [
        {"slot": disk.label}
        | {column: _shown(getattr(disk, column)) for column in DISK_COLUMNS[1:]}
        for disk in disks
    ]


def _record(record: Any) -> dict[str, Any]:
    return {name: _shown(value) for name, value in zip(record._fields, record, strict=True)}


def _shown(value: Any) -> Any:
    """A fact that was not read is null; `gpuscan doctor` shows why."""
    return None if is_unread(value) else value


def _head(node: Node) -> list[str]:
    host, driver = node.host, node.driver
    machine = " ".join(str(one) for one in (host.vendor, host.product) if not is_unread(one))
    told = [_word(host.hostname), *([printable(machine)] if machine else [])]
    serial = [] if is_unread(host.serial) else [f"serial {_word(host.serial)}"]
    return [
        f"host    {', '.join([*told, *serial])}",
        f"system  {_word(host.os)}, kernel {_word(host.kernel)}",
        f"driver  {_driver(driver)}",
    ]


def _driver(driver: Any) -> str:
    """Return versions and flavour, or once that there are none."""
    if is_unread(driver.module_version) and is_unread(driver.cuda_version):
        return _word(driver.module_version).strip("()")
    flavour = "" if is_unread(driver.flavour) else f" ({_word(driver.flavour)})"
    return f"{_word(driver.module_version)}{flavour}, CUDA {_word(driver.cuda_version)}"


def _word(value: object) -> str:
    if is_unread(value):
        unread: Unread = value
        return f"({unread.kind.replace('-', ' ')})"
    return "-" if value is None else printable(str(value))


def _joined(tables: list[list[str]]) -> list[str]:
    """Join tables, with an empty line before each."""
    return [line for table in tables if table for line in ("", *table)]


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...], width: int) -> list[str]:
    """Return a table's lines. One that is too wide continues below with its first column repeated;
    an empty far_end column is left out.
    """
    if not rows:
        return []
    kept = [
        column
        for column in columns
        if column != "far_end" or any(row[column] is not None for row in rows)
    ]
    cells = {column: [column, *(_word(row[column]) for row in rows)] for column in kept}
    widths = {column: max(map(len, cells[column])) for column in kept}
    first, *others = kept
    blocks = [[first]]
    for column in others:
        taken = sum(widths[name] + 2 for name in (*blocks[-1], column)) - 2
        if width and taken > width and len(blocks[-1]) > 1:
            blocks.append([first])
        blocks[-1].append(column)
    return _joined([_lines([cells[column] for column in block]) for block in blocks])[1:]


def _lines(columns: list[list[str]]) -> list[str]:
    return align(list(zip(*columns, strict=True)))


def _csv(parts: Sequence[Parts]) -> str:
    out = io.StringIO()
    columns = ["kind", *dict.fromkeys(column for one in parts for column in one.columns)]
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for one in parts:
        writer.writerows({"kind": one.kind, **row} for row in one.rows)
    return out.getvalue()
