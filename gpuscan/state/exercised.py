"""What earlier burn-ins did with each part: how often a fault showed, in how much of a test."""

from collections.abc import Iterable, Mapping
from typing import Any

Run = dict[str, float]  # measured name -> value


def past_tests(measured: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each test that was ever wrong, as `model.PastTest` names it, from what the archive has
    of burn-ins.

    What it compared up to the last wrong run counts, also in the passing runs before: a fault that
    came later than the first of them is then rarer here than it was, and the proof longer.
    """
    runs: dict[str, dict[float, Run]] = {}
    for row in measured:
        of_run = runs.setdefault(row["subject"], {}).setdefault(row["at_s"], {})
        of_run[str(row["name"]).removeprefix("burnin.")] = float(row["value"])
    found = []
    for subject, by_time in runs.items():
        wrong = [at_s for at_s, run in by_time.items() if run.get("mismatches", 0.0) > 0]
        if not wrong:
            continue
        until = [run for at_s, run in by_time.items() if at_s <= max(wrong)]
        found.append(
            {
                "subject": subject,
                "wrong_runs": len(wrong),
                "operations": sum(run.get("operations", 0.0) for run in until),
                "seconds": sum(run.get("seconds", 0.0) for run in until),
                "hot_c": by_time[max(wrong)].get("core_c", 0.0),
            }
        )
    return found
