"""What may have to be pulled: GPUs, ports and disks as a report lists them, with what identifies
each.
"""

from typing import Any

from gpuscan.model import Node, is_unread, read_or
from gpuscan.model.identity import real, serial_of

PART_FACTS = (
    "device_id", "physical_slot", "module_id", "access", "nvml_index", "name", "uuid", "serial", "part_number",
    "vbios", "inforom", "gsp_firmware", "memory_mib",
)  # fmt: skip

DISK_FACTS = ("address", "serial", "model", "firmware")
PORT_FACTS = ("firmware", "board_id", "hca_type", "hca_serial", "hca_part_number", "node_guid")


def plain(record: Any) -> Any:
    """Return a record as JSON data: an Unread is null."""
    if is_unread(record):
        return None
    if hasattr(record, "_fields"):
        return {name: plain(value) for name, value in zip(record._fields, record, strict=True)}
    return [plain(item) for item in record] if type(record) is tuple else record


def parts_of(node: Node) -> tuple[dict[str, Any], ...]:
    """Return the parts. A silent GPU's serial is the one that its failure's log names, else the
    one seen there last.
    """
    parts = [_gpu(gpu, node) for gpu in _listed(node.gpus)]
    for port in _listed(node.ports):
        facts = {fact: plain(getattr(port, fact)) for fact in PORT_FACTS}
        parts.append(
            {"kind": "port", "slot": port.label, "address": port.address, "hca": port.hca, **facts}
        )
    for disk in _listed(node.disks):
        facts = {fact: plain(getattr(disk, fact)) for fact in DISK_FACTS}
        parts.append({"kind": "disk", "slot": disk.label, **facts})
    return tuple(parts)


def _listed(records: Any) -> tuple[Any, ...]:
    return read_or(records, ())


def _gpu(gpu: Any, node: Node) -> dict[str, Any]:
    part = {
        "kind": "gpu",
        "slot": gpu.label,
        "address": gpu.address,
        **{f: plain(getattr(gpu, f)) for f in PART_FACTS},
    }
    if real(part["serial"]):
        return part
    serial, source = serial_of(gpu)
    before = (
        None
        if is_unread(node.past)
        else next((seen for seen in reversed(node.past.parts) if _was_there(seen, gpu)), None)
    )
    if before and not serial:
        serial, source = before.serial, "history"
        part["part_number"] = part["part_number"] or before.part_number or None
    if before and before.slot != gpu.label:
        part["usual_slot"] = before.slot
    return {**part, "serial": serial, "serial_source": source} if source else part


def _was_there(seen: Any, gpu: Any) -> bool:
    return bool(seen.kind == "gpu" and seen.address == gpu.address)


def incidents_of(node: Node) -> tuple[dict[str, Any], ...]:
    """Return what the log tells, each fault with its echoes: what was read of it, before any
    judgement.
    """
    return tuple(plain(incident) for incident in _listed(node.incidents))
