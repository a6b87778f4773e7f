"""The fake answers as the recording and the changes say, through the real pynvml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from . import Change, write_scenario
from .node import NODE, UUID, A, B, Fake, recording


def test_every_value_comes_back(fake: Fake) -> None:
    """What was recorded is what pynvml gives, whatever its shape."""
    expected = dict(NODE)
    del expected["nvml:nvmlInit()"]
    for address in (A, B):
        processes = f"nvml:nvmlDeviceGetComputeRunningProcesses({address})"
        blank = {"gpuInstanceId": 2**32 - 1, "computeInstanceId": 2**32 - 1}
        expected[processes] = [{**process, **blank} for process in expected[processes]]
        fabric = f"nvml:nvmlDeviceGetGpuFabricInfoV({address})"
        uuid = list(bytes.fromhex(expected[fabric]["clusterUuid"]))
        expected[fabric] = {**expected[fabric], "clusterUuid": uuid}
    assert dict(zip(expected, fake.ask(*expected), strict=True)) == expected


def test_gpus_without_indexes_are_numbered_by_address(fake: Fake) -> None:
    """A recording need not say the count or any index."""
    keys = ["nvml:nvmlDeviceGetCount()", f"nvml:nvmlDeviceGetIndex({B})"]
    assert fake.ask(*keys) == [2, 1]


def test_recorded_indexes_decide_and_the_others_fill_up(fake: Fake) -> None:
    """NVML's order need not be that of the addresses."""
    fake.write(recording({**NODE, f"nvml:nvmlDeviceGetIndex({B})": 0}))
    assert fake.ask(*(f"nvml:nvmlDeviceGetIndex({each})" for each in (A, B))) == [1, 0]


def test_addresses_are_numbers_not_texts(fake: Fake) -> None:
    """NVML takes long and short domains and both cases; so does the fake."""
    keys = [f"nvml:nvmlDeviceGetHandleByPciBusId({text})" for text in ("00000000:1B:00.0", "1:2:3")]
    assert fake.ask(*keys) == [True, (6, "Not Found")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"kind": "not-supported", "text": "Not Supported", "code": 3}, 3),
        ({"kind": "not-supported", "text": ""}, 3),
        ({"kind": "no-permission", "text": ""}, 4),
        ({"kind": "lost", "text": ""}, 15),
        ({"kind": "reset-required", "text": ""}, 16),
        ({"kind": "not-found", "text": ""}, 13),
        ({"kind": "too-old-driver", "text": ""}, 13),
        ({"kind": "garbled", "text": ""}, 999),
        ({"kind": "garbled", "text": "Not ready yet", "code": 27}, 27),
    ],
)
def test_errors_have_their_codes(fake: Fake, error: Mapping[str, Any], code: int) -> None:
    """The recorded code, or the one that stands for the kind; for calls and for fields."""
    call, field = f"nvml:nvmlDeviceGetSerial({A})", f"nvml:nvmlDeviceGetFieldValues({A},199,0)"
    fake.write(recording(NODE, {call: error, field: error}))
    assert [answer[0] for answer in fake.ask(call, field)] == [code, code]


def test_error_texts_unknown_to_pynvml_come_back(fake: Fake) -> None:
    """pynvml asks the library for the words of newer codes."""
    key = f"nvml:nvmlDeviceGetSerial({A})"
    fake.write(recording(NODE, {key: {"kind": "garbled", "text": "Not ready yet", "code": 27}}))
    assert fake.ask(key) == [(27, "Not ready yet")]


def test_what_was_not_recorded_is_not_supported(fake: Fake) -> None:
    """Known calls, calls without a signature, other arguments, other fields."""
    calls = ["Serial({})", "HostVgpuMode({})", "TotalEccErrors({},0,0)", "FieldValues({},1,0)"]
    keys = ["nvml:nvmlDeviceGet" + call.format(A) for call in calls]
    assert [answer[0] for answer in fake.ask(*keys)] == [3, 3, 3, 3]


def test_fields_in_a_batch_have_codes_and_types_of_their_own(fake: Fake) -> None:
    """One call, every field by itself."""
    fake.write(
        recording(NODE), changes={f"nvml:nvmlDeviceGetFieldValues({A},82,0)": Change(code=15)}
    )
    script = """if True:
        import pynvml
        pynvml.nvmlInit()
        GPU = pynvml.nvmlDeviceGetHandleByIndex(0)
        got = pynvml.nvmlDeviceGetFieldValues(GPU, [230, 82, (80, 3), 80])
        print([(each.nvmlReturn, each.valueType) for each in got], got[2].value.dVal)"""
    # 82 changed to lost; 80 asked with the recorded scope, then with another one
    assert fake.run("-c", script).strip() == "[(0, 3), (15, 0), (0, 0), (3, 0)] 0.5"


def test_newer_forms_of_a_call_answer_the_same(fake: Fake) -> None:
    """gpuscan records one form, other tools may use the next one."""
    fake.write(recording(NODE), changes={f"nvml:nvmlDeviceGetTemperature({A},0)": Change(value=91)})
    script = f"""if True:
        import pynvml
        pynvml.nvmlInit()
        GPU = pynvml.nvmlDeviceGetHandleByUUID({UUID + "0"!r})
        memory = pynvml.nvmlDeviceGetMemoryInfo(GPU, version=pynvml.nvmlMemory_v2)
        print(memory.total, memory.used, pynvml.nvmlDeviceGetTemperatureV(GPU, 0))"""
    assert fake.run("-c", script).split() == ["150754820096", "644939776", "91"]


def test_older_driver_refuses_a_newer_structure(fake: Fake) -> None:
    """Recorded without the newest version's fields: that version is a mismatch."""
    script = """if True:
        import ctypes, pynvml
        pynvml.nvmlInit()
        GPU = pynvml.nvmlDeviceGetHandleByIndex(0)
        for kind in (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.c_nvmlGpuFabricInfo_v2_t):
            info = kind()
            try:
                pynvml.nvmlDeviceGetGpuFabricInfoV(GPU, ctypes.byref(info))
                print(info.state)
            except pynvml.NVMLError as error:
                print(error.value)"""
    assert fake.run("-c", script).split() == ["25", "3"]
    key = f"nvml:nvmlDeviceGetGpuFabricInfoV({A})"
    fake.write(recording({**NODE, key: {**NODE[key], "healthSummary": 1}}))
    assert fake.run("-c", script).split() == ["3", "3"]


def test_lost_gpu(fake: Fake) -> None:
    """All of one GPU's calls, recorded or not, and none of the other's."""
    calls = ["Name({})", "Serial({})", "FieldValues({},230,0)", "HandleByPciBusId({})"]
    keys = ["nvml:nvmlDeviceGet" + call.format(each) for each in (A, B) for call in calls]
    other = ["NVIDIA H200", (3, "Not Supported"), 0, True]
    fake.write(recording(NODE), changes={f"nvml:*({A})": Change(code=15)})
    lost = (15, "GPU is lost")
    assert fake.ask(*keys) == [lost, lost, lost, True, *other]
    fake.write(recording(NODE), changes={f"nvml:*({A})": Change(code=15, handle=True)})
    assert fake.ask(*keys) == [lost, lost, lost, lost, *other]
    assert fake.ask("nvml:nvmlDeviceGetCount()", "nvml:nvmlDeviceGetHandleByIndex(0)") == [2, lost]


def test_a_key_of_its_own_beats_the_gpu(fake: Fake) -> None:
    """So a lost GPU can still say its name."""
    changes = {f"nvml:*({A})": Change(code=15), f"nvml:nvmlDeviceGetName({A})": Change(delay_ms=1)}
    fake.write(recording(NODE), changes=changes)
    assert fake.ask(f"nvml:nvmlDeviceGetName({A})") == ["NVIDIA H200"]


def test_absent_gpu(fake: Fake) -> None:
    """One of two is gone: counted no more, unknown by address, the other one moves up."""
    index = {f"nvml:nvmlDeviceGetIndex({each})": number for number, each in enumerate((A, B))}
    count = {"nvml:nvmlDeviceGetCount()": 2}
    fake.write(recording({**NODE, **index, **count}), changes={f"nvml:*({A})": Change(absent=True)})
    keys = ["Count()", "HandleByIndex(1)", f"HandleByPciBusId({A})", f"Index({B})"]
    assert fake.ask(*("nvml:nvmlDeviceGet" + key for key in keys)) == [
        1,
        (2, "Invalid Argument"),
        (6, "Not Found"),
        0,
    ]


def test_changed_value_replaces_a_recorded_error(fake: Fake) -> None:
    """And a key that the recording lacks is added."""
    serial, recovery = (
        f"nvml:nvmlDeviceGetSerial({A})",
        f"nvml:nvmlDeviceGetFieldValues({A},231,0)",
    )
    fake.write(
        recording(NODE, {serial: {"kind": "lost", "text": "GPU is lost", "code": 15}}),
        changes={serial: Change(value="1654000000001"), recovery: Change(value=2)},
    )
    assert fake.ask(serial, recovery) == ["1654000000001", 2]


def test_values_that_cannot_be_played_are_refused(tmp_path: Path) -> None:
    """A test must not take a missing signature for "not supported"."""
    for key, value in {
        f"nvml:nvmlDeviceGetPgpuMetadataString({A})": "text",
        f"nvml:nvmlDeviceGetEccMode({A})": [1],
        f"nvml:nvmlDeviceGetMinorNumber({A})": "one",
    }.items():
        with pytest.raises(ValueError, match=r"nvmlDeviceGet"):
            write_scenario(recording({key: value}), tmp_path / "scenario")
    with pytest.raises(ValueError, match="not an nvml key"):
        write_scenario(recording({}), tmp_path / "scenario", changes={"file:/x": Change(code=3)})
    with pytest.raises(ValueError, match="has no GPU 0000:5b"):
        write_scenario(
            recording({}), tmp_path / "scenario", changes={"nvml:*(0000:5b:00.0)": Change(code=15)}
        )


def test_gpus_known_only_by_index(fake: Fake) -> None:
    """The handle's own reading names the GPU, and NVML's order is kept; a dead index stays."""
    handles = {
        f"nvml:nvmlDeviceGetHandleByIndex({number})": each for number, each in ((0, B), (1, A))
    }
    lost = {"kind": "lost", "text": "GPU is lost", "code": 15}
    fake.write(recording(handles, {"nvml:nvmlDeviceGetHandleByIndex(2)": lost}))
    keys = ["Count()", f"Index({A})", f"HandleByPciBusId({B})", "HandleByIndex(2)"]
    asked = fake.ask(*("nvml:nvmlDeviceGet" + key for key in keys))
    assert asked == [3, 1, True, (15, "GPU is lost")]
