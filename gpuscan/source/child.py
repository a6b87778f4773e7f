"""The child that touches the machine: reads keys from a pipe, answers one JSON line a key, and may hang or die."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

MOST_BYTES = 8 * 1024 * 1024
CUT_BYTES = {"/proc/cpuinfo": 8192}  # the first processor's lines tell all that is asked of it
RUN_LIMIT_S = 8.0
SLOW_MS = 5000.0  # a call that took this long was waiting for dead firmware: the card is asked nothing more
Answer = tuple[str, Any, tuple[str, str, int | None] | None]  # key, value, (kind, text, code)

NVML_KINDS = {
    2: "garbled",
    3: "not-supported",
    4: "no-permission",
    6: "not-found",
    9: "not-found",
    10: "timed-out",
    12: "not-found",
    13: "not-found",
    15: "lost",
    16: "reset-required",
    18: "not-found",
    28: "not-found",
}


def serve(kind: str, requests: int, answers: int) -> None:
    """Serve one pipe of requests until it closes. The first line holds the options, each further one a list of keys."""
    _leave_parent()
    reader: Reader = NvmlReader() if kind == "nvml" else HostReader()
    with os.fdopen(requests, "r", encoding="utf-8") as lines, os.fdopen(answers, "wb", buffering=0) as out:
        reader.options = json.loads(lines.readline() or "{}")
        for line in lines:
            for key, value, error, ms in _timed(reader, json.loads(line)):
                row: dict[str, Any] = {"key": key, "value": value, "at": time.time(), "ms": ms}
                if error is not None:
                    row["error"] = error
                out.write(json.dumps(row).encode("ascii") + b"\n")


def _leave_parent() -> None:
    """Keep nothing of the parent's: a child stuck in the kernel must not hold its terminal or its output pipe open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the parent, if the kernel can help it


def _timed(reader: "Reader", keys: list[str]) -> Iterator[tuple[str, Any, Any, float]]:
    for batch in reader.batches(keys):
        start = time.perf_counter()
        answers = reader.answer(batch)
        ms = (time.perf_counter() - start) * 1000
        reader.took(batch[0], ms)
        for key, value, error in answers:
            yield key, value, error, ms / len(batch)


class Reader:
    """What both kinds of child share: options, and by default no batches and no memory of slowness."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        """Yield the keys in the groups in which they are asked."""
        yield from ([key] for key in keys)

    def answer(self, batch: list[str]) -> list[Answer]:
        """Return one answer a key."""
        raise TypeError(f"{type(self).__name__} answers nothing")

    def took(self, key: str, ms: float) -> None:
        """Learn how long a batch took."""


class HostReader(Reader):
    """Files, listings, links, the kernel ring buffer and fixed commands, below `--root`."""

    def answer(self, batch: list[str]) -> list[Answer]:
        """Return the answer to one key."""
        (key,) = batch
        kind, _, rest = key.partition(":")
        try:
            return [(key, self.WAYS[kind](self, rest), None)]
        except OSError as error:
            return [(key, None, (_errno_kind(error), error.strerror or str(error), error.errno))]
        except subprocess.TimeoutExpired:
            return [(key, None, ("timed-out", f"gave no answer within {RUN_LIMIT_S:g} s", None))]

    def path(self, path: str) -> str:
        """Return a path below the root that was named."""
        root = self.options.get("root") or "/"
        return path if root == "/" else os.path.join(root, path.lstrip("/"))

    def file(self, path: str) -> str:
        """Read a file's text; bytes that are no UTF-8 survive as surrogates."""
        descriptor = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(22, "not a regular file")
            data = b""
            limit = CUT_BYTES.get(path, MOST_BYTES)
            # in pieces: /proc/sys answers "out of memory" to a read of 4 MiB or more
            while len(data) < limit and (piece := os.read(descriptor, min(limit - len(data), 1 << 16))):
                data += piece
        finally:
            os.close(descriptor)
        return data.decode("utf-8", "surrogateescape")

    def listing(self, path: str) -> list[str]:
        """List a directory."""
        return sorted(os.listdir(self.path(path)))

    def link(self, path: str) -> str:
        """Read a symbolic link."""
        return os.readlink(self.path(path))

    def ring(self, path: str) -> list[str]:
        """Read every record of the kernel's ring buffer without waiting for new ones."""
        descriptor = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(22, "not the kernel's device")
        records: list[str] = []
        size = 0
        try:
            while size < MOST_BYTES:
                try:
                    record = os.read(descriptor, 8192)
                except BlockingIOError:
                    break
                except BrokenPipeError:
                    continue  # overwritten while we read: the next read goes on with the oldest that is left
                if not record:
                    break
                size += len(record)
                records.append(record.decode("utf-8", "surrogateescape").split("\n", 1)[0])
        finally:
            os.close(descriptor)
        return records

    def run(self, command: str) -> str:
        """Run a fixed command, without a shell, its output capped."""
        if self.options.get("root") not in (None, "", "/"):
            raise OSError(2, "commands are not run for another root")
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(  # noqa: S603  # the commands are constants of the collectors
            command.split(), stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_LIMIT_S, check=False, env=environment
        )
        if done.returncode:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            denied = "permitted" in "".join(words) or "ermission" in "".join(words)
            raise OSError(1 if denied else 5, words[0] if words else f"exit code {done.returncode}")
        return done.stdout[-MOST_BYTES:].decode("utf-8", "surrogateescape")

    WAYS: ClassVar["dict[str, Callable[[HostReader, str], Any]]"] = {
        "file": file,
        "dir": listing,
        "link": link,
        "kmsg": ring,
        "run": run,
    }


def _errno_kind(error: OSError) -> str:
    if error.errno in (1, 13):
        return "no-permission"
    return "not-found" if error.errno in (2, 20, 6, 19) else "garbled"


class NvmlReader(Reader):
    """NVML through nvidia-ml-py: calls by name, field values in batches, cards by PCI address."""

    def __init__(self) -> None:
        super().__init__()
        import pynvml

        self.nvml = pynvml
        self.handles: dict[str, Any] = {}
        self.started = False
        self.silent: dict[str, str] = {}

    def batches(self, keys: list[str]) -> Iterator[list[str]]:
        """Yield the keys one by one, but the field values of one card together."""
        batch: list[str] = []
        for key in keys:
            same = batch and _batch_of(key) and _batch_of(key) == _batch_of(batch[0])
            if batch and not same:
                yield batch
                batch = []
            batch.append(key)
        if batch:
            yield batch

    def answer(self, batch: list[str]) -> list[Answer]:
        """Return the answers to one call; an NVML error is the answer of each key in it."""
        name, arguments = parse_key(batch[0])
        address = arguments[0] if arguments and ":" in arguments[0] else ""
        if address in self.silent:
            return [(key, None, ("blocked-behind", f"not asked: {self.silent[address]} was slow", None)) for key in batch]
        try:
            if name == "nvmlDeviceGetFieldValues":
                return self.fields(address, batch)
            return [(batch[0], self.call(name, address, arguments), None)]
        except self.nvml.NVMLError as error:
            code = int(error.value)
            told = (NVML_KINDS.get(code, "garbled"), str(error), code)
            return [(key, None, told) for key in batch]

    def took(self, key: str, ms: float) -> None:
        """Ask a card nothing more after a call that waited for its firmware."""
        _, arguments = parse_key(key)
        if ms > SLOW_MS and arguments and ":" in arguments[0]:
            self.silent.setdefault(arguments[0], f"{key} ({ms / 1000:.0f} s)")

    def start(self) -> None:
        """Initialise NVML once; a library of a driver root is loaded first, so that its name is taken."""
        if self.started:
            return
        library = find_library(self.options.get("driver_root") or "")
        if library:
            import ctypes

            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        self.nvml.nvmlInit()
        self.started = True

    def handle(self, address: str) -> Any:
        """Open a card by its PCI address."""
        self.start()
        if address not in self.handles:
            self.handles[address] = self.nvml.nvmlDeviceGetHandleByPciBusId(address.encode("ascii"))
        return self.handles[address]

    def call(self, name: str, address: str, arguments: list[str]) -> Any:
        """Call one function of NVML and return its result as JSON data."""
        self.start()
        if name == "nvmlInit":
            return True
        if name == "nvmlDeviceGetHandleByPciBusId":
            return self.handle(address) is not None
        function = getattr(self.nvml, name, None)
        if function is None:
            raise self.nvml.NVMLError(self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if name == "nvmlDeviceGetHandleByIndex":
            return _address(self.nvml.nvmlDeviceGetPciInfo(function(int(arguments[0]))).busId)
        if address:
            return as_json(function(self.handle(address), *map(int, arguments[1:])))
        return as_json(function(*map(int, arguments)))

    def fields(self, address: str, batch: list[str]) -> list[Answer]:
        """Read (field, scope) pairs of one card in one call; each has its own return code and value type."""
        pairs = [tuple(map(int, parse_key(key)[1][1:])) for key in batch]
        values = self.nvml.nvmlDeviceGetFieldValues(self.handle(address), pairs)
        return [self.field(key, value) for key, value in zip(batch, values, strict=True)]

    def field(self, key: str, value: Any) -> Answer:
        """Return one field's answer. On drivers that lack a field its code is "invalid argument"."""
        code = int(value.nvmlReturn)
        if code:
            kind = "not-supported" if code == self.nvml.NVML_ERROR_INVALID_ARGUMENT else NVML_KINDS.get(code, "garbled")
            return key, None, (kind, str(self.nvml.NVMLError(code)), code)
        members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        if value.valueType >= len(members):
            return key, None, ("garbled", f"value type {value.valueType}", None)
        return key, getattr(value.value, members[value.valueType]), None


def _batch_of(key: str) -> str:
    """Return the card whose field values a key asks for, or nothing."""
    return key.split(",", 1)[0] if key.startswith("nvml:nvmlDeviceGetFieldValues(") else ""


def parse_key(key: str) -> tuple[str, list[str]]:
    """Split `nvml:nvmlDeviceGetTotalEccErrors(0000:1b:00.0,1,0)` into the function and its arguments."""
    name, _, rest = key.removeprefix("nvml:").partition("(")
    inner = rest.rstrip(")")
    return name, inner.split(",") if inner else []


def _address(bus_id: Any) -> str:
    text = bus_id.decode("ascii") if isinstance(bus_id, bytes) else str(bus_id)
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if int(domain, 16) < 0x10000 else f"{domain}:{rest}"


def as_json(value: Any) -> Any:
    """Return what pynvml gave as JSON data: structures as dicts without their version, byte strings as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if hasattr(value, "_fields_"):
        return {field[0]: as_json(getattr(value, field[0])) for field in value._fields_ if field[0] != "version"}
    if hasattr(value, "value"):
        return as_json(value.value)
    return [as_json(item) for item in value]


LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib64",
    "lib",
    "nvidia/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/glibc/usr/lib",
    "opt/lib64",
    "run/opengl-driver/lib",
)


def find_library(root: str) -> str:
    """Return where NVML's library lies below a driver root (driver containers, Talos, Bottlerocket, COS, NixOS)."""
    if not root:
        return ""
    for folder in LIBRARY_FOLDERS:
        path = os.path.join(root, folder, "libnvidia-ml.so.1")
        if os.path.exists(path):
            return path
    return os.path.join(root, "libnvidia-ml.so.1")


def run_child(kind: str, requests: int, answers: int) -> None:
    """Serve, and end without running anything of the parent's at exit."""
    code = 1
    try:
        serve(kind, requests, answers)
        code = 0
    except BrokenPipeError:
        code = 0  # the parent went away
    finally:
        sys.stdout = sys.stderr = None
        os._exit(code)
