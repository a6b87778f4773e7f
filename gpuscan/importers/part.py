"""What every importer shares: the record that declares it, the part that it reads, its readings."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording
from gpuscan.recording.keys import handle

NAMELESS = "unnamed"  # the GPU of a fragment that does not say which one it is about
ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"  # as nvidia-smi prints it
NOT_A_QUERY = r"^(?!.*--query-)"  # `nvidia-smi --query-…`, whose output may be sent to a log


class Part(NamedTuple):
    """One tool's output, one file or one stretch of a log.

    *kind* is the name of its importer; *origin* the file that it came from; *command* the line
    above it that says what it is.
    """

    kind: str
    text: str
    origin: str = ""
    command: str = ""


class Input(NamedTuple):
    """One node to judge: what it is called ("" in find_inputs: the whole input), and how to load
    it; *note* is what people should know of what lies beside it.
    """

    name: str
    load: Callable[[], Recording]
    note: str = ""


def _never(line: str, kind: str) -> bool:
    return False


class Importer(NamedTuple):
    """How the output of one tool is recognised and read.

    Text is cut into parts line by line. A line with a *commands* pattern in a header begins a part;
    if the command matches *owns*, its output is of this importer whatever it looks like. Any other
    line goes to the first importer that accepts it, in three rounds: *claims* for a form that only
    this tool writes, *begins* for the usual first line, *fits* for a line that could be this
    tool's. The last two are also given the kind of the part so far ("" at its start). *continues*
    is asked first of the part's own importer. What *opens* finds in a line comes once in a
    document: the second time, another begins. An XML document is recognised by its *root*.
    """

    name: str  # the kind of its parts, as reports name it
    reads: str  # what it reads, for error messages and documentation
    readings: Callable[[Part], list[Reading]]
    commands: str = ""
    owns: str = ""
    claims: re.Pattern[str] | None = None
    begins: Callable[[str, str], bool] = _never
    fits: Callable[[str, str], bool] = _never
    continues: Callable[[str], bool] | None = None
    opens: re.Pattern[str] | None = None
    root: str = ""


def begins_with(pattern: str, flags: int = 0) -> Callable[[str, str], bool]:
    """Return a test for *begins* or *fits* that searches the line for a pattern."""
    compiled = re.compile(pattern, flags)

    def test(line: str, kind: str) -> bool:
        return compiled.search(line) is not None

    return test


def answer(key: str, value: Any) -> Reading:
    """Return a reading with a value."""
    return Reading(key, value)


def refusal(key: str, kind: str, text: str, code: int | None = None) -> Reading:
    """Return a reading with an error of a *kind* of `Unread`; *code* is NVML's return code."""
    return Reading(key, None, Unread(key, kind, text, code))


def open_gpu(gpu: str) -> Reading:
    """Return the reading of a GPU that could be opened."""
    return answer(handle(gpu), True)


def by_index(number: int | str) -> str:
    """Return the name of a GPU of which only the index is known; it replaces the address in keys.

    >>> by_index(3)
    'GPU 3'
    """
    return f"GPU {int(number)}"
