"""The options of a burn-in, in a module that a passive scan may import cheaply."""

from typing import NamedTuple

from gpuscan.errors import UsageError, near_misses
from gpuscan.model.outcome import LEVELS

# works however gpuscan itself was installed
INSTALL = "pip install 'cuda-bindings>=12.8,<13' (gpuscan's extra `burnin`)"
SHORTEST_BARE_S = 600.0  # without a unit: 24 seconds are no soak, and may mean hours
NO_BINDING = f"--level {{}} needs NVIDIA's binding of the CUDA driver: {INSTALL}"


class BurnInOptions(NamedTuple):
    """The level, seconds of a soak (0: the level's own), the checkpoint's file (none if empty), and
    whether to load GPUs that other programs use.
    """

    level: str = LEVELS[0]
    duration_s: float = 0.0
    checkpoint: str = ""
    force: bool = False


def parse_options(
    level: str, duration: str, checkpoint: str, *, force: bool, busy: bool = False
) -> BurnInOptions:
    """Parse the options of a burn-in; UsageError where they contradict each other.

    *busy* says that jobs run on the GPUs (`--context busy`).
    """
    if level not in LEVELS:
        raise UsageError(f"--level {level}: {near_misses(level, list(LEVELS), 'levels')}")
    if level == LEVELS[0]:
        _refuse_without_level(duration, checkpoint, force)
        return BurnInOptions()
    if busy and not force:
        raise UsageError(
            f"--level {level} loads the GPUs, but --context busy says that jobs run on them: "
            "drain the node, or add --force"
        )
    duration_s = _parse_duration(duration, level) if duration else 0.0
    if not has_cuda_binding():
        raise UsageError(NO_BINDING.format(level))
    return BurnInOptions(level, duration_s, checkpoint, force)


def _refuse_without_level(duration: str, checkpoint: str, force: bool) -> None:
    options = {"--duration": duration, "--checkpoint": checkpoint, "--force": force}
    given = [flag for flag, value in options.items() if value]
    if given:
        levels = LEVELS[-1] if duration else "quick, medium or long"
        raise UsageError(f"{given[0]} needs a burn-in: add --level {levels}")


def _parse_duration(duration: str, level: str) -> float:
    from gpuscan.durations import parse_duration

    seconds = parse_duration(duration)
    if not seconds or (duration[-1].isdigit() and seconds < SHORTEST_BARE_S):
        raise UsageError(
            f"--duration {duration}: write a duration with its unit, e.g. 90m, 24h or 3d"
        )
    if level != LEVELS[-1]:
        raise UsageError(f"--duration needs --level {LEVELS[-1]}: quick and medium run once")
    return seconds


def has_cuda_binding() -> bool:
    """Return whether the binding that the workers need is installed, without importing it."""
    from importlib.util import find_spec

    try:
        return find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:
        return False


def default_swap_level() -> str:
    """Return the level of a check after a swap: a part that was never loaded is not proven."""
    return "quick" if has_cuda_binding() else LEVELS[0]
