"""Workload: no program runs on a drained node, and none was let down by the node."""

from gpuscan import Action, Gpu, Node, Process, Profile, check, fail, read, warn

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
    """No CUDA error points to a fault of the node."""
    codes = dict.fromkeys(error.code for error in node.app_errors)
    for code in codes:
        action, reason = NODE_ERRORS.get(
            code,
            (Action.RESTART_APP, "a program failed through its own fault or for lack of memory"),
        )
        say = warn if action is Action.RESTART_APP else fail
        say(f"CUDA error {code}: {reason}", action=action, observed=code)


NCCL = {  # what a warning says -> what it asks for; all others only warn
    "nvls": (
        Action.RESET_GPU,
        "NVLink multicast is in a bad state: stop the jobs, reset all GPUs and restart the Fabric "
        "Manager",
    ),
    "nvls-setup": (
        Action.FIX_CONFIG,
        "NVLink multicast (NVLS) failed: check the Fabric Manager and its version, or set "
        "NCCL_NVLS_ENABLE=0",
    ),
    "gpu-fault": (Action.RESET_GPU, "a GPU or its NVLink failed under NCCL"),
    "port": (Action.INVESTIGATE, "a network port of this node failed under NCCL"),
    "network": (Action.INVESTIGATE, "the network between the nodes failed, at either end"),
    "setup": (Action.FIX_CONFIG, "the node is not set up for NCCL"),
}
HARMLESS = ("judged", "hint")


@check(
    action=Action.INVESTIGATE,
    source="NCCL: troubleshooting; InfiniBand: completion status 12 is a transport without answer",
    imported=True,
)
def test_nccl(node: Node) -> None:
    """No NCCL warning points to a fault of the node.

    A peer that went away, or a program's own error, only warns: its cause is elsewhere.
    """
    for warning in node.nccl_warnings:
        if warning.kind in NCCL:
            action, reason = NCCL[warning.kind]
            fail(f"{reason}: {warning.part}: {warning.text}", action=action, observed=warning.kind)
        elif warning.kind not in HARMLESS:
            message = f"NCCL warns: {warning.part}: {warning.text}"
            warn(message, action=Action.RESTART_APP, observed=warning.kind)


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="capacity",
    jobs=True,
    aliases=["workload.no_program_computes"],
)
def test_processes(gpu: Gpu) -> None:
    """No compute process is running on the GPU."""
    computing = _named(gpu.processes)
    if computing:
        fail(
            f"compute processes are running on the GPU (PID {', '.join(computing)})",
            observed=len(computing),
            expected=0,
        )


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "workload.processes"),
    source="NVML: programs that draw, and those that compute through MPS, have lists of their own",
    impact="capacity",
    jobs=True,
)
def test_other_processes(gpu: Gpu) -> None:
    """No program computes on the GPU through MPS, and none draws on it.

    One that draws only warns: it may be the node's own display.
    """
    shared, drawing = _named(gpu.mps_processes), _named(gpu.graphics_processes)
    if shared:
        fail(
            f"MPS processes are running on the GPU (PID {', '.join(shared)})",
            observed=len(shared),
            expected=0,
        )
    if drawing:
        warn(
            f"graphics programs are running on the GPU (PID {', '.join(drawing)})",
            action=Action.MONITOR,
            observed=len(drawing),
        )


def _named(listed: tuple[Process, ...]) -> list[str]:
    """Return each program as `4242 python`, or without a name that is not known."""
    return [f"{process.pid} {process.name}".rstrip() for process in listed]


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "workload.processes"),
    eased_by="workload.other_processes",
    source="NVML: the memory in use includes what the driver reserves; 645 MiB on an idle H200",
    impact="capacity",
    jobs=True,
)
def test_memory_in_use(gpu: Gpu, profile: Profile) -> None:
    """No memory of the GPU is in use that no process owns.

    A context that a killed job left behind holds it, and the next job finds the GPU full.
    """
    used, most = gpu.memory_used_mib, profile.limits.memory_reserved_mib
    if used <= most:
        return
    lists = ("processes", "graphics_processes", "mps_processes")
    if not any(listed for name in lists for _, listed in read([gpu], name)):
        fail(
            f"{used} MiB of GPU memory are in use, and no process owns them: find what holds "
            "/dev/nvidia* open (fuser -v), else reset the GPU",
            observed=used,
            expected=f"<={most}",
        )
