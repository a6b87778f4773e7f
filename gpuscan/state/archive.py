"""The archive: runs, findings, measurements, parts and events of each machine, in SQLite.

All SQL of gpuscan is in this module. SQLite's write-ahead log keeps the archive through a crash.
"""

import json
import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from gpuscan.files import PRIVATE, open_own
from gpuscan.state.place import StateError, set_aside
from gpuscan.state.pruning import prune, shrink
from gpuscan.state.sanity import sane_rows

FILE = "history.sqlite"
VERSION = 1
BUSY_S = 5.0
DAY_S = 86400.0
BACK_DAYS = 90.0  # how far a run looks back for faults that may have returned
MOST_FAULTS = 500
MOST_BYTES = 256 << 20  # some eight thousand runs
MOST_REPORT = 64 << 20  # of one run, unpacked: eight GPUs take half a megabyte
BROKEN = (sqlite3.Error, sqlite3.Warning, OverflowError, ValueError)
FOREIGN = ("malformed", "no such column", "no such table", "has no column")

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, machine TEXT NOT NULL,
    hostname TEXT NOT NULL, boot_id TEXT NOT NULL, at REAL NOT NULL, source TEXT NOT NULL,
    verdict TEXT NOT NULL, exit_code INTEGER NOT NULL, complete INTEGER NOT NULL,
    action TEXT NOT NULL, profile TEXT NOT NULL, level TEXT NOT NULL, full INTEGER NOT NULL,
    headline TEXT NOT NULL, report BLOB);
CREATE INDEX IF NOT EXISTS runs_of ON runs (machine, at);
CREATE TABLE IF NOT EXISTS findings (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, check_id TEXT NOT NULL,
    subject TEXT NOT NULL, serial TEXT NOT NULL, severity TEXT NOT NULL, action TEXT NOT NULL,
    same TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS findings_of ON findings (run);
CREATE TABLE IF NOT EXISTS measurements (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL,
    subject TEXT NOT NULL, value REAL NOT NULL, unit TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS measurements_of ON measurements (run);
CREATE TABLE IF NOT EXISTS parts (
    machine TEXT NOT NULL, kind TEXT NOT NULL, slot TEXT NOT NULL, address TEXT NOT NULL,
    serial TEXT NOT NULL, part_number TEXT NOT NULL, first_at REAL NOT NULL,
    last_at REAL NOT NULL, UNIQUE (machine, kind, slot, serial));
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, machine TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    text TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_of ON events (machine, at);
"""

RUN_COLUMNS = (
    "uuid", "machine", "hostname", "boot_id", "at", "source", "verdict", "exit_code", "complete",
    "action", "profile", "level", "full", "headline",
)  # fmt: skip
PORT_COUNTERS = {"link_downed.total": "link_downed", "symbol_errors.total": "symbol_errors"}
NO_COUNTERS = dict.fromkeys(PORT_COUNTERS.values(), -1)
T = TypeVar("T")
Row = dict[str, Any]


class DamagedArchive(StateError):
    """The file is no whole database any more."""


class Archive:
    """One open archive; every method raises StateError for what the disk or the file does.

    Rows that make no sense are left out, and counted in *nonsense*. Its size is bounded by
    *most_bytes* (of the pages in use).
    """

    def __init__(self, folder: str, *, write: bool, most_bytes: int = MOST_BYTES) -> None:
        self.path = os.path.join(folder, FILE)
        self.set_aside, self.nonsense, self.most_bytes = "", 0, most_bytes
        if not write and not os.path.lexists(self.path):
            raise StateError(f"{self.path}: no archive yet: gpuscan run creates one")
        _only_ours(self.path, write=write)
        try:
            self.db = self._open(write)
        except BROKEN as error:
            if not write or not _is_damage(error):
                raise StateError(f"{self.path}: {_reason(error)}") from None
            self._set_aside_damaged()
            _only_ours(self.path, write=True)
            self.db = self._guarded(lambda: self._open(write))
        self._inode = _inode(self.path)

    def _open(self, write: bool) -> sqlite3.Connection:
        uri = f"file:{_quote(self.path)}?mode={'rwc' if write else 'ro'}"
        db = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            db.close()
            raise StateError(
                f"{self.path}: written by a newer gpuscan (format {version}), left untouched:"
                " update gpuscan"
            )
        db.row_factory = sqlite3.Row
        db.text_factory = _decode
        if write:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA foreign_keys = ON")
            if version < VERSION:
                db.executescript(
                    f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;"
                )
        return db

    def renew(self) -> None:
        """Set a damaged file aside and begin a new one, under the lock; raises StateError.

        Not where another run has done so meanwhile.
        """
        self.db.close()
        if self._inode == _inode(self.path):
            self._set_aside_damaged()
            _only_ours(self.path, write=True)
        self.db = self._guarded(lambda: self._open(write=True))

    def _set_aside_damaged(self) -> None:
        """Rename the damaged file; its write-ahead log would damage the new one."""
        self.set_aside = set_aside(self.path)
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.rename(self.path + suffix, self.set_aside + suffix)

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except BROKEN as error:
            kind = DamagedArchive if _is_damage(error) else StateError
            raise kind(f"{self.path}: {_reason(error)}") from None

    def _query(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        rows = self._guarded(lambda: self.db.execute(query, values).fetchall())
        sane = sane_rows(rows)
        self.nonsense += len(rows) - len(sane)
        return sane

    def _unpack(self, blob: bytes | None) -> Row | None:
        """Return a stored report, None where none was kept."""
        if not blob:
            return None
        try:
            unpacking = zlib.decompressobj()
            report = json.loads(unpacking.decompress(blob, MOST_REPORT))
        except (zlib.error, ValueError, RecursionError) as error:
            raise StateError(f"{self.path}: a report in it is damaged: {error}") from None
        if not isinstance(report, dict):
            raise StateError(f"{self.path}: a report in it is damaged: it is no JSON object")
        return report

    # Writing.

    def keep(self, machine: str, run: Row, report: Row, parts: Iterable[Row]) -> None:
        """Add a run with its findings, measurements and parts, and drop what is too old.

        One transaction. A run whose uuid is stored already is not added twice.
        """

        def work() -> None:
            with _transaction(self.db):
                self._add_run(machine, run, report)
                for part in parts:
                    self._add_part(machine, part, run["at"])
                prune(self.db, self.most_bytes)
            with suppress(sqlite3.Error):  # the run is stored; a full disk cannot be tidied
                shrink(self.db, self.most_bytes)

        self._guarded(work)

    def _add_run(self, machine: str, run: Row, report: Row) -> None:
        blob = zlib.compress(json.dumps(report, default=str).encode("ascii", "backslashreplace"))
        values = {**run, "machine": machine}
        marks = ", ".join("?" * (len(RUN_COLUMNS) + 1))
        columns = ", ".join(RUN_COLUMNS)  # our own constants, never input
        cursor = self.db.execute(
            f"INSERT OR IGNORE INTO runs ({columns}, report) VALUES ({marks})",  # noqa: S608
            (*(values[name] for name in RUN_COLUMNS), blob),
        )
        if not cursor.rowcount:
            return  # imported twice
        number = cursor.lastrowid
        found = ("check", "subject", "serial", "severity", "action", "same", "message")
        self.db.executemany(
            "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(number, *(row[name] for name in found)) for row in run["findings"]],
        )
        measured = ("name", "subject", "value", "unit")
        self.db.executemany(
            "INSERT INTO measurements VALUES (?, ?, ?, ?, ?)",
            [(number, *(row[name] for name in measured)) for row in report.get("measurements", ())],
        )

    def _add_part(self, machine: str, part: Row, at: float) -> None:
        columns = ("kind", "slot", "address", "serial", "part_number")
        self.db.execute(
            "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (machine, kind, slot, serial) DO UPDATE SET"
            " first_at = min(first_at, excluded.first_at),"
            " last_at = max(last_at, excluded.last_at),"
            " address = excluded.address, part_number = excluded.part_number",
            (machine, *(part[name] for name in columns), at, at),
        )

    def note(self, machine: str, at: float, kind: str, text: str, data: Any = None) -> None:
        """Add an event: work that was tried, a hold set or lifted, a swap begun or ended."""
        values = (machine, at, kind, text, json.dumps(data))
        self._guarded(
            lambda: self.db.execute(
                "INSERT INTO events (machine, at, kind, text, data) VALUES (?, ?, ?, ?, ?)", values
            )
        )

    # Reading.

    def runs(self, since_s: float) -> list[Row]:
        """Return the runs of all machines from *since_s* on, newest first, with their findings."""
        columns = ", ".join(RUN_COLUMNS)  # our own constants, never input
        query = f"SELECT id, {columns} FROM runs WHERE at >= ? ORDER BY at DESC"  # noqa: S608
        rows = self._query(query, (since_s,))
        return [{**row, "findings": self._findings(row.pop("id"))} for row in rows]

    def _findings(self, run: int) -> list[Row]:
        return self._query(
            "SELECT check_id, subject, serial, severity, action, message FROM findings"
            " WHERE run = ?",
            (run,),
        )

    def reports(self, since_s: float) -> Iterator[Row]:
        """Yield {uuid, machine, report} of each run from *since_s* on, oldest first; without those
        whose report is damaged.
        """
        query = "SELECT uuid, machine, report FROM runs WHERE at >= ? ORDER BY at"
        for row in self._query(query, (since_s,)):
            try:
                yield {**row, "report": self._unpack(row["report"])}
            except StateError:
                self.nonsense += 1

    def newest_failing(self, least_code: int) -> Row | None:
        """Return {machine, at, report} of the newest run that ended with *least_code* or above."""
        rows = self._query(
            "SELECT machine, at, report FROM runs WHERE exit_code >= ? AND report IS NOT NULL"
            " ORDER BY at DESC LIMIT 1",
            (least_code,),
        )
        return {**rows[0], "report": self._unpack(rows[0]["report"])} if rows else None

    def newest_whole_pass(self, machine: str, until_s: float) -> Row | None:
        """Return {at, parts} of a machine's newest passing run of the whole node; None without one,
        or where a swap was proven or a hold cleared since: other parts may be in the node.
        """
        rows = self._query(
            "SELECT at, report FROM runs WHERE machine = ? AND at < ? AND full AND complete"
            " AND exit_code = 0 AND report IS NOT NULL AND NOT EXISTS (SELECT 1 FROM events"
            " WHERE events.machine = runs.machine AND kind IN ('swap-end', 'clear')"
            " AND events.at > runs.at AND events.at < ?) ORDER BY at DESC LIMIT 1",
            (machine, until_s, until_s),
        )
        report = self._unpack(rows[0]["report"]) if rows else None
        return {"at": rows[0]["at"], "parts": report["parts"]} if report else None

    def count_runs(self, machine: str, until_s: float) -> int:
        """Return how many runs of a machine are older than *until_s*."""
        query = "SELECT count(*) AS runs FROM runs WHERE machine = ? AND at < ?"
        return int(self._query(query, (machine, until_s))[0]["runs"])

    def verdicts(self, machine: str, since_s: float, until_s: float) -> list[Row]:
        """Return {at, boot_id, exit_code, verdict, level} of a machine's runs, oldest first."""
        return self._query(
            "SELECT at, boot_id, exit_code, verdict, level FROM runs"
            " WHERE machine = ? AND at >= ? AND at <= ? ORDER BY at",
            (machine, since_s, until_s),
        )

    def faults(
        self, machine: str, since_s: float, until_s: float, *, history: bool = False
    ) -> list[Row]:
        """Return a machine's newest MOST_FAULTS failures, oldest first, named as in
        `model.Fault`; with *history* also the logged faults that only warned, as their cause was
        gone.
        """
        rows = self._query(
            'SELECT check_id AS "check", subject, serial, same, findings.action, at AS at_s,'
            " boot_id, message FROM findings JOIN runs ON run = runs.id"
            " WHERE machine = ? AND at >= ? AND at < ?"
            " AND (severity = 'fail' OR (? AND severity = 'warn' AND same != ''))"
            " ORDER BY at DESC LIMIT ?",
            (machine, since_s, until_s, history, MOST_FAULTS),
        )
        return rows[::-1]

    def measured(self, machine: str, name: str, since_s: float, until_s: float) -> list[Row]:
        """Return what runs of a machine measured under *name*, named as in `model.Measured`."""
        return self._query(
            "SELECT name, subject, value, at AS at_s FROM measurements JOIN runs ON run = runs.id"
            " WHERE machine = ? AND name = ? AND at >= ? AND at < ? ORDER BY at",
            (machine, name, since_s, until_s),
        )

    def burn_ins(self, machine: str, since_s: float, until_s: float) -> list[Row]:
        """Return what the tests of burn-ins measured, as `measured` does: what each compared, found
        wrong, took, and how hot it was.
        """
        names = ("operations", "mismatches", "seconds", "core_c")
        rows = [self.measured(machine, f"burnin.{name}", since_s, until_s) for name in names]
        return [row for each in rows for row in each]

    def boots(self, machine: str, since_s: float, until_s: float) -> list[Row]:
        """Return each boot that runs saw, with the first, the last and the last complete one."""
        return self._query(
            "SELECT boot_id, min(at) AS first_s, max(at) AS last_s,"
            " max(CASE WHEN complete AND full THEN at ELSE 0.0 END) AS complete_s FROM runs"
            " WHERE machine = ? AND at >= ? AND at < ? GROUP BY boot_id",
            (machine, since_s, until_s),
        )

    def parts(self, machine: str, until_s: float) -> list[Row]:
        """Return the parts seen in a machine before *until_s*; the last of a slot is the newest."""
        return self._query(
            "SELECT kind, slot, address, serial, part_number, first_at AS first_s,"
            " last_at AS last_s FROM parts WHERE machine = ? AND first_at < ? ORDER BY last_at",
            (machine, until_s),
        )

    def ports(self, machine: str, since_s: float, until_s: float) -> list[Row]:
        """Return each port that runs measured, named as in `model.PortSeen`: its best rate, and the
        counters of the newest run.
        """
        rows = self._query(
            "SELECT subject, name, max(value) AS most, at, boot_id FROM measurements"
            " JOIN runs ON run = runs.id WHERE machine = ? AND at >= ? AND at < ?"
            " AND subject LIKE 'port:%' GROUP BY subject, name, run ORDER BY at",
            (machine, since_s, until_s),
        )
        ports: dict[str, Row] = {}
        for row in rows:
            label = row["subject"].partition(":")[2]
            one = ports.setdefault(label, {"label": label, "best_gbps": 0.0, **NO_COUNTERS})
            if row["name"] == "rate_gbps":
                one["best_gbps"] = max(one["best_gbps"], row["most"])
            elif row["name"] in PORT_COUNTERS:
                one[PORT_COUNTERS[row["name"]]] = int(row["most"])
            one["at_s"], one["boot_id"] = row["at"], row["boot_id"]
        return list(ports.values())

    def events(self, machine: str, kind: str = "") -> list[Row]:
        """Return a machine's events in the order in which they were stored, whatever the clock
        said; all kinds unless one is named. *data* is None where it makes no sense.
        """
        rows = self._query(
            "SELECT at, kind, text, data FROM events"
            " WHERE machine = ? AND (kind = ? OR ? = '') ORDER BY id",
            (machine, kind, kind),
        )
        return [{**row, "data": _parsed(row["data"])} for row in rows]

    def proofs(self, since_s: float) -> list[Row]:
        """Return {machine, at, data} of the proofs on all machines from *since_s* on, in order."""
        rows = self._query(
            "SELECT machine, at, data FROM events WHERE kind = 'proof' AND at >= ? ORDER BY id",
            (since_s,),
        )
        return [{**row, "data": _parsed(row["data"])} for row in rows]

    def all_parts(self, since_s: float) -> list[Row]:
        """Return every column of the parts of all machines that were seen since."""
        return self._query("SELECT * FROM parts WHERE last_at >= ?", (since_s,))

    def all_events(self, since_s: float) -> list[Row]:
        """Return every column of the events of all machines since."""
        return self._query("SELECT * FROM events WHERE at >= ?", (since_s,))

    def footprint(self) -> Row:
        """Return {bytes, runs, since_s}: what the archive takes, and from when it has runs."""
        (row,) = self._query("SELECT count(*) AS runs, coalesce(min(at), 0.0) AS since_s FROM runs")
        return {"bytes": sum(_size(self.path + suffix) for suffix in ("", "-wal")), **row}

    def close(self) -> None:
        """Close the file."""
        self.db.close()


def _is_damage(error: Exception) -> bool:
    """Return whether the file is not an archive any more: a full disk or a lock is no damage, and a
    message that is no text names what is damaged in the file.
    """
    if isinstance(error, sqlite3.OperationalError):
        return any(words in str(error) for words in FOREIGN)
    return isinstance(error, (sqlite3.DatabaseError, UnicodeDecodeError))


def _reason(error: Exception) -> str:
    return "damaged: no text" if isinstance(error, UnicodeDecodeError) else str(error)


def _only_ours(path: str, *, write: bool) -> None:
    """See that the archive is a regular file, for nobody else to read; raises StateError.

    It is created here, as SQLite would let the umask say who may read it.
    """
    try:
        if write and not os.path.lexists(path):
            with suppress(FileExistsError):
                os.close(open_own(path, os.O_CREAT | os.O_EXCL))
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise StateError(f"{path}: is not a regular file")
        for each in (path, f"{path}-wal", f"{path}-shm") if write else ():
            with suppress(FileNotFoundError):
                if os.lstat(each).st_mode & 0o077:
                    os.chmod(each, PRIVATE, follow_symlinks=False)
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise StateError(f"{path}: {why}") from None


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _quote(path: str) -> str:
    from urllib.parse import quote

    return quote(os.path.abspath(path))


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Begin at once, so that two writers wait for each other instead of failing at the end."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
