"""Whatever lies in history.sqlite costs no more than itself: no command ends in a traceback, and
none passes what it could not read.
"""

from __future__ import annotations

import json
import random
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from program import Call

from gpuscan.state.archive import FILE, TABLES

TESTS = ROOT / "tests"
CONTRACT = (0, 2, 3, 10, 20, 30, 31, 40, 41)
BROKEN = str(ROOT / "gpuscan" / "recording" / "demo-broken.json")
COMMANDS = (
    ("history", "list"),
    ("history", "list", "--format", "json"),
    ("history", "list", "--part", "SXM6", "--since", "30d"),
    ("history", "export"),
    ("ticket",),
    ("ticket", "--format", "json"),
    ("judge", BROKEN, "-q"),
    ("status",),
    ("clear", "--reason", "looked at"),
)
DEEP = "[" * 100_000
VALUES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "empty": "",
    "escape": "\x1b]0;x\x07\u202e\n",
    "no UTF-8": "CAST(x'fffe' AS TEXT)",
    "bytes": b"\xff\xfe",
    "negative": -1,
    "large": 2**63 - 1,
    "infinite": 1e999,
    "deep JSON": DEEP,
    "packed deep JSON": zlib.compress(DEEP.encode()),
    "packed list": zlib.compress(b"[]"),
    "packed object": zlib.compress(b'{"parts": 5}'),
    "packed zeros": zlib.compress(bytes(1 << 20)),
}


def columns() -> Iterator[tuple[str, str]]:
    """Every column of every table, as (table, column); SQLite itself sees to the kind of a key."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            rows = db.execute(f"PRAGMA table_info({table})").fetchall()
            yield from ((table, row[1]) for row in rows if not row[5])


def plant(path: Path, table: str, column: str, name: str) -> None:
    """Put a value into every row of a column, as one who edits the file may, whatever its
    constraints.
    """
    value = VALUES[name]
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
        db.commit()
    with closing(sqlite3.connect(path)) as db:
        literal = name == "no UTF-8"
        db.execute(
            f"UPDATE OR IGNORE {table} SET {column} = {value if literal else '?'}",  # noqa: S608
            () if literal else (value,),
        )
        db.commit()


def drop_the_schema_s_text(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT) WHERE name = 'runs'")
        db.commit()


def rename_a_column(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE runs RENAME COLUMN verdict TO judgement")


def another_program_s(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE runs (id, name); PRAGMA user_version = 1;")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def a_text(path: Path) -> None:
    path.write_text("history\n" * 200)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES: dict[str, Callable[[Path], None]] = {
    make.__name__.replace("_", " "): make
    for make in (
        drop_the_schema_s_text,
        rename_a_column,
        another_program_s,
        cut,
        empty,
        a_text,
        a_folder,
    )
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An archive with a row in every table."""
    from gpuscan.state.archive import Archive

    folder = tmp_path_factory.mktemp("whole")
    folder.chmod(0o700)
    report = json.loads((TESTS / "outputs" / "mixed.41.json").read_text("utf-8"))
    finding = dict.fromkeys(
        ("check", "subject", "serial", "severity", "action", "same", "message"), "fail"
    )
    words = ("uuid", "hostname", "boot_id", "source", "verdict", "action", "profile", "level")
    run = {**dict.fromkeys(words, "w"), "headline": "h", "at": 1e9, "exit_code": 41}
    part = dict.fromkeys(("kind", "slot", "address", "serial", "part_number"), "p")
    archive = Archive(str(folder), write=True)
    row = {**run, "complete": True, "full": True, "findings": [finding]}
    archive.keep("m", row, report, [part])
    archive.note("m", 1e9, "tried", "reboot", {})
    archive.close()
    return (folder / FILE).read_bytes()


def check_commands(call: Call, folder: Path, data: bytes, damage: Callable[[Path], None]) -> None:
    for number, words in enumerate(COMMANDS):
        own = folder / str(number)
        own.mkdir(mode=0o700)
        (own / FILE).write_bytes(data)
        damage(own / FILE)
        done = call(*words, "--state-dir", str(own))
        told = f"{words}: {done.err[-400:]}"
        assert done.code in CONTRACT, told
        assert "Traceback" not in done.err, told
        assert "\x1b" not in done.out + done.err, told
        if "json" in words and done.code == 0:
            json.loads(done.out)
        if words[0] == "judge":
            assert done.code == 30, told


GRID = [(*place, name) for place in columns() for name in VALUES]


@pytest.mark.sweep
@pytest.mark.parametrize(("table", "column", "name"), GRID)
def test_every_value_in_every_column(
    call: Call, tmp_path: Path, whole: bytes, table: str, column: str, name: str
) -> None:
    check_commands(call, tmp_path, whole, lambda path: plant(path, table, column, name))


@pytest.mark.parametrize(("table", "column", "name"), random.Random(15).sample(GRID, 2))
def test_a_sample_of_values(
    call: Call, tmp_path: Path, whole: bytes, table: str, column: str, name: str
) -> None:
    check_commands(call, tmp_path, whole, lambda path: plant(path, table, column, name))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_archive_of_ours(
    call: Call, tmp_path: Path, whole: bytes, name: str
) -> None:
    check_commands(call, tmp_path, whole, FILES[name])


def test_a_locked_archive_costs_the_command_and_not_the_verdict(
    call: Call, tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuscan.state.archive.BUSY_S", 0.05)
    tmp_path.chmod(0o700)
    (tmp_path / FILE).write_bytes(whole)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        for words in COMMANDS:
            done = call(*words, "--state-dir", str(tmp_path))
            assert "Traceback" not in done.err, done.err
            wanted = {"judge": 30, "status": 3}.get(words[0], 2)
            assert done.code == wanted, (words, done)
            assert words[0] == "status" or "locked" in done.err, (words, done.err)
