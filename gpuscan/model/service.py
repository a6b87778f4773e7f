"""Records of services, and of what programs said: as far as an imported text tells of them."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Service(NamedTuple):
    """One systemd unit: *label* is its name without `.service`; *active* and *result* as systemctl
    prints them.

    *enabled* reads `enabled` where it starts at boot, *loaded* `not-found` where there is no such
    unit.
    """

    label: str
    active: Fact[str]
    result: Fact[str]
    enabled: Fact[str]
    loaded: Fact[str]


class AppError(NamedTuple):
    """An error that CUDA gave to a program: its code, and the program's line."""

    code: int
    text: str
