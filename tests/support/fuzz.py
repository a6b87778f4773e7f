"""A fuzz of the command line: seeded mutations of all kinds of input, in one process or in many.

    python tests/support/fuzz.py --seed 1 --count 10000
    python tests/support/fuzz.py --seed 1 --count 100 --processes

Prints what it came to as JSON, and keeps each input that ended in a traceback or took too long. A
seed gives the same inputs again.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
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
from pathlib import Path
from typing import Any

import typer
from fuzz_inputs import WORDS, Seed, change, seeds, start_from
from paths import RECORDINGS, ROOT

from gpuscan import __main__ as entry
from gpuscan.cli import app
from gpuscan.engine import suite

ONE_RUN_S = 20.0
MEMORY_BYTES = 3 << 30
COLLECT = 200  # runs between two collections of garbage: the program itself turns them off
CONTRACT = frozenset((0, 2, 3, 10, 20, 30, 31, 40, 41))
FORMATS = ("text", "json", "junit", "junit-full", "ctrf", "github", "markdown")


class Left(BaseException):
    """Takes the place of the end of this process: its argument is the exit code."""


class Hang(BaseException):
    """A run that took longer than ONE_RUN_S of this process's time."""


class Ground:
    """A folder with what commands need besides the input: a state, a report, another recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        config = folder / "config.yaml"  # none of this machine's, which a run would refuse to lack
        config.write_text("", "utf-8")
        os.environ["GPUSCAN_CONFIG"] = str(config)
        self.state, self.report = folder / "state", folder / "report.json"
        self.healthy = str(RECORDINGS / "h100-1x.json.gz")
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
        data = self.report.read_bytes() if ticket else start_from(seed, chance)
        file = self.folder / f"input{'.json' if ticket else seed.ending}"
        file.write_bytes(change(data, chance, others))
        shown = ["--format", chance.choice(FORMATS), *chance.choice(([], [], ["-q"], ["-v"]))]
        if ticket:
            return ["ticket", str(file), "--format", chance.choice(("text", "markdown", "json"))]
        if seed.kind == "profile":
            return chance.choice(
                (
                    ["profile", "validate", str(file)],
                    ["judge", self.healthy, "--profile", str(file)],
                )
            )
        if seed.kind == "text":
            return [chance.choice(("judge", "log")), str(file), *shown]
        return chance.choice(
            (
                ["judge", str(file), *shown],
                ["judge", str(file), *shown],
                ["diff", self.healthy, str(file), *shown],
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
                    ["judge", self.healthy],
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


def stay() -> None:
    """Let runs in this process end without ending it, and do once what every run does alike."""
    own, end = os.getpid(), os._exit

    def leave(code: int) -> None:
        if os.getpid() != own:
            end(code)
        raise Left(code)

    # each keeps what the program does; only compiling and building it anew is saved
    os._exit = leave  # type: ignore[assignment]
    suite.load_file = functools.cache(suite.load_file)
    app.build_command_line = functools.cache(app.build_command_line)
    typer.main.get_command = functools.cache(typer.main.get_command)


def in_process(words: list[str]) -> tuple[int, str, str]:
    """Run the program's `main()` in this process, with a limit on its time."""

    def late(_number: int, _frame: object) -> None:
        raise Hang

    before = sys.argv, sys.stdout, sys.stderr
    sys.argv = ["gpuscan", *words]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in (1, 2)
    )
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, ONE_RUN_S)
    code = 0
    try:
        entry.main()
    except Left as left:
        (code,) = left.args
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
    exits: collections.Counter[str] = collections.Counter()
    places: dict[str, list[str]] = {}
    keep = Path(given.keep or tempfile.mkdtemp(prefix="gpuscan-fuzz-"))
    keep.mkdir(parents=True, exist_ok=True)
    ends_s, done = time.monotonic() + given.seconds, 0
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        if not given.processes:
            stay()
        os.environ["GPUSCAN_STATE_DIR"] = str(Path(folder) / "own")
        for done in range(1, given.count + 1):
            if time.monotonic() >= ends_s:
                break
            words = ground.commands(chance.choice(others), chance, others)
            out = err = ""
            if done % COLLECT == 0:
                gc.collect()
                print(f"{done} runs, {sum(map(len, places.values()))} wrong", file=sys.stderr)
            try:
                if given.processes:
                    ended = call([word.replace("\0", "\\0") for word in words], os.environ)
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
    inputs = [word for word in words if os.path.exists(word) and not word.startswith(str(ROOT))]
    name = keep / f"{number}"
    if len(places.get(place, ())) < 2:
        for word in inputs:
            (shutil.copytree if os.path.isdir(word) else shutil.copy)(
                word, f"{name}-{os.path.basename(word)}"
            )
    places.setdefault(place, []).append(f"{name} {' '.join(words)}")


if __name__ == "__main__":
    sys.exit(main())
