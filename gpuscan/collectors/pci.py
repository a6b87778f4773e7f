"""What sysfs lists on the PCI bus: each device's identity and class."""

from typing import Any

from gpuscan.collectors.reading import names, take, text
from gpuscan.model import Fact, is_unread, read_or
from gpuscan.recording import Recording

DEVICES = "/sys/bus/pci/devices"
LISTING = f"dir:{DEVICES}"
NVIDIA = "10DE"
DISPLAY_CLASS = 0x03  # display and 3D controllers
VGA, COMPUTE = 0x0300, 0x0302  # an adapter that drives a display, and a 3D controller
BRIDGE = 0x0680  # any other bridge


def uevent(address: str) -> str:
    """Return the key of a device's identity."""
    return f"file:{DEVICES}/{address}/uevent"


def listed(recording: Recording, key: str) -> tuple[str, ...]:
    """Return the names in a directory, none if it was not read."""
    return read_or(take(recording, key, names), ())


def identity(value: Any) -> dict[str, str]:
    """Parse a device's uevent: PCI_CLASS, PCI_ID (`10DE:2335`), DRIVER where one is bound, ...

    Raises ValueError, KeyError or IndexError if it makes no sense.
    """
    pairs = dict(line.split("=", 1) for line in text(value).splitlines())
    int(pairs["PCI_CLASS"], 16)
    pairs["PCI_ID"].split(":")[1]
    return pairs


def is_gpu(identity: dict[str, str]) -> bool:
    """Return whether a device is one of NVIDIA's display or 3D controllers."""
    return identity["PCI_ID"].startswith(f"{NVIDIA}:") and _class(identity) >> 8 == DISPLAY_CLASS


def _class(identity: dict[str, str]) -> int:
    """`PCI_CLASS=30200` is class 0x0302, without the programming interface."""
    return int(identity["PCI_CLASS"], 16) >> 8


def class_of(recording: Recording, address: str) -> Fact[int]:
    """Return a device's PCI class, without the programming interface."""
    found: Fact[int] = take(recording, uevent(address), lambda value: _class(identity(value)))
    return found


def has_nvswitch(recording: Recording) -> bool:
    """Return whether PCI lists an NVSwitch: NVIDIA's bridges of class 0x0680 (A100, Hopper)."""
    devices = listed(recording, LISTING)
    identities = [take(recording, uevent(device), identity) for device in devices]
    return any(
        one["PCI_ID"].startswith(f"{NVIDIA}:") and _class(one) == BRIDGE
        for one in identities
        if not is_unread(one)
    )
