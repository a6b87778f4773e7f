"""What the archive drops: first what is old, then what is more than its size allows.

Never the last verdict and the hold (they are in last.json), nor events, nor the list of parts. No
clock is believed: a run is old beside most of the others, and the newest by the order in which
they were stored always stay.
"""

import sqlite3

DAY_S = 86400.0
KEEP_DAYS = 400.0  # a year of faults, and some weeks to ask for it
KEEP_PASSED_DAYS = 90.0
KEEP_NEWEST = 20
MOST_EVENTS = 10_000
MOST_AT_ONCE = 500  # runs: an archive of years is made smaller over several runs
FULL = 0.9  # of the size is left where it was exceeded, so that not every run prunes

OLD = "id <= (SELECT max(id) FROM runs) - ?"
# spared for what is asked of the past: the newest failure, and the parts of the newest whole pass
SPARED = (
    "id NOT IN (SELECT max(id) FROM runs WHERE exit_code >= 20 GROUP BY machine)"
    " AND id NOT IN (SELECT max(id) FROM runs WHERE exit_code = 0 AND full AND complete"
    " GROUP BY machine)"
)


def prune(db: sqlite3.Connection, most_bytes: int) -> None:
    """Drop what is too old, then what is too much, within a transaction."""
    _drop_old(db)
    _drop_events(db)
    _drop_excess(db, most_bytes)


def _drop_old(db: sqlite3.Connection) -> None:
    """Drop runs that are older than most others by more than they are kept for: one clock that was
    years ahead, or back, drops nothing.
    """
    (runs,) = db.execute("SELECT count(*) FROM runs").fetchone()
    middle = "SELECT at FROM runs ORDER BY at LIMIT 1 OFFSET ?"
    (now,) = db.execute(middle, (max(runs - 1, 0) // 2,)).fetchone() or (0.0,)
    if not isinstance(now, (int, float)):
        return
    old = f"DELETE FROM runs WHERE {OLD} AND {SPARED} AND at < ?"  # noqa: S608
    db.execute(old, (KEEP_NEWEST, now - KEEP_DAYS * DAY_S))
    db.execute(f"{old} AND exit_code = 0", (KEEP_NEWEST, now - KEEP_PASSED_DAYS * DAY_S))


def _drop_events(db: sqlite3.Connection) -> None:
    """Drop the oldest of very many events, but none that a hold may rest on."""
    db.execute(
        "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ? AND id NOT IN"
        " (SELECT max(id) FROM events WHERE kind = 'hold' GROUP BY machine)",
        (MOST_EVENTS,),
    )


def _drop_excess(db: sqlite3.Connection, most_bytes: int) -> None:
    """Drop the oldest runs, those that passed first, until the pages in use fit."""
    for failed in (False, True):
        used = _used_bytes(db)
        if used <= most_bytes:
            return
        (runs,) = db.execute("SELECT count(*) FROM runs").fetchone()
        excess = used - most_bytes * FULL
        many = min(int(excess / max(used / max(runs, 1), 1)) + 1, MOST_AT_ONCE)
        outcome = "" if failed else "AND exit_code = 0"
        db.execute(
            f"DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE {OLD} AND {SPARED}"  # noqa: S608
            f" {outcome} ORDER BY id LIMIT ?)",
            (KEEP_NEWEST, many),
        )


def shrink(db: sqlite3.Connection, most_bytes: int) -> None:
    """Give dropped pages back to the disk. A file that was begun without that is rewritten once
    more than half of it is free.
    """
    db.execute("PRAGMA incremental_vacuum")
    values = ("page_count", "freelist_count", "page_size")
    pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in values)
    if free > pages / 2 and pages * size > most_bytes:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("VACUUM")


def _used_bytes(db: sqlite3.Connection) -> int:
    values = ("page_count", "freelist_count", "page_size")
    pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in values)
    return int((pages - free) * size)
