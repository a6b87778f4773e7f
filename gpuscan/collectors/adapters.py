"""HCAs on PCI: the adapters with or without a driver, virtual functions, and their PCIe links."""

from typing import Any

from gpuscan.collectors.reading import Sources, last, names, take, text
from gpuscan.model import Adapter, AdapterLink, Fact, Unread, is_unread, read_or
from gpuscan.recording import Recording

DEVICES = "/sys/bus/pci/devices"
MELLANOX = "15b3"
NETWORK, INFINIBAND = "02", "0207"  # PCI classes: network controller, InfiniBand controller
# virtual functions of ConnectX-2 to -7, Connect-IB and BlueField, by the PCI ID Repository
VIRTUAL = ("1002", "1004", "1012", "1014", "1016", "1018", "101a", "101c", "101e", "a2d3")
LINK = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")
SLOT = ("max_link_width", "max_link_speed")
NO_LANES = (0, 63, 255)  # what sysfs shows where a guest or a dead device tells no width
ABSENT = Unread("", "not-recorded", "this device tells no PCIe link")


def plan(known: Recording, address: str) -> list[str]:
    """Return the readings of one HCA: whether it is virtual, its place, its link and its slot's."""
    keys = [_physfn(address), f"link:{DEVICES}/{address}"]
    keys += [_file(address, name) for name in LINK]
    above = _above(known, address)
    return keys + ([_file(above, name) for name in SLOT] if above else [])


def scope() -> list[str]:
    """Return patterns of all keys that `plan` can return."""
    return [f"link:{DEVICES}/*", *(_file("*", name) for name in LINK)]


def _file(address: str, name: str) -> str:
    return f"file:{DEVICES}/{address}/{name}"


def _physfn(address: str) -> str:
    return f"link:{DEVICES}/{address}/physfn"


def _uevent(address: str) -> str:
    return _file(address, "uevent")


def _above(known: Recording, address: str) -> str:
    """Return the address of the bridge above a device, empty if its place was not read."""
    key = f"link:{DEVICES}/{address}"
    path = take(known, key, lambda value: text(value).split("/")[-2]) if key in known else ABSENT
    return "" if is_unread(path) or path.startswith("pci") else str(path)


def virtual(recording: Recording, address: str) -> Fact[bool]:
    """Return whether an HCA is a virtual function of a physical one beside it.

    In a guest it stands alone and is what the guest has. A recording made before the link to the
    physical function was read tells by device ids.
    """
    if _physfn(address) in recording:
        way: Fact[str] = take(recording, _physfn(address), last)
        if is_unread(way):
            return False if way.kind == "not-found" else way
        return True
    if _uevent(address) not in recording:
        return False  # a text that does not say so speaks of physical ports
    identity = _identity_of(recording, address)
    if is_unread(identity):
        return identity
    return _device(identity) in VIRTUAL and any(
        _is_adapter(other) and _device(other) not in VIRTUAL
        for other in _listed(recording).values()
        if not is_unread(other)
    )


def virtual_sources(recording: Recording, address: str) -> tuple[str, ...]:
    """Return the readings behind `virtual`: none where no link to a physical function is there."""
    link_key, identity = _physfn(address), _uevent(address)
    if link_key in recording:
        return () if is_unread(recording.get(link_key)) else (link_key,)
    return (identity,) if identity in recording else ()


def shown(recording: Recording) -> frozenset[str]:
    """Return which files of a link this kernel shows, of any device; a guest may show none."""
    return frozenset(
        name
        for name in LINK
        if any(
            key.endswith(f"/{name}")
            and key.startswith(f"file:{DEVICES}/")
            and not _is_absent(recording.get(key))
            for key in recording.keys()
        )
    )


def _is_absent(answer: Any) -> bool:
    """Return whether a file is not there, rather than one that could not be read."""
    return is_unread(answer) and answer.kind in ("not-found", "not-recorded", "not-supported")


def link(recording: Recording, address: str, known: frozenset[str]) -> AdapterLink:
    """Return an HCA's PCIe link as sysfs shows it; *known* are the files that it shows at all."""
    above = _above(recording, address)
    width, most, speed, fastest = (
        _told(recording, _file(address, name), parse, known)
        for name, parse in zip(LINK, (_lanes, _lanes, _gts, _gts), strict=True)
    )
    slot_width, slot_speed = (
        _told(recording, _file(above, name), parse, known) if above else ABSENT
        for name, parse in zip(SLOT, (_lanes, _gts), strict=True)
    )
    return AdapterLink(width, most, slot_width, speed, fastest, slot_speed)


def link_sources(recording: Recording, address: str) -> dict[str, tuple[str, ...]]:
    """Return the readings behind each fact of `link`."""
    above = _above(recording, address)
    own = {name: (_file(address, name),) for name in LINK}
    place = (f"link:{DEVICES}/{address}",)
    slot = {name: (*place, _file(above, name)) if above else place for name in SLOT}
    keys = (*own.values(), *slot.values())
    order = (keys[0], keys[1], keys[4], keys[2], keys[3], keys[5])
    return dict(zip(AdapterLink._fields, order, strict=True))


def _told(recording: Recording, key: str, parse: Any, known: frozenset[str]) -> Any:
    """Return a fact of a link; what no device here shows is absent, not missing."""
    return take(recording, key, parse) if key.rpartition("/")[2] in known else ABSENT


def _lanes(value: Any) -> Any:
    lanes = int(text(value))
    return ABSENT if lanes in NO_LANES else lanes


def _gts(value: Any) -> Any:
    """`32.0 GT/s PCIe` is 32.0."""
    shown = text(value)
    return ABSENT if shown.startswith("Unknown") else float(shown.split()[0])


def facts(recording: Recording, sources: Sources) -> Fact[tuple[Adapter, ...]]:
    """Return NVIDIA's network adapters on PCI, virtual functions left out."""
    listing: Fact[tuple[str, ...]] = take(recording, f"dir:{DEVICES}", names)
    sources["adapters"] = (f"dir:{DEVICES}",)
    if is_unread(listing):
        return listing
    found = []
    for address, identity in _listed(recording).items():
        sources[f"adapters[{address}]"] = (_uevent(address),)
        if is_unread(identity) or not _is_adapter(identity):
            continue
        if virtual(recording, address) is not True:
            found.append(_adapter(address, identity))
    return tuple(found)


def _listed(recording: Recording) -> dict[str, Fact[dict[str, str]]]:
    listing: Fact[tuple[str, ...]] = take(recording, f"dir:{DEVICES}", names)
    return {address: _identity_of(recording, address) for address in read_or(listing, ())}


def _identity_of(recording: Recording, address: str) -> Fact[dict[str, str]]:
    return take(recording, _uevent(address), _identity)  # type: ignore[no-any-return]


def _identity(value: Any) -> dict[str, str]:
    return dict(line.lower().split("=", 1) for line in text(value).splitlines())


def _is_adapter(identity: dict[str, str]) -> bool:
    maker = identity.get("pci_id", "").partition(":")[0]
    return maker == MELLANOX and _class(identity).startswith(NETWORK)


def _device(identity: dict[str, str]) -> str:
    return identity.get("pci_id", "").partition(":")[2]


def _class(identity: dict[str, str]) -> str:
    """`20700` is class 02, subclass 07: "020700"."""
    return identity.get("pci_class", "").zfill(6)


def _adapter(address: str, identity: dict[str, str]) -> Adapter:
    return Adapter(
        label=address,
        address=address,
        device_id=identity["pci_id"],
        driver=identity.get("driver", ""),
        infiniband=_class(identity).startswith(INFINIBAND),
    )
