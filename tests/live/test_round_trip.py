"""Round trip: a recording laid out as a machine and collected again holds the same readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from fake_nvml import Change
from machine import DEMO, INIT, Machine, call, gpus_of
from paths import RECORDINGS

from gpuscan import collectors
from gpuscan.model import is_unread
from gpuscan.recording import Reading, Recording, load, patch

FILES = [DEMO, *sorted(RECORDINGS.glob("*.json.gz"))]
Make = Callable[[Recording], Machine]


# a GPU that has just been loaded changes them from one sample to the next
OF_THE_MOMENT = "ClocksEventReasons"
NOT_COLLECTED = (
    "run:",
    "burnin:",
    "tail:",
    "history:",
)  # commands are not run for another root; to collect exercises no GPU, and asks no archive


def told(reading: Reading) -> tuple[str, Any]:
    """What a reading says, apart from its times: a value, or the kind of lack."""
    return ("value", reading.value) if reading.error is None else (reading.error.kind, None)


def again(node: Machine) -> Recording:
    done = node.plain("collect", str(node.file))
    assert done.code == 0, done.err
    return load(str(node.file))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_comes_back(machine: Make, path: Path) -> None:
    first = load(str(path))
    second = again(machine(first))
    keys = [
        key
        for key in first.keys()  # noqa: SIM118
        if not key.startswith(NOT_COLLECTED) and OF_THE_MOMENT not in key
    ]  # noqa: SIM118
    assert [key for key in keys if key not in second] == []
    assert {key: told(second.all(key)[-1]) for key in keys} == {
        key: told(first.all(key)[-1]) for key in keys
    }


def test_what_could_not_be_read_comes_back(machine: Make) -> None:
    """Each kind that a machine can give."""
    (one, *_, last) = gpus_of(load(str(DEMO)))
    kinds = {
        "lost": 15,
        "reset-required": 16,
        "not-supported": 3,
        "no-permission": 4,
        "not-found": 13,
        "garbled": 999,
    }
    errors = {
        call(name, one): {"error": [kind, ""]}
        for name, kind in zip(
            ("Name", "Serial", "UUID", "EccMode", "MigMode", "Index"), kinds, strict=True
        )
    }
    first = patch(
        load(str(DEMO)), {**errors, call("RemappedRows", last): {"error": ["timed-out", ""]}}
    )
    second = again(machine(first))
    assert [told(second.all(key)[-1])[0] for key in errors] == list(kinds)
    assert [second.get(key).code for key in errors] == list(kinds.values())
    assert second.get(call("RemappedRows", last)).kind == "timed-out"


def test_an_older_driver_comes_back(machine: Make) -> None:
    """What it does not know stays unknown: too old, not healthy."""
    node = machine(load(str(DEMO)))
    one = node.gpus()[0]
    node.nvml(
        {
            "nvml:nvmlSystemGetDriverVersion()": Change(value="525.60.13"),
            call("FieldValues", one, ",230,0"): Change(code=2),
        }
    )
    second = again(node)
    gpu = next(gpu for gpu in was_read(collectors.node(second).gpus) if gpu.address == one)
    assert second.get(INIT) is True
    assert is_unread(gpu.recovery_action)
    assert gpu.recovery_action.kind == "too-old-driver"
