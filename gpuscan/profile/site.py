"""The site configuration, /etc/gpuscan/config.yaml: what a site has decided once for all runs."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuscan.errors import ProfileError
from gpuscan.files import SITE_CONFIG_VARIABLE, site_config_path
from gpuscan.profile import yamlfile

DAY_S = 86_400
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": DAY_S}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "profile": {"type": "string"},
        "deadline": _SECONDS,
        "format": {
            "type": "string",
            "enum": ["text", "json", "junit", "junit-full", "ctrf", "github", "markdown"],
        },
        "state_dir": {"type": "string", "pattern": "^/"},
        "archive_mib": {"type": "number", "exclusiveMinimum": 0, "maximum": 1 << 20},
        "skip": {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
        "limits": {
            "type": "object",
            "additionalProperties": False,
            # the fields of gpuscan.live.limits.Limits, where their defaults are
            "properties": dict.fromkeys(
                ("init_s", "call_s", "host_s", "sweep_s", "slow_s", "worker_s"), _SECONDS
            ),
        },
    },
}
TYPES: dict[str, tuple[type, ...]] = {"object": (dict,), "string": (str,), "number": (int, float)}


class SiteConfig(NamedTuple):
    """What the site configuration says; *path* is its file, *pinned_at* line and column of the
    profile.

    *state_dir* is where root keeps the node's state, *archive_mib* what its archive may take;
    *skip* is the reason for each check, area or glob that no profile judges here, *skipped_at*
    its line and column.
    """

    path: str
    profile: str = ""
    limits: Mapping[str, float] = {}
    pinned_at: tuple[int, int] = (1, 1)
    deadline_s: float | None = None
    format: str = ""
    state_dir: str = ""
    archive_mib: float = 0.0
    skip: Mapping[str, str] = {}
    skipped_at: Mapping[str, tuple[int, int]] = {}


def load_site_config(path: str = "") -> SiteConfig:
    """Read the site configuration; everything has its default where the file does not exist.

    *path* is the file, without one the site's own.

    Raises ProfileError with file:line:column for a mistake in it, for a file that GPUSCAN_CONFIG
    names and that does not exist, and, as root, for one that others may write.
    """
    path = path or site_config_path()
    if not os.path.lexists(path):
        if path == os.environ.get(SITE_CONFIG_VARIABLE):
            raise ProfileError(f"{SITE_CONFIG_VARIABLE}={path}: no such file")
        return SiteConfig(path)
    text = yamlfile.read_text(path)
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return SiteConfig(path)  # comments only
    data, positions = yamlfile.load(text, path)
    if not _satisfies(data, SCHEMA):
        yamlfile.validate(data, positions, path, SCHEMA)
    pinned_at = positions.get(("profile",), (1, 1))
    skip = data.get("skip", {})
    return SiteConfig(
        path,
        data.get("profile", ""),
        data.get("limits", {}),
        pinned_at,
        data.get("deadline"),
        data.get("format", ""),
        data.get("state_dir", ""),
        data.get("archive_mib", 0.0),
        skip,
        {name: positions.get(("skip", name, ""), (1, 1)) for name in skip},
    )


def _satisfies(value: Any, schema: Mapping[str, Any]) -> bool:
    """Prove a value valid without jsonschema, whose import takes 90 ms of every scan.

    Knows only the keywords that SCHEMA uses: jsonschema decides, and words the mistakes, whenever
    this returns False.
    """
    if not isinstance(value, TYPES[schema["type"]]) or isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return bool(schema["exclusiveMinimum"] < value <= schema["maximum"])
    if isinstance(value, str):
        fits = value.startswith("/") or "pattern" not in schema
        return fits and value in schema.get("enum", (value,)) and bool(value)
    if not isinstance(value, dict):
        return False
    keys, others = schema.get("properties", {}), schema["additionalProperties"]
    return all(
        (name in keys or bool(others)) and _satisfies(item, keys.get(name, others))
        for name, item in value.items()
    )
