"""No pattern backtracks: each one's time grows with the text, whatever a stranger puts in it.

Every compiled pattern of the package is searched in texts that are made of its own pieces: what it
repeats, again and again, behind what comes before it and ahead of what cannot match.
"""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest

import gpuscan

NO_MODULES = ("gpuscan.__main__", "gpuscan.pytest_plugin")
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
PROBES = "a0 x-:.(/,\tA_=|"
END = "\n\x00"
ANCHORED = {"match", "fullmatch"}
ONLY_MATCHED = [  # though the module hands them on
    f"gpuscan.kernellog.wrapping.{name}" for name in ("SHAPES", "NUMBER", "STRING", "OBJECT")
]
DEEP = 5
SIZES = (16, 24, 64, 256, 2048)  # characters: what a very bad pattern costs the test is bounded
FLOOR_S = 0.02  # of processor time: ten microseconds a character, a hundred times what one needs
MOST_GROWTH = 3.0  # of the time, where the text doubles: linear is 2, quadratic is 4


class Attack(NamedTuple):
    """A hostile text of any size: *before*, then *piece* again and again, then what ends it."""

    before: str
    piece: str

    def text(self, size: int) -> str:
        return self.before + self.piece * (size // len(self.piece)) + END


class Held(NamedTuple):
    """A pattern, where it is held, and whether it is only ever matched at a text's beginning."""

    pattern: re.Pattern[Any]
    where: str
    anchored: bool

    def seconds(self, text: str, times: int) -> float:
        """Return the processor time of one search in a text, at best."""
        binary = isinstance(self.pattern.pattern, bytes)
        given: Any = text.encode("latin1", "replace") if binary else text
        search = self.pattern.match if self.anchored else self.pattern.search
        took = []
        for _ in range(times):
            began = time.process_time()
            search(given)
            took.append(time.process_time() - began)
        return min(took)


@functools.cache
def patterns() -> Mapping[str, Held]:
    """Every pattern that a module holds, at any depth, and each literal one in a call of `re`."""
    modules = list(_modules())
    trees = {one.__name__: ast.parse(Path(str(one.__file__)).read_bytes()) for one in modules}
    uses: dict[int, set[str]] = {}  # of each object
    for module in modules:
        for name, methods in _uses(trees[module.__name__]).items():
            uses.setdefault(id(vars(module).get(name)), set()).update(methods)
    found: dict[str, Held] = {}
    for module in modules:
        for name, value in vars(module).items():
            where = f"{module.__name__}.{name}"
            anchored = where in ONLY_MATCHED or uses.get(id(value), {""}) <= ANCHORED
            for one in _within(value, DEEP):
                held = Held(one, where, anchored)
                found.setdefault(f"{one.flags} {one.pattern!r}", held)
        for held in _in_calls(module.__name__, trees[module.__name__]):
            found.setdefault(f"{held.pattern.flags} {held.pattern.pattern!r}", held)
    return found


def _modules() -> Iterator[Any]:
    for info in pkgutil.walk_packages(gpuscan.__path__, "gpuscan."):
        if info.name not in NO_MODULES and ".kernels" not in info.name:
            try:
                yield importlib.import_module(info.name)
            except ImportError:  # an extra that is not installed
                continue


def _uses(tree: ast.AST) -> dict[str, set[str]]:
    """Return which methods of each constant are named, "" for one that is handed on whole."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        method = node.attr if isinstance(node, ast.Attribute) else ""
        for owner in ast.iter_child_nodes(node):
            if isinstance(owner, ast.Name) and isinstance(owner.ctx, ast.Load):
                found.setdefault(owner.id, set()).add(method)
    return found


def _within(value: Any, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
        return
    inner: list[Any] = []
    if isinstance(value, Mapping):
        inner = [*value, *value.values()]
    elif isinstance(value, (tuple, list, set, frozenset)):
        inner = list(value)
    elif isinstance(value, functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, FunctionType) and value.__closure__:
        inner = [cell.cell_contents for cell in value.__closure__]
    for one in inner if depth else ():
        yield from _within(one, depth - 1)


def _in_calls(where: str, tree: ast.AST) -> Iterator[Held]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method, owner = node.func.attr, node.func.value
        first = node.args[0] if node.args and method not in ("escape", "compile") else None
        named = isinstance(owner, ast.Name) and owner.id == "re"
        if named and isinstance(first, ast.Constant) and isinstance(first.value, str):
            flags = re.MULTILINE if "MULTILINE" in ast.dump(node) else 0
            yield Held(re.compile(first.value, flags), where, method in ANCHORED)


def attacks(pattern: re.Pattern[Any]) -> set[Attack]:
    """What may cost a pattern much: what it repeats, with and without what comes before."""
    source = pattern.pattern
    text = source if isinstance(source, str) else source.decode("latin1")
    found: set[Attack] = set()
    _walk(list(parser.parse(text, pattern.flags & ~re.UNICODE)), "", found)
    whole = {Attack("", one.before + one.piece) for one in found}
    return found | whole | {Attack("", one.piece) for one in found}


def _walk(items: list[Any], before: str, found: set[Attack]) -> str:
    """Add the attacks on *items*, which come after *before*; return it with a text they match."""
    repeated: list[str] = []
    for operation, argument in items:
        if operation in REPEATS:
            least, most, inner = argument
            piece = _walk(list(inner), "", set()) or "x"
            if most is sre.MAXREPEAT or most > 50:
                found.update(Attack(before, each) for each in {piece, *_others(list(inner))})
                repeated.append(piece)
                found.add(Attack(before, "".join(repeated[-2:])))
            _walk(list(inner), before, found)
            before += piece * least
        elif operation is sre.SUBPATTERN:
            before = _walk(list(argument[-1]), before, found)
        elif operation is sre.ATOMIC_GROUP:
            before = _walk(list(argument), before, found)
        elif operation is sre.BRANCH:
            before = [_walk(list(branch), before, found) for branch in argument[1]][0]
        else:
            before += next(_letters(operation, argument), "")
    return before


def _others(items: list[Any]) -> list[str]:
    """Other texts that a repeated item matches: of a class, several of its characters."""
    return list(_letters(*items[0])) if len(items) == 1 else []


def _letters(operation: Any, argument: Any) -> Iterator[str]:
    """Yield some of the characters that an item matches, the usual ones first."""
    if operation is sre.LITERAL:
        yield chr(argument)
    elif operation is sre.ANY:
        yield from "x" + PROBES
    elif operation in (sre.IN, sre.NOT_LITERAL):
        own = re.compile(_class(operation, argument))
        usual = list(filter(own.match, PROBES))
        yield from usual or list(filter(own.match, map(chr, range(33, 127))))[:1]


def _class(operation: Any, argument: Any) -> str:
    if operation is sre.NOT_LITERAL:
        return f"[^{re.escape(chr(argument))}]"
    out = ""
    for kind, value in argument:
        if kind is sre.NEGATE:
            out = f"^{out}"
        elif kind is sre.LITERAL:
            out += re.escape(chr(value))
        elif kind is sre.RANGE:
            out += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        elif kind is sre.CATEGORY:
            name = str(value).removeprefix("CATEGORY_").replace("UNI_", "")
            letter = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[name.removeprefix("NOT_")]
            out += letter.upper() if name.startswith("NOT_") else letter
    return f"[{out}]"


def _growth(held: Held, attack: Attack) -> float:
    """Return by how much the time grows as the attack doubles, at a size where it can be told."""
    for size in SIZES:
        if held.seconds(attack.text(size), 1) > FLOOR_S:
            return held.seconds(attack.text(size), 3) / held.seconds(attack.text(size // 2), 3)
    return 0.0


@pytest.mark.sweep
def test_that_no_pattern_backtracks() -> None:
    steep, tried = [], 0
    for held in patterns().values():
        for attack in sorted(attacks(held.pattern)):
            tried += 1
            if (growth := _growth(held, attack)) > MOST_GROWTH:
                steep.append(
                    f"{held.where}: {attack} grows by {growth:.1f}: {held.pattern.pattern!r}"
                )
                break
    assert len(patterns()) > 400
    assert tried > 8000
    assert not steep, "\n".join(steep)


@pytest.mark.parametrize("text", [r"^(a+)+$", r"=+ *(\S+).*=+\s*$", r"(\S*)\d(\S*)x"])
def test_that_a_pattern_that_backtracks_is_noticed(text: str) -> None:
    held = Held(re.compile(text), "here", anchored=False)
    assert any(_growth(held, attack) > MOST_GROWTH for attack in attacks(held.pattern))
