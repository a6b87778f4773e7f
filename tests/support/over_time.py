"""One machine over time: judged again and again with one state folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paths import RECORDINGS
from program import Call

from gpuscan.recording import Recording, load, patch, save

EIGHT = str(RECORDINGS / "h100-8x-ib.json.gz")
BOOT = "file:/proc/sys/kernel/random/boot_id"
DAY_S = 86400.0


def later(recording: Recording, days: float, boot: str = "") -> Recording:
    """The same node some days later, in another boot if named."""
    moved = patch(recording, {BOOT: boot} if boot else {})
    made_at = (recording.meta.made_at or 0.0) + days * DAY_S
    moved.meta = moved.meta._replace(made_at=made_at)
    return moved


def last_of(folder: Path) -> dict[str, Any]:
    (path,) = folder.rglob("last.json")
    return dict(json.loads(path.read_text()))


def file_of(recording: Recording, folder: Path, name: str) -> str:
    save(recording, str(folder / name))
    return str(folder / name)


GPU = "0000:52:00.0"  # SXM4
ROWS = f"nvml:nvmlDeviceGetRemappedRows({GPU})"
SERIAL = f"nvml:nvmlDeviceGetSerial({GPU})"
PERSISTENCE = f"nvml:nvmlDeviceGetPersistenceMode({GPU})"
FAILED = {ROWS: [0, 8, 0, 1]}  # 41
PENDING = {ROWS: [0, 1, 1, 0]}  # 30
SETTING = {PERSISTENCE: 0}


class Node:
    """One machine over time: each step is judged some hours after the one before, with the same
    state.
    """

    def __init__(self, call: Call, folder: Path) -> None:
        self.call, self.folder, self.days, self.steps = call, folder, 0.0, 0
        self.base = load(EIGHT)

    def __call__(
        self,
        changes: dict[str, Any],
        *words: str,
        boot: int = 0,
        log: tuple[str, ...] = (),
        days: float = 0.25,
    ) -> int:
        return self.judged(changes, *words, boot=boot, log=log, days=days)[0]

    def recording(self, changes: dict[str, Any], boot: int, log: tuple[str, ...]) -> Recording:
        boot_id = f"{boot:08x}-0000-4000-8000-000000000000"
        recording = patch(self.base, {**changes, BOOT: boot_id}, log)
        made_at = (self.base.meta.made_at or 0.0) + self.days * DAY_S
        recording.meta = recording.meta._replace(made_at=made_at)
        return recording

    def judged(
        self,
        changes: dict[str, Any],
        *words: str,
        boot: int = 0,
        log: tuple[str, ...] = (),
        days: float = 0.25,
    ) -> tuple[int, dict[str, Any]]:
        """Return the exit code and the report."""
        self.steps += 1
        file = file_of(self.recording(changes, boot, log), self.folder, f"{self.steps}.gz")
        self.days += days
        done = self.call(
            "judge", file, "--format", "json", "--state-dir", str(self.folder / "state"), *words
        )
        assert done.err == ""
        return done.code, json.loads(done.out)

    @property
    def hold(self) -> int:
        held = last_of(self.folder / "state")["hold"]
        return held["code"] if held else 0


def found(report: dict[str, Any]) -> dict[str, str]:
    return {
        f"{row['check']}[{row['subject']}]": row["action"]
        for row in report["findings"]
        if row["severity"] == "fail"
    }
