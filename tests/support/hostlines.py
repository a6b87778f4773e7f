"""Lines of host kernel logs: those that match a catalogue entry, near misses, ordinary ones."""

from __future__ import annotations

import json
from typing import Any

from paths import TESTS

LINES: dict[str, list[Any]] = json.loads(
    (TESTS / "kernellog" / "hostlines.json").read_text("utf-8")
)
FITS: list[tuple[str, str, dict[str, Any]]] = [
    (entry, message, said) for entry, message, said in LINES["fits"]
]
