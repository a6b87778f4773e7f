"""Numbers and what they count: right for 0, 1 and 2, wherever a sentence counts something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuscan.text import counted

TREE = Path(__file__).parents[2]
SOURCES = sorted([*TREE.glob("gpuscan/**/*.py"), *TREE.glob("checks/*.py")])
NOUNS = (
    "banks|boots|bytes|checks|days|errors|events|failures|files|findings|folders|GPUs|hours|"
    "incidents|lines|links|minutes|mismatches|names|nodes|NVLinks|pages|pairs|parts|ports|"
    "processes|programs|readings|records|replays|rows|runs|samples|seconds|tests|times|values|words"
)
KINDS = "more|other|good|different|memory|fatal|PCIe|ECC|symbol|corrected|InfiniBand|Ethernet"
COUNTS = re.compile(rf"^ (?:(?:{KINDS}) )*(?:{NOUNS})\b")
# Sentences whose number is never 1: the guard stands above them, or it is a limit.
NEVER_ONE = {
    "gpuscan/burnin/counters.py": "lines were logged",
    "gpuscan/importers/unpacking.py": "files|lines",
    "gpuscan/swap/compare.py": "hours older",
    "gpuscan/cli/codes.py": "names contain",
    "gpuscan/engine/escalation.py": "boots within",
    "gpuscan/engine/pairs.py": "pairs that fail",
    "gpuscan/importers/reading.py": "files|nodes",
    "gpuscan/incidents/recurrence.py": "times, each time",
    "gpuscan/incidents/wording.py": "processes",
    "gpuscan/renderers/nagios.py": "nodes",
    "gpuscan/renderers/values.py": "different values",
    "checks/test_clocks.py": "samples",
    "checks/test_host.py": "corrected errors",
    "checks/test_thermal.py": "samples",
}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "counted" and node.args[1:]:
            yield node


def nouns_of(call: ast.Call) -> list[str]:
    nouns = [one.value if isinstance(one, ast.Constant) else "day" for one in call.args[1:]]
    return [str(noun) for noun in nouns]


CALLS = [
    (f"{path.relative_to(TREE)}:{call.lineno}", nouns_of(call))
    for path in SOURCES
    for call in calls(ast.parse(path.read_text()))
]


@pytest.mark.parametrize(("where", "nouns"), CALLS)
def test_what_is_counted_is_right_for_0_1_and_2(where: str, nouns: list[str]) -> None:
    for number, told in ((0, "0 "), (1, "1 "), (2, "2 ")):
        said = counted(number, *nouns)
        assert said.startswith(told)
        many = re.search(rf"\b(?:{NOUNS})\b", said)
        assert bool(many) is (number != 1), said
        assert not re.search(r" (?:are|were)\b", said) or number != 1, said
        assert not re.search(r" (?:is|was)\b", said) or number == 1, said


def plurals(path: Path) -> Iterator[str]:
    """Yield each piece of an f-string that puts a value before a plural, but not those that an
    `if … else` chooses.
    """
    tree = ast.parse(path.read_text())
    guarded = {
        inner for node in ast.walk(tree) if isinstance(node, ast.IfExp) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in guarded:
            for value, after in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    text = str(after.value)
                    if COUNTS.match(text) and "counted" not in ast.unparse(value):
                        yield text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TREE)))
def test_no_sentence_counts_by_itself(path: Path) -> None:
    known = NEVER_ONE.get(str(path.relative_to(TREE)), "(?!)")
    found = [text for text in plurals(path) if not re.search(known, text)]
    assert found == [], "write it with gpuscan.text.counted"


def test_the_exceptions_are_in_use() -> None:
    for name, sentences in NEVER_ONE.items():
        texts = list(plurals(TREE / name))
        for sentence in sentences.split("|"):
            assert any(re.search(sentence, text) for text in texts), (name, sentence)
