"""What is known of a node: frozen records by area. A fact that was not read is an `Unread`, never None."""

from collections.abc import Mapping
from typing import NamedTuple

from gpuscan.facts.fabric import Port
from gpuscan.facts.gpu import (
    Aer,
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
from gpuscan.facts.host import Host
from gpuscan.facts.kernel import Driver, Incident, KernelLog
from gpuscan.facts.unread import DERIVED, KINDS, READING_KINDS, Unread, is_unread

__all__ = [
    "DERIVED",
    "KINDS",
    "READING_KINDS",
    "Aer",
    "ClockReasons",
    "Counter",
    "Driver",
    "EccErrors",
    "Fabric",
    "Gpu",
    "Host",
    "Incident",
    "KernelLog",
    "Mode",
    "Node",
    "NvLink",
    "Pcie",
    "Port",
    "Power",
    "Process",
    "RemappedRows",
    "Repair",
    "RetiredPages",
    "SpareRows",
    "Sram",
    "Temperature",
    "Throttled",
    "Unread",
    "is_unread",
]


class Node(NamedTuple):
    """Everything one node said of itself.

    *gpus* are the NVIDIA cards on PCI (those that NVML lists where PCI cannot be seen); *device_minors* the
    numbers of /dev/nvidiaN; *ports* the InfiniBand ports; *kernel_modules* the names in /proc/modules; *sources*
    maps a fact's path to its readings.
    """

    host: Host
    driver: Driver
    gpus: tuple[Gpu, ...]
    device_minors: tuple[int, ...]
    ports: tuple[Port, ...]
    kernel_modules: tuple[str, ...]
    kernel_log: KernelLog
    incidents: tuple[Incident, ...]
    sources: Mapping[str, tuple[str, ...]]
