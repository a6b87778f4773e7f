"""Judge a pasted text as `gpuscan judge FILE` does: its exit code, and what is wrong with what."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpuscan.engine import judging
from gpuscan.errors import GpuscanError
from gpuscan.importers.load import open_recording

REFUSED = 2


class Judged(NamedTuple):
    """The exit code, and the subjects of each check that did not pass (`fail`, `warn`, `unknown`).

    *kinds* are what the text was taken for.
    """

    code: int
    wrong: dict[str, list[str]]
    kinds: tuple[str, ...] = ()


class Pasted(NamedTuple):
    """A text, the exit code that is right for it, and words that its findings must name.

    *fault* stands in the line that shows the fault; empty for a text without one. A text is *cured*
    if its end says that what it shows before is over.
    """

    text: str
    code: int
    fault: str = ""
    names: Sequence[str] = ()
    cured: bool = False


@functools.cache
def plan() -> judging.Plan:
    return judging.prepare(judging.Selection())


@functools.lru_cache(maxsize=4096)
def judge(text: str, suffix: str = ".txt") -> Judged:
    """Judge a text; one that nothing reads is refused with exit code 2."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"pasted{suffix}"
        file.write_text(text, "utf-8", newline="")
        try:
            recording = open_recording(str(file))
        except GpuscanError:
            return Judged(REFUSED, {})
        report = judging.judge_recording(recording, str(file), plan())
    wrong: dict[str, list[str]] = {}
    for result in report.results:
        if result.status.value in ("fail", "warn", "unknown"):
            told = [finding.message for finding in result.findings]
            wrong.setdefault(result.check, []).append(" ".join([result.subject, *told]))
    imported = recording.meta.imported
    return Judged(report.exit_code, wrong, imported.kinds if imported else ())


def wrongly_judged(case: Pasted) -> str:
    """Return what is wrong with the judgement of a whole text, "" if nothing is."""
    got = judge(case.text)
    told = str(got.wrong)
    missing = [name for name in case.names if name not in told]
    if got.code == case.code and not missing:
        return ""
    return f"exit {got.code} for {case.code}, not named: {missing}; {got}"


def wrongly_cut(case: Pasted) -> list[str]:
    """Return each beginning of a text that is judged wrongly, cut after any of its lines.

    As long as it shows the fault it does not pass, nor weigh more than the whole; without a fault
    it never fails.
    """
    lines = case.text.splitlines(keepends=True)
    bad = []
    for count in range(1, len(lines)):
        beginning = "".join(lines[:count])
        code = judge(beginning).code
        shows = bool(case.fault) and case.fault in beginning
        allowed = {2, 3, *range(20, case.code + 1)} if shows else {0, 2, 3}
        allowed |= set(range(20, 42)) if case.cured else set()
        if code not in allowed:
            bad.append(f"{count} of {len(lines)} lines: exit {code} ({lines[count - 1]!r})")
    return bad


STRANGE = ("\n", "some unrelated words\n", "user@host:~$ \n")


def wrongly_disturbed(case: Pasted) -> list[str]:
    """Return each place where a strange line changes the judgement of a text to another than 2 or
    3: a fault must not pass for it, nor a healthy text fail.
    """
    lines = case.text.splitlines(keepends=True)
    bad = []
    for at in range(len(lines) + 1):
        for strange in STRANGE:
            code = judge("".join([*lines[:at], strange, *lines[at:]])).code
            right = code >= 20 if case.code >= 20 else code == case.code
            if code not in (2, 3) and not right:
                bad.append(f"{strange!r} before line {at + 1}: exit {code}")
    return bad


PROMPTS = (
    "[root@node01 ~]# run-it\n",
    "$ {command}\n",
    "Warning: Permanently added 'node01' (ED25519) to the list of known hosts.\n",
    'Defaulted container "main" out of: main, init (init)\n\n',
)


def wrongly_prompted(case: Pasted, command: str) -> list[str]:
    """Return the lines that change the judgement of a text when they stand before it."""
    want = judge(case.text).code
    return [
        prompt
        for prompt in PROMPTS
        if judge(prompt.format(command=command) + case.text).code not in {want, 2, 3}
        or (want >= 20 and judge(prompt.format(command=command) + case.text).code < 20)
    ]
