"""The faults of `faults/*.yaml`: each a patch on a recording, and what is expected of it."""

from __future__ import annotations

from typing import Any

import yaml
from nodes_recordings import base, judged
from paths import TESTS

from gpuscan.engine.report import Report
from gpuscan.recording import patch

FAULTS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((TESTS / "faults").glob("*.yaml"))
}


def faulty(name: str) -> Report:
    """The report on a planted fault."""
    fault = FAULTS[name]
    recording = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
    return judged(
        recording,
        fault.get("profile", ""),
        fault.get("settings", ()),
        busy=fault.get("context") == "busy",
    )
