"""What nccl-tests, gpu-burn and perftest print as text: a table, a line a GPU, a last row."""

import math
import re
from typing import Any

from gpuscan.burnin.rates import Collective
from gpuscan.burnin.tools.output import Output, by_index, last_words, number, rate, record
from gpuscan.model.burnin import BurnTest, Ending

BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(-?\d+)\s+(OK|FAILED)", re.MULTILINE)
CHECKED = re.compile(
    r"^#\s+size\s.*\bbusbw\s+(#wrong|error)", re.MULTILINE
)  # the latter is a deviation, before 2022
RANK = re.compile(r"^#\s*Rank\s+\d+\b.*\bdevice\b", re.MULTILINE)
GPU = re.compile(r"^\s*GPU (\d+): (OK|FAULTY)\s*$", re.MULTILINE)
TESTED = re.compile(r"^Tested (\d+) GPUs?:", re.MULTILINE)
PROGRESS = re.compile(r"proc'd: (.*?)\s+errors: (.*?)\s+temps:")


def nccl(output: Output) -> list[BurnTest]:
    """Make the record of `all_reduce_perf`: values out of bounds, and the better bus bandwidth at
    the largest size.

    Raises ValueError where its table or its end lacks, or it ran on other than the wanted number of
    GPUs.
    """
    ranks = int(output.key.split(" -g ")[1].split()[0])
    bounds = BOUNDS.search(output.stdout)
    rows = [
        row
        for row in (line.split() for line in output.stdout.splitlines())
        if len(row) >= 12 and row[0].isdecimal()
    ]
    checked = CHECKED.search(output.stdout)
    if bounds is None or not rows:
        raise ValueError(f"its table has no end ({last_words(output)})")
    if checked is None:
        raise ValueError("its table does not tell what was wrong")
    if len(RANK.findall(output.stdout)) != ranks:
        raise ValueError(
            f"it did not run on {ranks} GPUs, but on {len(RANK.findall(output.stdout))}"
        )
    if re.search(r"\bvalidation: 0\b", output.stdout):
        raise ValueError("it compared nothing")
    told = sum(_wrong(row[at]) for row in rows for at in (-1, -5))
    wrong = max(told if checked[1] == "#wrong" else 0, abs(int(bounds[1])))
    largest = max(rows, key=lambda row: int(row[0]))
    best = max(number(largest[-2]), number(largest[-6]))
    failed = wrong > 0 or bounds[2] == "FAILED"
    made = record(
        output,
        ended=Ending.FAILED if failed else Ending.RAN,
        text=f"{wrong} values are out of bounds" if failed else "",
        what="sums of an all-reduce, on each GPU",
        operations=2 * sum(int(row[1]) for row in rows),
        mismatches=max(wrong, int(failed)),
        rates=(
            rate(
                output,
                str(Collective("all-reduce", "any", str(ranks), _size(int(largest[0])))),
                [best],
            ),
        ),
    )
    return [made]


def _wrong(text: str) -> int:
    """Parse a count of wrong values (a million reads `1e+06`); where nothing was compared it is
    `N/A`. Raises ValueError.
    """
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
    """Make one record a GPU of `gpu_burn`; raises ValueError where it does not end with a line for
    each GPU.

    Its exit code tells nothing. A GPU that died at work is FAULTY or OK by chance, and one that
    multiplied nothing is OK.
    """
    end = TESTED.search(output.stdout)
    lines = [] if end is None else GPU.findall(output.stdout, end.end())
    if end is None or len(lines) != int(end[1]) or not lines or output.exit_code < 0:
        raise ValueError(f"it did not come to its end ({last_words(output)})")
    shown = PROGRESS.findall(output.stdout.replace("\r", "\n"))
    return [_burnt(output, int(index), word, shown) for index, word in lines]


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
        seen = f" after {wrong} wrong elements" if wrong > 0 else ""  # too many turn negative
        text = "its work on this GPU died" if died else f"gpu_burn calls the GPU {word}{seen}"
        facts |= {"ended": Ending.FAILED, "text": text} | (
            {"mismatches": wrong} if wrong > 0 else {}
        )
    elif products <= 0:
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


def _column(shown: list[str], index: int, pattern: str) -> list[tuple[int, str]]:
    """Return what the lines of progress say of one GPU, in their order: a count, and what stands
    with it.
    """
    cells = [
        parts[index].strip()
        for parts in (re.split(r"\s*- ", line) for line in shown)
        if index < len(parts)
    ]
    return [(int(hit[1]), hit[2]) for hit in (re.match(pattern, cell) for cell in cells) if hit]


def write_bw(output: Output) -> list[BurnTest]:
    """Make the record of `ib_write_bw`: the average of its last row, in Gb/s. Raises ValueError
    without such a row.
    """
    row = _row(output, "BW average[Gb/sec]")
    return [
        record(
            output,
            _device(output),
            ended=Ending.RAN,
            rates=(rate(output, "ib_write_gbps", [number(row[3])]),),
        )
    ]


def write_lat(output: Output) -> list[BurnTest]:
    """Make the record of `ib_write_lat`: the typical (median) time one way, in microseconds."""
    row = _row(output, "t_typical[usec]")
    return [
        record(
            output,
            _device(output),
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


def _device(output: Output) -> str:
    """Return the adapter, and its port where that was asked for."""
    words = output.key.split()
    name = words[words.index("-d") + 1]
    return f"{name} port {words[words.index('-i') + 1]}" if "-i" in words else name
