"""The facts as checks see them: plain values, because a lens ends a check that asks for one that was
not read. For type checkers only; generated from gpuscan/model by tests/support/generate.py.
"""

from collections.abc import Mapping
from typing import Any

from gpuscan.model.burnin import Ending

class Profile:
    """The profile as a check sees it: `profile.gpu.count`; an open expectation ends the check."""

    def get(self, name: str) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class Adapter:
    label: str
    address: str
    device_id: str
    driver: str
    infiniband: bool

class AdapterLink:
    width: int
    max_width: int
    slot_width: int
    speed_gts: float
    max_speed_gts: float
    slot_speed_gts: float

class Aer:
    fatal: Counter
    nonfatal: Counter

class AerKind:
    name: str
    total: int

class Amount:
    label: str
    value: int

class AppError:
    code: int
    text: str

class Boot:
    boot_id: str
    first_s: float
    last_s: float
    complete_s: float

class BurnTest:
    label: str
    address: str
    kind: str
    gpu: str
    to: str
    hot: bool
    seconds: float
    ended: Ending
    text: str
    error: str
    what: str
    operations: int
    mismatches: int
    mismatches_again: tuple[int, ...]
    first_mismatches: tuple[Mismatch, ...]
    hash: str
    hash_again: str
    common_hash: str
    rates: tuple[Rate, ...]
    load: Load
    grown: tuple[Amount, ...]
    logged: tuple[str, ...]
    remap_pending: bool
    action: str
    wrong_beside: int
    name: str
    part: str

class BusLink:
    answers: bool
    width: int
    narrow: bool
    latched: tuple[str, ...]

class Change:
    label: str
    address: str
    kind: str
    what: str
    expected: bool
    allowed: bool
    new: bool
    everywhere: bool
    moved_from: str
    moved_to: str
    identity_before: str
    identity: str
    known_bad: bool
    versions: tuple[Compared, ...]
    marks: tuple[Compared, ...]
    settings: tuple[Compared, ...]
    wear: tuple[Amount, ...]
    counters: tuple[Compared, ...]
    rate: tuple[Compared, ...]
    faults: tuple[str, ...]
    faults_left: tuple[str, ...]
    before: Gpu | Port | Disk | Firmware | Host | Seen
    after: Gpu | Port | Disk | Firmware | Host | Seen
    reseated: bool

class ClockReasons:
    application_clocks: bool
    hw_slowdown: bool
    sync_boost: bool
    sw_thermal: bool
    hw_thermal: bool
    power_brake: bool
    flashed: bool
    samples: int
    seconds: float

class Compared:
    label: str
    value: Any
    usual: Any
    whose: str
    listed: bool

class Counter:
    total: int
    growth: int
    seconds: float

class Disk:
    label: str
    address: str
    model: str
    serial: str
    firmware: str

class Driver:
    access: str
    module_version: str
    flavour: str
    library_version: str
    nvml_version: str
    cuda_version: str
    nvml_count: int
    confidential_compute: bool
    nvml_process: bool

class EccErrors:
    uncorrected_volatile: int
    uncorrected_aggregate: int
    corrected_volatile: int
    corrected_aggregate: int

class Echo:
    label: str
    kind: str
    code: int
    entry: str
    address: str
    part: str
    events: int

class Fabric:
    state: int
    status: int
    cluster: str
    clique: int
    degraded_bandwidth: int
    route_recovery: int
    route_unhealthy: int
    access_timeout: int
    misconfigured: int
    partition: int
    summary: int

class Fault:
    check: str
    subject: str
    serial: str
    same: str
    action: str
    at_s: float
    boot_id: str
    message: str

class Firmware:
    label: str
    name: str
    version: str

class Gpu:
    address: str
    label: str
    role: str
    device_id: str
    kernel_driver: str
    root_port: str
    physical_slot: str
    access: str
    nvml_index: int
    minor: int
    module_id: int
    name: str
    virtualization: str
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
    processes: tuple[Process, ...]
    graphics_processes: tuple[Process, ...]
    mps_processes: tuple[Process, ...]
    memory_used_mib: int
    application_clock_mhz: int
    default_application_clock_mhz: int
    sm_clock_mhz: int
    memory_clock_mhz: int
    enforced_limit_w: float
    core_margin_c: int
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
    link: Link
    model: str
    nonfatal_kinds: tuple[AerKind, ...]
    logged_serial: str
    logged_uuid: str

class Held:
    code: int
    action: str
    check: str
    subject: str
    slot: str
    address: str
    serial: str
    message: str
    level: str
    boot_id: str
    profile: str
    since_s: float
    seen_s: float
    expects: str
    link_downed: int
    asleep: bool
    of_root: bool
    tests: str
    exercised_s: float
    events: int
    over_s: float

class Host:
    hostname: str
    machine_id: str
    boot_id: str
    uptime_s: float
    kernel: str
    os: str
    virtual: bool
    container: bool
    vendor: str
    product: str
    board: str
    serial: str
    bios_version: str
    board_serial: str
    chassis_serial: str
    product_uuid: str

class Incident:
    label: str
    address: str
    part: str
    kind: str
    code: int
    entry: str
    name: str
    action: str
    asks: str
    because: str
    impact: str
    urgency: str
    state: str
    ended: str
    clean: str
    listed: bool
    events: int
    times: int
    when: str
    first_s: float
    last_s: float
    meaning: str
    text: str
    programs: str
    processes: tuple[str, ...]
    echoes: tuple[Echo, ...]
    values: Mapping[str, Any]
    recovery_action: int

class KernelLog:
    covered_from_s: float
    whole: bool
    lines: int
    instead: str

class Link:
    lanes: int
    narrow: bool
    slot_seen: bool
    generation: int
    sibling_lanes: int
    sibling_generation: int

class Load:
    samples: int
    core_c: int
    usual_core_c: float
    memory_c: int
    power_w: float
    most_power_w: float
    sm_clock_mhz: int
    hw_slowdown: float
    hw_thermal: float
    sw_thermal: float
    power_brake: float
    power_cap: float
    slowed: int
    pcie_generation: int
    pcie_width: int
    sm_active: float
    tensor_active: float
    dram_active: float
    slowdown_c: int
    memory_max_c: int
    limit_w: float

class Measured:
    name: str
    subject: str
    value: float
    at_s: float

class Mismatch:
    address: str
    expected: str
    got: str
    xor: str
    again: str
    second_read: str
    peer: str
    gpu: str

class Mode:
    current: bool
    pending: bool

class Node:
    host: Host
    driver: Driver
    gpus: tuple[Gpu, ...]
    device_minors: tuple[int, ...]
    ports: tuple[Port, ...]
    ethernet_ports: tuple[Port, ...]
    disks: tuple[Disk, ...]
    firmware: tuple[Firmware, ...]
    kernel_modules: tuple[str, ...]
    kernel_log: KernelLog
    incidents: tuple[Incident, ...]
    past: Past
    sources: Mapping[str, tuple[str, ...]]
    before: Node
    changes: tuple[Change, ...]
    services: tuple[Service, ...]
    app_errors: tuple[AppError, ...]
    complaints: tuple[str, ...]
    bmc_events: tuple[Said, ...]
    host_errors: tuple[Said, ...]
    nccl_warnings: tuple[Said, ...]
    daemon_errors: tuple[Said, ...]
    link_quality: tuple[Said, ...]
    imported: bool
    adapters: tuple[Adapter, ...]
    tests: tuple[BurnTest, ...]
    asked: tuple[str, ...]

class NvLink:
    number: int
    active: bool
    rate_mb_s: int
    replays: Counter
    recoveries: Counter
    crc_errors: Counter
    receive_errors: Counter
    integrity_errors: Counter
    failed_recoveries: Counter
    bit_error_rate: float

class Past:
    at_s: float
    runs: int
    faults: tuple[Fault, ...]
    tried: tuple[Tried, ...]
    boots: tuple[Boot, ...]
    parts: tuple[Seen, ...]
    held: tuple[Held, ...]
    booted_s: float
    ports: tuple[PortSeen, ...]
    measured: tuple[Measured, ...]
    present: tuple[Seen, ...]
    burnt: tuple[PastTest, ...]
    lifted: tuple[Held, ...]
    unread_holds: tuple[str, ...]

class PastTest:
    subject: str
    wrong_runs: int
    operations: float
    seconds: float
    hot_c: float

class Pcie:
    width: int
    max_width: int
    generation: int
    max_generation: int
    replays: Counter

class Port:
    label: str
    hca: str
    number: int
    address: str
    link_layer: str
    state: str
    phys_state: str
    rate_gbps: float
    firmware: str
    board_id: str
    hca_type: str
    node_guid: str
    hca_serial: str
    hca_part_number: str
    netdev: str
    mtu: int
    far_end: str
    link_downed: Counter
    symbol_errors: Counter
    virtual: bool
    link: AdapterLink
    near_gpu: str
    gpu_gap: int
    seen_up: bool
    downs_since_run: int
    run_ago_s: float
    peers: tuple[Port, ...]

class PortSeen:
    label: str
    best_gbps: float
    link_downed: int
    symbol_errors: int
    at_s: float
    boot_id: str

class Power:
    usage_w: float
    limit_w: float
    default_limit_w: float

class Process:
    pid: int
    name: str

class Rate:
    label: str
    value: float
    again: tuple[float, ...]
    usual: float

class RemappedRows:
    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool

class Repair:
    channel_pending: bool
    tpc_pending: bool

class RetiredPages:
    single_bit: int
    double_bit: int
    pending: bool

class Said:
    part: str
    kind: str
    text: str
    value: float
    standing: bool

class Seen:
    kind: str
    slot: str
    address: str
    serial: str
    part_number: str
    first_s: float
    last_s: float

class Service:
    label: str
    active: str
    result: str
    enabled: str
    loaded: str
    needed: str

class SpareRows:
    max: int
    high: int
    partial: int
    low: int
    none: int

class Sram:
    uncorrectable_volatile: int
    uncorrectable_aggregate: int
    threshold_exceeded: bool
    sources: str

class Temperature:
    core_c: int
    memory_c: int
    slowdown_c: int
    memory_max_c: int

class Throttled:
    thermal_ns: Counter
    board_limit_ns: Counter
    reliability_ns: Counter

class Tried:
    work: str
    at_s: float
    source: str
    after_s: float
