"""What was held until lately and was not exercised since, by the archive's events in order."""

from collections.abc import Iterable
from typing import Any

from gpuscan.engine.hold import ReasonKey, key_of
from gpuscan.model import Held
from gpuscan.model.outcome import LEVELS
from gpuscan.model.proof import Outcome
from gpuscan.state.archive import Archive
from gpuscan.state.holds import sorted_out, stored


def lifted_lately(
    archive: Archive, machine: str, since_s: float, until_s: float
) -> list[dict[str, Any]]:
    """Return the reasons of a machine's hold that were lifted since, and whose fault neither a
    proof nor a burn-in exercised after that.
    """
    held: dict[ReasonKey, Held] = {}
    lifted: dict[ReasonKey, tuple[float, Held]] = {}
    proven: dict[tuple[str, str], float] = {}  # check and subject: the part may be another one
    for event in archive.events(machine):
        if event["at"] >= until_s:
            continue
        if event["kind"] == "hold":
            now = _reasons_in(event["data"])
            lifted |= {key: (event["at"], held[key]) for key in held if key not in now}
            lifted = {key: found for key, found in lifted.items() if key not in now}
            held = now
        elif event["kind"] == "proof" and isinstance(event["data"], dict):
            row = event["data"]
            if row.get("outcome") == Outcome.NOT_SEEN.value:
                proven[str(row.get("check")), str(row.get("subject"))] = event["at"]
    runs = archive.verdicts(machine, since_s, until_s)
    burnt_s = max((run["at"] for run in runs if run["level"] in LEVELS[1:]), default=0.0)
    return stored(
        one
        for at_s, one in lifted.values()
        if at_s >= max(since_s, burnt_s)
        and proven.get((one.check, one.subject), 0.0) <= max(one.seen_s, one.since_s)
    )


def _reasons_in(entries: Any) -> dict[ReasonKey, Held]:
    rows: Iterable[Any] = entries if isinstance(entries, list) else ()
    sane, _ = sorted_out(rows)
    return {key_of(one): one for one in sane}
