"""Plans a burn-in from a scan: which GPUs may be loaded, the steps, how long it takes; pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.levels import ROUNDS_S, TIMES, TOOLS_S, BurnInStep, LevelTimes, make_steps
from gpuscan.burnin.request import BurnInOptions
from gpuscan.burnin.tools.programs import Tool, wanted
from gpuscan.model import Gpu, Node, is_unread

# NVML's compute modes; a pair's test opens GPUs that other workers have open
COMPUTE_MODES = {1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
IN_USE = "other programs compute on the GPUs (process {}): end them, or add --force"
PROCESSES_UNREAD = (
    "the programs that compute on the GPUs could not be read ({}): "
    "make sure that there are none, then add --force"
)
LINK_LAYERS = ("InfiniBand", "Ethernet")
# processes that can never be read must not keep a burn-in from running
NEVER_READ = ("not-supported", "too-old-driver", "not-recorded")
END_KEY = "burnin:end()"  # the reading which says that all of it was done
START_S = 20.0  # until every worker has opened its GPU
BETWEEN_STEPS_S = 0.4  # reading the counters


class BurnInPlan(NamedTuple):
    """What a burn-in will do.

    *gpus* are tested, *refused* are not, with the reason (both by address). *steps* make one round;
    rounds go on for *rounds_s*. *labels* name the GPUs to people. *floors* are the speeds, by rate
    label, below which a test is tried again. *tools* are other programs that run at the end, where
    they are installed. *parts* are those that a proof was asked for.
    """

    level: str
    gpus: tuple[str, ...]
    refused: Mapping[str, str]
    steps: tuple[BurnInStep, ...]
    rounds_s: float
    expected_s: float
    deadline_s: float
    labels: Mapping[str, str]
    floors: Mapping[str, float]
    tools: tuple[Tool, ...] = ()
    parts: tuple[str, ...] = ()


def make_plan(
    node: Node,
    options: BurnInOptions,
    floors: Mapping[str, float] = {},
    *,
    tools: bool = True,
    beside: Sequence[Gpu] = (),
    times: Mapping[str, LevelTimes] = TIMES,
) -> BurnInPlan:
    """Plan a level on the GPUs of a node; *tools* also plans other programs, which load all GPUs.

    *beside* are GPUs that are not tested: a program on one of them forbids the load as well.
    """
    gpus = () if is_unread(node.gpus) else node.gpus
    refused = refuse(gpus, beside, force=options.force)
    addresses = tuple(gpu.address for gpu in gpus if gpu.address not in refused)
    steps = tuple(make_steps(addresses, times[options.level])) if addresses else ()
    round_s = sum(step.seconds + BETWEEN_STEPS_S for step in steps)
    rounds_s = options.duration_s or ROUNDS_S[options.level]
    expected_s = find_expected(round_s, rounds_s)
    programs: tuple[Tool, ...] = ()
    if tools and steps and not refused:
        programs = tuple(wanted(options.level, len(gpus), _find_hcas(node), TOOLS_S[options.level]))
    return BurnInPlan(
        level=options.level,
        gpus=addresses,
        refused=refused,
        steps=steps,
        rounds_s=rounds_s,
        expected_s=expected_s,
        deadline_s=find_deadline(round_s, rounds_s),
        labels={gpu.address: gpu.label for gpu in gpus},
        floors=floors,
        tools=programs,
    )


def find_expected(round_s: float, rounds_s: float) -> float:
    """Return how long rounds of *round_s* usually take, if none is cut short; 0 without a step."""
    if not round_s:
        return 0.0
    return max(math.ceil(rounds_s / round_s), 1) * round_s + START_S


def find_deadline(round_s: float, rounds_s: float) -> float:
    """A GPU may be half as fast as it should be, and one step may have to be waited for in vain."""
    if round_s >= rounds_s:
        return round(2 * round_s + 120)
    return round(rounds_s + 2 * round_s + 120)


def _find_hcas(node: Node) -> list[str]:
    """Return the adapters with a link that is up and that perftest knows (not AWS's), with the
    port where it is not the first.
    """
    ports = [
        port
        for port in (() if is_unread(node.ports) else node.ports)
        if port.state == "ACTIVE" and port.link_layer in LINK_LAYERS
    ]
    return [port.hca if port.number == 1 else f"{port.hca} -i {port.number}" for port in ports]


def add_tool_times(plan: BurnInPlan, is_installed: Callable[[str], object]) -> BurnInPlan:
    """Return the plan with the times of those other programs that are installed, by their key."""
    tools = [tool for tool in plan.tools if is_installed(tool.key)]
    return plan._replace(
        expected_s=plan.expected_s + sum(tool.usual_s for tool in tools),
        deadline_s=plan.deadline_s + sum(tool.limit_s for tool in tools),
    )


def plan_reading(plan: BurnInPlan) -> dict[str, Any]:
    """Return the value of the reading `burnin:plan()`: a planned key that has no reading was not
    run.
    """
    keys = [f"burnin:open({gpu})" for gpu in (*plan.gpus, *plan.refused)]
    keys += [step.key(gpu) for step in plan.steps for gpu in step.gpus]
    if plan.steps:
        keys.append(END_KEY)
    return {
        "level": plan.level,
        "expected_s": round(plan.expected_s),
        "deadline_s": round(plan.deadline_s),
        "keys": list(dict.fromkeys(keys)),
        "tools": [tool.key for tool in plan.tools],
        **({"parts": list(plan.parts)} if plan.parts else {}),
    }


def refuse(gpus: Sequence[Gpu], beside: Sequence[Gpu], *, force: bool) -> dict[str, str]:
    """Return the GPUs that must not or cannot be loaded, and why.

    A program on one GPU forbids the load on all: its neighbours' load would disturb it.
    """
    unusable = {gpu.address: reason for gpu in gpus if (reason := _find_obstacle(gpu))}
    if force:
        return unusable
    in_use = _find_programs(gpus, beside)
    if not in_use:
        return unusable
    return {gpu.address: unusable.get(gpu.address, in_use) for gpu in gpus}


def _find_programs(gpus: Sequence[Gpu], beside: Sequence[Gpu]) -> str:
    """Return why programs on the GPUs forbid a load, nothing where they do not."""
    for gpu in gpus:
        processes = gpu.processes
        if is_unread(processes) and gpu.access == "ok" and processes.kind not in NEVER_READ:
            return PROCESSES_UNREAD.format(processes.text)
    pids = [
        str(process.pid)
        for gpu in (*gpus, *beside)
        if not is_unread(gpu.processes)
        for process in gpu.processes
    ]
    return IN_USE.format(", ".join(pids[:5])) if pids else ""


def _find_obstacle(gpu: Gpu) -> str:
    if is_unread(gpu.access) or gpu.access != "ok":
        return "the driver cannot talk to this GPU"
    if not is_unread(gpu.mig_mode) and gpu.mig_mode.current is True:
        return (
            "MIG is on, and the tests need the whole GPU: "
            "turn it off with nvidia-smi -mig 0, then reset the GPU"
        )
    if gpu.compute_mode in COMPUTE_MODES:
        mode = COMPUTE_MODES[gpu.compute_mode]
        return f"compute mode is {mode}: the tests need the default (nvidia-smi -c 0)"
    return ""
