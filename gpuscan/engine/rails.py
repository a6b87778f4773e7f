"""Which InfiniBand ports a profile speaks of: rails are expected to be up, spares are not.

A profile names its rails' HCAs, or it expects a number of ports or a rate; then the rails are ports
of one kind (PSID), and no port of another kind stands in for them. All functions take the ports as
a check sees them, so that what could not be read is booked on the check.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from gpuscan.engine.lens import ProfileLens, read

if TYPE_CHECKING:
    from gpuscan.views import Port

LINKED = ("ACTIVE", "INIT", "ARMED")


class Place(Enum):
    """What a port is to the profile, if it is not active."""

    RAIL = "the profile expects it to be up"
    LOST = "the profile does not speak of it, but it was up: something that was in use has failed"
    SPARE = "it was never up, and nothing misses it"
    UNNAMED = "no expectation speaks of it"
    VIRTUAL = "an SR-IOV virtual function, which has no cable of its own"


class Rails(NamedTuple):
    """The rails' labels; how many there should be, and their rate, None if the profile leaves it
    open.
    """

    labels: frozenset[str]
    expected: int | None
    rate_gbps: float | None


def find_rails(ports: "Sequence[Port]", expects: ProfileLens) -> Rails:
    """Return the rails among all InfiniBand ports of a node; *expects* is `profile.infiniband`."""
    names, number = _names(expects), expects.get("ports")
    rate = expects.get("rate_gbps")
    if number == 0:
        chosen = []
    elif names and (number is None or number <= len(names)):
        chosen = [port for port in ports if is_named(port, names)]
    elif number or rate:
        chosen = _of_the_rails_kind(_physical(ports), number, rate)
    else:
        chosen = []
    return Rails(frozenset(port.label for port in chosen), number, rate)


def _names(expects: ProfileLens) -> frozenset[str]:
    return frozenset(expects.get("hcas") or ())


def is_named(port: "Port", names: Iterable[str]) -> bool:
    """Return whether a profile names a port: its HCA (mlx5_0), or the port itself (mlx5_0/1)."""
    return bool({port.hca, port.label} & set(names))


def _physical(ports: "Sequence[Port]") -> "list[Port]":
    """Return the ports that are not known to be virtual functions."""
    virtual = {port.label for port, is_virtual in read(ports, "virtual") if is_virtual}
    return [port for port in ports if port.label not in virtual]


def kinds(ports: "Sequence[Port]") -> "dict[str, list[Port]]":
    """Return the ports by PSID; one whose PSID was not read stands with others of its chip."""
    boards = {port.label: board for port, board in read(ports, "board_id")}
    chips: dict[str, str] = {}
    if len(boards) < len(ports):
        chips = {port.label: chip for port, chip in read(ports, "hca_type")}
    board_of = {chips.get(label, ""): board for label, board in boards.items()}
    found: dict[str, list[Port]] = {}
    for port in ports:
        chip = chips.get(port.label, "")
        found.setdefault(boards.get(port.label, board_of.get(chip, chip)), []).append(port)
    return found


def _running(ports: "Iterable[Port]", rate: float | None) -> set[str]:
    """Return the labels of the ports that are active, at a rate or above if one is given."""
    active = {port.label for port, state in read(ports, "state") if state == "ACTIVE"}
    if rate is None:
        return active
    slow = {port.label for port, gbps in read(ports, "rate_gbps") if gbps < rate}
    return active - slow


def _of_the_rails_kind(
    ports: "Sequence[Port]", number: int | None, rate: float | None
) -> "list[Port]":
    """Return the ports of the kinds that make up the rails.

    That is one kind with at least half the number and none of another rate; of several the one
    nearest to the GPUs on the bus. A second kind belongs to them only if the number has room for
    all its ports: seven of one board and two for storage are not nine of the eight expected.
    """
    groups = list(kinds(ports).values())
    if number is None:
        running = [group for group in groups if len(groups) == 1 or _running(group, rate)]
        return [port for group in running or groups for port in group]
    large = [group for group in groups if 2 * len(group) >= number]
    if len(large) != 1:
        large = _able(large, rate) or large or _able(groups, rate)
    if not large:
        return []  # what is left is of another rate: no rail
    first = large[0]
    if len(large) > 1:
        first = min(large, key=lambda group: (max(port.gpu_gap for port in group), -len(group)))
    chosen = list(first)
    rest = [group for group in groups if group is not first and len(group) + len(first) <= number]
    for group in sorted(_able(rest, rate), key=len, reverse=True):
        if len(chosen) + len(group) <= number and _sit_like(group, chosen):
            chosen += group
    return chosen


def _able(groups: "Sequence[list[Port]]", rate: float | None) -> "list[list[Port]]":
    """Return the kinds that can be the rails by their rate: none is active at lower rates only."""
    return [group for group in groups if _running(group, rate) or not _running(group, None)]


def _sit_like(ports: "Sequence[Port]", rails: "Sequence[Port]") -> bool:
    """Return whether ports may be rails by their place: each beside a GPU that has no rail yet.

    Where rails do not have a GPU each beside them, their place tells nothing.
    """
    served = [port.near_gpu for port in rails]
    if "" in served or len(set(served)) < len(served):
        return True
    return all(port.near_gpu and port.near_gpu not in served for port in ports)


def find_place(port: "Port", expects: ProfileLens) -> Place:
    """Return what a port that is not active is to the profile."""
    names, ports = _names(expects), port.peers
    named = is_named(port, names)
    if not named and any(is_virtual for _, is_virtual in read([port], "virtual")):
        return Place.VIRTUAL
    rails = find_rails(ports, expects)
    if port.label in rails.labels:
        return Place.SPARE if _is_spare(port, named, rails) else Place.RAIL
    if names or not rails.labels:
        return Place.UNNAMED
    return Place.LOST if was_up(port) else Place.SPARE


def was_up(port: "Port") -> bool:
    """Return whether a port has had a link: in this boot, in an earlier run, or in the recording
    that this one is compared with.
    """
    downs = any(total for _, total in read([port], "link_downed.total"))
    return downs or any(seen for _, seen in read([port], "seen_up"))


def _is_spare(port: "Port", named: bool, rails: Rails) -> bool:
    """Return whether a rail's port is one too many: never up, and not missed.

    It is not missed where enough others run, or where it is the second port of an adapter whose
    other port runs. A port with a link, but not active, is cabled for something.
    """
    if was_up(port) or _has_a_link(port):
        return False
    rest = [one for one in port.peers if one.label in rails.labels and one.label != port.label]
    beside = [one for one in rest if _adapter(one) == _adapter(port)]
    if _running(beside, None):
        return True
    if named or rails.expected is None:
        return False
    return len(_running(rest, rails.rate_gbps)) >= rails.expected


def _has_a_link(port: "Port") -> bool:
    """Return whether the port's cable leads to a switch, which has not activated it yet."""
    linked = any(state in LINKED for _, state in read([port], "state"))
    return linked and any(physical == "LinkUp" for _, physical in read([port], "phys_state"))


def _adapter(port: "Port") -> str:
    """Return the PCI device that a port is on, without its function: `0000:29:00`."""
    return port.address.rpartition(".")[0] or port.hca
