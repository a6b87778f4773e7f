"""The logs of the Fabric Manager, IMEX and NVLSM: what they call an error since they were last
started.
"""

import re
from collections.abc import Iterable, Iterator

from gpuscan.importers.part import Importer, Part, begins_with
from gpuscan.importers.said import Line, reading
from gpuscan.kernellog import hostlines
from gpuscan.recording import Reading
from gpuscan.recording.keys import DAEMON_ERRORS

STAMP = r"\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\]"
IMEX_LINE = re.compile(rf"{STAMP} \[(?P<level>\w+)\] \[tid \d+\] (?P<text>.*)$")
MANAGER_START = re.compile(
    r"\bFabric Manager version \S+ is running|Fabric Manager Log initializing"
)
IMEX_START = re.compile(r"IMEX Log initializing|\bIMEX version \S+ is running")
# OpenSM's form: `Mar 05 08:00:01 123456 [7F2BC700] 0x01 -> osm_vendor_bind: ERR 5424: …`
SM_LINE = re.compile(
    r"^\s*[A-Z][a-z]{2} +\d+ [\d:]{8} \d{6} \[\w+\] 0x(?P<level>[0-9a-fA-F]+) -> (?P<text>.*)$"
)
SM_START = re.compile(r"(?:OpenSM|NVLSM|NVLink Subnet Manager) \S*\d\.\d")
BAD = ("ERROR", "FATAL", "CRITICAL")


def imex_readings(part: Part) -> list[Reading]:
    """Return a row of each line of IMEX since its last start.

    >>> line = "[Sep 18 2026 06:40:33] [ERROR] [tid 77] failed to bind to port 50000"
    >>> imex_readings(Part("IMEX log", line))[0].value[0][:2]
    ['nvidia-imex', 'error']
    """
    return reading(DAEMON_ERRORS, _imex_lines(_since(IMEX_START, part.text)))


def _imex_lines(lines: Iterable[str]) -> Iterator[Line]:
    for hit in filter(None, map(IMEX_LINE.search, lines)):
        kind = "error" if hit["level"] in BAD else "said"
        yield Line("nvidia-imex", kind, hit["text"].strip())


def manager_readings(part: Part) -> list[Reading]:
    """Return a row of each error of the Fabric Manager since its last start that the catalogue does
    not know: the log itself is read for those that it does.

    >>> line = "[Sep 18 2026 06:40:33] [ERROR] [tid 77] failed to bind to port 6666"
    >>> manager_readings(Part("Fabric Manager log", line))[0].value[0][:2]
    ['nvidia-fabricmanager', 'error']
    """
    lines = _imex_lines(_since(MANAGER_START, part.text))
    errors = (line for line in lines if line.kind == "error" and not hostlines.match(line.text))
    return reading(DAEMON_ERRORS, (line._replace(part="nvidia-fabricmanager") for line in errors))


def sm_readings(part: Part) -> list[Reading]:
    """Return a row of each line of the subnet manager since its last start."""
    return reading(DAEMON_ERRORS, _sm_lines(_since(SM_START, part.text)))


def _sm_lines(lines: Iterable[str]) -> Iterator[Line]:
    for hit in filter(None, map(SM_LINE.match, lines)):
        bad = ": ERR " in hit["text"] or int(hit["level"], 16) & 0x01
        yield Line("nvlsm", "error" if bad else "said", hit["text"].strip())


def _since(start: re.Pattern[str], text: str) -> list[str]:
    """Return the lines from the last start on, all of them without one."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if start.search(line)]
    return lines[starts[-1] :] if starts else lines


IMEX = Importer(
    name="IMEX log",
    reads="logs of IMEX and NVLSM",
    readings=imex_readings,
    commands=r"nvidia-imex\S*\.log",
    owns=r"nvidia-imex\S*\.log",
    begins=begins_with(rf"^IMEX Log initializing|{STAMP} \[\w+\] \[tid \d+\] .*\bIMEX\b"),
    continues=lambda line: IMEX_LINE.search(line) is not None,
)
NVLSM = Importer(
    name="NVLSM log",
    reads="logs of IMEX and NVLSM",
    readings=sm_readings,
    commands=r"nvlsm\.log",
    owns=r"nvlsm\.log",
    claims=SM_LINE,
)
