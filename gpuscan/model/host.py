"""Records of the machine around the GPUs."""

from typing import NamedTuple


class Host(NamedTuple):
    """Who this machine is: names, boot, kernel, DMI; *virtual* tells that it is a guest.

    Serials read as the vendor left them, placeholders such as "Not Specified" included:
    `gpuscan.model.identity.real` tells.
    """

    hostname: str
    machine_id: str
    boot_id: str
    uptime_s: float
    kernel: str
    os: str
    virtual: bool
    vendor: str
    product: str
    board: str
    serial: str
    bios_version: str
    board_serial: str
    chassis_serial: str
    product_uuid: str
