"""Toy checks of the node and its access, for the golden outputs."""

from gpuscan import Action, Gpu, Node, Profile, check, fail


@check(action=Action.FIX_CONFIG, source="a toy")
def test_loaded(node: Node) -> None:
    """The driver's library answers."""
    assert node.driver.nvml_version


@check(action=Action.REBOOT, source="a toy")
def test_gpu_access(gpu: Gpu) -> None:
    """The driver answers for the GPU."""
    if gpu.access != "ok":
        fail("the driver has lost the GPU", observed=gpu.access, expected="ok")


@check(action=Action.FIX_CONFIG, source="a toy")
def test_gpu_count(node: Node, profile: Profile) -> None:
    """The node has as many GPUs as its profile expects."""
    expected = profile.gpu.count
    if len(node.gpus) != expected:
        fail(f"{len(node.gpus)} of {expected} GPUs", observed=len(node.gpus), expected=expected)
