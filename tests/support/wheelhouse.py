"""The wheels from which a node without a network installs gpuscan."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from paths import ROOT


@cache
def _built() -> tuple[TemporaryDirectory[str], str]:
    """Wheels of this tree and of what it needs, and what went wrong."""
    folder = TemporaryDirectory(prefix="gpuscan-wheels-")
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", folder.name, str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return folder, done.stderr if done.returncode else ""


def wheelhouse() -> Path:
    """Return the folder of wheels, or skip the test where they cannot be had."""
    folder, wrong = _built()
    if wrong:
        pytest.skip(f"no wheels without pip and a package index: {wrong.strip()[-200:]}")
    return Path(folder.name)
