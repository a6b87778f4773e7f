"""Fixtures of the engine's tests: one machine over time."""

from __future__ import annotations

from pathlib import Path

import pytest
from over_time import Node
from program import Call


@pytest.fixture
def node(call: Call, tmp_path: Path) -> Node:
    return Node(call, tmp_path)
