"""Records of services and of programs' errors, both from imported texts."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Service(NamedTuple):
    """One systemd unit: *label* is its name without `.service`; *active* and *result* as systemctl
    prints them.

    *enabled* is `enabled` if it starts at boot, *loaded* is `not-found` if there is no such unit.
    """

    label: str
    active: Fact[str]
    result: Fact[str]
    enabled: Fact[str]
    loaded: Fact[str]


class AppError(NamedTuple):
    """An error that CUDA returned to a program: its code, and the program's message."""

    code: int
    text: str
