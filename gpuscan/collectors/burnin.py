"""The burn-in's readings made into records: one a test and GPU, beside what the other GPUs did
in the same test.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from gpuscan.burnin.merging import tries
from gpuscan.burnin.rates import middle
from gpuscan.burnin.tools import programs as tools
from gpuscan.burnin.watching import REASONS
from gpuscan.collectors import gpu_facts
from gpuscan.collectors.reading import Sources, count, names, parsed, take
from gpuscan.model import READING_KINDS, Amount, BurnTest, Gpu, Load, Rate, Unread, Word, is_unread
from gpuscan.recording import Reading, Recording

CORRECTED = re.compile(r"(?<!un)correct(ed|able)", re.IGNORECASE)
AER = re.compile(r"PCIe Bus Error: severity=", re.IGNORECASE)
DETAIL = re.compile(
    r"error status/mask=|:\s+\[\s*\d+\]"
)  # what follows it: the registers, and the name of each bit
KEY = re.compile(r"burnin:([\w-]+)\(([^,)]*)(?:,([^)]*))?\)")
PLAN = "burnin:plan()"
TAIL = "tail:/dev/kmsg"
STATUSES = ("pass", "fail", "unknown", "skip", "stuck", "lost")
KINDS = {"fade": "memory", "memory-hot": "memory", "end": "open"}
ALONE = (
    "exact",
    "stress",
    "pulse",
    "memory",
    "hbm",
)  # what goes through the GPU's own arithmetic and memory only
MEASURED = ("stress", "hbm", "pcie", "peer", "nccl")
GRAVE = (
    "lost",
    "timed-out",
    "blocked-behind",
    "garbled",
    "no-permission",
    "reset-required",
)  # a counter that should be there
ENDED = {"stuck": "stuck", "lost": "lost"}
NODE = "node"
ONE: Any = Unread("", "not-recorded", "there is no other GPU to compare with")
SAMPLED = dict.fromkeys(REASONS, "reasons") | dict.fromkeys(
    ("sm_active", "tensor_active", "dram_active"), "gpm"
)
SAMPLED |= {"most_power_w": "power_w", "slowed": "reasons"}
OF_THE_GPU = {
    "load.slowdown_c": "temperature.slowdown_c",
    "load.memory_max_c": "temperature.memory_max_c",
    "load.limit_w": "power.limit_w",
    "remap_pending": "remapped_rows",
}
WHAT = {**dict.fromkeys(("exact", "stress", "pulse"), "matrix products"), "memory": "words read"}


class Planned(NamedTuple):
    """What a burn-in set out to do: the keys of its own tests, and of other programs."""

    keys: tuple[str, ...]
    tools: tuple[str, ...]


class Row(NamedTuple):
    """One `burnin:` reading taken apart: the test's name, the GPU's address, the peer's, and the
    reading.
    """

    name: str
    address: str
    to: str
    reading: Reading


def tests(recording: Recording, gpus: Any, sources: Sources) -> Any:
    """Make the records of all that was planned, and of what was run beside; Unread where nobody
    knows what was planned.
    """
    sources["tests"] = (PLAN,)
    plan = take(recording, PLAN, _plan)
    if is_unread(plan):
        return plan
    rows = list(_rows(recording, plan.keys))
    by_address = {} if is_unread(gpus) else {gpu.address: gpu for gpu in gpus}
    found = [
        _test(row, by_address, _grown(recording, row), _logged(recording, row)) for row in rows
    ]
    for row, test in zip(rows, found, strict=True):
        path = f"tests[{test.label}]"
        sources[path] = (row.reading.key,)
        for name, fact in OF_THE_GPU.items():
            sources[f"{path}.{name}"] = sources.get(f"gpus[{test.gpu}].{fact}", ())
    own = [
        _beside(test._replace(wrong_beside=wrong_beside(test, found)), row, found, rows, by_address)
        for row, test in zip(rows, found, strict=True)
    ]
    others = tools.keyed(recording, () if is_unread(gpus) else gpus, plan.tools)
    sources.update({f"tests[{test.label}]": (key,) for key, test in others})
    return (*own, *(test for _, test in others))


def _plan(value: Any) -> Planned:
    return Planned(names(value["keys"]), names(value["tools"]))


def _rows(recording: Recording, planned: Sequence[str]) -> Iterator[Row]:
    """Take the keys apart: those that were planned, whether they were read or not, then the
    others.
    """
    for key in dict.fromkeys([*planned, *recording.keys()]):
        hit = KEY.fullmatch(key)
        if hit and key != PLAN:
            readings = recording.all(key)
            yield Row(
                hit[1],
                hit[2],
                hit[3] or "",
                readings[-1] if readings else Reading(key, None, recording.get(key)),
            )


def _test(row: Row, gpus: Mapping[str, Gpu], grown: Any, logged: Any) -> BurnTest:
    """Make one record without what the other GPUs did."""
    value: Any = row.reading.value if row.reading.error is None else row.reading.error
    if not is_unread(value) and not (isinstance(value, dict) and value.get("status") in STATUSES):
        value = Unread(row.reading.key, "garbled", f"makes no sense: {value!r:.80}")
    kind = KINDS.get(row.name, row.name.split("-")[0])
    label, to = (gpus[place].label if place in gpus else place for place in (row.address, row.to))
    label = label if label and kind != "nccl" else NODE
    named = f"{label} {row.name}{f' {to}' if to else ''}"
    place: dict[str, Any] = {
        "label": named,
        "address": "" if kind == "nccl" else row.address,
        "kind": kind,
        "gpu": label,
        "to": to,
    }
    if is_unread(value):
        rest = [name for name in BurnTest._fields if name not in place]
        unread: dict[str, Any] = dict.fromkeys(rest, value)
        return BurnTest(**place, **unread)
    return BurnTest(**place, **_facts(value, row, gpus), grown=grown, logged=logged)


def _facts(value: Mapping[str, Any], row: Row, gpus: Mapping[str, Gpu]) -> dict[str, Any]:
    """Return what a result tells; where its detector did not prove itself nothing was seen, right
    or wrong.
    """
    key, status = row.reading.key, value["status"]
    unproven: Any = Unread(key, "garbled", str(value.get("text", "")))
    skipped: Any = Unread(key, "not-recorded", str(value.get("text", "")))
    bad = {"unknown": unproven, "skip": skipped}.get(status)
    if status == "fail" and not value.get("mismatches"):
        bad = Unread(key, "garbled", f"failed, and nothing was wrong: {value.get('text')}")
    again = value.get("again") or {}
    again = (
        {} if again.get("status") in ("unknown", "skip") else again
    )  # what its detector did not prove tells nothing
    kind = str(value.get("kind", ""))
    gpu = gpus.get(row.address)

    def told(name: str, parse: Callable[[Any], Any]) -> Any:
        if bad is not None:
            return bad
        if kind == "open" or (status in ENDED and name not in value):
            return Unread(key, "not-recorded", "nothing was compared")
        return parsed(key, value.get(name), parse)

    return {
        "hot": value.get("hot") is True,
        "seconds": parsed(key, value.get("seconds", 0.0), float),
        "ended": bad if bad is not None else ENDED.get(status, "ran"),
        "text": str(value.get("text", "")),
        "action": "",
        "error": str((value.get("error") or {}).get("name", "")),
        "what": WHAT.get(kind, "words moved"),
        "operations": told("operations", count),
        "mismatches": told("mismatches", count),
        "mismatches_again": (parsed(key, again["mismatches"], count),)
        if "mismatches" in again
        else (),
        "words": parsed(key, value.get("first", []), _words),
        "hash": str(value.get("numbers", {}).get("got", "")) if bad is None else bad,
        "hash_again": str(
            parsed(key, again, lambda told: (told.get("numbers") or {}).get("got", ""))
        ),
        "common_hash": ONE,
        "rates": bad if bad is not None else _own_rates(value, kind, row),
        "load": _load(value.get("load"), key, gpu),
        "remap_pending": _pending(gpu, key),
    }


def _pending(gpu: Gpu | None, key: str) -> Any:
    if gpu is None:
        return Unread(key, "not-found", "the GPU is not listed")
    return (
        _judged_there(gpu.remapped_rows)
        if is_unread(gpu.remapped_rows)
        else gpu.remapped_rows.pending
    )


def _judged_there(fact: Any) -> Any:
    """Return a GPU's own fact; one that this GPU does not have is told and judged with the GPU,
    and lacks nothing here.
    """
    return (
        fact._replace(kind="not-recorded")
        if is_unread(fact) and fact.kind == "not-supported"
        else fact
    )


def _own_rates(value: Mapping[str, Any], kind: str, row: Row) -> Any:
    """Return what the slowest round measured; a test of speed that measured nothing makes no
    sense.
    """
    found = parsed(row.reading.key, value, tries)
    if is_unread(found):
        return found
    if not found and kind in MEASURED and value["status"] in ("pass", "fail"):
        return Unread(row.reading.key, "garbled", "it was to measure a speed, and tells none")
    return tuple(Rate(label, told[0], tuple(told[1:]), ONE) for label, told in found.items())


def _words(value: Any) -> tuple[Word, ...]:
    fields = Word._fields
    return tuple(Word(*(str(row.get(name, "")) for name in fields)) for row in value)


def _load(value: Any, key: str, gpu: Gpu | None) -> Any:
    """Make the record of what was sampled, beside the GPU's own limits."""
    if not isinstance(value, dict):
        return Unread(key, "not-recorded", "nothing was sampled meanwhile")
    lacks: dict[str, Any] = value.get("lacks") or {}
    told = {
        name: found for name, found in value.items() if SAMPLED.get(name, name) not in lacks
    }  # in no round may it lack
    own = _own(gpu, key)
    facts = {
        name: told[name] if name in told else _silent(name, lacks, key, own)
        for name in Load._fields
        if name != "usual_core_c"
    }
    facts |= {name: _judged_there(own[name]) for name in ("slowdown_c", "memory_max_c", "limit_w")}
    return Load(usual_core_c=ONE, **facts)


def _own(gpu: Gpu | None, key: str) -> dict[str, Any]:
    """Return what the GPU says of itself beside what is sampled."""
    lost: Any = Unread(key, "not-found", "the GPU is not listed")
    if gpu is None:
        return dict.fromkeys(("slowdown_c", "memory_max_c", "limit_w"), lost)
    heat, power, pcie = gpu.temperature, gpu.power, gpu.pcie
    limits = {
        "slowdown_c": heat.slowdown_c,
        "memory_max_c": heat.memory_max_c,
        "limit_w": power.limit_w,
    }
    now = {
        "core_c": heat.core_c,
        "memory_c": heat.memory_c,
        "power_w": power.usage_w,
        "reasons": gpu.clock_reasons,
    }
    return limits | now | {"pcie_generation": pcie.generation, "pcie_width": pcie.width}


def _silent(name: str, lacks: Mapping[str, Any], key: str, own: Mapping[str, Any]) -> Any:
    """Return why a sampled value is not there: what NVML answered instead, all through the test;
    no lack if the GPU has none.
    """
    asked = SAMPLED.get(name, name)
    kind, text = lacks.get(asked, ("not-recorded", "it was not sampled"))
    never = kind == "not-supported" and is_unread(own.get(asked)) and own[asked].kind == kind
    known = kind if kind in READING_KINDS and not never else "not-recorded"
    return Unread(key, known, f"{asked} under load: {text}")


def _beside(
    test: BurnTest,
    row: Row,
    found: Sequence[BurnTest],
    rows: Sequence[Row],
    gpus: Mapping[str, Gpu],
) -> BurnTest:
    """Add what the node's GPUs did in the same test: medians, and the hash that most of them got."""
    alike = [
        other
        for other, its in zip(found, rows, strict=True)
        if its.name == row.name and _same_model(row, its, gpus)
    ]
    if len(alike) < 2 or is_unread(test.ended):
        return test
    told = test
    if not is_unread(test.rates):
        told = told._replace(
            rates=tuple(rate._replace(usual=_usual(rate.label, alike)) for rate in test.rates)
        )
    if not is_unread(test.load):
        cores = [
            other.load.core_c
            for other in alike
            if not is_unread(other.load) and not is_unread(other.load.core_c)
        ]
        told = (
            told._replace(
                load=test.load._replace(usual_core_c=sorted(cores)[(len(cores) - 1) // 2])
            )
            if cores
            else told
        )
    right = [
        other for other in alike if is_unread(other.mismatches) or not other.mismatches
    ]  # what is wrong has no say
    hashes = [other.hash for other in right if not is_unread(other.hash) and other.hash]
    common = next((one for one in hashes if 2 * hashes.count(one) > len(hashes)), "")
    return told._replace(common_hash=common) if len(hashes) > 1 else told


def wrong_beside(test: BurnTest, found: Sequence[BurnTest]) -> int:
    """Return in how many other tests of this GPU alone words were wrong, but for those in which
    it told of a memory error.
    """
    others = [
        other
        for other in found
        if other.gpu == test.gpu and other.label != test.label and other.kind in ALONE
    ]
    wrong = [other for other in others if not is_unread(other.mismatches) and other.mismatches]
    told = [
        () if is_unread(other.grown) else [amount.label for amount in other.grown]
        for other in wrong
    ]
    return sum(GROUPED["uncorrected_volatile"] not in labels for labels in told)


def _same_model(row: Row, other: Row, gpus: Mapping[str, Gpu]) -> bool:
    models = [
        gpus[place.address].device_id if place.address in gpus else "" for place in (row, other)
    ]
    return str(models[0]) == str(models[1])


def _usual(label: str, alike: Sequence[BurnTest]) -> float:
    return middle(
        rate.value
        for other in alike
        if not is_unread(other.rates)
        for rate in other.rates
        if rate.label == label
    )


def _grown(recording: Recording, row: Row) -> Any:
    """Return the error counters of the GPU that rose in this test, by how much; Unread where one
    of them was not read.
    """
    sums: dict[str, int] = {}
    for label, key, parse in _counters(row.address):
        newest = take(recording, key, parse)
        if is_unread(newest) and newest.kind in GRAVE and not key.startswith("file:"):
            return newest
        if is_unread(newest) and label in EVERY_GPU_COUNTS:
            return newest._replace(
                kind="not-recorded", text=f"this GPU or driver counts no {label}"
            )
        readings = [reading for reading in recording.all(key) if reading.error is None]
        for before, after in pairwise(readings):
            first, last = (parsed(key, reading.value, parse) for reading in (before, after))
            if (
                after.phase == f"after:{row.name}"
                and not is_unread(first)
                and not is_unread(last)
                and last > first
            ):
                sums[label] = sums.get(label, 0) + last - first
    return tuple(Amount(label, value) for label, value in sums.items())


def _counters(address: str) -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """Yield the name, key and parser of each error counter of a GPU."""
    words = {ask.fact: ask for group in gpu_facts.GROUPS for ask in group.asks}
    for fact, label in GROUPED.items():
        yield label, words[fact].key(address), words[fact].parse
    rows = next(ask for ask in gpu_facts.OWN if ask.fact == "remapped_rows")
    yield (
        "rows remapped after uncorrectable errors",
        rows.key(address),
        lambda value: rows.parse(value).uncorrectable,
    )
    yield (
        "rows remapped after correctable errors",
        rows.key(address),
        lambda value: rows.parse(value).correctable,
    )
    for asks in gpu_facts.LINK_ASKS:
        for ask in asks:
            if ask.fact in LINKED:
                yield LINKED[ask.fact], ask.key(address), ask.parse


GROUPED = {
    "uncorrected_volatile": "uncorrectable ECC errors",
    "corrected_volatile": "corrected ECC errors",
    "replays": "PCIe replays",
    "fatal": "fatal PCIe errors",
    "nonfatal": "non-fatal PCIe errors",
}
EVERY_GPU_COUNTS = (
    "uncorrectable ECC errors",
    "PCIe replays",
)  # of those that are worth a burn-in
LINKED = {
    "replays": "NVLink replays",
    "recoveries": "NVLink recoveries",
    "crc_errors": "NVLink CRC errors",
}


def _logged(recording: Recording, row: Row) -> Any:
    """Return what the kernel logged of the GPU during this test; without that Unread where nobody
    looked, or not at all of it.

    A corrected PCIe error is counted, and is no fault.
    """
    short = row.address.rsplit(".", 1)[0]
    readings = [reading for reading in recording.all(TAIL) if reading.phase == row.name]
    values = [reading.value for reading in readings if reading.error is None]
    lines = parsed(TAIL, values, lambda value: [line for each in value for line in names(each)])
    if is_unread(lines):
        return lines
    found = [line for line in _uncorrected(lines) if short and short in line.lower()]
    lack = next((reading.error for reading in readings if reading.error is not None), None)
    if not found and (lack is not None or not readings):
        return (
            lack
            if lack is not None
            else Unread(TAIL, "blocked-behind", "the kernel log was not followed in this test")
        )
    return tuple(line.partition(";")[2] or line for line in found)


def _uncorrected(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines but for those of corrected errors, which take several: the details do not
    say again what they are of.
    """
    corrected = False
    for line in lines:
        if AER.search(line):
            corrected = bool(CORRECTED.search(line))
        if not CORRECTED.search(line) and not (corrected and DETAIL.search(line)):
            yield line
