"""How sure a proof is: with which probability a fault that is still there would have shown."""

from math import expm1, inf, log1p

from gpuscan.model.proof import FaultRate


def confidence(rate: FaultRate, exposure: float) -> float:
    """Return 1 - exp(-rate x exposure), between 0 and 1: events of a fault are taken to come
    independently, at the rate at which they came before; *exposure* is in the rate's unit.
    """
    return -expm1(-per_unit(rate) * exposure)


def cautious(rate: FaultRate, exposure: float) -> float:
    """Return the probability that a fault would have shown, allowing for how little its rate is
    known: 1 - (T / (T + exposure)) ^ n after n events in T.

    It is the gamma-Poisson predictive with the prior 1/rate, and tends to `confidence` with n. A
    rate that is documented is taken as it is.
    """
    if rate.documented or rate.exposure <= 0:
        return confidence(rate, exposure)
    return -expm1(-rate.events * log1p(exposure / rate.exposure))


def exposure_for(rate: FaultRate, wanted: float) -> float:
    """Return the exposure that gives a confidence, 0 <= *wanted* < 1, in the rate's unit; infinite
    for a fault that never showed.
    """
    per = per_unit(rate)
    return -log1p(-wanted) / per if per else inf


def per_unit(rate: FaultRate) -> float:
    """Return the events in one unit of exposure."""
    return rate.events / rate.exposure if rate.exposure > 0 else 0.0
