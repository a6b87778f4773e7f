"""Recovery: the action that the driver itself requests for a GPU (NVML field 230, R565+)."""

from gpuscan import Action, Gpu, check, fail, warn
from gpuscan.model.outcome import RECOVERY_ACTIONS

REQUESTS = {
    1: "GPU reset",
    2: "node reboot",
    3: "drain peer-to-peer traffic",
    4: "drain and reset",
    5: "IMEX domain recovery",
    6: "bus reset",
    7: "system reboot",
}


@check(
    action=Action.RESET_GPU,
    needs="driver.gpu_access",
    source="NVML GPU recovery action",
    shared=False,
    aliases=["recovery.no_action_is_wanted"],
)
def test_action(gpu: Gpu) -> None:
    """The driver requests no recovery action.

    It may request one while every error counter is 0: after an Xid 95 nothing else may show.
    """
    requested = gpu.recovery_action
    if not requested:
        return
    action = RECOVERY_ACTIONS.get(requested, Action.INVESTIGATE)
    request = REQUESTS.get(requested, f"action {requested}, which this gpuscan does not know")
    # A request to drain P2P is not in itself a fault of the GPU; DCGM only warns as well.
    say = warn if requested == 3 else fail
    say(f"the driver requests: {request}", action=action, observed=requested, expected=0)
