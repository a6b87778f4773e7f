"""A machine that no profile describes: one result says so, and what to do about it.

Each check whose expectation is open would say the same of its own key, and send people to look for
readings that are missing; none is.
"""

from gpuscan.engine.case import PROFILE_CHECK, Case
from gpuscan.engine.explain import explained
from gpuscan.model.outcome import Result, Root, Status
from gpuscan.model.subject import NODE

TITLE = "A profile says what this machine must have."
ADVICE = (
    "--profile NAME judges by a profile of your choice, --profile default judges what needs no "
    "expectation, and gpuscan profile capture writes a profile from a good machine"
)


def fold_open_expectations(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Fold the results that lack nothing but an expectation into one `profile.match`."""
    optional = case.profile.optional
    open_ = [one for one in results if one.check not in optional and _lacks_expectation(one)]
    if not open_:
        return results
    root = Root(PROFILE_CHECK, NODE)
    reason = f"{case.run.profile.chosen or 'no profile vouches for this machine'}; {ADVICE}"
    match = Result(PROFILE_CHECK, NODE, Status.UNKNOWN, TITLE, reason)
    return (*(explained(one, root) if one in open_ else one for one in results), match)


def _lacks_expectation(result: Result) -> bool:
    """Return whether a check read all its facts, and only nobody said what they should be."""
    return result.status is Status.UNKNOWN and not result.unread
