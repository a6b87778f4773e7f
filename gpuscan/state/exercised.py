"""What earlier burn-ins did with each part: how often a fault showed, in how much of a test; and
whether what is held was exercised since.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscan.durations import format_moment

Run = dict[str, float]  # measured name -> value


def is_exercised(reason: Mapping[str, Any]) -> bool | None:
    """Tell whether the fault of one reason of a hold was exercised since it was last found, and did
    not show; None for one that nothing needs to exercise.
    """
    from gpuscan.engine.drives import STATE, drive_of  # heavier than the rest of `status`

    is_setting = reason.get("action") == "fix-config"
    if is_setting or drive_of(str(reason.get("check", ""))) == STATE:
        return None
    found_s = max(float(reason.get("seen_s", 0.0)), float(reason.get("since_s", 0.0)))
    return float(reason.get("exercised_s", 0.0)) > found_s


def told_exercised(reason: Mapping[str, Any]) -> str:
    """Return that in words, empty for a fault that nothing needs to exercise."""
    done = is_exercised(reason)
    if done is None:
        return ""
    if not done:
        return "not exercised since the fault"
    return f"exercised {format_moment(reason['exercised_s'])}, did not show"


def told_proofs(events: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the proofs that the archive has ({machine, at, data}) as a report's JSON has them,
    with the machine, the time and the sentence on each; without those that make no sense.
    """
    from gpuscan.renderers.proof import parse, sentence

    for event in events:
        row = event["data"]
        try:
            told = sentence(parse(row))
        except (TypeError, ValueError, KeyError, AttributeError):
            continue
        yield {"machine": event["machine"], "at": event["at"], **row, "told": told}


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
