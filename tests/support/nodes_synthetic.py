"""Recordings of machines that nobody lent us, written from published figures and the shape of real
ones.

What the GPUs are is in `nodes_boards.py`, with its sources; what they say is shaped as on a real
H200 machine; names, serials and addresses of machines are invented. Nothing here is taken from the
profiles that judge these recordings. `python tests/support/nodes_synthetic.py` writes the committed
recording anew.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from nodes_boards import (
    CLOUD_A100,
    DELL_H200,
    DGX_A100,
    DGX_B200,
    FOUR_T4,
    GB200_TRAY,
    H100,
    SEATS,
    Seat,
    Site,
)
from paths import RECORDINGS

from gpuscan import __version__, collectors
from gpuscan.collectors import log_text, systemd
from gpuscan.model import Unread, is_unread
from gpuscan.recording import Reading, Recording, load, patch, save

COMMITTED = RECORDINGS / "h100-8x-ib.json.gz"
STARTED_S = 1795900000.0
GPUS = tuple(seat.gpu for seat in SEATS)
BOND = ("mlx5_bond_0", "0000:2a:00.0")
EIGHT = Site()

Answers = dict[str, Any]


class Device(NamedTuple):
    """One PCI function: its uevent's words, and the bridges above it, root port first."""

    address: str
    driver: str
    pci_class: str
    pci_id: str
    subsystem: str
    above: tuple[str, ...] = ()

    @property
    def uevent(self) -> str:
        """The file as sysfs shows it."""
        driver = f"DRIVER={self.driver}\n" if self.driver else ""
        ids = f"PCI_CLASS={self.pci_class}\nPCI_ID={self.pci_id}\nPCI_SUBSYS_ID={self.subsystem}\n"
        vendor, device = self.pci_id.split(":")
        return (
            f"{driver}{ids}PCI_SLOT_NAME={self.address}\nMODALIAS=pci:v0000{vendor}d0000{device}\n"
        )


def _devices(site: Site) -> list[Device]:
    if site.arm:
        return _tray(site)
    found = [
        Device("0000:00:00.0", "", "88000", "8086:09A2", "8086:0000"),
        Device("0000:00:0c.0", "pcieport", "60400", "8086:1BBC", "1028:0B21"),
        Device("0000:00:1f.4", "i801_smbus", "C0500", "8086:1BC9", "1028:0B21"),
        Device("0000:01:00.0", "tg3", "20000", "14E4:165F", "1028:0A6B"),
        Device("0000:01:00.1", "tg3", "20000", "14E4:165F", "1028:0A6B"),
        Device("0000:03:00.0", "mgag200", "30000", "102B:0536", "1028:0B21"),
        Device("0000:26:01.0", "pcieport", "60400", "8086:352A", "8086:0000"),
        Device(BOND[1], "mlx5_core", "20000", "15B3:A2DC", "15B3:0009", ("0000:26:01.0",)),
        Device("0000:2a:00.1", "mlx5_core", "20000", "15B3:A2DC", "15B3:0009", ("0000:26:01.0",)),
        Device("0000:81:01.0", "pcieport", "60400", "8086:352A", "8086:0000"),
    ]
    for bus in site.switches:
        switch = Device(
            f"0000:{bus}:00.0",
            "nvidia-nvswitch",
            "68000",
            "10DE:22A3",
            "10DE:1796",
            ("0000:81:01.0",),
        )
        found.append(switch)
    for seat in site.seats:
        first = int(seat.root[-2:], 16)
        port, up = f"{seat.root}:01.0", f"0000:{first + 1:02x}:00.0"
        down = tuple(f"0000:{first + 2:02x}:0{number}.0" for number in (0, 1, 2))
        found.append(Device(port, "pcieport", "60400", "8086:352A", "8086:0000"))
        found += [
            Device(bridge, "pcieport", "60400", "1000:C030", "1000:100B", (port,))
            for bridge in (up, *down)
        ]
        found.append(
            Device(
                f"0000:{first + 4:02x}:00.0",
                "nvme",
                "10802",
                "1344:51C3",
                "1344:4100",
                (port, up, down[1]),
            )
        )
        if site.hcas:
            found.append(
                Device(
                    seat.hca, "mlx5_core", "20700", "15B3:1021", "15B3:0041", (port, up, down[0])
                )
            )
        found.append(
            Device(
                seat.gpu,
                "nvidia",
                "30200",
                site.board.pci_id,
                site.board.subsystem,
                (port, up, down[2]),
            )
        )
    return sorted(found)


def _tray(site: Site) -> list[Device]:
    """A Grace tray: each GPU and each HCA in a domain of its own, right below its root port, and
    no chassis slots.
    """
    found = [Device(BOND[1], "mlx5_core", "20000", "15B3:A2DC", "15B3:0009")]
    for seat in site.seats:
        port, other = f"{seat.root}:00.0", f"{seat.hca[:4]}:00:00.0"
        found += [
            Device(bridge, "pcieport", "60400", "10DE:22B8", "10DE:0000")
            for bridge in (port, other)
        ]
        found.append(Device(seat.hca, "mlx5_core", "20700", "15B3:1021", "15B3:0041", (other,)))
        found.append(
            Device(seat.gpu, "nvidia", "30200", site.board.pci_id, site.board.subsystem, (port,))
        )
    return sorted(found)


def _host(site: Site) -> Answers:
    dmi = {
        "sys_vendor": site.vendor,
        "product_name": site.product,
        "board_name": site.base,
        "product_serial": "ZZTEST1",
        "bios_version": "2.3.5",
        "board_serial": ".ZZTEST1.CNZZZ0000000AA.",
        "chassis_serial": "ZZTEST1",
        "product_uuid": "4c4c4544-0000-4000-8000-00000000042a",
        "bios_date": "09/10/2024",
    }
    return {
        "file:/proc/sys/kernel/hostname": "gpu-042\n",
        "file:/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "file:/proc/sys/kernel/random/boot_id": "11111111-2222-4333-8444-555555555555\n",
        "file:/proc/uptime": "5321.77 1010423.51\n",
        "file:/proc/sys/kernel/osrelease": "5.15.0-112-generic\n",
        "file:/etc/os-release": (
            'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n'
        ),
        "link:/proc/self/ns/pid": "pid:[4026531836]",
        systemd.BOOTED: ["ask-password", "notify"],
        systemd.SHOW: shown_services(),
        "file:/proc/cpuinfo": (
            GRACE
            if site.arm
            else XEON.replace("avx512f", "avx512f hypervisor" if site.guest else "avx512f")
        ),
        **{f"file:/sys/class/dmi/id/{name}": f"{value}\n" for name, value in dmi.items()},
    }


def shown_services(**states: str) -> str:
    """What `systemctl show` prints: the GPUs' services run, the network's are not installed."""
    rest = {unit: "active" for unit in systemd.UNITS if unit.startswith("nvidia-")} | states
    return "\n".join(
        f"Id={unit}.service\nLoadState={'loaded' if unit in rest else 'not-found'}\n"
        f"ActiveState={rest.get(unit, 'inactive')}\nSubState=running\nResult=success\n"
        f"UnitFileState={'enabled' if unit in rest else ''}\n"
        for unit in systemd.UNITS
    )


XEON = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum"
    " 8480C\nsiblings\t: 112\ncpu cores\t: 56\nflags\t\t: fpu vme de pse tsc msr pae mce cx8 apic"
    " sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 avx512f\nbugs\t\t:\n\n"
)
GRACE = (  # no line of an aarch64 processor tells of a hypervisor
    "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32"
    " atomics fphp cpuid sve bti\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t:"
    " 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n\n"
)


def _pci(site: Site) -> Answers:
    devices = _devices(site)
    present = {device.address for device in devices}
    pairs = [
        (n, address)
        for seat in site.seats
        for n, address in zip(seat.slots, (seat.hca, seat.gpu), strict=True)
    ]
    slots = {number: address for number, address in pairs if number and address in present}
    minors = range(len(site.seats))
    dev = [
        "infiniband",
        "kmsg",
        "mem",
        "null",
        "nvidia-caps",
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidiactl",
        "sda",
        "zero",
    ]
    dev += [f"nvidia{n}" for n in minors] + [
        f"nvidia-nvswitch{n}" for n in range(len(site.switches))
    ]
    dev += [f"nvme{n}" for n in minors]
    return {
        "dir:/sys/bus/pci/devices": [device.address for device in devices],
        "dir:/sys/bus/pci/slots": sorted(slots),
        "dir:/dev": sorted(dev),
        **{
            f"file:/sys/bus/pci/slots/{slot}/address": f"{address[:-2]}\n"
            for slot, address in slots.items()
        },
        **{
            f"file:/sys/bus/pci/devices/{device.address}/uevent": device.uevent
            for device in devices
        },
        **{f"link:/sys/bus/pci/devices/{device.address}": _path(device) for device in devices},
        **{key: value for device in devices for key, value in _pcie_link(device).items()},
    }


def _pcie_link(device: Device) -> Answers:
    base = f"/sys/bus/pci/devices/{device.address}"
    return {
        f"link:{base}/physfn": LACKS,
        **{f"file:{base}/{end}_link_width": "16\n" for end in ("current", "max")},
        **{f"file:{base}/{end}_link_speed": "32.0 GT/s PCIe\n" for end in ("current", "max")},
    }


def _path(device: Device) -> str:
    way = (*device.above, device.address)
    return f"../../../devices/pci{way[0].rsplit(':', 1)[0]}/{'/'.join(way)}"


def _infiniband(site: Site) -> Answers:
    if not site.hcas:
        return {"dir:/sys/class/infiniband": LACKS}
    answers: Answers = {
        "dir:/sys/class/infiniband": sorted([*site.hcas, BOND[0]]),
        **_gpus_of_the_network(site),
    }
    for number, (name, seat) in enumerate(zip(site.hcas, site.seats, strict=True)):
        downed = f"{number % 2}\n"  # a link that went down once while the fabric came up is history
        answers |= _hca(
            name,
            seat.hca,
            ("28.43.2026", "ZZT0000000001", "MT4129"),
            ("InfiniBand", site.rate),
            downed,
        )
    # The counters of a bonded function that the host may not touch answer with EINVAL.
    refused = Unread("", "garbled", "Invalid argument", 22)
    return answers | _hca(
        *BOND,
        ("32.43.2026", "ZZT0000000002", "MT41692"),
        ("Ethernet", "200 Gb/sec (2X NDR)"),
        refused,
    )


CX7 = ("NVIDIA ConnectX-7 HHHL Adapter GPU, 400GbE / NDR IB", "MCX75310AAS-NEAT", "A5")
BF3 = ("NVIDIA BlueField-3 B3220 P-Series DPU, 200GbE / NDR200", "900-9D3B6-00CV-AA0", "A9")


def vpd(board: tuple[str, str, str], serial: str) -> str:
    """A VPD as adapters of this maker hold it: name, then read-only fields, among them one of raw
    bytes.
    """
    name, part, revision = board
    values = {
        "PN": part,
        "EC": revision,
        "V2": part,
        "SN": serial,
        "V3": f"{serial.lower():0<32}",
        "V0": "PCIeGen5 x16",
    }
    fields = b"".join(
        word.encode() + bytes([len(value)]) + value.encode() for word, value in values.items()
    )
    fields += b"RV\x02\x9c\xff"
    parts = (
        b"\x82"
        + len(name).to_bytes(2, "little")
        + name.encode()
        + b"\x90"
        + len(fields).to_bytes(2, "little")
        + fields
    )
    return (parts + b"\x78").decode("utf-8", "surrogateescape")


def _gpus_of_the_network(site: Site) -> Answers:
    """What names each adapter and its interface: GUID, VPD, the interface and its MTU."""
    answers: Answers = {}
    named = [
        (name, seat.hca, CX7, f"ibp{number}s0", 4092)
        for number, (name, seat) in enumerate(zip(site.hcas, site.seats, strict=True))
    ]
    for number, (name, address, board, netdev, mtu) in enumerate(
        [*named, (*BOND, BF3, "eth2", 9000)]
    ):
        base = f"/sys/class/infiniband/{name}"
        answers |= {
            f"file:{base}/node_guid": f"0c42:a103:00ab:{number:04x}\n",
            f"dir:{base}/device/net": [netdev],
            f"file:/sys/class/net/{netdev}/mtu": f"{mtu}\n",
            f"file:/sys/bus/pci/devices/{address}/vpd": vpd(board, f"MT2333ZT{number:05d}"),
        }
    return answers


def _disks(site: Site) -> Answers:
    """One NVMe disk beside each GPU; a Grace tray of this kind has none."""
    devices = [device for device in _devices(site) if device.driver == "nvme"]
    if not devices:
        return {"dir:/sys/class/nvme": LACKS}
    answers: Answers = {"dir:/sys/class/nvme": [f"nvme{number}" for number in range(len(devices))]}
    for number, device in enumerate(devices):
        files = {
            "address": device.address,
            "model": "Micron_7450_MTFDKCC3T8TFR               ",
            "serial": f"23214ZT{number:05d}        ",
            "firmware_rev": "E2MU200 ",
        }
        answers |= {
            f"file:/sys/class/nvme/nvme{number}/{name}": f"{value}\n"
            for name, value in files.items()
        }
    return answers


def _hca(
    name: str, address: str, board: tuple[str, str, str], link: tuple[str, str], counter: Any
) -> Answers:
    base = f"/sys/class/infiniband/{name}"
    port = f"file:{base}/ports/1"
    return {
        f"dir:{base}/ports": ["1"],
        f"link:{base}/device": f"../../../{address}",
        **{
            f"file:{base}/{file}": f"{value}\n"
            for file, value in zip(("fw_ver", "board_id", "hca_type"), board, strict=True)
        },
        f"{port}/link_layer": f"{link[0]}\n",
        f"{port}/state": "4: ACTIVE\n",
        f"{port}/phys_state": "5: LinkUp\n",
        f"{port}/rate": f"{link[1]}\n",
        **{f"{port}/counters/{counted}": counter for counted in ("link_downed", "symbol_error")},
    }


BANNER = {
    "open": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for {arch}  {driver}  Release Build "
        " (build@host)  \n"
    ),
    "proprietary": (
        "NVRM version: NVIDIA UNIX {arch} Kernel Module  {driver}  Wed Jun 26 06:46:07 UTC 2024\n"
    ),
}


def _driver(site: Site) -> Answers:
    banner = BANNER[site.flavour].format(
        arch="aarch64" if site.arm else "x86_64", driver=site.driver
    )
    return {
        "file:/proc/driver/nvidia/version": (
            f"{banner}GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04) \n"
        ),
        "file:/proc/modules": (
            "nvidia_uvm 1830912 0 - Live 0x0000000000000000 (O)\nnvidia_peermem 16384 0 - Live"
            " 0x0000000000000000 (O)\nnvidia 14299136 120 nvidia_uvm,nvidia_peermem, Live"
            " 0x0000000000000000 (O)\nmlx5_ib 466944 0 - Live 0x0000000000000000\n"
        ),
        "kmsg:/dev/kmsg": _log(site),
        "nvml:nvmlInit()": True,
        "nvml:nvmlSystemGetDriverVersion()": site.driver,
        "nvml:nvmlSystemGetNVMLVersion()": f"{12 if site.branch < 580 else 13}.{site.driver}",
        "nvml:nvmlSystemGetCudaDriverVersion()": {535: 12020, 550: 12040, 570: 12080, 580: 13000}[
            site.branch
        ],
        "nvml:nvmlDeviceGetCount()": len(site.seats),
        "nvml:nvmlSystemGetConfComputeState()": {
            "environment": 0,
            "ccFeature": 0,
            "devToolsMode": 0,
        },
    }


def _log(site: Site) -> list[str]:
    """A boot's ring buffer: the kernel's own records, and two that a program wrote."""
    module = "Open Kernel Module for x86_64" if site.flavour == "open" else "x86_64 Kernel Module"
    lines = [
        "5;Linux version 5.15.0-112-generic (build@host) (gcc 11.4.0) #122-Ubuntu SMP",
        f"6;DMI: {site.vendor} {site.product}/{site.base}, BIOS 2.3.5 09/10/2024",
        "6;pci_bus 0000:15: root bus resource [bus 15-25]",
        *(
            f"6;pci {seat.gpu}: [{site.board.pci_id.lower()}] type 00 class 0x030200"
            for seat in site.seats
        ),
        "30;systemd[1]: Inserted module 'autofs4'",
        *(
            f"6;mlx5_core {seat.hca}: firmware version: 28.43.2026"
            for seat in site.seats
            if site.hcas
        ),
        "4;nvidia: loading out-of-tree module taints kernel.",
        "6;nvidia-nvlink: Nvlink Core is being initialized, major device number 234",
        *(["6;nvidia-nvswitch3: open (major=509)"] if site.switches else []),
        f"4;NVRM: loading NVIDIA UNIX {module}  {site.driver}  Release Build  (build@host)",
        *(
            [
                "4;NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected."
                " Clearing it."
            ]
            * len(site.seats)
        ),
        "6;nvidia-uvm: Loaded the UVM driver, major device number 507.",
        "30;systemd[1]: Started NVIDIA fabric manager service.",
    ]
    rows = (line.partition(";") for line in lines)
    return [
        f"{priority},{number},{number * 312_500},-;{message}"
        for number, (priority, _, message) in enumerate(rows)
    ]


def _gpu(number: int, seat: Seat, site: Site) -> Answers:
    board, uuid = site.board, f"GPU-000000{number:02x}-0100-4000-8000-0000000001{number:02x}"
    lanes, generation = board.pcie
    calls = {
        "HandleByPciBusId": True,
        "Index": number,
        "MinorNumber": number,
        "ModuleId": seat.module,
        "Name": board.name,
        "UUID": uuid,
        "Serial": f"16540000001{number:02d}",
        "BoardPartNumber": board.part_number,
        "VbiosVersion": board.vbios,
        "InforomImageVersion": board.inforom,
        "GspFirmwareVersion": site.driver,
        "MemoryInfo": {
            "total": board.memory_bytes,
            "free": board.memory_bytes - 644939776,
            "used": 644939776,
        },
        "EccMode": [1, 1],
        "MigMode": [0, 0],
        "PersistenceMode": 1,
        "ComputeMode": 0,
        "ComputeRunningProcesses": [],
        "GraphicsRunningProcesses": [],
        "MPSComputeRunningProcesses": [],
        "EnforcedPowerLimit": board.power_mw,
        "MarginTemperature": 53,
        "MaxPcieLinkGeneration": generation,
        "SramEccErrorStatus": SRAM,
        "RemappedRows": [0, 0, 0, 0],
        "RowRemapperHistogram": {"max": board.banks, "high": 0, "partial": 0, "low": 0, "none": 0},
        "UnrepairableMemoryFlag_v1": 0,
        "RepairStatus": [0, 0],
        "GpuFabricInfoV": _fabric(site),
        "RetiredPagesPendingStatus": 0,
        "PerformanceState": 0,
        "CurrPcieLinkWidth": lanes,
        "MaxPcieLinkWidth": lanes,
        "CurrPcieLinkGeneration": generation,
        "GpuMaxPcieLinkGeneration": generation,
        "PcieReplayCounter": number % 3,  # a few replays are healthy
        "PowerUsage": board.power_mw // 10 + 311 * number,
        "PowerManagementLimit": board.power_mw,
        "PowerManagementDefaultLimit": board.power_mw,
        "CurrentClocksEventReasons": 1,  # idle
        "VirtualizationMode": 1 if site.guest else 0,
    }
    with_arguments = {
        "Temperature": {"0": 30 + number},
        "ApplicationsClock": {"0": 1980},
        "DefaultApplicationsClock": {"0": 1980},
        "TemperatureThreshold": {"1": 89, "2": 95},  # a real H200's
        "TotalEccErrors": {"1,0": 0, "1,1": 0, "0,0": 0, "0,1": 2 * number},
        "FieldValues": {
            **_fields(number),
            **{f"{field},{link}": value for field, link, value in _links(number, site)},
        },
    }
    information = (
        f"Model: \t\t {board.name}\nIRQ:   \t\t {120 + number}\nGPU UUID: \t {uuid}\nVideo BIOS: \t"
        f" {board.vbios.lower()}\nBus Type: \t PCIe\nBus Location: \t {seat.gpu}\nDevice Minor: \t"
        f" {number}\nGPU Excluded:\t No\n"
    )
    answers = {f"nvml:nvmlDeviceGet{call}({seat.gpu})": value for call, value in calls.items()}
    for call, values in with_arguments.items():
        answers |= {
            f"nvml:nvmlDeviceGet{call}({seat.gpu},{arguments})": value
            for arguments, value in values.items()
        }
    return {
        f"file:/proc/driver/nvidia/gpus/{seat.gpu}/information": information,
        f"file:/sys/bus/pci/devices/{seat.gpu}/aer_dev_fatal": (
            LACKS if site.guest else aer("FATAL")
        ),
        f"file:/sys/bus/pci/devices/{seat.gpu}/aer_dev_nonfatal": (
            LACKS if site.guest else aer("NONFATAL")
        ),
        **{key: _known(key, value, site) for key, value in answers.items()},
    }


LACKS = Unread("", "not-found", "No such file or directory", 2)
SRAM_COUNTS = ("UncParity", "UncSecDed", "Cor")
BUCKETS = ("L2", "Sm", "Pcie", "Mcu", "Other")
SRAM = {f"{when}{what}": 0 for when in ("aggregate", "volatile") for what in SRAM_COUNTS}
SRAM |= {f"aggregateUncBucket{name}": 0 for name in BUCKETS} | {"bThresholdExceeded": 0}


def _fabric(site: Site) -> dict[str, Any]:
    """Registered with success; an NVL72 domain has a name and a clique, a board of its own has
    none.
    """
    cluster, clique = ("9c6f5af30000490000a5436b00c41300", 4026) if site.arm else ("0" * 32, 0)
    return {
        "clusterUuid": cluster,
        "status": 0,
        "cliqueId": clique,
        "state": 3,
        "healthMask": site.board.health_mask,
    } | ({"healthSummary": 1} if site.arm else {})


def _fields(number: int) -> Answers:
    """Retired pages, throttle times, memory temperature, recovery action."""
    return {
        "29,0": 0,
        "30,0": 0,
        "75,0": 0,
        "77,0": 0,
        "79,0": 3_500_000 * (number % 2),
        "82,0": 33 + number,
        "230,0": 0,
    }


def _links(number: int, site: Site) -> list[tuple[str, int, int]]:
    """The links that a GPU has: their number, state, rate, and error counters, of which a few
    counts are history.
    """
    rows = [("91", 0, site.board.links)]
    for link in range(site.board.links):
        rows += [
            ("165", link, 1),
            ("164", link, site.board.link_mb_s),
            ("161", link, link % 2 * number),
            ("162", link, 0),
        ]
        rows.append(("163", link, 2 if link == 5 else 0))
        rows += [("208", link, 0), ("211", link, 0), ("214", link, 0), ("220", link, 0xFFF)]
    return rows


AER_ERRORS = (
    "Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF", "MalfTLP", "ECRC", "UnsupReq",
    "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked", "TLPBlockedErr", "PoisonTLPBlocked",
)  # fmt: skip


def aer(severity: str, **counts: int) -> str:
    """The file as the kernel writes it: one line an error, and the total."""
    lines = [f"{name} {counts.get(name, 0)}" for name in AER_ERRORS]
    return "\n".join([*lines, f"TOTAL_ERR_{severity} {sum(counts.values())}"]) + "\n"


NO_FUNCTION = Unread("", "not-found", "Function Not Found", 13)
NO_FIELD = Unread("", "not-supported", "Invalid Argument", 2)
NOT_SUPPORTED = Unread("", "not-supported", "Not Supported", 3)
SINCE = {
    "GpuFabricInfoV": 550,
    "RepairStatus": 580,
    "UnrepairableMemoryFlag_v1": 580,
    "230": 565,
}  # NVML change log, and one read


def _known(key: str, value: Any, site: Site) -> Any:
    """What the GPU's driver and model let it say."""
    name, _, arguments = key.removeprefix("nvml:nvmlDeviceGet").rstrip(")").partition("(")
    word = arguments.split(",")[1] if name == "FieldValues" else name
    if site.branch < SINCE.get(word, 0):
        return NO_FIELD if name == "FieldValues" else NO_FUNCTION
    return NOT_SUPPORTED if word in site.board.lacks else value


def _beyond(answers: Answers, site: Site) -> Answers:
    """The links that the GPU does not have: NVML says that there is no such field."""
    lacks = NO_FIELD if site.board.links else NOT_SUPPORTED
    links = [(field, link) for field in range(161, 166) for link in range(site.board.links, 18)]
    pairs = [(seat.gpu, field, link) for seat in site.seats for field, link in links]
    return answers | {
        f"nvml:nvmlDeviceGetFieldValues({gpu},{field},{link})": lacks for gpu, field, link in pairs
    }


def answers_of(site: Site = EIGHT) -> Answers:
    """Everything that the healthy machine says, by reading."""
    gpus = [_gpu(number, seat, site) for number, seat in enumerate(site.seats)]
    answers = _host(site) | _pci(site) | _infiniband(site) | _disks(site) | _driver(site)
    for gpu in gpus:
        answers |= gpu
    return _beyond(answers, site)


def scanned(
    answers: Mapping[str, Any], about: str, scope: Sequence[str] | None = None
) -> Recording:
    """A recording of what the collectors ask of a machine that gives these answers, in the order
    of a scan.
    """
    meta = {
        "gpuscan_version": __version__,
        "made_at": STARTED_S,
        "duration_s": 1.5,
        "synthetic": True,
        "about": about,
    }
    recording = Recording(meta, scope or _scope())
    while wanted := _wanted(recording):
        for key in wanted:
            recording.add(_reading(key, answers, STARTED_S + len(list(recording.keys())) / 1000))
    for key in collectors.again(recording):
        if not is_unread(recording.get(key)):
            recording.add(_reading(key, answers, STARTED_S + 1.5))
    return recording


def _wanted(recording: Recording) -> list[str]:
    asked = collectors.plan(recording)
    return [key for key in asked if key not in recording and recording.covers(key)]


NEWER_FILES = ("/max_link_width", "/comm")


@cache
def _scope() -> list[str]:
    """All that a scan sets out to read, but for calls to which nobody wrote an answer: to these
    recordings a fact that is new to gpuscan is not recorded, as to any older recording.
    """
    answers = list(answers_of())
    return [
        pattern
        for pattern in collectors.scope()
        if not pattern.startswith("nvml:nvmlDevice")
        and not pattern.endswith(NEWER_FILES)
        or fnmatch.filter(answers, pattern)
    ]


def _reading(key: str, answers: Mapping[str, Any], at_s: float) -> Reading:
    if key not in answers:
        raise KeyError(f"tests/support/nodes_synthetic.py has no answer to {key}")
    value = answers[key]
    if is_unread(value):
        return Reading(key, None, value._replace(key=key), round(at_s, 3), 0.1)
    return Reading(key, value, None, round(at_s, 3), 0.1)


def site_named(about: str, site: Site) -> Recording:
    """All that a healthy machine says."""
    return scanned(answers_of(site), f"synthetic: {about}, all healthy")


def eight_gpus() -> Recording:
    """Eight SXM GPUs on one board, eight InfiniBand ports at 400 Gb/s, one bonded Ethernet port;
    all healthy.
    """
    return site_named(f"8 x {H100.name} in a PowerEdge XE9680", EIGHT)


def _cut(
    recording: Recording, about: str, changes: Mapping[str, Any], log: tuple[str, ...] = ()
) -> Recording:
    changed = patch(recording, changes, log)
    return Recording(
        changed.meta._replace(about=f"synthetic: {about}"), changed.scope, list(changed)
    )


def no_gpu() -> Recording:
    """A server without NVIDIA GPUs, driver and InfiniBand."""
    board = {f"0000:{bus}:00.0" for bus in ("83", "84", "85", "86")}
    absent = {
        device.address for device in _devices(EIGHT) if device.driver in ("nvidia", "mlx5_core")
    } | board
    lacks = Unread("", "not-found", "No such file or directory", 2)
    answers = {
        key: value
        for key, value in answers_of().items()
        if not any(address in key for address in absent)
    }
    answers |= {
        "dir:/sys/bus/pci/devices": [
            address for address in answers["dir:/sys/bus/pci/devices"] if address not in absent
        ],
        "dir:/sys/bus/pci/slots": [],
        "dir:/dev": ["kmsg", "mem", "null", "sda", "zero"],
        "dir:/sys/class/infiniband": lacks,
        "file:/proc/driver/nvidia/version": lacks,
        "file:/proc/modules": "tg3 180224 0 - Live 0x0000000000000000\n",
        "nvml:nvmlInit()": Unread("", "not-found", "NVML Shared Library Not Found", 12),
    }
    answers |= {
        key: Unread("", "not-found", "NVML Shared Library Not Found", 12)
        for key in answers
        if key.startswith("nvml:")
    }
    return scanned(answers, "synthetic: a server without NVIDIA GPUs", ["*"])


def container_of_four() -> Recording:
    """A container that is given four of the eight GPUs: PCI shows all, NVML and /dev four, the
    log is denied.
    """
    answers = answers_of()
    lacks = Unread("", "not-found", "No such file or directory", 2)
    answers |= {
        "nvml:nvmlDeviceGetCount()": 4,
        "link:/proc/self/ns/pid": "pid:[4026533001]",
        systemd.BOOTED: lacks,
        "dir:/dev": [
            name
            for name in answers["dir:/dev"]
            if name not in {f"nvidia{minor}" for minor in range(4, 8)}
        ],
        log_text.KMSG: Unread("", "no-permission", "Operation not permitted", 1),
        log_text.JOURNAL: lacks,
        log_text.DMESG: Unread(
            "", "no-permission", "dmesg: read kernel buffer failed: Operation not permitted", 1
        ),
        **dict.fromkeys(log_text.FILES, lacks),
    }
    hidden = GPUS[4:]
    answers |= {f"file:/proc/driver/nvidia/gpus/{gpu}/information": lacks for gpu in hidden}
    asked = [
        key for key in answers if key.startswith("nvml:") and any(gpu in key for gpu in hidden)
    ]
    answers |= {key: Unread("", "not-found", "Not Found", 6) for key in asked}
    return scanned(answers, "synthetic: a container that is given four of eight GPUs")


def old_driver() -> Recording:
    """The eight GPUs under driver R535, which has neither field 230 nor the fabric's health."""
    return site_named(
        "eight H100 under driver R535", EIGHT._replace(driver="535.183.06", flavour="proprietary")
    )


def driver_not_loaded() -> Recording:
    """The eight GPUs without a driver: nothing bound, nothing in /dev, NVML refuses."""
    answers = answers_of()
    unbound = {
        key: value.replace("DRIVER=nvidia\n", "").replace("DRIVER=nvidia-nvswitch\n", "")
        for key, value in answers.items()
        if key.endswith("/uevent")
    }
    lacks = Unread("", "not-found", "No such file or directory", 2)
    refused = Unread("", "not-found", "Driver Not Loaded", 9)
    answers |= {
        **unbound,
        "dir:/dev": [name for name in answers["dir:/dev"] if not name.startswith("nvidia")],
        "file:/proc/driver/nvidia/version": lacks,
        "file:/proc/modules": "mlx5_ib 466944 0 - Live 0x0000000000000000\n",
        "kmsg:/dev/kmsg": [
            line
            for line in answers["kmsg:/dev/kmsg"]
            if "NVRM" not in line and "nvidia" not in line
        ],
        **{key: lacks for key in answers if key.startswith("file:/proc/driver/nvidia/gpus/")},
        **{key: refused for key in answers if key.startswith("nvml:")},
    }
    return scanned(answers, "synthetic: eight GPUs, the driver not loaded")


def unmatched() -> Recording:
    """The eight GPUs in a machine that no profile knows."""
    dmi = "file:/sys/class/dmi/id/"
    changes = {
        f"{dmi}sys_vendor": "Nobody Ltd.\n",
        f"{dmi}product_name": "N-8000\n",
        f"{dmi}board_name": "N8\n",
    }
    return _cut(eight_gpus(), "eight GPUs in an unknown machine", changes)


def unknown_gpu() -> Recording:
    """Eight GPUs of a model that no profile knows, in a machine that one does."""
    changes = {
        f"file:/sys/bus/pci/devices/{gpu}/uevent": (
            answers_of()[f"file:/sys/bus/pci/devices/{gpu}/uevent"].replace(
                "10DE:2330", "10DE:2FFF"
            )
        )
        for gpu in GPUS
    }
    return _cut(eight_gpus(), "eight GPUs of an unknown model", changes)


GPU_BURN = (
    "Initialized device 0 with 143771 MB of memory\n100.0%  proc'd: 900 (51234 Gflop/s) - 880"
    " (50111 Gflop/s)   errors: 0 - 0   temps: 61 C - 57 C\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1:"
    " OK\n"
)


def with_gpu_burn() -> Recording:
    """Two H200 after a burn-in in which another program, which was on PATH, passed as well."""
    key = "run:gpu_burn -m 90% -tc 300"
    changes = {
        key: {"stdout": GPU_BURN, "stderr": "", "exit_code": 0},
        "burnin:plan()": {"with": {"tools": [key]}},
    }
    made = patch(
        load(str(COMMITTED.parent / "h200-2x-quick.json.gz")),
        {**changes, "run:dcgmi diag -r 1 -j": None},
    )
    return Recording(made.meta._replace(synthetic=True), made.scope, made)


VARIANTS: dict[str, Callable[[], Recording]] = {
    "container-4-of-8": container_of_four,
    "driver-not-loaded": driver_not_loaded,
    "h100-8x-r535": old_driver,
    "no-card": no_gpu,
    "unknown-card": unknown_gpu,
    "unmatched-machine": unmatched,
    "a100-8x-ib": lambda: site_named("8 x A100 80 GB in a DGX A100", DGX_A100),
    "a100-40gb-cloud": lambda: site_named("8 x A100 40 GB in a virtual machine", CLOUD_A100),
    "h200-8x-ib": lambda: site_named("8 x H200 in a PowerEdge XE9680", DELL_H200),
    "b200-8x-ib": lambda: site_named("8 x B200 in a DGX B200", DGX_B200),
    "gb200-4x": lambda: site_named("a tray of four GB200", GB200_TRAY),
    "h200-2x-gpu-burn": with_gpu_burn,
    "t4-4x": lambda: site_named("4 x T4 in a server", FOUR_T4),
}

if __name__ == "__main__":
    save(eight_gpus(), str(COMMITTED))
