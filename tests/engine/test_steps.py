"""What is to be done about failures: every action that is due, the worst first, in the words of the
part.
"""

from __future__ import annotations

import pytest
from faults import FAULTS, faulty
from nodes_recordings import base, judged
from swap_stories import told

from gpuscan.engine.report import Report
from gpuscan.engine.steps import find_steps, sentences
from gpuscan.model.outcome import ACTIONS, Action, Status
from gpuscan.recording import patch
from gpuscan.renderers import find

EIGHT = "h100-8x-ib"
SOME = sorted(FAULTS)[::12]


def todos(report: Report) -> list[str]:
    return [step.todo for step in find_steps(report)]


def logged(*lines: str) -> Report:
    return judged(patch(base(EIGHT), {}, lines))


def test_every_action_that_is_due_is_told_worst_first() -> None:
    steps = find_steps(judged(base("demo-broken")))
    assert [step.action for step in steps] == [
        Action.REPLACE, Action.REBOOT, Action.RESET_GPU,
    ]  # fmt: skip
    assert [target.subject for target in steps[0].targets] == ["gpu:SXM7"]
    text = find("text")([judged(base("demo-broken"))], verbosity=0)
    for step in steps:
        assert step.todo in text


@pytest.mark.parametrize("name", SOME)
def test_the_first_step_is_the_conclusion_of_the_report(name: str) -> None:
    report = faulty(name)
    steps = find_steps(report)
    asked = {
        finding.action
        for result in report.results
        for finding in result.findings
        if result.status is finding.severity is Status.FAIL
    }
    assert {step.action for step in steps} == asked
    assert [step.action.rank for step in steps] == sorted(
        (step.action.rank for step in steps), reverse=True
    )
    if steps:
        assert steps[0].action is report.action


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)",),
            "the DIMM that it names",
        ),
        (("EXT4-fs error (device nvme0n1p2): ext4_find_entry:1463: inode #2: comm ls:",), "fsck"),
    ],
    ids=["a DIMM", "a file system"],
)
def test_a_part_that_is_no_gpu_has_its_own_words(lines: tuple[str, ...], words: str) -> None:
    report = logged(*lines)
    told_ = " ".join(todos(report))
    assert words in told_
    assert "RMA" not in told_
    assert "every GPU" not in " ".join(step.proof for step in find_steps(report))


def test_a_port_without_a_link_asks_for_the_cable_first() -> None:
    port = "file:/sys/class/infiniband/mlx5_3/ports/1"
    down = {f"{port}/state": "1: DOWN\n", f"{port}/phys_state": "2: Polling\n"}
    (todo,) = todos(judged(patch(base(EIGHT), down)))
    assert todo.startswith("Check the cable, the transceiver and the switch port first")


def test_a_missing_hca_is_no_cable() -> None:
    assert todos(faulty("hca-missing")) == [sentences("nic", Action.INSPECT).todo]


def test_the_wrong_gpu_goes_back() -> None:
    put_right = todos(told("02-wrong-card"))[-1]
    assert put_right == (
        "Put serial 1654000000105 back into SXM5, change SXM6 (serial 1654000000107), then run"
        " gpuscan swap verify. If that was meant to be changed, name it: --expect gpu:SXM5."
    )


def test_a_gpu_has_the_words_of_the_table() -> None:
    for action, row in ACTIONS.items():
        assert sentences("", action) == (row.todo, row.proof)
