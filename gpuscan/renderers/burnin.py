"""What a burn-in measured, as tables: GPUs by numbers, the matrix of pairs, collectives, and the
rates of other tools.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuscan.burnin.rates import NEAR_MEDIAN, lower_median, parse_collective, upper_median
from gpuscan.engine.measurements import AGAIN, BURNIN, LOAD
from gpuscan.engine.report import Report
from gpuscan.model.outcome import Status
from gpuscan.model.subject import parse_subject
from gpuscan.renderers.grid import Cell, Column, tables
from gpuscan.renderers.lines import INDENT, Line
from gpuscan.text import printable

NODE = "node"
HOT = "-hot"
APART = 0.03  # hot and cold numbers that differ by less are shown once
LOW, LOWER = 1 - NEAR_MEDIAN, 0.10  # below the median of the GPUs
NONE = Cell("-", style="dim")
GROUPS = (
    ("gemm_", "_tflops", "matrix multiplication, TFLOP/s"),
    ("hbm_", "_gbps", "memory (HBM), GB/s"),
    ("pcie_", "_gbps", "PCIe, GB/s"),
    ("pcie_together_", "_gbps", "PCIe, all at once, GB/s"),
)
WAYS = {  # label of a rate between two GPUs -> its heading
    "peer_one_way_gbps": "one way",
    "peer_both_gbps": "both ways at once",
    "peer_through_host_one_way_gbps": "through the host, one way",
    "peer_through_host_both_gbps": "through the host, both ways at once",
}
COUNTS = ("seconds", "operations", "mismatches")
MOST_OTHERS = 12


class BurnInNumber(NamedTuple):
    """A measurement of the burn-in, named without the prefix `burnin.`; *to* may be empty."""

    name: str
    value: float
    unit: str
    subject: str
    address: str
    test: str
    card: str
    to: str


class BurnInRows(NamedTuple):
    """The measurements of the burn-in by kind; *gpus* are all GPUs of the node, tested or not.

    *corrupt* says that a check found wrong results, at the first try or at a second one.
    """

    gpus: tuple[str, ...]
    rates: tuple[BurnInNumber, ...]
    again: Mapping[tuple[str, str], BurnInNumber]
    load: tuple[BurnInNumber, ...]
    counts: tuple[BurnInNumber, ...]
    corrupt: bool


def lines(report: Report, *, whole: bool) -> list[Line]:
    """Return the tables, none without a burn-in; *whole* lists all other rates."""
    rows = [
        BurnInNumber(
            name=row.name.removeprefix(BURNIN),
            value=row.value,
            unit=row.unit,
            subject=row.subject,
            address=row.address,
            test=row.test,
            card=row.card or "",
            to=row.to or "",
        )
        for row in report.measurements
        if row.test is not None
    ]
    if not rows:
        return []
    look = _look(report, rows)
    columns = [*_rate_columns(look), *_load_columns(look)]
    lines = [
        *_head(look),
        *(tables([*map(printable, look.gpus), *_foot(look)], columns) if columns else []),
    ]
    for label, way in WAYS.items():
        lines += _matrix(look, label, way)
    return [
        *lines,
        *_collectives(look),
        *_others(look, whole=whole),
        *_twice(look, whole=whole),
        Line(""),
    ]


def _look(report: Report, rows: Sequence[BurnInNumber]) -> BurnInRows:
    parts = [part.slot for part in report.parts if part.kind == "gpu"]
    tested = [row.card for row in rows if row.card != NODE and row.address] + [
        row.to for row in rows if row.to
    ]
    rates = [row for row in rows if row.name not in LOAD and row.name not in COUNTS]
    again = {
        (row.subject, row.name.removesuffix(AGAIN)): row
        for row in rates
        if row.name.endswith(AGAIN)
    }
    return BurnInRows(
        tuple(dict.fromkeys(parts + tested)),
        tuple(row for row in rates if not row.name.endswith(AGAIN)),
        again,
        tuple(row for row in rows if row.name in LOAD and not row.to),
        tuple(row for row in rows if row.name in COUNTS),
        any(one.finds_corruption and one.status is Status.FAIL for one in report.results),
    )


def _last(look: BurnInRows, row: BurnInNumber) -> float:
    """Return the rate that counts: the second try where there was one."""
    return float(look.again.get((row.subject, row.name), row).value)


# --- what was compared


def _head(look: BurnInRows) -> list[Line]:
    """Return how much was compared, and what the marks mean."""
    done: dict[str, float] = {}
    found = {row.subject: row.value for row in look.counts if row.name == "mismatches"}
    for row in look.counts:
        if (
            row.name == "operations" and row.subject in found
        ):  # without a result of the comparison nothing was compared
            done[row.unit] = done.get(row.unit, 0) + row.value
    wrong = sum(found.values())
    amounts = ", ".join(
        f"{_amount(value)} {printable(what)}" for what, value in done.items() if value
    )
    seen = (
        f"{_amount(wrong)} wrong"
        if wrong
        else "wrong results, listed above,"
        if look.corrupt
        else "no corruption seen"
    )
    lines = [
        Line(
            f"Burn-in: {seen} in {amounts}" if amounts else "Burn-in: nothing was compared",
            hang=len(INDENT),
        )
    ]
    if len(look.gpus) > 1:
        marks = f"! {100 * LOW:.0f} % or more, !! {100 * LOWER:.0f} % or more"
        legend = f"below the median: {marks}; - not measured"
        lines.append(Line(INDENT + legend, hang=len(INDENT)))
    return lines


def _amount(number: float) -> str:
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.1f} {word}"
    return f"{number:,.0f}"


# --- GPUs by numbers


def _foot(look: BurnInRows) -> list[str]:
    return ["median"] if len(look.gpus) > 1 else []


def _rate_columns(look: BurnInRows) -> Iterator[Column]:
    """Yield the columns of the rates, hot beside cold where they differ."""
    for first, last, group in GROUPS:
        found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        for row in look.rates:
            if _group(row) == group:
                test = row.test.removesuffix(HOT)
                heats = found.setdefault((row.name, test), {})
                heats.setdefault(row.test[len(test) :], {})[row.card] = _last(look, row)
        names = [name for name, _ in found]
        for (name, test), heats in found.items():
            head = printable(name[len(first) : -len(last)]).replace("_", " ")
            head = head if names.count(name) == 1 else f"{head} {printable(test).partition('-')[0]}"
            for heat in _select_heats(heats):
                yield _column(look, group, head + heat.replace("-", " "), heats[heat])


def _group(row: BurnInNumber) -> str:
    if row.to or row.card == NODE:
        return ""
    fitting = [one for one in GROUPS if row.name.startswith(one[0]) and row.name.endswith(one[1])]
    return max(fitting, key=lambda one: len(one[0]), default=("", "", ""))[2]


def _select_heats(heats: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return which of cold ('') and hot are shown: both where a GPU's numbers differ or one is
    missing, else the hot ones.
    """
    if len(heats) < 2:
        return list(heats)
    cold, hot = heats[""], heats[HOT]
    differ = cold.keys() != hot.keys() or any(
        abs(hot[gpu] - cold[gpu]) >= APART * cold[gpu] for gpu in cold
    )
    return ["", HOT] if differ else [HOT]


def _column(look: BurnInRows, group: str, head: str, values: Mapping[str, float]) -> Column:
    """Return one column with its median."""
    usual = upper_median(values.values())
    cells = [_cell(values.get(gpu), usual, _figure(values.get(gpu, 0.0))) for gpu in look.gpus]
    return Column(group, head, (*cells, *(Cell(_figure(usual)) for _ in _foot(look))))


def _cell(value: float | None, usual: float, text: str, normal: str = "") -> Cell:
    """Return a number with the mark of how far it is below the usual one; *normal* is the mark of
    one that is not.
    """
    if value is None:
        return NONE
    if usual and value <= (1 - LOWER) * usual:
        return Cell(text, "!!", "bold red")
    if usual and value <= (1 - LOW) * usual:
        return Cell(text, "!", "yellow")
    return Cell(text, normal, "green" if normal else "")


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def _load_columns(look: BurnInRows) -> Iterator[Column]:
    """Yield the highest temperatures of all tests, and power and clock in the test that draws
    most.
    """
    load = [row for row in look.load if row.card != NODE]
    for name, head in (("core_c", "core"), ("memory_c", "memory")):
        hottest: dict[str, float] = {}
        for row in load:
            if row.name == name:
                hottest[row.card] = max(row.value, hottest.get(row.card, row.value))
        yield from _whole(look, "hottest, °C", head, hottest, judged=False)
    drawn: dict[str, list[float]] = {}
    for row in load:
        if row.name == "power_w":
            drawn.setdefault(row.test, []).append(row.value)
    heaviest = max(drawn, key=lambda test: lower_median(drawn[test]), default="")
    for name, head in (("power_w", "mean W"), ("sm_clock_mhz", "SM MHz")):
        values = {row.card: row.value for row in load if row.name == name and row.test == heaviest}
        yield from _whole(
            look, f"in {printable(heaviest)}", head, values, judged=name == "sm_clock_mhz"
        )


def _whole(
    look: BurnInRows, group: str, head: str, values: Mapping[str, float], *, judged: bool
) -> Iterator[Column]:
    """Yield a column of whole numbers, none without values; *judged* where a lower one is a worse
    one.
    """
    if not values:
        return
    usual = (upper_median if judged else lower_median)(values.values())
    cells = [
        _cell(values.get(gpu), usual if judged else 0.0, f"{values.get(gpu, 0):.0f}")
        for gpu in look.gpus
    ]
    yield Column(group, head, (*cells, *(Cell(f"{usual:.0f}") for _ in _foot(look))))


# --- pairs


def _matrix(look: BurnInRows, label: str, way: str) -> list[Line]:
    """Return the speeds from each GPU (down) to each (across), each beside how it compares with
    the median of all pairs.
    """
    pairs = {
        (row.card, row.to): _last(look, row) for row in look.rates if row.name == label and row.to
    }
    if not pairs:
        return []
    usual = upper_median(pairs.values())
    group = f"GPU to GPU, {way}, GB/s; median {usual:.0f}; from (down) to (across)"
    columns = [
        Column(
            group,
            printable(to),
            tuple(_pair(pairs.get((gpu, to)), usual, same=gpu == to) for gpu in look.gpus),
        )
        for to in look.gpus
    ]
    return tables([printable(gpu) for gpu in look.gpus], columns)


def _pair(value: float | None, usual: float, *, same: bool) -> Cell:
    return Cell("") if same else _cell(value, usual, f"{value or 0:.0f}", "·")


# --- the node's own tests, and other tools


def _collectives(look: BurnInRows) -> list[Line]:
    """Return a line per collective: operation, transport, ranks, size and bus bandwidth."""
    named = [(parse_collective(row.name), row) for row in look.rates]
    table = [
        [*map(printable, collective), _figure(_last(look, row))]
        for collective, row in named
        if collective is not None
    ]
    if not table:
        return []
    heads = ["NCCL", "transport", "ranks", "size", "bus GB/s"]
    widths = [max(len(line[n]) for line in (heads, *table)) for n in range(len(heads))]
    lines = [Line("")]
    for line in (heads, *table):
        left = [word.ljust(width) for word, width in zip(line[:2], widths[:2], strict=True)]
        right = [word.rjust(width) for word, width in zip(line[2:], widths[2:], strict=True)]
        lines.append(Line("  ".join(left + right), hang=2))
    return lines


def _others(look: BurnInRows, *, whole: bool) -> list[Line]:
    """Return the rates that have no table, mostly those of other tools."""
    rows = [
        row
        for row in look.rates
        if not (_group(row) or parse_collective(row.name) or row.name in WAYS)
    ]
    lines = []
    for row in rows:
        subject = printable(parse_subject(row.subject).label)
        lines.append(
            Line(
                f"{subject}: {printable(row.name)} {_figure(_last(look, row))} {row.unit}",
                hang=2,
            )
        )
    return _listed(lines, whole=whole)


def _listed(lines: list[Line], *, whole: bool) -> list[Line]:
    """Return a list below an empty line, cut short unless the whole was asked for."""
    shown = lines if whole else lines[:MOST_OTHERS]
    more = (
        [Line(f"and {len(lines) - len(shown)} more (-v shows them)")]
        if len(shown) < len(lines)
        else []
    )
    return [Line(""), *shown, *more] if lines else []


def _twice(look: BurnInRows, *, whole: bool) -> list[Line]:
    """Return both numbers of what was measured again because the first was too low."""
    lines = []
    for row in look.rates:
        second = look.again.get((row.subject, row.name))
        if second is not None:
            subject = printable(parse_subject(row.subject).label)
            numbers = f"{_figure(row.value)}, at a second try {_figure(second.value)} {row.unit}"
            lines.append(Line(f"{subject}: {printable(row.name)} first {numbers}", hang=2))
    return _listed(lines, whole=whole)
