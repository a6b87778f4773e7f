"""Records of disks, and of firmware that was imported."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Disk(NamedTuple):
    """One NVMe disk: *label* is its name (nvme0), *address* its PCI address."""

    label: str
    address: str
    model: Fact[str]
    serial: Fact[str]
    firmware: Fact[str]


class Firmware(NamedTuple):
    """One firmware as the BMC lists it (Redfish FirmwareInventory): *label* is the member's Id."""

    label: str
    name: Fact[str]
    version: Fact[str]
