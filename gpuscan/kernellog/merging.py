"""What belongs together: notices that the driver prints in several lines, an SXid's further lines,
copies of one line.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gpuscan.kernellog.record import Record

if TYPE_CHECKING:
    from gpuscan.kernellog.events import Event

Pairs = Iterable[tuple["Event", str]]  # an event, and the way that its record came
OPENS = re.compile(
    r"NVRM: (?:The NVIDIA GPU \S+$|API mismatch: |This PCI I/O region|The NVIDIA probe routine was not called"
    r"|This can occur|installed in this system is not supported|.* installed in this system is$|The NVIDIA GPU \S+ \(PCI ID)"
)
OTHER = re.compile(
    r"NVRM: *(?:Xid\b|GPU\b|loading |Rate |RmInit|rm_|The NVIDIA|API mismatch|This PCI|None of|No NVIDIA|\w+: )"
)
APART = 12  # lines of others that may stand within one notice
FURTHER = 5  # lines of one notice
WINDOW_S, WINDOW_LINES, MOST_WAITING = 1.0, 16, 4096  # of one SXid
SAME_S, STAMP_S, MOST_COPIES, MARK_LINES = 2.0, 0.01, 20_000, 200
Key = tuple[object, ...]  # what an event says
TIME_BEGAN: Any = {
    "kind": "boot", "code": 0, "entry": "boot:time", "address": "", "part": "", "at_s": None, "text": "time began anew",
    "pid": 0, "process": "", "mig": "", "cause": 0, "severity": "", "values": {},
}  # fmt: skip


def whole(records: Iterable[Record]) -> Iterator[Record]:
    """Join the driver's notices whose lines came one by one, with others between them; the rest
    passes in its order.
    """
    waiting: list[Record] = []  # the notice's first line, and who came behind it
    joined = 0
    for record in records:
        if waiting and (record.line - waiting[0].line > APART or joined == FURTHER):
            yield from waiting
            waiting, joined = [], 0
        if waiting and _continues(waiting[0], record):
            first = waiting[0]
            waiting[0] = first._replace(message=f"{first.message}\n{record.message}")
            joined += 1
        elif record.kernel and OPENS.match(record.message) and "\n" not in record.message:
            yield from waiting
            waiting, joined = [record], 0
        elif waiting:
            waiting.append(record)
        else:
            yield record
    yield from waiting


def _continues(first: Record, record: Record) -> bool:
    own = record.message.startswith("NVRM: ") and not OTHER.match(record.message)
    return (
        own
        and record.kernel
        and record.transport == first.transport
        and _near(first, record, SAME_S)
    )


def _near(first: Record, second: Record, within_s: float) -> bool:
    """Tell whether two records' stamps are near each other, where both have one."""
    for one, other in ((first.at_s, second.at_s), (first.wall_s, second.wall_s)):
        if one is not None and other is not None:
            return abs(one - other) <= within_s
    return True


def settled(pairs: Pairs) -> Iterator[tuple["Event", str]]:
    """Merge the lines of one SXid: its report, and the `Severity` and `Data` lines before or
    behind that.
    """
    waiting: deque[list[tuple[Event, str]]] = deque()
    for event, transport in pairs:
        while waiting and (
            waiting[0][0][0].kind != "sxid"
            or _is_past(waiting[0][0][0], event)
            or len(waiting) > MOST_WAITING
        ):
            yield waiting.popleft()[0]
        mine = (
            [slot for slot in waiting if _one(slot[0], event, transport)]
            if event.kind == "sxid"
            else []
        )
        if mine:
            mine[-1][0] = (_merged(mine[-1][0][0], event), transport)
        else:
            waiting.append([(event, transport)])
    yield from (slot[0] for slot in waiting)


def _is_past(earlier: "Event", now: "Event") -> bool:
    for one, other in ((earlier.at_s, now.at_s), (earlier.wall_s, now.wall_s)):
        if one is not None and other is not None:
            return abs(other - one) > WINDOW_S
    return now.line - earlier.line > WINDOW_LINES


def _one(slot: tuple["Event", str], event: "Event", transport: str) -> bool:
    earlier, way = slot
    if (earlier.kind, earlier.code, earlier.address, way) != (
        event.kind,
        event.code,
        event.address,
        transport,
    ):
        return False
    if _is_past(earlier, event):
        return False
    continues = "continues" in earlier.values or "continues" in event.values
    return continues or earlier.values.get("link") == event.values.get("link")


def _merged(earlier: "Event", event: "Event") -> "Event":
    """Return both as one: the report's text, what both say, the first one's place and time."""
    report = event if "continues" in earlier.values and "continues" not in event.values else earlier
    values = {**event.values, **earlier.values, **report.values}
    data = [*earlier.values.get("data", ()), *event.values.get("data", ())]
    values |= {"data": data} if data else {}
    if "continues" not in report.values:
        values.pop("continues", None)
    severity = report.severity or earlier.severity or event.severity
    return report._replace(
        severity=severity,
        values=values,
        line=earlier.line,
        at_s=earlier.at_s,
        wall_s=earlier.wall_s,
    )


class Copies:
    """What has come, by what it says and the way that it came; bounded: of more the oldest are
    forgotten.
    """

    def __init__(self) -> None:
        self.held: OrderedDict[Key, dict[frozenset[str], deque[Event]]] = OrderedDict()
        self.number = 0

    def has(self, key: "Key", event: "Event", way: str) -> bool:
        """Tell whether an event is a copy of one that came another way; each stands for one copy
        from each way only.
        """
        ways = self.held.get(key, {})
        for other, earlier in ways.items():
            copy = (
                None if way in other else next((one for one in earlier if _same(one, event)), None)
            )
            if copy is not None:
                earlier.remove(copy)
                ways.setdefault(other | {way}, deque()).append(copy)
                return True
        return False

    def add(self, key: "Key", event: "Event", way: str) -> None:
        """Book an event that is none."""
        self.held.setdefault(key, {}).setdefault(frozenset((way,)), deque()).append(event)
        self.number += 1
        while self.number > MOST_COPIES:
            _, ways = self.held.popitem(last=False)
            self.number -= sum(map(len, ways.values()))


def once(pairs: Pairs) -> Iterator["Event"]:
    """Leave out copies of one line that came another way, and say where time begins anew: there
    was a boot between.
    """
    copies, latest = Copies(), dict[str, float]()
    boot: Event | None = None  # the last, while nothing else has come behind it
    for event, way in pairs:
        key = (
            event.entry,
            event.address,
            event.part,
            event.text,
            event.pid,
            event.values.get("link"),
        )
        if copies.has(key, event, way):
            continue
        if event.kind == "boot":
            marked = (
                boot is not None
                and boot.entry != "boot:kernel"
                and event.line - boot.line <= MARK_LINES
            )
            boot, copies, latest = event, Copies(), {}
            copies.add(key, event, way)
            if not marked:  # journalctl's mark stands just before the kernel's banner: one boot
                yield event
            continue
        boot = None
        if event.at_s is not None:
            if event.at_s + SAME_S < latest.get(way, 0.0):
                copies, latest = Copies(), {}
                yield event._replace(**TIME_BEGAN)
            latest[way] = max(event.at_s, latest.get(way, 0.0))
        copies.add(key, event, way)
        yield event


def _same(earlier: "Event", event: "Event") -> bool:
    """Tell whether two events of one text are one: by the kernel's stamps, else by wall time, else
    by the text alone.
    """
    if earlier.kind != "boot" and earlier.at_s is not None and event.at_s is not None:
        return abs(earlier.at_s - event.at_s) <= STAMP_S
    if earlier.wall_s is not None and event.wall_s is not None:
        return abs(earlier.wall_s - event.wall_s) <= SAME_S
    return earlier.kind != "boot"  # every boot of one kernel has the same banner
