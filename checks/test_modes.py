"""Modes of the GPU: persistence, MIG, compute mode, as the profile wants them."""

from gpuscan import Action, Gpu, Profile, check, fail

COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["modes.persistence_is_as_expected"],
)
def test_persistence(gpu: Gpu, profile: Profile) -> None:
    """Persistence mode is on or off as the profile wants it: without it each first client waits for the GPU."""
    mode, wanted = gpu.persistence, profile.gpu.persistence
    if mode != wanted:
        fail(f"persistence mode is {'on' if mode else 'off'}", observed=mode, expected=wanted)


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="capacity",
    aliases=["modes.mig_is_as_expected"],
)
def test_mig(gpu: Gpu, profile: Profile) -> None:
    """MIG mode is on or off as the profile wants it."""
    mode, wanted = gpu.mig_mode.current, profile.gpu.mig
    if mode != wanted:
        fail(f"MIG mode is {'on' if mode else 'off'}", observed=mode, expected=wanted)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs=("driver.gpu_access", "modes.mig"),
    source="NVML: a change of the MIG mode takes effect at a reset",
    impact="capacity",
    aliases=["modes.no_mig_change_is_pending"],
)
def test_mig_pending(gpu: Gpu) -> None:
    """No change of the MIG mode waits for a reset."""
    if gpu.mig_mode.current != gpu.mig_mode.pending:
        fail(
            f"MIG will be {'on' if gpu.mig_mode.pending else 'off'} after the next reset",
            observed=gpu.mig_mode.pending,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    aliases=["modes.compute_mode_is_as_expected"],
)
def test_compute_mode(gpu: Gpu, profile: Profile) -> None:
    """The compute mode is the one that the profile wants: a prohibited GPU runs no program."""
    mode, wanted = (
        COMPUTE_MODES.get(gpu.compute_mode, str(gpu.compute_mode)),
        profile.gpu.compute_mode,
    )
    if mode != wanted:
        fail(f"the compute mode is {mode}", observed=mode, expected=wanted)
