"""Rates: what the growth of a counter within a short window proves."""


def exceeds(growth: int, seconds: float, most: float, per_s: float) -> bool:
    """Return whether *growth* within *seconds* proves more than *most* in *per_s* seconds.

    A window shorter than *per_s* proves it only if it saw more than the whole of *per_s* may: a
    single burst makes no rate. So does a window whose length is not known (0).

    >>> exceeds(5000, 1.5, most=31, per_s=60), exceeds(7, 1.5, most=31, per_s=60)
    (True, False)
    >>> exceeds(200, 600.0, most=31, per_s=60)
    False
    """
    return growth > most * max(seconds / per_s, 1.0)


def per_minute(growth: int, seconds: float) -> str:
    """Return the rate in words: `5000 in 1.5 s`, or that over minutes `20 a minute`.

    >>> per_minute(5000, 1.48), per_minute(200, 600.0), per_minute(7, 0.0)
    ('5000 in 1.5 s', '20 a minute (200 in 600 s)', '7')
    """
    if not seconds:
        return str(growth)
    if seconds < 60:
        return f"{growth} in {seconds:.2g} s"
    return f"{growth * 60 / seconds:.2g} a minute ({growth} in {seconds:.0f} s)"
