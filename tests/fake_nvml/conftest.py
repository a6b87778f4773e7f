"""The compiled library once a session, and a fake node for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import NoCompiler, build
from .node import Fake


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library's folder, once a session."""
    try:
        return build(tmp_path_factory.getbasetemp())
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def fake(library: Path, tmp_path: Path) -> Fake:
    """A fake node of two healthy GPUs."""
    return Fake(library, tmp_path)
