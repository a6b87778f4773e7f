"""Checks: the decorator that marks them, what they can say, how their modules are loaded and
selected.
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from fnmatch import fnmatchcase
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

from gpuscan.engine.lens import NotJudged, NotRead
from gpuscan.errors import UsageError, near_misses
from gpuscan.files import bundled, open_input, open_trusted
from gpuscan.model.outcome import LADDER, Action, Finding, Status
from gpuscan.spelling import closest

F = TypeVar("F", bound=Callable[..., None])
KINDS = {
    "change": ("gpu", "nic", "cable", "disk", "firmware", "node"),
    "incident": ("xid", "sxid", "nvrm", "host"),
    "test": ("open", "exact", "stress", "pulse", "memory", "hbm", "pcie", "peer", "nccl", "tool"),
}
SUBJECTS = ("node", "gpu", "port", "incident", "service", "change", "test")
LATE = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR  # calling such a function does not run it
WARN_ONLY = (Action.NONE, Action.MONITOR, Action.RESTART_APP)


class Mark(NamedTuple):
    """What the author says of a check: see `check`."""

    action: Action
    source: str
    needs: tuple[str, ...]
    urgency: str
    impact: str
    shared: bool
    jobs: bool
    aliases: tuple[str, ...]
    ladder: tuple[Action, ...]
    window_days: float
    same: tuple[str, ...]
    voided_by: tuple[str, ...] = ()
    eased_by: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    imported: bool = False
    counts_gpus: bool = False
    expects_slots: bool = False
    finds_corruption: bool = False
    shows_measurements: bool = False


class Check(NamedTuple):
    """A loaded check: its id (`memory.row_remap`), the kind of its subject, its
    function, its mark.
    """

    id: str
    title: str
    text: str
    subject: str
    wants_profile: bool
    function: Callable[..., None]
    file: str
    mark: Mark

    @property
    def area(self) -> str:
        """Return the part of the id before the dot."""
        return self.id.split(".")[0]


_said: ContextVar[list[Finding]] = ContextVar("gpuscan_findings")
_mark: ContextVar[Mark] = ContextVar("gpuscan_mark")


def check(
    *,
    action: Action,
    source: str = "",
    needs: str | Sequence[str] = (),
    urgency: str = "now",
    impact: str = "availability",
    shared: bool = True,
    jobs: bool = False,
    aliases: Sequence[str] = (),
    ladder: Sequence[Action] = LADDER,
    window_days: float = 30.0,
    same: Sequence[str] = (),
    voided_by: str | Sequence[str] = (),
    eased_by: str | Sequence[str] = (),
    kinds: Sequence[str] = (),
    imported: bool = False,
    counts_gpus: bool = False,
    expects_slots: bool = False,
    finds_corruption: bool = False,
    shows_measurements: bool = False,
) -> Callable[[F], F]:
    """Mark a function as a check.

    *action* is what fixes a failure, *source* who says so. *needs* are the checks whose failure
    explains this one's, unless this one's action is heavier; *voided_by* are those whose failure
    leaves this one's expectation without a basis (no link comes up without the Fabric Manager), and
    explains it whatever its action; *eased_by* are those whose finding this one looks at itself, to
    ask for less (wrong results with a row remap pending ask for a reset first). *urgency* is `now`
    or `next-idle`. *shared* is False for a GPU's own flag, which no shared cause can set. *jobs*
    marks what running jobs cause: it only warns on a busy node. *kinds* are the changes (gpu, nic,
    cable, disk, firmware, node), incidents (xid, sxid, nvrm, host) or tests of a burn-in that it
    looks at, default all. *imported* marks what only another tool's output reports. *counts_gpus*
    and *expects_slots* mark checks that compare the number of GPUs, or the slots that hold one,
    with what should be there: the first are skipped where some GPUs were left out, both where the
    input need not list every GPU. *finds_corruption* marks checks of a burn-in that fail on wrong
    results; *shows_measurements* the one whose JUnit cases carry what a test measured.

    A fault that is back within *window_days* after its action was carried out climbs *ladder* by
    one step. It is the same fault if the facts of *same* (or `observed`) are the same.
    """
    mark = Mark(
        action=action,
        source=source,
        needs=(needs,) if isinstance(needs, str) else tuple(needs),
        urgency=urgency,
        impact=impact,
        shared=shared,
        jobs=jobs,
        aliases=tuple(aliases),
        ladder=tuple(ladder),
        window_days=window_days,
        same=tuple(same),
        voided_by=(voided_by,) if isinstance(voided_by, str) else tuple(voided_by),
        eased_by=(eased_by,) if isinstance(eased_by, str) else tuple(eased_by),
        kinds=tuple(kinds),
        imported=imported,
        counts_gpus=counts_gpus,
        expects_slots=expects_slots,
        finds_corruption=finds_corruption,
        shows_measurements=shows_measurements,
    )

    def attach(function: F) -> F:
        function.__gpuscan__ = mark  # type: ignore[attr-defined]
        return function

    return attach


def fail(
    message: str, *, action: Action | None = None, culprits: Iterable[Any] = (), **details: Any
) -> None:
    """Say that something is wrong. *details*: observed, expected, urgency, impact, source,
    level.
    """
    finding = _finding(Status.FAIL, message, action, culprits, details)
    if finding.action in WARN_ONLY:
        raise ValueError(f"a failure cannot ask for '{finding.action.value}': use warn()")
    _said.get().append(finding)


def warn(
    message: str, *, action: Action | None = None, culprits: Iterable[Any] = (), **details: Any
) -> None:
    """Say that something deserves attention and the node may still work."""
    _said.get().append(_finding(Status.WARN, message, action, culprits, details))


def _finding(
    severity: Status, message: str, action: Action | None, culprits: Iterable[Any], details: Any
) -> Finding:
    mark = _mark.get()
    names = tuple(c if type(c) is str else c.label for c in culprits)
    defaults = {"urgency": mark.urgency, "impact": mark.impact, "source": mark.source}
    return Finding(severity, message, action or mark.action, names, **{**defaults, **details})


class Answer(NamedTuple):
    """What one call of a check came to: its findings, the expectation it lacked, its traceback if
    it crashed.
    """

    findings: tuple[Finding, ...]
    not_judged: str
    crash: str


def call(one: Check, subject: Any, profile: Any) -> Answer:
    """Call a check on a subject and catch all that it can do: say, assert, meet an unread fact, or
    crash.
    """
    findings: list[Finding] = []
    tokens = _said.set(findings), _mark.set(one.mark)
    not_judged = crash = ""
    try:
        returned: Any = (
            one.function(subject, profile) if one.wants_profile else one.function(subject)
        )
        if returned is not None:  # `return gpu.ok` looks like a judgement and is none
            raise TypeError(
                f"the check returned {returned!r:.80}: it is to assert, or to say fail() or warn()"
                f" ({one.file})"
            )
    except AssertionError as error:
        say = warn if one.mark.action in WARN_ONLY else fail
        say(str(error) or f"Not so: {one.title}")
    except NotRead:
        pass  # the lens has booked it, and the verdict looks at the book
    except NotJudged as open_expectation:
        not_judged = str(open_expectation)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001
        # foreign code: all that it raises, sys.exit(0) too, is an unknown with traceback
        crash = traceback.format_exc()
    finally:
        _said.reset(tokens[0])
        _mark.reset(tokens[1])
    return Answer(tuple(findings), not_judged, crash)


def aliases(checks: Iterable["Check"]) -> dict[str, str]:
    """Return today's id of every check that had another once: profiles and archives keep those."""
    return {alias: one.id for one in checks for alias in one.mark.aliases}


def load(directories: Sequence[str]) -> tuple[Check, ...]:
    """Load the checks of every test_*.py in *directories*, ordered so that what others need comes
    first.
    """
    checks: dict[str, Check] = {}
    for directory in directories:
        for one in _directory(directory):
            if one.id in checks:
                raise UsageError(
                    f"{one.file}: check id {one.id} is taken by {checks[one.id].file}: rename the"
                    " function"
                )
            checks[one.id] = one
    if not checks:
        raise UsageError(
            f"no checks in {', '.join(directories)}: check modules are named test_*.py"
        )
    return _in_order(checks)


def _directory(directory: str) -> list[Check]:
    try:
        entries = sorted(os.listdir(directory))
    except OSError as error:
        raise UsageError(
            f"{directory}: {error.strerror}: name a folder of test_*.py modules"
        ) from None
    files = [name for name in entries if name.startswith("test_") and name.endswith(".py")]
    return [one for name in files for one in load_file(os.path.join(directory, name))]


def load_file(path: str) -> list[Check]:
    """Load one module by path. Asserts stay alive under -O and nothing is written; any error names
    the file.
    """
    # whoever may write the bundled ones may write this file, too
    own = os.path.dirname(os.path.abspath(path)) == bundled("checks")
    module = ModuleType(os.path.basename(path)[:-3])
    module.__file__ = path
    try:
        with open_input(path) if own else open_trusted(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True, optimize=0)
        with redirect_stdout(sys.stderr):
            # a check module is code by design; others' files were refused above
            exec(code, module.__dict__)  # noqa: S102
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:  # foreign code again: the error names file and reason  # noqa: BLE001
        what = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{path}:{_line_of(error, path)}: check module cannot be loaded: {what}"
        ) from None
    functions = [
        value
        for name, value in vars(module).items()
        if name.startswith("test_") and callable(value)
    ]
    if not functions:
        raise UsageError(f"{path}: holds no check: a check is a function test_… marked with @check")
    return [_check(path, function) for function in functions]


def _line_of(error: BaseException, path: str) -> int:
    """Return the line of *path* at which *error* came up, not that of the library that raised
    it.
    """
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 1
    frames = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    return frames[-1] if frames and frames[-1] else 1


def _check(path: str, function: Any) -> Check:
    if not isinstance(function, FunctionType):
        raise UsageError(
            f"{path}: {function!r:.80} is named test_ and is no plain function: write def"
            " test_…(gpu)"
        )
    mark = getattr(function, "__gpuscan__", None)
    name = function.__name__.removeprefix("test_")
    if mark is None:
        raise UsageError(f"{path}: {function.__name__} lacks @check(action=…)")
    if not isinstance(mark.action, Action):
        raise UsageError(
            f"{path}: {function.__name__}: @check(action={mark.action!r}): write it as"
            " Action.REPLACE"
        )
    if function.__code__.co_flags & LATE:
        raise UsageError(
            f"{path}: {function.__name__} is async or yields: its body would never run"
        )
    names = _parameters(function)
    subjects = [name for name in names if name != "profile"]
    signature = f"{function.__name__}({', '.join(names)})"
    if len(subjects) != 1 or subjects[0] not in SUBJECTS or names[0] != subjects[0]:
        raise UsageError(
            f"{path}: {signature}: wants one subject ({', '.join(SUBJECTS)}), then profile"
        )
    if not set(mark.kinds) <= set(KINDS.get(subjects[0], ())):
        known = ", ".join(KINDS.get(subjects[0], ())) or "none"
        raise UsageError(
            f"{path}: {signature}: kinds={mark.kinds!r}: those of a {subjects[0]} are {known}"
        )
    text = (function.__doc__ or "").strip()
    if not text:
        raise UsageError(
            f"{path}: {function.__name__} lacks a docstring: its first line is the check's title"
        )
    area = os.path.basename(path)[len("test_") : -len(".py")]
    return Check(
        f"{area}.{name}",
        text.splitlines()[0],
        text,
        subjects[0],
        "profile" in names,
        function,
        path,
        mark,
    )


def _parameters(function: FunctionType) -> tuple[str, ...]:
    """Return the names of all parameters; one that can only be given by name comes with its
    star.
    """
    code = function.__code__
    plain, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    more = named + bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return (*code.co_varnames[:plain], *(f"*{name}" for name in code.co_varnames[plain:more]))


def _in_order(checks: dict[str, Check]) -> tuple[Check, ...]:
    """Return the checks so that each comes after those it needs; an unknown or circular need is an
    error.
    """
    done: dict[str, Check] = {}

    def place(one: Check, above: tuple[str, ...]) -> None:
        if one.id in above:
            raise UsageError(
                f"{one.file}: checks need each other in a circle: {' → '.join((*above, one.id))}"
            )
        for need in (*one.mark.needs, *one.mark.voided_by, *one.mark.eased_by):
            if need not in checks:
                hint = near_misses(need, list(checks), "checks")
                raise UsageError(f"{one.file}: {one.id} needs {need}, which is no check: {hint}")
            place(checks[need], (*above, one.id))
        done.setdefault(one.id, one)

    for one in sorted(
        checks.values(), key=lambda one: one.subject == "test"
    ):  # what was exercised comes after what was read
        place(one, ())
    return tuple(done.values())


def select(
    checks: Sequence[Check], only: Sequence[str], skip: Sequence[str]
) -> tuple[tuple[Check, ...], frozenset[str]]:
    """Return the checks that *only* leaves (all, when empty) and the ids among them that *skip*
    names.
    """
    wanted = _matching(checks, only) if only else frozenset(one.id for one in checks)
    skipped = _matching(checks, skip)
    if wanted <= skipped:
        raise UsageError("no check is left: --skip leaves out all that --only selects")
    return tuple(one for one in checks if one.id in wanted), skipped


def _matching(checks: Sequence[Check], selectors: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for selector in selectors:
        hits = {one.id for one in checks if _answers_to(one, selector)}
        if not hits:
            hint = hint_at_checks(selector, checks)
            raise UsageError(f"selector '{selector}' matches no check: {hint}")
        found |= hits
    return frozenset(found)


def matches(checks: Iterable[Check], selector: str) -> bool:
    """Return whether an area, an id (also a former one) or a glob selects any check."""
    return any(_answers_to(one, selector) for one in checks)


def expand(checks: Iterable[Check], selectors: Mapping[str, str]) -> dict[str, str]:
    """Return the values of selectors by the id of each check that they select; an id wins over a
    glob, and a glob over an area.
    """
    known = tuple(checks)
    found: dict[str, str] = {}
    for selector in sorted(selectors, key=lambda word: ("." in word, not set(word) & set("*?["))):
        hits = [one.id for one in known if _answers_to(one, selector)]
        found |= dict.fromkeys(hits or [selector], selectors[selector])
    return found


def hint_at_checks(word: str, checks: Sequence[Check]) -> str:
    """Return what a word may have meant, else the areas: a list of all ids helps nobody."""
    areas = sorted({one.area for one in checks})
    todays = {alias: one.id for one in checks for alias in one.mark.aliases}
    close = closest(word, [*areas, *(one.id for one in checks), *todays])
    if close:
        return f"did you mean {' or '.join(dict.fromkeys(todays.get(id_, id_) for id_ in close))}?"
    return f"gpuscan checks list shows all {len(checks)}; areas: {', '.join(areas)}"


def _answers_to(one: Check, selector: str) -> bool:
    return selector == one.area or any(
        fnmatchcase(name, selector) for name in (one.id, *one.mark.aliases)
    )
