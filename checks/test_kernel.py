"""Kernel modules: those that the profile's workloads need are loaded."""

from gpuscan import Action, Node, Profile, check, fail


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    impact="performance",
    aliases=["kernel.gpudirect_rdma_is_there"],
)
def test_gpudirect_rdma(node: Node, profile: Profile) -> None:
    """GPUDirect RDMA is available, through nvidia_peermem or dma-buf.

    The open kernel module supports dma-buf.
    """
    expected = profile.kernel.gpudirect_rdma
    if expected and "nvidia_peermem" not in node.kernel_modules and node.driver.flavour != "open":
        fail(
            "GPUDirect RDMA is unavailable: nvidia_peermem is not loaded, and the driver has no "
            "dma-buf; run modprobe nvidia_peermem",
            expected=True,
        )


@check(action=Action.FIX_CONFIG, aliases=["kernel.modules_are_loaded"])
def test_modules(node: Node, profile: Profile) -> None:
    """Every kernel module that the profile names is loaded."""
    absent = [name for name in profile.kernel.modules if name not in node.kernel_modules]
    if absent:
        fail(f"kernel modules not loaded: {', '.join(absent)}", observed=absent)
