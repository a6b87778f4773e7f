"""What may have to be pulled: GPUs, ports and disks as a report lists them, with what identifies
each.
"""

from typing import Any

from gpuscan.model import Node, is_unread, read_or
from gpuscan.model.identity import real, serial_of
from gpuscan.model.report_rows import ReportedDisk, ReportedGpu, ReportedPort, ReportPart

# in the order of the fields of ReportedGpu
PART_FACTS = (
    "device_id", "physical_slot", "module_id", "access", "nvml_index", "name", "uuid", "serial", "part_number",
    "vbios", "inforom", "gsp_firmware", "memory_mib",
)  # fmt: skip

# in the order of the fields of ReportedDisk and ReportedPort
DISK_FACTS = ("address", "serial", "model", "firmware")
PORT_FACTS = ("firmware", "board_id", "hca_type", "hca_serial", "hca_part_number", "node_guid")


def plain(record: Any) -> Any:
    """Return a record as JSON data: an Unread is null."""
    if is_unread(record):
        return None
    if hasattr(record, "_fields"):
        return {name: plain(value) for name, value in zip(record._fields, record, strict=True)}
    return [plain(item) for item in record] if type(record) is tuple else record


def parts_of(node: Node) -> tuple[ReportPart, ...]:
    """Return the parts. A silent GPU's serial is the one that its failure's log names, else the
    one seen there last.
    """
    ports = [
        ReportedPort(
            "port",
            port.label,
            port.address,
            port.hca,
            *(plain(getattr(port, f)) for f in PORT_FACTS),
        )
        for port in _listed(node.ports)
    ]
    disks = [
        ReportedDisk("disk", disk.label, *(plain(getattr(disk, fact)) for fact in DISK_FACTS))
        for disk in _listed(node.disks)
    ]
    return (*(_gpu(gpu, node) for gpu in _listed(node.gpus)), *ports, *disks)


def _listed(records: Any) -> tuple[Any, ...]:
    return read_or(records, ())


def _gpu(gpu: Any, node: Node) -> ReportedGpu:
    facts = (plain(getattr(gpu, fact)) for fact in PART_FACTS)
    part = ReportedGpu("gpu", gpu.label, gpu.address, *facts)
    if real(part.serial):
        return part
    serial, source = serial_of(gpu)
    before = (
        None
        if is_unread(node.past)
        else next((seen for seen in reversed(node.past.parts) if _was_there(seen, gpu)), None)
    )
    if before and not serial:
        serial, source = before.serial, "history"
        part = part._replace(part_number=part.part_number or before.part_number or None)
    if before and before.slot != gpu.label:
        part = part._replace(usual_slot=before.slot)
    return part._replace(serial=serial, serial_source=source) if source else part


def _was_there(seen: Any, gpu: Any) -> bool:
    return bool(seen.kind == "gpu" and seen.address == gpu.address)
