"""Recordings of machines that nobody lent us, written from published figures and the shape of real ones.

Figures of the cards are those of the vendor's and operators' public files and of a real H200 machine; names, serials
and addresses of machines are invented. Nothing here is taken from the profiles that judge these recordings.
`python tests/nodes_synthetic.py` writes the committed recording anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpuscan import __version__, collectors
from gpuscan.collectors import kernel
from gpuscan.facts import Unread, is_unread
from gpuscan.recording import Reading, Recording, patch, save

COMMITTED = Path(__file__).parent / "recordings" / "h100-8x-ib.json.gz"
STARTED_S = 1795900000.0
DRIVER = "580.159.04"


class Board(NamedTuple):
    """A card's model: what NVML and PCI say of every one of its kind."""

    name: str
    pci_id: str
    subsystem: str
    memory_bytes: int
    vbios: str
    inforom: str
    part_number: str


H100 = Board(
    "NVIDIA H100 80GB HBM3", "10DE:2330", "10DE:16C1", 81559 << 20, "96.00.99.00.01", "G520.0200.00.05", "692-2G520-0200-000"
)
H200 = Board("NVIDIA H200", "10DE:2335", "10DE:18BE", 150754820096, "96.00.A5.00.1A", "G520.0282.02.02", "692-2G520-0282-001")


class Seat(NamedTuple):
    """Where one card and the HCA beside it sit: root bus, HCA, card, chassis slots, module number on the board."""

    root: str
    hca: str
    card: str
    slots: tuple[str, str]
    module: int


# The boards' numbers follow neither addresses nor indexes, as on the real ones.
SEATS = (
    Seat("15", "0000:18:00.0", "0000:1b:00.0", ("38", "21"), 3),
    Seat("3d", "0000:40:00.0", "0000:43:00.0", ("39", "22"), 1),
    Seat("4c", "0000:4f:00.0", "0000:52:00.0", ("37", "23"), 4),
    Seat("5b", "0000:5e:00.0", "0000:61:00.0", ("36", "24"), 2),
    Seat("97", "0000:9a:00.0", "0000:9d:00.0", ("32", "25"), 7),
    Seat("bd", "0000:c0:00.0", "0000:c3:00.0", ("31", "26"), 5),
    Seat("cb", "0000:ce:00.0", "0000:d1:00.0", ("33", "27"), 8),
    Seat("d9", "0000:dc:00.0", "0000:df:00.0", ("34", "28"), 6),
)
CARDS = tuple(seat.card for seat in SEATS)
BOND = ("mlx5_bond_0", "0000:2a:00.0")

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
        return f"{driver}{ids}PCI_SLOT_NAME={self.address}\nMODALIAS=pci:v0000{vendor}d0000{device}\n"


def _devices(board: Board) -> list[Device]:
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
    for bus in ("83", "84", "85", "86"):
        switch = Device(f"0000:{bus}:00.0", "nvidia-nvswitch", "68000", "10DE:22A3", "10DE:1796", ("0000:81:01.0",))
        found.append(switch)
    for seat in SEATS:
        first = int(seat.root, 16)
        port, up = f"0000:{seat.root}:01.0", f"0000:{first + 1:02x}:00.0"
        down = tuple(f"0000:{first + 2:02x}:0{number}.0" for number in (0, 1, 2))
        found.append(Device(port, "pcieport", "60400", "8086:352A", "8086:0000"))
        found += [Device(bridge, "pcieport", "60400", "1000:C030", "1000:100B", (port,)) for bridge in (up, *down)]
        found.append(Device(f"0000:{first + 4:02x}:00.0", "nvme", "10802", "1344:51C3", "1344:4100", (port, up, down[1])))
        found.append(Device(seat.hca, "mlx5_core", "20700", "15B3:1021", "15B3:0041", (port, up, down[0])))
        found.append(Device(seat.card, "nvidia", "30200", board.pci_id, board.subsystem, (port, up, down[2])))
    return sorted(found)


def _host() -> Answers:
    dmi = {
        "sys_vendor": "Dell Inc.",
        "product_name": "PowerEdge XE9680",
        "board_name": "0KK0RG",
        "product_serial": "ZZTEST1",
        "bios_version": "2.3.5",
        "board_serial": ".ZZTEST1.CNZZZ0000000AA.",
        "chassis_serial": "ZZTEST1",
        "product_uuid": "4c4c4544-0000-4000-8000-00000000042a",
        "bios_date": "09/10/2024",
    }
    flags = "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht avx512f amx_bf16"
    return {
        "file:/proc/sys/kernel/hostname": "gpu-042\n",
        "file:/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "file:/proc/sys/kernel/random/boot_id": "11111111-2222-4333-8444-555555555555\n",
        "file:/proc/uptime": "5321.77 1010423.51\n",
        "file:/proc/sys/kernel/osrelease": "5.15.0-112-generic\n",
        "file:/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n',
        "file:/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n"
        f"siblings\t: 112\ncpu cores\t: 56\nflags\t\t: {flags}\nbugs\t\t:\n\n",
        **{f"file:/sys/class/dmi/id/{name}": f"{value}\n" for name, value in dmi.items()},
    }


def _pci(board: Board) -> Answers:
    devices = _devices(board)
    slots = {number: address for seat in SEATS for number, address in zip(seat.slots, (seat.hca, seat.card), strict=True)}
    minors = range(len(SEATS))
    dev = ["infiniband", "kmsg", "mem", "null", "nvidia-caps", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl", "sda", "zero"]
    dev += [f"nvidia{n}" for n in minors] + [f"nvidia-nvswitch{n}" for n in range(4)] + [f"nvme{n}" for n in minors]
    return {
        "dir:/sys/bus/pci/devices": [device.address for device in devices],
        "dir:/sys/bus/pci/slots": sorted(slots),
        "dir:/dev": sorted(dev),
        **{f"file:/sys/bus/pci/slots/{slot}/address": f"{address[:-2]}\n" for slot, address in slots.items()},
        **{f"file:/sys/bus/pci/devices/{device.address}/uevent": device.uevent for device in devices},
        **{f"link:/sys/bus/pci/devices/{device.address}": _path(device) for device in devices},
    }


def _path(device: Device) -> str:
    way = (*device.above, device.address)
    return f"../../../devices/pci{way[0].rsplit(':', 1)[0]}/{'/'.join(way)}"


def _infiniband() -> Answers:
    hcas = {f"mlx5_{number}": seat.hca for number, seat in enumerate(SEATS)}
    answers: Answers = {"dir:/sys/class/infiniband": sorted([*hcas, BOND[0]])}
    for name, address in hcas.items():
        answers |= _hca(name, address, ("28.43.2026", "ZZT0000000001", "MT4129"), ("InfiniBand", "400 Gb/sec (4X NDR)"), "0\n")
    # The counters of a bonded function that the host may not touch answer with EINVAL.
    refused = Unread("", "garbled", "Invalid argument", 22)
    return answers | _hca(*BOND, ("32.43.2026", "ZZT0000000002", "MT41692"), ("Ethernet", "200 Gb/sec (2X NDR)"), refused)


def _hca(name: str, address: str, board: tuple[str, str, str], link: tuple[str, str], counter: Any) -> Answers:
    base = f"/sys/class/infiniband/{name}"
    port = f"file:{base}/ports/1"
    return {
        f"dir:{base}/ports": ["1"],
        f"link:{base}/device": f"../../../{address}",
        **{f"file:{base}/{file}": f"{value}\n" for file, value in zip(("fw_ver", "board_id", "hca_type"), board, strict=True)},
        f"{port}/link_layer": f"{link[0]}\n",
        f"{port}/state": "4: ACTIVE\n",
        f"{port}/phys_state": "5: LinkUp\n",
        f"{port}/rate": f"{link[1]}\n",
        **{f"{port}/counters/{counted}": counter for counted in ("link_downed", "symbol_error", "link_error_recovery")},
    }


def _driver() -> Answers:
    return {
        "file:/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build  "
        "(build@host)  \nGCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04) \n",
        "file:/proc/modules": "nvidia_uvm 1830912 0 - Live 0x0000000000000000 (O)\n"
        "nvidia 14299136 120 nvidia_uvm, Live 0x0000000000000000 (O)\nmlx5_ib 466944 0 - Live 0x0000000000000000\n",
        "kmsg:/dev/kmsg": _log(),
        "nvml:nvmlInit()": True,
        "nvml:nvmlSystemGetDriverVersion()": DRIVER,
        "nvml:nvmlSystemGetNVMLVersion()": f"13.{DRIVER}",
        "nvml:nvmlSystemGetCudaDriverVersion()": 13000,
        "nvml:nvmlDeviceGetCount()": len(SEATS),
    }


def _log() -> list[str]:
    """A boot's ring buffer: the kernel's own records, and two that a program wrote."""
    lines = [
        "5;Linux version 5.15.0-112-generic (build@host) (gcc 11.4.0) #122-Ubuntu SMP",
        "6;DMI: Dell Inc. PowerEdge XE9680/0KK0RG, BIOS 2.3.5 09/10/2024",
        "6;pci_bus 0000:15: root bus resource [bus 15-25]",
        *(f"6;pci {seat.card}: [10de:2330] type 00 class 0x030200" for seat in SEATS),
        "30;systemd[1]: Inserted module 'autofs4'",
        *(f"6;mlx5_core {seat.hca}: firmware version: 28.43.2026" for seat in SEATS),
        "4;nvidia: loading out-of-tree module taints kernel.",
        "6;nvidia-nvlink: Nvlink Core is being initialized, major device number 234",
        "6;nvidia-nvswitch3: open (major=509)",
        f"4;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build  (build@host)",
        *(["4;NVRM: gpuClearFbhubPoisonIntrForBug2924523_GA100: FBHUB Interrupt detected. Clearing it."] * len(SEATS)),
        "6;nvidia-uvm: Loaded the UVM driver, major device number 507.",
        "30;systemd[1]: Started NVIDIA fabric manager service.",
    ]
    rows = (line.partition(";") for line in lines)
    return [f"{priority},{number},{number * 312_500},-;{message}" for number, (priority, _, message) in enumerate(rows)]


def _card(number: int, seat: Seat, board: Board) -> Answers:
    uuid = f"GPU-000000{number:02x}-0100-4000-8000-0000000001{number:02x}"
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
        "GspFirmwareVersion": DRIVER,
        "MemoryInfo": {"total": board.memory_bytes, "free": board.memory_bytes - 644939776, "used": 644939776},
        "EccMode": [1, 1],
        "MigMode": [0, 0],
        "PersistenceMode": 1,
        "RemappedRows": [0, 0, 0, 0],
        "PerformanceState": 0,
        "CurrPcieLinkWidth": 16,
        "MaxPcieLinkWidth": 16,
        "CurrPcieLinkGeneration": 5,
        "GpuMaxPcieLinkGeneration": 5,
        "PcieReplayCounter": number % 3,  # a few replays are healthy
        "PowerUsage": 70000 + 311 * number,
        "PowerManagementLimit": 700000,
        "PowerManagementDefaultLimit": 700000,
        "CurrentClocksEventReasons": 1,  # idle
    }
    with_arguments = {
        "Temperature": {"0": 30 + number},
        "TotalEccErrors": {"1,0": 0, "1,1": 0, "0,0": 0, "0,1": 2 * number},
        "FieldValues": {"230,0": 0, "91,0": 18, **{f"165,{link}": 1 for link in range(18)}},
    }
    information = (
        f"Model: \t\t {board.name}\nIRQ:   \t\t {120 + number}\nGPU UUID: \t {uuid}\nVideo BIOS: \t {board.vbios.lower()}\n"
        f"Bus Type: \t PCIe\nBus Location: \t {seat.card}\nDevice Minor: \t {number}\nGPU Excluded:\t No\n"
    )
    return {
        f"file:/proc/driver/nvidia/gpus/{seat.card}/information": information,
        **{f"nvml:nvmlDeviceGet{call}({seat.card})": value for call, value in calls.items()},
        **{
            f"nvml:nvmlDeviceGet{call}({seat.card},{arguments})": value
            for call, answers in with_arguments.items()
            for arguments, value in answers.items()
        },
    }


def answers_of(board: Board = H100) -> Answers:
    """Everything that the healthy eight-card machine says, by reading."""
    cards = [_card(number, seat, board) for number, seat in enumerate(SEATS)]
    answers = _host() | _pci(board) | _infiniband() | _driver()
    for card in cards:
        answers |= card
    return answers


def scanned(answers: Mapping[str, Any], about: str) -> Recording:
    """A recording of what the collectors ask of a machine that gives these answers, in the order of a scan."""
    meta = {"gpuscan_version": __version__, "made_at": STARTED_S, "duration_s": 1.5, "synthetic": True, "about": about}
    recording = Recording(meta, ["*"])
    while wanted := [key for key in collectors.plan(recording) if key not in recording]:
        for key in wanted:
            recording.add(_reading(key, answers, STARTED_S + len(list(recording.keys())) / 1000))
    calls = tuple(f"nvml:{call}(" for call in collectors.again())
    for key in [reading.key for reading in recording if reading.key.startswith(calls) and reading.error is None]:
        recording.add(_reading(key, answers, STARTED_S + 1.5))
    return recording


def _reading(key: str, answers: Mapping[str, Any], at_s: float) -> Reading:
    if key not in answers:
        raise KeyError(f"tests/nodes_synthetic.py has no answer to {key}: give one, then run it to write the recording anew")
    value = answers[key]
    if is_unread(value):
        return Reading(key, None, value._replace(key=key), round(at_s, 3), 0.1)
    return Reading(key, value, None, round(at_s, 3), 0.1)


def eight_cards(board: Board = H100) -> Recording:
    """Eight SXM cards on one board, eight InfiniBand ports at 400 Gb/s, one bonded Ethernet port; all healthy."""
    return scanned(answers_of(board), f"synthetic: 8 x {board.name} in a PowerEdge XE9680, all healthy")


def _cut(recording: Recording, about: str, changes: Mapping[str, Any], log: tuple[str, ...] = ()) -> Recording:
    changed = patch(recording, changes, log)
    return Recording({**changed.meta, "about": f"synthetic: {about}"}, changed.scope, list(changed))


def no_card() -> Recording:
    """A server without NVIDIA cards, driver and InfiniBand."""
    board = {f"0000:{bus}:00.0" for bus in ("83", "84", "85", "86")}
    absent = {device.address for device in _devices(H100) if device.driver in ("nvidia", "mlx5_core")} | board
    lacks = Unread("", "not-found", "No such file or directory", 2)
    answers = {key: value for key, value in answers_of().items() if not any(address in key for address in absent)}
    answers |= {
        "dir:/sys/bus/pci/devices": [address for address in answers["dir:/sys/bus/pci/devices"] if address not in absent],
        "dir:/sys/bus/pci/slots": [],
        "dir:/dev": ["kmsg", "mem", "null", "sda", "zero"],
        "dir:/sys/class/infiniband": lacks,
        "file:/proc/driver/nvidia/version": lacks,
        "file:/proc/modules": "tg3 180224 0 - Live 0x0000000000000000\n",
        "nvml:nvmlInit()": Unread("", "not-found", "NVML Shared Library Not Found", 12),
    }
    answers |= {key: Unread("", "not-found", "NVML Shared Library Not Found", 12) for key in answers if key.startswith("nvml:")}
    return scanned(answers, "synthetic: a server without NVIDIA cards")


def container_of_four() -> Recording:
    """A container that is given four of the eight cards: PCI shows all, NVML and /dev four, the log is denied."""
    answers = answers_of()
    lacks = Unread("", "not-found", "No such file or directory", 2)
    answers |= {
        "nvml:nvmlDeviceGetCount()": 4,
        "dir:/dev": [name for name in answers["dir:/dev"] if name not in {f"nvidia{minor}" for minor in range(4, 8)}],
        kernel.KMSG: Unread("", "no-permission", "Operation not permitted", 1),
        kernel.JOURNAL: lacks,
        kernel.DMESG: Unread("", "no-permission", "dmesg: read kernel buffer failed: Operation not permitted", 1),
    }
    hidden = CARDS[4:]
    answers |= {f"file:/proc/driver/nvidia/gpus/{card}/information": lacks for card in hidden}
    asked = [key for key in answers if key.startswith("nvml:") and any(card in key for card in hidden)]
    answers |= {key: Unread("", "not-found", "Not Found", 6) for key in asked}
    return scanned(answers, "synthetic: a container that is given four of eight cards")


def old_driver() -> Recording:
    """The eight cards under driver R535, which has no field 230."""
    old = "535.183.06"
    banner = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {old}  Wed Jun 26 06:46:07 UTC 2024\nGCC version:  gcc 12.3.0\n"
    changes = {
        "file:/proc/driver/nvidia/version": banner,
        "nvml:nvmlSystemGetDriverVersion()": old,
        "nvml:nvmlSystemGetNVMLVersion()": f"12.{old}",
        "nvml:nvmlSystemGetCudaDriverVersion()": 12020,
        "nvml:nvmlDeviceGetGspFirmwareVersion(*": old,
        "nvml:nvmlDeviceGetFieldValues(*,230,0)": {"error": ["not-supported", "Invalid Argument"]},
    }
    return _cut(eight_cards(), "eight cards under driver R535", changes)


def driver_not_loaded() -> Recording:
    """The eight cards without a driver: nothing bound, nothing in /dev, NVML refuses."""
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
        "kmsg:/dev/kmsg": [line for line in answers["kmsg:/dev/kmsg"] if "NVRM" not in line and "nvidia" not in line],
        **{key: lacks for key in answers if key.startswith("file:/proc/driver/nvidia/gpus/")},
        **{key: refused for key in answers if key.startswith("nvml:")},
    }
    return scanned(answers, "synthetic: eight cards, the driver not loaded")


def unmatched() -> Recording:
    """The eight cards in a machine that no profile knows."""
    dmi = "file:/sys/class/dmi/id/"
    changes = {f"{dmi}sys_vendor": "Nobody Ltd.\n", f"{dmi}product_name": "N-8000\n", f"{dmi}board_name": "N8\n"}
    return _cut(eight_cards(), "eight cards in an unknown machine", changes)


def unknown_card() -> Recording:
    """Eight cards of a model that no profile knows, in a machine that one does."""
    changes = {
        f"file:/sys/bus/pci/devices/{card}/uevent": answers_of()[f"file:/sys/bus/pci/devices/{card}/uevent"].replace(
            "10DE:2330", "10DE:2FFF"
        )
        for card in CARDS
    }
    return _cut(eight_cards(), "eight cards of an unknown model", changes)


VARIANTS: dict[str, Callable[[], Recording]] = {
    "container-4-of-8": container_of_four,
    "driver-not-loaded": driver_not_loaded,
    "h100-8x-r535": old_driver,
    "h200-8x-ib": lambda: eight_cards(H200),
    "no-card": no_card,
    "unknown-card": unknown_card,
    "unmatched-machine": unmatched,
}

if __name__ == "__main__":
    save(eight_cards(), str(COMMITTED))
