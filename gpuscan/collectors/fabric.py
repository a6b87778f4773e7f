"""InfiniBand: the ports that sysfs lists, with their state, rate and firmware."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from gpuscan.collectors import adapters, cables, vpd
from gpuscan.collectors.reading import Sources, count, counter, growth, last, names, take, text
from gpuscan.model import Fact, Gpu, Past, Port, Unread, is_unread, read_or
from gpuscan.recording import Recording

ROOT = "/sys/class/infiniband"
ROOT_KEY = f"dir:{ROOT}"
DEVICES = "/sys/bus/pci/devices"
NET = "/sys/class/net"
HCA_FILES = ("fw_ver", "board_id", "hca_type", "node_guid")
PORT_FILES = ("link_layer", "state", "phys_state", "rate")
IDLE_GBPS = 40  # a port without a link shows 10, or 40: the slowest rate of four lanes
PAST_PORTS = "history:ports"
BOOT_ID = "file:/proc/sys/kernel/random/boot_id"
FARTHEST = 256  # there are fewer buses in a domain
MOST_PEERS = 64
COUNTERS = {"link_downed": "link_downed", "symbol_errors": "symbol_error"}


def plan(known: Recording) -> list[str]:
    """Return the listing of HCAs, then each one's files, then each port's, then what is slow: VPD
    and cables.
    """
    keys, slow = [f"dir:{ROOT}"], []
    layers = []
    for hca in _listed(known, ROOT):
        base = f"{ROOT}/{hca}"
        keys += [f"dir:{base}/ports", f"link:{base}/device", f"dir:{base}/device/net"]
        keys += [f"file:{base}/{name}" for name in HCA_FILES]
        keys += [f"file:{NET}/{netdev}/mtu" for netdev in _listed(known, f"{base}/device/net")[:1]]
        address = take(known, f"link:{base}/device", last)
        if not is_unread(address):
            keys += adapters.plan(known, address)
            slow.append(f"file:{DEVICES}/{address}/vpd")
        for number in _listed(known, f"{base}/ports"):
            port = f"{base}/ports/{number}"
            keys += [f"file:{port}/{name}" for name in PORT_FILES]
            keys += _counters(port)
            keys += [cables.gid(port)] if cables.wanted(known) else []
            layers.append(take(known, f"file:{port}/link_layer", _link_layer))
    swept = cables.wanted(known) and all(key in known for key in keys)
    return keys + slow + (cables.plan(layers) if swept else [])


def _counters(port: str) -> list[str]:
    return [f"file:{port}/counters/{name}" for name in COUNTERS.values()]


def again(known: Recording) -> list[str]:
    """Return the ports' counters, which are read a second time."""
    ports = [
        f"{ROOT}/{hca}/ports/{number}"
        for hca in _listed(known, ROOT)
        for number in _listed(known, f"{ROOT}/{hca}/ports")
    ]
    return [key for port in ports for key in _counters(port)]


def scope(*, swept: bool) -> list[str]:
    """Return patterns of all keys that `plan` can return, with or without a sweep for cables."""
    files = [f"file:{ROOT}/*/{name}" for name in HCA_FILES] + [
        f"file:{ROOT}/*/ports/*/{name}" for name in PORT_FILES
    ]
    files += [f"file:{DEVICES}/*/vpd", f"file:{NET}/*/mtu", *_counters(f"{ROOT}/*/ports/*")]
    files += cables.scope(f"{ROOT}/*/ports/*") if swept else []
    return [
        f"dir:{ROOT}",
        f"dir:{ROOT}/*/ports",
        f"link:{ROOT}/*/device",
        f"dir:{ROOT}/*/device/net",
        *adapters.scope(),
        *files,
    ]


def _listed(recording: Recording, directory: str) -> tuple[str, ...]:
    listed = take(recording, f"dir:{directory}", names)
    return read_or(listed, ())


def _numbers(value: Any) -> tuple[str, ...]:
    """Parse a listing of ports: each is named by its number."""
    found = names(value)
    if not all(name.isdecimal() for name in found):
        raise ValueError(value)
    return found


def _link_layer(value: Any) -> str:
    if text(value) not in ("InfiniBand", "Ethernet"):
        raise ValueError(value)
    return text(value)


def _state(value: Any) -> str:
    """`4: ACTIVE` is ACTIVE."""
    number, _, name = text(value).partition(":")
    int(number)
    return text(name)


def _rate_gbps(value: Any) -> float:
    """`400 Gb/sec (4X NDR)` is 400."""
    number, unit = text(value).split()[:2]
    if unit != "Gb/sec":
        raise ValueError(value)
    rate = float(number)
    if not isfinite(rate):
        raise ValueError(value)
    return rate


def facts(
    recording: Recording, gpus: Fact[tuple[Gpu, ...]], past: Fact[Past], sources: Sources
) -> tuple[Any, Any]:
    """Return the InfiniBand ports and the Ethernet ports of the same HCAs; without the sysfs
    directory there are none. One port whose kind was not read makes both lists Unread.

    Ethernet ports carry storage and management; RoCE fabrics have their own checks. A text that
    does not name the link layer is taken to speak of InfiniBand.
    """
    sources["ports"] = (ROOT_KEY,)
    ports = _all_ports(recording, sources)
    if is_unread(ports):
        return ((), ()) if ports.kind == "not-found" and ports.key == ROOT_KEY else (ports, ports)
    sources["ports"] += tuple(
        f"file:{ROOT}/{port.hca}/ports/{port.number}/link_layer" for port in ports
    )
    sources["ethernet_ports"] = sources["ports"]
    for port in ports:
        if is_unread(port.link_layer) and port.link_layer.kind != "not-recorded":
            return port.link_layer, port.link_layer
    ethernet = tuple(port for port in ports if read_or(port.link_layer, "") == "Ethernet")
    infiniband = [port for port in ports if port not in ethernet]
    addresses = [] if is_unread(gpus) else [gpu.address for gpu in gpus]
    boot_id = read_or(take(recording, BOOT_ID, text), "")
    infiniband = [_placed(port, addresses, past, boot_id) for port in infiniband]
    keys = {port.label: _keys(recording, port) for port in ports}
    for path, listing in (("ports", infiniband), ("ethernet_ports", ethernet)):
        for port in listing:
            sources.update({f"{path}[{port.label}].{f}": k for f, k in keys[port.label].items()})
    return with_peers(infiniband, keys, sources), ethernet


def with_peers(
    ports: Sequence[Port], keys: Mapping[str, Mapping[str, tuple[str, ...]]], sources: Sources
) -> tuple[Port, ...]:
    """Return the ports, each with its peers beside it; *keys* are the readings of their facts.

    All ports are peers, itself among them; of more than MOST_PEERS itself and so many physical
    ones: a node may have a hundred virtual functions a port, and each is compared with each.
    """
    own = {port.label: _peers(port, ports) for port in ports}
    for one in ports:
        for other in own[one.label]:
            path = f"ports[{one.label}].peers[{other.label}]"
            sources.update({f"{path}.{fact}": keys[other.label][fact] for fact in PEER_FACTS})
    return tuple(port._replace(peers=own[port.label]) for port in ports)


def _peers(port: Port, ports: Sequence[Port]) -> tuple[Port, ...]:
    if len(ports) <= MOST_PEERS:
        return tuple(ports)
    physical = [one for one in ports if one.virtual is not True and one is not port]
    return (port, *physical[: MOST_PEERS - 1])


def _placed(port: Port, gpus: Sequence[str], past: Fact[Past], boot_id: str) -> Port:
    """Return a port with the GPU nearest to it, and with what earlier runs saw of it."""
    near = nearest(port.address, gpus)
    gap = abs(_bus(near) - _bus(port.address)) if near else FARTHEST
    port = port._replace(near_gpu=near, gpu_gap=gap)
    if is_unread(past):
        return port
    seen = next((one for one in past.ports if one.label == port.label), None)
    if seen is None:
        return port
    port = port._replace(seen_up=seen.best_gbps > IDLE_GBPS)
    if is_unread(port.link_downed) or seen.boot_id != boot_id or seen.link_downed < 0:
        return port
    downs = growth(seen.link_downed, port.link_downed.total)
    return port._replace(downs_since_run=downs, run_ago_s=past.at_s - seen.at_s)


def nearest(address: str, others: Sequence[str]) -> str:
    """Return which of *others* has the nearest bus number in the same PCI domain, else "".

    >>> nearest("0000:18:00.0", ["0000:1b:00.0", "0000:43:00.0", "0001:18:00.0"])
    '0000:1b:00.0'
    """
    domain, _, rest = address.partition(":")
    near = [other for other in others if other.partition(":")[0] == domain and rest]
    return min(near, key=lambda other: abs(_bus(other) - _bus(address)), default="")


def _bus(address: str) -> int:
    return int(address.split(":")[1], 16)


def _all_ports(recording: Recording, sources: Sources) -> Fact[list[Port]]:
    hcas: Fact[tuple[str, ...]] = take(recording, ROOT_KEY, names)
    if is_unread(hcas):
        return hcas
    ports: list[Port] = []
    known = adapters.shown(recording)
    for hca in hcas:
        numbers: Fact[tuple[str, ...]] = take(recording, f"dir:{ROOT}/{hca}/ports", _numbers)
        sources["ports"] += (f"dir:{ROOT}/{hca}/ports",)
        if is_unread(numbers):
            return numbers
        ports += [_port(recording, hca, number, known) for number in numbers]
    return ports


def _keys(recording: Recording, port: Port) -> dict[str, tuple[str, ...]]:
    """Return the readings behind each fact of a port."""
    base, own = f"{ROOT}/{port.hca}", f"{ROOT}/{port.hca}/ports/{port.number}"
    netdev, vpd_key = f"dir:{base}/device/net", f"file:{DEVICES}/{port.address}/vpd"
    mtu = () if is_unread(port.netdev) else (f"file:{NET}/{port.netdev}/mtu",)
    return {
        "address": (f"link:{base}/device",),
        **{fact: (f"file:{own}/{name}",) for fact, name in PORT_FACTS.items()},
        **{fact: (f"file:{base}/{name}",) for fact, name in HCA_FACTS.items()},
        "hca_serial": (vpd_key,),
        "hca_part_number": (vpd_key,),
        "netdev": (netdev,),
        "mtu": (netdev, *mtu),
        "far_end": cables.sources(own, read_or(port.link_layer, "")),
        "virtual": adapters.virtual_sources(recording, port.address),
        "near_gpu": (f"link:{base}/device",),
        "gpu_gap": (f"link:{base}/device",),
        **dict.fromkeys(PAST_FACTS, (PAST_PORTS,) if PAST_PORTS in recording else ()),
        **{
            f"link.{fact}": keys
            for fact, keys in adapters.link_sources(recording, port.address).items()
        },
    }


PORT_FACTS = {
    "link_layer": "link_layer", "state": "state", "phys_state": "phys_state", "rate_gbps": "rate",
    **{fact: f"counters/{name}" for fact, name in COUNTERS.items()},
}  # fmt: skip
HCA_FACTS = {
    "firmware": "fw_ver",
    "board_id": "board_id",
    "hca_type": "hca_type",
    "node_guid": "node_guid",
}

PAST_FACTS = ("seen_up", "downs_since_run", "run_ago_s")
PEER_FACTS = (
    "link_layer", "state", "phys_state", "rate_gbps", "board_id", "hca_type", "link_downed",
    "virtual", "near_gpu", "gpu_gap", "seen_up", "link.width", "link.speed_gts",
)  # fmt: skip


def _port(recording: Recording, hca: str, number: str, known: frozenset[str]) -> Port:
    base, port = f"{ROOT}/{hca}", f"{ROOT}/{hca}/ports/{number}"
    label = f"{hca}/{number}"
    address = take(recording, f"link:{base}/device", last)
    vpd_key = f"file:{DEVICES}/{address}/vpd"
    layer = take(recording, f"file:{port}/link_layer", _link_layer)
    netdev = take(recording, f"dir:{base}/device/net", _first)
    guid = take(recording, f"file:{base}/node_guid", _guid)
    return Port(
        label=label,
        hca=hca,
        number=int(number),
        address=label if is_unread(address) else address,
        link_layer=layer,
        state=take(recording, f"file:{port}/state", _state),
        phys_state=take(recording, f"file:{port}/phys_state", _state),
        rate_gbps=take(recording, f"file:{port}/rate", _rate_gbps),
        **{
            fact: take(recording, f"file:{base}/{file}", text)
            for fact, file in HCA_FACTS.items()
            if fact != "node_guid"
        },
        node_guid=guid,
        hca_serial=_behind(address, recording, vpd_key, vpd.serial),
        hca_part_number=_behind(address, recording, vpd_key, vpd.part_number),
        netdev=netdev,
        mtu=_behind(netdev, recording, f"file:{NET}/{netdev}/mtu", _number),
        far_end=cables.far_end(recording, port, layer, guid, netdev),
        link_downed=counter(recording, f"file:{port}/counters/link_downed", _number),
        symbol_errors=counter(recording, f"file:{port}/counters/symbol_error", _number),
        virtual=_virtual(recording, address),
        link=address if is_unread(address) else adapters.link(recording, address, known),
    )


def _virtual(recording: Recording, address: Fact[str]) -> Fact[bool]:
    """Return whether the HCA is a virtual function; a text that gives no address shows none."""
    if not is_unread(address):
        return adapters.virtual(recording, address)
    return False if address.kind == "not-recorded" else address


def _behind(name: Any, recording: Recording, key: str, parse: Callable[[Any], Any]) -> Any:
    """Return the fact at a key that contains a name, Unread if the name is."""
    return name if is_unread(name) else take(recording, key, parse)


def _first(value: Any) -> Any:
    """Parse a listing of network interfaces: a port's own is first, then virtual functions."""
    found = names(value)
    return found[0] if found else Unread("", "not-found", "it has no network interface")


def _guid(value: Any) -> str:
    """Parse `b8ce:f603:00aa:bbcc`; zeros stand for none."""
    if int(text(value).replace(":", ""), 16) == 0:
        raise ValueError(value)
    return text(value)


def _number(value: Any) -> int:
    return count(text(value))
