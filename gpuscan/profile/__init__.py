"""Profiles: what a node is expected to be."""

from gpuscan.profile.loading import BASE, Profile, load, parse_recorded, silkscreen
from gpuscan.profile.matching import choose
from gpuscan.profile.mistakes import Objection, refuse_mistakes
from gpuscan.profile.names import is_bundled, list_profiles

__all__ = [
    "BASE",
    "Objection",
    "Profile",
    "choose",
    "is_bundled",
    "list_profiles",
    "load",
    "parse_recorded",
    "refuse_mistakes",
    "silkscreen",
]
