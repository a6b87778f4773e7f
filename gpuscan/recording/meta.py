"""What a recording says about itself, beside its readings."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})
DAY_S = 86400
LATEST_S = 1e13  # no time in a recording is later than this


class Imported(NamedTuple):
    """What an importer recognised: the kinds of parts, and the files of which it knew none.

    *unread* are notes on what was recognised and then not understood: the input is then no proof
    of health.
    """

    kinds: tuple[str, ...]
    unrecognised: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class Meta(NamedTuple):
    """The head of a recording; a field is None if the recording does not have it.

    *made_at* is Unix time, *zone_s* how far the machine's clock is ahead of UTC. *profile* names
    the profile by which the node was judged; *expectations* is its data if the name alone does not
    give it, and *vouches* is False if it was only a guess. *fragment* says what an input is that is
    not a whole node; *imported* is set if it was another tool's output. *cables* is set if the far
    ends of the ports were to be read. *level*, *engine*, *resumed* and *checkpoint* belong to a
    burn-in. *drill* is set if faults were planted on purpose. *extra* keeps the keys of newer
    versions.
    """

    gpuscan_version: str | None = None
    made_at: float | None = None
    duration_s: float | None = None
    zone_s: float | None = None
    profile: str | None = None
    expectations: Mapping[str, Any] | None = None
    vouches: bool | None = None
    about: str | None = None
    synthetic: bool | None = None
    redacted: bool | None = None
    cables: bool | None = None
    level: str | None = None
    engine: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    resumed: str | None = None
    drill: bool | None = None
    ended_by_signal: int | None = None
    fragment: str | None = None
    imported: Imported | None = None
    extra: Mapping[str, Any] = NOTHING


TEXTS = ("gpuscan_version", "profile", "about", "level", "resumed", "fragment")
FLAGS = ("vouches", "synthetic", "redacted", "cables", "drill")
OBJECTS = ("engine", "checkpoint", "imported")  # the profile room checks `expectations`
TIMES = ("made_at", "duration_s")
TYPES: dict[str, type] = {
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(FLAGS, bool),
    **dict.fromkeys(OBJECTS, dict),
}


def parse_meta(document: Mapping[str, Any]) -> Meta:
    """Return the head of a recording from its JSON; keys that are not known are kept in `extra`.

    Raises TypeError or ValueError for a value that its key cannot have.
    """
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in document.items():
        if key in Meta._fields and key != "extra":
            known[key] = _checked(key, value)
        else:
            extra[key] = value
    return Meta(**known, extra=extra)


def _checked(key: str, value: Any) -> Any:
    if key in TYPES and not isinstance(value, TYPES[key]):
        raise TypeError(f"its {key} is {value!r}")
    if key in TIMES and value is not None and not is_plausible_time(value):
        raise ValueError(f"its {key} is {value!r}")
    if key == "zone_s" and not (type(value) in (int, float) and abs(value) <= DAY_S):
        raise ValueError(f"its {key} is {value!r}")
    if key == "ended_by_signal" and not is_plausible_time(value):
        raise ValueError(f"its {key} is {value!r}")
    return _imported(value) if key == "imported" else value


def _imported(value: Mapping[str, Any]) -> Imported:
    lists = value["kinds"], value.get("unrecognised", []), value.get("unread", [])
    return Imported(*(tuple(map(str, one)) for one in lists))


def dump_meta(meta: Meta) -> dict[str, Any]:
    """Return the head of a recording as JSON; what it does not have is left out."""
    document = {
        key: value for key, value in meta._asdict().items() if value is not None and key != "extra"
    }
    if meta.imported is not None:
        document["imported"] = {
            "kinds": list(meta.imported.kinds),
            "unrecognised": list(meta.imported.unrecognised),
            **({"unread": list(meta.imported.unread)} if meta.imported.unread else {}),
        }
    return {**document, **meta.extra}


def is_plausible_time(number: Any) -> bool:
    """Return whether a number can be a time in seconds.

    JSON has no limits, and Python's JSON parser even accepts NaN.
    """
    return type(number) in (int, float) and 0 <= number < LATEST_S
