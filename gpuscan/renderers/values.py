"""The values that a check saw, in a line: `power.limit=700 W (profile: power_limit=700 W)`."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gpuscan.model.outcome import Evidence
from gpuscan.profile.values import options
from gpuscan.text import shorten

MOST_FACTS = 6
MOST_VALUES = 3  # of one fact that are told; of more, how many there are
LONGEST = 40  # characters of one value
PROFILE = "profile."
UNITS = {
    "_gbps": "Gb/s",
    "_mb_s": "MB/s",
    "_mib": "MiB",
    "_mhz": "MHz",
    "_percent": "%",
    "_ns": "ns",
    "_c": "°C",
    "_w": "W",
}
OWNERS = re.compile(r"^(gpus|ports|services)\.")  # whose fact it is stands before the values
SORTING = re.compile(r"\.(role|model|number|imported)$")  # facts that choose what is compared
SWITCHES = re.compile(r"\b(ecc|mig|persistence|ecc_mode\.\w+|mig_mode\.\w+)$")  # on or off


def in_one_line(evidence: Iterable[Evidence]) -> str:
    """Return what checks read: the same fact of several parts as a range or a list.

    >>> in_one_line([Evidence(f"gpus[SXM{n}].temperature.core_c", 33 + n, ()) for n in (1, 2)])
    'temperature.core=34 to 35 °C'
    >>> in_one_line([Evidence("profile.gpu.ecc", True, ()), Evidence("gpus[a].ecc", True, ())])
    'ecc=on (profile: ecc=on)'
    """
    values: dict[str, list[Any]] = {}
    for one in evidence:
        path = re.sub(r"\[[^\]]*\]", "", one.fact)
        if not SORTING.search(path):
            values.setdefault(path, []).append(one.value)
    facts = [_told(path, seen) for path, seen in values.items() if not path.startswith(PROFILE)]
    limits = [_told(path, seen) for path, seen in values.items() if path.startswith(PROFILE)]
    more = f" and {len(facts) - MOST_FACTS} more" if len(facts) > MOST_FACTS else ""
    told = ", ".join(facts[:MOST_FACTS]) + more
    return f"{told} (profile: {', '.join(limits)})".lstrip() if limits else told


def _told(path: str, seen: Sequence[Any]) -> str:
    """Return a fact's name without its unit, and its values with it."""
    unit = next((unit for unit in UNITS if path.endswith(unit)), "")
    name = path.removesuffix(unit)
    short = name.rpartition(".")[2] if path.startswith(PROFILE) else OWNERS.sub("", name)
    if SWITCHES.search(path):
        seen = ["on" if one is True else "off" if one is False else one for one in seen]
    told = f"{_values(seen)}{f' {UNITS[unit]}' if unit else ''}"
    return f"{short}{told}" if told[0] in "<>=!" else f"{short}={told}"


def _values(seen: Sequence[Any]) -> str:
    if len({str(value) for value in seen}) > 1 and all(type(one) in (int, float) for one in seen):
        low, high = _word(min(seen)), _word(max(seen))
        return low if low == high else f"{low} to {high}"
    words = list(dict.fromkeys(_word(one) for one in seen))
    if len(words) > MOST_VALUES:
        return f"{len(words)} different values"
    return " and ".join(words)


def _word(value: Any) -> str:
    """Return one value as a reader has it.

    >>> [_word(one) for one in (True, 80.521, 700.0, 1e-12, [275, 400], "")]
    ['yes', '80.5', '700', '1e-12', '275 or 400', '-']
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 0.1 else f"{value:.1f}".removesuffix(".0")
    if isinstance(value, (list, tuple)):
        return shorten(" or ".join(map(_word, options(value))), LONGEST) or "none"
    return shorten(str(value), LONGEST) or "-"
