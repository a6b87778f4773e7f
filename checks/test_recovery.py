"""Recovery: the driver's own word on what a GPU needs (NVML field 230, driver R565 and newer)."""

from gpuscan import Action, Gpu, check, fail, warn
from gpuscan.model.outcome import RECOVERY_ACTIONS

WORDS = {
    1: "GPU reset",
    2: "node reboot",
    3: "drain of its peer-to-peer traffic",
    4: "drain and reset",
    5: "recovery of the IMEX domain",
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
    """The driver asks for no recovery action.

    It is set with every counter at 0, too: a GPU that Xid 95 has put out of use shows nothing
    else.
    """
    wanted = gpu.recovery_action
    if not wanted:
        return
    action = RECOVERY_ACTIONS.get(wanted, Action.INVESTIGATE)
    words = f"the driver asks for a {WORDS.get(wanted, f'recovery action {wanted}, unknown to this gpuscan')}"
    # Drain P2P is no fault of the GPU by itself; DCGM warns of it, too.
    say = warn if wanted == 3 else fail
    say(words, action=action, observed=wanted, expected=0)
