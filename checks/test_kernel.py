"""Kernel modules: those that the profile's workloads need are loaded."""

from gpuscan import Action, Node, Profile, check, fail
from gpuscan.profile.version import satisfies

PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")  # its name now, and as MLNX_OFED shipped it
DMA_BUF_KERNEL = ">=5.12"


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    source="NVIDIA GPUDirect RDMA: a peer memory module, or the open module on Linux 5.12 or newer",
    impact="performance",
    aliases=["kernel.gpudirect_rdma_is_there"],
)
def test_gpudirect_rdma(node: Node, profile: Profile) -> None:
    """GPUDirect RDMA is available, through a peer memory module or dma-buf.

    dma-buf needs the open kernel module and Linux 5.12 or newer.
    """
    expected = profile.kernel.gpudirect_rdma
    if not expected or any(name in node.kernel_modules for name in PEER_MEMORY):
        return
    if node.driver.flavour != "open":
        why = "the driver's closed module has no dma-buf"
    elif not satisfies(node.host.kernel, DMA_BUF_KERNEL):
        why = f"dma-buf needs Linux 5.12 or newer, this is {node.host.kernel}"
    else:
        return
    fail(
        f"GPUDirect RDMA is unavailable: nvidia_peermem is not loaded, and {why}; run modprobe "
        "nvidia_peermem",
        expected=True,
    )


@check(action=Action.FIX_CONFIG, aliases=["kernel.modules_are_loaded"])
def test_modules(node: Node, profile: Profile) -> None:
    """Every kernel module that the profile names is loaded."""
    absent = [name for name in profile.kernel.modules if name not in node.kernel_modules]
    if absent:
        fail(f"kernel modules not loaded: {', '.join(absent)}", observed=absent)
