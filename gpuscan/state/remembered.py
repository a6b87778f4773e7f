"""What the archive knows of a machine, as the readings that a judgement is given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuscan.state.archive import BACK_DAYS, DAY_S, Archive
from gpuscan.state.exercised import past_tests
from gpuscan.state.lifted import lifted_lately
from gpuscan.state.place import StateError
from gpuscan.state.rows import Whose, identify
from gpuscan.text import counted

LISTS = ("faults", "tried", "boots", "parts", "ports", "measured", "present", "burnt", "lifted")
NOTHING: Mapping[str, Any] = {"runs": 0, "runs_at": [], **{name: [] for name in LISTS}}
PAGES = "retired_pages.double_bit"  # the only measurement whose past is judged
WEEK_DAYS = 7


def remember(archive: Archive, owner: Whose) -> tuple[dict[str, Any], list[str]]:
    """Return the past by the names of NOTHING, and what of it could not be read: that costs no
    more than itself.
    """
    past: dict[str, Any] = {
        name: list(value) if value == [] else value for name, value in NOTHING.items()
    }
    troubles = []
    for name, read in _readers(archive, owner).items():
        try:
            past[name] = read()
        except StateError as error:
            troubles.append(str(error))
        except Exception as error:  # noqa: BLE001 - whatever lies in the file costs no verdict
            troubles.append(f"{archive.path}: its {name} make no sense ({type(error).__name__})")
    past["tried"] = [
        declare(event["text"], event["at"], past["runs_at"]) for event in past["tried"]
    ]
    if archive.nonsense:
        rows = counted(archive.nonsense, "row")
        troubles.append(f"{archive.path}: left out as making no sense: {rows}")
    return past, troubles


def _readers(archive: Archive, owner: Whose) -> dict[str, Callable[[], Any]]:
    key, now_s = owner.key, owner.at_s
    since_s = now_s - BACK_DAYS * DAY_S

    def tried() -> list[dict[str, Any]]:
        return [each for each in archive.events(key, "tried") if since_s <= each["at"] < now_s]

    def measured() -> list[dict[str, Any]]:
        pages = archive.measured(key, PAGES, now_s - WEEK_DAYS * DAY_S, now_s)
        return [row for row in pages if row["value"]]

    return {
        "runs": lambda: archive.count_runs(key, now_s),
        "runs_at": lambda: [run["at"] for run in archive.verdicts(key, since_s, now_s)],
        "faults": lambda: archive.faults(key, since_s, now_s, history=True),
        "tried": tried,
        "boots": lambda: archive.boots(key, since_s, now_s),
        "parts": lambda: archive.parts(key, now_s),
        "ports": lambda: archive.ports(key, since_s, now_s),
        "measured": measured,
        "present": lambda: _present(archive, owner),
        "lifted": lambda: lifted_lately(archive, key, now_s - WEEK_DAYS * DAY_S, now_s),
        "burnt": lambda: past_tests(archive.burn_ins(key, since_s, now_s)),
    }


def _present(archive: Archive, owner: Whose) -> list[dict[str, Any]]:
    """Return the parts of the newest passing run of the whole node, as `model.Seen` names them."""
    run = archive.newest_whole_pass(owner.key, owner.at_s)
    if run is None:
        return []
    return [{**row, "first_s": run["at"], "last_s": run["at"]} for row in identify(run["parts"])]


def declare(work: str, at_s: float, runs_at: Sequence[float]) -> dict[str, Any]:
    """Return declared work as the recording holds it: it was done since the run before."""
    after_s = max((run_s for run_s in runs_at if run_s < at_s), default=0.0)
    return {"work": work, "at_s": at_s, "source": "--tried", "after_s": after_s}
