"""Merges the rounds of a test into one result: the worst that any of them found."""

from collections.abc import Mapping

from gpuscan.burnin.rates import rates
from gpuscan.burnin.results import (
    EMPTY,
    MAX_LISTED,
    BurnInResult,
    BurnInStatus,
    LoadSummary,
    SecondTry,
)

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
LOWEST = ("margin_c", "pcie_generation", "pcie_width")
Tries = Mapping[str, tuple[float, ...]]


def merge(old: BurnInResult | None, new: BurnInResult) -> BurnInResult:
    """Return the result of one test on one GPU over all rounds.

    Counts and times are summed; *numbers*, *proof* and *again* are the newest round's; *earlier*
    keeps, for each rate, what the slowest round before it measured.
    """
    if old is None:
        return new._replace(runs=1)
    new = _fail_on_other_product(old, new)
    worst = worse(old, new)
    compared = new.operations is not None
    return old._replace(
        status=worst.status,
        text=worst.text,
        error=worst.error,
        proof=worst.proof,
        seconds=(old.seconds or 0) + (new.seconds or 0),
        operations=(old.operations or 0) + (new.operations or 0),
        mismatches=(old.mismatches or 0) + (new.mismatches or 0),
        first=(*old.first, *new.first)[:MAX_LISTED],
        numbers=new.numbers if compared else old.numbers,
        options=new.options if compared else old.options,
        load=merge_loads(old.load, new.load),
        step=new.step or old.step,
        kind=new.kind or old.kind,
        hot=new.hot if new.step else old.hot,
        runs=(old.runs or 0) + 1,
        again=_merge_second_tries(old, new),
        earlier=slowest_tries(old),
        details={**old.details, **new.details},
    )


def worse(old: BurnInResult | None, new: BurnInResult) -> BurnInResult:
    """Return the worse of two results, the newer one of two that are as bad."""
    return old if old and old.status.severity > new.status.severity else new


def _fail_on_other_product(old: BurnInResult, new: BurnInResult) -> BurnInResult:
    """Return a round's result as a failure where its product has other bits than the last round's
    on this GPU.
    """
    before, now = old.product_hash, new.product_hash
    if not before or not now or before == now:
        return new
    text = f"the product's hash is {now}, in the round before it was {before}"
    return new._replace(status=BurnInStatus.FAIL, text=text, mismatches=max(new.mismatches or 0, 1))


def _merge_second_tries(old: BurnInResult, new: BurnInResult) -> SecondTry | None:
    """Return the newest second try; what was wrong in an earlier one, or in two rounds, was wrong
    twice.
    """
    tries = [each for each in (old.again, new.again) if each is not None]
    counts = [each.mismatches for each in tries if each.mismatches is not None]
    if old.mismatches and new.mismatches:
        counts.append(new.mismatches)
    merged = new.again or SecondTry()
    if counts:
        merged = merged._replace(mismatches=max(counts))
    return merged if merged != SecondTry() else None


def add_second_try(result: BurnInResult, second: BurnInResult) -> BurnInResult:
    """Return the result with its second try; what was wrong twice in an earlier round stays so.

    A second try that proves nothing is left out.
    """
    if second.status in (BurnInStatus.UNKNOWN, BurnInStatus.SKIP):
        return result
    again = SecondTry(second.status, second.text, second.mismatches, second.numbers)
    before = result.again.mismatches if result.again is not None else 0
    if before:
        again = again._replace(mismatches=max(before, again.mismatches or 0))
    return result._replace(again=again)


def newest_rates(result: BurnInResult) -> dict[str, float]:
    """Return the rates of a result's newest round, by label."""
    return rates(result.kind, result.step, result.options, result.numbers)


def slowest_tries(result: BurnInResult) -> dict[str, tuple[float, ...]]:
    """Return, for each rate, what its slowest round measured: the first try, and the second if
    there was one.
    """
    again = result.again.numbers if result.again is not None else None
    second = newest_rates(result._replace(numbers=again or EMPTY))
    slowest = dict(result.earlier or {})
    for label, rate in newest_rates(result).items():
        tries = (rate, second[label]) if label in second else (rate,)
        if label not in slowest or max(tries) < max(slowest[label]):
            slowest[label] = tries
    return slowest


def merge_loads(old: LoadSummary | None, new: LoadSummary | None) -> LoadSummary | None:
    """Return what two runs of a test showed: the worst where one is worse, else the newest; what
    one run could not sample is missing.
    """
    if old is None or new is None:
        return new or old
    both = old.values.keys() & new.values.keys()
    worst = {name: max(old.values[name], new.values[name]) for name in HIGHEST if name in both}
    worst |= {name: min(old.values[name], new.values[name]) for name in LOWEST if name in both}
    return LoadSummary(
        old.samples + new.samples,
        {**old.values, **new.values, **worst},
        {**old.missing, **new.missing},
    )
