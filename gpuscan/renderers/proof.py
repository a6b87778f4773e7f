"""What a proof came to, for people: how much of what brings a fault back was done without it."""

from collections.abc import Iterator, Mapping
from math import floor, log10
from typing import Any

from gpuscan.durations import format_span
from gpuscan.model.proof import (
    MOVED,
    READ,
    SECONDS,
    TOLD,
    USUAL_S,
    WORD_BYTES,
    FaultRate,
    Outcome,
    ProofRow,
    Proposal,
)
from gpuscan.renderers.lines import Line, indented
from gpuscan.text import format_bytes

MOST_FAULTS = 3  # that a proposal names


def lines(rows: tuple[ProofRow, ...]) -> Iterator[Line]:
    """Yield the lines on each reason of a hold."""
    for row in rows:
        first, *rest = sentences(row)
        yield indented(first, "Proof:   ")
        yield from map(indented, rest)


def sentence(row: ProofRow) -> str:
    """Return what a proof came to in one line."""
    return "; ".join(sentences(row))


def proposal(proposed: Proposal) -> str:
    """Return the sentence that proposes a proof."""
    first, others = proposed.faults[:MOST_FAULTS], len(proposed.faults[MOST_FAULTS:])
    more = f" and {others} more" if others else ""
    gone = "are the faults" if len(proposed.faults) > 1 else "is the fault"
    about = "about " if proposed.seconds > USUAL_S else ""  # by the rate, without the steps
    return (
        f"{proposed.command} exercises {', '.join(first)}{more} for"
        f" {about}{format_span(proposed.seconds)}: {gone} gone?"
    )


def parse(row: Mapping[str, Any]) -> ProofRow:
    """Return a row as a report's JSON has it."""
    known = {name: row[name] for name in ProofRow._fields if name in row}
    rate = FaultRate(**row["rate"]) if row["rate"] else None
    return ProofRow(**{**known, "outcome": Outcome(row["outcome"]), "rate": rate})


def sentences(row: ProofRow) -> Iterator[str]:
    """Yield what a proof came to: whether the fault showed, what was done, how sure that makes."""
    serial = f", serial {row.serial}" if row.serial else ""
    why = f": {row.why.removeprefix(f'{row.check}: ')}" if row.why else ""
    part = row.subject.replace(":", " ", 1)
    yield f"{part}{serial} ({row.check}): {TOLD[row.outcome]}{why}"
    if row.seconds:
        yield _exposure(row)
    if row.confidence is not None and row.rate is not None:
        yield _sureness(row.confidence, row.cautious, row.rate)


def _exposure(row: ProofRow) -> str:
    """Tell what was done, how hot, and beside what."""
    span = "" if row.unit == SECONDS else f" in {format_span(row.seconds)}"
    heat = f", core up to {row.hottest_c:.0f} °C" if row.hottest_c is not None else ""
    then = f" ({row.then_c:.0f} °C when it showed)" if heat and row.then_c else ""
    beside = f"; its neighbours {_amount(row.beside, row.unit)} beside it" if row.beside else ""
    return f"exercised {_amount(row.amount, row.unit)}{span}{heat}{then}{beside}"


def _amount(amount: float, unit: str) -> str:
    """Return an exposure for people: words as the bytes that they are."""
    if unit == SECONDS:
        return format_span(amount)
    if unit in (READ, MOVED):
        return f"{format_bytes(WORD_BYTES * amount)} {unit.removeprefix('words ')}"
    return f"{amount:,.0f} {unit}"


def _percent(share: float) -> str:
    """Return a probability in percent, never rounded up: no proof is ever certain.

    >>> [_percent(share) for share in (0.00042, 0.0, 0.5, 0.89855, 0.98996, 0.99988, 0.99996)]
    ['0.042 %', '0 %', '50 %', '89.8 %', '98.9 %', '99.98 %', 'more than 99.99 %']
    """
    if share > 0.9999:
        return "more than 99.99 %"
    percent = 100 * share
    digits = 2 if share > 0.99 else 2 - floor(log10(percent)) if percent > 0 else 0
    return f"{floor(round(percent * 10**digits, 6)) / 10**digits:g} %"


def _sureness(confidence: float, cautious: float | None, rate: FaultRate) -> str:
    """Tell how sure it is that the fault is gone, and by what."""
    if rate.documented:
        return f"confidence {_percent(confidence)} that it would have shown ({rate.source})"
    few = f" ({_percent(cautious)} allowing for so few events)" if cautious is not None else ""
    often = f"{rate.events:,} in {_amount(rate.exposure, rate.unit)} ({rate.source})"
    return f"confidence {_percent(confidence)}{few} that it would have shown, at {often}"
