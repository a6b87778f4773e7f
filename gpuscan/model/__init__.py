"""What is known of a node: frozen records by area. A fact that was not read is an `Unread`, never
None.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpuscan.model.burnin import BurnTest, Ending, Load, Mismatch, Rate
from gpuscan.model.change import Amount, Change, Compared
from gpuscan.model.fabric import Port
from gpuscan.model.gpu import (
    Aer,
    BusLink,
    ClockReasons,
    Counter,
    EccErrors,
    Fabric,
    Gpu,
    Mode,
    NvLink,
    Pcie,
    Power,
    Process,
    RemappedRows,
    Repair,
    RetiredPages,
    SpareRows,
    Sram,
    Temperature,
    Throttled,
)
from gpuscan.model.host import Host
from gpuscan.model.kernel import Driver, Echo, Incident, KernelLog
from gpuscan.model.past import Boot, Fault, Held, Past, Seen, Tried
from gpuscan.model.service import AppError, Service
from gpuscan.model.storage import Disk, Firmware
from gpuscan.model.unread import DERIVED, KINDS, READING_KINDS, Fact, Unread, is_unread, read_or

__all__ = [
    "DERIVED",
    "KINDS",
    "READING_KINDS",
    "Aer",
    "Amount",
    "AppError",
    "Boot",
    "BurnTest",
    "BusLink",
    "Change",
    "ClockReasons",
    "Compared",
    "Counter",
    "Disk",
    "Driver",
    "EccErrors",
    "Echo",
    "Ending",
    "Fabric",
    "Fact",
    "Fault",
    "Firmware",
    "Gpu",
    "Held",
    "Host",
    "Incident",
    "KernelLog",
    "Load",
    "Mismatch",
    "Mode",
    "Node",
    "NvLink",
    "Past",
    "Pcie",
    "Port",
    "Power",
    "Process",
    "Rate",
    "RemappedRows",
    "Repair",
    "RetiredPages",
    "Seen",
    "Service",
    "SpareRows",
    "Sram",
    "Temperature",
    "Throttled",
    "Tried",
    "Unread",
    "is_unread",
    "read_or",
]


class Node(NamedTuple):
    """Everything one node said of itself.

    *gpus* are the NVIDIA GPUs on PCI (those that NVML lists where PCI cannot be seen);
    *device_minors* the numbers of /dev/nvidiaN; *ports* the InfiniBand ports and *ethernet_ports*
    those of the same kind of adapter that run Ethernet; *disks* the NVMe disks; *firmware* what was
    imported of the BMC's list; *kernel_modules* the names in /proc/modules; *past* is what the
    archive knew of this machine; *sources* maps a fact's path to its readings. *before* is the node
    of an earlier recording, *changes* what became of each part since; a node that is compared with
    nothing has none. *services* and *app_errors* are what an imported text tells of services and
    programs, *complaints* what nvidia-smi said instead of an answer; *imported* that all of it
    comes from other tools' output. *tests* are those of a burn-in, none without one.
    """

    host: Host
    driver: Driver
    gpus: Fact[tuple[Gpu, ...]]
    device_minors: Fact[tuple[int, ...]]
    ports: Fact[tuple[Port, ...]]
    ethernet_ports: Fact[tuple[Port, ...]]
    disks: Fact[tuple[Disk, ...]]
    firmware: Fact[tuple[Firmware, ...]]
    kernel_modules: Fact[tuple[str, ...]]
    kernel_log: Fact[KernelLog]
    incidents: Fact[tuple[Incident, ...]]
    past: Fact[Past]
    sources: Mapping[str, tuple[str, ...]]
    before: Fact["Node"] = Unread("", "not-recorded", "not compared with another recording")
    changes: tuple[Change, ...] = ()
    services: Fact[tuple[Service, ...]] = ()
    app_errors: Fact[tuple[AppError, ...]] = ()
    complaints: Fact[tuple[str, ...]] = ()
    imported: bool = False
    tests: Fact[tuple[BurnTest, ...]] = ()
