"""JUnit: one suite per host, one case per check and subject; valid against the schema of Jenkins'
xunit plugin.

This is the adapter for junit-xml, which builds the cases. Its stock output fails that schema
(`disabled`, times with too many decimals) and has no properties on cases, so the tree is trimmed
here before it is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import junit_xml

from gpuscan.engine.partial import told
from gpuscan.engine.report import Report
from gpuscan.model import read_or
from gpuscan.model.outcome import ACTIONS, Result, Status
from gpuscan.model.proof import PROOF
from gpuscan.model.report_rows import Measurement
from gpuscan.renderers.cases import clean, details, host_of, unshown, worst
from gpuscan.renderers.headline import partial_lines, swap_lines, unproven_lines
from gpuscan.renderers.proof import sentence
from gpuscan.text import printable

ALLOWED = {
    "testsuite": (
        "name",
        "tests",
        "failures",
        "errors",
        "skipped",
        "time",
        "timestamp",
        "hostname",
    ),
    "testcase": ("name", "classname", "time"),
}
Numbers = Mapping[str, Sequence[Measurement]]


def render(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the strict format."""
    return _document(reports, full=False)


def render_full(reports: Sequence[Report], *, verbosity: int, many: bool = False) -> str:
    """Return the format with properties on each case, as Jenkins' junit step and Testmo read it."""
    return _document(reports, full=True)


def _document(reports: Sequence[Report], *, full: bool) -> str:
    root = ElementTree.Element("testsuites", {"name": "gpuscan"})
    root.extend(_suite(report, f"gpuscan.{host_of(report)}", full=full) for report in reports)
    for element in root.iter():
        element.attrib = {name: printable(value) for name, value in element.attrib.items()}
    _make_names_unique(root)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _suite(report: Report, package: str, *, full: bool) -> ElementTree.Element:
    numbers, warned = _numbers(report), report.run.fail_on is not None
    suite = junit_xml.TestSuite(
        clean(f"gpuscan {report.run.profile.name}"),
        [
            *(_case(result, package, numbers, warned=warned) for result in report.results),
            *_verdict(report, package),
        ],
        hostname=host_of(report),
        timestamp=(report.run.started_at or "").removesuffix("Z") or None,
        properties={name: clean(str(value)) for name, value in _properties(report)},
        stdout=clean("\n".join(map(printable, _aside(report)))) or None,
    )
    element: ElementTree.Element = suite.build_xml_doc()
    _trim(element)
    element.set("time", f"{report.run.duration_s or 0:.3f}")
    for case, result in zip(element.iter("testcase"), report.results, strict=False):
        rows = _of(result, numbers)
        seconds = next((row.value for row in rows if row.name == "burnin.seconds"), 0.0)
        case.set("time", f"{seconds:.3f}")
        if full:
            _add_properties(case, result, rows)
    return element


def _numbers(report: Report) -> Numbers:
    """Return a burn-in's measurements by subject."""
    rows: dict[str, list[Measurement]] = {}
    for row in report.measurements:
        if row.test is not None:
            rows.setdefault(row.subject, []).append(row)
    return rows


def _of(result: Result, numbers: Numbers) -> Sequence[Measurement]:
    return numbers.get(result.subject, ()) if result.shows_measurements else ()


def _verdict(report: Report, package: str) -> list[junit_xml.TestCase]:
    """Return one more case where no other is red and the node may still not work."""
    message = unshown(report)
    if not message:
        return []
    case = junit_xml.TestCase("verdict[node]", f"{package}.verdict")
    lines = map(printable, (message, *report.notes))
    case.add_error_info(message, clean("\n".join(lines)), report.verdict)
    return [case]


def _make_names_unique(root: ElementTree.Element) -> None:
    """Number cases of the same name (two GPUs that share a slot's name, one host twice): readers
    keep only the first of them.
    """
    seen: dict[tuple[str | None, str], int] = {}
    for case in root.iter("testcase"):
        place = case.get("classname"), str(case.get("name"))
        seen[place] = seen.get(place, 0) + 1
        if seen[place] > 1:
            case.set("name", f"{place[1]} #{seen[place]}")


def _aside(report: Report) -> list[str]:
    """Return what no test case shows: the hold, a swap under way, what a proof came to, what was
    not judged.
    """
    held = [report.hold_told] if report.hold_told else []
    proof = [sentence(row) for row in report.proof if row.seconds]
    return [
        *held,
        *swap_lines(report),
        *proof,
        *unproven_lines(report),
        *partial_lines(report),
    ]


def _properties(report: Report) -> Iterator[tuple[str, Any]]:
    yield "verdict", report.verdict
    yield "exit_code", report.exit_code
    yield "complete", str(report.complete).lower()
    yield "action", report.action.value
    if report.partial:
        yield "partial", "; ".join(told(report.partial))
    yield "profile", report.run.profile.name
    yield "level", PROOF if report.run.proof else report.run.level
    yield "gpuscan_version", report.run.gpuscan_version
    for name, value in (
        ("boot_id", read_or(report.host.boot_id, "")),
        ("driver", read_or(report.software.module_version, "")),
    ):
        if value:
            yield name, value


def _case(result: Result, package: str, numbers: Numbers, *, warned: bool) -> junit_xml.TestCase:
    case = junit_xml.TestCase(
        clean(f"{result.check}[{result.subject}]"), f"{package}.{result.check.partition('.')[0]}"
    )
    text = clean(details(result))
    if result.status is Status.FAIL:
        found = worst(result)
        case.add_failure_info(clean(found.message), text, ACTIONS[found.action].verdict)
    elif result.status is Status.WARN and warned:
        case.add_failure_info(clean(worst(result).message), text, "warn")
    elif result.status is Status.UNKNOWN:
        case.add_error_info(clean(result.reason), text, "incomplete")
    elif result.status is Status.SKIP:
        reason = printable(clean(result.reason))
        case.add_skipped_info(reason, reason)
    elif result.status is Status.WARN:
        case.stdout = text
    measured = [f"{row.name}: {row.value} {row.unit}" for row in _of(result, numbers)]
    if measured:
        before = [case.stdout] if case.stdout else []
        case.stdout = "\n".join([*before, clean("\n".join(measured))])
    return case


def _trim(suite: ElementTree.Element) -> None:
    """Drop attributes that the schema does not allow."""
    for element in suite.iter():
        allowed = ALLOWED.get(element.tag)
        for name in [
            name for name in element.attrib if allowed is not None and name not in allowed
        ]:
            del element.attrib[name]
    for case in suite.iter("testcase"):
        case.set("time", "0.000")  # a burn-in's cases get theirs later


def _add_properties(
    case: ElementTree.Element, result: Result, numbers: Sequence[Measurement]
) -> None:
    pairs = [
        ("status", result.status.value),
        ("subject", result.subject),
        ("address", result.address),
    ]
    for finding in result.findings:
        pairs += [
            ("action", finding.action.value),
            ("impact", finding.impact),
            ("urgency", finding.urgency),
        ]
    pairs += [(row.name, str(row.value)) for row in numbers]
    element = ElementTree.Element("properties")
    for name, value in pairs:
        if value:
            ElementTree.SubElement(
                element, "property", {"name": clean(name), "value": clean(str(value))}
            )
    case.insert(0, element)
