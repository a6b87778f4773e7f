"""Each addition that CONTRIBUTING shows touches as many files as promised, and works."""

from __future__ import annotations

from pathlib import Path

import pytest
from additions import Addition, apply_diff, copy_tree, read_additions, run_in
from paths import ROOT

# What CONTRIBUTING's heading says is added -> the files that it may touch.
FILES = {"check": 2, "fact": 3, "importer": 2, "renderer": 2, "profile key": 2, "command": 2}
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
SAMPLE = """
### A renderer

```diff
--- /dev/null
+++ b/gpuscan/renderers/exit.py
@@ -0,0 +1,7 @@
+\"\"\"The exit codes, a line each.\"\"\"
+
+from collections.abc import Sequence
+
+
+def render(reports: Sequence[object], *, verbosity: int, many: bool = False) -> str:
+    return "".join(f"{report.exit_code}\\n" for report in reports)  # type: ignore[attr-defined]
--- a/gpuscan/renderers/__init__.py
+++ b/gpuscan/renderers/__init__.py
@@ -33,2 +33,3 @@
 RENDERERS = {
+    "exit": Format("exit"),
     "text": Format("text", terminal="terminal"),
```

```console
$ gpuscan run --replay demo --format exit
```
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the checkout."""
    return copy_tree(tmp_path)


def added(kind: str) -> Addition:
    """The addition of this kind that CONTRIBUTING shows."""
    shown = read_additions(CONTRIBUTING.read_text("utf-8"))
    (addition,) = [one for title, one in shown.items() if kind in title.lower()]
    return addition


def try_out(addition: Addition, tree: Path) -> None:
    """Run the commands that show an addition at work."""
    assert addition.commands, f"{addition.title}: show a command that proves it in a console block"
    for command in addition.commands:
        done = run_in(tree, command)
        assert done.returncode == 0, f"$ {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def test_the_machinery(tree: Path) -> None:
    (addition,) = read_additions(SAMPLE).values()
    assert run_in(tree, addition.commands[0]).returncode == 2
    assert len(apply_diff(addition.diff, tree)) == FILES["renderer"]
    try_out(addition, tree)
    assert "[exit|text|json" in run_in(tree, "gpuscan run --help").stdout


def test_a_diff_that_fits_nowhere_is_refused(tree: Path) -> None:
    (addition,) = read_additions(SAMPLE.replace(" RENDERERS = {", " RENDERS = {")).values()
    with pytest.raises(AssertionError, match="has not"):
        apply_diff(addition.diff, tree)


@pytest.mark.system
@pytest.mark.parametrize("kind", FILES)
def test_the_additions_of_contributing(kind: str, tree: Path) -> None:
    addition = added(kind)
    assert len(apply_diff(addition.diff, tree)) == FILES[kind]
    try_out(addition, tree)
