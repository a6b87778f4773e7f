"""The same checks under plain pytest, for authors and CI: `pytest -p gpuscan.pytest_plugin checks/
--gpuscan-replay FILE`.

Named with -p and no entry point, so that no stranger's test run meets it; it acts on functions
marked with @check only. A check that needs others must be judged with them, so the whole judgement
is made once, and each result is a test.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from gpuscan.engine import judging, suite
from gpuscan.errors import GpuscanError
from gpuscan.files import bundled
from gpuscan.importers.load import open_recording
from gpuscan.model.outcome import Result, Status


class CheckFailed(Exception):
    """What a failed check said, without a traceback into gpuscan."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("gpuscan")
    group.addoption(
        "--gpuscan-replay", metavar="FILE|demo", help="the recording that the checks judge"
    )
    group.addoption(
        "--gpuscan-profile", metavar="NAME|FILE", default="auto", help="what it is judged by"
    )


def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> "pytest.Item | None":
    """Take the functions that carry a check; everything else is pytest's own business."""
    if not name.startswith("test_") or not isinstance(
        getattr(obj, "__gpuscan__", None), suite.Mark
    ):
        return None
    area = collector.path.stem.removeprefix("test_")
    line = getattr(getattr(obj, "__code__", None), "co_firstlineno", 1) - 1
    item: CheckItem = CheckItem.from_parent(
        collector, name=name, check=f"{area}.{name.removeprefix('test_')}", line=line
    )
    return item


OF_ANOTHER_INPUT = ("change", "test")  # subjects that a recording of a passive scan has none of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put in each check's place one test a result."""
    checks = [item for item in items if isinstance(item, CheckItem)]
    if not checks:
        return
    replay = config.getoption("--gpuscan-replay")
    if not replay:
        raise pytest.UsageError("name the recording to judge with --gpuscan-replay FILE (or demo)")
    try:
        results = _results(str(replay), str(config.getoption("--gpuscan-profile")), checks)
    except GpuscanError as error:
        raise pytest.UsageError(f"gpuscan: {error}") from None
    items[:] = [new for item in items for new in _split(item, results)]


def _results(replay: str, profile: str, items: "list[CheckItem]") -> dict[str, list[Result]]:
    """Judge as `gpuscan run --replay` does, by the bundled checks and all those in the folders of
    *items*.

    A check on what changed has an empty list, for one recording alone is compared with nothing; so
    has one on imported texts, and one on a burn-in where there was none.
    """
    folders = {os.path.realpath(item.path.parent) for item in items} - {
        os.path.realpath(bundled("checks"))
    }
    plan = judging.prepare(judging.Selection(profile=profile, checks=sorted(folders)))
    by_check: dict[str, list[Result]] = {
        one.id: [] for one in plan.checks if one.subject in OF_ANOTHER_INPUT or one.mark.imported
    }
    for result in judging.judge_recording(open_recording(replay), replay, plan).results:
        by_check.setdefault(result.check, []).append(result)
    return by_check


def _split(item: pytest.Item, results: dict[str, list[Result]]) -> Iterator[pytest.Item]:
    if not isinstance(item, CheckItem) or item.check not in results:
        yield item
        return
    parent: Any = item.parent
    for result in results[item.check]:
        name = f"{item.name}[{result.subject}]"
        new: CheckItem = CheckItem.from_parent(
            parent, name=name, check=item.check, line=item.line, result=result
        )
        if result.status is Status.SKIP:
            new.add_marker(pytest.mark.skip(reason=result.reason))
        yield new


class CheckItem(pytest.Item):
    """One check, before it is judged, or one result of it after."""

    def __init__(
        self, *, check: str, line: int, result: Result | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.check, self.line, self.result = check, line, result

    def runtest(self) -> None:
        """Tell pytest what became of the check: unknown is a failure, too."""
        result = self.result
        if result is None:
            raise CheckFailed(
                f"{self.path}: gpuscan loads no such check: its modules are named test_*.py and"
                " hold plain functions"
            )
        for finding in result.findings:
            self.add_report_section(
                "call", finding.severity.value, f"{finding.message} ({finding.action.value})"
            )
        if result.status in (Status.FAIL, Status.UNKNOWN):
            said = [
                f"{finding.severity.value}: {finding.message} -> {finding.action.value}"
                for finding in result.findings
            ]
            reason = [f"{result.status.value}: {result.reason}"] if result.reason else []
            crash = [result.traceback] if result.traceback else []
            raise CheckFailed("\n".join([*reason, *said, *_evidence(result), *crash]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what the check said; a traceback would only show this file."""
        return (
            str(excinfo.value)
            if isinstance(excinfo.value, CheckFailed)
            else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Name the test in pytest's listing."""
        return self.path, self.line, f"{self.check} {self.result.subject if self.result else ''}"


def _evidence(result: Result) -> list[str]:
    lines = [f"  {evidence.fact} = {evidence.value}" for evidence in result.evidence]
    return lines + [
        f"  {path} was not read ({unread.kind}: {unread.text})" for path, unread in result.unread
    ]
