"""The archive: runs, findings, measurements, parts and events of a machine, in SQLite, kept
through crashes.
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from gpuscan.state.place import StateError, set_aside

FILE = "history.sqlite"
VERSION = 1
BUSY_S = 5.0
DAY_S = 86400.0
KEEP_DAYS = 400.0  # a year of faults by part, and some weeks to ask for it
KEEP_PASSED_DAYS = 90.0
BACK_DAYS = 90.0  # how far a run looks back for faults that may have returned
MOST_FAULTS = 500

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, machine TEXT NOT NULL, hostname TEXT NOT NULL, boot_id TEXT NOT NULL,
    at REAL NOT NULL, source TEXT NOT NULL, verdict TEXT NOT NULL, exit_code INTEGER NOT NULL, complete INTEGER NOT NULL,
    action TEXT NOT NULL, profile TEXT NOT NULL, level TEXT NOT NULL, full INTEGER NOT NULL, headline TEXT NOT NULL, report BLOB);
CREATE INDEX IF NOT EXISTS runs_of ON runs (machine, at);
CREATE TABLE IF NOT EXISTS findings (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, check_id TEXT NOT NULL, subject TEXT NOT NULL,
    serial TEXT NOT NULL, severity TEXT NOT NULL, action TEXT NOT NULL, same TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS findings_of ON findings (run);
CREATE TABLE IF NOT EXISTS measurements (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL, subject TEXT NOT NULL,
    value REAL NOT NULL, unit TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS measurements_of ON measurements (run);
CREATE TABLE IF NOT EXISTS parts (
    machine TEXT NOT NULL, kind TEXT NOT NULL, slot TEXT NOT NULL, address TEXT NOT NULL, serial TEXT NOT NULL,
    part_number TEXT NOT NULL, first_at REAL NOT NULL, last_at REAL NOT NULL, UNIQUE (machine, kind, slot, serial));
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, machine TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_of ON events (machine, at);
"""


class Archive:
    """One open archive. Everything here raises StateError, and nothing else, for what the disk or
    the file does.
    """

    def __init__(self, folder: str, *, write: bool) -> None:
        self.path = os.path.join(folder, FILE)
        self.set_aside = ""
        if not write and not os.path.exists(self.path):
            raise StateError(f"{self.path}: no archive yet: gpuscan run makes one")
        try:
            self.db = self._opened(write)
        except sqlite3.DatabaseError as error:
            if not write or not _damaged(error):
                raise StateError(f"{self.path}: {error}") from None
            self.set_aside = set_aside(
                self.path
            )  # the next file begins anew; nothing of this one is lost
            for tail in (
                "-wal",
                "-shm",
            ):  # they belong to the damaged file, and would damage the new one
                if os.path.exists(self.path + tail):
                    os.rename(self.path + tail, self.set_aside + tail)
            self.db = self._tried(lambda: self._opened(write))

    def _opened(self, write: bool) -> sqlite3.Connection:
        mode = "rwc" if write else "ro"
        db = sqlite3.connect(
            f"file:{_quoted(self.path)}?mode={mode}", uri=True, timeout=BUSY_S, isolation_level=None
        )
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            db.close()
            raise StateError(
                f"{self.path}: written by a newer gpuscan (format {version}): it is left untouched; update gpuscan"
            )
        if write:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA foreign_keys = ON")
            if version < VERSION:
                db.executescript(
                    f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"
                )
        return db

    def _tried(self, work: Any) -> Any:
        try:
            return work()
        except sqlite3.Error as error:
            raise StateError(f"{self.path}: {error}") from None

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; raises StateError."""
        return list(self._tried(lambda: self.db.execute(query, values).fetchall()))

    def keep(
        self,
        machine: str,
        run: dict[str, Any],
        report: dict[str, Any],
        parts: Iterable[dict[str, Any]],
    ) -> None:
        """Add a run with all that it found, measured and saw, in one transaction, and drop what is
        too old.
        """

        def work() -> None:
            with _transaction(self.db):
                self._add_run(machine, run, report)
                for part in parts:
                    self._see(machine, part, run["at"])
                self._prune(run["at"])

        self._tried(work)

    def _add_run(self, machine: str, run: dict[str, Any], report: dict[str, Any]) -> None:
        names = (
            "uuid",
            "hostname",
            "boot_id",
            "at",
            "source",
            "verdict",
            "exit_code",
            "complete",
            "action",
            "profile",
            "level",
            "full",
            "headline",
        )
        blob = zlib.compress(json.dumps(report, default=str).encode("ascii", "backslashreplace"))
        marks = ", ".join("?" * (len(names) + 2))
        cursor = self.db.execute(
            # fixed names
            f"INSERT OR IGNORE INTO runs (machine, report, {', '.join(names)}) VALUES ({marks})",  # noqa: S608
            (machine, blob, *(run[name] for name in names)),
        )
        if not cursor.rowcount:
            return  # it is in already: an import twice
        number = cursor.lastrowid
        found = [
            (
                number,
                f["check"],
                f["subject"],
                f["serial"],
                f["severity"],
                f["action"],
                f["same"],
                f["message"],
            )
            for f in run["findings"]
        ]
        self.db.executemany("INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", found)
        values = [
            (number, m["name"], m["subject"], m["value"], m["unit"])
            for m in report.get("measurements", ())
        ]
        self.db.executemany("INSERT INTO measurements VALUES (?, ?, ?, ?, ?)", values)

    def _see(self, machine: str, part: dict[str, Any], at: float) -> None:
        self.db.execute(
            "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (machine, kind, slot, serial) DO UPDATE SET"
            " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at),"
            " address = excluded.address, part_number = excluded.part_number",
            (
                machine,
                part["kind"],
                part["slot"],
                part["address"],
                part["serial"],
                part["part_number"],
                at,
                at,
            ),
        )

    def _prune(self, now: float) -> None:
        self.db.execute("DELETE FROM runs WHERE at < ?", (now - KEEP_DAYS * DAY_S,))
        self.db.execute(
            "DELETE FROM runs WHERE exit_code = 0 AND at < ?", (now - KEEP_PASSED_DAYS * DAY_S,)
        )

    def note(self, machine: str, at: float, kind: str, text: str, data: Any = None) -> None:
        """Add an event: work that was tried, a hold set or lifted, a swap begun or ended."""
        values = (machine, at, kind, text, json.dumps(data))
        self._tried(
            lambda: self.db.execute(
                "INSERT INTO events (machine, at, kind, text, data) VALUES (?, ?, ?, ?, ?)", values
            )
        )

    def events(self, machine: str, kind: str = "") -> list[dict[str, Any]]:
        """Return a machine's events, oldest first, of one kind if named."""
        chosen = " AND kind = ?" if kind else ""
        rows = self.rows(
            f"SELECT at, kind, text, data FROM events WHERE machine = ?{chosen} ORDER BY at, id",  # noqa: S608
            (machine, kind) if kind else (machine,),
        )
        return [
            {"at": at, "kind": kind, "text": text, "data": json.loads(data)}
            for at, kind, text, data in rows
        ]

    def close(self) -> None:
        """Close the file."""
        self.db.close()


def _damaged(error: sqlite3.DatabaseError) -> bool:
    """Tell whether the file is no database any more; a full disk, a lock or a lack of rights is no
    damage.
    """
    return not isinstance(error, sqlite3.OperationalError) or "malformed" in str(error)


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(os.path.abspath(path))


class _transaction:  # used like a function  # noqa: N801
    """All or nothing: begun at once, so that two writers wait for each other instead of failing at
    the end.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def __enter__(self) -> None:
        self.db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.db.execute("ROLLBACK" if kind else "COMMIT")
