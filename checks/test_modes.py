"""GPU modes: persistence, MIG and compute mode are as the profile expects, and alike."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, odd, read

SIBLINGS = "NVML: modes are set GPU by GPU; alike GPUs of one node serve the same jobs"
PROHIBITED = 2
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
    if mode == expected:
        return
    now, should = ("on", "off") if mode else ("off", "on")
    if any(pending == expected for _, pending in read([gpu], "mig_mode.pending")):
        fail(
            f"MIG mode is {now}, the profile expects {should}: the change is pending until a GPU "
            "reset",
            action=Action.RESET_GPU,
            urgency="next-idle",
            observed=mode,
            expected=expected,
        )
    else:
        fail(f"MIG mode is {now}, the profile expects {should}", observed=mode, expected=expected)


@check(
    action=Action.RESET_GPU,
    urgency="next-idle",
    needs=("driver.gpu_access", "modes.mig"),
    source="NVML: a MIG mode change takes effect at a reset",
    impact="capacity",
    aliases=["modes.no_mig_change_is_pending"],
)
def test_mig_pending(gpu: Gpu, profile: Profile) -> None:
    """No MIG mode change is pending.

    One to a mode that the profile does not want is to be taken back: a reset would carry it out.
    """
    pending, wanted = gpu.mig_mode.pending, profile.gpu.get("mig")
    if gpu.mig_mode.current == pending:
        return
    mode, back = ("on", "0") if pending else ("off", "1")
    if wanted is None or pending == wanted:
        fail(f"a MIG mode change is pending: {mode} from the next GPU reset", observed=pending)
    else:
        fail(
            f"MIG mode will be {mode} after the next GPU reset, against the profile: take it back "
            f"with nvidia-smi -mig {back}",
            action=Action.FIX_CONFIG,
            urgency="now",
            observed=pending,
            expected=wanted,
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


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "modes.compute_mode"),
    source="CUDA: on a GPU in prohibited mode no program gets a context",
)
def test_compute_mode_prohibited(gpu: Gpu) -> None:
    """The compute mode lets programs run, whatever the profile says."""
    if gpu.compute_mode == PROHIBITED:
        fail(
            "the compute mode is prohibited, so that no CUDA program can run: set it with "
            "nvidia-smi -c 0",
            observed="prohibited",
        )


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "modes.persistence"),
    source=SIBLINGS,
    impact="performance",
)
def test_persistence_match(node: Node) -> None:
    """Persistence mode is the same on all GPUs of a model."""
    _compare(node, "persistence mode", "persistence")


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "modes.mig", "modes.mig_pending"),
    source=SIBLINGS,
    impact="capacity",
)
def test_mig_match(node: Node) -> None:
    """MIG mode is the same on all GPUs of a model."""
    _compare(node, "MIG mode", "mig_mode.current")


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "modes.compute_mode", "modes.compute_mode_prohibited"),
    source=SIBLINGS,
)
def test_compute_mode_match(node: Node) -> None:
    """The compute mode is the same on all GPUs of a model."""
    _compare(node, "compute mode", "compute_mode")


@check(
    action=Action.FIX_CONFIG,
    needs=("driver.gpu_access", "memory.ecc_mode", "memory.ecc_mode_pending"),
    source=SIBLINGS,
    impact="correctness",
)
def test_ecc_match(node: Node) -> None:
    """ECC is on or off alike on all GPUs of a model."""
    _compare(node, "ECC", "ecc_mode.current")


def _compare(node: Node, what: str, fact: str) -> None:
    """Say which GPUs differ in a mode from most of their model."""
    model_of = {gpu.address: model for gpu, model in read(node.gpus, "model")}
    by_model: dict[str, list[tuple[Gpu, object]]] = {}
    for gpu, value in read(node.gpus, fact):
        by_model.setdefault(model_of.get(gpu.address, ""), []).append((gpu, _told(fact, value)))
    for pairs in by_model.values():
        others = odd(pairs)
        if others.odd:
            fail(
                f"{what} differs from the other GPUs ({others.common}): {others.told}",
                culprits=others.odd,
            )


def _told(fact: str, value: int) -> str:
    if fact == "compute_mode":
        return COMPUTE_MODES.get(value, str(value))
    return "on" if value else "off"
