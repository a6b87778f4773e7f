"""Records of a GPU."""

from typing import NamedTuple


class Mode(NamedTuple):
    """A setting that changes at a reset: as it is, and as it will be."""

    current: bool
    pending: bool


class EccErrors(NamedTuple):
    """Uncorrected and corrected memory errors: since the driver loaded (volatile), and over the card's life."""

    uncorrected_volatile: int
    uncorrected_aggregate: int
    corrected_volatile: int
    corrected_aggregate: int


class RemappedRows(NamedTuple):
    """Row remapping: rows remapped after correctable and uncorrectable errors, and its two flags."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class Pcie(NamedTuple):
    """The card's PCIe link: lanes and generation now and at most; replays since the driver loaded."""

    width: int
    max_width: int
    generation: int
    max_generation: int
    replays: int


class Power(NamedTuple):
    """Power in watts: drawn now, the limit in force and the default limit."""

    usage_w: float
    limit_w: float
    default_limit_w: float


class NvLink(NamedTuple):
    """One NVLink of the card."""

    number: int
    active: bool


class ClockReasons(NamedTuple):
    """Why the clocks are held down (NVML clocks event reasons), true only where every sample says so."""

    hw_slowdown: bool
    sw_thermal: bool
    hw_thermal: bool
    power_brake: bool


class Gpu(NamedTuple):
    """One card. *address* is its PCI address; *access* tells whether the driver can talk to it.

    *device_id* reads `10de:2335`; *module_id* is the board's module number, *physical_slot* the chassis slot and
    *root_port* the PCIe root port above the card; *recovery_action* is NVML field 230 (0 none, 1 reset, 2 reboot,
    3 drain P2P, 4 drain and reset, 5 IMEX domain, 6 bus reset, 7 system reboot).
    """

    address: str
    label: str
    device_id: str
    kernel_driver: str
    root_port: str
    physical_slot: str
    access: str
    nvml_index: int
    minor: int
    module_id: int
    name: str
    uuid: str
    serial: str
    part_number: str
    vbios: str
    inforom: str
    gsp_firmware: str
    memory_mib: int
    ecc_mode: Mode
    mig_mode: Mode
    persistence: bool
    ecc_errors: EccErrors
    remapped_rows: RemappedRows
    recovery_action: int
    pcie: Pcie
    nvlinks: tuple[NvLink, ...]
    power: Power
    temperature_c: int
    clock_reasons: ClockReasons
    performance_state: int
