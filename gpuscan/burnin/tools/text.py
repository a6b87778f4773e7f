"""What nccl-tests, gpu-burn and perftest print as text: a table, a line a GPU, a last row."""

import math
import re
from typing import Any

from gpuscan.burnin.rates import Collective
from gpuscan.burnin.tools.output import Output, by_index, last_words, number, rate, record
from gpuscan.model.burnin import BurnTest, Ending, Rate
from gpuscan.model.outcome import Action
from gpuscan.text import counted

BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(-?\d+)\s+(OK|FAILED)", re.MULTILINE)
CHECKED = re.compile(
    r"^#\s+size\s.*\bbusbw\s+(#wrong|error)", re.MULTILINE
)  # the latter is a deviation, before 2022
RANK = re.compile(r"^#\s*Rank\s+\d+\b.*\bdevice\b", re.MULTILINE)
GPU = re.compile(r"^\s*GPU (\d+): (OK|FAULTY)\s*$", re.MULTILINE)
TESTED = re.compile(r"^Tested (\d+) GPUs?:", re.MULTILINE)
PROGRESS = re.compile(r"proc'd: ([^:\n]*[^:\s])\s++errors: ([^:\n]*[^:\s])\s++temps:")
NO_CLIENT = "No clients are alive"
GBPS_OF_MIB = 8 * 2**20 / 1e9  # perftest's MB are of 2^20 bytes
NOT_COMPARED = "N/A"
COLLECTIVE = re.compile(r"\b(all_reduce|\w+)_perf\b")
DEVICE = re.compile(r"\bDevice\s+: (\S+)")


def nccl(output: Output) -> list[BurnTest]:
    """Make the record of an nccl-test: values out of bounds, and for `all_reduce_perf` the better
    bus bandwidth at the largest size.

    A row that counts wrong values is proof, wherever the output ends. Raises ValueError where the
    table proves nothing: it or its end lacks, or it ran on other than the wanted number of GPUs.
    """
    rows = [
        row
        for row in (line.split() for line in output.stdout.splitlines())
        if len(row) >= 12 and row[0].isdecimal() and row[1].isdecimal()
    ]
    checked = CHECKED.search(output.stdout)
    bounds = BOUNDS.search(output.stdout)
    wrong = _count_wrong(rows, checked[1] if checked else "", bounds)
    failed = wrong > 0 or (bounds is not None and bounds[2] == "FAILED")
    if not failed:
        _require_proof(output, rows, checked, bounds)
    return [
        record(
            output,
            ended=Ending.FAILED if failed else Ending.RAN,
            text=f"{counted(wrong, 'value is', 'values are')} out of bounds" if failed else "",
            what="sums of an all-reduce, on each GPU",
            operations=2 * sum(int(row[1]) for row in rows),
            mismatches=max(wrong, int(failed)),
            rates=_bus_rates(output, rows) if bounds and rows else (),
        )
    ]


def _count_wrong(rows: list[list[str]], column: str, bounds: re.Match[str] | None) -> int:
    """Return how many values were wrong, by the rows or by the sum at the end."""
    cells = [row[at] for row in rows for at in (-1, -5)] if column == "#wrong" else []
    told = sum(_wrong(cell) for cell in cells if cell != NOT_COMPARED)
    return max(told, abs(int(bounds[1])) if bounds else 0)


def _require_proof(
    output: Output, rows: list[list[str]], checked: re.Match[str] | None, bounds: Any
) -> None:
    """Raise ValueError where a table without a wrong value does not prove that there is none."""
    if bounds is None or not rows:
        raise ValueError(f"its table has no end ({last_words(output)})")
    if checked is None:
        raise ValueError("its table does not tell what was wrong")
    ranks, wanted = len(RANK.findall(output.stdout)), _wanted_ranks(output)
    if not ranks or wanted not in (None, ranks):
        raise ValueError(f"it ran on {counted(ranks, 'GPU')}, not on {wanted or 'any'}")
    if re.search(r"\bvalidation: 0\b", output.stdout):
        raise ValueError("it compared nothing")
    if checked[1] == "#wrong" and NOT_COMPARED in {row[at] for row in rows for at in (-1, -5)}:
        raise ValueError(f"its count of wrong values is {NOT_COMPARED!r}")


def _wanted_ranks(output: Output) -> int | None:
    """Return how many GPUs the command asked for; None where it is not known."""
    _, found, rest = output.key.partition(" -g ")
    return int(rest.split()[0]) if found else None


def _bus_rates(output: Output, rows: list[list[str]]) -> tuple[Rate, ...]:
    """Return the rate of an all-reduce; other collectives have no floors."""
    named = COLLECTIVE.search(output.key) or COLLECTIVE.search(output.stdout)
    ranks = _wanted_ranks(output) or len(RANK.findall(output.stdout))
    if named is None or named[1] != "all_reduce" or not ranks:
        return ()
    largest = max(rows, key=lambda row: int(row[0]))
    best = max(number(largest[-2]), number(largest[-6]))
    label = str(Collective("all-reduce", "any", str(ranks), _size(int(largest[0]))))
    return (rate(output, label, [best]),)


def _wrong(text: str) -> int:
    """Parse a count of wrong values (a million reads `1e+06`); raises ValueError."""
    try:
        return math.ceil(number(text))
    except ValueError:
        raise ValueError(f"its count of wrong values is {text!r}") from None


def _size(size: int) -> str:
    """Return a size as people say it.

    >>> _size(1 << 30), _size(1 << 25), _size(1000)
    ('1GiB', '32MiB', '1000B')
    """
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return f"{size}B"


def gpu_burn(output: Output) -> list[BurnTest]:
    """Make one record a GPU of `gpu_burn`.

    Its exit code tells nothing. A GPU that died at work is FAULTY or OK by chance, and one that
    multiplied nothing is OK. Where it does not end with a line for each GPU, what it had counted
    until then is proof against a GPU, never for one: raises ValueError without such proof.
    """
    end = TESTED.search(output.stdout)
    lines = [] if end is None else GPU.findall(output.stdout, end.end())
    shown = PROGRESS.findall(output.stdout.replace("\r", "\n"))
    if end is None or len(lines) != int(end[1]) or not lines or output.exit_code < 0:
        broken = _broken_off(output, shown, dict(lines))
        if broken:
            return broken
        raise ValueError(f"it did not come to its end ({last_words(output)})")
    return [_burnt(output, int(index), word, shown) for index, word in lines]


def _broken_off(
    output: Output, shown: list[tuple[str, str]], words: dict[str, str]
) -> list[BurnTest]:
    """Return the records of the GPUs that were wrong or died before the output ends."""
    gpus = max((errors.count("- ") + 1 for _, errors in shown), default=0)
    numbers = {*map(str, range(gpus)), *words}
    records = [
        _burnt(output, int(index), words.get(index, ""), shown)
        for index in sorted(numbers, key=int)
    ]
    failed = [one for one in records if one.ended == Ending.FAILED]
    if not failed and NO_CLIENT in output.stdout:
        text = "all of its work died before it was done"
        return [record(output, ended=Ending.FAILED, text=text)]
    return failed


def _burnt(output: Output, index: int, word: str, shown: list[tuple[str, str]]) -> BurnTest:
    work = _column([work for work, _ in shown], index, r"(-?\d+) \(([\d.]+) Gflop/s\)")
    errors = _column([errors for _, errors in shown], index, r"(-?\d+)(.*)")
    died = any("DIED" in note for _, note in errors) or any(products < 0 for products, _ in work)
    counts = [
        count for count, note in errors if "DIED" not in note
    ]  # of what has died anything is printed
    wrong = max(counts, default=0)
    products = max((products for products, _ in work), default=0)
    gpu = by_index(output, index)
    facts: dict[str, Any] = {"what": "matrix products", "operations": products}
    if died or word == "FAULTY" or any(counts):
        facts |= _fault(word, died, wrong)
    elif products <= 0 or not word:
        facts = {
            "ended": output.unread(
                "garbled", "gpu_burn calls the GPU OK, and shows no work that it did"
            )
        }
    else:
        facts |= {
            "ended": Ending.RAN,
            "mismatches": 0,
            "rates": (rate(output, "gpu_burn_gflops", [number(work[-1][1])]),),
        }
    return record(output, "" if gpu else f"GPU {index}", gpu, **facts)


def _fault(word: str, died: bool, wrong: int) -> dict[str, Any]:
    """Return the facts of a GPU that failed. Wrong products are what DCGM calls a memory mismatch,
    which asks for an inspection; why work died only the kernel log can tell.
    """
    seen = f" after {wrong} wrong elements" if wrong > 0 else ""  # too many turn negative
    called = f"gpu_burn calls the GPU {word}" if word else "gpu_burn counts errors on the GPU"
    facts: dict[str, Any] = {
        "ended": Ending.FAILED,
        "text": "its work on this GPU died" if died else f"{called}{seen}",
    }
    if wrong > 0:
        facts["mismatches"] = wrong
    if wrong > 0 and not died:
        facts["action"] = Action.INSPECT.value
    return facts


def _column(shown: list[str], index: int, pattern: str) -> list[tuple[int, str]]:
    """Return what the lines of progress say of one GPU, in their order: a count, and what stands
    with it.
    """
    cells = [
        parts[index].strip()
        for parts in (re.split(r"(?<!\s)\s*+- ", line) for line in shown)
        if index < len(parts)
    ]
    return [(int(hit[1]), hit[2]) for hit in (re.match(pattern, cell) for cell in cells) if hit]


def write_bw(output: Output) -> list[BurnTest]:
    """Make the record of `ib_write_bw`: the average of its last row, in Gb/s. Raises ValueError
    without such a row.
    """
    in_megabytes = "BW average[MB/sec]" in output.stdout
    row = _row(output, f"BW average[{'MB' if in_megabytes else 'Gb'}/sec]")
    gbps = number(row[3]) * (GBPS_OF_MIB if in_megabytes else 1)
    return [
        record(
            output,
            device(output),
            ended=Ending.RAN,
            rates=(rate(output, "ib_write_gbps", [gbps]),),
        )
    ]


def write_lat(output: Output) -> list[BurnTest]:
    """Make the record of `ib_write_lat`: the typical (median) time one way, in microseconds."""
    row = _row(output, "t_typical[usec]")
    return [
        record(
            output,
            device(output),
            ended=Ending.RAN,
            rates=(rate(output, "ib_write_latency_us", [number(row[4])]),),
        )
    ]


def _row(output: Output, column: str) -> list[str]:
    """Return the last row below the header that names *column*; a remark on the CPU's clock may
    stand between them.
    """
    _, found, below = output.stdout.rpartition(column)
    rows = [
        row
        for row in (line.split() for line in below.splitlines()[1:])
        if len(row) >= 5 and row[0].isdecimal()
    ]
    if not found or not rows or output.exit_code or number(rows[-1][1]) < 1:
        raise ValueError(f"it measured nothing ({last_words(output)})")
    return rows[-1]


def device(output: Output) -> str:
    """Return the adapter that perftest was asked for, and its port; empty without one."""
    words = output.key.split()
    if "-d" not in words:
        printed = DEVICE.search(output.stdout)
        return printed[1] if printed else ""
    name = words[words.index("-d") + 1]
    return f"{name} port {words[words.index('-i') + 1]}" if "-i" in words else name
