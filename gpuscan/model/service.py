"""Records of services, and of what programs said: as far as an imported text tells of them."""

from typing import NamedTuple


class Service(NamedTuple):
    """One systemd unit: *label* is its name without `.service`; *active* and *result* as systemctl
    prints them.

    *enabled* reads `enabled` where it starts at boot, *loaded* `not-found` where there is no such
    unit.
    """

    label: str
    active: str
    result: str
    enabled: str
    loaded: str


class AppError(NamedTuple):
    """An error that CUDA gave to a program: its code, and the program's line."""

    code: int
    text: str
