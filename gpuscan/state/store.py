"""One run and the stored state: what is known before the judgement, and what is kept after it."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuscan.collectors import past
from gpuscan.engine import hold
from gpuscan.engine.case import rename_held
from gpuscan.engine.lifting import Proof, proves_health
from gpuscan.engine.report import Report
from gpuscan.errors import GpuscanError
from gpuscan.model import Held, Node, Unread
from gpuscan.model.outcome import Action
from gpuscan.profile import Profile
from gpuscan.recording import Reading, Recording, save
from gpuscan.renderers.json_ import document
from gpuscan.state import last
from gpuscan.state.archive import BACK_DAYS, DAY_S, Archive
from gpuscan.state.place import StateError, locked, replace, set_aside
from gpuscan.state.rows import Whose, document_of, fingerprint, identify, parts_of, row_of

KEEP_BOOTS = 3  # recordings of earlier boots


def proves(report: Report) -> bool:
    """Tell whether a report ends a swap."""
    return proves_health(report.conclusion, report.run)


class Store:
    """The state of one machine in one folder. Whatever keeps it from being read or written is a
    trouble: it is reported, and the run goes on.
    """

    def __init__(self, folder: str, owner: Whose, *, own: bool = True) -> None:
        self.folder, self.owner = folder, owner
        other = (
            ""
            if own
            else hashlib.sha256(owner.key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        )
        self.last = last.path_in(folder, other)
        self.troubles: list[str] = []
        self._archive: Archive | None = None
        self._held: list[Held] = []  # as read before the judgement
        self._fingerprint = ""
        self._recording: Recording | None = None
        self._swap_done = False
        self.wants_the_sel = False
        self._damaged = False

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
        rows["tried"] += [_declared(work, now_s, rows["runs_at"]) for work in tried]
        for name in NOTHING:
            recording.add(Reading(past.KEYS[name], rows[name], None, now_s))
        held = self._hold_reading(now_s)
        recording.add(held if hold or held.error is not None else held._replace(value=[]))
        if past.SCOPE not in recording.scope:
            recording.scope += (past.SCOPE,)

    def declare(self, recording: Recording, work: str) -> None:
        """Add work that this run's command declares to the past of a recording, once."""
        rows = recording.get(past.KEYS["tried"])
        now_s = self.owner.at_s
        if isinstance(rows, list) and not any(
            row["work"] == work and row["at_s"] == now_s for row in rows
        ):
            runs_at = self._past()["runs_at"]
            rows = [*rows, _declared(work, now_s, runs_at)]
            recording.add(Reading(past.KEYS["tried"], rows, None, now_s))

    def _open(self) -> None:
        for write in (True, False):
            try:
                if write:
                    os.makedirs(self.folder, mode=0o755, exist_ok=True)
                self._archive = Archive(self.folder, write=write)
                break
            except OSError as error:
                self.troubles.append(f"{self.folder}: {error.strerror or error}: nothing is stored")
            except StateError as error:
                if write or os.path.exists(os.path.join(self.folder, "history.sqlite")):
                    self.troubles.append(str(error))
        if self._archive and self._archive.set_aside:
            self.troubles.append(
                f"{self._archive.path}: damaged; set aside as {self._archive.set_aside}, a new one"
                " is begun"
            )

    def _past(self) -> dict[str, Any]:
        try:
            if self._archive:
                return _past_of(self._archive, self.owner)
        except StateError as error:
            self.troubles.append(str(error))
        return {**NOTHING, "tried": [], "runs_at": []}

    def _hold_reading(self, now_s: float) -> Reading:
        key = past.KEYS["held"]
        try:
            reasons = self._reasons()
            self._held = [Held(**reason) for reason in reasons]
        except (StateError, TypeError) as error:
            self.troubles.append(str(error))
            text = f"what was held is not known ({error}); gpuscan clear --reason starts over"
            return Reading(key, None, Unread(key, "garbled", text), now_s)
        return Reading(key, reasons, None, now_s)

    def _reasons(self) -> list[dict[str, Any]]:
        """Return the reasons of the hold: from last.json, or from the archive where that is
        damaged or gone.
        """
        try:
            found = last.read(self.last)
            if found is not None:
                return last.reasons_in(found)
        except last.Damaged:
            self._damaged = True
        events = self._archive.events(self.owner.key, "hold") if self._archive else []
        if events:
            return list(events[-1]["data"])
        if self._damaged:
            raise StateError(f"{self.last}: damaged, and the archive does not know it either")
        return []

    def swap(self) -> dict[str, Any] | None:
        """Return the swap that is under way, None without one; raises StateError where that cannot
        be read.
        """
        found = last.read(self.last)
        return found["swap"] if found else None

    def recordings(self) -> list[str]:
        """Return the recordings kept of earlier boots, the newest first."""
        folder = os.path.join(self.folder, "recordings")
        try:
            files = [
                os.path.join(folder, name)
                for name in os.listdir(folder)
                if not name.startswith(f"{self.owner.boot_id}.")
            ]
        except OSError:
            return []
        return sorted(
            (file for file in files if file.endswith(".json.gz")),
            key=os.path.getmtime,
            reverse=True,
        )

    # After the judgement.

    def begin(self, report: Report, swap: dict[str, Any], reasons: Sequence[Held]) -> None:
        """Store the run that a swap begins with, the swap, and its hold; raises StateError where
        that cannot be kept.
        """
        held = hold.join_holds(report.held, reasons)
        with locked(self.folder):
            self._write_last(report._replace(held=held), swap)
            if self._archive:
                self._archive.note(
                    self.owner.key, self.owner.at_s, "swap-begin", swap["ticket"], swap
                )
            self._keep_run(report, "live", ())
        self._close()

    def verified(
        self, report: Report, node: Node, profile: Profile, renamed: Mapping[str, str]
    ) -> Report:
        """Return the report of a swap's proof with the hold that stands after it.

        Only a pass lifts the hold of the parts that were worked on and ends the swap. A hold on
        other parts stands and fails the node. *renamed* maps old check ids to current ones.
        """
        self._swap_done = proves(report)
        before = rename_held(self._held, renamed)
        if self._swap_done:
            proof = Proof(node, report.results, report.run, profile)
            held = hold.after_swap(before, report.changes, proof)
            results = (*report.results, *hold.results_of(held, report.results, node, report.run))
            return report._replace(held=held, results=results)
        return report._replace(held=hold.join_holds(before, report.held))

    def keep(self, report: Report, source: str, tried: Sequence[str] = ()) -> None:
        """Store a run: last.json first, for the hold is in it, then the archive; one that fails
        does not cost the other.
        """
        try:
            with locked(self.folder):
                steps: tuple[Callable[[], None], ...] = (
                    lambda: self._keep_last(report),
                    lambda: self._keep_run(report, source, tried),
                )
                for step in steps:
                    try:
                        step()
                    except StateError as error:
                        self.troubles.append(f"{error}: not stored there")
        except StateError as error:
            self.troubles.append(f"{error}: this run is not stored")
        self._close()

    def _close(self) -> None:
        if self._archive:
            self._archive.close()

    def _keep_last(self, report: Report) -> None:
        """Write last.json, and end the swap that was proven."""
        swap = self.swap() if self._swap_done else None
        self._write_last(report, False if self._swap_done else None)
        if swap and self._archive:
            self._archive.note(
                self.owner.key, self.owner.at_s, "swap-end", str(swap.get("ticket", "")), swap
            )

    def _write_last(self, report: Report, swap: dict[str, Any] | bool | None) -> None:
        """Write last.json, unless a later run wrote it; what others set or cleared stands.

        *swap* is the one that begins, False where one ends, None where that stays as it is.
        """
        if self._damaged and (
            self._held or (self._archive and self._archive.events(self.owner.key, "hold"))
        ):
            self.troubles.append(f"{self.last}: damaged; set aside as {set_aside(self.last)}")
        now = last.read(self.last)
        if now is not None and now["at"] > self.owner.at_s:
            return
        held = _merged(_held_in(now) if now else self._held, self._held, report.held)
        os.makedirs(os.path.dirname(self.last), exist_ok=True)
        kept = (now["swap"] if now else None) if swap is None else swap or None
        replace(self.last, document_of(report, self.owner, held, kept))
        if self._archive and _keys(held) != _keys(self._held):
            codes = max((one.code for one in held), default=0)
            self._archive.note(
                self.owner.key,
                self.owner.at_s,
                "hold",
                f"hold {codes}" if held else "the hold is lifted",
                [h._asdict() for h in held],
            )

    def _keep_run(self, report: Report, source: str, tried: Sequence[str]) -> None:
        if self._archive is None:
            return
        for work in tried:
            self._archive.note(self.owner.key, self.owner.at_s, "tried", work)
        if source == "live" and self._recording is not None:
            self._keep_recording(self._recording, report)
        row = row_of(report, self.owner, source, self._fingerprint)
        self._archive.keep(self.owner.key, row, document(report), parts_of(report))

    def _keep_recording(self, recording: Recording, report: Report) -> None:
        """Keep this boot's newest recording of the whole node, and those of a few boots before: a
        swap is compared with them.
        """
        if report.run.limited_to or not self.owner.boot_id:
            return
        folder = os.path.join(self.folder, "recordings")
        try:
            os.makedirs(folder, exist_ok=True)
            save(recording, os.path.join(folder, f"{self.owner.boot_id}.json.gz"))
            for old in self.recordings()[KEEP_BOOTS:]:
                os.unlink(old)
        except (OSError, GpuscanError) as error:
            raise StateError(*error.args) from None


LISTS = ("faults", "tried", "boots", "parts", "ports", "measured", "present")
NOTHING: dict[str, Any] = {"runs": 0, **{name: [] for name in LISTS}}
PAGES = "retired_pages.double_bit"  # the only measurement whose past is judged
WEEK_DAYS = 7


def _past_of(archive: Archive, owner: Whose) -> dict[str, Any]:
    since_s = owner.at_s - BACK_DAYS * DAY_S
    tried = [
        event for event in archive.events(owner.key, "tried") if since_s <= event["at"] < owner.at_s
    ]
    pages = archive.measured(owner.key, PAGES, owner.at_s - WEEK_DAYS * DAY_S, owner.at_s)
    runs_at = [run["at"] for run in archive.verdicts(owner.key, since_s, owner.at_s)]
    return {
        "runs": archive.count_runs(owner.key, owner.at_s),
        "runs_at": runs_at,
        "faults": archive.faults(owner.key, since_s, owner.at_s, history=True),
        "tried": [_declared(event["text"], event["at"], runs_at) for event in tried],
        "boots": archive.boots(owner.key, since_s, owner.at_s),
        "parts": archive.parts(owner.key, owner.at_s),
        "ports": archive.ports(owner.key, since_s, owner.at_s),
        "measured": [row for row in pages if row["value"]],
        "present": _present(archive, owner),
    }


def _present(archive: Archive, owner: Whose) -> list[dict[str, Any]]:
    """Return the parts of the newest passing run of the whole node, as `model.Seen` names them."""
    run = archive.newest_whole_pass(owner.key, owner.at_s)
    if run is None:
        return []
    return [{**row, "first_s": run["at"], "last_s": run["at"]} for row in identify(run["parts"])]


def _declared(work: str, at_s: float, runs_at: Sequence[float]) -> dict[str, Any]:
    """Return declared work as the recording holds it: it was done since the run before."""
    after_s = max((run_s for run_s in runs_at if run_s < at_s), default=0.0)
    return {"work": work, "at_s": at_s, "source": "--tried", "after_s": after_s}


def _held_in(found: dict[str, Any]) -> list[Held]:
    try:
        return [Held(**reason) for reason in last.reasons_in(found)]
    except TypeError:
        raise StateError("last.json: damaged: its hold makes no sense") from None


def _keys(held: Sequence[Held]) -> set[tuple[Any, ...]]:
    return {(*hold.key_of(one), one.code, one.asleep) for one in held}


def _merged(now: Sequence[Held], before: Sequence[Held], after: Sequence[Held]) -> list[Held]:
    """Join a hold as it is now with what a run makes of the one that it had read: it may have
    changed meanwhile.

    What the run lifted goes, what it found comes, what others set stays, and what others cleared
    does not come back.
    """
    key_of = hold.key_of
    was, becomes = {key_of(one): one for one in before}, {key_of(one): one for one in after}
    held = {key_of(one): one for one in now if key_of(one) not in was or key_of(one) in becomes}
    fresh = {
        key: one
        for key, one in becomes.items()
        if key in held or key not in was or one.seen_s > was[key].seen_s
    }
    return sorted({**held, **fresh}.values(), key=lambda one: (-one.code, one.since_s))
