"""Rows of a report: what its lists hold besides results; fields are named like the JSON keys."""

from typing import NamedTuple


class BlindSpot(NamedTuple):
    """A fact that could not be read, and why.

    *fact* is its path without the subject (`gpus[].performance_state`), *kind* and *text* are
    those of the Unread, *subjects* the results that lacked it.
    """

    fact: str
    kind: str
    text: str
    subjects: tuple[str, ...]


class Measurement(NamedTuple):
    """A number that was read, with its unit.

    *name* is the fact (`power.usage_w`, `burnin.gemm_bf16_tflops`). *test* and *card* are set for
    what a burn-in measured: its test, and the GPU tested (`node` for what no GPU did alone); *to*
    is the GPU at the other end of a test between two.
    """

    name: str
    value: float
    unit: str
    subject: str
    address: str
    test: str | None = None
    card: str | None = None
    to: str | None = None
