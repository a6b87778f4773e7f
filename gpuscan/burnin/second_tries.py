"""Which GPUs repeat a test: those with mismatches, a product of their own, or a low rate; pure."""

from collections.abc import Collection, Mapping, Sequence

from gpuscan.burnin.levels import BurnInStep
from gpuscan.burnin.merging import newest_rates
from gpuscan.burnin.rates import floor_labels, is_below_median, upper_median
from gpuscan.burnin.results import BurnInResult, BurnInStatus

Results = Mapping[str, BurnInResult]


def find_doubtful(
    step: BurnInStep, results: Results, floors: Mapping[str, float], failed: Collection[str]
) -> list[str]:
    """Return the GPUs of a step that repeat it; *results* by reading key, *floors* by rate label.

    GPUs that *failed* are not asked again.
    """
    same_test = [result for result in results.values() if result.step == step.name]
    doubtful = []
    for gpu in step.gpus:
        result = results.get(step.key(gpu))
        if result is None or gpu in failed:
            continue
        if _deviates(result, same_test) or _is_wrong_or_slow(result, same_test, floors):
            doubtful.append(gpu)
    return doubtful


def _deviates(result: BurnInResult, same_test: Sequence[BurnInResult]) -> bool:
    """Return whether no majority of the GPUs got this result's product."""
    hashes = [other.product_hash for other in same_test if other.product_hash]
    own = result.product_hash
    return bool(own) and 2 * hashes.count(own) <= len(hashes)


def _is_wrong_or_slow(
    result: BurnInResult, same_test: Sequence[BurnInResult], floors: Mapping[str, float]
) -> bool:
    if result.status is BurnInStatus.FAIL:
        return bool(result.mismatches)
    all_rates = [newest_rates(other) for other in same_test]
    for label, rate in newest_rates(result).items():
        median = upper_median(rates[label] for rates in all_rates if label in rates)
        floor = next((floors[each] for each in floor_labels(label) if each in floors), 0.0)
        if rate < floor or is_below_median(rate, median):
            return True
    return False
