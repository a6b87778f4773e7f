"""The ratios of the design's section 10, measured against each other in one run; absolute times
mean nothing here.
"""

import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from logs import write_journal
from paths import RECORDINGS, ROOT

from gpuscan import collectors, profile
from gpuscan.engine import suite
from gpuscan.engine.case import Case
from gpuscan.engine.stages import judge
from gpuscan.files import bundled
from gpuscan.importers.load import open_recording

EIGHT = RECORDINGS / "h100-8x-ib.json.gz"
ROUNDS = 15
GIGABYTE = 1_000_000_000
LOGS = {1_000_000: ROUNDS, 100_000_000: ROUNDS, GIGABYTE: 7}  # bytes of a journal: rounds


def wall_ms(*command: str) -> Callable[[], float]:
    """Return a function that runs a command and gives its wall time."""

    def once() -> float:
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return (time.perf_counter() - start) * 1000

    return once


def interleaved(first: Callable[[], float], second: Callable[[], float]) -> tuple[float, float]:
    """Return the medians of both, measured in turns so that a noisy machine is noisy for both."""
    pairs = [(first(), second()) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def ratio(name: str, limit: float, first: Callable[[], float], second: Callable[[], float]) -> bool:
    """Print one ratio beside its limit; return whether it holds."""
    ours, theirs = interleaved(first, second)
    holds = ours <= limit * theirs
    print(
        f"{name:<46}{ours / theirs:6.2f} (at most {limit:g}; {ours:.0f} / {theirs:.0f} ms)"
        f" {'ok' if holds else 'TOO SLOW'}"
    )
    return holds


def judged_per_second() -> float:
    """Return how many eight-GPU recordings one core judges in a second, reading the file
    included.
    """
    checks = suite.load([bundled("checks")])
    chosen = profile.load("h100-8x")
    start, number = time.process_time(), 0
    while time.process_time() - start < 3:
        judge(Case(collectors.node(open_recording(str(EIGHT))), chosen, checks))
        number += 1
    return number / (time.process_time() - start)


def log_ratio(gpuscan: str, folder: Path, size: int, rounds: int) -> bool:
    """Print what `log` takes beside grep's count on one journal, and the most memory that it and
    its children held.
    """
    journal = folder / "journal.log"
    write_journal(journal, size)
    ours, theirs, most_kib = [], [], 0
    grep = ("grep", "-cE", "NVRM|nvidia-nvswitch", str(journal))
    measured(*grep)  # the file is in the page cache for both
    for _ in range(rounds):
        took, kib = measured(gpuscan, "log", str(journal), "--format", "json")
        ours.append(took)
        theirs.append(measured(*grep)[0])
        most_kib = max(most_kib, kib)
    journal.unlink()
    ratio_ = statistics.median(ours) / statistics.median(theirs)
    holds = ratio_ <= 2 or size < GIGABYTE  # below, most of it is the start
    name = f"log, {size / 1e6:.0f} MB of journal / grep -c"
    told = (
        f"{statistics.median(ours):.0f} / {statistics.median(theirs):.0f} ms,"
        f" {most_kib / 1024:.0f} MiB"
    )
    print(
        f"{name:<46}{ratio_:6.2f} (a gigabyte: at most 2; {told}) {'ok' if holds else 'TOO SLOW'}"
    )
    return holds


def measured(*command: str) -> tuple[float, int]:
    """Run a command; return its wall time in ms, and the KiB that the largest of it and its
    children held at most.

    Its output goes into a pipe: where it goes to /dev/null grep ends with the first line that it
    finds.
    """
    code = "import resource, subprocess, sys, time\n"
    code += "start = time.perf_counter(); subprocess.run(sys.argv[1:], capture_output=True)\n"
    code += (
        "print((time.perf_counter() - start) * 1000,"
        " resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
    )
    took, kib = done.stdout.split()
    return float(took), int(kib)


def main() -> int:
    """Measure everything that exists by now, with compiled bytecode as any installation has it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(ROOT / "gpuscan", quiet=1)
    python = sys.executable
    gpuscan = os.path.join(os.path.dirname(python), "gpuscan")
    base = wall_ms(python, "-c", "import typer, yaml, json")
    good = [
        ratio(
            "run --replay of eight GPUs, JSON",
            1.5,
            wall_ms(gpuscan, "run", "--replay", str(EIGHT), "--format", "json"),
            base,
        ),
    ]
    rate = judged_per_second()
    good.append(rate >= 100)
    print(
        f"{'judge, recordings a second on one core':<46}{rate:6.0f} (at least 100)"
        f" {'ok' if good[-1] else 'TOO SLOW'}"
    )
    with tempfile.TemporaryDirectory() as folder:
        good += [log_ratio(gpuscan, Path(folder), size, rounds) for size, rounds in LOGS.items()]
    if _has_driver():
        good.append(_live(gpuscan))
    else:
        print("live scan: no NVIDIA driver here, not measured")
    return 0 if all(good) else 1


def _has_driver() -> bool:
    return os.path.exists("/dev/nvidiactl")


def _live(gpuscan: str) -> bool:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    gpus = len(listed.stdout.splitlines())
    limit = 2.0 if gpus == 1 else 0.8 if gpus < 4 else 0.6
    scan = wall_ms(gpuscan, "run", "--profile", "default", "--format", "json", "--no-history")
    return ratio(
        f"live passive scan of {gpus} GPUs / nvidia-smi -q",
        limit,
        scan,
        wall_ms("nvidia-smi", "-q"),
    )


if __name__ == "__main__":
    sys.exit(main())
