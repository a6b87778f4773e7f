"""GPU modes: persistence, MIG and compute mode are as the profile expects."""

from gpuscan import Action, Gpu, Profile, check, fail

COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="performance",
    aliases=["modes.persistence_is_as_expected"],
)
def test_persistence(gpu: Gpu, profile: Profile) -> None:
    """Persistence mode is on or off as the profile expects.

    Without it, the first program to open the GPU waits until the driver has initialised it.
    """
    mode, expected = gpu.persistence, profile.gpu.persistence
    if mode != expected:
        now, should = ("on", "off") if mode else ("off", "on")
        fail(
            f"persistence mode is {now}, the profile expects {should}",
            observed=mode,
            expected=expected,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    impact="capacity",
    aliases=["modes.mig_is_as_expected"],
)
def test_mig(gpu: Gpu, profile: Profile) -> None:
    """MIG mode is on or off as the profile expects."""
    mode, expected = gpu.mig_mode.current, profile.gpu.mig
    if mode != expected:
        now, should = ("on", "off") if mode else ("off", "on")
        fail(f"MIG mode is {now}, the profile expects {should}", observed=mode, expected=expected)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs=("driver.gpu_access", "modes.mig"),
    source="NVML: a MIG mode change takes effect at a reset",
    impact="capacity",
    aliases=["modes.no_mig_change_is_pending"],
)
def test_mig_pending(gpu: Gpu) -> None:
    """No MIG mode change is pending."""
    if gpu.mig_mode.current != gpu.mig_mode.pending:
        mode = "on" if gpu.mig_mode.pending else "off"
        fail(
            f"a MIG mode change is pending: {mode} from the next GPU reset",
            observed=gpu.mig_mode.pending,
        )


@check(
    action=Action.FIX_CONFIG,
    needs="driver.gpu_access",
    aliases=["modes.compute_mode_is_as_expected"],
)
def test_compute_mode(gpu: Gpu, profile: Profile) -> None:
    """The compute mode is the one the profile expects.

    In prohibited mode, no CUDA program can run on the GPU.
    """
    mode = COMPUTE_MODES.get(gpu.compute_mode, str(gpu.compute_mode))
    expected = profile.gpu.compute_mode
    if mode != expected:
        fail(
            f"the compute mode is {mode}, the profile expects {expected}",
            observed=mode,
            expected=expected,
        )
