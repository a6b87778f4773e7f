"""Changes to a profile from the command line: `--set gpu.count=4`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuscan.errors import UsageError, near_misses
from gpuscan.profile import yamlfile
from gpuscan.profile.keys import load_schema

# a value that starts with one of these needs quotes in YAML, but not here:
# `--set driver.version=>=535`
UNQUOTED = (">", "!", "*", "&", "@", "%", "|")


def apply_settings(data: Mapping[str, Any], settings: Sequence[str]) -> Mapping[str, Any]:
    """Return a profile's data with each KEY=VALUE applied. Values are YAML, keys those of the
    schema.

    Raises UsageError for an unknown key, ProfileError for a value that the schema refuses.
    """
    if not settings:
        return data
    changed = json.loads(json.dumps(data))
    for setting in settings:
        _apply(changed, setting, sorted(_dotted_keys(data)))
    yamlfile.validate(changed, {}, "--set " + " --set ".join(settings), load_schema())
    return dict(changed)


def _apply(data: dict[str, Any], setting: str, known: list[str]) -> None:
    path, sign, text = setting.partition("=")
    if not sign:
        raise UsageError(f"--set {setting}: write it as KEY=VALUE, as in --set gpu.count=4")
    parents, key = _split(path)
    branch: Any = data
    for parent in parents:
        branch = branch.get(parent) if isinstance(branch, dict) else None
    if not isinstance(branch, dict) or (key not in branch and parents != ["skip"]):
        raise UsageError(f"--set {setting}: no such key; {near_misses(path, known, 'keys')}")
    if parents == ["burnin"]:  # setting a floor vouches for it
        branch["estimates"] = [name for name in branch["estimates"] if name != key]
    branch[key] = (
        text if text.startswith(UNQUOTED) else yamlfile.load(text or "null", f"--set {path}")[0]
    )


def _split(path: str) -> tuple[list[str], str]:
    if path.startswith("skip."):  # its keys are the ids of checks, which have dots
        return ["skip"], path.removeprefix("skip.")
    *parents, key = path.split(".")
    return parents, key


def _dotted_keys(data: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _dotted_keys(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"
