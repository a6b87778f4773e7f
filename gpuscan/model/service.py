"""Records of services, and of what programs and tools say in imported texts."""

from typing import NamedTuple

from gpuscan.model.unread import Fact


class Service(NamedTuple):
    """One systemd unit: *label* is its name without `.service`; *active* and *result* as systemctl
    prints them.

    *enabled* is `enabled` if it starts at boot, *loaded* is `not-found` if there is no such unit.
    *needed* is yes, no (a Fabric Manager where no GPU is on an NVSwitch fabric) or unknown.
    """

    label: str
    active: Fact[str]
    result: Fact[str]
    enabled: Fact[str]
    loaded: Fact[str]
    needed: str = "unknown"


class AppError(NamedTuple):
    """An error that CUDA returned to a program: its code, and the program's message."""

    code: int
    text: str


class Said(NamedTuple):
    """What another tool's text says of one part of the node: a row of a log, a count, a rate.

    *part* is the tool's own name for the part (`PSU2 Status`, `mlx5_3`), *kind* what the line says
    in the words of its importer (`psu-failed`, `uncorrected`); *value* is a count or a rate, 1 if
    there is none. *standing* is True unless the text itself shows that it is over.
    """

    part: str
    kind: Fact[str]
    text: Fact[str]
    value: Fact[float]
    standing: Fact[bool]
