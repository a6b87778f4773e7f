"""gpuscan: may this NVIDIA GPU node go back to work, and if not, what will fix it?"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gpuscan.facts import BurnTest, Change, Gpu, Incident, Node, Port, Service
    from gpuscan.lens import odd, read
    from gpuscan.outcome import Action
    from gpuscan.profile import Profile
    from gpuscan.suite import check, fail, warn

__all__ = [
    "Action",
    "BurnTest",
    "Change",
    "Gpu",
    "Incident",
    "Node",
    "Port",
    "Profile",
    "Service",
    "check",
    "fail",
    "odd",
    "read",
    "warn",
]

_HOME = {
    "Action": "gpuscan.outcome",
    "BurnTest": "gpuscan.facts",
    "Change": "gpuscan.facts",
    "Gpu": "gpuscan.facts",
    "Incident": "gpuscan.facts",
    "Node": "gpuscan.facts",
    "Port": "gpuscan.facts",
    "Profile": "gpuscan.profile",
    "Service": "gpuscan.facts",
    "check": "gpuscan.suite",
    "fail": "gpuscan.suite",
    "odd": "gpuscan.lens",
    "read": "gpuscan.lens",
    "warn": "gpuscan.suite",
}


def __getattr__(name: str) -> object:
    """Import what a check module asks for, and nothing before that: start-up is part of the design."""
    if name not in _HOME:
        raise AttributeError(f"module 'gpuscan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
