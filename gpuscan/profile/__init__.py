"""Profiles: what a node is expected to be."""

from gpuscan.profile.profile import (
    BASE,
    TABLES,
    Profile,
    ProfileLens,
    choose,
    given,
    is_bundled,
    known_names,
    load,
    only_gpus,
    places,
    schema,
    silkscreen,
)

__all__ = [
    "BASE",
    "TABLES",
    "Profile",
    "ProfileLens",
    "choose",
    "given",
    "is_bundled",
    "known_names",
    "load",
    "only_gpus",
    "places",
    "schema",
    "silkscreen",
]
