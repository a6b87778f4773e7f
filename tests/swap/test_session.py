"""`swap begin` and `swap verify` on a fake machine: the node is held from before the work until
the right part is proven.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machine import Done, Machine
from over_time import BOOT, EIGHT, FAILED, GPU, ROWS, SERIAL, file_of, later
from program import Call, Ended, start

from gpuscan import profile
from gpuscan.collectors import node
from gpuscan.engine.hold import after_swap
from gpuscan.engine.lifting import Proof
from gpuscan.model import Held
from gpuscan.model.outcome import Result, Status
from gpuscan.model.report_rows import ChangeRow, RunInfo
from gpuscan.model.subject import NODE, parse_subject
from gpuscan.recording import Recording, load, patch

Make = Callable[[Recording], Machine]
NEW = "1650000000999"
OTHER_GPU = "0000:1b:00.0"  # SXM3
OTHER = f"nvml:nvmlDeviceGetSerial({OTHER_GPU})"
BOOTED = {BOOT: "00000001-0000-4000-8000-000000000000"}


class Site:
    """One machine, as it is at each time, with one state."""

    def __init__(self, make: Make, folder: Path) -> None:
        self.make, self.state = make, str(folder / "state")
        self.base = load(EIGHT)

    def at(self, changes: dict[str, Any]) -> Machine:
        return self.make(patch(self.base, changes))

    def do(self, machine: Machine, *words: str) -> Done:
        return machine.plain(*words, "--state-dir", self.state)

    def ask(self, *words: str) -> Ended:
        """Ask the state, for which no machine is needed."""
        return start([*words, "--state-dir", self.state])

    def status(self, machine: Machine) -> int:
        return self.do(machine, "status").code

    def last(self) -> dict[str, Any]:
        return dict(json.loads(Path(self.state, "last.json").read_text()))


@pytest.fixture
def site(machine: Make, tmp_path: Path) -> Site:
    return Site(machine, tmp_path)


def begin(site: Site, machine: Machine, *words: str, part: str = "gpu:SXM4") -> Done:
    return site.do(
        machine, "swap", "begin", "--ticket", "OPS-7", "--part", part, "--bug-report", "0", *words
    )


def wrong(done: Done) -> set[str]:
    return {row["check"] for row in done.report["findings"] if row["severity"] == "fail"}


def test_a_swap_from_failure_to_proof(site: Site) -> None:
    broken, fixed = site.at(FAILED), site.at({SERIAL: NEW, **BOOTED})
    assert site.do(broken, "run", "-q").code == 41
    done = begin(site, broken)
    assert (done.code, done.err) == (0, "")
    for word in ("SXM4", site.base.get(SERIAL), GPU, "SXM3", "SXM5", "swap verify"):
        assert word in done.out, word
    assert site.status(broken) == 41
    assert site.last()["swap"]["ticket"] == "OPS-7"
    assert {one["check"] for one in site.last()["hold"]["reasons"]} == {
        "memory.row_remap",
        "swap.begin",
    }
    kept = {path.name for path in Path(site.last()["swap"]["folder"]).iterdir()}
    assert kept >= {"recording.json.gz", "report.json", "ticket.md"}
    done = site.do(fixed, "swap", "verify", "--format", "json")
    assert done.code == 0, done.out
    notes = done.report["notes"]
    assert any("not exercised" in note for note in notes)
    assert any(
        f"note {NEW} in the inventory; {site.base.get(SERIAL)} goes back" in note for note in notes
    )
    assert site.status(fixed) == 0
    assert (site.last()["hold"], site.last()["swap"]) == (None, None)
    assert done.report["hold"] is None
    events = [json.loads(line) for line in site.ask("history", "export").out.splitlines()]
    assert [event["what"] for event in events if event.get("what", "").startswith("swap-")] == [
        "swap-begin",
        "swap-end",
    ]


@pytest.mark.parametrize(
    ("changes", "code", "check"),
    [
        ({}, 20, "swap.what_was_named_changed"),
        ({OTHER: NEW}, 20, "swap.nothing_else_changed"),
        ({SERIAL: NEW, **FAILED}, 40, "memory.row_remap"),
    ],
    ids=["nothing was changed", "the wrong GPU", "the fault stays"],
)
def test_what_is_not_proven_stays_held(
    site: Site, changes: dict[str, Any], code: int, check: str
) -> None:
    begin(site, site.at(FAILED))
    after = site.at({**changes, **BOOTED})
    done = site.do(after, "swap", "verify", "--format", "json")
    assert done.code == code
    assert check in wrong(done) or any(name.startswith("swap.") for name in wrong(done))
    assert site.status(after) == 41
    assert site.last()["swap"]["ticket"] == "OPS-7"
    assert done.report["hold"]["code"] == 41


TWO_FAILED = {**FAILED, f"nvml:nvmlDeviceGetRemappedRows({OTHER_GPU})": [0, 8, 0, 1]}
SUSPECT = {
    f"nvml:nvmlDeviceGetRemappedRows({OTHER_GPU})": [0, 8, 1, 0]
}  # 30, which a passing run lifts


@pytest.mark.parametrize(
    ("changes", "stays"),
    [(TWO_FAILED, {"gpu:SXM3"}), ({**FAILED, **SUSPECT}, set())],
    ids=["41", "30"],
)
def test_a_swap_frees_no_other_gpu(site: Site, changes: dict[str, Any], stays: set[str]) -> None:
    """Its fault is hidden now, as one that comes and goes; what a passing run lifts this one
    lifts, too.
    """
    assert site.do(site.at(changes), "run", "-q").code == 41
    begin(site, site.at(FAILED))
    after = site.at({SERIAL: NEW, **BOOTED})
    done = site.do(after, "swap", "verify", "--format", "json")
    assert done.code == (41 if stays else 0)
    assert wrong(done) == ({"history.hold"} if stays else set())
    assert any("is proven" in note for note in done.report["notes"])
    assert {one["subject"] for one in (site.last()["hold"] or {"reasons": []})["reasons"]} == stays
    assert site.last()["swap"] is None
    assert site.status(after) == done.code


def test_a_swap_beside_another_hold_says_what_to_do_about_that(site: Site) -> None:
    """The swap is proven; the verdict, its action and its targets are those of the other hold."""
    assert site.do(site.at(TWO_FAILED), "run", "-q").code == 41
    begin(site, site.at(FAILED))
    after = site.at({SERIAL: NEW, **BOOTED})
    report = str(Path(site.state).parent / "report.json")
    done = site.do(after, "swap", "verify", "--report", f"json={report}")
    assert (done.code, "Traceback" in done.err) == (41, False)
    for words in (
        "Verdict: hardware (exit code 41)",
        "Next:    Save nvidia-bug-report.sh",
        "gpu SXM3",
    ):
        assert words in done.out
    summary = json.loads(Path(report).read_text())["summary"]
    assert (summary["verdict"], summary["exit_code"]) == ("hardware", 41)
    assert (summary["action"], summary["complete"]) == ("replace", True)
    (target,) = summary["targets"]
    assert (target["subject"], target["serial"]) == ("gpu:SXM3", IN)


@pytest.mark.parametrize("optional", [True, False])
def test_a_proof_needs_no_check_that_the_profile_calls_optional(
    site: Site, tmp_path: Path, optional: bool
) -> None:
    begin(site, site.at(FAILED))
    after = site.at({SERIAL: NEW, **BOOTED})
    after.nvml({f"nvml:nvmlDeviceGetRemappedRows({GPU})": unread()})
    unread_by = {
        "memory.row_remap",
        "memory.row_remap_pending",
        "memory.remapped_rows",
        "swap.wear",
    }
    checks = ", ".join(unread_by)
    profile = tmp_path / "site.yaml"
    profile.write_text(f"extends: h100-8x\noptional: [{checks if optional else ''}]\n")
    words = ("--profile", str(profile), "--format", "json")
    done = site.do(after, "swap", "verify", *words)
    summary = done.report["summary"]
    unknown = {row["id"] for row in done.report["checks"] if row["status"] == "unknown"}
    assert unknown <= unread_by  # the last needs the first, where that counts
    if optional:
        assert (done.code, summary["verdict"], summary["complete"]) == (0, "pass", True)
        assert (site.last()["swap"], site.last()["hold"]) == (None, None)
        assert site.status(after) == 0
    else:
        assert (done.code, summary["verdict"], summary["complete"]) == (3, "incomplete", False)
        assert site.last()["swap"]["ticket"] == "OPS-7"
        assert site.status(after) == 41


def held(
    subject: str, code: int = 41, *, address: str = "", serial: str = "", check: str = "memory.x"
) -> Held:
    action = {20: "fix-config", 30: "reset-gpu", 40: "inspect", 41: "replace"}[code]
    return Held(
        code,
        action,
        check,
        subject,
        subject.partition(":")[2],
        address,
        serial,
        "x",
        "passive",
        "",
        "",
        0.0,
    )


BEGUN = held("gpu:SXM4", check="swap.begin", address=GPU, serial="1")
IN = load(EIGHT).get(OTHER)  # the serial of a GPU that stayed
BACK = load(EIGHT).get(SERIAL)  # and of one that is back in its slot


def change(kind: str, slot: str, what: str, address: str = "", *, back: bool = False) -> ChangeRow:
    return ChangeRow(kind, slot, address or slot, what, True, {"serial": "1"}, {}, back)


NEW_GPU = change("gpu", "SXM4", "replaced", GPU)
SAME_GPU = change("gpu", "SXM4", "same", GPU, back=True)
NEW_CABLE = change("cable", "mlx5_0/1", "same")
SAME_CABLE = change("cable", "mlx5_0/1", "same", back=True)


@pytest.mark.parametrize(
    ("one", "row", "passes", "stays"),
    [
        (held("gpu:SXM4", serial="1"), NEW_GPU, False, False),
        (held(f"gpu:{GPU}", address=GPU), NEW_GPU, False, False),
        (held("gpu:SXM4", 20, serial="1"), NEW_GPU, False, False),
        (held("gpu:SXM3", serial=IN), NEW_GPU, True, True),
        (held("gpu:SXM3"), NEW_GPU, True, True),
        (held("gpu:SXM3", serial="gone"), NEW_GPU, False, False),
        (held("gpu:SXM3", 20, serial=IN), NEW_GPU, False, True),
        (held("gpu:SXM3", 20, serial=IN), NEW_GPU, True, False),
        (held("gpu:SXM4", 41, serial=BACK), SAME_GPU, True, True),
        (held("gpu:SXM4", 40), SAME_GPU, True, False),
        (held("gpu:SXM4", 40), SAME_GPU, False, True),
        (held("gpu:SXM3", 40, serial=IN), SAME_GPU, True, True),
        (held("port:mlx5_0/1", 40), NEW_GPU, True, True),
        (held("port:mlx5_0/1", 40), NEW_CABLE, False, False),
        (held("port:mlx5_0/1", 41), NEW_CABLE, False, False),
        (held("port:mlx5_0/1", 40), SAME_CABLE, True, False),
        (held("port:mlx5_0/1", 41), SAME_CABLE, True, True),
        (held("port:mlx5_1/1", 40), NEW_CABLE, True, True),
        (held("node", 40), NEW_GPU, True, False),
        (held("node", 40), NEW_GPU, False, True),
        (held("node", 30), NEW_GPU, False, True),
        (BEGUN, SAME_GPU, False, False),
    ],
)
def test_what_a_proven_swap_lifts(one: Held, row: ChangeRow, passes: bool, stays: bool) -> None:
    """Replaced parts take their reasons along; of the others, a passing check is needed."""
    seen = node(load(EIGHT))
    results = (Result("memory.x", about_now(one), Status.PASS, ""),) if passes else ()
    proof = Proof(seen, results, RunInfo(level="quick"), profile.load("h100-8x"))
    kept = after_swap([BEGUN, one], [row], proof)
    assert [each.subject for each in kept] == ([one.subject] if stays else [])


def about_now(one: Held) -> Any:
    address = {"gpu:SXM4": GPU, "gpu:SXM3": OTHER_GPU}.get(one.subject)
    return NODE if one.subject == "node" else parse_subject(one.subject)._replace(address=address)


def test_a_reseated_part_whose_check_passes_is_proven(site: Site) -> None:
    width = f"nvml:nvmlDeviceGetCurrPcieLinkWidth({GPU})"
    broken, fixed = site.at({width: 8}), site.at(BOOTED)
    assert site.do(broken, "run", "-q").code == 40
    done = begin(site, broken, part="gpu:SXM4=reseated")
    assert done.code == 0
    assert "gpu SXM4 and put it back" in done.out
    done = site.do(fixed, "swap", "verify", "--format", "json")
    assert done.code == 0, done.out
    assert site.status(fixed) == 0
    assert site.last()["swap"] is None


@pytest.mark.parametrize(
    ("changes", "check", "code"),
    [
        ({SERIAL: NEW}, "swap.named_part", 20),
        ({f"nvml:nvmlDeviceGetCurrPcieLinkWidth({GPU})": 8}, "pcie.link_width", 40),
    ],
    ids=["another part is back", "the fault is still there"],
)
def test_a_reseat_that_is_not_proven_stays_held(
    site: Site, changes: dict[str, Any], check: str, code: int
) -> None:
    broken = site.at({f"nvml:nvmlDeviceGetCurrPcieLinkWidth({GPU})": 8})
    assert site.do(broken, "run", "-q").code == 40
    begin(site, broken, part="gpu:SXM4=reseated")
    after = site.at({**changes, **BOOTED})
    done = site.do(after, "swap", "verify", "--format", "json")
    assert done.code == code, done.out
    assert check in wrong(done)
    assert site.status(after) >= 40


def test_a_part_to_be_replaced_is_not_freed_by_a_reseat(site: Site) -> None:
    begin(site, site.at(FAILED))
    after = site.at({ROWS: [0, 8, 0, 0], **BOOTED})  # and the flag shows no more
    done = site.do(after, "swap", "verify", "--expect", "gpu:SXM4=reseated", "--format", "json")
    assert done.code == 41
    assert {one["check"] for one in site.last()["hold"]["reasons"]} == {"memory.row_remap"}


def rename_in_hold(site: Site, old_ids: dict[str, str]) -> None:
    """Give the reasons of the stored hold the ids that an older gpuscan would have stored."""
    last = site.last()
    for reason in last["hold"]["reasons"]:
        reason["check"] = old_ids.get(reason["check"], reason["check"])
    Path(site.state, "last.json").write_text(json.dumps(last))


@pytest.mark.parametrize(
    ("failed", "code"), [(SUSPECT, 0), (TWO_FAILED, 41)], ids=["lifted", "stands"]
)
def test_a_hold_with_old_check_ids_is_understood(
    site: Site, failed: dict[str, Any], code: int
) -> None:
    """A reason that a passing run of its check lifts, and one on a GPU that stays in."""
    begin(site, site.at({**FAILED, **failed}))
    old_ids = {
        "memory.row_remap": "memory.no_row_remap_failed",
        "memory.row_remap_pending": "memory.no_row_remap_is_pending",
    }
    rename_in_hold(site, old_ids)
    assert {one["check"] for one in site.last()["hold"]["reasons"]} >= {
        "memory.no_row_remap_failed", "swap.begin",
    }  # fmt: skip
    repaired = {f"nvml:nvmlDeviceGetRemappedRows({OTHER_GPU})": [0, 8, 0, 0]}
    after = site.at({SERIAL: NEW, **repaired, **BOOTED})
    done = site.do(after, "swap", "verify", "--format", "json")
    assert done.code == code, done.out
    assert site.status(after) == code
    hold = site.last()["hold"]
    checks = {one["check"] for one in hold["reasons"]} if hold else set()
    assert checks == ({"memory.row_remap"} if code else set())


def test_a_swap_of_both_gpus_frees_both(site: Site) -> None:
    begin(site, site.at(TWO_FAILED), "--part", "gpu:SXM3")
    after = site.at({SERIAL: NEW, OTHER: "1650000000998", **BOOTED})
    assert site.do(after, "swap", "verify", "-q").code == 0
    assert site.status(after) == 0


def test_an_incomplete_proof_lifts_nothing(site: Site) -> None:
    begin(site, site.at(FAILED))
    after = site.at({SERIAL: NEW, **BOOTED})
    after.nvml({f"nvml:nvmlDeviceGetRemappedRows({GPU})": unread()})
    done = site.do(after, "swap", "verify", "--format", "json")
    assert done.code == 3
    assert site.status(after) == 41
    assert any("not proven: the node stays held" in note for note in done.report["notes"])


def unread() -> Any:
    from fake_nvml import Change

    return Change(code=4)


def test_a_passing_run_does_not_end_a_swap(site: Site) -> None:
    begin(site, site.at(FAILED))
    fixed = site.at({SERIAL: NEW, **BOOTED})
    assert site.do(fixed, "run", "-q").code == 0  # the held part is no longer in the node
    status = site.do(fixed, "status", "--on-incomplete", "pass")
    assert status.code == 3
    assert "swap OPS-7 is not verified yet" in status.out
    assert site.do(fixed, "swap", "verify", "-q").code == 0
    assert site.status(fixed) == 0


def test_without_a_begin_the_last_boot_is_compared(site: Site) -> None:
    assert site.do(site.at({}), "run", "-q").code == 0
    fixed = site.at({SERIAL: NEW, **BOOTED})
    assert site.do(fixed, "run", "-q").code == 0
    done = site.do(fixed, "swap", "verify", "--expect", "gpu:SXM4", "--format", "json")
    assert done.code == 0, done.out
    assert [row["slot"] for row in done.report["changes"] if row["what"] == "replaced"] == ["SXM4"]
    assert site.do(fixed, "swap", "verify", "--expect", "gpu:SXM5", "-q").code == 20


def test_nothing_to_compare_is_incomplete(site: Site, tmp_path: Path) -> None:
    healthy = site.at({})
    done = site.do(healthy, "swap", "verify", "--format", "json")
    assert done.code == 3
    assert any("swap not proven" in row.get("reason", "") for row in done.report["checks"])
    parts = tmp_path / "parts.yaml"
    parts.write_text(f"SXM4: '{site.base.get(SERIAL)}'\n")
    assert site.do(healthy, "swap", "verify", "--expected-parts", str(parts), "-q").code == 0
    parts.write_text(f"SXM4: '{NEW}'\n")
    assert site.do(healthy, "swap", "verify", "--expected-parts", str(parts), "-q").code == 20


def test_a_missing_gpu_is_named_by_what_was_seen_of_it(site: Site) -> None:
    assert site.do(site.at({}), "run", "-q").code == 0
    left = [name for name in site.base.get("dir:/sys/bus/pci/devices") if name != GPU]
    gone = site.at({"dir:/sys/bus/pci/devices": left, f"*{GPU}*": None})
    done = begin(site, gone, "--format", "json")
    assert done.code == 0, done.err
    (part,) = json.loads(done.out)["parts"]
    assert (part["slot"], part["serial"], part["address"]) == ("SXM4", site.base.get(SERIAL), GPU)
    (reason,) = [one for one in site.last()["hold"]["reasons"] if one["check"] == "swap.begin"]
    assert (reason["serial"], reason["code"]) == (site.base.get(SERIAL), 41)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--ticket", "", "--part", "gpu:SXM4"), "name the ticket"),
        (("--ticket", "T"), "name the ticket and what"),
        (
            ("--ticket", "T", "--part", "gpu:SXM44"),
            "--part gpu:SXM44: no such gpu in this node; did you mean SXM4",
        ),
        (("--ticket", "T", "--part", "fan:1"), "--part fan:1"),
        (("--ticket", "T", "--part", "none"), "a swap changes something"),
        (("--ticket", "T", "--part", "gpu:SXM4", "--bug-report", "long"), "--bug-report long"),
    ],
)
def test_bad_words(site: Site, words: tuple[str, ...], told: str) -> None:
    done = site.do(site.at({}), "swap", "begin", *words)
    assert done.code == 2
    assert told in done.err
    assert not Path(site.state, "last.json").exists()


def test_one_swap_at_a_time(site: Site) -> None:
    broken = site.at(FAILED)
    assert begin(site, broken).code == 0
    done = site.do(broken, "swap", "begin", "--ticket", "OPS-8", "--part", "gpu:SXM5")
    assert done.code == 2
    assert "a swap is under way, OPS-7 (gpu:SXM4)" in done.err
    before = site.last()["swap"]["before"]
    grown = begin(site, broken, part="nic:mlx5_3")
    assert grown.code == 0  # the same ticket may grow
    assert "OPS-7 was begun" in grown.out
    assert site.last()["swap"]["before"] == before
    assert site.last()["swap"]["parts"] == ["gpu:SXM4", "nic:mlx5_3"]


def test_a_second_begin_does_not_replace_what_the_node_was_before(site: Site) -> None:
    """The GPU is changed already: recording the new one as the old would make any proof fail."""
    begin(site, site.at(FAILED))
    fixed = site.at({SERIAL: NEW, **BOOTED})
    done = begin(site, fixed)
    assert (done.code, site.last()["swap"]["ticket"]) == (2, "OPS-7")
    for words in ("OPS-7 (gpu:SXM4) was begun", "booted since", "--again"):
        assert words in done.err
    assert site.do(fixed, "swap", "verify", "-q").code == 0


def test_a_swap_is_recorded_anew_where_that_is_asked_for(site: Site) -> None:
    begin(site, site.at({}))
    before = site.last()["swap"]["before"]
    later = site.at({**FAILED, **BOOTED})
    done = begin(site, later, "--again")
    assert done.code == 0, done.err
    assert "OPS-7 was begun" in done.out
    assert site.last()["swap"]["before"] != before
    assert Path(before).exists()


LOST = f"nvml:*({GPU})"
OLD = load(EIGHT).get(SERIAL)


def lose(machine: Machine) -> Machine:
    """Let the driver have lost the GPU, as long as the machine runs."""
    from fake_nvml import Change

    machine.nvml({LOST: Change(code=15)})
    return machine


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "not begun"])
def test_a_lost_gpu_is_proven_by_the_serial_that_the_archive_knows(site: Site, begun: bool) -> None:
    assert site.do(site.at({}), "run", "-q").code == 0
    lost = lose(site.at({BOOT: "00000002-0000-4000-8000-000000000000"}))
    assert site.do(lost, "run", "-q").code == 30
    if begun:
        done = begin(site, lost)
        assert done.code == 0, done.err
        for told in (f"serial      {OLD} (from an earlier run)", GPU, "the driver has lost it"):
            assert told in done.out
    back = site.at(BOOTED)
    verify = ("swap", "verify", "--expect", "gpu:SXM4", "--format", "json")
    assert "swap.named_part" in wrong(site.do(back, *verify))
    done = site.do(site.at({SERIAL: NEW, **BOOTED}), *verify)
    assert (done.code, wrong(done)) == (0, set()), done.out
    assert any(
        f"note {NEW} in the inventory; {OLD} goes back" in one for one in done.report["notes"]
    )


def test_a_lost_gpu_keeps_its_slot(site: Site) -> None:
    """With the archive where several are lost, without it where one is."""
    one = lose(site.at({}))
    assert {
        row["subject"] for row in site.do(one, "run", "--format", "json").report["findings"]
    } == {"gpu:SXM4"}


def test_a_swap_is_trained_on_recordings(site: Site, call: Call, tmp_path: Path) -> None:
    """Nothing is written without a state folder; with one the whole swap is played through."""
    files = {
        name: file_of(later(patch(site.base, changes), days), tmp_path, f"{name}.gz")
        for name, changes, days in (
            ("broken", FAILED, 1),
            ("fixed", {SERIAL: NEW, **BOOTED}, 2),
        )
    }
    asked = ("swap", "begin", "--ticket", "T", "--part", "gpu:SXM4", "--replay", files["broken"])
    before = sorted(tmp_path.rglob("*"))
    done = call(*asked)
    assert done.code == 0, done.err
    assert "Drill:" in done.out
    assert OLD in done.out
    assert sorted(tmp_path.rglob("*")) == before
    state = ("--state-dir", site.state)
    assert call(*asked, *state).code == 0
    verify = call("swap", "verify", "--replay", files["fixed"], *state)
    assert verify.code == 0, verify.out
    assert "Drill:" in verify.out
    assert "swap T is proven" in verify.out
    assert call("swap", "verify", "--replay", files["fixed"]).code == 3


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("cable:mlx5_0/1", 40),
        ("nic:mlx5_0", 41),
        ("disk:nvme0", 41),
        ("baseboard", 41),
        ("tray", 41),
    ],
)
def test_every_kind_of_part_can_be_swapped(site: Site, part: str, code: int) -> None:
    healthy = site.at({})
    done = begin(site, healthy, part=part)
    assert done.code == 0, done.err
    assert site.status(healthy) == code


def test_a_state_that_cannot_be_written_begins_no_swap(site: Site, tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    done = begin(site, site.at({}))
    assert done.code == 2


def test_the_bug_report_is_part_of_the_evidence(site: Site, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    script = tools / "nvidia-bug-report.sh"
    script.write_text(
        '#!/bin/sh\nwhile [ "$1" != --output-file ]; do shift; done\necho log > "$2.gz"\n'
    )
    script.chmod(0o755)
    broken = site.at(FAILED)
    done = broken.plain(
        "swap",
        "begin",
        "--ticket",
        "T",
        "--part",
        "gpu:SXM4",
        "--state-dir",
        site.state,
        env={"PATH": f"{tools}:/usr/bin:/bin"},
    )
    assert done.code == 0, done.err
    names = {path.name for path in Path(site.last()["swap"]["folder"]).iterdir()}
    assert any(name.startswith("nvidia-bug-report") for name in names), names


def test_the_newest_failing_run_makes_the_ticket(site: Site, call: Call, tmp_path: Path) -> None:
    broken = site.at(FAILED)
    assert site.do(broken, "run", "-q").code == 41
    assert site.do(broken, "run", "-q", "--tried", "reseat").code == 41
    done = site.ask("ticket")
    assert done.code == 0, done.err
    assert "newest failing run: gpu-042" in done.err
    assert site.base.get(SERIAL) in done.out
    assert "reseat" in done.out
    other = tmp_path / "other"
    call("judge", file_of(site.base, tmp_path, "x.gz"), "--state-dir", str(other))
    refused = call("ticket", "--state-dir", str(other))
    assert refused.code == 2
    assert "no failing run is stored" in refused.err


def test_settling_waits_for_a_pass(site: Site) -> None:
    """A GPU that comes back within the time is no fault; one that does not is told when the time
    is over.
    """
    broken = site.at(FAILED)
    assert site.do(broken, "run", "-q", "--settle", "1s").code == 41
    done = site.do(broken, "run", "-q", "--settle", "soon")
    assert done.code == 2
