"""Records of a GPU."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Mode(NamedTuple):
    """A setting that changes at a reset: now, and after it."""

    current: Fact[bool]
    pending: Fact[bool]


class Counter(NamedTuple):
    """A counter read twice within the scan: its total, its growth between the first reading and
    the last, and the seconds between them.
    """

    total: int
    growth: Fact[int]
    seconds: float = 0.0


class EccErrors(NamedTuple):
    """Uncorrected and corrected memory errors: since the driver loaded (volatile), and over the
    GPU's life.
    """

    uncorrected_volatile: Fact[int]
    uncorrected_aggregate: Fact[int]
    corrected_volatile: Fact[int]
    corrected_aggregate: Fact[int]


class Sram(NamedTuple):
    """SRAM errors: uncorrectable ones since the driver loaded (volatile) and over the GPU's life;
    whether NVIDIA's threshold is exceeded; the units that they came from, as text.
    """

    uncorrectable_volatile: Fact[int]
    uncorrectable_aggregate: Fact[int]
    threshold_exceeded: Fact[bool]
    sources: str


class RemappedRows(NamedTuple):
    """Row remapping: rows remapped after correctable and uncorrectable errors, and its two
    flags.
    """

    correctable: Fact[int]
    uncorrectable: Fact[int]
    pending: Fact[bool]
    failed: Fact[bool]


class SpareRows(NamedTuple):
    """The number of memory banks by how many spare rows they have left, from all to none."""

    max: Fact[int]
    high: Fact[int]
    partial: Fact[int]
    low: Fact[int]
    none: Fact[int]


class RetiredPages(NamedTuple):
    """Pages retired after single-bit and double-bit errors (GPUs before Ampere); whether one waits
    for a reset.
    """

    single_bit: Fact[int]
    double_bit: Fact[int]
    pending: Fact[bool]


class Repair(NamedTuple):
    """Repairs that wait for a reset: of a memory channel, of a TPC (texture processing cluster)."""

    channel_pending: Fact[bool]
    tpc_pending: Fact[bool]


class Pcie(NamedTuple):
    """The GPU's PCIe link as NVML reports it: lanes and generation, now and at most; replays."""

    width: Fact[int]
    max_width: Fact[int]
    generation: Fact[int]
    max_generation: Fact[int]
    replays: Fact[Counter]


class Aer(NamedTuple):
    """Advanced error reporting of the GPU's PCIe function: totals by severity, from sysfs."""

    fatal: Fact[Counter]
    nonfatal: Fact[Counter]


class AerKind(NamedTuple):
    """One kind of PCIe error by its name in sysfs (`CmpltTO`), and how many were counted."""

    name: str
    total: int


class Power(NamedTuple):
    """Power in watts: drawn now, the limit in force and the default limit."""

    usage_w: Fact[float]
    limit_w: Fact[float]
    default_limit_w: Fact[float]


class Temperature(NamedTuple):
    """Temperatures in degrees Celsius: core and memory now, and the GPU's own limits."""

    core_c: Fact[int]
    memory_c: Fact[int]
    slowdown_c: Fact[int]
    memory_max_c: Fact[int]


class NvLink(NamedTuple):
    """One NVLink of the GPU: up or not, its rate one way in MB/s, and its error counters.

    From *receive_errors* on they are those of NVLink 5, which lacks the ones before;
    *bit_error_rate* is the effective one, after correction.
    """

    number: int
    active: Fact[bool]
    rate_mb_s: Fact[int]
    replays: Fact[Counter]
    recoveries: Fact[Counter]
    crc_errors: Fact[Counter]
    receive_errors: Fact[Counter]
    integrity_errors: Fact[Counter]
    failed_recoveries: Fact[Counter]
    bit_error_rate: Fact[float]


class ClockReasons(NamedTuple):
    """Reasons for lower clocks (NVML clocks event reasons); True only if all samples show it.

    *flashed* says that some samples, but not all, show a hardware slowdown of whatever cause.
    *samples* were taken within *seconds* (0 if not known).
    """

    application_clocks: Fact[bool]
    hw_slowdown: Fact[bool]
    sync_boost: Fact[bool]
    sw_thermal: Fact[bool]
    hw_thermal: Fact[bool]
    power_brake: Fact[bool]
    flashed: bool
    samples: int
    seconds: float


class Throttled(NamedTuple):
    """Nanoseconds of lower clocks by policy (NVML performance policies)."""

    thermal_ns: Fact[Counter]
    board_limit_ns: Fact[Counter]
    reliability_ns: Fact[Counter]


class Fabric(NamedTuple):
    """The GPU's registration with the NVLink fabric. *state*: 0 not supported, 1 not started, 2 in
    progress, 3 completed.

    *status* is an NVML return code. GPUs reach each other over NVLink within one *cluster* (UUID
    in hexadecimal; zeros on a board with NVSwitches of its own) and *clique*. Of the health mask: 0
    no word, 1 true, 2 false for each question (*partition*: is one assigned); *misconfigured* 0 no
    word, 1 none, else NVIDIA's number of the mistake. *summary*: 0 no word, 1 healthy, 2 unhealthy,
    3 limited capacity.
    """

    state: Fact[int]
    status: Fact[int]
    cluster: Fact[str]
    clique: Fact[int]
    degraded_bandwidth: Fact[int]
    route_recovery: Fact[int]
    route_unhealthy: Fact[int]
    access_timeout: Fact[int]
    misconfigured: Fact[int]
    partition: Fact[int]
    summary: Fact[int]


class BusLink(NamedTuple):
    """The GPU's PCIe link as sysfs or lspci shows it: whether the GPU answers on the bus, the lanes
    in use, whether both ends could use more (*narrow*), and the severe errors that are latched in
    its AER status (`SDES`, `DLP`).
    """

    answers: Fact[bool]
    width: Fact[int]
    narrow: Fact[bool]
    latched: Fact[tuple[str, ...]]


class Link(NamedTuple):
    """How a GPU's PCIe link compares: whether it has fewer lanes than both ends support (*narrow*),
    and its generation in P0; in other P-states that is unread, as the link then saves power.

    *slot_seen* says that the slot's end is known: in a guest or a pasted text it is not. The most
    lanes and the highest generation in P0 of the other GPUs of the same model are 0 if there are
    none.
    """

    lanes: Fact[int]
    narrow: Fact[bool]
    slot_seen: bool
    generation: Fact[int]
    sibling_lanes: int = 0
    sibling_generation: int = 0


class Process(NamedTuple):
    """A program on the GPU; its *name* is empty if the kernel did not give it."""

    pid: int
    name: str = ""


class Gpu(NamedTuple):
    """One GPU. *address* is its PCI address; *access* says whether the driver can talk to it: ok,
    not-loaded, mismatch, no-library, lost, reset-required, timed-out, failed, unopened or
    no-device-file.

    *role* is compute, display (a VGA adapter beside 3D controllers), lent (bound to another driver,
    such as vfio-pci) or hidden (from this container). *device_id* reads `10de:2335`;
    *virtualization* is none, passthrough, vgpu (this is a guest's vGPU), host-vgpu or host-vsga;
    *module_id* is the board's module number, *physical_slot* the chassis slot and *root_port* the
    PCIe root port above the GPU; *recovery_action* is NVML field 230 (0 none, 1 reset, 2 reboot, 3
    drain P2P, 4 drain and reset, 5 IMEX domain, 6 bus reset, 7 system reboot); *busy_percent* is
    the share of time in which a program ran on it, *link_generation* the highest PCIe generation of
    both ends; *processes* compute, those of *mps_processes* through MPS; *enforced_limit_w* is the
    lowest power limit in force, also of the BMC; *core_margin_c* the degrees left to the GPU's
    limit (T.Limit); *nonfatal_kinds* what kinds of non-fatal PCIe errors the kernel counted since
    boot; *logged_serial* and *logged_uuid* are what the driver logged when the GPU failed, often
    the only source for a dead one.
    """

    address: str
    label: str
    role: str
    device_id: Fact[str]
    kernel_driver: Fact[str]
    root_port: Fact[str]
    physical_slot: Fact[str]
    access: Fact[str]
    nvml_index: Fact[int]
    minor: Fact[int]
    module_id: Fact[int]
    name: Fact[str]
    virtualization: Fact[str]
    uuid: Fact[str]
    serial: Fact[str]
    part_number: Fact[str]
    vbios: Fact[str]
    inforom: Fact[str]
    gsp_firmware: Fact[str]
    memory_mib: Fact[int]
    ecc_mode: Fact[Mode]
    mig_mode: Fact[Mode]
    persistence: Fact[bool]
    compute_mode: Fact[int]
    processes: Fact[tuple[Process, ...]]
    graphics_processes: Fact[tuple[Process, ...]]
    mps_processes: Fact[tuple[Process, ...]]
    memory_used_mib: Fact[int]
    application_clock_mhz: Fact[int]
    default_application_clock_mhz: Fact[int]
    sm_clock_mhz: Fact[int]
    memory_clock_mhz: Fact[int]
    enforced_limit_w: Fact[float]
    core_margin_c: Fact[int]
    ecc_errors: EccErrors
    sram: Fact[Sram]
    remapped_rows: Fact[RemappedRows]
    spare_rows: Fact[SpareRows]
    retired_pages: RetiredPages
    unrepairable_memory: Fact[bool]
    repair: Fact[Repair]
    recovery_action: Fact[int]
    pcie: Pcie
    aer: Aer
    nvlinks: Fact[tuple[NvLink, ...]]
    fabric: Fact[Fabric]
    power: Power
    temperature: Temperature
    clock_reasons: Fact[ClockReasons]
    throttled: Throttled
    performance_state: Fact[int]
    busy_percent: Fact[int]
    link_generation: Fact[int]
    bus: Fact[BusLink]
    link: Link
    model: str
    nonfatal_kinds: Fact[tuple[AerKind, ...]]
    logged_serial: Fact[str]
    logged_uuid: Fact[str]


# Facts that no profile can ask for: every GPU gives them, or they say nothing of the hardware.
NO_CAPABILITY = frozenset(
    (
        "access",
        "mps_processes",
        "memory_used_mib",
        "sm_clock_mhz",
        "memory_clock_mhz",
        "graphics_processes",
        "default_application_clock_mhz",
        "core_margin_c",
        "application_clock_mhz",
        "address",
        "bus",
        "busy_percent",
        "device_id",
        "kernel_driver",
        "label",
        "link",
        "link_generation",
        "logged_serial",
        "logged_uuid",
        "minor",
        "model",
        "module_id",
        "name",
        "nonfatal_kinds",
        "nvml_index",
        "performance_state",
        "physical_slot",
        "role",
        "root_port",
        "uuid",
        "virtualization",
    )
)
# Facts that every GPU gives: a gap in them is never "not supported".
ALWAYS_READ = ("access", "device_id", "kernel_driver", "name", "uuid")
# Of these records some GPUs give only a part.
PARTS = ("nvlinks.active", "nvlinks.rate_mb_s", "temperature.core_c", "temperature.memory_c")


def capability_names() -> tuple[str, ...]:
    """Return the facts that a profile's `capabilities` may list."""
    return tuple(sorted({*Gpu._fields, *PARTS} - NO_CAPABILITY))
