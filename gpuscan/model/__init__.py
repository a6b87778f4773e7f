"""The facts of a node: immutable records by area. A fact that was not read is an `Unread`, never
None.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpuscan.model.burnin import BurnTest, Ending, Load, Mismatch, Rate
from gpuscan.model.change import Amount, Change, Compared
from gpuscan.model.fabric import Adapter, AdapterLink, Port
from gpuscan.model.gpu import (
    Aer,
    AerKind,
    BusLink,
    ClockReasons,
    Counter,
    EccErrors,
    Fabric,
    Gpu,
    Link,
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
from gpuscan.model.past import Boot, Fault, Held, Measured, Past, PastTest, PortSeen, Seen, Tried
from gpuscan.model.service import AppError, Said, Service
from gpuscan.model.storage import Disk, Firmware
from gpuscan.model.unread import DERIVED, KINDS, READING_KINDS, Fact, Unread, is_unread, read_or

__all__ = [
    "DERIVED",
    "KINDS",
    "READING_KINDS",
    "Adapter",
    "AdapterLink",
    "Aer",
    "AerKind",
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
    "Link",
    "Load",
    "Measured",
    "Mismatch",
    "Mode",
    "Node",
    "NvLink",
    "Past",
    "PastTest",
    "Pcie",
    "Port",
    "PortSeen",
    "Power",
    "Process",
    "Rate",
    "RemappedRows",
    "Repair",
    "RetiredPages",
    "Said",
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
    """All facts of one node.

    *gpus* are the NVIDIA GPUs on PCI, or those that NVML lists if PCI cannot be read;
    *device_minors* the numbers of /dev/nvidiaN; *ports* the InfiniBand ports and *ethernet_ports*
    the Ethernet ports of such HCAs; *adapters* the HCAs on PCI, with or without a port; *disks* the
    NVMe disks; *firmware* the BMC's imported list; *kernel_modules* the names in /proc/modules;
    *past* what the archive has of this machine; *sources* maps a fact's path to its reading keys.
    *before* is the node of the recording that this one is compared with, and *changes* what became
    of each part since. *services*, *app_errors* and *complaints* (nvidia-smi's, in place of an
    answer) come from imported texts, as do *bmc_events* (the BMC's log), *host_errors* (EDAC's and
    rasdaemon's counts), *nccl_warnings*, *daemon_errors* (logs of Fabric Manager, IMEX and NVLSM)
    and *link_quality* (mlxlink); *imported* is True if all facts come from other tools' output.
    *tests* are a burn-in's, *asked* the parts that a proof was asked for.
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
    bmc_events: Fact[tuple[Said, ...]] = ()
    host_errors: Fact[tuple[Said, ...]] = ()
    nccl_warnings: Fact[tuple[Said, ...]] = ()
    daemon_errors: Fact[tuple[Said, ...]] = ()
    link_quality: Fact[tuple[Said, ...]] = ()
    imported: bool = False
    adapters: Fact[tuple[Adapter, ...]] = ()
    tests: Fact[tuple[BurnTest, ...]] = ()
    asked: tuple[str, ...] = ()
