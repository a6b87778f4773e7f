"""A test that ran in several rounds told as one: the worst that any of them found."""

from collections.abc import Mapping
from typing import Any

from gpuscan.burnin.rates import rates

KEPT = 8
HIGHEST = (
    "core_c",
    "memory_c",
    "most_power_w",
    "hw_slowdown",
    "hw_thermal",
    "sw_thermal",
    "power_brake",
    "slowed",
)
LOWEST = ("pcie_generation", "pcie_width")
WORST = ("skip", "pass", "unknown", "fail", "lost", "stuck")
Tries = dict[str, list[float]]


def merged(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of one test on one GPU over all rounds; both as `burnin:` readings hold
    them.

    *numbers* and *again* are the newest round's; `earlier` has of each rate what the slowest round
    before it measured.
    """
    if old is None:
        return {**new, "runs": 1}
    new = _against(old, new)
    worst = worse(old, new)
    first = [*old.get("first", ()), *new.get("first", ())][:KEPT]
    sums = {
        name: old.get(name, 0) + new.get(name, 0)
        for name in ("operations", "mismatches", "seconds")
    }
    kept = {
        "status": worst["status"],
        "text": worst["text"],
        "error": worst.get("error"),
        "proof": worst.get("proof", {}),
    }
    told = {
        "first": first,
        "again": _again(old, new),
        "load": loads(old.get("load"), new.get("load")),
        "runs": old["runs"] + 1,
    }
    return {**old, **new, **kept, **sums, **told, "earlier": tries(old)}


def worse(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the worse of two results, the newer one of two that are as bad."""
    return old if old and WORST.index(old["status"]) > WORST.index(new["status"]) else new


def _against(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a round's result as a failure where its product has other bits than the round before
    had on this GPU.
    """
    hashes = [result.get("numbers", {}).get("got") for result in (old, new)]
    if None in hashes or hashes[0] == hashes[1]:
        return new
    text = f"the product's hash is {hashes[1]}, in the round before it was {hashes[0]}"
    return {**new, "status": "fail", "text": text, "mismatches": max(new.get("mismatches", 0), 1)}


def _again(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the newest second try; what was wrong in an earlier one, or in two rounds, was wrong
    twice.
    """
    kept = dict(new.get("again") or {})
    counts = [one["mismatches"] for one in (old.get("again") or {}, kept) if "mismatches" in one]
    if old.get("mismatches") and new.get("mismatches"):
        counts.append(new["mismatches"])
    return (kept | ({"mismatches": max(counts)} if counts else {})) or None


def tried_again(result: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result with its second try; what was wrong twice in an earlier round stays so,
    whatever this one finds.

    One whose detector proved nothing is none.
    """
    if second["status"] in ("unknown", "skip"):
        return dict(result)
    kept = {
        part: second[part] for part in ("status", "text", "mismatches", "numbers") if part in second
    }
    before = (result.get("again") or {}).get("mismatches")
    return {
        **result,
        "again": kept | ({"mismatches": max(before, kept.get("mismatches", 0))} if before else {}),
    }


def rates_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the rates of a result's newest round, by label."""
    step, options = str(result.get("step", "")), result.get("options") or {}
    return rates(str(result.get("kind", "")), step, options, result.get("numbers") or {})


def tries(result: Mapping[str, Any]) -> Tries:
    """Return of each rate what its slowest round measured: the first try, and the second if there
    was one.
    """
    second = rates_of({**result, "numbers": (result.get("again") or {}).get("numbers")})
    newest = {
        label: [rate, *([second[label]] if label in second else [])]
        for label, rate in rates_of(result).items()
    }
    found: Tries = {label: list(told) for label, told in (result.get("earlier") or {}).items()}
    for label, told in newest.items():
        if label not in found or max(told) < max(found[label]):
            found[label] = told
    return found


def loads(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what two runs of a test showed: the worst of what has one, the newest of the rest;
    what one lacked is lacking.
    """
    if not old or not new:
        return dict(new or old or {}) or None
    both = [name for name in (*HIGHEST, *LOWEST) if name in old and name in new]
    worst = {name: (max if name in HIGHEST else min)(old[name], new[name]) for name in both}
    lacks = {**old.get("lacks", {}), **new.get("lacks", {})}
    return {
        **old,
        **new,
        **worst,
        "samples": old["samples"] + new["samples"],
        **({"lacks": lacks} if lacks else {}),
    }
