"""A burn-in through the command line: real workers on a stand-in for the driver, on a fake machine
of two H100.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from machine import (
    ENOUGH_S,
    LIMITS,
    MARK,
    Done,
    Machine,
    call,
    finished,
    gpus_of,
    living,
    nobody_left,
    wait_for,
)
from paths import RECORDINGS, ROOT, TESTS

from gpuscan import collectors
from gpuscan.profile import load as load_profile
from gpuscan.recording import Recording, load, patch

pytestmark = pytest.mark.burnin
TWO = RECORDINGS / "h100-2x.json.gz"
SMALL = {
    "gemm-exact": {"size": 256, "seconds": 0},
    "gemm-stress": {"size": 256, "seconds": 0},
    "memory": {"patterns": ["address", "random"], "fraction": 0.05},
    "hbm": {"mib": 0.0625, "seconds": 0},
    "pcie": {"mib": 0.0625, "seconds": 0},
    "peer": {"mib": 0.0625, "seconds": 0},
}
Make = Callable[[Recording], Machine]
Burn = Callable[..., Done]


@pytest.fixture
def two(machine: Make) -> Machine:
    return machine(load(str(TWO)))


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The profile of a GPU that nobody has a floor for: the stand-in takes the time that it is
    told to.
    """
    floors = [
        key
        for key, value in load_profile("h100").data["burnin"].items()
        if isinstance(value, (int, float))
    ]
    path = tmp_path / "slow.yaml"
    lines = ["extends: h100", "burnin:", "  estimates: []", *(f"  {key}: null" for key in floors)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def gpus(machine: Machine) -> list[str]:
    return machine.gpus()


def label(machine: Machine, address: str) -> str:
    return next(
        gpu.label for gpu in collectors.node(machine.recording).gpus if gpu.address == address
    )


def env(
    faults: dict[str, Any] | None = None, scale: dict[str, Any] | None = None
) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(TESTS), str(TESTS / "fake_cuda" / "binding")])
    return {
        "PYTHONPATH": path,
        "GPUSCAN_BURNIN_SCALE": json.dumps(SMALL | (scale or {})),
        "FAKE_CUDA_FAULTS": json.dumps(faults or {}),
    }


@pytest.fixture
def burn(two: Machine, profile: str) -> Burn:
    def run(
        *words: str, on: Machine = two, faults: dict[str, Any] | None = None, **more: Any
    ) -> Done:
        return on.run(
            "--level",
            "quick",
            "--profile",
            profile,
            *words,
            env=env(faults, more.pop("scale", None)),
            **more,
        )

    return run


def that(done: Done, check: str, status: str) -> list[str]:
    return [subject for subject, found in done.of(f"burnin.{check}").items() if found == status]


def test_two_good_gpus(burn: Burn, two: Machine, profile: str) -> None:
    done = burn()
    assert done.verdict == (0, "pass", True), done.report["findings"]
    assert done.report["run"]["level"] == "quick"
    ran = that(done, "completion", "pass")
    labels = [part["slot"] for part in done.report["parts"] if part["kind"] == "gpu"]
    for label, other in (labels, reversed(labels)):
        names = (
            "memory",
            "hbm",
            "pcie",
            "exact-bf16",
            "stress-fp8",
            "exact-bf16-hot",
            "memory-hot",
            "pcie-together",
        )
        assert {f"test:{label} {name}" for name in names} <= set(ran)
        assert f"test:{label} peer {other}" in ran
    assert len(that(done, "corruption", "pass")) == len(
        [name for name in ran if not name.endswith((" nccl", " open", " end"))]
    )
    assert len(that(done, "product_match", "pass")) == 2 * 6
    assert "level quick on 2 GPUs" in done.err
    assert done.report["run"]["drill"] is True, "the tests were made small: that is no burn-in"
    again = two.plain(
        "run", "--format", "json", "--profile", profile, "--replay", str(two.file), env=env()
    )
    assert again.report["checks"] == done.report["checks"]


def test_a_gpu_that_computes_wrong_is_replaced(burn: Burn, two: Machine) -> None:
    bad, good = gpus(two)
    done = burn(faults={bad: {"flip": ["gemm"]}})
    assert done.code == 41
    wrong = [row for row in done.report["findings"] if row["check"] == "burnin.corruption"]
    assert {row["address"] for row in wrong} == {bad}
    assert {row["action"] for row in wrong} == {"replace"}
    assert all("when it was run again" in row["message"] for row in wrong)
    assert [target["address"] for target in done.report["summary"]["targets"]] == [bad]
    assert good not in {row["address"] for row in wrong}


def test_a_product_with_bits_of_its_own_is_made_again(burn: Burn, two: Machine) -> None:
    """All its products are alike, so that no comparison with its own first one finds anything."""
    bad, _ = gpus(two)
    burn("--only", "burnin", faults={bad: {"flip": ["gemm"], "every": 1}})
    made = {
        reading.key: reading.value
        for reading in two.recorded
        if reading.key.startswith("burnin:stress-bf16(")
    }
    assert len({value["numbers"]["got"] for value in made.values()}) == 2
    assert all(
        value["again"]["numbers"]["got"] == value["numbers"]["got"] for value in made.values()
    )
    assert {value["mismatches"] for value in made.values()} == {0}


def test_what_is_wrong_once_is_suspect(burn: Burn, two: Machine) -> None:
    bad, _ = gpus(two)
    done = burn(faults={bad: {"flip": ["gemm"], "until": 4}})
    (row,) = [row for row in done.report["findings"] if row["check"] == "burnin.corruption"]
    assert (done.code, row["action"]) == (20, "investigate")
    assert "none when it was run again" in row["message"]


def test_a_transfer_that_is_wrong_blames_the_way(burn: Burn, two: Machine) -> None:
    bad, _ = gpus(two)
    done = burn(faults={bad: {"flip": ["copy"], "every": 2}})
    rows = [row for row in done.report["findings"] if row["check"] == "burnin.corruption"]
    assert done.code == 41, "copies within the GPU are wrong, too, in more than one test"
    rows = [row for row in rows if "pcie" in row["subject"] or "peer" in row["subject"]]
    assert {row["action"] for row in rows} == {"inspect"}
    assert any("the GPU, the host or the link" in row["message"] for row in rows)
    assert any("or what links them" in row["message"] for row in rows)


def test_a_detector_that_sees_nothing_proves_nothing(burn: Burn, two: Machine) -> None:
    deaf, _ = gpus(two)
    done = burn(faults={deaf: {"deaf": ["check", "compare"]}})
    assert done.verdict == (3, "incomplete", False)
    rows = [
        row
        for row in done.report["checks"]
        if row["id"] == "burnin.completion" and row["status"] == "unknown"
    ]
    assert {row["subject"].split(" ")[0] for row in rows} <= {
        f"test:{label(two, deaf)}",
        "test:node",
    }
    assert all("did not find a flip" in row["reason"] for row in rows)
    assert len(rows) > 15


def test_a_slow_gpu_is_tried_again_and_told(burn: Burn, two: Machine) -> None:
    slow, good = gpus(two)
    done = burn("--only", "burnin", faults={slow: {"ms": 6e-5}, good: {"ms": 5e-5}})
    rows = [row for row in done.report["findings"] if row["check"] == "burnin.node_median"]
    assert done.code == 20
    assert {(row["address"], row["action"]) for row in rows} == {(slow, "investigate")}
    assert all("at a second try" in row["message"] for row in rows)


def test_what_is_held_to_the_direct_way_s_floor_is_tried_again_by_it(
    burn: Burn, two: Machine
) -> None:
    """GPUs that do not reach each other: both ways through the host are alike, and slow by that
    floor only.
    """
    apart = {gpu: {"apart": True} for gpu in gpus(two)}
    done = burn("--only", "burnin", "--set", "burnin.peer_one_way_gbps=1000000", faults=apart)
    told = [row["message"] for row in done.report["findings"] if row["check"] == "burnin.floor"]
    assert done.code == 20
    assert told
    assert all(
        "peer_through_host_one_way_gbps" in message and "at a second try" in message
        for message in told
    )


def test_a_floor_that_nothing_reaches(burn: Burn) -> None:
    done = burn("--only", "burnin", "--set", "burnin.hbm_copy_gbps=1000000")
    rows = [row for row in done.report["findings"] if row["check"] == "burnin.floor"]
    assert done.code == 20
    assert len(rows) == 2
    assert all(
        row["action"] == "investigate" and "the floor is 1000000" in row["message"] for row in rows
    )


@pytest.mark.parametrize(
    ("fault", "action", "words"),
    [
        ({"fail": {"cuEventQuery": 600}}, "reset-gpu", "did not finish what was started"),
        ({"fail": {"cuMemcpyAsync": 214}}, "reset-gpu", "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ({"hang": "cuMemcpyAsync"}, "reset-gpu", "told nothing"),
    ],
)
def test_a_gpu_that_fails_under_load_is_not_asked_again(
    burn: Burn, two: Machine, fault: Any, action: str, words: str
) -> None:
    bad, _ = gpus(two)
    done = burn(faults={bad: fault}, limits=f"{LIMITS},worker=2")
    rows = [row for row in done.report["findings"] if row["check"] == "burnin.completion"]
    assert [(row["address"], row["action"]) for row in rows] == [(bad, action)]
    assert words in rows[0]["message"]
    assert done.code == 30
    assert not done.report["summary"]["complete"]
    unread = [
        row
        for row in done.report["checks"]
        if row["id"] == "burnin.completion" and row["status"] == "unknown"
    ]
    assert unread
    assert {row["subject"].split(" ")[0] for row in unread if "peer" not in row["subject"]} <= {
        f"test:{label(two, bad)}",
        "test:node",
    }
    assert that(done, "corruption", "pass"), "the other GPU went on"


@pytest.mark.parametrize(
    ("call", "code", "action", "words"),
    [
        ("cuInit", 999, "investigate", "is nvidia-uvm loaded"),
        ("cuInit", 304, "investigate", "is nvidia-uvm loaded"),
        ("cuInit", 802, "fix-config", "Fabric Manager"),
        ("cuInit", 803, "fix-config", "of different versions"),
        ("cuInit", 804, "fix-config", "newer than the driver"),
        ("cuInit", 34, "fix-config", "the toolkit's stub"),
        ("cuDevicePrimaryCtxRetain", 46, "fix-config", "another program has the GPU"),
        ("cuDevicePrimaryCtxRetain", 999, "reset-gpu", "the GPU could not be opened"),
    ],
)
def test_a_gpu_that_cannot_be_opened_says_what_will_mend_it(
    burn: Burn, call: str, code: int, action: str, words: str
) -> None:
    done = burn("--only", "burnin.completion", faults={"start": {call: code}})
    rows = [row for row in done.report["findings"] if row["check"] == "burnin.completion"]
    assert {row["action"] for row in rows} == {action}
    assert all(words in row["message"] for row in rows), rows
    assert done.code == (30 if action == "reset-gpu" else 20)


def test_a_pair_that_fails_names_both_ends(burn: Burn, two: Machine) -> None:
    """The sender's process tells of it, and cannot know whose fault it was; both go on."""
    bad, good = gpus(two)
    done = burn("--only", "burnin", faults={bad: {"fail": {"cuCtxEnablePeerAccess": 214}}})
    (row,) = [row for row in done.report["findings"] if row["check"] == "burnin.completion"]
    assert row["subject"] == f"test:{label(two, bad)} peer {label(two, good)}"
    assert row["culprits"] == [label(two, bad), label(two, good)]
    assert done.code == 30
    assert f"test:{label(two, good)} peer {label(two, bad)}" in that(done, "completion", "pass")


def test_a_worker_that_breaks_blames_no_gpu(two: Machine, profile: str) -> None:
    """Its traceback is ours, whatever it trips over."""
    whole = env() | {"FAKE_CUDA_FAULTS": "no JSON"}
    done = two.plain(
        *two.scan("--level", "quick", "--profile", profile, "--only", "burnin"), env=whole
    )
    assert done.verdict == (3, "incomplete", False)
    unknown = [
        row
        for row in done.report["checks"]
        if row["status"] == "unknown" and row["id"] == "burnin.completion"
    ]
    (reason,) = {
        row["reason"].partition("(")[2] for row in unknown if row["subject"].endswith(" open")
    }
    assert "exited with code 1 (json.decoder.JSONDecodeError" in reason


def test_a_library_that_talks_a_lot_stops_nobody(two: Machine, profile: str) -> None:
    words = two.scan("--level", "quick", "--profile", profile, "--only", "burnin")
    assert two.plain(*words, env=env() | {"FAKE_CUDA_CHATTER": "1"}).code == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("CUDA_FORCE_PTX_JIT", "1"),
        ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G"),
        ("CUDA_MPS_PIPE_DIRECTORY", "/tmp"),  # noqa: S108
    ],
)
def test_what_the_environment_tells_cuda_is_not_heeded(
    two: Machine, profile: str, name: str, value: str
) -> None:
    words = two.scan("--level", "quick", "--profile", profile, "--only", "burnin.completion")
    assert two.plain(*words, env=env() | {name: value}).code == 0


def test_a_gpu_that_gets_stuck_at_the_second_try_is_stuck(burn: Burn, two: Machine) -> None:
    """It was slow at first, which alone would be forgiven."""
    bad, good = gpus(two)
    done = burn(
        "--only",
        "burnin",
        faults={bad: {"ms": 6e-5, "triads": 4}, good: {"ms": 5e-5}},
        limits=f"{LIMITS},worker=4",
    )
    rows = [row for row in done.report["findings"] if row["check"] == "burnin.completion"]
    assert [row["address"] for row in rows] == [bad]
    assert done.code == 30


def test_a_worker_that_somebody_kills_costs_one_test(
    burn: Burn, two: Machine, tmp_path: Path
) -> None:
    bad, _ = gpus(two)
    done = burn(faults={bad: {"killed": "cuMemcpyAsync", "folder": str(tmp_path)}})
    assert done.verdict == (3, "incomplete", False)
    (unknown,) = that(done, "completion", "unknown")
    (row,) = [
        row
        for row in done.report["checks"]
        if row["subject"] == unknown and row["id"] == "burnin.completion"
    ]
    assert "was killed by SIGKILL" in row["reason"]
    assert len(that(done, "completion", "pass")) > 30


def begun(
    two: Machine, profile: str, *words: str, faults: dict[str, Any] | None = None
) -> tuple[Any, dict[str, str]]:
    whole = two.env() | env(faults)
    process = two.start(
        two.command(*two.scan("--level", "quick", "--profile", profile, *words)), whole
    )
    return process, whole


def checkpoint_of(file: Path) -> Mapping[str, Any]:
    return load(str(file)).meta.checkpoint or {}


def steps_of(checkpoint: Path) -> int:
    """How many steps of its round a checkpoint has done."""
    return int(checkpoint_of(checkpoint)["steps"]) if checkpoint.exists() else 0


MONTH = ("--level", "long", "--duration", "30d")


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGINT, MONTH)]
)
def test_a_signal_ends_it_and_what_was_found_is_told(
    two: Machine, profile: str, tmp_path: Path, number: int, words: tuple[str, ...]
) -> None:
    checkpoint = tmp_path / "soak.json.gz"
    process, whole = begun(two, profile, "--checkpoint", str(checkpoint), *words)
    with process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        process.send_signal(number)
        done = finished(process, whole)
    assert done.code == 128 + number
    assert done.report["summary"]["complete"] is False
    assert done.report["summary"]["verdict"] == "incomplete"
    assert that(done, "completion", "pass")
    assert checkpoint.exists()


def test_a_burn_in_whose_terminal_goes_is_told_in_its_files(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """The ssh session is lost: nobody sees what is printed any more, and the report's file and the
    checkpoint are there.
    """
    checkpoint, report = tmp_path / "soak.json.gz", tmp_path / "report.json"
    words = two.scan(
        "--level",
        "quick",
        "--profile",
        profile,
        "--checkpoint",
        str(checkpoint),
        "--report",
        f"json={report}",
    )
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        two.command(*words, before=(sys.executable, "-c", ON_TERMINAL)),
        env=two.env() | env(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    wait_for(lambda: steps_of(checkpoint) > 0)
    os.close(ours)
    process.wait(ENOUGH_S)
    assert json.loads(report.read_text("utf-8"))["summary"]["verdict"] == "incomplete"
    assert checkpoint.exists()


def test_a_worker_that_heeds_no_signal_costs_no_report(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint, bad = tmp_path / "soak.json.gz", gpus(two)[0]
    process, whole = begun(
        two,
        profile,
        "--checkpoint",
        str(checkpoint),
        faults={bad: {"hang": "cuMemcpyAsync", "folder": str(tmp_path)}},
    )
    with process:
        wait_for((tmp_path / "hanging").exists)
        process.send_signal(signal.SIGINT)
        done = finished(process, whole)
    assert done.code == 128 + signal.SIGINT
    assert that(done, "completion", "pass"), "what was done before is told"
    assert "was killed" not in done.err, "by the burn-in itself, not from its checkpoint"
    assert "process died" not in done.err


def test_an_ended_one_goes_on_from_its_checkpoint(
    burn: Burn, two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "soak.json.gz"
    process, whole = begun(two, profile, "--checkpoint", str(checkpoint))
    with process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert nobody_left(whole[MARK])
    assert steps_of(checkpoint) > 0
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(checkpoint_of(checkpoint)["began_at"]))
    done = burn("--checkpoint", str(checkpoint))
    assert done.code == 0
    assert "resumed after" in done.err
    assert f"begun {began})" in done.err
    assert any(
        note.startswith("the burn-in went on from a checkpoint") and note.endswith(began)
        for note in done.report["notes"]
    )
    assert not checkpoint.exists()
    assert len(done.of("burnin.completion")) == len(burn().of("burnin.completion"))


def test_a_checkpoint_of_another_gpu_is_refused(
    machine: Make, two: Machine, profile: str, tmp_path: Path
) -> None:
    """At the same address: the node next to it, or the part that came after."""
    checkpoint = tmp_path / "soak.json.gz"
    process, whole = begun(two, profile, "--checkpoint", str(checkpoint))
    with process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert nobody_left(whole[MARK])
    bad = gpus(two)[0]
    other = machine(
        patch(load(str(TWO)), {call("UUID", bad): "GPU-00000000-1111-2222-3333-444444444444"})
    )
    words = other.scan("--level", "quick", "--profile", profile, "--checkpoint", str(checkpoint))
    done = other.plain(*words, env=env({bad: {"flip": ["gemm"]}}))
    assert done.code == 2
    assert "uuids differ" in done.err
    nameless = machine(
        patch(load(str(TWO)), {call("UUID", bad): {"error": ["garbled", "planted"]}})
    )
    done = nameless.plain(
        *nameless.scan(
            "--level", "quick", "--profile", profile, "--checkpoint", str(tmp_path / "n")
        ),
        env=env(),
    )
    assert done.code == 2
    assert "which GPU was tested could not be told" in done.err


def test_a_checkpoint_that_cannot_be_written_is_told_before(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    words = two.scan(
        "--level", "quick", "--profile", profile, "--checkpoint", str(tmp_path / "no" / "such")
    )
    done = two.plain(*words, env=env())
    assert done.code == 2
    assert "cannot be written" in done.err


def test_one_whose_process_is_killed_keeps_its_checkpoint(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """As when the host is out of memory: what was done is judged, and is not all of it."""
    checkpoint = tmp_path / "soak.json.gz"
    process, whole = begun(two, profile, "--checkpoint", str(checkpoint))
    with process:
        wait_for(lambda: steps_of(checkpoint) > 3)
        (parent,) = {
            int(Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[1])
            for pid in workers(whole[MARK])
        }
        os.kill(parent, signal.SIGKILL)
        done = finished(process, whole)
    assert done.verdict == (3, "incomplete", False)
    assert checkpoint.exists()
    assert "run the same command again" in done.err
    assert that(done, "completion", "pass"), "what was done is judged"


def workers(mark: str) -> list[int]:
    """The workers of a run that was started with this mark."""
    return [
        pid
        for pid in living(mark)
        if "gpuscan.burnin.worker.main" in Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    ]


def test_a_soak_that_the_deadline_ends_is_incomplete(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """Although every test has run in its first round."""
    checkpoint = tmp_path / "soak.json.gz"
    every = ",".join(gpus(two))  # all of them by name, so that no other program is asked for
    soak = (
        "--level",
        "long",
        "--duration",
        "24h",
        "--deadline",
        "45",
        "--checkpoint",
        str(checkpoint),
        "--gpus",
        every,
    )
    done = two.plain(*two.scan(*soak, "--profile", profile, "--only", "burnin"), env=env())
    assert done.verdict == (3, "incomplete", False)
    assert "test:node end" in that(done, "completion", "unknown")
    assert not done.report["findings"]
    assert checkpoint.exists()


def test_a_checkpoint_of_something_else_is_refused(
    burn: Burn, two: Machine, profile: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}", "utf-8")
    done = two.plain(
        "run", "--level", "quick", "--profile", profile, "--checkpoint", str(other), env=env()
    )
    assert done.code == 2
    assert "no checkpoint of a burn-in" in done.err


@pytest.mark.parametrize(("spent_s", "code"), [(86400, 0), (3600, 3)], ids=["over", "not over"])
def test_a_soak_whose_time_is_over_needs_no_further_round(
    two: Machine, profile: str, tmp_path: Path, spent_s: float, code: int
) -> None:
    """It is killed in its second round, goes on with products that take minutes, and is cut there
    by its deadline.
    """
    checkpoint = tmp_path / "soak.json"
    every = ",".join(gpus(two))
    soak = (
        "--level",
        "long",
        "--duration",
        "24h",
        "--checkpoint",
        str(checkpoint),
        "--gpus",
        every,
        "--only",
        "burnin",
    )
    whole = two.env() | env()
    with two.start(two.command(*two.scan(*soak, "--profile", profile)), whole) as process:
        wait_for(lambda: checkpoint.exists() and checkpoint_of(checkpoint)["rounds"] > 0)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert nobody_left(whole[MARK])
    slow = env(scale={"gemm-exact": {"size": 256, "seconds": 90}})
    kept = json.loads(checkpoint.read_text("utf-8"))
    of = {**kept["checkpoint"]["of"], "drill": slow["GPUSCAN_BURNIN_SCALE"]}
    checkpoint.write_text(
        json.dumps(
            {**kept, "checkpoint": {**kept["checkpoint"], "of": of, "spent_s": spent_s, "steps": 0}}
        ),
        "utf-8",
    )
    done = two.plain(*two.scan(*soak, "--profile", profile, "--deadline", "30"), env=slow)
    assert done.code == code
    assert ("test:node end" in that(done, "completion", "pass")) is (code == 0)
    first = label(two, gpus(two)[0])
    assert f"test:{first} exact-bf16" in that(done, "completion", "pass"), (
        "as its first round found it"
    )


def test_a_checkpoint_that_cannot_be_written_any_more_is_complained_of_once(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    folder = tmp_path / "soaks"
    folder.mkdir()
    process, whole = begun(two, profile, "--checkpoint", str(folder / "soak.json"))
    with process:
        wait_for(lambda: steps_of(folder / "soak.json") > 0)
        folder.rename(tmp_path / "gone")
        done = finished(process, whole)
    assert done.code == 0
    assert done.err.count("goes on without it") == 1


def test_what_was_found_before_a_kill_is_not_forgotten(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """A GPU that could not be opened: it can be now, and has lost its tests of the steps that
    were done.
    """
    checkpoint = tmp_path / "soak.json.gz"
    first, second = gpus(two)
    process, whole = begun(
        two,
        profile,
        "--checkpoint",
        str(checkpoint),
        faults={first: {"fail": {"cuDevicePrimaryCtxRetain": 999}}},
    )
    with process:
        wait_for(lambda: steps_of(checkpoint) > 5)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert nobody_left(whole[MARK])
    done = two.plain(
        *two.scan("--level", "quick", "--profile", profile, "--checkpoint", str(checkpoint)),
        env=env(),
    )
    assert done.code == 30
    assert f"test:{label(two, first)} open" in that(done, "completion", "fail")
    unread = [
        row["reason"]
        for row in done.report["checks"]
        if row["subject"] == f"test:{label(two, first)} memory" and "reason" in row
    ]
    assert not any("the scan ended before" in reason for reason in unread)


def test_a_checkpoint_of_no_time_is_refused(
    burn: Burn, two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "soak.json"
    process, whole = begun(two, profile, "--checkpoint", str(checkpoint))
    with process:
        wait_for(lambda: checkpoint.exists() and steps_of(checkpoint) > 0)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert nobody_left(whole[MARK])
    kept = json.loads(checkpoint.read_text("utf-8"))
    for name, odd in (
        ("began_at", math.inf),
        ("began_at", math.nan),
        ("began_at", 1e18),
        ("began_at", "x"),
        ("spent_s", math.inf),
    ):
        checkpoint.write_text(
            json.dumps({**kept, "checkpoint": {**kept["checkpoint"], name: odd}}), "utf-8"
        )
        done = burn("--checkpoint", str(checkpoint))
        assert (done.code, done.out) == (2, ""), odd
        assert "no checkpoint of a burn-in" in done.err


def test_a_deadline_ends_it_and_what_was_not_run_is_told(two: Machine, profile: str) -> None:
    slow = SMALL | {"gemm-stress": {"size": 256, "seconds": 90}}
    whole = env() | {"GPUSCAN_BURNIN_SCALE": json.dumps(slow)}
    done = two.plain(
        *two.scan("--level", "quick", "--profile", profile, "--deadline", "40"), env=whole
    )
    assert done.verdict == (3, "incomplete", False)
    reasons = {
        row["subject"]: row["reason"]
        for row in done.report["checks"]
        if row["id"] == "burnin.completion" and "reason" in row
    }
    first = label(two, gpus(two)[0])
    assert "not finished: the deadline was near" in reasons[f"test:{first} stress-bf16"]
    assert "not run: the deadline was near" in reasons[f"test:{first} stress-fp64"]
    assert f"test:{first} exact-bf16" not in reasons


def test_what_other_programs_use_is_not_loaded(machine: Make, profile: str) -> None:
    used = machine(
        patch(
            load(str(TWO)),
            {"nvml:nvmlDeviceGetComputeRunningProcesses(*)": [{"pid": 77, "usedGpuMemory": 1}]},
        )
    )
    done = used.run("--level", "quick", "--profile", profile, "--only", "burnin", env=env())
    assert done.verdict == (3, "incomplete", False)
    reasons = {row["reason"] for row in done.report["checks"] if row["id"] == "burnin.completion"}
    assert all("other programs compute on the GPUs (process 77" in reason for reason in reasons)
    assert (
        used.run(
            "--level", "quick", "--profile", profile, "--only", "burnin", "--force", env=env()
        ).code
        == 0
    )


def test_a_gpu_is_not_loaded_beside_a_program_on_another(machine: Make, profile: str) -> None:
    base = load(str(TWO))
    first, second = gpus_of(base)
    used = machine(
        patch(
            base,
            {
                f"nvml:nvmlDeviceGetComputeRunningProcesses({second})": [
                    {"pid": 77, "usedGpuMemory": 1}
                ]
            },
        )
    )
    words = (
        "--level",
        "quick",
        "--profile",
        profile,
        "--only",
        "burnin",
        "--gpus",
        label(used, first),
    )
    done = used.run(*words, env=env())
    assert done.verdict == (3, "incomplete", False)
    assert all(
        "process 77" in row["reason"]
        for row in done.report["checks"]
        if row["id"] == "burnin.completion"
    )
    assert used.run(*words, "--force", env=env()).code == 0


def test_gpus_that_tell_no_programs_are_not_loaded(machine: Make, profile: str) -> None:
    silent = machine(
        patch(
            load(str(TWO)),
            {"nvml:nvmlDeviceGetComputeRunningProcesses(*)": {"error": ["garbled", "planted"]}},
        )
    )
    done = silent.run("--level", "quick", "--profile", profile, "--only", "burnin", env=env())
    assert done.verdict == (3, "incomplete", False)
    reasons = {row["reason"] for row in done.report["checks"] if row["id"] == "burnin.completion"}
    assert all("what computes on the GPUs could not be read" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({call("MigMode", "{}"): [1, 1]}, "MIG is on"),
        ({call("ComputeMode", "{}"): 3}, "compute mode is exclusive process"),
    ],
)
def test_a_gpu_in_a_mode_that_keeps_it_from_us_is_told(
    machine: Make, profile: str, change: dict[str, Any], words: str
) -> None:
    recording = load(str(TWO))
    bad, _ = machine(recording).gpus()
    split = machine(patch(recording, {key.format(bad): value for key, value in change.items()}))
    done = split.run("--level", "quick", "--profile", profile, "--only", "burnin", env=env())
    (row,) = [
        row
        for row in done.report["checks"]
        if row["id"] == "burnin.completion" and row["status"] == "unknown"
    ]
    assert done.code == 3
    assert words in row["reason"]
    assert row["address"] == bad
    assert that(done, "corruption", "pass"), "the other GPU is tested all the same"


def test_a_load_that_nothing_judges_is_refused(two: Machine, profile: str) -> None:
    for words in (("--only", "pcie"), ("--skip", "burnin")):
        done = two.plain("run", "--level", "quick", "--profile", profile, *words, env=env())
        assert (done.code, done.out) == (2, "")
        assert "no check of the burn-in is left" in done.err


def test_one_file_for_two_things_is_refused(two: Machine, profile: str, tmp_path: Path) -> None:
    file = str(tmp_path / "x.json")
    for words in (
        ("--report", f"json={file}"),
        ("--record", file),
        ("--output", f"{tmp_path}/./x.json"),
    ):
        done = two.plain(
            "run", "--level", "quick", "--profile", profile, "--checkpoint", file, *words, env=env()
        )
        assert (done.code, done.out) == (2, "")
        assert "named for two things" in done.err
    assert not list(tmp_path.glob("x.json*"))


def test_a_time_that_is_too_short_is_told(two: Machine, profile: str) -> None:
    done = two.plain("run", "--level", "quick", "--profile", profile, "--deadline", "12", env=env())
    assert "too short a time to finish" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--level", "quik"), "did you mean quick?"),
        (("--duration", "3h"), "add --level long"),
        (("--level", "long", "--duration", ""), "--duration was given nothing"),
        (("--level", "long", "--duration", "24"), "with its unit"),
        (("--checkpoint", "x"), "add --level"),
        (("--force",), "add --level"),
        (("--level", "quick", "--duration", "3h"), "--duration goes with --level long"),
        (("--level", "long", "--duration", "soon"), "write a duration"),
        (("--level", "quick", "--context", "busy"), "drain the node"),
        (
            ("--level", "quick", "--replay", "demo"),
            "--level goes with a scan of this machine, and --replay makes none",
        ),
        (("--duration", "3h", "--replay", "demo"), "--duration goes with a scan of this machine"),
        (
            ("--checkpoint", "x", "--replay", "demo"),
            "--checkpoint goes with a scan of this machine",
        ),
        (("--force", "--replay", "demo"), "--force goes with a scan of this machine"),
    ],
)
def test_what_cannot_be_asked_is_refused(two: Machine, words: tuple[str, ...], told: str) -> None:
    done = two.plain("run", *words, env=env())
    assert done.code == 2
    assert told in done.err


def test_without_the_binding_it_says_what_to_install(two: Machine) -> None:
    script = "import sys; sys.modules['cuda'] = None; from gpuscan.__main__ import main; main()"
    done = two.plain("run", "--level", "quick", script=script)
    assert done.code == 2
    (wanted,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]["burnin"]
    assert f"pip install '{wanted}'" in done.err


def test_a_soak_goes_round_until_its_time_is_spent(two: Machine, profile: str) -> None:
    words = two.scan(
        "--level", "long", "--duration", "30s", "--profile", profile, "--only", "burnin"
    )
    done = two.plain(*words, env=env())
    assert done.code == 0, done.report["findings"]
    assert done.report["run"]["level"] == "long"
    results = [
        reading.value for reading in two.recorded if reading.key.startswith("burnin:stress-bf16(")
    ]
    assert len(results) == 2
    runs = {result["runs"] for result in results}
    assert min(runs) >= 2
    assert {
        f"test:{label(two, gpu)} {name}" for gpu in gpus(two) for name in ("fade", "pulse-bf16")
    } <= set(that(done, "completion", "pass"))
    once = [
        row
        for row in done.report["measurements"]
        if row["name"] == "burnin.operations" and row["test"] == "exact-fp8"
    ]
    assert all(row["value"] >= 2 * 5 for row in once), "what each round compared is added up"


def test_floors_are_captured_from_a_good_node(machine: Make, tmp_path: Path) -> None:
    """Of GPUs that no profile has floors for."""
    recording = load(str(TWO))
    keys = [
        reading.key
        for reading in recording
        if reading.key.endswith("/uevent") and "10DE:2330" in str(reading.value)
    ]
    other = machine(
        patch(
            recording, {key: recording.get(key).replace("10DE:2330", "10DE:2FFF") for key in keys}
        )
    )
    file = tmp_path / "captured.yaml"
    fast = env({gpu: {"ms": 1e-5} for gpu in other.gpus()})
    done = other.plain("profile", "capture", "--level", "quick", "--output", str(file), env=fast)
    assert done.code == 0, done.err
    captured = load_profile(str(file)).data["burnin"]
    again = other.plain(
        *other.scan("--level", "quick", "--profile", str(file), "--only", "burnin"), env=fast
    )
    rates = [
        row["value"]
        for row in again.report["measurements"]
        if row["name"] == "burnin.gemm_bf16_tflops"
    ]
    assert captured["gemm_bf16_tflops"] == pytest.approx(0.85 * max(rates), abs=0.06)
    assert captured["peer_one_way_gbps"] is not None
    assert again.code == 0


@pytest.mark.parametrize(
    ("change", "file", "told"),
    [
        (
            {"nvml:nvmlDeviceGetVbiosVersion(0000:00:06.0)": "96.00.74.00.01"},
            "captured.yaml",
            "the GPUs differ in vbios",
        ),
        (
            {"nvml:nvmlDeviceGetRemappedRows(0000:00:07.0)": [0, 0, 0, 1]},
            "captured.yaml",
            "no good node by profile",
        ),
        ({}, "no/captured.yaml", "there is no folder"),
        ({}, "", "Is a directory"),
    ],
)
def test_what_is_not_captured_is_refused_before_the_gpus_are_loaded(
    machine: Make, tmp_path: Path, change: dict[str, Any], file: str, told: str
) -> None:
    node = machine(patch(load(str(TWO)), change))
    done = node.plain(
        "profile", "capture", "--level", "quick", "--output", str(tmp_path / file), env=env()
    )
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "level quick" not in done.err


@pytest.mark.parametrize("words", [(), ("--level", "passive")])
def test_after_a_swap_the_gpus_are_exercised(
    two: Machine, profile: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    state = ("--state-dir", str(tmp_path / "state"))
    done = two.plain(
        "swap", "verify", "--format", "json", "--profile", profile, *state, *words, env=env()
    )
    passive = bool(words)
    assert done.report["run"]["level"] == ("passive" if passive else "quick")
    assert (
        any(
            row["id"] == "burnin.corruption" and row["status"] == "pass"
            for row in done.report["checks"]
        )
        is not passive
    )


def test_what_was_wrong_twice_stays_so_in_later_rounds(two: Machine, profile: str) -> None:
    """Whatever the same test finds when the GPU has cooled down."""
    bad, _ = gpus(two)
    words = two.scan(
        "--level", "long", "--duration", "10s", "--profile", profile, "--only", "burnin"
    )
    done = two.plain(*words, env=env({bad: {"flip": ["gemm"], "every": 2, "until": 9}}))
    actions = {
        row["action"] for row in done.report["findings"] if row["check"] == "burnin.corruption"
    }
    assert (done.code, actions) == (41, {"replace"})


def test_a_pair_that_fails_costs_no_other_test(burn: Burn, two: Machine) -> None:
    """The process that it broke is replaced before it is asked again."""
    bad, _ = gpus(two)
    done = burn("--only", "burnin", faults={bad: {"fail": {"cuCtxEnablePeerAccess": 214}}})
    reasons = [row["reason"] for row in done.report["checks"] if row["status"] == "unknown"]
    assert not [reason for reason in reasons if "not finished" in reason]


def test_an_error_is_kept_once(burn: Burn, two: Machine) -> None:
    """Of a counter that no driver tells; in a soak of days it would fill the memory."""
    burn("--only", "burnin")
    errors = Counter(
        (reading.key, reading.error) for reading in two.recorded if reading.error is not None
    )
    assert max(errors.values()) <= 3, "in the scan, in the burn-in and after it"


@pytest.mark.parametrize(
    "broken",
    ["sys.executable = '/nowhere/python'", "import tempfile; tempfile.tempdir = '/nowhere'"],
)
def test_without_means_for_a_process_it_says_so(two: Machine, profile: str, broken: str) -> None:
    """Out of processes, or in a container that may not write anywhere."""
    script = f"import sys; {broken}; from gpuscan.__main__ import main; main()"
    done = two.plain(
        *two.scan("--level", "quick", "--profile", profile, "--only", "burnin"),
        env=env(),
        script=script,
    )
    if "tempdir" in broken:
        assert done.code == 0, "what nobody may read need not be kept"
        return
    assert done.verdict == (3, "incomplete", False)
    reasons = {row["reason"] for row in done.report["checks"] if row["subject"].endswith(" open")}
    assert any(
        "no process could be started for it: No such file or directory" in reason
        for reason in reasons
    )
    assert "Traceback" not in done.err


def test_who_was_stopped_was_not_silent(two: Machine, profile: str, tmp_path: Path) -> None:
    """As with the whole machine, or with a container that is frozen for a while."""
    checkpoint = tmp_path / "soak.json.gz"
    scale = {"gemm-stress": {"size": 256, "seconds": 3}}
    whole = two.env(f"{LIMITS},worker=2") | env(scale=scale)
    words = two.scan(
        "--level",
        "quick",
        "--profile",
        profile,
        "--only",
        "burnin",
        "--checkpoint",
        str(checkpoint),
    )
    with two.start(two.command(*words), whole) as process:
        wait_for(lambda: steps_of(checkpoint) == 10)
        everybody, own = living(whole[MARK]), workers(whole[MARK])
        for pid in everybody:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(7)
        for pid in [*(pid for pid in everybody if pid not in own), *own]:
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
        done = finished(process, whole)
    assert done.verdict == (0, "pass", True), done.report["findings"]


def test_other_programs_are_not_let_loose_on_a_gpu_that_failed(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    tool = tmp_path / "bin" / "dcgmi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", "utf-8")
    tool.chmod(0o755)
    path = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    bad, _ = gpus(two)
    words = two.scan("--level", "quick", "--profile", profile, "--only", "burnin")
    done = two.plain(*words, env=env({bad: {"fail": {"cuMemcpyAsync": 214}}}) | path)
    assert done.code == 30
    assert not (tmp_path / "started").exists()
    (key,) = [reading for reading in two.recorded if reading.key.startswith("run:dcgmi diag")]
    assert key.error is not None
    assert "lost the GPU" in key.error.text
    two.plain(*words, env=env() | path)
    assert (tmp_path / "started").exists()


ON_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
IGNORE = "import os, signal, sys; signal.signal(signal.{}, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"


def test_how_a_program_ended_is_known_though_whoever_started_us_ignores_it(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    tool = tmp_path / "dcgmi"
    tool.write_text("#!/bin/sh\necho no host engine >&2\nexit 3\n", "utf-8")
    tool.chmod(0o755)
    words = two.scan("--level", "quick", "--profile", profile, "--only", "burnin")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    two.plain(*words, env=env() | path, before=(sys.executable, "-c", IGNORE.format("SIGCHLD")))
    (told,) = [reading for reading in two.recorded if reading.key.startswith("run:dcgmi diag")]
    assert told.error is not None
    assert told.error.text == "no host engine"


def test_ctrl_c_means_others_where_it_is_ignored(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    """A script's job in the background, whose terminal gets it."""
    checkpoint = tmp_path / "soak.json.gz"
    words = two.scan(
        "--level",
        "quick",
        "--profile",
        profile,
        "--checkpoint",
        str(checkpoint),
        "--only",
        "burnin",
    )
    whole = two.env() | env()
    command = two.command(*words, before=(sys.executable, "-c", IGNORE.format("SIGINT")))
    with two.start(command, whole, start_new_session=True) as process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        os.killpg(process.pid, signal.SIGINT)
        done = finished(process, whole)
    assert done.verdict == (0, "pass", True)


@pytest.mark.parametrize(
    ("given", "most_s"), [((), 320), (("--deadline", "180"), 170), (("--deadline", "3600"), 320)]
)
def test_a_deadline_counts_as_it_is_given(
    two: Machine, profile: str, tmp_path: Path, given: tuple[str, ...], most_s: int
) -> None:
    """Also where it is what a scan alone would have; with it are meant scan and burn-in, and
    reading the GPUs once more.
    """
    checkpoint = tmp_path / "soak.json.gz"
    every = ",".join(gpus(two))  # all of them by name, so that no other program is asked for
    process, whole = begun(two, profile, "--checkpoint", str(checkpoint), "--gpus", every, *given)
    with process:
        wait_for(lambda: steps_of(checkpoint) > 0)
        process.send_signal(signal.SIGINT)
        done = finished(process, whole)
    assert f"{checkpoint} has what was done: run the same command again to go on" in done.err
    told_s = two.recorded.get("burnin:plan()")["deadline_s"]
    assert most_s - 20 < told_s <= most_s


def test_a_checkpoint_goes_once_the_report_is_out(
    two: Machine, profile: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "soak.json.gz"
    words = two.scan("--level", "quick", "--profile", profile, "--checkpoint", str(checkpoint))
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        error = subprocess.PIPE
        done = subprocess.run(
            two.command(*words),
            env=two.env() | env(),
            stdout=full,
            stderr=error,
            text=True,
            check=False,
        )
    assert "standard output cannot be written" in done.stderr
    assert steps_of(checkpoint) > 20
    again = two.plain(*words, env=env())
    assert again.code == 0
    assert "resumed after" in again.err
    assert not checkpoint.exists()
