"""The replaceable parts of a node, as a comparison sees them: location, identity, properties."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.model import Gpu, Node, Port, Unread, is_unread
from gpuscan.model.identity import real, serial_of

COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
Values = Mapping[str, Any]
NO_VALUES: Values = MappingProxyType({})


class SwapPart(NamedTuple):
    """One replaceable part.

    *places* say where it sits, the most reliable first, "" where that was not read. *ids* hold what
    no two parts share (serial, UUID, GUID); *lack* is the Unread that explains why there are none.
    *names* are what people may call it, in lower case; *record* holds its facts; parts of one
    *group* should carry the same firmware. The other mappings are by label, as in `Change`.
    *told_by* says who told the serial where the part did not.
    """

    kind: str
    label: str
    address: str
    places: tuple[str, ...]
    ids: dict[str, str]
    lack: Any
    names: frozenset[str]
    record: Any
    group: str = ""
    versions: Values = NO_VALUES
    marks: Values = NO_VALUES
    settings: Values = NO_VALUES
    wear: Values = NO_VALUES
    rate: Values = NO_VALUES
    told_by: str = ""


def list_parts(node: Node, name_of: Callable[[str], str]) -> list[SwapPart]:
    """Return every part of a node; *name_of* maps a slot to its silkscreen, or to ""."""
    parts = [_gpu(gpu, name_of) for gpu in _known(node.gpus)]
    ports = sorted(
        (*_known(node.ports), *_known(node.ethernet_ports)),
        key=lambda port: (port.hca, port.number),
    )
    adapters = {port.hca: port for port in reversed(ports)}
    parts += [_adapter(port) for _, port in sorted(adapters.items())]
    parts += [_cable(port) for port in ports]
    parts += [_disk(disk) for disk in _known(node.disks)]
    return parts


def _known(records: Any) -> tuple[Any, ...]:
    return () if is_unread(records) else tuple(records)


def _text(value: Any) -> str:
    """Return a fact as text, "" where it was not read."""
    return "" if is_unread(value) else str(value)


def _ids(**facts: Any) -> dict[str, str]:
    return {name: value for name, fact in facts.items() if (value := real(fact))}


def _names(*facts: Any) -> frozenset[str]:
    return frozenset(_text(fact).lower() for fact in facts) - {""}


def _lack(*facts: Any) -> Any:
    """Return why the part has no identity: the first unread fact, or that all were placeholders."""
    unread = [fact for fact in facts if is_unread(fact)]
    return unread[0] if unread else Unread("", "not-found", "only a placeholder was read")


def _fact(record: Any, fact: str) -> Any:
    """Return a fact by its dotted name, or the Unread on the way to it."""
    for name in fact.split("."):
        record = record if is_unread(record) else getattr(record, name)
    return record


def _on_off(value: Any) -> Any:
    if is_unread(value):
        return value
    return "on" if value else "off"


def _gpu(gpu: Gpu, name_of: Callable[[str], str]) -> SwapPart:
    label = "" if gpu.label == gpu.address else gpu.label
    serial, source = serial_of(gpu)
    uuid = gpu.logged_uuid if is_unread(gpu.uuid) else gpu.uuid
    mode, limit = gpu.compute_mode, _fact(gpu, "power.limit_w")
    return SwapPart(
        kind="gpu",
        label=gpu.label,
        address=gpu.address,
        places=(label, _text(gpu.physical_slot), _text(gpu.root_port), gpu.address),
        ids=_ids(serial=serial, UUID=uuid),
        lack=_lack(gpu.serial, gpu.uuid),
        names=_names(serial or "", uuid, gpu.physical_slot, gpu.nvml_index, name_of(gpu.label)),
        record=gpu._replace(serial=serial) if serial and source else gpu,
        group="gpu",
        told_by=f"the {source}" if source else "",
        versions={"VBIOS": gpu.vbios, "InfoROM": gpu.inforom, "GSP firmware": gpu.gsp_firmware},
        marks={"part number": gpu.part_number},
        settings={
            "ECC": _on_off(_fact(gpu, "ecc_mode.current")),
            "MIG": _on_off(_fact(gpu, "mig_mode.current")),
            "persistence mode": _on_off(gpu.persistence),
            "the compute mode": mode if is_unread(mode) else COMPUTE_MODES.get(mode, str(mode)),
            "the power limit": limit if is_unread(limit) else f"{limit:g} W",
        },
        wear={
            "uncorrectable ECC errors": _fact(gpu, "ecc_errors.uncorrected_aggregate"),
            "uncorrectable SRAM errors": _fact(gpu, "sram.uncorrectable_aggregate"),
            "rows remapped for uncorrectable errors": _fact(gpu, "remapped_rows.uncorrectable"),
            "pages retired for single-bit errors": _fact(gpu, "retired_pages.single_bit"),
            "pages retired for double-bit errors": _fact(gpu, "retired_pages.double_bit"),
            "rows remapped for correctable errors": _fact(gpu, "remapped_rows.correctable"),
        },
    )


def _adapter(port: Port) -> SwapPart:
    return SwapPart(
        kind="nic",
        label=port.hca,
        address=port.address,
        places=(port.address, port.hca),
        ids=_ids(serial=port.hca_serial, GUID=port.node_guid),
        lack=_lack(port.hca_serial, port.node_guid),
        names=_names(port.hca_serial, port.node_guid, port.netdev),
        record=port,
        group=f"nic {_text(port.board_id)}",
        versions={"firmware": port.firmware},
        marks={"PSID": port.board_id, "part number": port.hca_part_number},
    )


def _cable(port: Port) -> SwapPart:
    settings = {
        "the link layer": port.link_layer,
        "the MTU": port.mtu if is_unread(port.mtu) else str(port.mtu),
    }
    return SwapPart(
        kind="cable",
        label=port.label,
        address=port.address,
        places=(f"{port.address}/{port.number}", port.label),
        ids={} if is_unread(port.far_end) else {"far end": port.far_end},
        lack=port.far_end,
        names=_names(port.hca) if port.number == 1 else frozenset(),
        record=port,
        settings=settings,
        rate={"rate": port.rate_gbps},
    )


def _disk(disk: Any) -> SwapPart:
    return SwapPart(
        kind="disk",
        label=disk.label,
        address=_text(disk.address) or disk.label,
        places=(_text(disk.address), disk.label),
        ids=_ids(serial=disk.serial),
        lack=_lack(disk.serial),
        names=_names(disk.serial),
        record=disk,
        group=f"disk {_text(disk.model)}",
        versions={"firmware": disk.firmware},
        marks={"model": disk.model},
    )


Pair = tuple[SwapPart | None, SwapPart | None]


def pair_parts(befores: Sequence[SwapPart], afters: Sequence[SwapPart]) -> list[Pair]:
    """Pair the parts of one kind that sit in the same place before and after.

    The most reliable place that both know decides. A place that two parts share (GPUs below one
    root port) pairs neither.
    """
    unpaired = list(afters)
    partners: dict[str, SwapPart] = {}
    levels = max((len(part.places) for part in befores), default=0)
    for level in range(levels):
        waiting = [part for part in befores if part.label not in partners]
        for part in waiting:
            partner = _partner(part, level, waiting, unpaired)
            if partner is not None:
                partners[part.label] = partner
                unpaired.remove(partner)
    pairs: list[Pair] = [(part, partners.get(part.label)) for part in befores]
    return pairs + [(None, part) for part in unpaired]


def _partner(
    part: SwapPart, level: int, waiting: Sequence[SwapPart], unpaired: Sequence[SwapPart]
) -> SwapPart | None:
    place = part.places[level]
    candidates = [other for other in unpaired if other.places[level] == place]
    rivals = sum(other.places[level] == place for other in waiting)
    return candidates[0] if place and rivals == 1 and len(candidates) == 1 else None


def is_same_part(first: SwapPart, second: SwapPart) -> bool | None:
    """Compare two parts by the first id that both have; None where they share no kind of id."""
    shared = [name for name in first.ids if name in second.ids]
    if not shared:
        return None
    return first.ids[shared[0]].lower() == second.ids[shared[0]].lower()


def describe_identity(part: SwapPart | None) -> Any:
    """Return `serial 1654000000107`, "nothing" for an empty slot, or Unread without an identity."""
    if part is None:
        return "nothing"
    return next((f"{name} {value}" for name, value in part.ids.items()), part.lack)
