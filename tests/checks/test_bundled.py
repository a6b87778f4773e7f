"""What the bundled checks say: the sentences, what was observed and expected, and whose fault can
be shared.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from building import by_subject, demo_node, judged, lost, the, was_read

from gpuscan import files
from gpuscan.engine import suite
from gpuscan.engine.suite import Check
from gpuscan.model import Echo, Incident, Node
from gpuscan.model.outcome import Action, Finding, Status
from gpuscan.profile import load

SXM8 = "0000:00:07.0"


@cache
def bundled() -> tuple[Check, ...]:
    return suite.load([files.bundled("checks")])


def changed(**facts: Any) -> Node:
    """Return the demo with other facts of the GPU in SXM8."""
    node = demo_node()
    return node._replace(
        gpus=tuple(
            gpu._replace(**facts) if gpu.address == SXM8 else gpu for gpu in was_read(node.gpus)
        )
    )


def said(check: str, node: Node, subject: str = "gpu:SXM8") -> Finding:
    result = by_subject(judged(bundled(), node, load("h200-4x")), check)[subject]
    (finding,) = result.findings
    return finding


def rows(**changes: bool) -> Any:
    return was_read(was_read(demo_node().gpus)[1].remapped_rows)._replace(**changes)


def test_only_a_gpu_s_own_flags_are_never_shared() -> None:
    of_one_gpu = [one for one in bundled() if not one.mark.shared and one.subject != "change"]
    assert {one.id for one in of_one_gpu} == {
        "memory.retired_pages",
        "memory.unrepairable",
        "memory.page_retirement_pending",
        "memory.repair_pending",
        "memory.row_remap",
        "memory.row_remap_pending",
        "memory.uncorrectable_ecc",
        "memory.uncorrectable_sram",
        "memory.remapped_rows",
        "memory.sram_threshold",
        "recovery.action",
    }


@pytest.mark.parametrize(
    ("requested", "severity", "action", "wording"),
    [
        (1, Status.FAIL, Action.RESET_GPU, "GPU reset"),
        (2, Status.FAIL, Action.REBOOT, "node reboot"),
        (3, Status.WARN, Action.MONITOR, "drain peer-to-peer traffic"),
        (4, Status.FAIL, Action.RESET_GPU, "drain and reset"),
        (5, Status.FAIL, Action.FIX_CONFIG, "IMEX domain recovery"),
        (6, Status.FAIL, Action.RESET_GPU, "bus reset"),
        (7, Status.FAIL, Action.POWER_CYCLE, "system reboot"),
        (8, Status.FAIL, Action.INVESTIGATE, "action 8, which this gpuscan does not know"),
    ],
)
def test_the_driver_requests_a_recovery_action(
    requested: int, severity: Status, action: Action, wording: str
) -> None:
    finding = said("recovery.action", changed(recovery_action=requested))
    assert (finding.severity, finding.action, finding.message) == (
        severity,
        action,
        f"the driver requests: {wording}",
    )
    assert (finding.observed, finding.expected) == (requested, 0)


def test_memory() -> None:
    failed = said("memory.row_remap", changed(remapped_rows=rows(failed=True)))
    assert (failed.action, failed.observed, failed.expected, failed.impact) == (
        Action.REPLACE,
        True,
        False,
        "correctness",
    )
    pending = said("memory.row_remap_pending", changed(remapped_rows=rows(pending=True)))
    assert (pending.action, pending.observed, pending.expected, pending.urgency) == (
        Action.RESET_GPU,
        True,
        False,
        "next-idle",
    )
    errors = was_read(demo_node().gpus)[1].ecc_errors._replace(uncorrected_volatile=3)
    ecc = said("memory.uncorrectable_ecc", changed(ecc_errors=errors))
    assert ecc.message == "uncorrectable ECC errors since the driver was loaded: 3"
    assert (ecc.observed, ecc.expected) == (3, 0)


def test_links_that_are_down_are_numbered_and_links_that_are_missing_are_counted() -> None:
    links = was_read(demo_node().gpus)[1].nvlinks
    down = tuple(link._replace(active=link.number not in (3, 7)) for link in was_read(links))
    finding = said("nvlink.links", changed(nvlinks=down))
    assert (finding.message, finding.observed, finding.expected) == (
        "16 of 18 NVLinks are up (down: 3, 7)",
        16,
        18,
    )
    assert (
        said("nvlink.links", changed(nvlinks=was_read(links)[:12])).message
        == "12 of 18 NVLinks are up"
    )


def xid(**changes: Any) -> Incident:
    unread: Any = lost()
    whole = Incident(
        label="Xid 48 on SXM8", address=SXM8, part="", kind="xid", code=48, entry="xid:48", name="DBE", action="reset-gpu",
        asks=str(changes.get("action", "reset-gpu")),
        because="", impact="correctness", urgency="now", state="mapped", ended="", clean="unknown", listed=True, events=1,
        times=1, when="at 1 s after boot", first_s=1.0, last_s=90.0, meaning="a memory error", text="at row 5.", programs="",
        processes=(), echoes=(), values={}, recovery_action=unread,
    )  # fmt: skip
    return whole._replace(**changes)


def echo(code: int) -> Echo:
    return Echo(f"Xid {code} on SXM8", "xid", code, f"xid:{code}", SXM8, "", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, 'Xid 48 on SXM8 at 1 s after boot: a memory error ("at row 5")'),
        (
            {"events": 2, "when": "twice from 1 to 90 s after boot"},
            'Xid 48 on SXM8, twice from 1 to 90 s after boot: a memory error ("at row 5")',
        ),
        ({"text": ""}, "Xid 48 on SXM8 at 1 s after boot: a memory error"),
        ({"text": "", "meaning": ""}, "Xid 48 on SXM8 at 1 s after boot: DBE"),
        ({"meaning": ""}, 'Xid 48 on SXM8 at 1 s after boot: "at row 5"'),
        (
            {"because": "RST: Yes"},
            'Xid 48 on SXM8 at 1 s after boot: a memory error ("at row 5"); RST: Yes',
        ),
        (
            {"echoes": (echo(45),)},
            'Xid 48 on SXM8 at 1 s after boot: a memory error ("at row 5"); also Xid 45',
        ),
        (
            {"echoes": tuple(map(echo, range(40, 46)))},
            'Xid 48 on SXM8 at 1 s after boot: a memory error ("at row 5"); also Xid 40, Xid 41, '
            "Xid 42, Xid 43 and 2 more",
        ),
        (
            {"programs": "python (2 processes)"},
            "Xid 48 on SXM8 at 1 s after boot, in python (2 processes): a memory error "
            '("at row 5")',
        ),
    ],
)
def test_an_xid_in_words(changes: dict[str, Any], message: str) -> None:
    finding = said("xid.faults", demo_node(incidents=(xid(**changes),)), "incident:Xid 48 on SXM8")
    assert (finding.message, finding.action, finding.observed) == (message, Action.RESET_GPU, 48)


def test_an_xid_that_asks_for_nothing_passes_and_one_for_an_application_warns() -> None:
    for action, status in (
        ("none", Status.PASS),
        ("restart-app", Status.WARN),
        ("monitor", Status.WARN),
        ("replace", Status.FAIL),
    ):
        report = judged(bundled(), demo_node(incidents=(xid(action=action),)), load("h200-4x"))
        assert the(report, "xid.faults").status is status


def test_a_driver_that_hangs_names_the_gpus_that_made_it() -> None:
    stuck = changed(access="timed-out")
    stuck = stuck._replace(driver=stuck.driver._replace(access="timed-out"))
    finding = said("driver.loaded", stuck, "node")
    assert (finding.action, finding.culprits) == (Action.REBOOT, ("SXM8",))


def test_an_empty_slot_is_named_as_the_board_names_it() -> None:
    """And a full one is not; a list of slots has no such names."""
    for slots, names in (
        ({"SXM8": "GPU 5", "SXM9": "GPU 9"}, "SXM9 (GPU 9)"),
        (["SXM8", "SXM9"], "SXM9"),
    ):
        profile = load("h200-4x")
        profile = profile._replace(
            data={**profile.data, "gpu": {**profile.data["gpu"], "slots": slots}}
        )
        (finding,) = the(judged(bundled(), demo_node(), profile), "inventory.slots").findings
        assert (finding.message, finding.expected) == (
            f"no GPU responds in {names}",
            ["SXM8", "SXM9"],
        )
