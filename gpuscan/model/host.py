"""Records of the machine around the GPUs."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Host(NamedTuple):
    """The machine: names, boot, kernel, DMI; *virtual* is True in a guest, *container* where the
    scan ran in another PID namespace than the machine's first.

    Serials are as the vendor left them, placeholders such as "Not Specified" included, which
    `gpuscan.model.identity` recognises.
    """

    hostname: Fact[str]
    machine_id: Fact[str]
    boot_id: Fact[str]
    uptime_s: Fact[float]
    kernel: Fact[str]
    os: Fact[str]
    virtual: Fact[bool]
    container: Fact[bool]
    vendor: Fact[str]
    product: Fact[str]
    board: Fact[str]
    serial: Fact[str]
    bios_version: Fact[str]
    board_serial: Fact[str]
    chassis_serial: Fact[str]
    product_uuid: Fact[str]
