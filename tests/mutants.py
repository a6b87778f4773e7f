"""Mutation testing: break the judging code in one place at a time and list what no test notices.

`python tests/mutants.py [FILE…] [--jobs N]` takes minutes and is not part of CI. In a
copy of the tree it negates each condition and changes each comparison, `and`/`or`, True/False and
small number; the fast tests named for that file must fail.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gpuscan", "checks", "profiles", "tests")
CHECKS = (
    "checks/test_bundled.py",
    "replay/test_faults.py",
    "replay/test_recordings.py",
    "swap/test_stories.py",
)
TESTS = {
    "gpuscan/model/outcome.py": ("model/test_outcome.py", "engine/test_conclude.py"),
    "gpuscan/engine/conclude.py": ("engine/test_conclude.py",),
    **{
        f"gpuscan/engine/{name}.py": ("engine/test_verdict.py", "engine/test_suite.py")
        for name in ("examine", "status", "explain", "shared", "blind_spots")
    },
    "gpuscan/engine/lens.py": ("engine/test_lens.py", "engine/test_verdict.py"),
    "gpuscan/engine/suite.py": ("engine/test_suite.py", "engine/test_verdict.py"),
    **{f"checks/{path.name}": CHECKS for path in sorted((ROOT / "checks").glob("test_*.py"))},
}
# Arguments that guard against later changes: today their value makes no difference.
IDLE = ("strict", "dont_inherit", "default")
LIMIT_S = 30  # an endless loop counts as noticed
SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


class Mutant(NamedTuple):
    """One file with one change: the line, what it was and became, the whole new source."""

    file: str
    line: int
    change: str
    source: str


def mutants(file: str) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    idle = [
        word.value for word in ast.walk(tree) if isinstance(word, ast.keyword) and word.arg in IDLE
    ]
    for number, node in enumerate(ast.walk(tree)):
        if node in idle:
            continue
        for variant in range(len(list(changed(copy.deepcopy(node))))):
            mutated = copy.deepcopy(tree)
            twin = next(one for n, one in enumerate(ast.walk(mutated)) if n == number)
            after = list(changed(twin))[variant]
            words = [ast.unparse(one).splitlines()[0] for one in (node, after)]
            replace(twin, after)
            yield Mutant(
                file, getattr(node, "lineno", 0), "  ->  ".join(words), ast.unparse(mutated)
            )


def changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the variants of a node."""
    if isinstance(node, (ast.If, ast.IfExp, ast.Assert, ast.While)):
        yield with_field(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.comprehension):
        for n, test in enumerate(node.ifs):
            yield with_field(
                node, "ifs", [*node.ifs[:n], ast.UnaryOp(ast.Not(), test), *node.ifs[n + 1 :]]
            )
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield with_field(node, "ops", [SWAPS[type(node.ops[0])]()])
    if isinstance(node, ast.BoolOp):
        yield with_field(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        yield ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)


def with_field(node: ast.AST, field: str, value: object) -> ast.AST:
    twin = copy.copy(node)
    setattr(twin, field, value)
    return twin


def replace(node: ast.AST, by: ast.AST) -> None:
    """Overwrite *node* with the fields of *by*, which is of the same class."""
    for field in by._fields:
        setattr(node, field, getattr(by, field))


def noticed(mutant: Mutant, copies: SimpleQueue[Path]) -> bool:
    """Run the file's tests against the mutant in a free copy of the tree."""
    place = copies.get()
    target = place / mutant.file
    try:
        target.write_text(mutant.source, "utf-8")
        return not passes(place, mutant.file)
    finally:
        shutil.copy(ROOT / mutant.file, target)
        copies.put(place)


def passes(place: Path, file: str) -> bool:
    tests = [str(place / "tests" / name) for name in TESTS[file]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "--assert=plain", *tests]
    path = os.pathsep.join(str(place / name) for name in ("", "tests", "tests/support"))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def copied(folder: str) -> Path:
    place = Path(folder)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "files", nargs="*", default=list(TESTS), help="files to mutate, as gpuscan/engine/lens.py"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    wanted = parser.parse_args()
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(wanted.jobs) as pool:
        for n in range(wanted.jobs):
            copies.put(copied(f"{folder}/{n}"))
        place = copies.get()
        for file in wanted.files:
            if not passes(place, file):
                print(f"{file}: its tests fail before anything is changed", file=sys.stderr)
                return 2
        copies.put(place)
        everything = [mutant for file in wanted.files for mutant in mutants(file)]
        found = list(pool.map(lambda mutant: noticed(mutant, copies), everything))
    survivors = [mutant for mutant, hit in zip(everything, found, strict=True) if not hit]
    for mutant in survivors:
        print(f"{mutant.file}:{mutant.line}: {mutant.change}")
    for file in wanted.files:
        whole = sum(mutant.file == file for mutant in everything)
        print(
            f"{file}: {whole} mutants, {sum(mutant.file == file for mutant in survivors)} survive"
        )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
