"""Records of the machine around the GPUs."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Host(NamedTuple):
    """Who this machine is: names, boot, kernel, DMI; *virtual* tells that it is a guest.

    Serials read as the vendor left them, placeholders such as "Not Specified" included:
    `gpuscan.model.identity.real` tells.
    """

    hostname: Fact[str]
    machine_id: Fact[str]
    boot_id: Fact[str]
    uptime_s: Fact[float]
    kernel: Fact[str]
    os: Fact[str]
    virtual: Fact[bool]
    vendor: Fact[str]
    product: Fact[str]
    board: Fact[str]
    serial: Fact[str]
    bios_version: Fact[str]
    board_serial: Fact[str]
    chassis_serial: Fact[str]
    product_uuid: Fact[str]
