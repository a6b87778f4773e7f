"""The scheduler and the worker pool of a burn-in, in-process: what they do about wrong, slow, stuck
and lost GPUs, about deadlines, signals and checkpoints.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_burnin import (
    FATAL,
    GPUS,
    LABELS,
    QUICKLY,
    SCAN,
    BurntIn,
    FakeLauncher,
    FakeReader,
    Fault,
    burn_in,
    steps_of,
)

from gpuscan.burnin.plan import END_KEY
from gpuscan.errors import UsageError
from gpuscan.live.limits import Limits
from gpuscan.model import Unread, is_unread
from gpuscan.model.outcome import Finding, Result, Status
from gpuscan.recording import load, patch

BAD, GOOD = GPUS
BAD_LABEL, GOOD_LABEL = LABELS
LONG = {"level": "long", "times": {"long": QUICKLY}}


def subjects(results: list[Result]) -> set[str]:
    return {result.subject for result in results}


def findings(done: BurntIn, check: str) -> list[tuple[Result, Finding]]:
    failed = [*done.of(check, Status.FAIL), *done.of(check, Status.WARN)]
    return [(result, finding) for result in failed for finding in result.findings]


def actions(done: BurntIn, check: str) -> set[tuple[str | None, str]]:
    """The address and action of each finding of a check."""
    return {(result.address, finding.action.value) for result, finding in findings(done, check)}


def reasons(done: BurntIn, status: Status = Status.UNKNOWN) -> dict[str, str]:
    return {result.subject: result.reason for result in done.of("completion", status)}


def on(tests: str, change: Any, *, until: int = 1 << 30, dtype: str = "") -> Fault:
    """A fault in tests whose name begins so, the first times that they are asked."""

    def fault(test: Mapping[str, Any], count: int) -> Any:
        hit = test["test"].startswith(tests) and dtype in ("", test.get("dtype"))
        return change if hit and count <= until else None

    return fault


def slower(share: float, *, until: int = 1 << 30) -> Fault:
    """A matrix product at a share of a usual speed."""
    return on("gemm-stress", {"numbers": {"tflops": 700 * share}}, until=until, dtype="bf16")


WRONG = {"status": "fail", "mismatches": 3, "text": "3 mismatches"}


# --- good GPUs


def test_two_good_gpus_pass_every_test() -> None:
    done = burn_in()
    assert (done.report.exit_code, done.report.complete) == (0, True)
    ran = subjects(done.of("completion", Status.PASS))
    names = ("memory", "hbm", "pcie", "exact-bf16", "stress-fp8", "exact-bf16-hot", "pcie-together")
    for label, other in (LABELS, reversed(LABELS)):
        assert {f"test:{label} {name}" for name in names} <= ran
        assert f"test:{label} peer {other}" in ran
    assert "test:node end" in ran
    compared = {name for name in ran if not name.endswith((" open", " end"))}
    assert subjects(done.of("corruption", Status.PASS)) == compared
    assert len(done.of("product_match", Status.PASS)) == 2 * 6
    assert not done.time.slept, "nothing was tried again"


def test_all_gpus_start_each_test_together_but_for_pcie() -> None:
    """On PCIe one after the other, so that each has the host for itself."""
    asked = burn_in().fleet.asked
    together = [gpu for gpu, test in asked if test["test"] == "gemm-exact"]
    assert together == [*GPUS] * (len(together) // 2)
    assert [gpu for gpu, test in asked if test["test"] == "pcie"][:2] == [*GPUS]
    assert [test["peers"] for _, test in asked if test["test"] == "peer"] == [[GOOD], [BAD]]
    assert [test["cards"] for _, test in asked if test["test"] == "nccl"] == [[*GPUS]]


def test_load_is_sampled_once_a_second() -> None:
    load = burn_in().result(f"stress-bf16({BAD})")["load"]
    assert 13 <= load["samples"] <= 16
    assert (load["core_c"], load["power_w"], load["sm_clock_mhz"]) == (66, 690.0, 1755)


def test_a_counter_that_rises_is_found_in_its_test() -> None:
    key = f"nvml:nvmlDeviceGetPcieReplayCounter({BAD})"

    def rise(fleet: FakeLauncher) -> None:
        if any(test["test"] == "hbm" for _, test in fleet.asked):
            fleet.reader.values[key] = 500

    done = burn_in(on_turn=rise)
    ((result, finding),) = findings(done, "error_counters")
    assert result.subject == f"test:{BAD_LABEL} hbm"
    assert "PCIe replays" in finding.message


def test_an_unread_counter_is_kept_once() -> None:
    """In a soak of days it would fill the memory otherwise."""
    done = burn_in()
    errors = Counter(
        (reading.key, reading.phase) for reading in done.recording if reading.error is not None
    )
    assert max(errors.values()) == 1


# --- wrong and slow GPUs, and second tries


def test_a_gpu_that_computes_wrong_twice_is_replaced() -> None:
    done = burn_in(faults={BAD: on("gemm", WRONG)})
    assert done.report.exit_code == 41
    assert actions(done, "corruption") == {(BAD, "replace")}
    found = findings(done, "corruption")
    assert all("when it was run again" in finding.message for _, finding in found)
    assert not done.time.slept, "what is wrong is repeated at once"


def test_wrong_once_is_suspect() -> None:
    done = burn_in(faults={BAD: on("gemm-exact", WRONG, until=1, dtype="int8")})
    ((_, finding),) = findings(done, "corruption")
    assert (done.report.exit_code, finding.action.value) == (20, "investigate")
    assert "none when it was run again" in finding.message


def test_a_deviating_product_is_made_again() -> None:
    other = {"numbers": {"got": "0123456789abcdef"}}
    done = burn_in(faults={BAD: on("gemm-stress", other, dtype="bf16")})
    for gpu in GPUS:
        value = done.result(f"stress-bf16({gpu})")
        assert value["again"]["numbers"]["got"] == value["numbers"]["got"]
        assert value["mismatches"] == 0
    assert done.of("product_match", Status.FAIL)


def test_wrong_transfers_blame_both_ends() -> None:
    done = burn_in(
        faults={BAD: lambda test, _: WRONG if test["test"] in ("pcie", "peer") else None}
    )
    assert {action for _, action in actions(done, "corruption")} == {"inspect"}
    messages = [finding.message for _, finding in findings(done, "corruption")]
    assert any("the GPU, the host or the link" in message for message in messages)
    assert any("or what links them" in message for message in messages)


def test_an_unproven_detector_proves_nothing() -> None:
    deaf = {"status": "unknown", "text": "the detector missed a flip that was injected"}
    done = burn_in(faults={BAD: lambda _test, _count: deaf})
    assert (done.report.exit_code, done.report.complete) == (3, False)
    unread = reasons(done)
    assert len(unread) > 15
    assert {subject.split(" ")[0] for subject in unread} <= {f"test:{BAD_LABEL}", "test:node"}
    assert all("missed a flip" in reason for reason in unread.values())


def test_a_slow_gpu_is_tried_again_after_a_pause() -> None:
    done = burn_in(faults={BAD: slower(0.8), GOOD: slower(1.0)})
    assert done.time.slept == [5.0]
    assert done.result(f"stress-bf16({BAD})")["again"]["numbers"]["tflops"] == 560
    assert "again" not in done.result(f"stress-bf16({GOOD})")
    messages = [finding.message for _, finding in findings(done, "floor")]
    assert messages
    assert all("at a second try" in message for message in messages)


def test_a_second_try_that_is_fast_is_enough() -> None:
    done = burn_in(faults={BAD: slower(0.8, until=1), GOOD: slower(1.0)})
    assert done.report.exit_code == 0


@pytest.mark.parametrize(("share", "tries"), [(0.94, 2), (0.96, 1)])
def test_slow_is_more_than_5_percent_below_the_median(share: float, tries: int) -> None:
    faults = {BAD: slower(share), GOOD: slower(1.0)}
    done = burn_in(faults=faults, settings=("burnin.gemm_bf16_tflops=null",))
    assert done.fleet.counts[(BAD, "gemm-stress", "bf16")] == tries
    assert bool(findings(done, "node_median")) is (tries == 2)


def test_a_rate_below_its_floor_is_tried_again() -> None:
    done = burn_in(settings=("burnin.hbm_copy_gbps=1000000",))
    found = findings(done, "floor")
    assert done.report.exit_code == 20
    assert [finding.action.value for _, finding in found] == ["investigate"] * 2
    assert all("the floor is 1000000" in finding.message for _, finding in found)
    assert all(done.fleet.counts[(gpu, "hbm", "")] == 2 for gpu in GPUS)


def test_the_way_through_the_host_is_held_to_the_direct_floor() -> None:
    """GPUs that do not reach each other: both ways are alike, and slow by that floor only."""

    def apart(test: Mapping[str, Any], _count: int) -> Any:
        if test["test"] != "peer":
            return None
        return {"numbers": {"peers": {test["peers"][0]: {"direct": False, "one_way_gbps": 21.0}}}}

    done = burn_in(faults={BAD: apart, GOOD: apart})
    messages = [finding.message for _, finding in findings(done, "floor")]
    assert len(messages) == 2
    assert all("peer_through_host_one_way_gbps: 21" in message for message in messages)
    assert all("at a second try" in message for message in messages)


def test_stuck_at_the_second_try_is_stuck() -> None:
    """It was slow at first, which alone would be forgiven."""

    def fault(test: Mapping[str, Any], count: int) -> Any:
        if (test["test"], test.get("dtype")) != ("gemm-stress", "bf16"):
            return None
        return {"numbers": {"tflops": 500.0}} if count == 1 else "hang"

    done = burn_in(faults={BAD: fault})
    assert actions(done, "completion") == {(BAD, "reset-gpu")}
    assert done.report.exit_code == 30


# --- stuck, lost and unopened GPUs


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"status": "fail", "error": {"name": "HUNG", "code": 0}, "text": "did not finish"},
            "the GPU hung: did not finish",
        ),
        ({"status": "fail", **FATAL}, "the GPU failed under load: uncorrectable"),
        ("hang", "the GPU hung: the worker was silent for 6"),
        ("busy", "the GPU hung: the test did not end in its time"),
    ],
    ids=["hung", "lost", "silent", "busy"],
)
def test_a_gpu_that_fails_under_load_is_not_asked_again(change: Any, words: str) -> None:
    done = burn_in(faults={BAD: on("hbm", change)})
    ((result, finding),) = findings(done, "completion")
    assert (result.address, finding.action.value) == (BAD, "reset-gpu")
    assert words in finding.message
    assert (done.report.exit_code, done.report.complete) == (30, False)
    unread = reasons(done)
    assert {name.split(" ")[0] for name in unread if "peer" not in name} <= {
        f"test:{BAD_LABEL}",
        "test:node",
    }
    assert [test["test"] for gpu, test in done.fleet.asked if gpu == BAD] == ["memory", "hbm"]
    assert f"test:{GOOD_LABEL} exact-fp8" in subjects(done.of("corruption", Status.PASS))


@pytest.mark.parametrize(
    ("name", "action", "words"),
    [
        ("NOT_STARTED", "investigate", "is nvidia-uvm loaded"),
        ("CUDA_ERROR_SYSTEM_NOT_READY", "fix-config", "Fabric Manager"),
        ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "fix-config", "of different versions"),
        ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "fix-config", "newer than the driver"),
        ("CUDA_ERROR_STUB_LIBRARY", "fix-config", "the toolkit's stub"),
        ("CUDA_ERROR_DEVICE_UNAVAILABLE", "fix-config", "another program has the GPU"),
        ("CUDA_ERROR_UNKNOWN", "reset-gpu", "the GPU could not be opened"),
    ],
)
def test_a_gpu_that_cannot_be_opened_says_what_fixes_it(name: str, action: str, words: str) -> None:
    error = {"name": name, "code": 999, "text": f"cuInit: {name}"}
    done = burn_in(opening={BAD: error, GOOD: error})
    assert {each for _, each in actions(done, "completion")} == {action}
    assert all(words in finding.message for _, finding in findings(done, "completion"))
    assert done.report.exit_code == (30 if action == "reset-gpu" else 20)
    assert not done.fleet.asked


def test_a_gpu_that_never_opens_is_stuck() -> None:
    done = burn_in(opening={BAD: "silent"}, limits=Limits(init_s=20, worker_s=10))
    ((result, finding),) = findings(done, "completion")
    assert result.address == BAD
    assert "could not be opened within 20 s" in finding.message


def test_a_worker_that_breaks_blames_no_gpu() -> None:
    done = burn_in(opening=dict.fromkeys(GPUS, "die"))
    assert (done.report.exit_code, done.report.complete) == (3, False)
    opened = [reason for subject, reason in reasons(done).items() if subject.endswith(" open")]
    assert len(opened) == 2
    assert all("exited with code 1 (ValueError: x)" in reason for reason in opened)
    assert not findings(done, "completion")


def test_a_process_that_cannot_be_started_blames_no_gpu() -> None:
    done = burn_in(opening=dict.fromkeys(GPUS, FileNotFoundError(2, "No such file or directory")))
    assert (done.report.exit_code, done.report.complete) == (3, False)
    assert any(
        "no process could be started for it: No such file or directory" in reason
        for reason in reasons(done).values()
    )


def test_a_pair_that_fails_names_both_ends_and_costs_no_other_test() -> None:
    """The sender's process says so, and cannot know whose fault it was; its worker is replaced."""
    done = burn_in(faults={BAD: on("peer", {"status": "fail", **FATAL})})
    ((result, finding),) = findings(done, "completion")
    assert result.subject == f"test:{BAD_LABEL} peer {GOOD_LABEL}"
    assert finding.culprits == (BAD_LABEL, GOOD_LABEL)
    assert done.report.exit_code == 30
    passed = subjects(done.of("completion", Status.PASS))
    assert {f"test:{GOOD_LABEL} peer {BAD_LABEL}", "test:node nccl"} <= passed
    assert not [reason for reason in reasons(done).values() if "not finished" in reason]
    assert len([worker for worker in done.fleet.workers if worker.address == BAD]) == 2


def test_a_worker_killed_from_outside_costs_one_test() -> None:
    done = burn_in(faults={BAD: on("hbm", "die")})
    assert (done.report.exit_code, done.report.complete) == (3, False)
    ((subject, reason),) = reasons(done).items()
    assert subject == f"test:{BAD_LABEL} hbm"
    assert "was killed by SIGKILL" in reason
    assert len(done.of("completion", Status.PASS)) > 30


def test_a_garbled_result_proves_nothing() -> None:
    done = burn_in(faults={BAD: on("hbm", {"operations": "many"})})
    ((subject, reason),) = reasons(done).items()
    assert subject == f"test:{BAD_LABEL} hbm"
    assert "garbled" in reason


def test_a_machine_that_was_stopped_was_not_silent() -> None:
    """As when a container is frozen for a while, in a test and while the GPUs are opened."""
    done = burn_in(freezes=[(0.1, 130.0), (160.0, 90.0)])
    assert done.report.exit_code == 0


# --- the end: deadlines, signals


def test_a_deadline_ends_it() -> None:
    done = burn_in(deadline_s=25.0)
    assert (done.report.exit_code, done.report.complete) == (3, False)
    unread = reasons(done)
    assert "not finished: the deadline was near" in unread[f"test:{BAD_LABEL} stress-bf16"]
    assert "not run: the deadline was near" in unread[f"test:{BAD_LABEL} stress-fp64"]
    assert f"test:{BAD_LABEL} exact-bf16" not in unread
    assert "the burn-in ended after 25 s" in unread["test:node end"]


def test_a_signal_ends_it_and_what_was_found_is_kept() -> None:
    done = burn_in(interrupt_s=20.0)
    unread = reasons(done)
    assert done.of("completion", Status.PASS)
    assert "ended by a signal" in unread[f"test:{BAD_LABEL} stress-fp64"]
    assert all(worker.ended for worker in done.fleet.workers)


def test_a_signal_while_gpus_are_opened_blames_none() -> None:
    done = burn_in(interrupt_s=0.1)
    assert not findings(done, "completion")
    assert {test["test"] for _, test in done.fleet.asked} == {"memory"}


def test_no_second_try_after_a_signal() -> None:
    name = (BAD, "gemm-stress", "bf16")

    def interrupt_at_result(fleet: FakeLauncher) -> None:
        if fleet.counts[name] == 1:
            due = [worker.due[-1][0] for worker in fleet.workers if worker.due]
            fleet.time.interrupt_s = min(fleet.time.interrupt_s, *due)

    fault = on("gemm-stress", WRONG, dtype="bf16")
    done = burn_in(faults={BAD: fault}, on_turn=interrupt_at_result)
    assert done.result(f"stress-bf16({BAD})")["status"] == "fail"
    assert done.fleet.counts[name] == 1


def test_a_counter_behind_the_end_keeps_what_was_read() -> None:
    """Readings that were cut off by the deadline say nothing of the GPU."""
    key = f"nvml:nvmlDeviceGetPcieReplayCounter({BAD})"

    def block(reader: FakeReader) -> None:
        reader.ends_s = 1000.0
        reader.values[key] = Unread(key, "blocked-behind", "the scan ended before")

    done = burn_in(reader=block)
    assert not [reading for reading in done.recording.all(key) if reading.phase == "before"]


# --- soaks


def test_a_soak_goes_round_until_its_time_is_spent() -> None:
    done = burn_in(**LONG, duration_s=120.0)
    assert done.report.exit_code == 0
    result = done.result(f"stress-bf16({BAD})")
    assert result["runs"] >= 2
    ran = subjects(done.of("completion", Status.PASS))
    assert {f"test:{label} {name}" for label in LABELS for name in ("fade", "pulse-bf16")} <= ran
    once = burn_in(**LONG, duration_s=1.0).result(f"exact-fp8({BAD})")
    often = done.result(f"exact-fp8({BAD})")
    assert often["operations"] == often["runs"] * once["operations"]


def test_a_soak_that_the_deadline_ends_is_incomplete() -> None:
    """Although every test has run in its first round."""
    done = burn_in(**LONG, duration_s=86400.0, deadline_s=200.0)
    assert (done.report.exit_code, done.report.complete) == (3, False)
    assert done.result(f"stress-bf16({BAD})")["runs"] >= 2
    assert "test:node end" in reasons(done)
    assert not [each for each in done.report.results if each.status is Status.FAIL]


def test_wrong_twice_stays_so_in_later_rounds() -> None:
    """Whatever the same test finds when the GPU has cooled down."""
    fault = on("gemm-exact", WRONG, until=2, dtype="int8")
    done = burn_in(**LONG, duration_s=120.0, faults={BAD: fault})
    assert done.result(f"exact-int8({BAD})")["runs"] >= 2
    assert (done.report.exit_code, actions(done, "corruption")) == (41, {(BAD, "replace")})


def test_a_round_that_is_cut_keeps_the_earlier_result() -> None:
    done = burn_in(**LONG, duration_s=86400.0, deadline_s=100.0)
    values = [
        reading.value for reading in done.recording if reading.key.startswith("burnin:exact-bf16(")
    ]
    assert [value["status"] for value in values] == ["pass", "pass"]


# --- checkpoints


def killed(checkpoint: Path, **how: Any) -> Path:
    """Leave the checkpoint of a burn-in that was killed after some steps."""

    class Killed(Exception):
        pass

    steps = how.pop("after", 6)

    def kill(_fleet: FakeLauncher) -> None:
        if checkpoint.exists() and steps_of(checkpoint) >= steps:
            raise Killed

    with pytest.raises(Killed):
        burn_in(checkpoint=str(checkpoint), on_turn=kill, **how)
    return checkpoint


def test_a_killed_one_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    checkpoint = killed(tmp_path / "soak.json.gz")
    done_before = steps_of(checkpoint)
    done = burn_in(checkpoint=str(checkpoint))
    assert done.report.exit_code == 0
    assert len(done.of("completion", Status.PASS)) == len(burn_in().of("completion", Status.PASS))
    plan = done.scheduler.plan
    asked = sum(len(step.gpus) for step in plan.steps[done_before:])
    assert len(done.fleet.asked) == asked
    assert steps_of(checkpoint) == len(plan.steps)


def test_a_gpu_that_failed_before_the_kill_is_not_forgotten(tmp_path: Path) -> None:
    """It could not be opened, can be now, and has missed the tests of the steps that were done."""
    error = {"name": "CUDA_ERROR_UNKNOWN", "code": 999, "text": "cuInit"}
    checkpoint = killed(tmp_path / "soak.json.gz", opening={BAD: error})
    done = burn_in(checkpoint=str(checkpoint))
    assert done.report.exit_code == 30
    assert f"test:{BAD_LABEL} open" in subjects(done.of("completion", Status.FAIL))
    missed = done.recording.get(f"burnin:memory({BAD})")
    assert is_unread(missed)
    assert "cuInit" in missed.text


@pytest.mark.parametrize(("spent_s", "code"), [(86400, 0), (3600, 3)], ids=["over", "not over"])
def test_a_soak_whose_time_is_over_needs_no_further_round(
    tmp_path: Path, spent_s: float, code: int
) -> None:
    """It was killed in its second round, resumes, and is cut by its deadline."""
    checkpoint = tmp_path / "soak.json"
    soak = {**LONG, "duration_s": 86400.0}
    burn_in(**soak, deadline_s=100.0, checkpoint=str(checkpoint))
    kept = json.loads(checkpoint.read_text("utf-8"))
    assert kept["checkpoint"]["rounds"] > 0
    kept["checkpoint"] |= {"spent_s": spent_s, "steps": 0}
    checkpoint.write_text(json.dumps(kept), "utf-8")
    done = burn_in(**soak, deadline_s=10.0, checkpoint=str(checkpoint))
    assert done.report.exit_code == code
    passed = subjects(done.of("completion", Status.PASS))
    assert ("test:node end" in passed) is (code == 0)
    assert f"test:{BAD_LABEL} exact-bf16" in passed, "as its first round found it"


def test_a_checkpoint_that_cannot_be_written_any_more_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "soaks"
    folder.mkdir()

    def lose(fleet: FakeLauncher) -> None:
        if folder.exists() and len(fleet.asked) > 4:
            folder.rename(tmp_path / "gone")

    done = burn_in(checkpoint=str(folder / "soak.json"), on_turn=lose)
    assert done.report.exit_code == 0
    assert capsys.readouterr().err.count("goes on without it") == 1


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("began_at", float("inf")),
        ("began_at", float("nan")),
        ("began_at", 1e18),
        ("began_at", "x"),
        ("spent_s", float("inf")),
        ("rounds", "x"),
        ("of", 3),
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_refused(tmp_path: Path, name: str, odd: Any) -> None:
    checkpoint = killed(tmp_path / "soak.json")
    kept = json.loads(checkpoint.read_text("utf-8"))
    kept["checkpoint"][name] = odd
    checkpoint.write_text(json.dumps(kept), "utf-8")
    with pytest.raises(UsageError, match="no checkpoint of a burn-in"):
        burn_in(checkpoint=str(checkpoint))


def test_a_checkpoint_with_a_garbled_result_is_refused(tmp_path: Path) -> None:
    checkpoint = killed(tmp_path / "soak.json")
    text = checkpoint.read_text("utf-8").replace('"status":"pass"', '"status":"fine"')
    checkpoint.write_text(text.replace('"status": "pass"', '"status": "fine"'), "utf-8")
    with pytest.raises(UsageError, match="no checkpoint of a burn-in"):
        burn_in(checkpoint=str(checkpoint))


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="no checkpoint of a burn-in"):
        burn_in(checkpoint=str(other))
    assert other.read_text("utf-8") == "{}"


def test_a_checkpoint_of_another_gpu_is_refused(tmp_path: Path) -> None:
    """At the same address: the node next to it, or the part that came after."""
    checkpoint = killed(tmp_path / "soak.json")
    uuid = f"nvml:nvmlDeviceGetUUID({BAD})"
    other = patch(SCAN, {uuid: "GPU-00000000-1111-2222-3333-444444444444"})
    with pytest.raises(UsageError, match="uuids differ"):
        burn_in(checkpoint=str(checkpoint), scan=other)
    unread = patch(SCAN, {uuid: {"error": ["garbled", "planted"]}})
    with pytest.raises(UsageError, match="could not say which GPU was tested"):
        burn_in(checkpoint=str(tmp_path / "new.json"), scan=unread)
    with pytest.raises(UsageError, match=r"keys, level, rounds_s differ"):
        burn_in(checkpoint=str(checkpoint), **LONG)


def test_the_end_is_not_taken_over_from_a_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "soak.json"
    burn_in(checkpoint=str(checkpoint), deadline_s=20.0)
    done = burn_in(checkpoint=str(checkpoint))
    assert not is_unread(done.recording.get(END_KEY))
    assert (load(str(checkpoint)).meta.checkpoint or {})["spent_s"] > 0


# --- other programs


@pytest.fixture
def dcgmi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that leaves a file when it is started."""
    program = tmp_path / "bin" / "dcgmi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "started"


def test_other_programs_run_after_our_own_tests(dcgmi: Path) -> None:
    progress = io.StringIO()
    burn_in(tools=True, progress=progress)
    assert dcgmi.exists()
    assert "dcgmi-diag" in progress.getvalue().splitlines()[-1]


@pytest.mark.parametrize("why", ["lost", "signal"])
def test_other_programs_do_not_run_where_a_gpu_failed_or_a_signal_came(
    dcgmi: Path, why: str
) -> None:
    how: dict[str, Any] = (
        {"faults": {BAD: on("hbm", {"status": "fail", **FATAL})}}
        if why == "lost"
        else {"interrupt_s": 20.0}
    )
    done = burn_in(tools=True, **how)
    assert not dcgmi.exists()
    reading = done.recording.all("run:dcgmi diag -r 1 -j")[-1]
    assert reading.error is not None
    assert ("lost the GPU" if why == "lost" else "ended by a signal") in reading.error.text
