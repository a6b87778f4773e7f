"""The state: what a run leaves behind, what the next is told, and that nothing stored is lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from over_time import BOOT, DAY_S, EIGHT, file_of, last_of, later
from program import Call, environment, start

from gpuscan.importers.load import open_recording
from gpuscan.recording import load, patch
from gpuscan.state import last
from gpuscan.state.archive import Archive
from gpuscan.state.place import StateError, locked, state_dir
from gpuscan.state.rows import whose
from gpuscan.state.store import Store


def test_a_run_leaves_its_verdict_and_its_findings(call: Call, tmp_path: Path) -> None:
    state = tmp_path / "state"
    file = file_of(
        patch(open_recording("demo-broken"), {BOOT: "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}),
        tmp_path,
        "broken.gz",
    )
    assert call("judge", file, "--state-dir", str(state)).code == 41
    found = last_of(state)
    assert (found["verdict"], found["exit_code"], found["profile"], found["level"]) == (
        "hardware",
        41,
        "h200-4x",
        "passive",
    )
    assert found["scope"] == {"full": True, "limits": []}
    assert found["boot_id"] == "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
    assert found["hold"]["code"] == 41
    assert {one["check"] for one in found["hold"]["reasons"]} == {
        "memory.row_remap",
        "driver.gpu_access",
        "nvlink.links",
    }
    rows = json.loads(call("history", "list", "--format", "json", "--state-dir", str(state)).out)
    assert [row["exit_code"] for row in rows] == [41]
    assert {f["check_id"] for f in rows[0]["findings"] if f["severity"] == "fail"} == {
        r["check"] for r in found["hold"]["reasons"]
    }


def test_parts_are_remembered_by_slot(call: Call, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    recording = load(EIGHT)
    serial = next(key for key in recording.keys() if key.startswith("nvml:nvmlDeviceGetSerial("))
    changed = later(patch(recording, {serial: "1650000000999"}), 3)
    for name, one in (("a.gz", recording), ("b.gz", changed)):
        call("judge", file_of(one, tmp_path, name), "--state-dir", state)
    lines = [
        json.loads(line)
        for line in call("history", "export", "--state-dir", state).out.splitlines()
    ]
    parts = [line for line in lines if line["kind"] == "part"]
    twice = [
        part
        for part in parts
        if [p["slot"] for p in parts if p["what"] == "gpu"].count(part["slot"]) == 2
    ]
    assert {part["serial"] for part in twice} == {recording.get(serial), "1650000000999"}
    assert [
        part["last_at"] - part["first_at"]
        for part in parts
        if part["slot"] not in {p["slot"] for p in twice}
    ] != []
    runs = [line for line in lines if line["kind"] == "run"]
    assert [run["report"]["summary"]["exit_code"] for run in runs] == [0, 0]


def test_the_parts_of_the_last_whole_pass_are_known(tmp_path: Path, call: Call) -> None:
    recording = load(EIGHT)
    serial = next(key for key in recording.keys() if key.startswith("nvml:nvmlDeviceGetSerial("))
    words = ("--state-dir", str(tmp_path / "state"))

    def present(days: float) -> list[dict[str, Any]]:
        now = later(recording, days)
        store = Store(str(tmp_path / "state"), whose(now), own=False)
        store.add_past(now, [])
        return list(now.get("history:present"))

    assert present(1) == []
    nameless = patch(recording, {serial: {"error": ["not-supported", "Not Supported"]}})
    call("judge", file_of(nameless, tmp_path, "a.gz"), *words)
    failing = later(patch(recording, {serial: "1650000000999"}), 2)
    call("judge", file_of(failing, tmp_path, "b.gz"), "--skip", "xid", *words)
    gpus = [part for part in present(3) if part["kind"] == "gpu"]
    assert len({(part["slot"], part["address"]) for part in gpus}) == 8
    assert sorted(bool(part["serial"]) for part in gpus) == [False, *[True] * 7]
    assert {part["last_s"] for part in gpus} == {recording.meta.made_at}
    assert {"gpu", "nic"} <= {part["kind"] for part in present(3)}


def test_a_recording_judged_twice_is_one_run(call: Call, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    for _ in range(2):
        call("judge", "demo", "--state-dir", state)
    assert (
        len(json.loads(call("history", "list", "--format", "json", "--state-dir", state).out)) == 1
    )
    call("judge", "demo-broken", "--state-dir", state)
    assert (
        len(json.loads(call("history", "list", "--format", "json", "--state-dir", state).out)) == 2
    )


def test_judging_without_a_folder_stores_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUSCAN_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert state_dir() == str(tmp_path / "gpuscan")
    call("judge", "demo")
    call("run", "--replay", "demo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "many"),
    [
        ((), 2),
        (("--part", "SXM7"), 1),
        (("--part", "1654000000004"), 1),
        (("--part", "SXM99"), 0),
        (("--check", "memory"), 1),
        (("--check", "nvlink.*"), 1),
        (("--since", "2000-01-01"), 2),
        (("--since", "2999-01-01"), 0),
        (("--since", "36500d"), 2),
    ],
)
def test_history_is_narrowed(call: Call, tmp_path: Path, words: tuple[str, ...], many: int) -> None:
    state = str(tmp_path)
    for demo in ("demo", "demo-broken"):
        call("judge", demo, "--state-dir", state)
    assert (
        len(
            json.loads(
                call("history", "list", "--format", "json", "--state-dir", state, *words).out
            )
        )
        == many
    )
    done = call("history", "list", "--state-dir", state, *words)
    assert done.code == 0
    assert len([line for line in done.out.splitlines() if line.startswith("20")]) == many


def test_history_knows_renamed_checks(call: Call, tmp_path: Path) -> None:
    state = str(tmp_path)
    call("judge", "demo-broken", "--state-dir", state)
    with sqlite3.connect(tmp_path / "history.sqlite") as db:
        db.execute(
            "UPDATE findings SET check_id = 'memory.no_row_remap_failed'"
            " WHERE check_id = 'memory.row_remap'"
        )
    db.close()
    for name in ("memory.row_remap", "memory.no_row_remap_failed", "memory.row_*"):
        words = ("history", "list", "--check", name, "--state-dir", state)
        rows = json.loads(call(*words, "--format", "json").out)
        ids = {finding["check_id"] for row in rows for finding in row["findings"]}
        assert "memory.row_remap" in ids, name
        assert "memory.no_row_remap_failed" not in ids
        assert "memory.row_remap: " in call(*words).out


@pytest.mark.parametrize("words", [("list",), ("export",), ("list", "--since", "yesterday")])
def test_history_of_nothing_is_refused(call: Call, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = call("history", *words, "--state-dir", str(tmp_path))
    assert done.code == 2
    assert "no archive yet" in done.err or "--since yesterday" in done.err


def test_a_newer_archive_is_left_untouched(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()
    done = call("judge", "demo", "--state-dir", str(tmp_path))
    assert done.code == 0
    assert "newer gpuscan" in done.err
    assert path.read_bytes() == before
    assert call("history", "list", "--state-dir", str(tmp_path)).code == 2


def test_a_newer_last_json_is_left_untouched_and_hides_no_hold(call: Call, tmp_path: Path) -> None:
    call("judge", "demo", "--state-dir", str(tmp_path))
    (path,) = tmp_path.rglob("last.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": "9.0"}))
    before = path.read_bytes()
    done = call("judge", "demo", "--state-dir", str(tmp_path))
    assert done.code == 3
    assert "newer gpuscan" in done.err
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\x00", b'{"format": "gpuscan-last", "schema_version": "1.0"}', b"[]"],
)
def test_a_damaged_last_json_loses_no_hold(call: Call, tmp_path: Path, damage: bytes) -> None:
    call("judge", "demo-broken", "--state-dir", str(tmp_path))
    (path,) = tmp_path.rglob("last.json")
    path.write_bytes(damage)
    done = call("judge", "demo", "--state-dir", str(tmp_path))
    assert done.code == 41  # the archive knew the hold
    assert last_of(tmp_path)["hold"]["code"] == 41
    (aside,) = tmp_path.rglob("last.json.damaged-*")
    assert aside.read_bytes() == damage


def test_where_nobody_knows_the_hold_any_more_nothing_passes_until_it_is_cleared(
    call: Call, tmp_path: Path
) -> None:
    call("judge", "demo-broken", "--state-dir", str(tmp_path))
    (path,) = tmp_path.rglob("last.json")
    path.write_bytes(b"{")
    (tmp_path / "history.sqlite").write_bytes(
        b"no database, but long enough to be told from an empty one" * 99
    )
    for _ in range(3):
        done = call("judge", "demo", "--state-dir", str(tmp_path))
        assert done.code == 3
        assert "what was held is not known" in done.out
    (aside,) = tmp_path.rglob("last.json.damaged-*")
    assert aside.read_bytes() == b"{"
    assert len(list(tmp_path.glob("history.sqlite.damaged-*"))) == 1


def test_a_damaged_archive_is_set_aside_and_the_run_is_stored_in_a_new_one(
    call: Call, tmp_path: Path
) -> None:
    call("judge", "demo-broken", "--state-dir", str(tmp_path))
    path = tmp_path / "history.sqlite"
    damaged = b"SQLite format 3\x00" + b"\xff" * 5000
    path.write_bytes(damaged)
    done = call("judge", "demo", "--state-dir", str(tmp_path))
    assert done.code == 41  # the hold is in last.json
    assert "damaged; set aside" in done.err
    (aside,) = (
        p
        for p in tmp_path.glob("history.sqlite.damaged-*")
        if not p.name.endswith(("-wal", "-shm"))
    )
    assert aside.read_bytes() == damaged
    assert (
        len(
            json.loads(
                call("history", "list", "--format", "json", "--state-dir", str(tmp_path)).out
            )
        )
        == 1
    )


def test_a_folder_that_cannot_be_written_costs_no_verdict(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = call("judge", "demo-broken", "--state-dir", str(tmp_path / "file" / "state"))
    assert done.code == 41
    assert "nothing is stored" in done.err or "not stored" in done.err


def test_a_full_disk_costs_no_verdict(tmp_path: Path) -> None:
    call_state = str(tmp_path / "state")
    assert start(["judge", "demo", "--state-dir", call_state]).code == 0
    limit = [
        sys.executable,
        "-c",
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        " os.execv(sys.argv[1], sys.argv[1:])",
    ]
    before = last_of(tmp_path)
    done = start(["judge", "demo-broken", "--state-dir", call_state, "-q"], before=limit)
    assert done.code == 41
    assert "not stored" in done.err
    assert last_of(tmp_path) == before
    assert start(["judge", "demo", "--state-dir", call_state]).code == 0


def test_several_runs_at_once_are_all_stored(tmp_path: Path) -> None:
    recording = load(EIGHT)
    files = [file_of(later(recording, n), tmp_path, f"{n}.gz") for n in range(6)]
    words = [sys.executable, "-m", "gpuscan", "judge", "-q", "--state-dir", str(tmp_path / "state")]
    env = environment()
    runs = [
        subprocess.Popen([*words, file], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for file in files
    ]
    errors = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * 6
    assert errors == [b""] * 6
    archive = Archive(str(tmp_path / "state"), write=False)
    assert len(archive.runs(0.0)) == 6
    assert last_of(tmp_path)["at"] == later(recording, 5).meta.made_at


KILLED = """
import os, sys
sys.argv = ["gpuscan", "judge", "-q", sys.argv[3], "--state-dir", sys.argv[2]]
import gpuscan.state.place as place, gpuscan.state.store as store, gpuscan.state.archive as archive
at = os.environ["KILL_AT"]
def killing(function, name):
    def call(*args, **options):
        if name == at: os.kill(os.getpid(), 9)
        return function(*args, **options)
    return call
os.fsync = killing(os.fsync, "fsync")
os.rename = killing(os.rename, "rename")
archive.Archive._add_part = killing(archive.Archive._add_part, "part")
archive.prune = killing(archive.prune, "prune")
from gpuscan.cli.app import leave, start
leave(start(None))
"""


@pytest.mark.parametrize("moment", ["fsync", "rename", "part", "prune"])
def test_kill_9_in_the_middle_of_a_write_loses_nothing(
    call: Call, tmp_path: Path, moment: str
) -> None:
    state = tmp_path / "state"
    call("judge", "demo-broken", "--state-dir", str(state))
    before = last_of(state)
    file = file_of(later(open_recording("demo"), 1), tmp_path, "later.gz")
    words = [sys.executable, "-c", KILLED, "-", str(state), file]
    done = subprocess.run(
        words,
        env={**environment(), "KILL_AT": moment},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert (
        last_of(state)["hold"]["reasons"][0] == before["hold"]["reasons"][0]
    )  # what the new run does not lift
    (run,) = Archive(str(state), write=False).runs(0.0)
    assert len(run["findings"]) >= 3
    assert call("judge", file, "--state-dir", str(state)).code == 41  # and the next one goes on
    assert len(Archive(str(state), write=False).runs(0.0)) == 2


def kept(folder: Path, runs: list[tuple[float, int]], most_bytes: int = 1 << 30) -> list[int]:
    """The days of the runs that stay, of those stored in this order: (day, exit code)."""
    archive = Archive(str(folder), write=True, most_bytes=most_bytes)
    texts = dict.fromkeys(
        ("hostname", "boot_id", "source", "action", "profile", "level", "headline"), "x"
    )
    for number, (day, code) in enumerate(runs):
        row = {
            **texts, "uuid": str(number), "at": day * DAY_S, "verdict": "pass", "exit_code": code,
            "complete": True, "full": True, "findings": [],
        }  # fmt: skip
        archive.keep("m", row, {"parts": [], "noise": os.urandom(20_000).hex()}, [])
    days = [round(run["at"] / DAY_S) for run in archive.runs(0.0)]
    archive.close()
    return sorted(days)


NEWEST = [(1000.0 + n / 100, 0) for n in range(40)]


def test_old_runs_make_room_and_failures_stay_longer(tmp_path: Path) -> None:
    days = kept(tmp_path, [(500, 0), (590, 41), (595, 41), (700, 41), (900, 0), (950, 0), *NEWEST])
    assert [day for day in days if day < 1000] == [700, 950]


@pytest.mark.parametrize("jump_days", [-3650, -30, 30, 730, 36500])
def test_a_clock_that_jumps_drops_nothing(tmp_path: Path, jump_days: float) -> None:
    ahead = [(1100 + jump_days, 0)] * 15
    days = kept(tmp_path, [*NEWEST, *ahead])
    assert len([day for day in days if day == 1000]) == 40
    assert len([day for day in days if day == round(1100 + jump_days)]) == 15 * (jump_days > -1100)


def test_the_size_is_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    runs = [(1000.0 + n / 10, 41 if n in (3, 5) else 0) for n in range(120)]
    days = kept(tmp_path, runs, most_bytes=1 << 20)
    assert (tmp_path / "history.sqlite").stat().st_size < 1.2 * (1 << 20)
    assert len(days) >= 20
    assert days[0] in (1000, 1001)  # the newest failure
    assert days[-20:] == [round(1000 + n / 10) for n in range(100, 120)]


def test_an_older_replay_does_not_become_the_last_verdict(call: Call, tmp_path: Path) -> None:
    recording = load(EIGHT)
    call(
        "judge",
        file_of(later(recording, 2), tmp_path, "new.gz"),
        "--state-dir",
        str(tmp_path / "state"),
    )
    before = last_of(tmp_path)
    call("judge", file_of(recording, tmp_path, "old.gz"), "--state-dir", str(tmp_path / "state"))
    assert last_of(tmp_path) == before
    assert (
        len(
            json.loads(
                call(
                    "history", "list", "--format", "json", "--state-dir", str(tmp_path / "state")
                ).out
            )
        )
        == 2
    )


def test_the_past_goes_with_the_recording(tmp_path: Path) -> None:
    recording = later(open_recording("demo-broken"), 0)
    store = Store(str(tmp_path), whose(recording), own=False)
    store.add_past(recording, ["reboot"])
    declared = {"work": "reboot", "at_s": recording.meta.made_at, "source": "--tried"}
    assert recording.get("history:tried") == [{**declared, "after_s": 0.0}]
    assert recording.get("history:runs") == 0
    file = file_of(recording, tmp_path, "with-past.gz")
    assert load(file).get("history:hold") == []


def test_a_lock_that_is_never_given_up_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuscan.state.place.LOCK_S", 0.05)
    with (
        locked(str(tmp_path)),
        pytest.raises(StateError, match="another gpuscan"),
        locked(str(tmp_path)),
    ):
        pass


def test_a_live_run_stores_as_this_machine_and_holds_by_serial(eight: Any, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    done = eight.plain("run", "-q", "--state-dir", state)
    assert (done.code, done.err) == (0, "")
    found = json.loads((tmp_path / "state" / "last.json").read_text())
    assert found["machine"]["machine_id"] == load(EIGHT).get("file:/etc/machine-id").strip()
    assert abs(found["at"] - time.time()) < 600
    status = eight.plain("status", "--state-dir", state)
    assert status.code == 0
    eight.log_lines(
        "NVRM: Xid (PCI:0000:1b:00): 95, pid=1, name=x, Uncontained: LTC TAG (0x2,0x0). Physical"
        " Address: 0x0"
    )
    eight.log_lines(
        "NVRM: Xid (PCI:0000:1b:00): 119, pid=1, name=x, Timeout waiting for RPC from GSP!"
    )
    assert eight.plain("run", "-q", "--state-dir", state).code == 30
    held = eight.plain("status", "--state-dir", state, "--format", "oneline")
    assert held.code == 30
    assert len(held.out.encode()) <= 80


def test_last_json_is_what_it_says(tmp_path: Path, call: Call) -> None:
    call("judge", "demo", "--state-dir", str(tmp_path))
    (path,) = tmp_path.rglob("last.json")
    assert last.read(str(path)) == {**json.loads(path.read_text()), "nonsense": ""}
    assert last.read(str(tmp_path / "none.json")) is None


def test_two_logs_that_name_no_machine_share_no_hold(call: Call, tmp_path: Path) -> None:
    fault = "[  100.000000] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    quiet = (
        "[    0.000000] Linux version 6.8.0 (builder)\n[  100.000000] NVRM: loading NVIDIA UNIX"
        " Open Kernel Module\n"
    )
    for folder, text in (("one", fault), ("other", quiet)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kern.log").write_text(text)
    state = ("-q", "--state-dir", str(tmp_path / "state"))
    assert call("log", str(tmp_path / "one" / "kern.log"), *state).code == 30
    assert call("log", str(tmp_path / "other" / "kern.log"), *state).code == 0
