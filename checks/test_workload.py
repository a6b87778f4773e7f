"""Workload: a drained node is empty."""

from gpuscan import Action, Gpu, Node, check, fail, warn

# CUDA's errors that speak of the node, by code; those that are a program's own only warn
NODE_ERRORS = {
    3: (Action.FIX_CONFIG, "CUDA cannot start"),
    35: (Action.FIX_CONFIG, "the driver is too old for the program's CUDA"),
    100: (Action.FIX_CONFIG, "CUDA sees no GPU: is it hidden from this program?"),
    214: (Action.RESET_GPU, "a memory error of the GPU went uncorrected"),
    220: (Action.RESET_GPU, "an NVLink error went uncorrected"),
    304: (Action.FIX_CONFIG, "a call to the operating system failed"),
    802: (
        Action.FIX_CONFIG,
        "CUDA is not initialised: with NVSwitches the Fabric Manager is absent or does not run; without them it is a matter of "
        "driver and kernel options (CUDA release notes)",
    ),
    803: (Action.FIX_CONFIG, "driver and CUDA library are of different versions"),
    804: (Action.FIX_CONFIG, "the CUDA compatibility library is not for this GPU"),
    999: (Action.INVESTIGATE, "CUDA failed for an unknown reason: see the kernel log"),
}


@check(
    action=Action.FIX_CONFIG,
    source="CUDA driver API: error codes",
    impact="availability",
    imported=True,
    aliases=["workload.cuda_starts"],
)
def test_cuda(node: Node) -> None:
    """No program was refused by CUDA for a reason that lies in the node."""
    codes = dict.fromkeys(error.code for error in node.app_errors)
    for code in codes:
        action, words = NODE_ERRORS.get(
            code, (Action.RESTART_APP, "a program failed by its own fault, or for want of memory")
        )
        say = warn if action is Action.RESTART_APP else fail
        say(f"error {code}: {words}", action=action, observed=code)


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="capacity",
    jobs=True,
    aliases=["workload.no_program_computes"],
)
def test_processes(gpu: Gpu) -> None:
    """No program computes on the GPU."""
    pids = [process.pid for process in gpu.processes]
    if pids:
        fail(
            f"programs compute on the GPU (pid {', '.join(map(str, pids))})",
            observed=len(pids),
            expected=0,
        )
