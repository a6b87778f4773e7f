"""Workload: no program runs on a drained node, and none was let down by the node."""

from gpuscan import Action, Gpu, Node, check, fail, warn

# CUDA errors that point to the node, by code; all others are a program's own and only warn
NODE_ERRORS = {
    3: (Action.FIX_CONFIG, "CUDA cannot initialise"),
    35: (Action.FIX_CONFIG, "the driver is too old for the program's CUDA version"),
    100: (Action.FIX_CONFIG, "CUDA finds no GPU: is it hidden from the program?"),
    214: (Action.RESET_GPU, "uncorrectable ECC error"),
    220: (Action.RESET_GPU, "uncorrectable NVLink error"),
    304: (Action.FIX_CONFIG, "an operating system call failed"),
    802: (
        Action.FIX_CONFIG,
        "the system is not ready: with NVSwitches, the Fabric Manager is missing or not running; "
        "without, check driver and kernel options (CUDA release notes)",
    ),
    803: (Action.FIX_CONFIG, "the driver and the CUDA library differ in version"),
    804: (Action.FIX_CONFIG, "the CUDA compatibility library does not support this GPU"),
    999: (Action.INVESTIGATE, "CUDA failed for an unknown reason: check the kernel log"),
}


@check(
    action=Action.FIX_CONFIG,
    source="CUDA driver API: error codes",
    impact="availability",
    imported=True,
    aliases=["workload.cuda_starts"],
)
def test_cuda(node: Node) -> None:
    """CUDA refused no program for a reason that lies in the node."""
    codes = dict.fromkeys(error.code for error in node.app_errors)
    for code in codes:
        action, reason = NODE_ERRORS.get(
            code,
            (Action.RESTART_APP, "a program failed through its own fault or for lack of memory"),
        )
        say = warn if action is Action.RESTART_APP else fail
        say(f"CUDA error {code}: {reason}", action=action, observed=code)


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="capacity",
    jobs=True,
    aliases=["workload.no_program_computes"],
)
def test_processes(gpu: Gpu) -> None:
    """No compute process is running on the GPU."""
    pids = [process.pid for process in gpu.processes]
    if pids:
        fail(
            f"compute processes are running on the GPU (PID {', '.join(map(str, pids))})",
            observed=len(pids),
            expected=0,
        )
