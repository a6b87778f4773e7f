"""JUnit and CTRF through readers that others wrote, beside what the text and JSON reports say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from faults import FAULTS
from junit_schema import SCHEMA
from lxml import etree
from nodes_recordings import base
from program import Call

from gpuscan.recording import patch, save

pytestmark = pytest.mark.contrib

NODES = (
    "demo",
    "demo-broken",
    "h100-8x-ib",
    "h200-4x-app-xids",
    "kernel-log-denied",
    "burnin-dcgm-fails",
    "aer-fatal",
    "half-the-cards-gone",
)
FORMATS = ("junit", "junit-full", "ctrf", "json", "text")
MOST_BYTES = 30 << 20  # of a file that GitLab reads
Shown = Mapping[str, int]


class Reports(NamedTuple):
    """One judgement in every format."""

    code: int
    files: Mapping[str, Path]

    @property
    def json(self) -> Any:
        return json.loads(self.files["json"].read_text("utf-8"))

    def expected(self) -> dict[str, int]:
        """The cases of each kind, as JSON counts them; a warning passes."""
        counts = self.json["summary"]["counts"]
        kinds = {
            "passed": counts["pass"] + counts["warn"],
            "failed": counts["fail"],
            "error": counts["unknown"],
            "skipped": counts["skip"],
        }
        return {kind: count for kind, count in kinds.items() if count}


@pytest.fixture(params=NODES)
def reports(request: pytest.FixtureRequest, tmp_path: Path, call: Call) -> Reports:
    name: str = request.param
    replayed = name
    if not name.startswith("demo"):
        fault = FAULTS.get(name, {"base": name})
        replayed = str(tmp_path / "node.json.gz")
        changed = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
        save(changed, replayed)
    files = {format_: tmp_path / f"report.{format_}.xml" for format_ in FORMATS}
    words = [f"--report={format_}={file}" for format_, file in files.items()]
    return Reports(call("judge", replayed, *words).code, files)


def test_the_text_says_what_json_counts(reports: Reports) -> None:
    text = reports.files["text"].read_text("utf-8")
    (line,) = re.findall(r"^Verdict: .*; (.*)$", text, re.MULTILINE)
    told = {word: int(count) for count, word in (each.split() for each in line.split(", "))}
    counts = reports.json["summary"]["counts"]
    assert told == {word: count for word, count in counts.items() if count}


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def by_junitparser(file: Path) -> Shown:
    junitparser = pytest.importorskip("junitparser")
    kinds = {"Failure": "failed", "Error": "error", "Skipped": "skipped"}
    shown: dict[str, int] = {}
    for suite in junitparser.JUnitXml.fromfile(str(file)):
        for case in suite:
            kind = kinds[type(case.result[0]).__name__] if case.result else "passed"
            shown[kind] = shown.get(kind, 0) + 1
    return shown


def by_junit2html(file: Path) -> Shown:
    parser = pytest.importorskip("junit2htmlreport.parser")
    report = parser.Junit(str(file))
    red = [case for suite in report.suites for case in suite.failed()]
    shown = {
        "failed": len(red),
        "skipped": sum(len(suite.skipped()) for suite in report.suites),
        "passed": sum(len(suite.passed()) for suite in report.suites),
    }
    html = report.html()
    assert all(case.name in html for case in red)
    return {kind: count for kind, count in shown.items() if count}


def by_xunit_viewer(file: Path) -> Shown:
    done = subprocess.run(
        [tool("xunit-viewer"), "-r", str(file), "-c", "-n", "-o", str(file.with_suffix(".html"))],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (line,) = re.findall(r"^\d+ .*(?:passed|skipped).*$", done.stdout, re.MULTILINE)
    names = {"failure": "failed"}
    pairs = [each.split() for each in line.split(", ")]
    return {names.get(word, word): int(count) for count, word in pairs}


def by_jenkins(file: Path) -> Shown:
    """The rules of Jenkins' junit plugin: an error wins over a failure, both are failed."""
    if SCHEMA.exists() and "full" not in file.name:
        etree.XMLSchema(etree.parse(str(SCHEMA))).assertValid(etree.parse(str(file)))
    return _ruled(file, {"error": "failed", "failure": "failed", "skipped": "skipped"})


def by_gitlab(file: Path) -> Shown:
    """GitLab's rules: the first case of a class and name counts, and no file above 30 MB."""
    assert file.stat().st_size < MOST_BYTES
    return _ruled(file, {"failure": "failed", "error": "error", "skipped": "skipped"})


def _ruled(file: Path, kinds: Mapping[str, str]) -> Shown:
    cases: dict[tuple[str, str], str] = {}
    for case in ElementTree.parse(file).iter("testcase"):
        kind = next((kinds[tag] for tag in kinds if case.find(tag) is not None), "passed")
        cases.setdefault((case.get("classname", ""), case.get("name", "")), kind)
    kept = list(cases.values())
    return {kind: kept.count(kind) for kind in kept}


READERS: Mapping[str, tuple[Callable[[Path], Shown], bool]] = {  # and whether errors are told apart
    "junitparser": (by_junitparser, True),
    "junit2html": (by_junit2html, False),
    "xunit-viewer": (by_xunit_viewer, True),
    "Jenkins": (by_jenkins, False),
    "GitLab": (by_gitlab, True),
}


@pytest.mark.parametrize("format_", ["junit", "junit-full"])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_shows_what_the_report_says(name: str, format_: str, reports: Reports) -> None:
    read, has_errors = READERS[name]
    wanted = reports.expected()
    if not has_errors:
        red = wanted.pop("error", 0) + wanted.pop("failed", 0)
        wanted |= {"failed": red} if red else {}
    shown = read(reports.files[format_])
    assert shown == wanted
    assert bool(shown.get("failed", 0) + shown.get("error", 0)) is (reports.code != 0)


VALIDATE = """
const { validateStrict } = require('ctrf');
validateStrict(JSON.parse(require('fs').readFileSync(process.argv[1], 'utf8')));
"""


def node_path() -> str:
    """Return the folders with Node's modules: those named, and the global one."""
    found = subprocess.run(
        [tool("npm"), "root", "-g"], capture_output=True, text=True, timeout=60, check=True
    )
    return f"{os.environ.get('NODE_PATH', '')}:{found.stdout.strip()}"


def validated(file: Path, modules: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool("node"), "-e", VALIDATE, str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "NODE_PATH": modules},
        timeout=60,
        check=False,
    )


def test_ctrf_s_own_library_takes_it(reports: Reports) -> None:
    modules = node_path()
    if not any((Path(folder) / "ctrf").is_dir() for folder in modules.split(":") if folder):
        pytest.skip("Node's module ctrf is not installed (npm install --global ctrf)")
    file = reports.files["ctrf"]
    done = validated(file, modules)
    assert (done.returncode, done.stderr) == (0, "")
    wrong = file.with_suffix(".json")
    wrong.write_text(file.read_text("utf-8").replace('"passed"', '"green"'), "utf-8")
    assert validated(wrong, modules).returncode != 0
