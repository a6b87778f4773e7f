"""Small parts that several tests build on: the demo's node, check modules written for one test,
reports of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpuscan import collectors
from gpuscan.engine import suite
from gpuscan.engine.case import Case
from gpuscan.engine.report import Report
from gpuscan.engine.stages import judge
from gpuscan.engine.suite import Check
from gpuscan.importers.load import open_recording
from gpuscan.model import Driver, Fact, Host, Node, Unread, is_unread
from gpuscan.model.outcome import Action, Finding, Result, Status
from gpuscan.model.report_rows import RunInfo
from gpuscan.model.subject import NODE, parse_subject
from gpuscan.profile import Profile, load

T = TypeVar("T")
HEAD = "from gpuscan import Action, Gpu, Incident, Node, Port, Profile, check, fail, read, warn\n"


def demo_node(**changes: Any) -> Node:
    """Return the facts of the demo (four H200, SXM2, 4, 6 and 8 or so), with *changes*."""
    return collectors.node(open_recording("demo"))._replace(**changes)


def module(folder: Path, text: str, name: str = "test_area.py") -> str:
    """Write a check module and return its folder."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(HEAD + textwrap.dedent(text), "utf-8")
    return str(folder)


def checks_of(folder: Path, text: str) -> tuple[Check, ...]:
    return suite.load([module(folder, text)])


def expecting(**changes: Any) -> Profile:
    """Return the default profile with other values; it vouches."""
    profile = load("default")
    return profile._replace(data={**profile.data, **changes})


def judged(
    checks: Sequence[Check], node: Node, profile: Profile | None = None, skipped: Sequence[str] = ()
) -> Report:
    return judge(Case(node, profile or expecting(), checks, frozenset(skipped)))


def by_subject(report: Report, check: str) -> dict[str, Result]:
    return {result.subject: result for result in report.results if result.check == check}


def the(report: Report, check: str) -> Result:
    """Return the only result of a check."""
    (result,) = by_subject(report, check).values()
    return result


def lost(text: str = "GPU is lost") -> Unread:
    return Unread("nvml:a()", "lost", text)


def failing(
    action: Action, check: str = "a.b", severity: Status = Status.FAIL, subject: str = "node"
) -> Result:
    finding = Finding(severity, "it is wrong", action)
    return Result(check, parse_subject(subject), severity, "It is right.", findings=(finding,))


def plain(status: Status, check: str = "a.b") -> Result:
    return Result(check, NODE, status, "It is right.")


def report_of(*results: Result, **changes: Any) -> Report:
    """Return a report that holds *results*."""
    unread: Any = lost()
    host = Host(**dict.fromkeys(Host._fields, unread))
    driver = Driver(**dict.fromkeys(Driver._fields, unread))
    return Report(RunInfo(), host, driver, (), results)._replace(**changes)


def was_read(fact: Fact[T]) -> T:
    """Return a fact that the test takes to have been read."""
    assert not is_unread(fact), fact
    return fact
