"""gpuscan: may this NVIDIA GPU node go back to work, and if not, what will fix it?"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gpuscan.engine.lens import odd, odd_siblings, read
    from gpuscan.engine.suite import check, fail, warn
    from gpuscan.model.outcome import Action
    from gpuscan.model.rate import exceeds, per_minute
    from gpuscan.views import (
        BurnTest,
        Change,
        Gpu,
        Incident,
        Node,
        Past,
        Port,
        Process,
        Profile,
        Rate,
        Service,
    )

__all__ = [
    "Action",
    "BurnTest",
    "Change",
    "Gpu",
    "Incident",
    "Node",
    "Past",
    "Port",
    "Process",
    "Profile",
    "Rate",
    "Service",
    "check",
    "exceeds",
    "fail",
    "odd",
    "odd_siblings",
    "per_minute",
    "read",
    "warn",
]

_HOME = {
    "Action": "gpuscan.model.outcome",
    "BurnTest": "gpuscan.model",
    "Change": "gpuscan.model",
    "Gpu": "gpuscan.model",
    "Incident": "gpuscan.model",
    "Node": "gpuscan.model",
    "Past": "gpuscan.model",
    "Port": "gpuscan.model",
    "Process": "gpuscan.model",
    "Profile": "gpuscan.profile",
    "Rate": "gpuscan.model",
    "Service": "gpuscan.model",
    "check": "gpuscan.engine.suite",
    "exceeds": "gpuscan.model.rate",
    "fail": "gpuscan.engine.suite",
    "odd": "gpuscan.engine.lens",
    "odd_siblings": "gpuscan.engine.lens",
    "per_minute": "gpuscan.model.rate",
    "read": "gpuscan.engine.lens",
    "warn": "gpuscan.engine.suite",
}


def __getattr__(name: str) -> object:
    """Import a name when a check module asks for it, so that `import gpuscan` stays fast.

    Type checkers see the records as views (views.pyi), in which every fact was read.
    """
    if name not in _HOME:
        raise AttributeError(f"module 'gpuscan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
