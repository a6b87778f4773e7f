"""The child process that touches the machine: it reads keys from a pipe, answers each with a line
of JSON, and may hang or die.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from gpuscan.live.process import Child, die_with_parent, fork
from gpuscan.live.reader import Answer, Places, Reader


def fork_reader(kind: str, early: str | None = None) -> Child:
    """Fork a reader (`host` or `nvml`).

    *early* is the driver root, where it is already known: NVML then starts before it is asked.
    """
    return fork(lambda stdin, stdout: run_child(kind, stdin, stdout, early), requests=True)


def fork_readers(driver_root: str) -> dict[str, Child]:
    """Fork both readers."""
    return {kind: fork_reader(kind, driver_root) for kind in ("nvml", "host")}


def run_child(kind: str, requests: int, answers: int, early: str | None = None) -> None:
    """Answer requests until the parent closes its end, then end this process without the parent's
    exit handlers.
    """
    code = 1
    try:
        _leave_parent(requests, answers)
        if early is not None and kind == "nvml":
            from gpuscan.live.library import initialise_nvml

            initialise_nvml(early)
        _serve(kind, requests, answers)
        code = 0
    except BrokenPipeError:
        code = 0  # the parent went away
    finally:
        os._exit(code)


def _leave_parent(requests: int, answers: int) -> None:
    """Let go of everything that is the parent's: a child that hangs in the kernel must not hold its
    terminal, output or other pipes open.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(devnull, descriptor)
    for descriptor in _open_descriptors():
        if descriptor > 2 and descriptor not in (requests, answers):
            os.closerange(descriptor, descriptor + 1)  # ignores one that is closed already
    import resource

    # a crash in NVML becomes a reading, not a core file in the user's folder
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    die_with_parent()


def _open_descriptors() -> list[int]:
    """List the open descriptors. Closing every number up to the limit could mean a billion calls on
    kernels before 5.9.
    """
    try:
        return list(map(int, os.listdir("/proc/self/fd")))
    except OSError:
        return list(range(1024))


def _serve(kind: str, requests: int, answers: int) -> None:
    """Answer requests: the first line holds the places, each further line a list of keys."""
    # NVML's binding is imported while the parent still reads its command line
    make_reader = _load_reader(kind)
    with os.fdopen(requests, encoding="ascii") as lines, os.fdopen(answers, "wb") as out:
        reader: Reader = make_reader(Places(*json.loads(lines.readline() or "[]")))
        for line in lines:
            for batch in reader.batches(json.loads(line)):
                for row in _answer_rows(reader, batch):
                    out.write(json.dumps(row).encode("ascii") + b"\n")
                out.flush()


def _load_reader(kind: str) -> Callable[[Places], Reader]:
    try:
        if kind == "host":
            from gpuscan.live.host import HostReader

            return HostReader
        from gpuscan.live.nvml import NvmlReader

        return NvmlReader
    except Exception as error:  # a broken binding is the answer to every key  # noqa: BLE001
        reason = error
        return lambda _: _BrokenReader(reason)


class _BrokenReader:
    """Takes the place of a reader that could not be imported, and answers every key so."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        yield from ([key] for key in keys)

    def answer(self, batch: list[str]) -> list[Answer]:
        raise self.reason


def _answer_rows(reader: Reader, batch: list[str]) -> Iterator[dict[str, Any]]:
    """Yield {key, value, at, ms, error} per key of a batch; *error* only where there is one."""
    start_s = time.perf_counter()
    try:
        answers = reader.answer(batch)
    except Exception as error:  # noqa: BLE001
        # an exception in a binding is this call's answer, and not the end of the scan
        garbled = ("garbled", f"{type(error).__name__}: {error}"[:200], None)
        answers = [(key, None, garbled) for key in batch]
    ms = (time.perf_counter() - start_s) * 1000
    for key, value, error_row in answers:
        row: dict[str, Any] = {"key": key, "value": value, "at": time.time(), "ms": ms / len(batch)}
        if error_row is not None:
            row["error"] = error_row
        yield row
