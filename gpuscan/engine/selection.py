"""What a user asks to be judged, and by which profile."""

from collections.abc import Sequence
from typing import NamedTuple

AUTO = "auto"


class Selection(NamedTuple):
    """What to judge by: profile and settings, selectors of checks, GPUs, further folders of
    checks; whether jobs run, and whether only a judgement of the whole node may pass.
    """

    profile: str = AUTO
    settings: Sequence[str] = ()
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    gpus: str = ""
    checks: Sequence[str] = ()
    busy: bool = False
    require_full: bool = False
