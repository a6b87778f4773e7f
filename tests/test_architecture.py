"""Nothing but gpuscan/source touches the machine: the rest is given recordings, and so can be
judged anywhere.
"""

from __future__ import annotations

import re

from paths import ROOT

DOOR = re.compile(
    r"^\s*(?:import|from)\s+(?:pynvml|psutil|subprocess|ctypes)\b"
    r"|\b(?:open|listdir|scandir|readlink|exists|isdir|isfile|Path)\(\s*[rf]*[\"'](?:/proc|/sys|/dev)/"
    r"|\bos\.(?:system|popen|exec\w+|spawn\w+|fork)\(",
    re.MULTILINE,
)
WORKERS = (  # they run, or start, what loads the GPUs
    ("worker", "nccl.py"),
    ("worker", "transfers.py"),
    ("burnin", "workers.py"),
    ("burnin", "pool.py"),
    ("burnin", "scheduler.py"),
    ("tools", "run.py"),
)


def test_one_door() -> None:
    files = [
        path for folder in ("gpuscan", "checks") for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    outside = [
        path for path in files if "live" not in path.parts and path.parts[-2:] not in WORKERS
    ]
    assert len(outside) > 20
    assert [str(path) for path in outside if DOOR.search(path.read_text("utf-8"))] == []
    assert any(DOOR.search(path.read_text("utf-8")) for path in files if "live" in path.parts)
