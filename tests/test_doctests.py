"""The examples in the docstrings of gpuscan are right."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import gpuscan

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
ROOT = Path(gpuscan.__file__).parent


def modules_with_examples() -> list[str]:
    files = [file for file in ROOT.rglob("*.py") if ">>> " in file.read_text("utf-8")]
    names = [file.relative_to(ROOT.parent).with_suffix("").parts for file in files]
    return sorted(".".join(name).removesuffix(".__init__") for name in names)


def test_examples_in_docstrings() -> None:
    names = modules_with_examples()
    assert len(names) > 20
    results = {
        name: doctest.testmod(importlib.import_module(name), optionflags=FLAGS) for name in names
    }
    assert {name: result for name, result in results.items() if result.failed} == {}
    assert all(result.attempted for result in results.values())
