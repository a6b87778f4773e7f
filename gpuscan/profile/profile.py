"""What a node is expected to be: profiles loaded, extended, set from the command line, and matched
to a node.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from gpuscan import files
from gpuscan.engine.lens import Book, NotJudged
from gpuscan.errors import ProfileError, UsageError, near_misses
from gpuscan.files import bundled, schema_text
from gpuscan.model import Gpu, Node, is_unread
from gpuscan.model.outcome import Evidence
from gpuscan.profile import yamlfile
from gpuscan.profile.site import load_site_config

BASE = "default"
TABLES = ("gpu.slots", "burnin.nccl")  # a mapping that is one expectation, and no branch of others
DEEPEST = 8


class Profile(NamedTuple):
    """A loaded profile. *vouches* is False where nothing matched this very machine: then what it
    leaves open is unknown.
    """

    name: str
    data: Mapping[str, Any]
    vouches: bool = True

    def __getattr__(self, key: str) -> Any:
        """Give check authors `profile.gpu.count`; at run time they hold a `ProfileLens`, which
        does the same.
        """
        return getattr(ProfileLens(self, self.data, ""), key)

    @property
    def optional(self) -> frozenset[str]:
        """Return the checks whose `unknown` does not make a scan incomplete."""
        return frozenset(self.data["optional"])


class ProfileLens:
    """The profile as a check sees it: each expectation read is booked, and an open one (`null`)
    ends the check.
    """

    def __init__(
        self, profile: Profile, data: Mapping[str, Any], path: str, book: Book | None = None
    ) -> None:
        self._profile, self._data, self._path, self._book = profile, data, path, book

    def get(self, name: str) -> Any:
        """Return an expectation, or None where the profile leaves it open, without ending the
        check for it.
        """
        return self._data.get(name)

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}" if self._path else name
        if name not in self._data:
            raise AttributeError(
                f"profiles have no key {path}: add it to profiles/default.yaml and the schema"
            )
        value = self._data[name]
        if isinstance(value, dict) and path not in TABLES:
            return ProfileLens(self._profile, value, path, self._book)
        if value is None:
            raise NotJudged(path)
        if self._book is not None:
            self._book.reads.append(
                Evidence(f"profile.{path}", value, (f"profile:{self._profile.name}",))
            )
        return value


def schema() -> dict[str, Any]:
    """Return the JSON Schema of profiles."""
    return dict(json.loads(schema_text("profile")))


def places() -> list[str]:
    """Return the folders that profile names are looked up in: the site's, then the bundled ones."""
    return [os.path.join(files.SITE, "profiles"), bundled("profiles")]


def known_names() -> dict[str, str]:
    """Return every profile's name and file; the site's go before bundled ones of the same name."""
    names: dict[str, str] = {}
    for folder in reversed(places()):
        try:
            listing = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ProfileError(
                f"{folder}: {error.strerror}: its profiles cannot be listed"
            ) from None
        names.update(
            {file[:-5]: os.path.join(folder, file) for file in listing if file.endswith(".yaml")}
        )
    return names


def is_bundled(name: str) -> bool:
    """Return whether this name means the same profile wherever this gpuscan is: no site has put
    its own before it.
    """
    return known_names().get(name) == _bundled(name)


def _bundled(name: str) -> str:
    return os.path.join(bundled("profiles"), f"{name}.yaml")


def load(name: str, settings: Sequence[str] = ()) -> Profile:
    """Load a profile by name or file, with its parents and `--set` changes; raises ProfileError
    with file:line:column.
    """
    data = _with_parents(name, ())
    merged = _merge(_with_parents(BASE, ()), data) if name != BASE else data
    shown = os.path.basename(name).removesuffix(".yaml") if _is_file(name) else name
    return _set(Profile(shown, merged), settings)


def given(name: str, data: Any, settings: Sequence[str] = ()) -> Profile:
    """Return the profile that a recording brings along; raises ProfileError where its data are
    none.
    """
    if not name or not data:
        raise ProfileError(
            "the profile kept in the recording has no name or says nothing: name one with --profile"
        )
    yamlfile.validate(data, {}, f"profile {name}, kept in the recording", schema())
    return _set(Profile(name, _merge(_with_parents(BASE, ()), data)), settings)


def _is_file(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def _find(name: str, children: tuple[str, ...] = ()) -> str:
    """Return a profile's file; a site's profile that extends its own name means the bundled one."""
    if _is_file(name):
        return name
    names = known_names()
    if name not in names:
        raise ProfileError(
            f"unknown profile '{name}': {near_misses(name, list(names), 'profiles')}"
        )
    own = _bundled(name)
    return own if names[name] in children and os.path.exists(own) else names[name]


def _with_parents(name: str, children: tuple[str, ...]) -> dict[str, Any]:
    path = _find(name, children)
    if path in children or len(children) > DEEPEST:
        raise ProfileError(f"{path}: extends itself through {' → '.join((*children, path))}")
    data = _parse(path)
    parent = data.pop("extends", None)
    if parent is None:
        return data
    if _is_file(parent) and not os.path.isabs(parent):
        parent = os.path.join(os.path.dirname(path), parent)
    return _vouched(
        _merge(_with_parents(parent, (*children, path)), data), data.get("burnin") or {}
    )


def _vouched(merged: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a profile without the parents' word that its own floors are estimates: whoever sets a
    floor vouches for it.
    """
    if not own or "estimates" in own:
        return merged
    floors = merged["burnin"]
    return merged | {
        "burnin": floors
        | {"estimates": [name for name in floors.get("estimates", ()) if name not in own]}
    }


def _parse(path: str) -> dict[str, Any]:
    own = os.path.dirname(os.path.abspath(path)) == os.path.abspath(bundled("profiles"))
    text = yamlfile.read_text(path, trusted=own)
    data, positions = yamlfile.load(text, path)
    if (
        not own
    ):  # bundled profiles are held to the schema by the tests, and jsonschema takes 90 ms to import
        yamlfile.validate(data, positions, path, schema())
    return dict(data)


def _merge(parent: Mapping[str, Any], child: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the parent with the child's values over it; mappings merge, everything else is
    replaced.
    """
    merged = dict(parent)
    for key, value in child.items():
        old, whole = merged.get(key), above + key in TABLES
        both = isinstance(old, dict) and isinstance(value, dict) and not whole
        merged[key] = _merge(dict(old or {}), value, f"{above}{key}.") if both else value
    return merged


MARKS = (
    ">",
    "!",
    "*",
    "&",
    "@",
    "%",
    "|",
)  # in YAML they need quotes, as in `--set driver.version=>=535`


def _set(profile: Profile, settings: Sequence[str]) -> Profile:
    """Apply `--set gpu.count=4`: values are YAML, keys those of the default profile, the result is
    validated.
    """
    if not settings:
        return profile
    data = json.loads(json.dumps(profile.data))
    for setting in settings:
        path, sign, text = setting.partition("=")
        if not sign:
            raise UsageError(f"--set {setting}: write it as KEY=VALUE, as in --set gpu.count=4")
        *parents, last = (
            ["skip", path[5:]] if path.startswith("skip.") else path.split(".")
        )  # the ids of checks have dots
        branch = data
        for depth, key in enumerate([*parents, last]):
            if not isinstance(branch, dict) or (key not in branch and parents[:depth] != ["skip"]):
                keys = sorted(_dotted_keys(profile.data))
                raise UsageError(f"--set {setting}: no such key; {near_misses(path, keys, 'keys')}")
            if depth < len(parents):
                branch = branch[key]
        if parents == ["burnin"]:  # whoever sets a floor vouches for it
            branch["estimates"] = [name for name in branch["estimates"] if name != last]
        branch[last] = (
            text if text[:1] in MARKS else yamlfile.load(text or "null", f"--set {path}")[0]
        )
    yamlfile.validate(data, {}, "--set " + " --set ".join(settings), schema())
    return profile._replace(data=data)


def _dotted_keys(data: Mapping[str, Any], above: str = "") -> Iterable[str]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _dotted_keys(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


def choose(node: Node, settings: Sequence[str] = ()) -> tuple[Profile, str]:
    """Return the profile that fits this machine, and a sentence on why; the number of GPUs has no
    say in it.

    A profile that matches the machine itself goes before one that matches its GPUs only; where
    none or several fit equally the most that can be said of the GPUs is used, and nothing vouches
    for the rest.
    """
    site = load_site_config()
    if site.profile:
        return load(site.profile, settings), f"profile {site.profile}, pinned in {site.path}"
    if is_unread(node.gpus):
        return load(BASE, settings)._replace(
            vouches=False
        ), "no profile chosen: the GPUs could not be listed"
    device_ids = {gpu.device_id for gpu in node.gpus}
    machine = [
        word for word in (node.host.vendor, node.host.product, node.host.board) if type(word) is str
    ]
    fits = [
        (score, name)
        for name, path in known_names().items()
        if (score := _fit(name, path, device_ids, machine))
    ]
    best = sorted(name for score, name in fits if score == max(fits)[0])
    if len(best) == 1:
        sure = max(fits)[0] > 1
        why = (
            "matches this machine"
            if sure
            else f"matches these GPUs; no profile knows this machine ({_named(machine)})"
        )
        return load(best[0], settings)._replace(vouches=sure), f"profile {best[0]} {why}"
    if best:
        why = f"{' and '.join(best)} fit equally: name one with --profile"
    else:
        told = sorted("a GPU without device id" if is_unread(one) else one for one in device_ids)
        why = f"no profile knows {', '.join(told) or 'a machine without GPUs'}: name one with --profile"
    return load(BASE, settings)._replace(vouches=False), why


def _named(machine: list[str]) -> str:
    return " ".join(machine) or "it gives no DMI names"


def _fit(name: str, path: str, gpus: set[str], machine: list[str]) -> int:
    """Return 2 for a profile that knows the machine, 1 for one that knows the GPUs only, else 0.

    A site's variant of a bundled profile that bears its name fits where that one does; one of
    another name says where.
    """
    text = yamlfile.read_text(path, trusted=True)
    heir = path != _bundled(name) and os.path.exists(_bundled(name))
    if not gpus or not all(isinstance(gpu, str) and (heir or gpu in text) for gpu in gpus):
        return 0  # choosing must not parse every profile
    match = (_with_parents(path, ()) if heir else _parse(path)).get("match") or {}
    if not gpus <= set(match.get("device_ids") or ()):
        return 0
    patterns = match.get("machines") or ()
    if not patterns:
        return 1
    names = [*machine, " ".join(machine[:2])]
    return 2 if any(fnmatchcase(name, pattern) for name in names for pattern in patterns) else 0


def silkscreen(profile: Profile, label: str) -> str:
    """Return what is printed beside a slot on the board or chassis, as the profile's `gpu.slots`
    maps it; "" if it does not.
    """
    slots = profile.data["gpu"]["slots"]
    return str(slots.get(label, "")) if isinstance(slots, dict) else ""


def only_gpus(node: Node, names: Sequence[str]) -> Node:
    """Return the node with only the GPUs that *names* name: slot, PCI address, UUID, serial, or
    index.
    """
    if is_unread(node.gpus):
        raise UsageError(f"--gpus: the GPUs could not be listed ({node.gpus.text})")
    chosen = {gpu.address for name in names for gpu in [_named_gpu(node.gpus, name)]}
    incidents: Any = node.incidents
    if not is_unread(incidents):
        incidents = tuple(incident for incident in incidents if incident.address in chosen)
    return node._replace(
        gpus=tuple(g for g in node.gpus if g.address in chosen), incidents=incidents
    )


def _named_gpu(gpus: tuple[Gpu, ...], name: str) -> Gpu:
    """Return the one GPU of that name; a bare number that is one GPU's slot and another's index
    names none.
    """
    word = name.lower()
    hits = {gpu.address: gpu for gpu in gpus if word in (gpu.label.lower(), gpu.address)}
    if not hits:
        hits = {gpu.address: gpu for gpu in gpus if word in _words(gpu)}
    if not hits:
        words = [gpu.label for gpu in gpus] + [gpu.address for gpu in gpus]
        raise UsageError(f"--gpus {name}: no such GPU; {near_misses(name, words, 'GPUs')}")
    if len(hits) > 1:
        told = " and ".join(f"{gpu.label} ({gpu.address})" for gpu in hits.values())
        raise UsageError(f"--gpus {name}: names {told}: give a slot or an address")
    return next(iter(hits.values()))


def _words(gpu: Gpu) -> set[str]:
    facts = (gpu.serial, gpu.uuid, gpu.physical_slot, gpu.nvml_index)
    return {str(fact).lower() for fact in facts if not is_unread(fact)}
