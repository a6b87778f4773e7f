"""Records of a GPU."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Mode(NamedTuple):
    """A setting that changes at a reset: as it is, and as it will be."""

    current: bool
    pending: bool


class Counter(NamedTuple):
    """A counter read twice within the scan: its total, which is history, and its growth, which is
    now.
    """

    total: int
    growth: int


class EccErrors(NamedTuple):
    """Uncorrected and corrected memory errors: since the driver loaded (volatile), and over the
    GPU's life.
    """

    uncorrected_volatile: int
    uncorrected_aggregate: int
    corrected_volatile: int
    corrected_aggregate: int


class Sram(NamedTuple):
    """SRAM errors: uncorrectable ones since the driver loaded, and whether NVIDIA's threshold over
    the life is passed.
    """

    uncorrectable_volatile: int
    uncorrectable_aggregate: int
    threshold_exceeded: bool
    sources: str


class RemappedRows(NamedTuple):
    """Row remapping: rows remapped after correctable and uncorrectable errors, and its two flags."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class SpareRows(NamedTuple):
    """Memory banks by the spare rows that they have left, from all to none."""

    max: int
    high: int
    partial: int
    low: int
    none: int


class RetiredPages(NamedTuple):
    """Pages retired after single-bit and double-bit errors (GPUs before Ampere), and whether one
    waits.
    """

    single_bit: int
    double_bit: int
    pending: bool


class Repair(NamedTuple):
    """Repairs that wait for a reset: of a memory channel, of a texture processing cluster."""

    channel_pending: bool
    tpc_pending: bool


class Pcie(NamedTuple):
    """The GPU's PCIe link: lanes and generation now and at most, and replays."""

    width: int
    max_width: int
    generation: int
    max_generation: int
    replays: Counter


class Aer(NamedTuple):
    """Advanced error reporting of the GPU's PCIe function: totals by severity, from sysfs."""

    fatal: Counter
    nonfatal: Counter


class Power(NamedTuple):
    """Power in watts: drawn now, the limit in force and the default limit."""

    usage_w: float
    limit_w: float
    default_limit_w: float


class Temperature(NamedTuple):
    """Temperatures in degrees Celsius: core and memory now, and the GPU's own limits."""

    core_c: int
    memory_c: int
    slowdown_c: int
    memory_max_c: int


class NvLink(NamedTuple):
    """One NVLink of the GPU: up or not, its rate one way in MB/s, and its error counters."""

    number: int
    active: bool
    rate_mb_s: int
    replays: Counter
    recoveries: Counter
    crc_errors: Counter


class ClockReasons(NamedTuple):
    """Why the clocks are held down (NVML clocks event reasons), true only where every sample says
    so.
    """

    application_clocks: bool
    hw_slowdown: bool
    sync_boost: bool
    sw_thermal: bool
    hw_thermal: bool
    power_brake: bool


class Throttled(NamedTuple):
    """Nanoseconds for which the clocks were held down by a policy (NVML performance policies)."""

    thermal_ns: Counter
    board_limit_ns: Counter
    reliability_ns: Counter


class Fabric(NamedTuple):
    """The GPU's registration with the NVLink fabric. *state*: 0 not supported, 1 not started, 2 in
    progress, 3 completed.

    *status* is an NVML return code. Of the health mask: 0 no word, 1 true, 2 false for each
    question; *misconfigured* 0 no word, 1 none, else NVIDIA's number of the mistake.
    """

    state: int
    status: int
    degraded_bandwidth: int
    route_unhealthy: int
    access_timeout: int
    misconfigured: int


class BusLink(NamedTuple):
    """The GPU's PCIe link as sysfs or lspci shows it: whether the GPU answers on the bus at all,
    the lanes in use, whether both ends have more of them (*narrow*), and the grave errors that are
    latched in its AER status (`SDES`, `DLP`).
    """

    answers: bool
    width: int
    narrow: bool
    latched: tuple[str, ...]


class Process(NamedTuple):
    """A program that computes on the GPU."""

    pid: int


class Gpu(NamedTuple):
    """One GPU. *address* is its PCI address; *access* tells whether the driver can talk to it.

    *device_id* reads `10de:2335`; *module_id* is the board's module number, *physical_slot* the
    chassis slot and *root_port* the PCIe root port above the GPU; *recovery_action* is NVML field
    230 (0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset, 5 IMEX domain, 6 bus reset, 7
    system reboot); *busy_percent* is how much of the time a program ran on it, *link_generation*
    the highest PCIe generation that both ends have; *logged_serial* and *logged_uuid* are what the
    driver logged of the GPU when it failed: a dead GPU tells no more.
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
    compute_mode: int
    processes: Fact[tuple[Process, ...]]
    ecc_errors: EccErrors
    sram: Sram
    remapped_rows: RemappedRows
    spare_rows: SpareRows
    retired_pages: RetiredPages
    unrepairable_memory: bool
    repair: Repair
    recovery_action: int
    pcie: Pcie
    aer: Aer
    nvlinks: tuple[NvLink, ...]
    fabric: Fabric
    power: Power
    temperature: Temperature
    clock_reasons: ClockReasons
    throttled: Throttled
    performance_state: int
    busy_percent: int
    link_generation: int
    bus: BusLink
    logged_serial: str
    logged_uuid: str


# Facts that no profile can ask for: every GPU gives them, or they say nothing of the hardware.
NO_CAPABILITY = frozenset(
    (
        "access",
        "address",
        "bus",
        "busy_percent",
        "device_id",
        "kernel_driver",
        "label",
        "link_generation",
        "logged_serial",
        "logged_uuid",
        "minor",
        "module_id",
        "name",
        "nvml_index",
        "performance_state",
        "physical_slot",
        "root_port",
        "uuid",
    )
)
# Of these records some GPUs give only a part.
PARTS = ("nvlinks.active", "nvlinks.rate_mb_s", "temperature.core_c", "temperature.memory_c")


def capability_names() -> tuple[str, ...]:
    """Return the facts that a profile's `capabilities` may list."""
    return tuple(sorted({*Gpu._fields, *PARTS} - NO_CAPABILITY))
