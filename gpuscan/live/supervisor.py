"""The parent's side of reading: sends the ordered plan, takes the answers, and blames only the one
key that hangs.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gpuscan.live import signals
from gpuscan.live.channel import STATUS_S, ReaderChannel
from gpuscan.live.limits import Limits
from gpuscan.live.process import Child
from gpuscan.live.reader import Places
from gpuscan.model import Unread
from gpuscan.recording import Reading
from gpuscan.recording.keys import INIT, NVML_PROCESS, gpu_of

# after so many children that did not answer, that reader is asked nothing more
MOST_HANGS = {"nvml": 2, "host": 5}
MOST_CRASHES = 16  # a call that crashes NVML may do so on every GPU, and a new child takes no time
TICK_S = 1.0
# of a deadline, for judging and reporting: a share of several days would be hours
MOST_RESERVED_S = 30.0
NO_ANSWER = "behind {}, which gave no answer"


class ReadOptions(NamedTuple):
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


class ReadSupervisor:
    """Reads keys through child processes until a deadline or a signal; every key gets a reading.

    *on_wait* is called with the key that takes long and the seconds so far, and with "" and 0 once
    reading goes on. *deaths* has a reading where the process that reads NVML died or hung, for the
    first time: no check may need the call in which it did, and yet such a node is not healthy.
    """

    def __init__(
        self,
        readers: Mapping[str, Child],
        options: ReadOptions,
        on_wait: Callable[[str, float], None],
    ) -> None:
        self.options = options
        self.on_wait = on_wait
        began_s = min([time.monotonic(), *(child.started_s for child in readers.values())])
        self.ends_s = began_s + options.reading_s()
        self.stuck: dict[str, str] = {}  # GPUs that are asked nothing more, and why
        self.readings: list[Reading] = []
        self.deaths: list[Reading] = []
        limits = options.limits
        places = Places(
            options.root,
            options.driver_root,
            limits.slow_s,
            0.8 * limits.host_s,
            0.8 * limits.sweep_s,
        )
        self.channels = [ReaderChannel(kind, places) for kind in ("host", "nvml")]
        for channel in self.channels:
            if channel.kind in readers:
                channel.start(readers[channel.kind])
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self._reported_wait = False
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)

    def close(self) -> None:
        """End the children, without waiting for any."""
        signal.set_wakeup_fd(-1)
        for end in self._wake:
            os.close(end)
        for channel in self.channels:
            channel.end()

    def read(self, keys: Collection[str]) -> list[Reading]:
        """Read *keys*, in their order within each reader, and return their readings."""
        self.readings = []
        self._stop_if_over()
        for channel in self.channels:
            is_nvml = channel.kind == "nvml"
            self._ask(channel, [key for key in keys if key.startswith("nvml:") == is_nvml])
        while any(channel.asked for channel in self.channels) and not self._stop_if_over():
            self._turn()
        if self._reported_wait:
            self._reported_wait = False
            self.on_wait("", 0.0)
        return self.readings

    def _add_unread(self, key: str, kind: str, text: str) -> None:
        self.readings.append(Reading(key, None, Unread(key, kind, text), time.time(), 0.0))

    def _note_death(self, channel: ReaderChannel, kind: str, text: str) -> None:
        if channel.kind == "nvml" and not self.deaths:
            error = Unread(NVML_PROCESS, kind, text)
            self.deaths.append(Reading(NVML_PROCESS, None, error, time.time(), 0.0))

    def _ask(self, channel: ReaderChannel, keys: Collection[str]) -> None:
        """Ask a reader for keys, except those of a stuck GPU; a new NVML child must initialise
        first, within that limit.
        """
        to_ask = [key for key in keys if not self._refusal(channel, key)]
        try:
            if to_ask and channel.child is None:
                channel.start()
                if channel.kind == "nvml" and to_ask[0] != INIT:
                    to_ask = [INIT, *to_ask]
        except OSError as error:
            channel.given_up = f"no reading process could be started: {error.strerror}"
        for key in keys:
            if reason := self._refusal(channel, key):
                self._add_unread(key, "blocked-behind", reason)
        if to_ask and not channel.given_up:
            channel.ask(to_ask)

    def _refusal(self, channel: ReaderChannel, key: str) -> str:
        return channel.given_up or self.stuck.get(gpu_of(key), "")

    def _stop_if_over(self) -> bool:
        """End all reading after a stop signal or when the time is up."""
        if signals.received:
            reason = "the scan was ended by a signal"
        elif time.monotonic() >= self.ends_s:
            reason = f"the deadline of {self.options.deadline_s:g} s was near"
        else:
            return False
        for channel in self.channels:
            channel.given_up = channel.given_up or reason
            if channel.asked:
                self._handle_hang(channel, reason)
        return True

    def _turn(self) -> None:
        """Send, wait for an answer or for the next limit, take what arrived, and give up on a
        reader that is late.
        """
        busy = [channel for channel in self.channels if channel.asked]
        poll = select.poll()
        poll.register(self._wake[0], select.POLLIN)
        for channel in busy:
            channel.send()
            if channel.child is not None:
                poll.register(channel.child.stdout, select.POLLIN)
                if channel.to_send:
                    poll.register(channel.child.stdin, select.POLLOUT)
        now_s = time.monotonic()
        until_s = min([self.ends_s, now_s + TICK_S, *map(self._late_at, busy)])
        ready = {descriptor for descriptor, _ in poll.poll(max(until_s - now_s, 0.0) * 1000 + 1)}
        if time.monotonic() - until_s > TICK_S:
            # this process, or the whole machine, was stopped: that was no reader's silence
            for channel in busy:
                channel.since_s += time.monotonic() - now_s
        if self._wake[0] in ready:
            os.read(self._wake[0], 64)
        for channel in busy:
            if channel.child is not None and channel.child.stdout in ready:
                self._take(channel)
            if channel.asked:
                self._watch(channel)

    def _watch(self, channel: ReaderChannel) -> None:
        waited_s = time.monotonic() - channel.since_s
        if time.monotonic() >= self._late_at(channel):
            self._handle_hang(channel, f"no answer within {waited_s:.1f} s")
        elif waited_s >= TICK_S:
            self._reported_wait = True
            self.on_wait(channel.asked[0], waited_s)

    def _late_at(self, channel: ReaderChannel) -> float:
        """Return when the key in progress is late: at its limit, and at the latest after a quarter
        of the time left.
        """
        left_s = max(self.ends_s - channel.since_s, 0.0)
        return channel.since_s + min(self.options.limits.of(channel.asked[0]), left_s / 4)

    def _take(self, channel: ReaderChannel) -> None:
        """Add the answers that arrived: each must answer the key in progress."""
        lines, ended = channel.take()
        for line in lines:
            reading = parse_reading(line)
            if reading is None or not channel.asked or reading.key != channel.asked[0]:
                self._handle_crash(channel, f"the reading process talks nonsense: {line[:60]!r}")
                return
            if reading.error is not None and reading.error.kind == "blocked-behind":
                self.stuck.setdefault(gpu_of(reading.key), reading.error.text)
            channel.count_answer()
            self.readings.append(reading)
        if ended:
            self._handle_crash(channel, f"the reading process {channel.end(STATUS_S)}")

    def _handle_hang(self, channel: ReaderChannel, reason: str) -> None:
        """Give up a child that does not answer: blame the key in progress and its GPU, and ask a
        new child for the rest.
        """
        culprit, *rest = channel.asked
        silent_s = time.monotonic() - channel.since_s
        proven = silent_s >= self.options.limits.proof(culprit)
        channel.hangs.append(proven)
        self._note_death(channel, "timed-out", f"{reason}: {culprit}")
        if proven:
            self._add_unread(culprit, "timed-out", reason)
        else:
            self._add_unread(culprit, "blocked-behind", f"{reason}; not waited for longer")
        self._drop_child(channel)
        gpu = gpu_of(culprit)
        if gpu:
            self.stuck[gpu] = NO_ANSWER.format(culprit)
        too_many = len(channel.hangs) >= MOST_HANGS[channel.kind]
        if too_many or (channel.kind == "nvml" and not gpu):
            self._give_up(channel, culprit)
        self._ask(channel, rest)

    def _give_up(self, channel: ReaderChannel, culprit: str) -> None:
        """Ask a reader nothing more; NVML as a whole counts as stuck only where each of its hangs
        was proven.
        """
        reason = NO_ANSWER.format(culprit)
        channel.given_up = channel.given_up or reason
        if channel.kind == "nvml" and culprit != INIT and all(channel.hangs):
            self._add_unread(INIT, "timed-out", f"NVML is stuck: {reason}")

    def _handle_crash(self, channel: ReaderChannel, reason: str) -> None:
        """Blame the key in progress for its child's death and ask a new child for the rest: nothing
        waits, so nothing is stuck.
        """
        if not channel.asked:
            self._note_death(channel, "garbled", f"{reason} after its last answer")
            self._drop_child(channel)
            return
        culprit, *rest = channel.asked
        self._note_death(channel, "garbled", f"{reason} in {culprit}")
        self._add_unread(culprit, "garbled", f"{reason} in this call")
        self._drop_child(channel)
        channel.crashes += 1
        if culprit == INIT or channel.crashes >= MOST_CRASHES:
            channel.given_up = f"behind {culprit}, in which the reading process died"
        self._ask(channel, rest)

    def _drop_child(self, channel: ReaderChannel) -> None:
        channel.end()
        channel.asked.clear()


def parse_reading(line: bytes) -> Reading | None:
    """Return the reading in a child's line, or None where the line makes no sense."""
    try:
        row = json.loads(line)
        error = row.get("error")
        unread = Unread(row["key"], *error) if error else None
        return Reading(row["key"], row["value"], unread, float(row["at"]), float(row["ms"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
