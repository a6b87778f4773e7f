"""Why InfiniBand ports are missing: a link type, a driver, or an HCA that is not there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuscan.engine.lens import ProfileLens, read
from gpuscan.engine.rails import find_rails, is_named, kinds
from gpuscan.model.outcome import Action

if TYPE_CHECKING:
    from gpuscan.views import Adapter, Node, Port

DRIVER = "mlx5_core"


class Missing(NamedTuple):
    """What to say of missing ports, what mends it, and which ports or HCAs they are."""

    text: str
    action: Action
    culprits: tuple[str, ...]


class Absent(NamedTuple):
    """A port or HCA that is gone: what to call it, its address where another has its name now;
    and what earlier runs knew of it.
    """

    label: str
    text: str


def explain_missing(node: "Node", expects: ProfileLens, number: int) -> Missing:
    """Return why *number* expected ports are missing: settings and drivers first, then hardware."""
    converted = _converted(node, expects, number)
    silent = _without_ports(node, expects)
    unbound = [adapter.label for adapter, driver in silent if driver != DRIVER]
    bound = [adapter.label for adapter, driver in silent if driver == DRIVER]
    reasons = []
    if converted:
        reasons.append(f"{_list(converted)} set to Ethernet (mlxconfig LINK_TYPE)")
    if unbound:
        reasons.append(f"{_list(unbound)} on PCI without the driver {DRIVER}")
    if bound:
        reasons.append(f"{_list(bound)} on PCI, but without a port (is mlx5_ib loaded?)")
    left = number - len(converted) - len(silent)
    gone = _gone(node, expects, converted) if left > 0 else []
    if gone:
        reasons.append(f"{_list([one.text for one in gone])} absent: reseat the HCA")
    if not reasons:
        reasons.append("is the driver (mlx5_ib) loaded, and is this the right profile?")
    mends = left <= 0 or not node.ports
    action = Action.FIX_CONFIG if mends else Action.INSPECT
    labels = [one.label for one in gone]
    return Missing("; ".join(reasons), action, (*converted, *unbound, *bound, *labels))


def _list(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _converted(node: "Node", expects: ProfileLens, number: int) -> list[str]:
    """Return the Ethernet ports that are rails by name or by board type."""
    names = expects.get("hcas") or ()
    if names:
        return [port.label for port in node.ethernet_ports if is_named(port, names)]
    rails = find_rails(node.ports, expects).labels
    boards = set(kinds([port for port in node.ports if port.label in rails]))
    groups = kinds(node.ethernet_ports)
    if boards - {""}:
        return [port.label for board in boards for port in groups.get(board, ())]
    largest: list[Port] = max(groups.values(), key=len, default=[])
    return [port.label for port in largest] if len(largest) >= number else []


def _without_ports(node: "Node", expects: ProfileLens) -> "list[tuple[Adapter, str]]":
    """Return the InfiniBand adapters on PCI that have no port, each with its driver."""
    seen = {port.address for port in (*node.ports, *node.ethernet_ports)}
    found = [
        (adapter, driver)
        for adapter, driver in read(node.adapters, "driver")
        if adapter.address not in seen
    ]
    return [
        (adapter, driver)
        for adapter, driver in found
        if any(infiniband for _, infiniband in read([adapter], "infiniband"))
    ]


def _gone(node: "Node", expects: ProfileLens, converted: Sequence[str]) -> list[Absent]:
    """Return the ports or HCAs that are known by name, from the profile or the past, and absent.

    Where one is gone, the kernel may have numbered the others anew: where earlier runs knew a
    name, the address and the serial number tell which HCA it was, and whether it is here.
    """
    present = {name for port in node.ports for name in (port.hca, port.label)} | set(converted)
    names = expects.get("hcas")
    if names is None:
        names = [one.label for _, seen in read([node], "past.ports") for one in seen]
    rows = [one for _, seen in read([node], "past.parts") for one in seen if one.kind == "nic"]
    places = {port.address for port in node.ports} | {one.address for one in node.adapters}
    places |= {serial for _, serial in read(node.ports, "hca_serial")}
    here = {row.slot for row in rows if {row.address, row.serial} & places}
    lost = {row.slot: row for row in rows if not {row.address, row.serial} & places}
    gone = {}
    for name in names:
        slot = name.partition("/")[0]
        if slot in lost:
            row = lost[slot]
            renamed = name in present  # another HCA has its name now
            label = row.address if renamed else name
            before = f"was {slot}" if renamed else row.address
            gone[label] = f"{label} ({before}, serial {row.serial})"
        elif name not in present and slot not in here:
            gone[name] = name
    return [Absent(label, text) for label, text in gone.items()]
