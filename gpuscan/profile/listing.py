"""Show profiles: the list of them, one with its parents' values, the difference between two."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuscan.profile.keys import descriptions, is_table
from gpuscan.profile.loading import BASE, ancestors, load
from gpuscan.profile.names import list_profiles
from gpuscan.table import align

NOT_EXPECTED = ("description", "match")  # they say nothing of what a node should be


def render_list(format_: str, width: int = 0) -> str:
    """Return every profile that a name can mean, with description and file, as `text` or `json`.

    The text is wrapped to a terminal's *width*, unless that is 0.
    """
    rows = [
        {"name": name, "description": load(name).data.get("description", ""), "file": path}
        for name, path in sorted(list_profiles().items())
    ]
    if format_ == "json":
        return json.dumps(rows, indent=1) + "\n"
    lines = align([(row["name"], row["description"]) for row in rows], width=width)
    return "".join(f"{line}\n" for line in lines)


def render_profile(name: str, settings: Sequence[str], format_: str) -> str:
    """Return a profile with its parents' values and the changes of `--set`, as YAML or `json`."""
    loaded = load(name, settings)
    if format_ == "json":
        return json.dumps({"name": loaded.name, **loaded.data}, indent=1) + "\n"
    family = " and ".join([*ancestors(name), *([] if name == BASE else [BASE])])
    head = f"# {loaded.name}" + (f", with what it inherits from {family}" if family else "")
    head += f"\n# match: {json.dumps(loaded.data['match'])}\n" if loaded.data["match"] else "\n"
    shown = {key: value for key, value in loaded.data.items() if key != "match"}
    return head + render_yaml(shown, described=True)


def _note(notes: Mapping[str, str], key: str) -> str:
    return f" # {notes[key]}" if key in notes else ""


def render_difference(first: str, second: str, format_: str) -> str:
    """Return the expectations in which two profiles differ, as `text` or `json`."""
    left, right = (dict(_flatten(load(name).data)) for name in (first, second))
    rows = [
        (key, left.get(key), right.get(key))
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key) and key.split(".")[0] not in NOT_EXPECTED
    ]
    if format_ == "json":
        return (
            json.dumps([{"key": key, "first": a, "second": b} for key, a, b in rows], indent=1)
            + "\n"
        )
    lines = (
        f"{key}: {json.dumps(a)} in {first}, {json.dumps(b)} in {second}\n" for key, a, b in rows
    )
    return "".join(lines) or "no difference\n"


def _flatten(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value and not is_table(above + key):
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def render_yaml(data: Mapping[str, Any], *, described: bool = False) -> str:
    """Return a profile's data as YAML, two levels deep; JSON is YAML for each value, and needs no
    quoting rules of its own. *described* adds what each key means, with its unit.
    """
    notes = descriptions() if described else {}
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping) and not value:
            continue
        if isinstance(value, Mapping):
            lines.append(f"{key}:{_note(notes, key)}")
            lines += [
                f"  {name}: {json.dumps(item)}{_note(notes, f'{key}.{name}')}"
                for name, item in value.items()
            ]
        else:
            lines.append(f"{key}: {json.dumps(value)}{_note(notes, key)}")
    return "\n".join(lines) + "\n"
