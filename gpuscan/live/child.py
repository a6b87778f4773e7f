"""The child that touches the machine: reads keys from a pipe, answers one JSON line a key, and may
hang or die.
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
    """Serve until the parent closes its end, then end without running anything of the parent's at
    exit.
    """
    code = 1
    try:
        _leave_parent(requests, answers)
        if early is not None and kind == "nvml":
            from gpuscan.live.library import begin

            begin(early)
        _serve(kind, requests, answers)
        code = 0
    except BrokenPipeError:
        code = 0  # the parent went away
    finally:
        os._exit(code)


def _leave_parent(requests: int, answers: int) -> None:
    """Keep nothing of the parent's: a child stuck in the kernel must not hold its terminal, output
    or other pipes open.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    for fd in _open_files():
        if fd > 2 and fd not in (requests, answers):
            os.closerange(fd, fd + 1)  # which minds no descriptor that is closed already
    import resource

    resource.setrlimit(
        resource.RLIMIT_CORE, (0, 0)
    )  # a crash in NVML is told, not dumped where the user stands
    die_with_parent()


def _open_files() -> list[int]:
    """List the open descriptors: closing all up to the limit may mean a thousand million on
    kernels before 5.9.
    """
    try:
        return list(map(int, os.listdir("/proc/self/fd")))
    except OSError:
        return list(range(1024))


def _serve(kind: str, requests: int, answers: int) -> None:
    """Answer requests: the first line holds the places, each further one a list of keys."""
    reader_of = _reader_of(
        kind
    )  # NVML's binding is imported while the parent still reads its command line
    with os.fdopen(requests, encoding="ascii") as lines, os.fdopen(answers, "wb") as out:
        reader: Reader = reader_of(Places(*json.loads(lines.readline() or "[]")))
        for line in lines:
            for batch in reader.batches(json.loads(line)):
                for row in _rows(reader, batch):
                    out.write(json.dumps(row).encode("ascii") + b"\n")
                out.flush()


def _reader_of(kind: str) -> Callable[[Places], Reader]:
    try:
        if kind == "host":
            from gpuscan.live.host import HostReader

            return HostReader
        from gpuscan.live.nvml import NvmlReader

        return NvmlReader
    except Exception as error:  # a broken binding is what there is to tell  # noqa: BLE001
        reason = error
        return lambda _: _Broken(reason)


class _Broken:
    """Stands in for a reader that could not be loaded: that is its answer to everything."""

    def __init__(self, reason: Exception) -> None:
        self.reason = reason

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        yield from ([key] for key in keys)

    def answer(self, batch: list[str]) -> list[Answer]:
        raise self.reason


def _rows(reader: Reader, batch: list[str]) -> Iterator[dict[str, Any]]:
    start_s = time.perf_counter()
    try:
        answers = reader.answer(batch)
    except Exception as error:  # noqa: BLE001
        # what a binding trips over is this call's answer, not the scan's end
        told = ("garbled", f"{type(error).__name__}: {error}"[:200], None)
        answers = [(key, None, told) for key in batch]
    ms = (time.perf_counter() - start_s) * 1000
    for key, value, lack in answers:
        row: dict[str, Any] = {"key": key, "value": value, "at": time.time(), "ms": ms / len(batch)}
        if lack is not None:
            row["error"] = lack
        yield row
