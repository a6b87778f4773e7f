"""The node's hold through everything that may happen to a state: orders of runs, clocks, users,
modes, full disks, damage, and a kill at any moment.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from over_time import DAY_S, EIGHT, FAILED, file_of, later
from program import Call, environment

from gpuscan.recording import load, patch
from gpuscan.state import begun, last
from gpuscan.state.rows import whose
from gpuscan.state.store import Store
from gpuscan.state.whoami import this_machine

SERIAL = re.compile(r"16\d{11}|[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{32}")
CLOCKS = (0.0, -10 * 365.0, -0.01, 0.01, 2 * 365.0)  # days that a run's clock is off


def run_at(folder: Path, days: float, changes: dict[str, Any], *, full: bool = True) -> Any:
    """Begin a run of this machine: its store has read what is known; finish it with `end`."""
    from gpuscan.engine import judging

    recording = patch(load(EIGHT), changes)
    here = this_machine()
    machine = {
        "file:/etc/machine-id": here["machine_id"] or "0" * 32,
        "file:/proc/sys/kernel/random/boot_id": here["boot_id"],
    }
    recording = patch(recording, machine)
    recording.meta = recording.meta._replace(made_at=time.time() + days * DAY_S)
    only = () if full else ("thermal",)
    plan = judging.prepare(judging.Selection(profile="h100-8x", only=only))
    store = Store(str(folder), whose(recording), live=True, note=begun.begin(str(folder)))
    store.add_past(recording, [])
    report = judging.judge_recording(recording, "", plan)
    return store, report


def end(run: Any) -> list[str]:
    store, report = run
    store.keep(report, "live")
    return list(store.troubles)


ORDERS = [
    (full, first, clocks)
    for full in (True, False)
    for first in ("failing", "passing")
    for clocks in itertools.product(CLOCKS, CLOCKS)
]


@pytest.mark.parametrize(
    "order", random.Random(15).sample(ORDERS, 6)
    if "GPUSCAN_WHOLE_GRIDS" not in os.environ
    else ORDERS, ids=str,
)  # fmt: skip
def test_no_order_of_runs_and_no_clock_drops_a_hold(
    call: Call, tmp_path: Path, order: tuple[bool, str, tuple[float, float]]
) -> None:
    full, first, (slow, quick) = order
    failing = run_at(tmp_path, slow, FAILED)
    passing = run_at(tmp_path, quick, {}, full=full)
    for name in (first, "passing" if first == "failing" else "failing"):
        end(failing if name == "failing" else passing)
    assert call("status", "--state-dir", str(tmp_path)).code == 41
    lenient = call("status", "--state-dir", str(tmp_path), "--on-incomplete", "pass")
    assert lenient.code == 41
    end(run_at(tmp_path, 1, {}))  # and the next run does not launder it
    assert call("status", "--state-dir", str(tmp_path)).code == 41


ODD: list[Any] = ["41", None, 5, -1, 1e300, float("nan"), True, [], {}, "x" * 9]
NAMES = ("code", "action", "check", "subject", "serial", "message", "level", "since_s", "seen_s")
DAMAGE = [(name, number) for name in NAMES for number in range(len(ODD))]


@pytest.mark.parametrize(("name", "number"), random.Random(15).sample(DAMAGE, 12))
def test_one_damaged_entry_costs_neither_itself_nor_the_others(
    call: Call, tmp_path: Path, name: str, number: int
) -> None:
    two = {**FAILED, "nvml:nvmlDeviceGetRemappedRows(0000:1b:00.0)": [0, 8, 0, 1]}
    end(run_at(tmp_path, 0, two))
    path = tmp_path / "last.json"
    document = json.loads(path.read_text())
    document["hold"]["reasons"][0][name] = ODD[number]
    path.write_text(json.dumps(document))
    entries = len(document["hold"]["reasons"])
    assert entries == 2
    for _ in range(2):
        end(run_at(tmp_path, 1, {}))
        now = json.loads(path.read_text())
        kept = [*now["hold"]["reasons"], *now["asleep"], *now["unread"]]
        assert len(kept) >= entries
        assert call("status", "--state-dir", str(tmp_path)).code == 41


@pytest.mark.parametrize("code", [-1, 0, 3, 10, 42])
def test_a_code_of_no_failure_makes_no_reason(call: Call, tmp_path: Path, code: int) -> None:
    """It is kept, and the node is not known to be free."""
    end(run_at(tmp_path, 0, FAILED))
    path = tmp_path / "last.json"
    document = json.loads(path.read_text())
    document["hold"]["reasons"][0]["code"] = code
    path.write_text(json.dumps(document))
    end(run_at(tmp_path, 1, {}))
    now = json.loads(path.read_text())
    assert [one["code"] for one in now["unread"]] == [code]
    assert call("status", "--state-dir", str(tmp_path)).code in (3, 41)


@pytest.mark.parametrize("value", [*ODD, {"reasons": []}, {"code": 41}], ids=repr)
def test_a_hold_that_makes_no_sense_never_passes(call: Call, tmp_path: Path, value: Any) -> None:
    end(run_at(tmp_path, 0, {}))
    path = tmp_path / "last.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hold": value}))
    passes = 0 if value is None else 3
    for _ in range(2):
        for words in ((), ("--on-incomplete", "pass")):
            done = call("status", "--state-dir", str(tmp_path), *words)
            assert (done.code, done.err) == (passes, "")
        end(run_at(tmp_path, 0, {}))
    call("clear", "--reason", "looked at", "--state-dir", str(tmp_path))
    end(run_at(tmp_path, 0, {}))
    assert call("status", "--state-dir", str(tmp_path)).code == 0


def test_a_hold_that_was_taken_out_by_hand_stands(call: Call, tmp_path: Path) -> None:
    end(run_at(tmp_path, 0, FAILED))
    path = tmp_path / "last.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hold": None}))
    end(run_at(tmp_path, 1, {}))
    assert call("status", "--state-dir", str(tmp_path)).code == 41


KEYS = ("at", "verdict", "exit_code", "complete", "profile", "scope", "machine", "boot_id")


@pytest.mark.parametrize("name", KEYS)
def test_a_verdict_that_makes_no_sense_is_incomplete_and_keeps_the_hold(
    call: Call, tmp_path: Path, name: str
) -> None:
    for changes, code in (({}, 3), (FAILED, 41)):
        folder = tmp_path / str(code)
        end(run_at(folder, 0, changes))
        path = folder / "last.json"
        whole = json.loads(path.read_text())
        for value in ODD:
            path.write_text(json.dumps({**whole, name: value}))
            done = call("status", "--state-dir", str(folder))
            if last.read(str(path))["nonsense"]:  # type: ignore[index]
                assert done.code in (code, 3)
                assert done.code == code or name in ("machine", "boot_id")
            assert done.err == ""


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o027])
def test_modes_do_not_follow_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        end(run_at(tmp_path / "a" / "state", 0, FAILED))
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777
        for path in (tmp_path / "a").rglob("*")
    }
    public = {"a/state": 0o755, "a/state/status.json": 0o644}
    for name, mode in modes.items():
        folder = (tmp_path / name).is_dir()
        assert mode == public.get(name, 0o700 if folder else 0o600), name
    text = (tmp_path / "a" / "state" / "status.json").read_text()
    assert not SERIAL.search(text.replace(str(json.loads(text)["machine"]), ""))
    assert json.loads(text)["hold"][0]["subject"] == "gpu:SXM4"


@pytest.mark.parametrize("name", ["last.json", "history.sqlite", "state.lock", "status.json"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_what_is_no_file_blocks_nobody(call: Call, tmp_path: Path, name: str, kind: str) -> None:
    end(run_at(tmp_path, 0, FAILED))
    path = tmp_path / name
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/etc/hostname")
    run = run_at(tmp_path, 1, {})
    end(run)
    assert run[1].exit_code in (41, 3)
    assert call("status", "--state-dir", str(tmp_path)).code in (41, 3)


def test_a_run_that_cannot_be_stored_invalidates_the_pass(call: Call, tmp_path: Path) -> None:
    end(run_at(tmp_path, 0, {}))
    assert call("status", "--state-dir", str(tmp_path)).code == 0
    for changes, code in (({}, 3), (FAILED, 41)):
        words = [sys.executable, "-c", "import time; time.sleep(600)"]
        holder = subprocess.Popen(["flock", str(tmp_path / "state.lock"), *words])
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not _is_locked(tmp_path / "state.lock"):
                time.sleep(0.01)
            pid = os.fork()
            if pid == 0:
                import gpuscan.state.place as place

                place.LOCK_S = 0.05
                end(run_at(tmp_path, 1, changes))
                os._exit(0)
            os.waitpid(pid, 0)
        finally:
            holder.kill()
            holder.wait()
        for words_ in ((), ("--on-incomplete", "pass")):
            assert call("status", "--state-dir", str(tmp_path), *words_).code == code
    end(run_at(tmp_path, 2, {}))
    assert call("status", "--state-dir", str(tmp_path)).code == 41


def _is_locked(path: Path) -> bool:
    import fcntl

    with path.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def test_rows_that_make_no_sense_cost_no_verdict(call: Call, tmp_path: Path) -> None:
    changes = [
        ("events", "data", "no json"), ("events", "data", b"\xff\x00"), ("events", "at", "x"),
        ("parts", "serial", b"\x00"), ("parts", "last_at", 9e999), ("findings", "same", b"x"),
        ("findings", "action", 5), ("runs", "at", "soon"), ("runs", "report", b"no zlib"),
        ("measurements", "value", 9e999), ("runs", "headline", b"\xff"),
    ]  # fmt: skip
    for number, (table, column, value) in enumerate(changes):
        folder = tmp_path / str(number)
        end(run_at(folder, 0, FAILED))
        with sqlite3.connect(folder / "history.sqlite") as db:
            db.execute(f"UPDATE {table} SET {column} = ?", (value,))  # noqa: S608
        db.close()
        run = run_at(folder, 1, {})
        end(run)
        assert run[1].exit_code == 41, (table, column)
        assert call("history", "list", "--state-dir", str(folder)).code == 0
        assert call("history", "export", "--state-dir", str(folder)).code == 0


def test_damaged_pages_are_set_aside_and_the_run_is_stored(call: Call, tmp_path: Path) -> None:
    for n in range(3):
        end(run_at(tmp_path, n, FAILED))
    path = tmp_path / "history.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    for _ in range(2):
        end(run_at(tmp_path, 5, {}))
    assert list(tmp_path.glob("history.sqlite.damaged-*"))
    assert "stored" in call("history", "list", "--state-dir", str(tmp_path)).out
    assert call("status", "--state-dir", str(tmp_path)).code == 41


@pytest.mark.system
@pytest.mark.parametrize("seed", range(100 if "GPUSCAN_WHOLE_GRIDS" in os.environ else 12))
def test_kill_9_of_two_runs_at_any_moment(call: Call, tmp_path: Path, seed: int) -> None:
    state = tmp_path / "state"
    call("judge", "demo-broken", "--state-dir", str(state))
    (path,) = state.rglob("last.json")
    # what the passing run may not lift; the other reasons it may
    held = {
        reason["check"]
        for reason in json.loads(path.read_text())["hold"]["reasons"]
        if reason["code"] == 41
    }
    assert held
    recording = load(EIGHT)
    files = [file_of(later(recording, n), tmp_path, f"{n}.gz") for n in (1, 2)]
    words = [sys.executable, "-m", "gpuscan", "judge", "-q", "--state-dir", str(state)]
    quiet = subprocess.DEVNULL
    runs = [
        subprocess.Popen([*words, file], env=environment(), stdout=quiet, stderr=quiet)
        for file in (*files, "demo")
    ]
    time.sleep(random.Random(seed).uniform(0.1, 1.6))  # the moment is what is varied
    for run in runs:
        run.send_signal(signal.SIGKILL)
        run.wait()
    now = json.loads(path.read_text())
    assert held <= {reason["check"] for reason in now["hold"]["reasons"]}
    with sqlite3.connect(state / "history.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert call("judge", "demo", "-q", "--state-dir", str(state)).code == 41


@pytest.mark.system
@pytest.mark.parametrize("stdout", ["full", "closed"])
def test_status_keeps_its_code_whatever_its_output(tmp_path: Path, stdout: str) -> None:
    for changes, code in (({}, 0), (FAILED, 41)):
        folder = tmp_path / str(code)
        end(run_at(folder, 0, changes))
        words = f"{sys.executable} -m gpuscan status --max-age 99999d --state-dir {folder}"
        output = ">/dev/full" if stdout == "full" else ">&-"
        done = subprocess.run(
            ["bash", "-c", f"{words} {output}"],
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code
        assert "Traceback" not in done.stderr
