"""A fuzz of the command line: seeded mutations of all kinds of input, in one process or in many.

    python tests/support/fuzz.py --seed 1 --count 10000
    python tests/support/fuzz.py --seed 1 --count 100 --processes

Prints what it came to as JSON, and keeps each input that ended in a traceback or took too long. A
seed gives the same inputs again.
"""

from __future__ import annotations

import argparse
import collections
import copy
import functools
import gzip
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from paths import RECORDINGS, ROOT

from gpuscan.engine import suite

ONE_RUN_S = 20.0
MEMORY_BYTES = 3 << 30
MOST_BYTES = 200_000  # of a text to change
CONTRACT = frozenset((0, 2, 3, 10, 20, 30, 31, 40, 41))
TESTS = ROOT / "tests"
FORMATS = ("text", "json", "junit", "junit-full")
WORDS = (
    "4294967295", "-1", "99999999999999999999", "1e400", "NaN", "Infinity", "null", "true", "", "\0",
    "\x1b]0;x\x07", "\u202e", "[]", "{}", "[[[[", '"', "'", "%s", "../..", "0x", "0xffffffffffffffff",
    "Xid", "NVRM: Xid (PCI:0000:1b:00): 79,", "SXid", "GPU 00000000:1B:00.0", "N/A", "Link 99:", "#",
    "!!python/object:os.system", "&a", "*a", "extends:", "count:", ": ", "\t", "\r\n", "\u2028", "é",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, float("nan"), 10**30, "", "x", "\x1b[2J", [], {}, [[]], {"a": 1}, "9" * 400,
    ["x"], 4294967295,
)  # fmt: skip


class Hang(BaseException):
    """A run that took longer than ONE_RUN_S of this process's time."""


class Seed(NamedTuple):
    """An input to change: how its name ends, its content, and the commands that take it."""

    ending: str
    data: bytes
    kind: str


def seeds(more: str = "") -> list[Seed]:
    """Recordings, profiles, logs, outputs of the program itself, and all texts below *more*."""
    found = []
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        found.append(Seed(".json", gzip.decompress(path.read_bytes()), "recording"))
    packed = sorted(RECORDINGS.glob("*.json.gz"))[0].read_bytes()
    found.append(Seed(".json.gz", packed, "recording"))
    broken = ROOT / "gpuscan" / "recording" / "demo-broken.json"
    found.append(Seed(".json", broken.read_bytes(), "recording"))
    for path in sorted((ROOT / "profiles").glob("*.yaml")):
        found += [Seed(".yaml", path.read_bytes(), "profile")] * 2
    for folder in (TESTS / "outputs", *TESTS.glob("importers/*"), TESTS / "swaps"):
        for path in sorted(folder.rglob("*.txt")) if folder.is_dir() else ():
            found.append(Seed(".txt", path.read_bytes(), "text"))
    for path in sorted(Path(more).rglob("*")) if more else ():
        if path.is_file() and path.stat().st_size < MOST_BYTES:
            found.append(Seed("".join(path.suffixes[-2:]) or ".txt", path.read_bytes(), "text"))
    import logs

    lines = "\n".join(write(logs.XID) for write in (*logs.WAYS.values(), *logs.USERS.values()))
    found += [Seed(".log", lines.encode(), "text")] * 4
    found += [Seed(".log", gzip.compress(lines.encode()), "text")] * 2
    found += [Seed("", b"", "state")] * 8 + [Seed("", b"", "words")] * 4
    return found


def change(data: bytes, chance: random.Random, others: list[Seed]) -> bytes:
    """Return the input with one to four changes of its bytes, lines, words or JSON values."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(CHANGES)(data, chance)
        if chance.random() < 0.05:
            other = chance.choice(others).data
            data = (
                data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]
            )
    return data[:2_000_000]


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 5, 100, 10**9)) :]


def _lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    how = chance.randrange(4)
    if how == 0:
        lines[at:at] = [lines[at]] * chance.choice((1, 3, 200))
    elif how == 1:
        del lines[at]
    elif how == 2:
        chance.shuffle(lines)
    else:
        lines[at] = lines[at] * chance.choice((2, 50))
    return b"\n".join(lines)


def _word(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    end = at + chance.choice((0, 1, 4, 12))
    return data[:at] + chance.choice(WORDS).encode() + data[end:]


def _json(data: bytes, chance: random.Random) -> bytes:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _word(data, chance)
    for _ in range(chance.randint(1, 5)):
        place = document
        while True:
            if isinstance(place, dict) and place:
                key: Any = chance.choice(list(place))
            elif isinstance(place, list) and place:
                key = chance.randrange(len(place))
            else:
                break
            if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.85:
                place = place[key]
                continue
            if isinstance(place, dict) and chance.random() < 0.2:
                del place[key]
            else:
                place[key] = copy.deepcopy(chance.choice(ODD))
            break
    return json.dumps(document).encode()


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _lines,
    _word,
    _json,
    _json,
)


class Ground:
    """A folder with what commands need besides the input: a state, a report, another recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state, self.report = folder / "state", folder / "report.json"
        self.demo = str(ROOT / "gpuscan" / "recording" / "demo.json.gz")
        broken = str(ROOT / "gpuscan" / "recording" / "demo-broken.json")
        words = ("--state-dir", str(self.state), "--format", "json", "--output", str(self.report))
        call(["judge", broken, *words], os.environ)
        self.files = {
            path.relative_to(self.state): path.read_bytes()
            for path in self.state.rglob("*")
            if path.is_file()
        }

    def commands(self, seed: Seed, chance: random.Random, others: list[Seed]) -> list[str]:
        """Write a changed input, and return the words of a command that takes it."""
        if seed.kind == "state":
            return self._of_state(chance, others)
        if seed.kind == "words":
            return [
                "explain",
                chance.choice(("xid", "sxid", "dcgm", "exit", "check", "hold")),
                chance.choice(WORDS),
            ]
        ticket = seed.kind == "recording" and chance.random() < 0.1
        data = self.report.read_bytes() if ticket else seed.data
        file = self.folder / f"input{'.json' if ticket else seed.ending}"
        file.write_bytes(change(data, chance, others))
        shown = ["--format", chance.choice(FORMATS), *chance.choice(([], [], ["-q"], ["-v"]))]
        if ticket:
            return ["ticket", str(file), "--format", chance.choice(("text", "markdown", "json"))]
        if seed.kind == "profile":
            return chance.choice(
                (["profile", "validate", str(file)], ["judge", self.demo, "--profile", str(file)])
            )
        if seed.kind == "text":
            return [chance.choice(("judge", "log")), str(file), *shown]
        return chance.choice(
            (
                ["judge", str(file), *shown],
                ["judge", str(file), *shown],
                ["diff", self.demo, str(file), *shown],
            )
        )

    def _of_state(self, chance: random.Random, others: list[Seed]) -> list[str]:
        shutil.rmtree(self.state, ignore_errors=True)
        for name, data in self.files.items():
            path = self.state / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change(data, chance, others) if chance.random() < 0.5 else data)
        where = ["--state-dir", str(self.state)]
        return [
            *chance.choice(
                (
                    ["status"],
                    ["status", "--format", "json"],
                    ["history", "list"],
                    ["judge", self.demo],
                    ["ticket"],
                )
            ),
            *where,
        ]


def call(words: list[str], env: Any) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    path = os.pathsep.join((str(ROOT), env.get("PYTHONPATH", "")))
    return subprocess.run(
        [sys.executable, "-m", "gpuscan", *words],
        capture_output=True, text=True, errors="replace", env={**env, "PYTHONPATH": path}, check=False, timeout=60,
    )  # fmt: skip


def in_process(words: list[str]) -> tuple[int, str, str]:
    """Run the command line in this process, with a limit on its time."""
    from gpuscan.cli import app

    def late(_number: int, _frame: object) -> None:
        raise Hang

    before = sys.argv, sys.stdout, sys.stderr
    sys.argv = ["gpuscan", *words]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in (1, 2)
    )
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, ONE_RUN_S)
    try:
        code = app.start(None)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        texts = []
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
        sys.argv, sys.stdout, sys.stderr = before
    return code, texts[0], texts[1]


def main() -> int:
    """Fuzz, and print what it came to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--keep", default="")
    parser.add_argument("--more", default="")
    given = parser.parse_args()
    chance, others = random.Random(given.seed), seeds(given.more)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    suite.load_file = functools.cache(suite.load_file)  # compiling them again takes half the time
    os.environ["GPUSCAN_CONFIG"] = "/nonexistent"
    exits: collections.Counter[str] = collections.Counter()
    places: dict[str, list[str]] = {}
    keep = Path(given.keep or tempfile.mkdtemp(prefix="gpuscan-fuzz-"))
    keep.mkdir(parents=True, exist_ok=True)
    ends_s, done = time.monotonic() + given.seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        os.environ["GPUSCAN_STATE_DIR"] = str(Path(folder) / "own")
        for done in range(1, given.count + 1):
            if time.monotonic() >= ends_s:
                break
            words = ground.commands(chance.choice(others), chance, others)
            out = err = ""
            try:
                if given.processes:
                    ended = call(words, os.environ)
                    code, out, err = ended.returncode, ended.stdout, ended.stderr
                else:
                    code, out, err = in_process(words)
                told = str(code)
            except (Hang, subprocess.TimeoutExpired):
                told = "hang"
            exits[f"{words[0]} {told}"] += 1
            wrong = (
                told == "hang"
                or int(told) not in CONTRACT
                or "Traceback" in err
                or "\x1b" in out + err
            )
            if wrong:
                _keep(words, told, err, out, places, keep, done)
    tracebacks = sum(
        len(found) for place, found in places.items() if place not in ("hang", "escape")
    )
    print(
        json.dumps(
            {
                "seed": given.seed,
                "runs": done,
                "tracebacks": tracebacks,
                "exits": dict(sorted(exits.items())),
                "places": {place: [len(found), found[0]] for place, found in places.items()},
            },
            indent=1,
        )
    )
    return bool(places)


def _keep(
    words: list[str],
    told: str,
    err: str,
    out: str,
    places: dict[str, list[str]],
    keep: Path,
    number: int,
) -> None:
    lines = [line.strip() for line in err.splitlines()]
    frames = [line for line in lines if line.startswith("File ")]
    errors = [line for line in lines if "Error" in line.partition(":")[0]]
    place = (
        "hang"
        if told == "hang"
        else "escape"
        if "\x1b" in out + err and not frames
        else f"{frames[-1] if frames else told} {errors[-1][:90] if errors else ''}"
    )
    inputs = [word for word in words if os.path.exists(word) and "demo" not in word]
    name = keep / f"{number}"
    if len(places.get(place, ())) < 2:
        for word in inputs:
            (shutil.copytree if os.path.isdir(word) else shutil.copy)(
                word, f"{name}-{os.path.basename(word)}"
            )
    places.setdefault(place, []).append(f"{name} {' '.join(words)}")


if __name__ == "__main__":
    sys.exit(main())
