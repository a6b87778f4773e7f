"""Every recording and every fault in every form for people: short lines, plurals, codes, ASCII."""

from __future__ import annotations

import re

import pytest
from faults import FAULTS, faulty
from nodes_recordings import NAMES, base, judged

from gpuscan import renderers
from gpuscan.engine.report import Report
from gpuscan.model.outcome import FAILED, Action
from gpuscan.renderers import terminal
from gpuscan.text import text_bytes

LONGEST = 400
NOUNS = (
    "banks|errors|times|rows|lines|processes|links|NVLinks|GPUs|ports|boots|replays|pages|tests|"
    "mismatches|samples|checks|files|programs|seconds|days"
)
PLURAL = re.compile(
    rf"(?<![\w.,/:=+-])1 (?:(?:more|other|memory|fatal|PCIe|ECC|CRC|SRAM|symbol|uncorrectable) )*"
    rf"(?:{NOUNS})\b|\w\((?:s|es)\)"
)
HEAVY = Action.RESTART_APP.rank  # what asks for more must be found by its number
FORMS = (("text", 0), ("text", 1), ("text", -1), ("junit", 0))


def report_on(name: str) -> Report:
    return judged(base(name), "") if name in NAMES else faulty(name)


def assert_fits(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold that nothing is wider than a terminal, and that wrapping loses and adds no word."""
    monkeypatch.setenv("TERM", "xterm")
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        for verbosity in (-1, 0, 1):
            wrapped = terminal.render([report], verbosity=verbosity)
            lines = wrapped.splitlines()
            assert [line for line in lines if len(line) > width or line != line.rstrip()] == []
            plain = renderers.find("text")([report], verbosity=verbosity)
            assert "".join(wrapped.split()) == "".join(plain.split())


@pytest.mark.sweep
@pytest.mark.parametrize("name", [*NAMES, *FAULTS])
def test_what_people_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    report = report_on(name)
    said = {form: renderers.find(form[0])([report], verbosity=form[1]) for form in FORMS}
    for form, text in said.items():
        lines = [line for line in text.splitlines() if "evidence:" not in line]
        assert [line for line in lines if len(line) > LONGEST] == [], form
        assert [line for line in lines if PLURAL.search(line)] == [], form
        if form[0] == "text":
            assert [line for line in lines if line != line.rstrip()] == [], form
            assert text_bytes(text).isascii()
    assert_fits(report, monkeypatch)
    if report.exit_code >= FAILED:
        first = said["text", -1].encode()[:80].decode()
        subject = report.targets[0].subject if report.targets else ""
        kind, _, label = subject.partition(":")
        part = label if kind == "incident" else f"{kind} {label}".rstrip()
        assert f": {report.action.value} {part}" in first
    for one in report.incidents:
        number = f"{'SXid' if one.kind == 'sxid' else 'Xid'} {one.code}"
        if one.kind in ("xid", "sxid") and Action(one.asks).rank > HEAVY:
            assert re.search(rf"\b{number}\b", said["text", 0]), one.label
            assert re.search(rf"\b{number}\b", said["junit", 0]), one.label
    for result in report.results:
        for finding in result.findings if result.subject.startswith("incident:") else ():
            code = re.match(r"incident:(S?Xid \d+)", result.subject)
            assert code is None or code[1] in finding.message


def test_the_regex_of_plurals_finds_them() -> None:
    for wrong in ("1 memory banks", "1 boot(s) in it", "and 1 more tests", "seen 1 times"):
        assert PLURAL.search(wrong)
    for right in ("1 memory bank", "11 boots", "0.1 seconds", "PCI 1", "twice", "port 1/1 links"):
        assert not PLURAL.search(right), right


@pytest.mark.parametrize(
    ("locale", "encoded"),
    [
        ({"LC_ALL": "C"}, b"31 C -> \\u02d9..."),
        ({"LANG": "POSIX"}, b"31 C -> \\u02d9..."),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, b"31 C -> \\u02d9..."),  # as Python leaves it
        ({"LANG": "de_DE.ISO-8859-1"}, b"31 \xb0C -> \\u02d9..."),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "C"}, "31 °C → ˙…".encode()),
        ({"LANG": "de_DE@euro"}, "31 °C → ˙…".encode()),
        ({}, "31 °C → ˙…".encode()),
    ],
)
def test_a_stream_gets_what_its_encoding_holds(
    locale: dict[str, str], encoded: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert text_bytes("31 °C → ˙…") == encoded
