"""A GPU's PCIe link as sysfs or lspci shows it, also when NVML has lost the GPU."""

import re
from typing import Any

from gpuscan.collectors.reading import Sources, offered, text
from gpuscan.model import BusLink, Unread, is_unread
from gpuscan.recording import Recording

DEVICES = "/sys/bus/pci/devices"
ONES = 63  # the width of a device that is off the bus: all bits read as ones
WIDTH = re.compile(r"Lnk(Sta|Cap):.*?Width x(\d+)( \(downgraded\))?")
GRAVE = (
    "DLP",
    "SDES",
    "TLP",
    "FCP",
    "CmpltTO",
    "RxOF",
    "MalfTLP",
    "ECRC",
)  # UnsupReq and the like are set at boot as a rule


def block_key(address: str) -> str:
    """Return the key of what lspci prints of one device."""
    return f"run:lspci -vvvs {address}"


def _file(address: str, name: str) -> str:
    return f"file:{DEVICES}/{address}/{name}"


def link(recording: Recording, address: str) -> BusLink:
    """Return the link, from sysfs if that was read, else from lspci; the GPU answers unless either
    says that it does not.
    """
    shown: Any = offered(recording, block_key(address), text)
    witnesses = (_answers_sysfs(recording, address), _answers_lspci(shown))
    answers = [answer for answer in witnesses if not is_unread(answer)]
    width, most = (
        offered(recording, _file(address, name), _lanes)
        for name in ("current_link_width", "max_link_width")
    )
    narrow: Any = width if is_unread(width) else most if is_unread(most) else width < most
    if is_unread(width) and not is_unread(shown):
        width, narrow = _widths(recording, address, shown)
    return BusLink(
        answers=all(answers) if answers else shown,
        width=width,
        narrow=narrow,
        latched=_latched(shown),
    )


def sources(address: str) -> tuple[str, ...]:
    """Return the readings behind the record."""
    return (
        _file(address, "current_link_width"),
        _file(address, "max_link_width"),
        block_key(address),
    )


def _answers_sysfs(recording: Recording, address: str) -> Any:
    width = offered(recording, _file(address, "current_link_width"), lambda value: int(text(value)))
    speed = offered(recording, _file(address, "current_link_speed"), text)
    if is_unread(width):
        return width if is_unread(speed) else speed != "Unknown"
    return width != ONES


def _answers_lspci(shown: Any) -> Any:
    if is_unread(shown):
        return shown
    return "(rev ff)" not in shown.partition("\n")[0] and "Unknown header type 7f" not in shown


def _lanes(value: Any) -> Any:
    lanes = int(text(value))
    return (
        Unread("", "lost", "all bits are set: the device does not answer")
        if lanes == ONES
        else lanes
    )


def _widths(recording: Recording, address: str, shown: str) -> tuple[Any, Any]:
    """Return the lanes in use, and whether both ends have more; a GPU in a narrower slot is as
    wide as it can be.
    """
    found = {name: (int(lanes), bool(less)) for name, lanes, less in WIDTH.findall(shown)}
    absent: Any = Unread(block_key(address), "not-recorded", "lspci shows no link here")
    if "Sta" not in found:
        return absent, absent
    width, downgraded = found["Sta"]
    most = [
        lanes for lanes in (found.get("Cap", (0, False))[0], _above(recording, address)) if lanes
    ]
    return width, (width < min(most) if most else downgraded)


def _above(recording: Recording, address: str) -> int:
    """Return the lanes of the slot, as the bridge above the GPU reports them; 0 if unknown."""
    way: Any = offered(
        recording, f"link:{DEVICES}/{address}", lambda value: text(value).split("/")[-2]
    )
    shown: Any = way if is_unread(way) else offered(recording, block_key(way), text)
    hits = [
        int(lanes)
        for name, lanes, _ in WIDTH.findall("" if is_unread(shown) else str(shown))
        if name == "Cap"
    ]
    return hits[0] if hits else 0


def _latched(shown: Any) -> Any:
    if is_unread(shown):
        return shown
    hit = re.search(r"UESta:\s*(.*)", shown)
    return tuple(name for name in GRAVE if hit and f"{name}+" in hit[1].split())


def book(path: str, address: str, booked: Sources) -> None:
    """Add the reading keys behind the record at *path*."""
    booked[f"{path}.bus"] = sources(address)
