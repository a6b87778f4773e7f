"""The parent's side of reading: sends the ordered plan, takes the answers, and blames the one key that hangs."""

import json
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gpuscan.facts import Unread
from gpuscan.recording import Reading
from gpuscan.source import Child, spawn
from gpuscan.source.child import parse_key

INIT = "nvml:nvmlInit()"
MOST_DEATHS = 2


class Limits(NamedTuple):
    """How long one key may take, in seconds; `call` is longer than the driver's own GSP timeout of 45."""

    init_s: float = 120.0
    call_s: float = 50.0
    host_s: float = 10.0

    def of(self, key: str) -> float:
        """Return the limit of one key."""
        if key == INIT:
            return self.init_s
        return self.call_s if key.startswith("nvml:") else self.host_s


class Options(NamedTuple):
    """Where to read and how long: another root, another driver root, the deadline in seconds from now, the limits."""

    root: str = "/"
    driver_root: str = ""
    deadline_s: float = 180.0
    limits: Limits = Limits()


class Desk:
    """One reader's state: its child, what it was asked and has not answered, and bytes under way."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.child: Child | None = None
        self.asked: deque[str] = deque()
        self.to_send = b""
        self.received = b""
        self.since_s = 0.0
        self.deaths = 0


class Guard:
    """Reads keys through guarded children until a deadline or a signal; every key asked gets exactly one reading."""

    def __init__(self, children: dict[str, Child], options: Options, waiting: Callable[[str, float], None]) -> None:
        self.options = options
        self.waiting = waiting
        self.ends_s = time.monotonic() + options.deadline_s
        self.stopped = 0
        self.given_up = ""
        self.desks = {kind: Desk(kind) for kind in ("host", "nvml")}
        self.selector = selectors.DefaultSelector()
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self.selector.register(self._wake[0], selectors.EVENT_READ, None)
        for kind, child in children.items():
            self._adopt(self.desks[kind], child)

    def watch_signals(self) -> None:
        """Let SIGINT and SIGTERM end the reading, not the program: what was read is judged and reported."""
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _frame: Any) -> None:
        self.stopped = self.stopped or number

    def _adopt(self, desk: Desk, child: Child) -> None:
        desk.child = child
        desk.received = b""
        desk.to_send = json.dumps({"root": self.options.root, "driver_root": self.options.driver_root}).encode() + b"\n"
        self.selector.register(child.answers, selectors.EVENT_READ, desk)

    def read(self, keys: Iterable[str]) -> list[Reading]:
        """Read *keys*, in their order within each reader, and return their readings."""
        readings: list[Reading] = []
        for kind, desk in self.desks.items():
            wanted = [key for key in keys if key.startswith("nvml:") == (kind == "nvml")]
            if wanted:
                self._ask(desk, wanted, readings)
        while any(desk.asked for desk in self.desks.values()):
            if self._over(readings):
                break
            self._turn(readings)
        return readings

    def _ask(self, desk: Desk, keys: list[str], readings: list[Reading]) -> None:
        if desk.kind == "nvml" and self.given_up:
            readings += [_unread(key, "blocked-behind", self.given_up) for key in keys]
            return
        if desk.child is None:
            self._adopt(desk, spawn(desk.kind))
        if not desk.asked:
            desk.since_s = time.monotonic()
        desk.asked.extend(keys)
        desk.to_send += json.dumps(keys).encode() + b"\n"

    def _over(self, readings: list[Reading]) -> bool:
        """End all reading where a signal came or the deadline has passed."""
        if self.stopped:
            why = f"the scan was ended by {signal.Signals(self.stopped).name}"
        elif time.monotonic() >= self.ends_s:
            why = f"the deadline of {self.options.deadline_s:g} s has passed"
        else:
            return False
        for desk in self.desks.values():
            for position, key in enumerate(desk.asked):
                # without a signal, the key that was being asked is the one that used the time up
                kind = "blocked-behind" if position or self.stopped else "timed-out"
                readings.append(_unread(key, kind, why))
            if desk.asked:
                self._abandon(desk)
            desk.asked.clear()
        self.given_up = self.given_up or why
        return True

    def _turn(self, readings: list[Reading]) -> None:
        """Send, wait for an answer or for the next limit, take what came, and drop who is too late."""
        for desk in self.desks.values():
            self._send(desk, readings)
        now = time.monotonic()
        limits = [self._late_at(desk) for desk in self.desks.values() if desk.asked]
        wait_s = max(0.0, min([self.ends_s, now + 1.0, *limits]) - now)
        for event, _ in self.selector.select(0.001 if any(d.to_send for d in self.desks.values()) else wait_s):
            if event.data is None:
                os.read(self._wake[0], 64)
            else:
                self._take(event.data, readings)
        for desk in self.desks.values():
            if desk.asked and time.monotonic() >= self._late_at(desk):
                self._drop(desk, f"no answer within {time.monotonic() - desk.since_s:.1f} s", "timed-out", readings)
            elif desk.asked and time.monotonic() - desk.since_s > 1:
                self.waiting(desk.asked[0], time.monotonic() - desk.since_s)

    def _late_at(self, desk: Desk) -> float:
        """Return when the key being asked is late: at its limit, and never more than a quarter of the time then left."""
        left_s = max(self.ends_s - desk.since_s, 0.0)
        return desk.since_s + min(self.options.limits.of(desk.asked[0]), left_s / 4)

    def _send(self, desk: Desk, readings: list[Reading]) -> None:
        if not desk.to_send or desk.child is None:
            return
        try:
            desk.to_send = desk.to_send[os.write(desk.child.requests, desk.to_send[:65536]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._died(desk, readings)

    def _take(self, desk: Desk, readings: list[Reading]) -> None:
        if desk.child is None:
            return
        data = os.read(desk.child.answers, 1 << 20)
        if not data:
            self._died(desk, readings)
            return
        *lines, desk.received = (desk.received + data).split(b"\n")
        for line in lines:
            reading = _reading(json.loads(line))
            if not desk.asked or reading.key != desk.asked[0]:
                continue
            desk.asked.popleft()
            desk.since_s = time.monotonic()
            readings.append(reading)

    def _died(self, desk: Desk, readings: list[Reading]) -> None:
        status = _reap(desk.child)
        why = f"killed it with signal {os.WTERMSIG(status)}" if status and os.WIFSIGNALED(status) else "ended it"
        if desk.asked:
            self._drop(desk, f"the reading process died: this call {why}", "garbled", readings)
        else:
            self._abandon(desk)

    def _drop(self, desk: Desk, why: str, kind: str, readings: list[Reading]) -> None:
        """Give up the child that hangs or died, blame the key it was at, and ask a new one for the rest.

        The card of that key is asked nothing more. After a second death NVML is asked nothing more, nor after a
        death before any card was asked: the driver itself is stuck.
        """
        culprit = desk.asked.popleft()
        readings.append(_unread(culprit, kind, why))
        self._abandon(desk)
        desk.deaths += 1
        rest, card = list(desk.asked), _card(culprit)
        desk.asked.clear()
        if desk.kind == "nvml" and (not card or desk.deaths >= MOST_DEATHS):
            self.given_up = f"behind {culprit}, which gave no answer"
            if culprit != INIT:
                readings.append(_unread(INIT, "timed-out", f"NVML is stuck: {self.given_up}"))
        elif desk.kind == "host" and desk.deaths > 2 * MOST_DEATHS:
            readings += [_unread(key, "blocked-behind", f"behind {culprit}") for key in rest]
            return
        if self.given_up and desk.kind == "nvml":
            readings += [_unread(key, "blocked-behind", self.given_up) for key in rest]
            return
        blocked = [key for key in rest if card and _card(key) == card]
        readings += [_unread(key, "blocked-behind", f"behind {culprit}") for key in blocked]
        wanted = [key for key in rest if key not in set(blocked)]
        if wanted:
            self._ask(desk, [INIT, *wanted] if desk.kind == "nvml" and wanted[0] != INIT else wanted, readings)

    def _abandon(self, desk: Desk) -> None:
        """Kill the child and go on; one that sits in the kernel is left to its fate, with every pipe to it closed."""
        if desk.child is None:
            return
        self.selector.unregister(desk.child.answers)
        os.close(desk.child.requests)
        os.close(desk.child.answers)
        os.kill(desk.child.pid, signal.SIGKILL)
        _reap(desk.child)
        desk.child, desk.to_send, desk.received = None, b"", b""

    def close(self) -> None:
        """End the children."""
        for desk in self.desks.values():
            self._abandon(desk)


def _reap(child: Child | None) -> int:
    """Collect a dead child without waiting for it; 0 where it is still there."""
    try:
        return os.waitpid(child.pid, os.WNOHANG)[1] if child else 0
    except ChildProcessError:
        return 0


def _card(key: str) -> str:
    _, arguments = parse_key(key) if key.startswith("nvml:") else ("", [])
    return arguments[0] if arguments and ":" in arguments[0] else ""


def _unread(key: str, kind: str, text: str) -> Reading:
    return Reading(key, None, Unread(key, kind, text), time.time(), 0.0)


def _reading(row: dict[str, Any]) -> Reading:
    key, error = row["key"], row.get("error")
    unread = Unread(key, *error) if error else None
    return Reading(key, row["value"], unread, row["at"], row["ms"])
