"""Which facts a profile requires of a node: for them "not supported" and "driver too old" are
unknown, not skipped.

A profile requires what its `capabilities` list, and what it states a value of (`x-capture` in the
schema names the fact). A listed fact may come with a condition, which then holds for the stated
value, too: the first driver that answered it on a real machine (`{fabric: R550}`), or
`bare-metal`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuscan.profile.keys import annotated
from gpuscan.profile.values import options

BARE_METAL = "bare-metal"
Condition = str  # "" for none


def required_facts(data: Mapping[str, Any], branch: int, *, virtual: bool) -> tuple[str, ...]:
    """Return the facts of a GPU that a profile requires, under a driver's *branch* (0 if it is not
    known), in a guest or not.
    """
    listed = dict(_listed(data["capabilities"]))
    stated = {fact: _condition_of(fact, listed) for fact in _stated(data["gpu"])}
    conditions = {**stated, **listed}
    return tuple(
        fact for fact, condition in conditions.items() if _holds(condition, branch, virtual=virtual)
    )


def _listed(capabilities: Any) -> Iterator[tuple[str, Condition]]:
    for entry in capabilities:
        if isinstance(entry, Mapping):
            yield from entry.items()
        else:
            yield entry, ""


def _stated(expectations: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts of which a value is expected that the lack of an answer does not meet: a GPU
    without NVLinks, ECC or MIG has none that are on.
    """
    for path, rule in annotated("x-capture").items():
        area, _, key = path.partition(".")
        values = options(expectations.get(key)) if area == "gpu" else ()
        if values and all(values) and rule["fact"].startswith("gpus."):
            yield rule["fact"].removeprefix("gpus.")


def _condition_of(fact: str, listed: Mapping[str, Condition]) -> Condition:
    return listed.get(fact, listed.get(fact.partition(".")[0], ""))


def _holds(condition: Condition, branch: int, *, virtual: bool) -> bool:
    if condition == BARE_METAL:
        return not virtual
    return not condition or not branch or branch >= int(condition.removeprefix("R"))
