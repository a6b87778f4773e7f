"""What a proof came to, for people: how much of what brings a fault back was done without it."""

from collections.abc import Iterator

from gpuscan.durations import format_span
from gpuscan.model.proof import SECONDS, FaultRate, Outcome, ProofRow
from gpuscan.renderers.lines import Line, indented

TOLD = {
    Outcome.NOT_SEEN: "did not show again",
    Outcome.SEEN: "showed again",
    Outcome.UNFINISHED: "did not show again, but was not exercised to the end",
    Outcome.NOT_EXERCISED: "not proven by exercise",
    Outcome.BY_STATE: "needs no exercise: the scan shows whether it is gone",
}


def lines(rows: tuple[ProofRow, ...]) -> Iterator[Line]:
    """Yield the lines on each reason of a hold."""
    for row in rows:
        first, *rest = _sentences(row)
        yield indented(first, "Proof:   ")
        yield from map(indented, rest)


def sentence(row: ProofRow) -> str:
    """Return what a proof came to in one line."""
    return "; ".join(_sentences(row))


def _sentences(row: ProofRow) -> Iterator[str]:
    why = f": {row.why}" if row.why else ""
    yield f"{row.subject.replace(':', ' ', 1)}, {row.check}: {TOLD[row.outcome]}{why}"
    if row.seconds:
        yield _exposure(row)
    if row.confidence is not None and row.rate is not None:
        yield _sureness(row.confidence, row.cautious, row.rate)


def _exposure(row: ProofRow) -> str:
    """Tell what was done, how hot, and beside what."""
    span = format_span(row.seconds)
    done = span if row.unit == SECONDS else f"{row.amount:,.0f} {row.unit} in {span}"
    heat = f", core up to {row.hottest_c:.0f} °C" if row.hottest_c is not None else ""
    then = f" ({row.then_c:.0f} °C when it showed)" if heat and row.then_c else ""
    beside = f"; its neighbours {row.beside:,.0f}" if row.beside else ""
    return f"exercised {done}{heat}{then}{beside}"


def _percent(share: float) -> str:
    """Return a probability in percent; no proof is ever certain."""
    return "more than 99.99 %" if share > 0.9999 else f"{100 * share:.3g} %"


def _sureness(confidence: float, cautious: float | None, rate: FaultRate) -> str:
    """Tell how sure it is that the fault is gone, and by what."""
    span = format_span(rate.exposure)
    exposure = span if rate.unit == SECONDS else f"{rate.exposure:,.0f} {rate.unit}"
    few = f" ({_percent(cautious)} allowing for so few events)" if cautious is not None else ""
    return (
        f"it would have shown with {_percent(confidence)}{'' if rate.documented else few}, at"
        f" {rate.events:,} in {exposure} ({rate.source})"
    )
