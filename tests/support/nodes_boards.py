"""The GPUs and machines that the synthetic recordings show: published figures, each with its
source.

Figures come from the public files that the project's fact sheets quote (NVIDIA
open-gpu-kernel-modules g_nv_name_released.h for names and ids, public nvidia-smi dumps for memory
and power, ml-engineering's and OCI oci-hpc's files for links), and from a real H200 machine.
Firmware versions, serials and addresses are invented in the real shape. Nothing here is taken from
the profiles that judge these machines.
"""

from __future__ import annotations

from typing import NamedTuple


class Board(NamedTuple):
    """A GPU's model: what NVML and PCI say of every one of its kind; *lacks* names what it says
    is not supported.
    """

    name: str
    pci_id: str
    subsystem: str
    memory_bytes: int
    vbios: str
    inforom: str
    part_number: str
    power_mw: int
    links: int = 18
    link_mb_s: int = 26562
    pcie: tuple[int, int] = (16, 5)  # lanes, generation
    banks: int = 3072
    health_mask: int = 0
    lacks: frozenset[str] = frozenset()


RETIRED = frozenset({"RetiredPagesPendingStatus", "29", "30"})  # Ampere and newer remap rows
LINK_ERRORS = frozenset(
    {"161", "162", "163"}
)  # NVML change log: in place of older fields on Hopper, removed on Blackwell
LIMITS = frozenset(
    {"TemperatureThreshold"}
)  # NVML: no longer the way to ask on Ada and newer, "may be removed"; gone here
NVLINK5 = frozenset({"208", "211", "214", "220"})  # in their place from Blackwell on
HOPPER = RETIRED | NVLINK5
BLACKWELL = RETIRED | LINK_ERRORS | LIMITS
# NVML's fabric health mask: two bits a question, 2 is "no"; from bit 8 the configuration, 1 is "no
# mistake".
ALL_WELL = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8

H100 = Board(
    name="NVIDIA H100 80GB HBM3",  # the name list: 2330, subsystems 16c0 and 16c1
    pci_id="10DE:2330",
    subsystem="10DE:16C1",
    memory_bytes=81559 << 20,  # public dumps
    vbios="96.00.99.00.01",
    inforom="G520.0200.00.05",
    part_number="692-2G520-0200-000",
    power_mw=700000,  # public dumps
    links=18,  # OCI check_gpu_setup.py
    link_mb_s=26562,  # ml-engineering: GPUs print 26.5625 GB/s; read on an H200
    pcie=(16, 5),  # ml-engineering
    banks=2560,  # a real H200 has 512 banks for each of its six stacks; the H100 has five
    health_mask=ALL_WELL,
    lacks=HOPPER,
)
H200 = H100._replace(
    name="NVIDIA H200",  # all of it read on a real machine
    pci_id="10DE:2335",
    subsystem="10DE:18BE",
    memory_bytes=150754820096,
    vbios="96.00.A5.00.1A",
    inforom="G520.0282.02.02",
    part_number="692-2G520-0282-001",
    banks=3072,
    health_mask=0,
)
A100_80GB = Board(
    name="NVIDIA A100-SXM4-80GB",  # the name list: 20b2, subsystems 1463, 147f, 1622, 1623
    pci_id="10DE:20B2",
    subsystem="10DE:1463",
    memory_bytes=81920 << 20,  # public dumps
    vbios="92.00.45.00.05",
    inforom="G506.0210.00.03",
    part_number="692-2G506-0210-003",
    power_mw=400000,  # public dumps; 500 W boards exist
    links=12,  # OCI check_gpu_setup.py
    link_mb_s=25000,  # OCI check_gpu_setup.py, ml-engineering: 25 GB/s a link and direction
    pcie=(16, 4),  # ml-engineering; gcm, DGX_A100.json
    banks=640,  # NVIDIA GPU memory error management guide
    # An A100 does not register with the fabric: `Fabric State: N/A` beside a running Fabric Manager
    # (bottlerocket, PR 3873).
    lacks=RETIRED | LINK_ERRORS | NVLINK5 | {"GpuFabricInfoV"},
)
A100_40GB = A100_80GB._replace(
    name="NVIDIA A100-SXM4-40GB",  # the name list: 20b0
    pci_id="10DE:20B0",
    subsystem="10DE:134F",
    memory_bytes=40960 << 20,  # public dump
    inforom="G506.0200.00.04",
    part_number="692-2G506-0200-002",
)
B200 = Board(
    name="NVIDIA B200",  # the name list: 2901, subsystems 1999, 199b, 20da
    pci_id="10DE:2901",
    subsystem="10DE:1999",
    memory_bytes=183359 << 20,  # public dumps
    vbios="97.00.82.00.22",
    inforom="G525.0225.00.03",
    part_number="692-2G525-0225-000",
    power_mw=1000000,  # public dumps
    links=18,  # OCI check_gpu_setup.py
    link_mb_s=53125,  # ml-engineering: GPUs print 53.125 GB/s
    pcie=(16, 5),  # inferred from x86 HGX boards
    banks=5760,  # read on a B300, which has as many stacks
    health_mask=ALL_WELL,
    lacks=BLACKWELL,
)
GB200 = B200._replace(
    name="NVIDIA GB200",  # the name list: 2941, subsystems 2046, 20ca, 20d5, 21c9, 21ca
    pci_id="10DE:2941",
    subsystem="10DE:2046",
    memory_bytes=189471 << 20,  # public dumps
    vbios="97.00.B9.00.76",
    inforom="G548.0201.00.06",
    part_number="692-2G548-0201-000",
    power_mw=1200000,  # public dumps
    pcie=(
        1,
        5,
    ),  # DCGM's floor is x1: the host link is NVLink-C2C, and nothing is expected of the generation
    health_mask=0,  # gpud, PR 1106: every question "not supported" on a working tray
)
T4 = Board(
    name="Tesla T4",  # the name list: 1eb8, subsystem 12a2
    pci_id="10DE:1EB8",
    subsystem="10DE:12A2",
    memory_bytes=15360 << 20,  # public dump
    vbios="90.04.38.00.03",
    inforom="G183.0200.00.02",
    part_number="900-2G183-0000-000",
    power_mw=70000,  # DCGM loads it with 65 W
    links=0,
    pcie=(8, 3),  # often x8 in servers
    lacks=frozenset(
        {
            "ModuleId", "MigMode", "SramEccErrorStatus", "RemappedRows", "RowRemapperHistogram", "UnrepairableMemoryFlag_v1",
            "RepairStatus", "GpuFabricInfoV", "82", "91", "161", "162", "163", "164", "165",
        }
        | NVLINK5
    ),
)  # fmt: skip


class Seat(NamedTuple):
    """Where one GPU and the HCA beside it sit: root bus, HCA, GPU, chassis slots, module number
    on the board.
    """

    root: str
    hca: str
    gpu: str
    slots: tuple[str, str]
    module: int


# The boards' numbers follow neither addresses nor indexes, as on the real ones.
SEATS = (
    Seat("0000:15", "0000:18:00.0", "0000:1b:00.0", ("38", "21"), 3),
    Seat("0000:3d", "0000:40:00.0", "0000:43:00.0", ("39", "22"), 1),
    Seat("0000:4c", "0000:4f:00.0", "0000:52:00.0", ("37", "23"), 4),
    Seat("0000:5b", "0000:5e:00.0", "0000:61:00.0", ("36", "24"), 2),
    Seat("0000:97", "0000:9a:00.0", "0000:9d:00.0", ("32", "25"), 7),
    Seat("0000:bd", "0000:c0:00.0", "0000:c3:00.0", ("31", "26"), 5),
    Seat("0000:cb", "0000:ce:00.0", "0000:d1:00.0", ("33", "27"), 8),
    Seat("0000:d9", "0000:dc:00.0", "0000:df:00.0", ("34", "28"), 6),
)
# A Grace tray has a domain for each root port and no slots: two GPUs to a processor.
TRAY = (
    Seat("0008:00", "0000:03:00.0", "0008:01:00.0", ("", ""), 2),
    Seat("0009:00", "0002:03:00.0", "0009:01:00.0", ("", ""), 1),
    Seat("0018:00", "0010:03:00.0", "0018:01:00.0", ("", ""), 4),
    Seat("0019:00", "0012:03:00.0", "0019:01:00.0", ("", ""), 3),
)


class Site(NamedTuple):
    """A machine: its board of GPUs, where they sit, its names, its driver, its network, its
    processors.
    """

    board: Board = H100
    seats: tuple[Seat, ...] = SEATS
    vendor: str = "Dell Inc."
    product: str = "PowerEdge XE9680"
    base: str = "0KK0RG"
    driver: str = "580.159.04"
    flavour: str = "open"
    hcas: tuple[str, ...] = (
        "mlx5_0",
        "mlx5_1",
        "mlx5_2",
        "mlx5_3",
        "mlx5_4",
        "mlx5_5",
        "mlx5_6",
        "mlx5_7",
    )
    rate: str = "400 Gb/sec (4X NDR)"
    switches: tuple[str, ...] = ("83", "84", "85", "86")
    arm: bool = False
    guest: bool = False

    @property
    def branch(self) -> int:
        """The driver's branch."""
        return int(self.driver.split(".")[0])


# An NVIDIA DGX A100 has its eight HCAs at 0 to 3 and 6 to 9 (gcm, DGX_A100.json), six switches, and
# 200 Gb/s (Azure, gpud).
DGX_A100 = Site(
    A100_80GB,
    vendor="NVIDIA",
    product="DGXA100 920-23687-2530-000",
    base="DGXA100",
    driver="535.183.06",
    flavour="proprietary",
    hcas=("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"),
    rate="200 Gb/sec (4X HDR)",
    switches=("c4", "c5", "c6", "c7", "c8", "c9"),
)
# A virtual machine with all eight GPUs and no InfiniBand (AWS p4d.24xlarge has EFA).
CLOUD_A100 = DGX_A100._replace(
    board=A100_40GB,
    vendor="Amazon EC2",
    product="p4d.24xlarge",
    base="Not Specified",
    hcas=(),
    guest=True,
    driver="550.163.01",
)
DELL_H200 = Site(H200)
# OCI BM.GPU.B200.8, gpud threshold_default.go: eight at 400 Gb/s. HGX B200 keeps its switches
# behind InfiniBand functions.
DGX_B200 = Site(
    B200,
    vendor="NVIDIA",
    product="DGXB200",
    base="DGXB200",
    driver="570.133.20",
    hcas=("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"),
    switches=(),
)
# OCI BM.GPU.GB200.4, gpud issue 383: four ports at 400 Gb/s.
GB200_TRAY = Site(
    GB200,
    TRAY,
    vendor="NVIDIA",
    product="Tray of four",
    base="P0000",
    hcas=("mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4"),
    switches=(),
    arm=True,
)
FOUR_T4 = Site(T4, SEATS[:4], product="PowerEdge R7525", base="0000T4", hcas=(), switches=())
