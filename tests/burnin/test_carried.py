"""What people see of a proof, by the program on a fake machine of two H100: in a swap's report,
`status`, `ticket`, `history` and the next run; where nothing can be proven, and where it is ended.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from machine import Done, Machine, finished
from paths import RECORDINGS, ROOT, TESTS
from program import Ended, start

from gpuscan.profile import load as load_profile
from gpuscan.recording import Recording, load, patch

pytestmark = pytest.mark.burnin
TWO = load(str(RECORDINGS / "h100-2x.json.gz"))
LIMITS = "init=60,call=45,host=30,worker=60"
BAD, NEW = "0000:00:06.0", "1650000000999"
SERIAL = f"nvml:nvmlDeviceGetSerial({BAD})"
BOOT = {"file:/proc/sys/kernel/random/boot_id": "99999999-2222-4333-8444-555555555555\n"}
PROCESSES = "nvml:nvmlDeviceGetComputeRunningProcesses(0000:00:07.0)"
WIDTH = {f"nvml:nvmlDeviceGetCurrPcieLinkWidth({BAD})": 8}
FLIPS = {BAD: {"flip": "gemm"}}
UNPROVEN = "not exercised since the fault"
Make = Callable[[Recording], Machine]


def env(faults: Mapping[str, Any] | None = None) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(TESTS), str(TESTS / "fake_cuda" / "binding")])
    return {"PYTHONPATH": path, "FAKE_CUDA_FAULTS": json.dumps(faults or {})}


class Story:
    """One node and its state; what is done to it, and what it is asked."""

    def __init__(self, make: Make, folder: Path) -> None:
        self.make, self.folder, self.state = make, folder, folder / "state"
        self.profile = folder / "whole.yaml"
        burnin = load_profile("h100").data["burnin"]  # the stand-in's speeds mean nothing
        floors = [key for key, value in burnin.items() if isinstance(value, (int, float))]
        self.profile.write_text(
            "extends: h100\ngpu:\n  count: 2\n  nvlinks: 18\ninfiniband:\n  ports: 0\nburnin:\n"
            "  estimates: []\n" + "".join(f"  {key}: null\n" for key in floors),
            "utf-8",
        )
        self.node = make(TWO)

    def changed(self, changes: Mapping[str, Any]) -> None:
        """Let the node be another one from now on."""
        self.node = self.make(patch(TWO, {**changes, **BOOT}))

    @property
    def given(self) -> tuple[str, ...]:
        return "--profile", str(self.profile), "--state-dir", str(self.state)

    def do(self, *words: str, faults: Mapping[str, Any] | None = None) -> Done:
        return self.node.plain(*words, *self.given, limits=LIMITS, env=env(faults))

    def prove(self, *words: str) -> Done:
        return self.do("prove", "--format", "json", *(words or ("--time", "2s")))

    def ended(self, sign: int, after: str, times: int) -> Done:
        """A proof of hours that a signal ends, once its progress has told something so often."""
        whole = self.node.env(LIMITS) | env()
        words = ("prove", "--format", "json", "--time", "5h", *self.given)
        with self.node.start(self.node.command(*words), whole) as process:
            assert process.stderr is not None
            told = (line for line in process.stderr if after in line)
            for _ in range(times):
                next(told)
            process.send_signal(sign)
            return finished(process, whole)

    def ask(self, *words: str) -> Ended:
        return start([*words, "--state-dir", str(self.state)])

    def again(self) -> Callable[[], None]:
        """Return what brings back the state as it is now."""
        kept = self.folder / "kept"
        shutil.copytree(self.state, kept)

        def bring_back() -> None:
            shutil.rmtree(self.state)
            shutil.copytree(kept, self.state)

        return bring_back


@pytest.fixture
def story(machine: Make, tmp_path: Path) -> Story:
    return Story(machine, tmp_path)


def test_a_swap_exercises_what_the_node_was_held_for(story: Story, tmp_path: Path) -> None:
    found = story.do("run", "--level", "quick", "--format", "json", faults=FLIPS)
    assert found.code == 41
    words = ("--ticket", "OPS-7", "--part", "gpu:SXM1", "--bug-report", "0")
    assert story.do("swap", "begin", *words).code == 0
    bring_back = story.again()
    story.changed({SERIAL: NEW})
    verify = ("swap", "verify", "--format", "json")

    bad = story.do(*verify, "--level", "quick", faults=FLIPS)  # it is the slot's
    (row,) = bad.report["proof"]
    assert (bad.code, row["outcome"], row["unproven"]) == (41, "seen", False)
    assert bad.report["hold"]["code"] == 41
    assert not any("held no more" in note for note in bad.report["notes"])

    bring_back()
    between = story.do("run")  # lifts the hold: another serial number is in the slot
    told = "Prove:   gpuscan swap verify --level quick exercises gpu SXM1 (burnin.corruption) for"
    assert f"{told} 5 min: is the fault gone?" in between.out
    good = story.do(*verify, "--level", "quick")
    (row,) = good.report["proof"]
    assert (good.code, row["outcome"], row["unproven"]) == (0, "not-seen", False)
    assert row["amount"] > 0
    assert row["beside"] > 0
    assert row["why"] == f"another GPU is in its slot, serial {NEW}"
    assert good.report["hold"] is None
    assert UNPROVEN not in good.out
    listed = story.ask("history", "list", "--part", "SXM1").out
    assert f"proof  gpu SXM1, serial {row['serial']} (burnin.corruption): did not show" in listed
    assert story.ask("history", "list", "--part", "SXM3").out == "no stored run matches\n"

    bring_back()
    junit = tmp_path / "verify.xml"
    passive = story.do(*verify, "--level", "passive", "--report", f"junit={junit}")
    assert passive.code == 0, "replaced: any pass lifts it"
    (row,) = passive.report["proof"]
    assert (row["outcome"], row["unproven"]) == ("not-exercised", True)
    note = f"gpu SXM1 is held no more for burnin.corruption: {UNPROVEN}"
    assert note in passive.report["notes"]
    line = f"{UNPROVEN}: gpu SXM1 (burnin.corruption)"
    assert passive.report["summary"]["headline"] == f"pass (0); {line}"
    assert line in str(ET.parse(junit).getroot().findtext("testsuite/system-out"))
    assert story.do("status").out.startswith(f"pass (0): {line}\n")


def test_a_run_that_lifts_without_a_proof_says_so_and_proposes_one(
    story: Story, tmp_path: Path
) -> None:
    story.node = story.make(patch(TWO, WIDTH))
    found = story.do("run", "--format", "json")
    assert found.code == 40
    assert "proposed" not in found.report, "it shows now"
    story.node = story.make(TWO)
    waits = story.do("run")
    assert waits.code == 40, "no work was done"
    sentence = "exercises gpu SXM1 (pcie.link_width) for 10 min: is the fault gone?"
    assert waits.out.splitlines()[-1] == f"Prove:   gpuscan prove {sentence}"

    story.changed({})
    junit = tmp_path / "run.xml"
    lifted = story.do("run", "--format", "json", "--report", f"junit={junit}")
    line = f"{UNPROVEN}: gpu SXM1 (pcie.link_width)"
    assert (lifted.code, lifted.report["hold"]) == (0, None)
    assert lifted.report["proof"][0]["unproven"] is True
    assert lifted.report["summary"]["headline"] == f"pass (0); {line}"
    assert f"gpu SXM1 is held no more for pcie.link_width: {UNPROVEN}" in lifted.report["notes"]
    assert ET.parse(junit).getroot().findtext("testsuite/system-out") == line
    assert story.do("status").out.startswith(f"pass (0): {line}\n")

    later = story.do("run")  # and once more, until somebody has exercised it
    assert later.code == 0
    assert later.out.endswith(f"Prove:   gpuscan prove --part gpu:SXM1 {sentence}\n")
    nothing = story.prove()
    assert nothing.code == 2
    for words in ("was held until lately", "--part gpu:SXM1", "ended with pass (0)"):
        assert words in nothing.err
    shown = story.prove("--part", "gpu:SXM1", "--time", "2s")
    (row,) = shown.report["proof"]
    assert (shown.code, row["check"], row["outcome"]) == (0, "pcie.link_width", "not-seen")
    done = story.do("run", "--format", "json")
    assert "proposed" not in done.report
    listed = story.ask("history", "list", "--part", row["serial"]).out
    assert "proof  gpu SXM1" in listed


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({PROCESSES: [{"pid": 4242, "usedGpuMemory": 1 << 30}]}, "process 4242): end them, or add"),
        ({SERIAL: NEW}, ""),
    ],
    ids=["other programs compute", "another one is in its slot"],
)
def test_what_stands_in_the_way_is_told(story: Story, changes: Mapping[str, Any], why: str) -> None:
    story.node = story.make(patch(TWO, WIDTH))
    assert story.do("run").code == 40
    story.node = story.make(patch(TWO, changes))
    done = story.prove()
    (row,) = (one for one in done.report["proof"] if one["check"] == "pcie.link_width")
    if why:
        assert row["outcome"] == "not-exercised"
        assert why in row["why"]
        assert "proof on" not in done.err, "nothing is loaded"
        quick = story.do("run", "--level", "quick", "--format", "json")
        told = [one["reason"] for one in quick.report["checks"] if why in one.get("reason", "")]
        assert (
            told
            == [
                one["reason"]
                for one in done.report["checks"]
                if row["why"] in one.get("reason", "")
            ][:2]
        )
        assert quick.code == done.code
    else:
        assert row["outcome"] == "not-seen"
        assert row["why"].endswith(f"serial {NEW}: gpuscan swap verify proves the swap")


def test_bad_words_are_refused_before_anything_is_exercised(story: Story) -> None:
    for words, told in (
        (("--part", "SXM99"), "--part SXM99: no such part; known parts: SXM1, SXM3"),
        (("--part", "port:mlx5_0/1"), "--part port:mlx5_0/1: no such part"),
        (("--time", "0"), "--time 0: nothing can be exercised in no time"),
        (("--confidence", "1"), "--confidence 1: give a probability above 0 and below 1"),
        (("--time", "5m", "--confidence", "0.9"), "give one of them"),
        ((), "nothing is held on this node"),
    ):
        done = story.do("prove", *words)
        assert (done.code, done.out) == (2, "")
        assert told in done.err


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_proof_that_is_ended_says_how_far_it_came(story: Story, sign: int) -> None:
    story.node = story.make(patch(TWO, WIDTH))
    assert story.do("run").code == 40
    story.node = story.make(TWO)
    done = story.ended(sign, "step 2 of", 2)  # each test was run once
    (row,) = done.report["proof"]
    assert (done.code, row["outcome"]) == (128 + sign, "unfinished")
    assert row["amount"] > 0
    assert "ended by a signal" in row["why"]
    assert done.report["summary"]["complete"] is False
    assert done.report["hold"]["reasons"][0]["exercised_s"] == 0
    assert "but was not exercised to the end" in story.ask("history", "list").out
    assert UNPROVEN in story.do("status").out


def test_a_deadline_that_is_too_short_leaves_a_proof_unfinished(story: Story) -> None:
    story.node = story.make(patch(TWO, WIDTH))
    assert story.do("run").code == 40
    story.node = story.make(TWO)
    done = story.prove("--time", "99h", "--deadline", "12")
    (row,) = done.report["proof"]
    assert row["outcome"] in ("unfinished", "not-exercised"), "a busy machine may come to nothing"
    assert "the deadline was near" in row["why"]
    assert "the report would be incomplete" in done.err
    assert done.report["summary"]["complete"] is False


def test_a_port_is_proposed_only_where_its_traffic_can_be_sent(
    eight: Machine, tmp_path: Path
) -> None:
    down = {f"file:/sys/class/infiniband/mlx5_3/ports/1/{name}": state
            for name, state in (("state", "1: DOWN\n"), ("phys_state", "2: Polling\n"))}  # fmt: skip
    state = ("--state-dir", str(tmp_path / "state"))
    folder = tmp_path / "broken"
    folder.mkdir()
    broken = Machine(eight.library, folder, patch(eight.recording, down))
    assert broken.plain("run", *state).code == 40
    assert "Prove:" not in eight.plain("run", *state).out
    tool = tmp_path / "bin" / "ib_write_bw"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n", "utf-8")
    tool.chmod(0o755)
    there = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    told = "Prove:   gpuscan prove exercises port mlx5_3/1 (infiniband.port_state) for 10 min"
    assert told in eight.plain("run", *state, env=there).out


def test_a_state_that_is_clear_again_lifts_and_says_that_nothing_exercised_it(
    story: Story,
) -> None:
    pending = {f"nvml:nvmlDeviceGetRemappedRows({BAD})": [0, 8, 1, 0]}
    story.node = story.make(patch(TWO, pending))
    assert story.do("run").code == 30
    story.node = story.make(TWO)
    line = f"{UNPROVEN}: gpu SXM1 (memory.row_remap_pending)"
    assert story.do("run", "-q").out == f"pass (0); {line}\n"
