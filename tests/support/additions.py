"""CONTRIBUTING's additions: the diffs that it shows, applied to a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paths import ROOT

COPIED = ("gpuscan", "checks", "profiles", "tests", "docs")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Addition(NamedTuple):
    """One section of CONTRIBUTING: its heading, the diff, and the commands that show it at work."""

    title: str
    diff: str
    commands: tuple[str, ...]


class Change(NamedTuple):
    """What a diff does to one file: lines to find and lines to put there, hunk by hunk."""

    path: str
    hunks: tuple[tuple[str, str], ...]


def read_additions(text: str) -> dict[str, Addition]:
    """Return the sections that hold a diff, by heading."""
    found = {}
    for section in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        title = section.partition("\n")[0].lstrip("# ")
        blocks = FENCE.findall(section)
        diffs = [body for language, body in blocks if language == "diff"]
        shown = "".join(body for language, body in blocks if language == "console")
        if diffs:
            commands = tuple(re.findall(r"^\$ (.+)$", shown, re.MULTILINE))
            found[title] = Addition(title, "".join(diffs), commands)
    return found


def parse_diff(diff: str) -> Iterator[Change]:
    """Yield each file's changes of a unified diff; line numbers are not looked at."""
    for part in re.split(r"^--- .*\n(?=\+\+\+ )", diff, flags=re.MULTILINE)[1:]:
        head, *bodies = re.split(r"^@@.*\n", part, flags=re.MULTILINE)
        path = head.split()[1].removeprefix("b/")
        yield Change(path, tuple(_hunk(body) for body in bodies))


def _hunk(body: str) -> tuple[str, str]:
    lines = [line or " " for line in body.splitlines() if not line.startswith(("diff ", "\\"))]
    before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    return before, after


def copy_tree(folder: Path) -> Path:
    """Copy what a checkout holds into *folder*."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for file in (*ROOT.glob("*.md"), *ROOT.glob("*.py"), *ROOT.glob("*.toml")):
        shutil.copy(file, folder)
    return folder


def apply_diff(diff: str, tree: Path) -> list[str]:
    """Apply a diff to *tree* and return the files that changed; fails where a hunk fits nowhere."""
    changed = []
    for change in parse_diff(diff):
        file = tree / change.path
        text = file.read_text("utf-8") if file.exists() else ""
        for before, after in change.hunks:
            assert text.count(before) == 1 or not before, f"{change.path} has not:\n{before}"
            text = text.replace(before, after, 1) if before else text + after
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        changed.append(change.path)
    return changed


def run_in(tree: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of CONTRIBUTING in a tree, with its gpuscan and this Python."""
    program, _, rest = command.partition(" ")
    start = {"gpuscan": "-m gpuscan", "pytest": "-m pytest -q -p no:cacheprovider", "python": ""}
    line = f'"{sys.executable}" {start[program]} {rest}' if program in start else command
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "GPUSCAN_STATE_DIR": str(tree / "state"),
        "NO_COLOR": "1",
        "PYTEST_ADDOPTS": "",
    }
    return subprocess.run(
        ["sh", "-c", line],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
