"""What the state says to people and programs: runs, faults by part, the hold; and how a hold is
cleared.
"""

import json
import time
import zlib
from collections.abc import Iterator
from typing import Any

from gpuscan.durations import parse_duration
from gpuscan.engine.hold import lifted_by
from gpuscan.errors import UsageError
from gpuscan.incidents.sentences import moment
from gpuscan.state import last
from gpuscan.state.archive import Archive
from gpuscan.state.place import StateError, locked, replace, set_aside, state_dir
from gpuscan.state.whoami import this_machine
from gpuscan.text import printable

COLUMNS = ("at", "hostname", "exit_code", "verdict", "profile", "headline")


def opened(named: str) -> Archive:
    """Open the archive for reading; raises StateError where there is none or it cannot be read."""
    return Archive(state_dir(named), write=False)


def since_s(words: str) -> float:
    """Return a Unix time: of `2026-11-28`, `2026-11-28T03:00Z` or `30d` ago; 0 where nothing is
    named.
    """
    if not words:
        return 0.0
    ago_s = parse_duration(words) if words[-1:].isalpha() and words[-1:] != "Z" else None
    if ago_s is not None:
        return time.time() - ago_s
    import datetime

    try:
        at = datetime.datetime.fromisoformat(words.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"--since {words}: write a date (2026-11-28), a time (2026-11-28T03:00Z), or how long ago (30d)"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=datetime.UTC)).timestamp()


def runs(named: str, since: str, part: str, check: str) -> list[dict[str, Any]]:
    """Return the runs from *since* on, newest first, with their findings: of one part and one
    check if named.
    """
    archive = opened(named)
    back_s = since_s(since)
    query = (
        "SELECT id, uuid, machine, hostname, boot_id, at, source, verdict, exit_code, complete, action, profile, level, full,"
        " headline FROM runs WHERE at >= ? ORDER BY at DESC"
    )
    rows = [dict(zip(_names(query), row, strict=True)) for row in archive.rows(query, (back_s,))]
    numbers = [row.pop("id") for row in rows]
    found = [
        {**row, "findings": _findings(archive, n, part, check)}
        for n, row in zip(numbers, rows, strict=True)
    ]
    return [row for row in found if row["findings"] or not (part or check)]


def _names(query: str) -> list[str]:
    return query[len("SELECT ") : query.index(" FROM")].split(", ")


def _findings(archive: Archive, run: int, part: str, check: str) -> list[dict[str, Any]]:
    query = (
        "SELECT check_id, subject, serial, severity, action, message FROM findings WHERE run = ?"
    )
    found = [dict(zip(_names(query), row, strict=True)) for row in archive.rows(query, (run,))]
    return [one for one in found if _is_of(one, part, check)]


def _is_of(finding: dict[str, Any], part: str, check: str) -> bool:
    from fnmatch import fnmatchcase

    subject = finding["subject"].lower()
    is_part = part.lower() in ("", subject, subject.partition(":")[2], finding["serial"].lower())
    return is_part and (
        not check
        or fnmatchcase(finding["check_id"], check)
        or finding["check_id"].split(".")[0] == check
    )


def listed(named: str, since: str, part: str, check: str, format_: str) -> str:
    """Return the runs as a table, or as JSON."""
    found = runs(named, since, part, check)
    if format_ == "json":
        return json.dumps(found, indent=1) + "\n"
    lines = []
    for run in found:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run["at"]))
        lines.append(
            f"{at}  {run['hostname'] or '-'}  {run['exit_code']:>2} {run['verdict']}  {run['profile']}  {run['headline']}"
        )
        if part or check:
            lines += [
                f"{'':18}{one['severity']}  {one['subject']}  {one['check_id']}: {one['message']}"
                for one in run["findings"]
            ]
    return "".join(f"{printable(line)}\n" for line in lines) or "no run is stored that fits\n"


def exported(named: str, since: str) -> Iterator[str]:
    """Yield one line of JSON a run: what `history list --format json` tells, and the whole report;
    then each event and part.
    """
    archive = opened(named)
    back_s = since_s(since)
    try:
        for uuid, machine, blob in archive.rows(
            "SELECT uuid, machine, report FROM runs WHERE at >= ? ORDER BY at", (back_s,)
        ):
            report = json.loads(zlib.decompress(blob)) if blob else None
            yield (
                json.dumps({"kind": "run", "uuid": uuid, "machine": machine, "report": report})
                + "\n"
            )
        for table in ("parts", "events"):
            names = [row[1] for row in archive.rows(f"PRAGMA table_info({table})")]
            moment = "last_at" if table == "parts" else "at"
            # fixed names
            for row in archive.rows(f"SELECT * FROM {table} WHERE {moment} >= ?", (back_s,)):  # noqa: S608
                yield (
                    json.dumps(
                        {
                            "kind": table[:-1],
                            **{
                                ("what" if n == "kind" else n): v
                                for n, v in zip(names, row, strict=True)
                            },
                        }
                    )
                    + "\n"
                )
    except zlib.error as error:
        raise StateError(f"{archive.path}: damaged: {error}") from None


def hold(named: str, format_: str) -> str:
    """Return what is held on this node, why, since when, and what lifts it."""
    path = last.path_in(state_dir(named))
    found = last.read(path)
    held = found["hold"] if found else None
    if format_ == "json":
        return json.dumps(held, indent=1) + "\n"
    if held is None:
        return f"{RULES}\nNothing is held on this node.\n"
    lines = [f"This node is held with exit code {held['code']} ({held['verdict']}):"]
    for one in held["reasons"]:
        serial = f", serial {one['serial']}" if one["serial"] else ""
        lines += [
            f"  {one['subject']}{serial}: {one['message']}",
            f"    {one['check']}: {one['action']}, exit code {one['code']}, since {moment(one['since_s'])}",
        ]
        lines.append(f"    {lifted_by(one['code'], one['level'])}")
    return "".join(f"{printable(line)}\n" for line in [*RULES.splitlines(), "", *lines])


RULES = """\
A run that ends with 20 or more holds the node, and a reboot does not change that.
  20 to 31: a passing run of the whole node, at the level that it names or above, lifts it.
  40, 41:   gpuscan swap verify lifts it, or a passing run in which the held part (by its
            serial number) is no longer in the node.
  any:      gpuscan clear --reason TEXT lifts it; the reason goes into the archive.
"""


def clear(named: str, root: str, reason: str) -> str:
    """Lift the hold of this machine, and whatever of last.json cannot be read; the reason is
    archived first.
    """
    if not reason.strip():
        raise UsageError("clear --reason: say why the hold may go; it is kept in the archive")
    folder = state_dir(named)
    path = last.path_in(folder)
    with locked(folder):
        try:
            found = last.read(path)
        except last.Damaged:
            aside = set_aside(path)
            _archived(folder, root, reason, [])
            return f"last.json was damaged and is set aside as {aside}; no hold stands\n"
        held = found["hold"]["reasons"] if found and found["hold"] else []
        _archived(folder, root, reason, held)
        if found is not None:  # nothing is proven yet
            replace(
                path,
                {
                    **found,
                    "hold": None,
                    "swap": None,
                    "verdict": "incomplete",
                    "complete": False,
                    "exit_code": 3,
                },
            )
    told = "".join(
        f"  {printable(one['subject'])}: {printable(one['check'])} ({one['code']})\n"
        for one in held
    )
    return f"lifted:\n{told}The next gpuscan run decides.\n" if held else "nothing was held\n"


def _archived(folder: str, root: str, reason: str, held: list[dict[str, Any]]) -> None:
    here = this_machine(root)
    key = next(
        (f"{name}:{here[name]}" for name in ("machine_id", "dmi_serial", "hostname") if here[name]),
        "unknown",
    )
    archive = Archive(folder, write=True)
    now = time.time()
    archive.note(key, now, "clear", reason, held)
    archive.note(key, now, "hold", "cleared", [])
    archive.close()
