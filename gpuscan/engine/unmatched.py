"""A machine that no profile describes: one result says so, and what to do about it.

Each check whose expectation is open would say the same of its own key, and send people to look for
readings that are missing; none is.
"""

from gpuscan.engine.case import PROFILE_CHECK, Case
from gpuscan.engine.explain import explained
from gpuscan.engine.partial import counting_profiles_for
from gpuscan.model import is_unread, read_or
from gpuscan.model.outcome import Result, Root, Status
from gpuscan.model.subject import NODE
from gpuscan.profile.values import in_words

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
    why = case.run.profile.chosen or "no profile vouches for this machine"
    reason = f"{why}; {_proposal(case) or ADVICE}"
    match = Result(PROFILE_CHECK, NODE, Status.UNKNOWN, TITLE, reason)
    return (*(explained(one, root) if one in open_ else one for one in results), match)


def _proposal(case: Case) -> str:
    """Propose the profiles of machines with these GPUs: `8 x NVIDIA H100 80GB HBM3: did you mean
    --profile h100-8x?`, empty if there is none.
    """
    fitting = counting_profiles_for(case.profile, case.node)
    gpus = [gpu for gpu in read_or(case.node.gpus, ()) if gpu.role != "display"]
    if not fitting:
        return ""
    name = next((str(gpu.name) for gpu in gpus if not is_unread(gpu.name)), "GPU")
    return f"{len(gpus)} x {name}: did you mean --profile {in_words(fitting)}?"


def _lacks_expectation(result: Result) -> bool:
    """Return whether a check read all its facts, and only nobody said what they should be."""
    return result.status is Status.UNKNOWN and not result.unread
