"""Kernel modules: what the profile's workloads need is loaded."""

from gpuscan import Action, Node, Profile, check, fail


@check(
    action=Action.FIX_CONFIG,
    needs="driver.loaded",
    impact="performance",
    aliases=["kernel.gpudirect_rdma_is_there"],
)
def test_gpudirect_rdma(node: Node, profile: Profile) -> None:
    """The network can reach GPU memory: through nvidia_peermem, or through dma-buf, which the open module has."""
    wanted = profile.kernel.gpudirect_rdma
    if wanted and "nvidia_peermem" not in node.kernel_modules and node.driver.flavour != "open":
        fail(
            "neither nvidia_peermem is loaded nor does the module offer dma-buf: modprobe nvidia_peermem",
            expected=True,
        )


@check(action=Action.FIX_CONFIG, aliases=["kernel.modules_are_loaded"])
def test_modules(node: Node, profile: Profile) -> None:
    """Every kernel module that the profile names is loaded."""
    absent = [name for name in profile.kernel.modules if name not in node.kernel_modules]
    if absent:
        fail(f"not loaded: {', '.join(absent)}", observed=absent)
