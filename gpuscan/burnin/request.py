"""What the user asks of a burn-in: kept apart from how it is done, which a passive scan need not
import.
"""

from typing import NamedTuple

from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import LEVELS

# works however gpuscan itself was installed
INSTALL = "pip install 'cuda-bindings>=12.8,<13' (gpuscan's extra `burnin`)"
NO_BINDING = f"--level {{}} needs NVIDIA's binding of the CUDA driver: {INSTALL}"


class BurnInOptions(NamedTuple):
    """The level, seconds of a soak (0: the level's), a checkpoint's file, whether other programs
    may compute on the GPUs.
    """

    level: str = LEVELS[0]
    duration_s: float = 0.0
    checkpoint: str = ""
    force: bool = False


def parse_options(
    level: str, duration: str, checkpoint: str, *, force: bool, busy: bool = False
) -> BurnInOptions:
    """Return what the options ask for; UsageError for what cannot be, before anything is touched."""
    from gpuscan.durations import parse_duration

    if level not in LEVELS:
        raise UsageError(f"--level {level}: {near_misses(level, list(LEVELS), 'levels')}")
    if level == LEVELS[0]:
        given = [
            flag
            for flag, value in (
                ("--duration", duration),
                ("--checkpoint", checkpoint),
                ("--force", force),
            )
            if value
        ]
        if given:
            levels = LEVELS[-1] if duration else "quick, medium or long"
            raise UsageError(f"{given[0]} goes with a burn-in: add --level {levels}")
        return BurnInOptions()
    if busy and not force:
        raise UsageError(
            f"--level {level} loads the GPUs, and --context busy says that jobs run on them: drain the node, or --force"
        )
    duration_s = parse_duration(duration) if duration else 0.0
    if (
        duration_s is None or (duration and not duration_s) or duration[-1:].isdigit()
    ):  # of a bare 24 nobody knows: hours?
        raise UsageError(
            f"--duration {duration}: write a duration with its unit, as 90m, 24h or 3d"
        )
    if duration and level != LEVELS[-1]:
        raise UsageError(f"--duration goes with --level {LEVELS[-1]}: quick and medium run once")
    if not has_cuda_binding():
        raise UsageError(NO_BINDING.format(level))
    return BurnInOptions(level, duration_s, checkpoint, force)


def has_cuda_binding() -> bool:
    """Return whether the binding that the workers need is there; nothing of it is imported."""
    from importlib.util import find_spec

    try:
        return find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False


def default_swap_level() -> str:
    """Return the level of a check after a swap: a part that was never exercised is not proven."""
    return "quick" if has_cuda_binding() else LEVELS[0]
