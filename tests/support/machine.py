"""A fake machine for whole runs of gpuscan: a recording laid out as files below a root, and as an
NVML that answers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fake_nvml import Change, calls_made, environment, write_scenario
from paths import RECORDINGS, ROOT

from gpuscan.recording import Reading, Recording, dump, load

EIGHT = RECORDINGS / "h100-8x-ib.json.gz"
DEMO = ROOT / "gpuscan" / "recording" / "demo.json.gz"
ENOUGH_S = 120.0  # for anything that is not meant to hang: only a guard, never a condition
LIMITS = "init=20,call=3,host=10"  # short enough for a test, long enough for a busy machine
MARK = "GPUSCAN_TEST_MARK"
INIT = "nvml:nvmlInit()"

# As root, file modes hold nobody back; without these two capabilities they do.
WITHOUT_OVERRIDE = """
import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def call(name: str, address: str, arguments: str = "") -> str:
    """Return the key of a GPU's call: `call("Name", "0000:1b:00.0")`."""
    return f"nvml:nvmlDeviceGet{name}({address}{arguments})"


def gpu(address: str) -> str:
    """Return the key of all of a GPU's calls, for a scenario's changes."""
    return f"nvml:*({address})"


def gpus_of(recording: Recording) -> list[str]:
    """Return the addresses of the GPUs that NVML was asked for, in their order."""
    return [
        reading.key.partition("(")[2][:-1]
        for reading in recording
        if "HandleByPciBusId(" in reading.key
    ]


def lay_out(recording: Recording, root: Path) -> None:
    """Write the host's readings below *root*: files, listings, links, the kernel's records as a
    plain file.
    """
    readings = [reading for reading in recording if not reading.key.startswith(("nvml:", "run:"))]
    for kind in (
        "link",
        "dir",
        "file",
        "kmsg",
    ):  # links first: what lies behind them is made where they lead
        for reading in readings:
            if reading.key.startswith(f"{kind}:"):
                _put(kind, root / reading.key.partition(":")[2].lstrip("/"), reading, root)


def _put(kind: str, path: Path, reading: Reading, root: Path) -> None:
    if reading.error is not None:
        _put_error(path, reading.error.kind)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(reading.value)
        target = Path(os.path.normpath(path.parent / reading.value))
        if root in target.parents:
            target.mkdir(parents=True, exist_ok=True)
    elif kind == "dir":
        path.mkdir(exist_ok=True)
        for name in reading.value:
            _entry(path / name)
    elif kind == "file":
        _replaced(path).write_bytes(reading.value.encode("utf-8", "surrogateescape"))
    else:
        _replaced(path).write_text(
            "".join(f"{record}\n" for record in reading.value), "utf-8", "surrogateescape"
        )


def _entry(path: Path) -> None:
    """Make a listed name: a folder, which a file replaces when one is to be there."""
    if not os.path.lexists(path):
        path.mkdir()


def _replaced(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    return path


def _put_error(path: Path, kind: str) -> None:
    """Make what gives this kind of error: no file, one that may not be read, or no file at all but
    a pipe.
    """
    if kind == "not-found":
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    _replaced(path)
    if kind == "no-permission":
        path.touch(mode=0)
    elif kind == "garbled":
        os.mkfifo(path)
    else:
        raise ValueError(f"{path}: no file gives {kind}")


class Done(NamedTuple):
    """A finished run."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    @property
    def verdict(self) -> tuple[int, str, bool]:
        """The exit code, and the verdict and completeness that the report tells."""
        summary = self.report["summary"]
        return self.code, summary["verdict"], summary["complete"]

    def findings(self) -> dict[tuple[str, str], str]:
        """What was found: {(check, subject): action}."""
        return {(row["check"], row["subject"]): row["action"] for row in self.report["findings"]}

    def of(self, check: str) -> dict[str, str]:
        """The status of a check on each of its subjects."""
        return {
            row["subject"]: row["status"] for row in self.report["checks"] if row["id"] == check
        }


def _alike(now: Any, then: Reading) -> bool:
    """Tell whether a reading came out as before: the same value, or a lack of the same kind."""
    return bool(
        now == then.value if then.error is None else getattr(now, "kind", None) == then.error.kind
    )


class Machine:
    """One fake machine in a folder of its own."""

    def __init__(self, library: Path | None, folder: Path, recording: Recording) -> None:
        self.recording = recording
        self.library = library
        self.folder = folder
        self.root = folder / "root"
        self.scenario, self.log, self.file = (
            folder / "scenario",
            folder / "log",
            folder / "recording.json",
        )
        self.root.mkdir()
        lay_out(recording, self.root)
        self.nvml()

    def nvml(
        self, changes: Mapping[str, Change] | None = None, *, ignore_sigterm: bool = False
    ) -> None:
        """Let NVML answer as recorded, but for *changes*."""
        write_scenario(
            dump(self.recording), self.scenario, changes=changes, ignore_sigterm=ignore_sigterm
        )
        self.log.unlink(missing_ok=True)

    def log_lines(self, *messages: str) -> None:
        """Let the kernel have logged *messages*, too."""
        path = self.root / "dev" / "kmsg"
        first = path.read_bytes().count(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.writelines(
                f"4,{first + n},{900_000_000 + n},-;{message}\n"
                for n, message in enumerate(messages)
            )

    def env(self, limits: str = LIMITS) -> dict[str, str]:
        own = (
            environment(self.library, self.scenario, self.log) if self.library else dict(os.environ)
        )
        return {**own, "GPUSCAN_CONFIG": str(self.configure(limits)), MARK: str(uuid.uuid4())}

    def configure(self, limits: str) -> Path:
        """Write a site configuration with these limits (`init=10,call=1`) and return its path."""
        pairs = [pair.split("=") for pair in limits.split(",") if pair]
        config = {"limits": {f"{name}_s": float(seconds) for name, seconds in pairs}}
        path = self.folder / f"config {limits}.yaml"
        path.write_text(json.dumps(config), "utf-8")
        return path

    def command(self, *words: str, before: Sequence[str] = (), script: str = "") -> list[str]:
        """Return the command line, *before* put before it; *script* is Python to run in place of
        gpuscan's own start.
        """
        start = ["-c", script] if script else ["-m", "gpuscan"]
        here = [] if "--replay" in words else ["--root", str(self.root)]
        if words[:1] == ("run",) and not {"--state-dir", "--replay", "--no-history"} & set(words):
            here.append("--no-history")  # a test that wants the past says where it is
        return [*before, sys.executable, *start, *words, *here]

    def start(
        self, command: Sequence[str], env: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            env=env,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="surrogateescape",
            **options,
        )

    def scan(self, *words: str) -> tuple[str, ...]:
        """Return the words of a run in JSON that keeps its recording."""
        return ("run", "--format", "json", "--record", str(self.file), *words)

    def run(
        self, *words: str, limits: str = LIMITS, env: Mapping[str, str] | None = None, **how: Any
    ) -> Done:
        """Run `gpuscan run` in JSON, keep its recording, and see that none of its processes is
        left.
        """
        return self.plain(*self.scan(*words), limits=limits, env=env, **how)

    def plain(
        self, *words: str, limits: str = LIMITS, env: Mapping[str, str] | None = None, **how: Any
    ) -> Done:
        """Run any command of gpuscan."""
        whole = {**self.env(limits), **(env or {})}
        with self.start(self.command(*words, **how), whole) as process:
            return finished(process, whole)

    @property
    def recorded(self) -> Recording:
        """What the last run read."""
        return load(str(self.file))

    def unread(self, kind: str) -> list[str]:
        """The NVML keys that the last run could not read for this reason, in the order in which
        that became known.
        """
        return [
            r.key
            for r in self.recorded
            if r.error is not None and r.error.kind == kind and r.key.startswith("nvml:")
        ]

    def gpus(self) -> list[str]:
        """The addresses of the GPUs, in their order."""
        return gpus_of(self.recording)

    def read_all_but(self, *addresses: str) -> bool:
        """Whether the last run read all of the other GPUs; an index moves up where a GPU before
        it is gone.
        """
        last = self.recorded
        others = [address for address in self.gpus() if address not in addresses]
        wanted = [
            r
            for r in self.recording
            if any(address in r.key for address in others) and r.key.startswith("nvml:")
        ]
        return bool(wanted) and all(
            _alike(last.get(r.key), r) for r in wanted if "GetIndex(" not in r.key
        )

    def calls(self, address: str = "") -> list[str]:
        """The calls made, of one GPU if named: symbols."""
        return [
            symbol for symbol, place, _ in calls_made(self.log) if place == address or not address
        ]

    def order(self) -> list[str]:
        """The GPUs in the order in which they were first asked."""
        return list(dict.fromkeys(place for _, place, _ in calls_made(self.log) if place != "-"))


def finished(process: subprocess.Popen[str], env: Mapping[str, str]) -> Done:
    """Wait for a run, end it where it hangs, and see that none of its processes is left."""
    try:
        out, err = process.communicate(timeout=ENOUGH_S)
    except subprocess.TimeoutExpired:
        end_all(env[MARK])
        process.kill()
        raise
    assert nobody_left(env[MARK]), "processes are left"
    return Done(process.returncode, out, err)


def living(mark: str) -> list[int]:
    """The processes that were started with this mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def nobody_left(mark: str) -> bool:
    """Whether all processes with the mark end by themselves; those that do not are ended now."""
    ends = time.monotonic() + ENOUGH_S / 4
    while living(mark):
        if time.monotonic() > ends:
            end_all(mark)
            return False
        time.sleep(0.01)
    return True


def end_all(mark: str) -> None:
    for pid in living(mark):
        os.kill(pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object]) -> None:
    """Return once the condition holds; fail if it does not come to hold."""
    ends = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)
