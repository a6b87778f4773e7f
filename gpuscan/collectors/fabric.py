"""InfiniBand: the ports that sysfs lists, with their state, rate and firmware."""

from math import isfinite
from typing import Any

from gpuscan.collectors.reading import Sources, count, counter, names, take, text
from gpuscan.facts import Port, is_unread
from gpuscan.recording import Recording

ROOT = "/sys/class/infiniband"
HCA_FILES = ("fw_ver", "board_id", "hca_type")
PORT_FILES = ("link_layer", "state", "phys_state", "rate")
COUNTERS = {"link_downed": "link_downed", "symbol_errors": "symbol_error"}


def plan(known: Recording) -> list[str]:
    """Return the listing of HCAs, then each one's files, then each port's."""
    keys = [f"dir:{ROOT}"]
    for hca in _listed(known, ROOT):
        base = f"{ROOT}/{hca}"
        keys += [f"dir:{base}/ports", f"link:{base}/device", *(f"file:{base}/{name}" for name in HCA_FILES)]
        for number in _listed(known, f"{base}/ports"):
            port = f"{base}/ports/{number}"
            keys += [f"file:{port}/{name}" for name in PORT_FILES]
            keys += _counters(port)
    return keys


def _counters(port: str) -> list[str]:
    return [f"file:{port}/counters/{name}" for name in COUNTERS.values()]


def again(known: Recording) -> list[str]:
    """Return the ports' counters, which are read a second time."""
    ports = [f"{ROOT}/{hca}/ports/{number}" for hca in _listed(known, ROOT) for number in _listed(known, f"{ROOT}/{hca}/ports")]
    return [key for port in ports for key in _counters(port)]


def scope() -> list[str]:
    """Return patterns of what `plan` can want."""
    files = [f"file:{ROOT}/*/{name}" for name in HCA_FILES] + [f"file:{ROOT}/*/ports/*/{name}" for name in PORT_FILES]
    return [f"dir:{ROOT}", f"dir:{ROOT}/*/ports", f"link:{ROOT}/*/device", *files, *_counters(f"{ROOT}/*/ports/*")]


def _listed(recording: Recording, directory: str) -> tuple[str, ...]:
    listed = take(recording, f"dir:{directory}", names)
    return () if is_unread(listed) else listed


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


def facts(recording: Recording, sources: Sources) -> Any:
    """Make the records of the InfiniBand ports; a machine without that directory has none."""
    key = f"dir:{ROOT}"
    listed = take(recording, key, names)
    sources["ports"] = (key,)
    if is_unread(listed):
        return () if listed.kind == "not-found" else listed
    ports: list[Port] = []
    for hca in listed:
        numbers = take(recording, f"dir:{ROOT}/{hca}/ports", _numbers)
        sources["ports"] += (f"dir:{ROOT}/{hca}/ports",)
        if is_unread(numbers):
            return numbers
        ports += [_port(recording, hca, number, sources) for number in numbers]
    sources["ports"] += tuple(f"file:{ROOT}/{port.hca}/ports/{port.number}/link_layer" for port in ports)
    for port in ports:
        if is_unread(port.link_layer):
            return port.link_layer  # it may be one of those that are missed, or one of no concern
    # Ethernet ports of the same adapters carry storage and management; RoCE fabrics are judged by their own checks.
    kept = [port for port in ports if port.link_layer == "InfiniBand"]
    active = sum(port.state == "ACTIVE" for port in kept)
    states = tuple(f"file:{ROOT}/{port.hca}/ports/{port.number}/state" for port in kept)
    sources.update({f"ports[{port.label}].active_ports": states for port in kept})
    return tuple(port._replace(active_ports=active) for port in kept)


def _port(recording: Recording, hca: str, number: str, sources: Sources) -> Port:
    base, port = f"{ROOT}/{hca}", f"{ROOT}/{hca}/ports/{number}"
    label = f"{hca}/{number}"
    keys = {
        "address": f"link:{base}/device",
        "link_layer": f"file:{port}/link_layer",
        "state": f"file:{port}/state",
        "phys_state": f"file:{port}/phys_state",
        "rate_gbps": f"file:{port}/rate",
        "firmware": f"file:{base}/fw_ver",
        "board_id": f"file:{base}/board_id",
        **{fact: f"file:{port}/counters/{name}" for fact, name in COUNTERS.items()},
    }
    address = take(recording, keys["address"], _last)
    sources.update({f"ports[{label}].{fact}": (key,) for fact, key in keys.items()})
    return Port(
        label=label,
        hca=hca,
        number=int(number),
        address=label if is_unread(address) else address,
        link_layer=take(recording, keys["link_layer"], _link_layer),
        state=take(recording, keys["state"], _state),
        phys_state=take(recording, keys["phys_state"], _state),
        rate_gbps=take(recording, keys["rate_gbps"], _rate_gbps),
        firmware=take(recording, keys["firmware"], text),
        board_id=take(recording, keys["board_id"], text),
        link_downed=counter(recording, keys["link_downed"], _number),
        symbol_errors=counter(recording, keys["symbol_errors"], _number),
        active_ports=0,
    )


def _number(value: Any) -> int:
    return count(text(value))


def _last(value: Any) -> str:
    return text(value).rstrip("/").rsplit("/", 1)[-1]
