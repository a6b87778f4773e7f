"""Where things lie: the repository, its tests and recordings, and what others keep beside it."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
RECORDINGS = TESTS / "recordings"
SHARED = Path(os.environ.get("GPUSCAN_SHARED", ROOT.parent / "shared"))
