"""The exchangeable parts of a node as a comparison sees them: where each sits, what tells it from
others, what it should share.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuscan.model import Gpu, Node, Port, Unread, is_unread
from gpuscan.model.identity import real, serial_of

COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
Values = Mapping[str, Any]
NO_VALUES: Values = MappingProxyType({})


class Part(NamedTuple):
    """One part. *places* tell where it sits, the surest first and "" where that was not read; *ids*
    hold what no two share.

    *lack* says why there are no ids. *names* are what people may call it, *record* the facts,
    *group* whom it is like; the rest is as in `Change`, by label.
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


def listed(node: Node, name_of: Callable[[str], str]) -> list[Part]:
    """Return every part of a node; *name_of* gives a slot's name on the board (silkscreen), or an
    empty text.
    """
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


def _plain(value: Any) -> str:
    """Return a fact as text, an empty one where it was not read."""
    return "" if is_unread(value) else str(value)


def _ids(**facts: Any) -> dict[str, str]:
    return {name: value for name, fact in facts.items() if (value := real(fact))}


def _names(*facts: Any) -> frozenset[str]:
    return frozenset(_plain(fact).lower() for fact in facts) - {""}


def _lack(*facts: Any) -> Any:
    """Return why nothing tells the part from others: the first fact that was not read, or that
    what was read says nothing.
    """
    lacks = [fact for fact in facts if is_unread(fact)]
    return lacks[0] if lacks else Unread("", "not-found", "what was read is a placeholder")


def _of(record: Any, fact: str) -> Any:
    """Return a fact by its dotted name, or the Unread that stands in its way."""
    for name in fact.split("."):
        record = record if is_unread(record) else getattr(record, name)
    return record


def _switch(value: Any) -> Any:
    return value if is_unread(value) else "on" if value else "off"


def _gpu(gpu: Gpu, name_of: Callable[[str], str]) -> Part:
    label = "" if gpu.label == gpu.address else gpu.label
    serial, _ = serial_of(gpu)
    uuid = gpu.logged_uuid if is_unread(gpu.uuid) else gpu.uuid
    mode, limit = gpu.compute_mode, _of(gpu, "power.limit_w")
    return Part(
        kind="gpu",
        label=gpu.label,
        address=gpu.address,
        places=(label, _plain(gpu.physical_slot), _plain(gpu.root_port), gpu.address),
        ids=_ids(serial=serial, UUID=uuid),
        lack=_lack(gpu.serial, gpu.uuid),
        names=_names(serial or "", uuid, gpu.physical_slot, gpu.nvml_index, name_of(gpu.label)),
        record=gpu,
        group="gpu",
        versions={"VBIOS": gpu.vbios, "InfoROM": gpu.inforom, "GSP firmware": gpu.gsp_firmware},
        marks={"part number": gpu.part_number},
        settings={
            "ECC": _switch(_of(gpu, "ecc_mode.current")),
            "MIG": _switch(_of(gpu, "mig_mode.current")),
            "persistence mode": _switch(gpu.persistence),
            "the compute mode": mode if is_unread(mode) else COMPUTE_MODES.get(mode, str(mode)),
            "the power limit": limit if is_unread(limit) else f"{limit:g} W",
        },
        wear={
            "uncorrectable ECC errors": _of(gpu, "ecc_errors.uncorrected_aggregate"),
            "uncorrectable SRAM errors": _of(gpu, "sram.uncorrectable_aggregate"),
            "rows remapped for uncorrectable errors": _of(gpu, "remapped_rows.uncorrectable"),
            "pages retired for single-bit errors": _of(gpu, "retired_pages.single_bit"),
            "pages retired for double-bit errors": _of(gpu, "retired_pages.double_bit"),
            "rows remapped for correctable errors": _of(gpu, "remapped_rows.correctable"),
        },
    )


def _adapter(port: Port) -> Part:
    return Part(
        kind="nic",
        label=port.hca,
        address=port.address,
        places=(port.address, port.hca),
        ids=_ids(serial=port.hca_serial, GUID=port.node_guid),
        lack=_lack(port.hca_serial, port.node_guid),
        names=_names(port.hca_serial, port.node_guid, port.netdev),
        record=port,
        group=f"nic {_plain(port.board_id)}",
        versions={"firmware": port.firmware},
        marks={"PSID": port.board_id, "part number": port.hca_part_number},
    )


def _cable(port: Port) -> Part:
    settings = {
        "the link layer": port.link_layer,
        "the MTU": port.mtu if is_unread(port.mtu) else str(port.mtu),
    }
    return Part(
        kind="cable",
        label=port.label,
        address=port.address,
        places=(port.label, port.address),
        ids={} if is_unread(port.far_end) else {"far end": port.far_end},
        lack=port.far_end,
        names=_names(port.hca) if port.number == 1 else frozenset(),
        record=port,
        settings=settings,
        rate={"rate": port.rate_gbps},
    )


def _disk(disk: Any) -> Part:
    return Part(
        kind="disk",
        label=disk.label,
        address=_plain(disk.address) or disk.label,
        places=(_plain(disk.address), disk.label),
        ids=_ids(serial=disk.serial),
        lack=_lack(disk.serial),
        names=_names(disk.serial),
        record=disk,
        group=f"disk {_plain(disk.model)}",
        versions={"firmware": disk.firmware},
        marks={"model": disk.model},
    )


Pair = tuple[Part | None, Part | None]


def paired(befores: Sequence[Part], afters: Sequence[Part]) -> list[Pair]:
    """Pair the parts of one kind that sit in one place before and after: by the surest place that
    both name.

    A place that two parts name (GPUs below one root port) pairs none of them.
    """
    left, found = list(afters), {}
    for level in range(max((len(part.places) for part in befores), default=0)):
        open_ = [part for part in befores if part.label not in found]
        for part in open_:
            place = part.places[level]
            here = [other for other in left if other.places[level] == place]
            alone = sum(other.places[level] == place for other in open_) == 1
            if place and alone and len(here) == 1:
                found[part.label] = here[0]
                left.remove(here[0])
    return [(part, found.get(part.label)) for part in befores] + [(None, part) for part in left]


def alike(first: Part, second: Part) -> bool | None:
    """Tell whether two are one part by the first id that both have; None where they have none in
    common.
    """
    shared = [name for name in first.ids if name in second.ids]
    return first.ids[shared[0]].lower() == second.ids[shared[0]].lower() if shared else None


def said(part: Part | None) -> Any:
    """Return what tells a part from others in words: `serial 1654000000107`; Unread where nothing
    does.
    """
    if part is None:
        return "nothing"
    return next((f"{name} {value}" for name, value in part.ids.items()), part.lack)
