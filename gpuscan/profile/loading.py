"""Load a profile by name or file: its parents below it, the default profile below them, and the
changes of `--set` over it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.errors import ProfileError
from gpuscan.profile import names, yamlfile
from gpuscan.profile.keys import default_data, is_table, load_schema
from gpuscan.profile.mistakes import Objection, refuse_mistakes
from gpuscan.profile.settings import apply_settings

BASE = "default"
DEEPEST = 8  # generations


class Profile(NamedTuple):
    """A loaded profile: *data* has every key of the schema.

    *vouches* is False if the profile was not made for this very machine: what it leaves open is
    then unknown, not accepted. *unvouched* are single keys of which that is true; *fitted* marks a
    profile that was changed to fit the node.
    """

    name: str
    data: Mapping[str, Any]
    vouches: bool = True
    unvouched: frozenset[str] = frozenset()
    fitted: bool = False

    @property
    def optional(self) -> frozenset[str]:
        """Return the ids of checks whose `unknown` does not make a scan incomplete."""
        return frozenset(self.data["optional"])


def load(name: str, settings: Sequence[str] = (), objection: Objection | None = None) -> Profile:
    """Return the profile with this name or in this file; raises ProfileError with every mistake
    (file:line:column). With an *objection*, selectors of checks are looked at, too.
    """
    try:
        data = load_family(name)
    except ProfileError:
        refuse_mistakes(name, objection)
        raise
    selectors = [*(data.get("skip") or ()), *(data.get("optional") or ())]
    if objection is not None and any(map(objection, selectors)):
        refuse_mistakes(name, objection)
    merged = _merge(load_family(BASE), data) if name != BASE else data
    shown = names.shown_name(name)
    return Profile(shown, apply_settings(merged, settings))


def parse_recorded(name: str, data: Any, settings: Sequence[str] = ()) -> Profile:
    """Return the profile that a recording carries; raises ProfileError if *data* is not one."""
    if not name or not data:
        raise ProfileError(
            "the profile kept in the recording has no name or no content: use --profile"
        )
    yamlfile.validate(data, {}, f"profile {name}, kept in the recording", load_schema())
    return Profile(name, apply_settings(_merge(load_family(BASE), data), settings))


def load_family(name: str, children: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a profile's data merged over its parents', without the default profile.

    *children* are the files that extend it, to detect circles.
    """
    path = names.find(name, children)
    if path in children or len(children) > DEEPEST:
        raise ProfileError(f"{path}: extends itself through {' → '.join((*children, path))}")
    data = parse(path)
    parent = data.pop("extends", None)
    if parent is None:
        return data
    merged = _merge(load_family(names.beside(parent, path), (*children, path)), data)
    return _drop_estimates(merged, data.get("burnin") or {})


def ancestors(name: str) -> tuple[str, ...]:
    """Return the names of a profile's parents, nearest first."""
    found: list[str] = []
    files = [names.find(name)]
    while len(found) < DEEPEST and (parent := parse(files[-1]).get("extends")) is not None:
        found.append(names.shown_name(parent))
        files.append(names.find(names.beside(parent, files[-1]), tuple(files)))
    return tuple(found)


def parse(path: str) -> dict[str, Any]:
    """Return the data of one file, parents left out; a file that is not bundled is validated."""
    if path == names.bundled_path(BASE):
        return default_data()
    own = names.is_bundled_file(path)
    data, positions = yamlfile.load(yamlfile.read_text(path, trusted=own), path)
    if not own:  # tests validate the bundled ones, and importing jsonschema takes 90 ms
        yamlfile.validate(data, positions, path, load_schema())
    return dict(data)


def _drop_estimates(merged: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return *merged* without the parents' remark that a floor in *own* is an estimate: a profile
    that sets a floor vouches for it.
    """
    if not own or "estimates" in own:
        return merged
    floors = merged["burnin"]
    estimates = [name for name in floors.get("estimates", ()) if name not in own]
    return merged | {"burnin": floors | {"estimates": estimates}}


def _merge(parent: Mapping[str, Any], child: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the parent with the child's values over it; branches merge, everything else is
    replaced.
    """
    merged = dict(parent)
    for key, value in child.items():
        old = merged.get(key)
        branches = isinstance(old, dict) and isinstance(value, dict)
        if branches and not is_table(above + key):
            merged[key] = _merge(dict(old or {}), value, f"{above}{key}.")
        else:
            merged[key] = value
    return merged


def silkscreen(profile: Profile, label: str) -> str:
    """Return what the board or chassis calls a slot (the profile's `gpu.slots`), "" if unknown."""
    slots = profile.data["gpu"]["slots"]
    return str(slots.get(label, "")) if isinstance(slots, dict) else ""
