"""The proof that an old fault is gone: what exercises it, how much, and what that says."""

from enum import Enum
from typing import NamedTuple

PROOF = "proof"  # in place of a level, in a recording whose burn-in was planned by a hold
USUAL_S = 600.0  # of a proof for which no length is given
LONGEST_S = 12 * 3600.0  # that a wanted confidence may ask for
SECONDS = "seconds under load"  # a unit of exposure; the others are what the tests compare
PRODUCTS, READ, MOVED = "matrix products", "words read", "words moved"
WORD_BYTES = 8  # of the words that are read and moved


class Outcome(str, Enum):
    """What a run says of one reason of a hold.

    `by-state`: nothing needs to be exercised, as the scan itself shows whether the fault is gone.
    """

    NOT_SEEN = "not-seen"
    SEEN = "seen"
    UNFINISHED = "unfinished"
    NOT_EXERCISED = "not-exercised"
    BY_STATE = "by-state"


TOLD = {  # for people
    Outcome.NOT_SEEN: "did not show again",
    Outcome.SEEN: "showed again",
    Outcome.UNFINISHED: "did not show again, but was not exercised to the end",
    Outcome.NOT_EXERCISED: "not proven by exercise",
    Outcome.BY_STATE: "needs no exercise: the scan shows whether it is gone",
}


class FaultRate(NamedTuple):
    """How often a fault showed before: *events* in *exposure* of *unit*, and where that is from.

    *documented*: it is a limit from a standard or a vendor, not what was counted.
    """

    events: int
    exposure: float
    unit: str
    source: str
    documented: bool = False


class ProofAsked(NamedTuple):
    """What exercises the fault of one reason of a hold.

    *check*, *subject* and *serial* name the reason, *gpus* the GPUs that are to show the fault, by
    label, *pairs* those between which it showed (from, to). *tests* are the names of the
    burn-in's tests that exercise it; their exposure is counted in *unit*. *hot_c* is the core
    temperature at which it showed, 0 where that is not known, *per_s* what the tests did in a
    second. *lacks* says why nothing here exercises it; empty where something does. *note* is what
    else is to be known of its part. *by_state*: nothing needs to. *watched*: the fault shows only
    where the temperature is read under load.
    """

    check: str
    subject: str
    serial: str
    gpus: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()
    unit: str = ""
    hot_c: float = 0.0
    rate: FaultRate | None = None
    per_s: float = 0.0
    lacks: str = ""
    note: str = ""
    by_state: bool = False
    watched: bool = False


class ProofRow(NamedTuple):
    """What became of one reason of a hold: *amount* of *unit* in *seconds*, the core at most
    *hottest_c* (*then_c* when it showed), *beside* by the neighbours; None is not known.

    *confidence* (0 to 1) is the probability that the fault would have shown, by *rate*; *cautious*
    the same for a rate that is itself known from few events only. *why* says how the fault was seen
    again, why nothing exercised it, what cut the proof short, or why nothing tells how sure it is.
    *unproven*: this run lifts the reason, and nothing exercised its fault since it was found.
    """

    check: str
    subject: str
    serial: str
    outcome: Outcome
    amount: float
    unit: str
    seconds: float
    hottest_c: float | None
    then_c: float | None
    beside: float
    confidence: float | None = None
    cautious: float | None = None
    rate: FaultRate | None = None
    why: str = ""
    unproven: bool = False


class Proposal(NamedTuple):
    """The command that exercises faults nobody has exercised since (`gpu SXM4 (nvlink.links)`), and
    about how long it takes; *needs* is the program without which it can exercise none of them.
    """

    command: str
    faults: tuple[str, ...]
    seconds: float
    needs: str = ""
