"""Notes of runs that have begun, beside last.json: what a run that ended badly, or could not be
stored, leaves behind.

A run writes its note before it scans and removes it once it is stored. A note without its process
says that a run ended without a word: the verdict before it counts no more. What a run holds is
written into its own note first, into space that was reserved: neither a lock, a full disk nor a
kill at any moment costs it.
"""

import contextlib
import hashlib
import json
import os
from typing import Any, NamedTuple

from gpuscan.files import open_own, sync_folder
from gpuscan.state.place import (
    PRIVATE_FOLDER,
    PUBLIC_FOLDER,
    StateError,
    make_folder,
    read_file,
    refuse_shared,
)
from gpuscan.state.whoami import find_start, this_machine

PREFIX = "run-"
RESERVED_BYTES = 1 << 16


class Note(NamedTuple):
    """One run's note: *code* is the exit code of what it holds, 0 for one that holds nothing;
    *at_s* when it began, or was last written; *alive*: its process still runs.
    """

    path: str
    code: int
    at_s: float
    alive: bool


def begin(folder: str) -> Note | None:
    """Note in *folder* that a run begins, else in /run; None where neither can be written."""
    name = f"{PREFIX}{_boot()}-{os.getpid()}-{find_start(os.getpid())}"
    for place, start in ((folder, ""), (_runtime(), f"{_key(folder)}-")):
        try:
            if not place:
                continue
            make_folder(place, PUBLIC_FOLDER if os.geteuid() == 0 else PRIVATE_FOLDER)
            refuse_shared(place)
            path = os.path.join(place, start + name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            descriptor = open_own(path, os.O_CREAT | os.O_EXCL)
        except (OSError, StateError):
            continue
        try:
            with contextlib.suppress(OSError):
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
                os.fsync(descriptor)
                sync_folder(path)
        finally:
            os.close(descriptor)
        return Note(path, 0, 0.0, True)
    return None


def record(note: Note, code: int, reasons: list[dict[str, Any]]) -> Note:
    """Write into a note what its run holds, and its exit code into the note's name; raises OSError
    where that is not possible.
    """
    data = json.dumps(reasons).encode("ascii") + b"\n"
    with (
        contextlib.suppress(OSError),  # the code is told even if the parts cannot be
        os.fdopen(open_own(note.path), "wb") as file,
    ):
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    path = f"{note.path}.{code}"
    os.rename(note.path, path)
    with contextlib.suppress(OSError):
        sync_folder(path)
    return note._replace(path=path, code=code)


def read(note: Note) -> list[Any] | None:
    """Return the reasons that a note holds, as they were written; None where they make no sense."""
    try:
        found = read_file(note.path)
        line = found.bytes.partition(b"\n")[0] if found and not found.shared else b""
        reasons = json.loads(line)
    except (StateError, ValueError, RecursionError):
        return None
    return reasons if isinstance(reasons, list) and reasons else None


def end(note: Note) -> None:
    """Remove the note of a run that is stored, or that came to nothing; raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(note.path)


def find(folder: str) -> list[Note]:
    """Return the notes of *folder*; none where it cannot be listed."""
    notes = []
    for place, start in ((folder, ""), (_runtime(), f"{_key(folder)}-")):
        try:
            names = os.listdir(place) if place else []
        except OSError:
            continue
        notes += [_note(place, name) for name in sorted(names) if name.startswith(start + PREFIX)]
    return notes


def _note(place: str, name: str) -> Note:
    path = os.path.join(place, name)
    words, _, code = name[name.index(PREFIX) + len(PREFIX) :].partition(".")
    boot, _, process = words.partition("-")
    pid, _, started = process.partition("-")
    try:
        at_s = os.lstat(path).st_mtime
    except OSError:
        at_s = 0.0
    alive = boot == _boot() and pid.isdecimal() and started == find_start(int(pid))
    return Note(path, int(code) if code.isdecimal() and len(code) < 4 else 0, at_s, alive)


def _key(folder: str) -> str:
    return hashlib.sha256(os.path.realpath(folder).encode("utf-8", "surrogateescape")).hexdigest()[
        :16
    ]


def _runtime() -> str:
    """Return a folder in memory: this user's own, which a boot empties; empty where there is
    none.
    """
    if os.geteuid() == 0:
        return "/run/gpuscan" if os.path.isdir("/run") else ""
    own = f"/run/user/{os.geteuid()}"
    return os.path.join(own, "gpuscan") if os.path.isdir(own) else ""


def _boot() -> str:
    """Return the start of this boot's id, of the process and whatever root is scanned."""
    return this_machine()["boot_id"].partition("-")[0] or "0"
