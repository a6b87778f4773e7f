"""One run and the stored state: what is known before the judgement, and what is kept after it."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuscan.collectors import past
from gpuscan.engine import hold
from gpuscan.engine.case import rename_held
from gpuscan.engine.lifting import Proof, proves_health
from gpuscan.engine.proof import mark_unproven, proof_rows, unproven_notes
from gpuscan.engine.proposing import lifted_unproven, propose
from gpuscan.engine.report import Report
from gpuscan.errors import used_up
from gpuscan.model import Held, Node
from gpuscan.model.outcome import Action
from gpuscan.profile import Profile
from gpuscan.recording import Reading, Recording
from gpuscan.renderers.json_ import document
from gpuscan.renderers.proof import sentence
from gpuscan.state import begun, holds, last
from gpuscan.state.archive import Archive, DamagedArchive
from gpuscan.state.kept import keep_recording, recordings_in
from gpuscan.state.place import (
    PRIVATE_FOLDER,
    StateError,
    locked,
    make_folder,
    refuse_shared,
    set_aside,
    told,
)
from gpuscan.state.remembered import LISTS, NOTHING, declare, remember
from gpuscan.state.rows import Whose, document_of, fingerprint, parts_of, row_of


def proves(report: Report) -> bool:
    """Tell whether a report ends a swap."""
    return proves_health(report.conclusion, report.partial)


class Store:
    """The state of one machine in one folder. Whatever keeps it from being read or written is a
    trouble: it is reported, and the run goes on.

    *note* is the one of a run that scans this machine; *node* the folder in which root keeps the
    node's hold, where that counts besides.
    """

    def __init__(
        self,
        folder: str,
        owner: Whose,
        *,
        own: bool = True,
        note: begun.Note | None = None,
        live: bool = False,
        node: str = "",
        most_bytes: int = 0,
    ) -> None:
        self.folder, self.owner, self.note, self.live, self.node = folder, owner, note, live, node
        other = (
            ""
            if own
            else hashlib.sha256(owner.key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        )
        self.last = last.path_in(folder, other)
        self.troubles: list[str] = []
        self.is_stored = False
        self.swap_left = ""  # the ticket of the swap that is under way, once this run is stored
        self.wants_the_sel = False
        self._own, self._most_bytes = own, most_bytes
        self._archive: Archive | None = None
        self._before = holds.StoredHold()  # as read before the judgement
        self._lifted: tuple[Held, ...] = ()
        self._fingerprint = ""
        self._recording: Recording | None = None
        self._swap_done = False

    # Before the judgement.

    def add_past(self, recording: Recording, tried: Sequence[str], *, hold: bool = True) -> None:
        """Add the past to a recording as readings, so that a later judgement knows the same.

        Without *hold* the node is judged as if none stood: `verified` then says what becomes of it.
        """
        self._recording = recording
        self._open()
        self._fingerprint = fingerprint(recording)
        rows = self._past()
        now_s = self.owner.at_s
        self.wants_the_sel = any(
            fault["action"] == Action.POWER_CYCLE.value for fault in rows["faults"]
        )
        self._lifted = tuple(Held(**one) for one in rows["lifted"])
        rows["tried"] += [declare(work, now_s, rows["runs_at"]) for work in tried]
        for name in ("runs", *LISTS):
            recording.add(Reading(past.KEYS[name], rows[name], None, now_s))
        self._add_hold(recording, hold=hold)
        if past.SCOPE not in recording.scope:
            recording.scope += (past.SCOPE,)

    def declare(self, recording: Recording, work: str) -> None:
        """Add work that this run's command declares to the past of a recording, once."""
        rows = recording.get(past.KEYS["tried"])
        now_s = self.owner.at_s
        if isinstance(rows, list) and not any(
            row["work"] == work and row["at_s"] == now_s for row in rows
        ):
            rows = [*rows, declare(work, now_s, self._past()["runs_at"])]
            recording.add(Reading(past.KEYS["tried"], rows, None, now_s))

    def _open(self) -> None:
        for write in (True, False):
            try:
                refuse_shared(self.folder)
                if write:
                    make_folder(self.folder, PRIVATE_FOLDER if os.geteuid() else 0o755)
                most = {"most_bytes": self._most_bytes} if self._most_bytes else {}
                self._archive = Archive(self.folder, write=write, **most)
                break
            except OSError as error:
                self.troubles.append(f"{self.folder}: {told(error)}: nothing is stored")
            except StateError as error:
                if write or os.path.exists(os.path.join(self.folder, "history.sqlite")):
                    self.troubles.append(str(error))
        self._tell_set_aside()

    def _tell_set_aside(self) -> None:
        if self._archive and self._archive.set_aside:
            self.troubles.append(
                f"{self._archive.path}: damaged; set aside as {self._archive.set_aside}, a new one"
                " is begun"
            )

    def _past(self) -> dict[str, Any]:
        if self._archive is None:
            return {name: 0 if value == 0 else [] for name, value in NOTHING.items()}
        rows, troubles = remember(self._archive, self.owner)
        self.troubles += troubles
        return rows

    def _add_hold(self, recording: Recording, *, hold: bool) -> None:
        now_s = self.owner.at_s
        self._before = self._load()
        held, lacks = self._before.held, self._before.lacks
        try:
            refuse_shared(self.folder)
        except StateError as error:
            lacks += (str(error),)
        if self.node:
            ids = {**self.owner.ids, "boot_id": self.owner.boot_id}
            more, told = holds.of_root(self.node, ids)
            held, lacks = held + more, lacks + told
        self.troubles += lacks
        rows = [one._asdict() for one in held] if hold else []
        recording.add(Reading(past.KEYS["held"], rows, None, now_s))
        recording.add(Reading(past.KEYS["unread_holds"], list(lacks), None, now_s))

    def _load(self) -> holds.StoredHold:
        notes = begun.find(self.folder) if self._own else []
        return holds.load(self.last, notes, self._archive, self.owner.key)

    @property
    def unproven(self) -> tuple[Held, ...]:
        """Return what was held before the judgement, and what a run since the repair lifted though
        nothing exercised it.
        """
        return (*self._before.held, *self._lifted)

    def swap(self) -> dict[str, Any] | None:
        """Return the swap that is under way, None without one; raises StateError where that cannot
        be read.
        """
        found = last.read(self.last)
        return found["swap"] if found else None

    def recordings(self) -> list[str]:
        """Return the recordings kept of earlier boots, the newest first."""
        return recordings_in(self.folder, self.owner.boot_id)

    # After the judgement.

    def begin(
        self, report: Report, swap: dict[str, Any], reasons: Sequence[Held], source: str
    ) -> None:
        """Store the run that a swap begins with (*source*: `live`, or `replay` of a drill), the
        swap, and its hold; raises StateError where that cannot be kept.
        """
        held = hold.join_holds(report.held, reasons)
        with locked(self.folder):
            self._write_last(report._replace(held=held), swap)
            if self._archive:
                self._archive.note(
                    self.owner.key, self.owner.at_s, "swap-begin", swap["ticket"], swap
                )
            self._keep_run(report, source, ())
        self._close()

    def verified(
        self, report: Report, node: Node, profile: Profile, renamed: Mapping[str, str]
    ) -> Report:
        """Return the report of a swap's proof with the hold that stands after it.

        Only a pass lifts the hold of the parts that were worked on and ends the swap. A hold on
        other parts stands and fails the node. *renamed* maps old check ids to current ones.
        """
        self._swap_done = proves(report)
        before = rename_held(self._before.held, renamed)
        faults = rename_held(self.unproven, renamed)
        rows = proof_rows(node, report.results, faults)
        report = report._replace(proof=rows)
        if self._swap_done:
            proof = Proof(node, report.results, report.run, profile)
            held = hold.after_swap(before, report.changes, proof)
            results = (*report.results, *hold.results_of(held, report.results, node, report.run))
            marked = mark_unproven(node, rows, held, faults)
            notes = (*report.notes, *unproven_notes(marked))
            unproven = lifted_unproven(faults, marked) if self.live else ()
            proposed = propose(node, (), unproven)
            return report._replace(
                held=held, results=results, notes=notes, proof=marked, proposed=proposed
            )
        return report._replace(held=hold.join_holds(before, report.held))

    def keep(self, report: Report, source: str, tried: Sequence[str] = ()) -> None:
        """Store a run: what it holds in its own note, then last.json, then the archive; one that
        fails does not cost the others.
        """
        self._note_hold(report)
        try:
            with locked(self.folder):
                self.is_stored = self._guarded(lambda: self._keep_last(report, source))
                if self.is_stored:
                    self._guarded(lambda: self._end_notes(report))
                self._guarded(lambda: self._keep_run(report, source, tried))
        except StateError as error:
            self.troubles.append(f"{error}: this run is not stored")
        self._close()

    def note_command(self, told: str) -> None:
        """Add to the archive what became of the site's own command on this run's verdict."""
        self._open()
        self._guarded(
            lambda: self._on_archive(
                lambda archive: archive.note(self.owner.key, self.owner.at_s, "command", told)
            )
        )
        self._close()

    def _note_hold(self, report: Report) -> None:
        """Write what this run holds into its note, before anything that may fail or wait."""
        if self.note is None:
            return
        was = {hold.key_of(one): one.seen_s for one in self._before.held}
        found = [one for one in report.held if one.seen_s != was.get(hold.key_of(one))]
        if not found or all(one.of_root for one in found):
            return
        try:
            code = max(one.code for one in found)
            self.note = begun.record(self.note, code, holds.stored(found))
        except OSError as error:
            self.troubles.append(f"{self.note.path}: {told(error)}: not stored there")

    def _guarded(self, work: Callable[[], None]) -> bool:
        """Do one thing of several: what keeps it from being done is a trouble, whatever it is."""
        try:
            work()
        except StateError as error:
            self.troubles.append(f"{error}: not stored there")
        except Exception as error:  # noqa: BLE001 - no state may cost a verdict
            self.troubles.append(f"{self.folder}: {used_up(error) or repr(error)}: not stored")
        else:
            return True
        return False

    def _close(self) -> None:
        if self._archive:
            self._archive.close()

    def _keep_last(self, report: Report, source: str) -> None:
        """Write last.json, and end the swap that was proven."""
        swap = self.swap() if self._swap_done else None
        self._write_last(report, False if self._swap_done else None, live=source == "live")
        if swap and self._archive:
            self._archive.note(
                self.owner.key, self.owner.at_s, "swap-end", str(swap.get("ticket", "")), swap
            )

    def _write_last(
        self, report: Report, swap: dict[str, Any] | bool | None, *, live: bool = True
    ) -> None:
        """Write last.json. The hold is joined with the one that stands now; the verdict is the
        newest run's: of runs on this machine the one that ends last, whatever the clock says.

        *swap* is the one that begins, False where one ends, None where that stays as it is.
        """
        now = self._load()
        found = None if now.damaged else last.read(self.last)
        unread = list(now.unread)
        if now.damaged:
            aside = set_aside(self.last)
            self.troubles.append(f"{self.last}: damaged; set aside as {aside}")
            unread += [f"set aside as {aside}"] if now.lacks else []
        held = holds.merge(now, self._before.held, report.held)
        kept = (found["swap"] if found else None) if swap is None else swap or None
        self.swap_left = str(kept["ticket"]) if isinstance(kept, dict) else ""
        whole = document_of(report, self.owner, held, kept)
        if found and not live and found["at"] > self.owner.at_s:
            whole = {**found, **{name: whole[name] for name in ("hold", "asleep", "swap")}}
        whole["unread"] = unread
        lifts = {hold.key_of(one) for one in now.held} - {hold.key_of(one) for one in held}
        if lifts:  # the archive first: what only one of them has still stands
            self._note_change(now, held)
        make_folder(os.path.dirname(self.last), 0o755 if self._own else PRIVATE_FOLDER)
        last.write(self.folder, self.last, whole)
        if not lifts:
            self._note_change(now, held)

    def _note_change(self, now: holds.StoredHold, held: Sequence[Held]) -> None:
        """Note in the archive what is held from now on, where that changes."""
        if self._archive is None or holds.keys(held) == holds.keys(now.held) == holds.keys(
            self._before.held
        ):
            return
        code = max((one.code for one in held), default=0)
        text, rows = f"hold {code}" if held else "the hold is lifted", holds.stored(held)
        self._on_archive(lambda one: one.note(self.owner.key, self.owner.at_s, "hold", text, rows))

    def _end_notes(self, report: Report) -> None:
        """Remove this run's note, and those of dead runs that this one makes good for: what they
        held is in last.json, and the whole node was judged after them.
        """
        if not self._own or not self.live:
            return
        for note in begun.find(self.folder):
            mine = self.note is not None and note.path == self.note.path
            if mine or (not note.alive and (note.code or not report.run.limited_to)):
                begun.end(note)

    def _on_archive(self, work: Callable[[Archive], None]) -> None:
        """Write to the archive; a damaged one is set aside, and the new one is written to."""
        if self._archive is None:
            return
        try:
            work(self._archive)
        except DamagedArchive:
            self._archive.renew()
            self._tell_set_aside()
            work(self._archive)

    def _keep_run(self, report: Report, source: str, tried: Sequence[str]) -> None:
        def write(archive: Archive) -> None:
            for work in tried:
                archive.note(self.owner.key, self.owner.at_s, "tried", work)
            whole = document(report)
            for proof, data in zip(report.proof, whole.get("proof", ()), strict=True):
                if proof.seconds and source == "live":
                    archive.note(self.owner.key, self.owner.at_s, "proof", sentence(proof), data)
            row = row_of(report, self.owner, source, self._fingerprint)
            archive.keep(self.owner.key, row, whole, parts_of(report))

        whole = not report.run.limited_to and bool(self.owner.boot_id)
        if source == "live" and self._recording is not None and whole and self._archive:
            self._guarded(self._keep_recording)
        self._on_archive(write)

    def _keep_recording(self) -> None:
        if self._recording is not None:
            keep_recording(self._recording, self.folder, self.owner.boot_id)
