"""The parent's side of reading: sends the ordered plan, takes the answers, and blames the one key
that hangs.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gpuscan.live import process as source
from gpuscan.live.channel import STATUS_S, Desk
from gpuscan.live.child import Places
from gpuscan.live.limits import Limits
from gpuscan.model import Unread
from gpuscan.recording import Reading
from gpuscan.recording.keys import INIT, gpu_of

MOST_HANGS = {
    "nvml": 2,
    "host": 5,
}  # children that gave no answer, until that reader is asked nothing more
MOST_CRASHES = 16  # a call that crashes NVML may do so on every GPU, and a new child takes no time
TICK_S = 1.0
MOST_RESERVED_S = 30.0  # of a deadline, for judging and reporting: of days a share would be hours


class Options(NamedTuple):
    """Where to read and how long: another root, another driver root, the seconds until the report
    is due, the limits.
    """

    root: str = "/"
    driver_root: str = ""
    deadline_s: float = 180.0
    limits: Limits = Limits()

    def reading_s(self) -> float:
        """Return the time for reading: the deadline less what judging and reporting take."""
        return self.deadline_s - min(
            max(0.03 * self.deadline_s, 0.5), self.deadline_s / 4, MOST_RESERVED_S
        )


class Guard:
    """Reads keys through guarded children until a deadline or a signal; every key asked gets a
    reading.
    """

    def __init__(
        self,
        children: Mapping[str, source.Child],
        options: Options,
        waiting: Callable[[str, float], None],
    ) -> None:
        self.options = options
        self.waiting = waiting
        began_s = min([time.monotonic(), *(child.since_s for child in children.values())])
        self.ends_s = began_s + options.reading_s()
        self.stuck: dict[str, str] = {}  # GPUs that are asked nothing more, and why
        self.readings: list[Reading] = []
        limits = options.limits
        places = Places(
            options.root,
            options.driver_root,
            limits.slow_s,
            0.8 * limits.host_s,
            0.8 * limits.sweep_s,
        )
        self.desks = [Desk(kind, places) for kind in ("host", "nvml")]
        for desk in self.desks:
            if desk.kind in children:
                desk.start(children[desk.kind])
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self._told = False
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)

    def close(self) -> None:
        """End the children, without waiting for any."""
        signal.set_wakeup_fd(-1)
        for end in self._wake:
            os.close(end)
        for desk in self.desks:
            desk.end()

    def read(self, keys: Collection[str]) -> list[Reading]:
        """Read *keys*, in their order within each reader, and return their readings."""
        self.readings = []
        self._stop_where_over()
        for desk in self.desks:
            self._ask(
                desk, [key for key in keys if key.startswith("nvml:") == (desk.kind == "nvml")]
            )
        while any(desk.asked for desk in self.desks) and not self._stop_where_over():
            self._turn()
        if self._told:
            self._told = False
            self.waiting("", 0.0)
        return self.readings

    def _book(self, key: str, kind: str, text: str) -> None:
        self.readings.append(Reading(key, None, Unread(key, kind, text), time.time(), 0.0))

    def _ask(self, desk: Desk, keys: Collection[str]) -> None:
        """Ask a reader, but nothing of what is stuck; a new NVML child must initialise first,
        within its own limit.
        """
        wanted = [key for key in keys if not self._refused(desk, key)]
        try:
            if wanted and desk.child is None:
                desk.start()
                wanted = [INIT, *wanted] if desk.kind == "nvml" and wanted[0] != INIT else wanted
        except OSError as error:
            desk.given_up = f"no reading process could be started: {error.strerror}"
        for key in keys:
            if reason := self._refused(desk, key):
                self._book(key, "blocked-behind", reason)
        if wanted and not desk.given_up:
            desk.ask(wanted)

    def _refused(self, desk: Desk, key: str) -> str:
        return desk.given_up or self.stuck.get(gpu_of(key), "")

    def _stop_where_over(self) -> bool:
        """End all reading where a signal came or the time is up."""
        if source.caught:
            why = "the scan was ended by a signal"
        elif time.monotonic() >= self.ends_s:
            why = f"the deadline of {self.options.deadline_s:g} s was near"
        else:
            return False
        for desk in self.desks:
            desk.given_up = desk.given_up or why
            if desk.asked:
                self._hung(desk, why)
        return True

    def _turn(self) -> None:
        """Send, wait for an answer or for the next limit, take what came, and give up who is too
        late.
        """
        busy = [desk for desk in self.desks if desk.asked]
        poll = select.poll()
        poll.register(self._wake[0], select.POLLIN)
        for desk in busy:
            desk.send()
            if desk.child is not None:
                poll.register(desk.child.answers, select.POLLIN)
                if desk.to_send:
                    poll.register(desk.child.requests, select.POLLOUT)
        now_s = time.monotonic()
        until_s = min([self.ends_s, now_s + TICK_S, *map(self._late_at, busy)])
        ready = {descriptor for descriptor, _ in poll.poll(max(until_s - now_s, 0.0) * 1000 + 1)}
        overslept = time.monotonic() - until_s > TICK_S
        for desk in (
            busy if overslept else ()
        ):  # this process was stopped, or the whole machine: that is nobody's silence
            desk.since_s += time.monotonic() - now_s
        if self._wake[0] in ready:
            os.read(self._wake[0], 64)
        for desk in busy:
            if desk.child is not None and desk.child.answers in ready:
                self._take(desk)
            if desk.asked:
                self._watch(desk)

    def _watch(self, desk: Desk) -> None:
        waited_s = time.monotonic() - desk.since_s
        if time.monotonic() >= self._late_at(desk):
            self._hung(desk, f"no answer within {waited_s:.1f} s")
        elif waited_s >= TICK_S:
            self._told = True
            self.waiting(desk.asked[0], waited_s)

    def _late_at(self, desk: Desk) -> float:
        """Return when the key under way is late: at its limit, and never after more than a quarter
        of the time left.
        """
        left_s = max(self.ends_s - desk.since_s, 0.0)
        return desk.since_s + min(self.options.limits.of(desk.asked[0]), left_s / 4)

    def _take(self, desk: Desk) -> None:
        """Book the answers that came: each must be that to the key under way."""
        lines, ended = desk.take()
        for line in lines:
            reading = _reading(line)
            if reading is None or not desk.asked or reading.key != desk.asked[0]:
                self._crashed(desk, f"the reading process talks nonsense: {line[:60]!r}")
                return
            if reading.error is not None and reading.error.kind == "blocked-behind":
                self.stuck.setdefault(gpu_of(reading.key), reading.error.text)
            desk.answered()
            self.readings.append(reading)
        if ended:
            self._crashed(desk, f"the reading process {desk.end(STATUS_S)}")

    def _hung(self, desk: Desk, why: str) -> None:
        """Give up a child that does not answer: blame the key under way and its GPU, and ask a
        new child for the rest.
        """
        culprit, *rest = desk.asked
        limits = self.options.limits
        desk.hangs.append(time.monotonic() - desk.since_s >= limits.proof(culprit))
        proven = desk.hangs[-1]
        self._book(
            culprit,
            "timed-out" if proven else "blocked-behind",
            why if proven else f"{why}; not waited for longer",
        )
        self._forget(desk)
        reason = f"behind {culprit}, which gave no answer"
        if gpu_of(culprit):
            self.stuck[gpu_of(culprit)] = reason
        if (desk.kind == "nvml" and not gpu_of(culprit)) or len(desk.hangs) >= MOST_HANGS[
            desk.kind
        ]:
            self._give_up(desk, culprit, reason)
        self._ask(desk, rest)

    def _give_up(self, desk: Desk, culprit: str, reason: str) -> None:
        """Ask a reader nothing more; that NVML as a whole is stuck is said where each of its hangs
        was proven.
        """
        desk.given_up = desk.given_up or reason
        if desk.kind == "nvml" and culprit != INIT and all(desk.hangs):
            self._book(INIT, "timed-out", f"NVML is stuck: {reason}")

    def _crashed(self, desk: Desk, why: str) -> None:
        """Blame the key under way for its child's death and ask a new one for the rest; nothing
        waits, so nothing is stuck.
        """
        if not desk.asked:
            self._forget(desk)
            return
        culprit, *rest = desk.asked
        self._book(culprit, "garbled", f"{why} in this call")
        self._forget(desk)
        desk.crashes += 1
        if culprit == INIT or desk.crashes >= MOST_CRASHES:
            desk.given_up = f"behind {culprit}, in which the reading process died"
        self._ask(desk, rest)

    def _forget(self, desk: Desk) -> None:
        desk.end()
        desk.asked.clear()


def _reading(line: bytes) -> Reading | None:
    """Return what a child's line says, or None where it makes no sense."""
    try:
        row = json.loads(line)
        error = row.get("error")
        unread = Unread(row["key"], *error) if error else None
        return Reading(row["key"], row["value"], unread, float(row["at"]), float(row["ms"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
