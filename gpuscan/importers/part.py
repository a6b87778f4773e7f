"""A part of an input: one tool's output, one file or one stretch of a log, with where it came
from.
"""

from typing import Any, NamedTuple

from gpuscan.model import Unread
from gpuscan.recording import Reading

NAMELESS = "unnamed"  # the GPU of a fragment that does not say which one it is about
ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"  # as nvidia-smi prints it
COMPLAINT = "text:nvidia-smi"
TOLD_GPUS = "import:cards"


class Part(NamedTuple):
    """*kind* names its importer (`nvidia-smi -q`); *origin* the file; *command* is the line above
    it that said what it is.
    """

    kind: str
    text: str
    origin: str = ""
    command: str = ""


def answer(key: str, value: Any) -> Reading:
    """Return a reading that has a value."""
    return Reading(key, value)


def refusal(key: str, kind: str, text: str, code: int | None = None) -> Reading:
    """Return a reading that is an error of *kind* (see gpuscan.model.unread), with NVML's return
    code where there is one.
    """
    return Reading(key, None, Unread(key, kind, text, code))


def by_index(number: int | str) -> str:
    """Return the name of a GPU that a fragment knows by its index only: it stands where an address
    would.

    >>> by_index(3)
    'GPU 3'
    """
    return f"GPU {int(number)}"


def handle(gpu: str) -> str:
    """Return the key that tells whether a GPU can be opened."""
    return f"nvml:nvmlDeviceGetHandleByPciBusId({gpu})"
