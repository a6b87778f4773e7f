"""Records of the burn-in: what each test did on one GPU, what it measured, and what the GPU
showed meanwhile.
"""

from typing import NamedTuple

from gpuscan.model.change import Amount


class Word(NamedTuple):
    """A wrong 64-bit word, in hexadecimal; *second_read* tells what a second look found: right, or
    the same wrong value.
    """

    address: str
    expected: str
    got: str
    xor: str
    second_read: str


class Rate(NamedTuple):
    """A measured speed. *label* is its key in a profile's `burnin` (`gemm_bf16_tflops`,
    `peer_one_way_gbps`), unit included.

    *again* is what a second try measured after a pause, empty where the first was good enough;
    *usual* the median of this node's GPUs in the same test, not recorded for one GPU alone.
    """

    label: str
    value: float
    again: tuple[float, ...]
    usual: float


class Load(NamedTuple):
    """What the GPU showed during a test, once a second: the highest temperatures, mean and highest
    power, median SM clock.

    *usual_core_c* is the median of this node's GPUs in the same test; *slowdown_c*, *memory_max_c*
    and *limit_w* are the GPU's own limits. Shares are of the samples, 0 to 1: how many showed that
    reason for lower clocks; *slowed* is the number of samples, in the worst round, that showed one
    other than the power cap. *pcie_generation* and *pcie_width* are the highest seen. *sm_active*,
    *tensor_active* and *dram_active* are mean shares of the time by GPM (NVML, Hopper and newer), 0
    to 1.
    """

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


class BurnTest(NamedTuple):
    """One test of the burn-in on one GPU (*GPU* is its label), or from it to another (*to*).

    *label* reads `SXM1 stress-bf16`, `SXM1 peer SXM2` or `node dcgmi-diag`; *kind* is open (the
    GPU could not be used), exact, stress, pulse, memory, hbm, pcie, peer, nccl or tool; *hot*
    tells that the GPU had been heated before. *ended* is `ran`, or how it ended instead: `stuck`,
    `lost` (the GPU failed: *text* has CUDA's words, *error* its name for it) or `failed` or
    `warned` (a tool said so: *text* is what it said, *action* what the code that it gave asks for
    in DCGM's catalogue, empty where it gave none). *operations* counts what was compared, *what*
    names it; *mismatches* were wrong, *mismatches_again* in the repetition that follows a mismatch
    (empty without one). *hash* is of a full-entropy product, *hash_again* that of a second try
    (empty without one), *common_hash* what most GPUs got for it. *grown* are the GPU's error
    counters that rose meanwhile, *logged* the kernel's lines on it, *remap_pending* whether it now
    waits for a reset. *wrong_beside* counts the GPU's own other tests in which words were wrong
    without an ECC error.
    """

    label: str
    address: str
    kind: str
    gpu: str
    to: str
    hot: bool
    seconds: float
    ended: str
    text: str
    error: str
    what: str
    operations: int
    mismatches: int
    mismatches_again: tuple[int, ...]
    words: tuple[Word, ...]
    hash: str
    hash_again: str
    common_hash: str
    rates: tuple[Rate, ...]
    load: Load
    grown: tuple[Amount, ...]
    logged: tuple[str, ...]
    remap_pending: bool
    action: str = ""
    wrong_beside: int = 0
