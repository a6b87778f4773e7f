"""Whether a profile's network is this node's: a chassis is sold with InfiniBand and with others."""

from collections.abc import Sequence

from gpuscan.model import Node, is_unread, read_or
from gpuscan.profile import names
from gpuscan.profile.loading import Profile
from gpuscan.text import counted

AREA = "infiniband"


def fit_network(profile: Profile, node: Node, settings: Sequence[str]) -> tuple[Profile, str]:
    """Return a profile that was chosen by the machine's name, without its network where the node's
    adapters are of another kind, and a sentence on that, empty if nothing was left out.

    The name vouches for GPUs. What a user sets, and what a site's own profile says, stays.
    """
    expected = profile.data[AREA]["ports"]
    given = any(setting.startswith(f"{AREA}.") for setting in settings)
    if not expected or given or not names.is_bundled_file(names.find(profile.name)):
        return profile, ""
    infiniband, ethernet = _count_infiniband(node), _count_ethernet(node)
    if infiniband is None or 2 * infiniband >= expected:
        return profile, ""
    if ethernet < expected and infiniband:
        return profile, ""
    left_open = dict.fromkeys(profile.data[AREA])
    fitting = profile._replace(data={**profile.data, AREA: left_open}, fitted=True)
    if ethernet >= expected:
        return (
            fitting,
            f"{counted(expected, 'InfiniBand port')} not expected: the HCAs are Ethernet",
        )
    unvouched = frozenset({f"{AREA}.ports"})
    return fitting._replace(unvouched=unvouched), "the node has no InfiniBand adapter"


def _count_infiniband(node: Node) -> int | None:
    """Return how many InfiniBand adapters or ports there are, None if they could not be listed."""
    if is_unread(node.ports):
        return None
    past = () if is_unread(node.past) else node.past.ports
    ethernet = {port.address for port in read_or(node.ethernet_ports, ())}
    adapters = [
        one
        for one in read_or(node.adapters, ())
        if one.infiniband is True and one.address not in ethernet
    ]
    ports = [port for port in node.ports if port.virtual is not True]
    return max(len(ports), len(adapters), len(past))


def _count_ethernet(node: Node) -> int:
    ports = read_or(node.ethernet_ports, ())
    return sum(port.virtual is not True for port in ports)
