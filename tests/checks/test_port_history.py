"""What earlier runs saw of a port: whether it was ever up, and how often its link went down since."""

from __future__ import annotations

from typing import Any

import pytest
from nodes_recordings import base, judged, not_passed

from gpuscan.recording import Recording, patch

ROOT = "/sys/class/infiniband"
PORT = f"file:{ROOT}/mlx5_3/ports/1/"
NEVER_UP = {
    f"{PORT}state": "1: DOWN\n",
    f"{PORT}phys_state": "2: Polling\n",
    f"{PORT}rate": "10 Gb/sec (4X SDR)\n",
    f"{PORT}counters/link_downed": "0\n",
}
HOUR_S = 3600.0


def with_past(changes: dict[str, Any], boot: str = "", **seen: Any) -> Recording:
    """The node of eight ports after a stored run that saw mlx5_3."""
    recording = base("h100-8x-ib")
    made_at = float(recording.meta.made_at or 0)
    own = str(recording.get("file:/proc/sys/kernel/random/boot_id")).strip()
    row = {
        "label": "mlx5_3/1",
        "best_gbps": 400.0,
        "link_downed": 1,
        "symbol_errors": 0,
        "at_s": made_at - HOUR_S,
        "boot_id": boot or own,
        **seen,
    }
    names = ("faults", "tried", "boots", "parts", "hold")
    lists: dict[str, Any] = {f"history:{name}": [] for name in names}
    return patch(recording, {**changes, **lists, "history:runs": 1, "history:ports": [row]})


@pytest.mark.parametrize(("best_gbps", "code"), [(400.0, 40), (10.0, 0)])
def test_a_port_that_an_earlier_run_saw_up_is_no_spare(best_gbps: float, code: int) -> None:
    """Seven ports are expected and seven others run."""
    recording = with_past(NEVER_UP, best_gbps=best_gbps, boot="another boot")
    report = judged(recording, "h100-8x", ["infiniband.ports=7"])
    assert report.exit_code == code, not_passed(report)


@pytest.mark.parametrize(
    ("total", "hours", "code", "word"),
    [
        (1, 1, 0, None),
        (2, 1, 0, "warn/monitor"),
        (4, 1, 40, "fail/inspect"),
        (4, 72, 0, "warn/monitor"),
        (10, 72, 40, "fail/inspect"),
    ],
)
def test_links_that_go_down_between_runs_are_judged_by_their_rate(
    total: int, hours: float, code: int, word: str | None
) -> None:
    made_at = float(base("h100-8x-ib").meta.made_at or 0)
    changes = {f"{PORT}counters/link_downed": f"{total}\n"}
    report = judged(with_past(changes, at_s=made_at - hours * HOUR_S))
    found = not_passed(report).get("infiniband.link_flaps", {}).get("port:mlx5_3/1")
    assert (report.exit_code, found) == (code, word), not_passed(report)


def test_another_boot_s_counter_tells_nothing() -> None:
    changes = {f"{PORT}counters/link_downed": "9\n"}
    assert judged(with_past(changes, boot="another boot")).exit_code == 0
