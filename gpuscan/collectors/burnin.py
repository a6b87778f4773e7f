"""The burn-in's readings as records: one per test and GPU, beside what the other GPUs did in the
same test.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.merging import slowest_tries
from gpuscan.burnin.rates import lower_median, upper_median
from gpuscan.burnin.results import EMPTY, BurnInResult, BurnInStatus, LoadSummary
from gpuscan.burnin.sampling import REASONS
from gpuscan.burnin.tools import programs as tools
from gpuscan.collectors.burnin_counters import UNCORRECTABLE_ECC, counter_growth, logged_lines
from gpuscan.collectors.reading import Sources, names, parsed, take
from gpuscan.model import (
    READING_KINDS,
    BurnTest,
    Ending,
    Gpu,
    Load,
    Rate,
    Unread,
    is_unread,
    read_or,
)
from gpuscan.recording import Reading, Recording

KEY = re.compile(r"burnin:([\w-]+)\(([^,)]*)(?:,([^)]*))?\)")
PLAN_KEY = "burnin:plan()"
KINDS = {"fade": "memory", "memory-hot": "memory", "end": "open"}
# what goes through the GPU's own arithmetic and memory only
OWN_TESTS = ("exact", "stress", "pulse", "memory", "hbm")
MEASURED = ("stress", "hbm", "pcie", "peer", "nccl")
ENDINGS = {BurnInStatus.STUCK: Ending.STUCK, BurnInStatus.LOST: Ending.LOST}
NODE = "node"
NO_OTHER: Any = Unread("", "not-recorded", "there is no other GPU to compare with")
# fact of a load -> what is sampled for it, where the names differ
SAMPLED_AS = {
    **dict.fromkeys(REASONS, "reasons"),
    **dict.fromkeys(("sm_active", "tensor_active", "dram_active"), "gpm"),
    "most_power_w": "power_w",
    "slowed": "reasons",
}
FROM_GPU = {
    "load.slowdown_c": "temperature.slowdown_c",
    "load.memory_max_c": "temperature.memory_max_c",
    "load.limit_w": "power.limit_w",
    "remap_pending": "remapped_rows",
}
COMPARED = {
    **dict.fromkeys(("exact", "stress", "pulse"), "matrix products"),
    "memory": "words read",
}


class PlannedKeys(NamedTuple):
    """What a burn-in set out to do: the keys of its own tests, and of other programs."""

    keys: tuple[str, ...]
    tools: tuple[str, ...]


class BurnInReading(NamedTuple):
    """One `burnin:` reading: the test's name, the GPU's address, its peer's (or empty), and the
    reading.
    """

    name: str
    address: str
    to: str
    reading: Reading


def tests(recording: Recording, gpus: Any, sources: Sources) -> Any:
    """Make the records of all that was planned, and of whatever else was run; Unread where the
    plan was not read.
    """
    sources["tests"] = (PLAN_KEY,)
    plan = take(recording, PLAN_KEY, _parse_plan)
    if is_unread(plan):
        return plan
    rows = list(_find_readings(recording, plan.keys))
    by_address = {} if is_unread(gpus) else {gpu.address: gpu for gpu in gpus}
    alone = [_make_test(row, by_address, recording) for row in rows]
    for row, test in zip(rows, alone, strict=True):
        path = f"tests[{test.label}]"
        sources[path] = (row.reading.key,)
        for name, fact in FROM_GPU.items():
            sources[f"{path}.{name}"] = sources.get(f"gpus[{test.gpu}].{fact}", ())
    own = [
        _compare(
            test._replace(wrong_beside=wrong_beside(test, alone)),
            [other for other, its in zip(alone, rows, strict=True) if _alike(row, its, by_address)],
        )
        for row, test in zip(rows, alone, strict=True)
    ]
    return (*own, *_tool_tests(recording, gpus, sources, plan.tools))


def asked(recording: Recording) -> tuple[str, ...]:
    """Return the parts that a proof was asked for, none where it was for all that is held."""
    parts = take(recording, PLAN_KEY, lambda plan: names(plan.get("parts", [])))
    return tuple(read_or(parts, ()))


def pasted_tests(recording: Recording, gpus: Any, sources: Sources) -> tuple[BurnTest, ...]:
    """Make the records of what other programs printed, in an imported text."""
    return _tool_tests(recording, gpus, sources, ())


def _tool_tests(
    recording: Recording, gpus: Any, sources: Sources, asked: Sequence[str]
) -> tuple[BurnTest, ...]:
    made = tools.keyed(recording, read_or(gpus, ()), asked)
    sources.update({f"tests[{test.label}]": (key,) for key, test in made})
    return tuple(test for _, test in made)


def _parse_plan(value: Any) -> PlannedKeys:
    return PlannedKeys(names(value["keys"]), names(value["tools"]))


def _find_readings(recording: Recording, planned: Sequence[str]) -> Iterator[BurnInReading]:
    """Yield the newest reading of each test: the planned ones, read or not, then the others."""
    for key in dict.fromkeys([*planned, *recording.keys()]):
        match = KEY.fullmatch(key)
        if match is None or key == PLAN_KEY:
            continue
        readings = recording.all(key)
        newest = readings[-1] if readings else Reading(key, None, recording.get(key))
        yield BurnInReading(match[1], match[2], match[3] or "", newest)


def _make_test(row: BurnInReading, gpus: Mapping[str, Gpu], recording: Recording) -> BurnTest:
    """Make one record without what the other GPUs did."""
    kind = KINDS.get(row.name, row.name.split("-")[0])
    label, to = (gpus[place].label if place in gpus else place for place in (row.address, row.to))
    label = label if label and kind != "nccl" else NODE
    place: dict[str, Any] = {
        "label": f"{label} {row.name}{f' {to}' if to else ''}",
        "name": row.name,
        "part": "",
        "address": "" if kind == "nccl" else row.address,
        "kind": kind,
        "gpu": label,
        "to": to,
    }
    key, error = row.reading.key, row.reading.error
    result: Any = (
        error if error is not None else parsed(key, row.reading.value, BurnInResult.from_json)
    )
    if is_unread(result):
        rest = (name for name in BurnTest._fields if name not in place)
        unread: dict[str, Any] = dict.fromkeys(rest, result)
        return BurnTest(**place, **unread)
    return BurnTest(
        **place,
        **_make_facts(result, key, gpus.get(row.address)),
        grown=counter_growth(recording, row.address, row.name),
        logged=logged_lines(recording, row.address, row.name),
    )


def _make_facts(result: BurnInResult, key: str, gpu: Gpu | None) -> dict[str, Any]:
    """Return what a result says. Where it proves nothing, nothing was seen, right or wrong."""
    unproven: Any = _find_doubt(result, key)
    not_compared: Any = Unread(key, "not-recorded", "nothing was compared")
    opening = result.kind == "open"
    again = result.again
    if again is not None and again.status in (BurnInStatus.UNKNOWN, BurnInStatus.SKIP):
        again = None
    repeated = again.mismatches if again is not None else None

    def counted(value: int | None) -> Any:
        if unproven is not None:
            return unproven
        if opening or (value is None and result.status in ENDINGS):
            return not_compared
        return value if value is not None else Unread(key, "garbled", "it has no counts")

    return {
        "hot": result.hot,
        "seconds": result.seconds or 0.0,
        "ended": ENDINGS.get(result.status, Ending.RAN) if unproven is None else unproven,
        "text": result.text,
        "action": "",
        "error": result.error.name if result.error is not None else "",
        "what": COMPARED.get(result.kind, "words moved"),
        "operations": counted(result.operations),
        "mismatches": counted(result.mismatches),
        "mismatches_again": (repeated,) if repeated is not None else (),
        "first_mismatches": result.first,
        "hash": result.product_hash if unproven is None else unproven,
        "hash_again": str(((again.numbers if again else None) or EMPTY).get("got", "")),
        "common_hash": NO_OTHER,
        "rates": _make_rates(result, key) if unproven is None else unproven,
        "load": _make_load(result.load, key, gpu),
        "remap_pending": _find_pending_remap(gpu, key),
    }


def _find_doubt(result: BurnInResult, key: str) -> Unread | None:
    """Return why a result proves nothing, if so."""
    if result.status is BurnInStatus.UNKNOWN:
        return Unread(key, "garbled", result.text)
    if result.status is BurnInStatus.SKIP:
        return Unread(key, "not-recorded", result.text)
    if result.status is BurnInStatus.FAIL and not result.mismatches:
        return Unread(key, "garbled", f"failed, but nothing was wrong: {result.text}")
    return None


def _find_pending_remap(gpu: Gpu | None, key: str) -> Any:
    if gpu is None:
        return Unread(key, "not-found", "the GPU is not listed")
    if is_unread(gpu.remapped_rows):
        return _judged_elsewhere(gpu.remapped_rows)
    return gpu.remapped_rows.pending


def _judged_elsewhere(fact: Any) -> Any:
    """Return a GPU's own fact; one that this GPU does not have is judged with the GPU, and is not
    missing here.
    """
    if is_unread(fact) and fact.kind == "not-supported":
        return fact._replace(kind="not-recorded")
    return fact


def _make_rates(result: BurnInResult, key: str) -> Any:
    """Return what the slowest round measured; Unread where a test of speed measured nothing."""
    tries = parsed(key, result, slowest_tries)
    if is_unread(tries):
        return tries
    if not tries and result.kind in MEASURED and result.status not in ENDINGS:
        return Unread(key, "garbled", "it was to measure a speed, and has none")
    return tuple(
        Rate(label, rate, tuple(again), NO_OTHER) for label, (rate, *again) in tries.items()
    )


def _make_load(summary: LoadSummary | None, key: str, gpu: Gpu | None) -> Any:
    """Make the record of what was sampled, beside the GPU's own limits."""
    if summary is None:
        return Unread(key, "not-recorded", "nothing was sampled meanwhile")
    own = _own_facts(gpu, key)
    facts: dict[str, Any] = {"samples": summary.samples}
    for name in Load._fields:
        if name in ("samples", "usual_core_c"):
            continue
        # it must not be missing in any round
        if name in summary.values and SAMPLED_AS.get(name, name) not in summary.missing:
            facts[name] = summary.values[name]
        else:
            facts[name] = _explain_missing(name, summary, key, own)
    for name in ("slowdown_c", "memory_max_c", "limit_w"):
        facts[name] = _judged_elsewhere(own[name])
    limits = (facts["slowdown_c"], facts["core_c"])
    if is_unread(limits[0]) and not is_unread(limits[1]) and "margin_c" in summary.values:
        facts["slowdown_c"] = limits[1] + int(summary.values["margin_c"])
    return Load(usual_core_c=NO_OTHER, **facts)


def _own_facts(gpu: Gpu | None, key: str) -> dict[str, Any]:
    """Return what the GPU itself says: its limits, and what is sampled, as read before the load."""
    if gpu is None:
        unlisted: Any = Unread(key, "not-found", "the GPU is not listed")
        return dict.fromkeys(("slowdown_c", "memory_max_c", "limit_w"), unlisted)
    heat, power, pcie = gpu.temperature, gpu.power, gpu.pcie
    return {
        "slowdown_c": heat.slowdown_c,
        "memory_max_c": heat.memory_max_c,
        "limit_w": power.limit_w,
        "core_c": heat.core_c,
        "memory_c": heat.memory_c,
        "power_w": power.usage_w,
        "reasons": gpu.clock_reasons,
        "pcie_generation": pcie.generation,
        "pcie_width": pcie.width,
    }


def _explain_missing(name: str, summary: LoadSummary, key: str, own: Mapping[str, Any]) -> Any:
    """Return why a sampled value is missing; not recorded where this GPU never has it."""
    sampled = SAMPLED_AS.get(name, name)
    kind, text = summary.missing.get(sampled, ("not-recorded", "it was not sampled"))
    never = kind == "not-supported" and is_unread(own.get(sampled)) and own[sampled].kind == kind
    if never or kind not in READING_KINDS:
        kind = "not-recorded"
    return Unread(key, kind, f"{sampled} under load: {text}")


def _compare(test: BurnTest, alike: Sequence[BurnTest]) -> BurnTest:
    """Add what the node's GPUs did in the same test: medians, and the hash that most got."""
    if len(alike) < 2 or is_unread(test.ended):
        return test
    if not is_unread(test.rates):
        rates = (rate._replace(usual=_median_rate(rate.label, alike)) for rate in test.rates)
        test = test._replace(rates=tuple(rates))
    loads = [other.load for other in alike if not is_unread(other.load)]
    cores = [load.core_c for load in loads if not is_unread(load.core_c)]
    if cores and not is_unread(test.load):
        usual = lower_median(cores)
        test = test._replace(load=test.load._replace(usual_core_c=usual))
    # a GPU with mismatches has no say in what the right product is
    right = [other for other in alike if is_unread(other.mismatches) or not other.mismatches]
    hashes = [other.hash for other in right if not is_unread(other.hash) and other.hash]
    if len(hashes) > 1:
        common = next((each for each in hashes if 2 * hashes.count(each) > len(hashes)), "")
        test = test._replace(common_hash=common)
    return test


def wrong_beside(test: BurnTest, others: Sequence[BurnTest]) -> int:
    """Return in how many other tests of this GPU alone words were wrong, except those in which it
    counted an uncorrectable memory error.
    """
    count = 0
    for other in others:
        if other.gpu != test.gpu or other.label == test.label or other.kind not in OWN_TESTS:
            continue
        if is_unread(other.mismatches) or not other.mismatches:
            continue
        grown = () if is_unread(other.grown) else other.grown
        count += UNCORRECTABLE_ECC not in [amount.label for amount in grown]
    return count


def _alike(row: BurnInReading, other: BurnInReading, gpus: Mapping[str, Gpu]) -> bool:
    """Return whether two readings are of the same test on the same model of GPU."""
    models = [
        str(gpus[each.address].device_id) if each.address in gpus else "" for each in (row, other)
    ]
    return row.name == other.name and models[0] == models[1]


def _median_rate(label: str, alike: Sequence[BurnTest]) -> float:
    return upper_median(
        rate.value
        for other in alike
        if not is_unread(other.rates)
        for rate in other.rates
        if rate.label == label
    )
