"""What a run came to as a proof: whether the faults that a node is held for showed again, after how
much of what brings them back, and how sure that makes.
"""

from collections.abc import Iterable, Sequence

from gpuscan.engine.case import Case
from gpuscan.engine.confidence import cautious, confidence
from gpuscan.engine.drives import drive_of
from gpuscan.engine.lifting import last_found
from gpuscan.engine.proving import ask_all, ask_named
from gpuscan.engine.rates import COUNTERS
from gpuscan.model import BurnTest, Ending, Held, Node, is_unread, read_or
from gpuscan.model.outcome import Action, Result, SkipReason, Status
from gpuscan.model.proof import SECONDS, TOLD, Outcome, ProofAsked, ProofRow
from gpuscan.model.subject import NODE, parse_subject

Tests = Sequence[BurnTest]
CHECK = "proof.exercised"
TITLE = "The fault that the node is held for was exercised, and did not show."
BURNIN = "burnin."  # begins the ids of the checks that judge a burn-in's tests
OF_LOAD = frozenset(
    f"{BURNIN}{name}"
    for name in ("floor", "node_median", "pcie_generation", "power", "slowdown", "temperature")
) | {f"{BURNIN}temperature_spread"}
COUNTED = f"{BURNIN}error_counters"
DIED = (Ending.STUCK, Ending.LOST)
NOT_OFFERED = "not-recorded"
COOLER_C = 5.0  # than when the fault showed: no longer the same load
NOTHING = "nothing was counted of what was to show it"
END = "end"  # the test that says that all of a burn-in was done
UNSEEN = (
    SkipReason.EXPLAINED,
    SkipReason.LEFT_OUT,
    SkipReason.NOT_JUDGED,
    SkipReason.NOT_RECORDED,
)
UNPROVEN = (Outcome.UNFINISHED, Outcome.NOT_EXERCISED)


def proof_rows(
    node: Node, results: Sequence[Result], held: Sequence[Held] | None = None
) -> tuple[ProofRow, ...]:
    """Return a row for each reason that a node was held for when the run began: *held*, where it is
    judged as if nothing were.
    """
    tests = read_or(node.tests, ())
    asked = ask_named(node, node.asked) if node.asked else ask_all(node, held)
    return tuple(_row(one, tests, results) for one in asked)


def tell_unproven(case: Case, results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Add what a proof was to exercise and did not, as results that are not known."""
    if not case.run.proof:
        return results
    rows = proof_rows(case.node, results)
    return (*results, *(_unknown(row) for row in rows if row.outcome in UNPROVEN))


def _unknown(row: ProofRow) -> Result:
    what = f"{row.check}: {TOLD[row.outcome]}"
    why = f"{what}: {row.why}" if row.why else what
    return Result(CHECK, parse_subject(row.subject), Status.UNKNOWN, TITLE, why)


def with_proof(held: Sequence[Held], rows: Iterable[ProofRow], node: Node) -> tuple[Held, ...]:
    """Return a hold with the time at which faults were exercised and did not show."""
    shown = {_key(row) for row in rows if row.outcome is Outcome.NOT_SEEN}
    at_s = 0.0 if is_unread(node.past) else node.past.at_s
    return tuple(one._replace(exercised_s=at_s) if _key(one) in shown else one for one in held)


def _key(one: ProofRow | Held) -> tuple[str, str, str]:
    return one.check, one.subject, one.serial


def mark_unproven(
    node: Node, rows: Iterable[ProofRow], left: Sequence[Held], held: Sequence[Held] | None = None
) -> tuple[ProofRow, ...]:
    """Return the rows with those marked whose reason is lifted though nothing exercised its fault
    since it was found: of *held*, where the node is judged as if nothing were, those not *left*.
    """
    if held is None:
        held = () if is_unread(node.past) else node.past.held
    proven = {_key(one) for one in held if one.exercised_s > last_found(one)}
    lifted = {_key(one) for one in held} - {_key(one) for one in left} - proven
    return tuple(
        row._replace(unproven=row.outcome in UNPROVEN and _key(row) in lifted) for row in rows
    )


def unproven_notes(rows: Iterable[ProofRow]) -> tuple[str, ...]:
    """Return the sentence on each reason that is lifted without a proof."""
    return tuple(
        f"{row.subject.replace(':', ' ', 1)} is held no more for {row.check}: not exercised since"
        " the fault"
        for row in rows
        if row.unproven
    )


def _row(asked: ProofAsked, tests: Tests, results: Sequence[Result]) -> ProofRow:
    ours = [test for test in tests if test.name in asked.tests]
    mine = [test for test in ours if _is_on_part(test, asked)]
    beside = [test for test in ours if test not in mine]
    seen = _seen_again(asked, mine, results)
    cut = _cut_short(asked, mine, results) or (_ended_early(tests) if mine else "")
    amount = _amount(mine, asked.unit)
    ran = [test for test in mine if not is_unread(test.ended)]
    if ran and not amount and not any(read_or(test.operations, 0) for test in ran):
        cut = cut or NOTHING
    outcome = _outcome(asked, mine, seen=bool(seen), cut=bool(cut))
    not_run = mine or _opening(asked, tests)
    absent = _told_unread(not_run) if outcome is Outcome.NOT_EXERCISED else ""
    less = _counted_less(asked, mine, results) if outcome is Outcome.NOT_SEEN else ""
    row = ProofRow(
        asked.check,
        asked.subject,
        asked.serial,
        outcome,
        amount,
        asked.unit,
        sum(read_or(test.seconds, 0.0) for test in mine),
        _hottest(mine),
        asked.hot_c or None,
        _amount(beside, asked.unit),
        rate=asked.rate,
        why=seen or cut or asked.lacks or absent or less or asked.note,
    )
    # a confidence is of an exposure in which nothing came at all
    return _with_confidence(row, mine) if row.outcome is Outcome.NOT_SEEN and not less else row


def _opening(asked: ProofAsked, tests: Tests) -> Tests:
    """Return what tells whether a burn-in could use the GPUs that are to show the fault."""
    return [test for test in tests if test.kind == "open" and test.gpu in asked.gpus]


def _ended_early(tests: Tests) -> str:
    """Return why not all rounds of a burn-in were done, empty where they were."""
    ends = (test.ended for test in tests if test.name == END)
    return next((end.text for end in ends if is_unread(end)), "")


def _with_confidence(row: ProofRow, mine: Tests) -> ProofRow:
    """Add how sure the proof is; a GPU that stayed much cooler than when its fault showed says
    nothing of how often it would have.
    """
    if row.rate is None:
        return row
    if row.then_c and (row.hottest_c is None or row.hottest_c < row.then_c - COOLER_C):
        cool = "stayed below" if row.hottest_c is not None else "was not seen to reach"
        why = f"the core {cool} {row.then_c:.0f} °C, at which it showed: no confidence"
        return row._replace(why="; ".join(filter(None, (row.why, why))))
    amount = _amount(mine, row.rate.unit)
    return row._replace(
        confidence=confidence(row.rate, amount), cautious=cautious(row.rate, amount)
    )


def _is_on_part(test: BurnTest, asked: ProofAsked) -> bool:
    """Return whether a test exercised the held part, or all GPUs together."""
    if test.kind == "tool":
        hca, _, port = asked.subject.partition(":")[2].partition("/")
        return test.part == (hca if port in ("", "1") else f"{hca} port {port}")
    if not test.to and test.gpu == "node":
        return True
    if test.to and asked.pairs:
        return (test.gpu, test.to) in asked.pairs
    return bool({test.gpu, test.to} & set(asked.gpus))


def _outcome(asked: ProofAsked, mine: Tests, *, seen: bool, cut: bool) -> Outcome:
    if seen:
        return Outcome.SEEN
    if asked.by_state:
        return Outcome.BY_STATE
    if not mine or asked.lacks or all(is_unread(test.ended) for test in mine):
        return Outcome.NOT_EXERCISED
    return Outcome.UNFINISHED if cut else Outcome.NOT_SEEN


def _cut_short(asked: ProofAsked, mine: Tests, results: Sequence[Result]) -> str:
    """Return why what was to exercise a fault did not do so to the end, or would not have shown it;
    a test that this machine does not offer (a type, a library) takes nothing from the others.
    """
    for test in mine:
        if is_unread(test.ended):
            if test.ended.kind != NOT_OFFERED:
                return test.ended.text
        elif test.ended in DIED:
            return f"the GPU failed in {test.name}: {read_or(test.text, '')}"
    blind = (one for one in results if one.check == asked.check and _is_blind(one))
    unread = next(
        (_told(one) for one in blind if _is_on(asked, mine, one) or one.about == NODE), ""
    )
    if unread or not asked.watched or not mine or _hottest(mine) is not None:
        return unread
    return "no temperature was read under load"


def _is_blind(result: Result) -> bool:
    """Return whether a check saw nothing: for want of a reading, or because it was not asked."""
    return result.status is Status.UNKNOWN or result.skip_reason in UNSEEN


def _told(result: Result) -> str:
    """Return what a check could not read, or why it was not asked."""
    texts = [unread.text for _, unread in result.unread]
    return f"{result.check}: {(*texts, result.reason or 'unknown')[0]}"


def _told_unread(tests: Tests) -> str:
    """Return why none of these tests ran, and of another program what it is for."""
    for test in tests:
        if is_unread(test.ended):
            would = ": the traffic that it sends would show the fault"
            text = test.ended.text.removeprefix("not run: ")
            return f"{text}{would if test.kind == 'tool' else ''}"
    return ""


def _seen_again(asked: ProofAsked, mine: Tests, results: Sequence[Result]) -> str:
    """Return how the fault showed again: the check fails on that part, or one of its tests does."""
    failed = (one for one in results if one.status is Status.FAIL)
    return _first_told(asked, mine, failed)


def _counted_less(asked: ProofAsked, mine: Tests, results: Sequence[Result]) -> str:
    """Return what was counted of a fault, where that is less than fails."""
    warned = (one for one in results if one.status is Status.WARN)
    counted = (one for one in warned if one.check in COUNTERS or one.check == COUNTED)
    told = _first_told(asked, mine, counted)
    return f"less than fails: {told}" if told else ""


def _first_told(asked: ProofAsked, mine: Tests, results: Iterable[Result]) -> str:
    """Return what the first of these results with a finding on the part's fault says."""
    for result in results:
        if result.findings and _of_check(asked, result) and _is_on(asked, mine, result):
            return f"{result.check}: {result.findings[0].message}"
    return ""


def _of_check(asked: ProofAsked, result: Result) -> bool:
    """Return whether a result shows the kind of fault that is asked for: its own check, one of a
    fault (not a setting) that the same tests exercise, or one that judges these: speed and heat of
    a fault of these, else what was wrong, counted or logged.
    """
    if result.check == asked.check:
        return True
    if not result.check.startswith(BURNIN):
        is_setting = any(one.action is Action.FIX_CONFIG for one in result.findings)
        return bool(asked.tests) and drive_of(result.check).tests == asked.tests and not is_setting
    of_load = asked.watched or asked.check in OF_LOAD
    return (result.check in OF_LOAD) == of_load


def _is_on(asked: ProofAsked, mine: Tests, result: Result) -> bool:
    """Return whether a result is about the part, a line that the kernel logged of it, or a test
    that exercised it; of a GPU's own fault any of its tests, the one that heats it too.
    """
    if result.check.startswith(BURNIN):
        same = result.check == asked.check and not asked.pairs and result.about.gpu in asked.gpus
        return same or result.about.label in {test.label for test in mine}
    if result.about == NODE:
        named = {name for finding in result.findings for name in finding.culprits}
        return str(NODE) == asked.subject or parse_subject(asked.subject).label in named
    places = {test.address for test in mine if test.gpu in asked.gpus}
    return result.subject == asked.subject or result.address in places


def _amount(tests: Tests, unit: str) -> float:
    """Return how much was done: seconds of the tests, or what those of this unit compared."""
    if unit == SECONDS:
        return sum(read_or(test.seconds, 0.0) for test in tests)
    counted = (test for test in tests if read_or(test.what, "") == unit)
    return float(sum(read_or(test.operations, 0) for test in counted))


def _hottest(tests: Iterable[BurnTest]) -> float | None:
    loads = [test.load for test in tests if not is_unread(test.load)]
    return max((load.core_c for load in loads if not is_unread(load.core_c)), default=None)
