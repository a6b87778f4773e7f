"""What another program's run left behind, and how a record of the burn-in is made of it."""

import math
from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from gpuscan.model import Gpu, Unread, is_unread
from gpuscan.model.burnin import BurnTest, Rate

LONGEST = 400  # characters of a program's own words in a record
ODDITIES = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    OverflowError,
)  # of broken output


class Output(NamedTuple):
    """What a program printed, and on which node; *key* is its reading's key, *name* the record's
    (`dcgmi-diag`).
    """

    key: str
    name: str
    stdout: str
    stderr: str
    exit_code: int
    seconds: float
    gpus: tuple[Gpu, ...]

    def unread(self, kind: str, text: str) -> Any:
        """Return a fact that this program did not give, typed as any fact."""
        return Unread(self.key, kind, brief(text))


class Absent(ValueError):
    """What a program needs is not there or not running: that is as if it were not on PATH."""


def record(output: Output, part: str = "", gpu: Gpu | None = None, **facts: Any) -> BurnTest:
    """Make the record of one part of a run, on one GPU or the node: whatever *facts* does not
    give was not recorded.
    """
    label = gpu.label if gpu is not None else "node"
    untold = output.unread(
        "not-recorded", f"{output.key.split()[0].removeprefix('run:')} does not tell it"
    )
    known: dict[str, Any] = dict.fromkeys(BurnTest._fields, untold)
    known |= {
        "label": " ".join(filter(None, (label, output.name, part))),
        "name": output.name,
        "part": part,
        "address": gpu.address if gpu is not None else "",
        "kind": "tool",
        "gpu": label,
        "to": "",
        "hot": False,
        "seconds": output.seconds,
        "text": "",
        "rates": (),
        "action": "",
    }
    return BurnTest(**{**known, **facts})


def lacking(output: Output, lack: Any, part: str = "") -> BurnTest:
    """Make the record of a run that tells nothing: each fact of it is *lack*."""
    names = ("seconds", "text", "what", "rates", "action")
    facts = [
        name
        for name in BurnTest._fields
        if name not in ("label", "name", "part", "address", "kind", "gpu", "to", "hot", *names)
    ]
    return record(output, part, **dict.fromkeys((*facts, *names), lack))


def rate(output: Output, label: str, values: Iterable[float]) -> Rate:
    """Return the least of the values as a rate, beside their median where there are several."""
    numbers = list(values)
    usual: Any = (
        median(numbers) if len(numbers) > 1 else output.unread("not-recorded", "measured once")
    )
    return Rate(label, min(numbers), (), usual)


def number(text: Any) -> float:
    """Parse a number that is neither negative nor endless; raises ValueError."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is no measurement")
    return value


def brief(text: str) -> str:
    """Shorten a program's words to one line that fits into a finding."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def last_words(output: Output) -> str:
    """Return the last line that a program printed of its failure, or its exit code."""
    for text in (output.stderr, output.stdout):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            return f"exit code {output.exit_code}: {lines[-1]}"
    return f"exit code {output.exit_code}, and it printed nothing"


def by_index(output: Output, index: int) -> Gpu | None:
    """Return the GPU of an NVML index, nothing where no GPU is known by it."""
    return next(
        (gpu for gpu in output.gpus if not is_unread(gpu.nvml_index) and gpu.nvml_index == index),
        None,
    )
