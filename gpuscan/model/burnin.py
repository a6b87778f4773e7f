"""Records of the burn-in: each test's result on one GPU, what it measured, and what the GPU
showed while it ran.
"""

from enum import Enum
from typing import NamedTuple

from gpuscan.model.change import Amount
from gpuscan.model.unread import Fact


class Ending(str, Enum):
    """How a test ended: it ran to its end, the GPU hung or was lost in it, or another tool says
    that it failed or warns.
    """

    RAN = "ran"
    STUCK = "stuck"
    LOST = "lost"
    FAILED = "failed"
    WARNED = "warned"


class Mismatch(NamedTuple):
    """A 64-bit word that differs from what was expected, in hexadecimal.

    *again* is what a second read right after it returned, and *second_read* says it in words:
    right, or the same wrong value. *peer* and *gpu* (PCI addresses) tell where it was, in a test of
    several GPUs.
    """

    address: str
    expected: str
    got: str
    xor: str
    again: str = ""
    second_read: str = ""
    peer: str = ""
    gpu: str = ""


class Rate(NamedTuple):
    """A measured speed. *label* is its key in a profile's `burnin` (`gemm_bf16_tflops`,
    `peer_one_way_gbps`), unit included.

    *again* is what a second try measured after a pause, empty if the first was good enough;
    *usual* the median of this node's GPUs in the same test, unread with a single GPU.
    """

    label: str
    value: float
    again: tuple[float, ...]
    usual: Fact[float]


class Load(NamedTuple):
    """What the GPU showed during a test, sampled once a second: highest temperatures, mean and
    highest power, median SM clock.

    *usual_core_c* is the median of this node's GPUs in the same test; *slowdown_c*, *memory_max_c*
    and *limit_w* are the GPU's own limits (where it has a margin in place of *slowdown_c*, the
    temperature at which that is used up). *hw_slowdown* to *power_cap* are the shares of samples,
    0 to 1, with that reason for lower clocks; *slowed* is the number of samples in the worst round
    with a reason other than the power cap. *pcie_generation* and *pcie_width* are the highest seen.
    *sm_active*, *tensor_active* and *dram_active* are mean shares of the time, 0 to 1, from GPM
    (NVML, Hopper and newer).
    """

    samples: Fact[int]
    core_c: Fact[int]
    usual_core_c: Fact[float]
    memory_c: Fact[int]
    power_w: Fact[float]
    most_power_w: Fact[float]
    sm_clock_mhz: Fact[int]
    hw_slowdown: Fact[float]
    hw_thermal: Fact[float]
    sw_thermal: Fact[float]
    power_brake: Fact[float]
    power_cap: Fact[float]
    slowed: Fact[int]
    pcie_generation: Fact[int]
    pcie_width: Fact[int]
    sm_active: Fact[float]
    tensor_active: Fact[float]
    dram_active: Fact[float]
    slowdown_c: Fact[int]
    memory_max_c: Fact[int]
    limit_w: Fact[float]


class BurnTest(NamedTuple):
    """One test of the burn-in on one GPU (*gpu* is its label), or from it to another (*to*).

    *label* reads `SXM1 stress-bf16`, `SXM1 peer SXM2` or `node dcgmi-diag`; *name* is the test's
    own (`peer`), *part* that of a tool's test; *kind* is open (the
    GPU could not be used), exact, stress, pulse, memory, hbm, pcie, peer, nccl or tool; *hot* is
    True if the GPU had been heated before. *ended* is `ran`, `stuck`, `lost` (the GPU failed:
    *text* is CUDA's message, *error* its name), or `failed` or `warned` (a tool's verdict: *text*
    is its message, *action* what DCGM's catalogue asks for its code, empty without one).
    *operations* counts what was compared, and *what* names that; *mismatches* of them were wrong,
    *mismatches_again* in the repetition after a mismatch (empty without one). *hash* is of a
    full-entropy product, *hash_again* of a second try (empty without one), *common_hash* what most
    GPUs got. *grown* are the GPU's error counters that rose during the test, *logged* the kernel's
    lines on it, *remap_pending* whether a row waits for a reset after it. *wrong_beside* counts the
    GPU's other tests with mismatches but no ECC error.
    """

    label: str
    address: str
    kind: str
    gpu: str
    to: str
    hot: Fact[bool]
    seconds: Fact[float]
    ended: Fact[Ending]
    text: Fact[str]
    error: Fact[str]
    what: Fact[str]
    operations: Fact[int]
    mismatches: Fact[int]
    mismatches_again: Fact[tuple[int, ...]]
    first_mismatches: Fact[tuple[Mismatch, ...]]
    hash: Fact[str]
    hash_again: Fact[str]
    common_hash: Fact[str]
    rates: Fact[tuple[Rate, ...]]
    load: Fact[Load]
    grown: Fact[tuple[Amount, ...]]
    logged: Fact[tuple[str, ...]]
    remap_pending: Fact[bool]
    action: Fact[str] = ""
    wrong_beside: Fact[int] = 0
    name: str = ""
    part: str = ""
