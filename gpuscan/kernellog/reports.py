"""Join what the kernel writes in several records of one report: a hung task and its stack, an
out-of-memory kill and the memory limit behind it.

Tools that stamp each line (dmesg, journalctl, syslog, /dev/kmsg) make a record of each.
"""

import re
from collections.abc import Iterable, Iterator

from gpuscan.kernellog.record import Record

HUNG = re.compile(r"INFO: task [^\n]+ blocked\b")
KILL = re.compile(r"oom-kill:constraint=|Task in \S+ killed as a result of limit of ")
OPENS = re.compile(f"{HUNG.pattern}|{KILL.pattern}")
# a frame in one of the modules that a hang is known to be of; kernels may print a build id, too
FRAME = re.compile(
    r"^ *(?:\[<[0-9a-f]+>\] )?[\w.]+\+0x[0-9a-f]+/0x[0-9a-f]+ "
    r"\[(?:nvidia|nfs|sunrpc|lustre|ptlrpc|osc|lov|mdc|llite|mlx5|ib_)\w*(?: [0-9a-f]+)?\]",
    re.MULTILINE,
)  # a frame with `?` is a leftover on the stack, not where the task waits
# another report: the frames that follow are not the hung task's
OTHER = re.compile(
    r"INFO: (?:task|rcu)|(?:watchdog: )?BUG: |WARNING: CPU|Oops|NMI backtrace|Sending NMI"
    r"|CPU: \d+ [PU]ID: "
)
KILLED = re.compile(
    r"(?:Memory cgroup out|Out) of memory(?: \([\w ]+\))?: Kill(?:ed)? process (\d+)\b"
)
VICTIM = re.compile(r",pid=(\d+)")
LINES = 200  # that a report may be long, with what other CPUs print between its lines
SECONDS = 5.0  # a slow serial console takes as long for a stack
FRAMES = 12  # that are joined: the first ones say where the task waits


def join_reports(records: Iterable[Record]) -> Iterator[Record]:
    """Join a report's lines to its first one; all records pass in their order.

    A kill is one record for its two lines; a stack's frames pass again, as they make no event.
    """
    waiting: list[Record] = []  # the report, then the records after its first line
    for record in records:
        if waiting and _is_over(waiting[0], record):
            yield from waiting
            waiting = []
        if not waiting:
            if record.kernel and OPENS.match(record.message):
                waiting = [record]
            else:
                yield record
            continue
        joined = _join(waiting[0], record)
        if joined is not None:
            waiting[0] = joined
        if joined is None or HUNG.match(joined.message):
            waiting.append(record)
        else:
            yield from waiting
            waiting = []
    yield from waiting


def _is_over(first: Record, record: Record) -> bool:
    if record.line - first.line > LINES or OPENS.match(record.message):
        return True
    if record.transport == first.transport and OTHER.match(record.message):
        return True
    for earlier, later in ((first.at_s, record.at_s), (first.wall_s, record.wall_s)):
        if earlier is not None and later is not None:
            return abs(later - earlier) > SECONDS
    return False


def _join(first: Record, record: Record) -> Record | None:
    """Return the report with what a record adds to it, None if it adds nothing."""
    if record.transport != first.transport or not record.kernel:
        return None
    if not HUNG.match(first.message):
        return _join_kill(first, record)
    frames = [hit[0].strip() for hit in FRAME.finditer(record.message)]
    if not frames or len(FRAME.findall(first.message)) >= FRAMES:
        return None
    return first._replace(message="\n".join([first.message, *frames[:FRAMES]]))


def _join_kill(first: Record, record: Record) -> Record | None:
    """Return both lines of one kill: of the same process, where the first names it."""
    killed, victim = KILLED.match(record.message), VICTIM.search(first.message)
    if killed is None or (victim and victim[1] != killed[1]):
        return None
    return first._replace(message=f"{first.message}\n{record.message}")
