"""The keys of a profile, as schemas/profile.schema.json lists them: defaults, and annotations.

`x-choice` marks what only the owner of a node can decide, so that no profile has to state it;
`x-table` a mapping that is one expectation; `x-capture` how `profile capture` derives the value
(see capture.py); `x-pattern` says in words what a pattern means.

`profiles/default.yaml` is generated from the schema by tests/support/generate.py.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpuscan.files import schema_text
from gpuscan.model.gpu import capability_names


@cache
def load_schema() -> dict[str, Any]:
    """Return the JSON Schema of profiles, with the names of the model's facts as capabilities.

    It is shared, so do not change it.
    """
    schema: dict[str, Any] = json.loads(schema_text("profile"))
    facts = {"enum": list(capability_names())}
    condition = {"type": "string", "pattern": "^(R[0-9]{3,4}|bare-metal)$"}
    schema["properties"]["capabilities"]["items"] = {
        "if": {"type": "object"},
        "then": {"propertyNames": facts, "additionalProperties": condition, "maxProperties": 1},
        "else": facts,
    }
    return schema


def default_data() -> dict[str, Any]:
    """Return the default profile's data: every key with its default."""
    return _defaults(load_schema())


def _defaults(branch: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, key in branch["properties"].items():
        if "default" in key:
            default = key["default"]
            data[name] = default.copy() if isinstance(default, (dict, list)) else default
        elif "properties" in key:
            data[name] = _defaults(key)
    return data


def descriptions() -> dict[str, str]:
    """Return what each key means, by its dotted path."""
    return {
        path: key["description"]
        for path, key, _ in _walk(load_schema(), "")
        if "description" in key
    }


def leaves() -> tuple[str, ...]:
    """Return every key that holds a value, by its dotted path."""
    return tuple(path for path, key, _ in _walk(load_schema(), "") if "default" in key)


@cache
def annotated(annotation: str) -> Mapping[str, Any]:
    """Return the values of an annotation by dotted key: {"gpu.name": …}; an object's own
    annotation stands for all keys below it.
    """
    return {
        path: key.get(annotation, above.get(annotation))
        for path, key, above in _walk(load_schema(), "")
        if annotation in key or annotation in above
    }


def _walk(
    branch: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for name, key in branch["properties"].items():
        yield f"{prefix}{name}", key, branch
        if "properties" in key:
            yield from _walk(key, f"{prefix}{name}.")


def is_choice(path: str) -> bool:
    """Return whether nothing is missing when no profile states the expectation at *path*."""
    return path in annotated("x-choice") or path.rpartition(".")[0] in annotated("x-choice")


def is_table(path: str) -> bool:
    """Return whether a mapping at *path* is one expectation, not a branch of several."""
    return path in annotated("x-table")
