"""NVLink errors: every row of NVIDIA's table in both layouts, and what comes near one without
being it.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from paths import SHARED

from gpuscan import catalogue
from gpuscan.incidents import nvlink
from gpuscan.incidents.nvlink import decode_nvlink5 as decode
from gpuscan.model.outcome import Action

FACTS = SHARED / "facts" / "nvlink5_rules.yaml"
ROWS = catalogue.document("nvlink5")["entries"]
LAYOUTS = {"before": (0, 574), "from": (1, 575)}
LINK = 14 << 13 | 0x2A << 26  # link 14, and bits that mean nothing


def each() -> list[tuple[Any, str, int]]:
    return [(row, layout, status) for row in ROWS for layout in LAYOUTS for status in row["status"]]


def test_every_row_is_found_in_its_layout() -> None:
    wrong = []
    for row, layout, status in each():
        at, branch = LAYOUTS[layout]
        mask, value = (int(text, 16) for text in row[layout])
        name = row["names"][at]
        expected = (14, row["immediate"], row["severity"], nvlink.UNITS[row["xid"]], name)
        for known in (branch, 0):
            found = decode(row["xid"], [value | LINK, status, 0, 0], known, name)
            read = found and (
                found.link, found.immediate, found.severity, found.unit, found.sub_unit,
            )  # fmt: skip
            if found is None or read != expected or not found.reason or value & ~mask:
                wrong.append((row["xid"], layout, status, known, found))
    assert wrong == []


def near_misses(row: Any, layout: str, status: int) -> dict[str, tuple[list[int], int, str]]:
    """Return registers, branch and unit that nearly fit a row."""
    at, branch = LAYOUTS[layout]
    value, name = int(row[layout][1], 16), row["names"][at]
    misses = {
        "another status": ([value, 0x12345], branch, name),
        "another bit": ([value ^ 0x4, status], branch, name),
        "an unknown reason": ([value | 0x3F << 20, status], branch, name),
        "another unit": ([value, status], branch, "ANOTHER"),
        "one register": ([value], branch, name),
    }
    if int(row["before"][1], 16) != int(row["from"][1], 16):
        misses["the other layout"] = ([value, status], 1000 - branch if at else 580, name)
    return misses


def test_near_misses_of_rows_are_not_decoded() -> None:
    decoded = [
        (row["xid"], layout, status, why)
        for row, layout, status in each()
        for why, (words, branch, name) in near_misses(row, layout, status).items()
        if decode(row["xid"], words, branch, name) is not None
    ]
    assert decoded == []


def test_without_a_branch_no_unit_has_two_meanings() -> None:
    """Registers that fit both layouts under the name of one unit would need the branch."""
    for row, layout, status in each():
        at, branch = LAYOUTS[layout]
        words, name = [int(row[layout][1], 16), status], row["names"][at]
        assert decode(row["xid"], words, 0, name) == decode(row["xid"], words, branch, name)


@pytest.mark.parametrize(
    ("xid", "text", "branch", "link", "action"),
    [
        (149, "0x004505c6 0x0", 570, 8, Action.RESET_GPU),
        (149, "0x0215e5c6 0x0", 0, 15, Action.RESET_GPU),
        (149, "0x026001c6 0x0", 570, 0, Action.MONITOR),
        (149, "0x000fe406 0x0", 570, -1, Action.RESET_GPU),
        (145, "0x0409a0c2 0x8", 570, 13, Action.MONITOR),
        (145, "0x040004c2 0x1", 570, 0, Action.RESET_GPU),
        (145, "0x00000086 0x1", 580, 0, Action.RESET_GPU),
        (145, "0x00000006 0x1", 580, 0, Action.MONITOR),
        (145, "0x040a08e2 0x8", 0, 16, Action.RESTART_APP),
        (144, "0x00000001 0x4", 580, 0, Action.NONE),
        (150, "0x0 0xffffffff", 580, 0, Action.RESET_GPU),
    ],
)
def test_lines(xid: int, text: str, branch: int, link: int, action: Action) -> None:
    found = decode(xid, [int(word, 16) for word in text.split()], branch)
    assert found is not None
    assert (found.link, found.action) == (link, action)


def test_an_xid_that_is_none_of_them_has_no_row() -> None:
    assert decode(79, [0, 0]) is None


@pytest.mark.skipif(not FACTS.exists(), reason="../shared/facts is not there")
def test_the_table_is_that_of_the_facts() -> None:
    rules = yaml.load(
        FACTS.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )["rules"]
    assert len(rules) >= 98
    classes = {"none": (Action.NONE, Action.MONITOR), "reset-gpu": (Action.RESET_GPU,)}
    for rule in rules:
        statuses = (
            [0, 0xFFFFFFFF] if isinstance(rule["error_status"], str) else [rule["error_status"]]
        )
        names = rule["unit"].replace(" Degraded", "_DEGRADED").split("/")
        for key, branch, name in (
            ("intr_before_r575", 570, names[0]),
            ("intr_from_r575", 580, names[-1]),
        ):
            for status in statuses:
                found = decode(rule["xid"], [int(rule[key]["value"], 16), status], branch, name)
                assert found is not None
                assert found.action in classes.get(rule["class"], (Action.RESTART_APP,))
                assert (found.immediate, found.severity) == (
                    rule["immediate"],
                    (rule.get("severity") or "").rstrip("*?"),
                )
                assert rule["investigatory"].replace("/", "_").startswith(found.investigate)


@pytest.mark.parametrize(
    ("words", "kind", "action"),
    [
        ("0 0 0 0 0 0 0", "", Action.RESET_GPU),
        ("0 0 10000 0 0 0 0", "signal", Action.RESET_GPU),
        ("1 0 0 0 0 0 0", "informational", Action.NONE),
        ("40800001 0 0 0 0 0 0", "informational", Action.NONE),
        ("2 0 0 0 0 0 0", "sympathetic", Action.RESET_GPU),
        ("3 0 0 0 0 0 0", "sympathetic", Action.RESET_GPU),
        ("0 0 0 30000 0 0 0", "sympathetic", Action.RESET_GPU),
        ("0 0 0 40000 0 0 0", "fabric", Action.RESET_GPU),
        ("10 0 0 0 0 0 0", "ecc", Action.RESET_GPU),
        ("112 0 0 0 0 0 0", "ecc", Action.RESET_GPU),
        ("100 0 0 0 0 0 0", "mechanical", Action.RESET_GPU),
        ("8000000 0 0 0 0 0 0", "unexpected", Action.RESET_GPU),
        ("0 0 0 0 100000 0 0", "corrected", Action.MONITOR),
        ("0 0 0 0 40000 0 0", "ecc", Action.RESET_GPU),
        ("0 10 0 0 0 10 10", "", Action.RESET_GPU),
        ("", "", Action.RESET_GPU),
    ],
)
def test_the_words_of_xid_74(words: str, kind: str, action: Action) -> None:
    registers = [int(word, 16) for word in words.split()]
    assert nvlink.classify_xid74(registers) == kind
    assert nvlink.MEANINGS[kind][0] is action


def test_no_bit_of_xid_74_has_two_meanings() -> None:
    bits = [
        (word, bit)
        for words in nvlink.BITS.values()
        for word, of_word in words.items()
        for bit in of_word
    ]
    assert len(bits) == len(set(bits)) > 30
    assert set(nvlink.MEANINGS) == {*nvlink.BITS, ""}
