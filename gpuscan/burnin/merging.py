"""A test that ran more than once told as one: the worst that it found, the newest that it measured."""

from collections.abc import Mapping
from typing import Any

KEPT = 8
HIGHEST = ("core_c", "memory_c", "most_power_w", "hw_slowdown", "hw_thermal", "sw_thermal", "power_brake")
WORST = ("skip", "pass", "unknown", "fail", "lost", "stuck")


def merged(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of one test on one card over all rounds; both as `burnin:` readings hold them."""
    if old is None:
        return {**new, "runs": 1}
    worst = old if WORST.index(old["status"]) > WORST.index(new["status"]) else new
    first = [*old.get("first", ()), *new.get("first", ())][:KEPT]
    sums = {name: old.get(name, 0) + new.get(name, 0) for name in ("operations", "mismatches", "seconds")}
    kept = {"status": worst["status"], "text": worst["text"], "error": worst.get("error"), "proof": worst.get("proof", {})}
    again = new.get("again") or old.get("again")
    if old.get("mismatches") and new.get("mismatches"):  # it was wrong in an earlier round: that is twice
        again = {**(again or {}), "mismatches": max(new["mismatches"], (again or {}).get("mismatches", 0))}
    load = loads(old.get("load"), new.get("load"))
    return {**old, **new, **kept, **sums, "first": first, "again": again, "load": load, "runs": old["runs"] + 1}


def loads(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what two runs of a test showed: the highest of what is a maximum, the newest of the rest."""
    if not old or not new:
        return dict(new or old or {}) or None
    highest = {name: max(old[name], new[name]) for name in HIGHEST if name in old and name in new}
    return {**old, **new, **highest, "samples": old["samples"] + new["samples"]}
