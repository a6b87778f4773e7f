"""Whole programs against the fake: how they start, hang and are logged; tools and real nodes."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import Change, NoCompiler, build, calls_made, captures
from .node import ASK, ENOUGH_S, NODE, UUID, A, B, Fake, recording

HUNG_S = 0.5  # a process that is still there after this long, with nothing to wait for, hangs
CAPTURES = [
    path
    for level in Path(__file__).parents[2:4]
    for path in sorted(level.glob("shared/captures/*/nvml.json"))
]


@pytest.mark.parametrize("code", [9, 12, 18])
def test_init_fails(fake: Fake, code: int) -> None:
    """Driver not loaded, library not found, versions that do not match."""
    fake.write(recording(NODE), changes={"nvml:nvmlInit()": Change(code=code)})
    assert [answer[0] for answer in fake.ask("nvml:nvmlDeviceGetCount()")] == [code]


def test_calls_before_init_are_refused(fake: Fake) -> None:
    """And every symbol that pynvml may look up is there."""
    script = """if True:
        import ctypes, inspect, re, pynvml
        library = ctypes.CDLL("libnvidia-ml.so.1")
        symbols = re.findall(r'_nvmlGetFunctionPointer\\("(\\w+)"', inspect.getsource(pynvml))
        print([symbol for symbol in symbols if not hasattr(library, symbol)],
              library.nvmlDeviceGetCount_v2(None))"""
    assert fake.run("-c", script).strip() == "[] 1"


@pytest.mark.parametrize(
    ("key", "symbol", "args"),
    [
        (f"nvml:nvmlDeviceGetName({A})", "nvmlDeviceGetName", "-"),
        (f"nvml:nvmlDeviceGetFieldValues({A},230,0)", "nvmlDeviceGetFieldValues", "-"),
        (f"nvml:nvmlDeviceGetHandleByPciBusId({A})", "nvmlDeviceGetHandleByPciBusId_v2", "-"),
    ],
)
def test_hang(fake: Fake, key: str, symbol: str, args: str) -> None:
    """The call never returns, what came before it stands, and nothing is asked after it."""
    fake.write(recording(NODE), changes={key: Change(hang=True)})
    before = f"nvml:nvmlDeviceGetUUID({B})"
    assert ask_until_hung(fake, (symbol, A, args), before, key) == [f"{UUID}1"]


def test_recorded_time_out_hangs_again(fake: Fake) -> None:
    """So that a recording of a hung node hangs whoever reads it."""
    key = f"nvml:nvmlDeviceGetSerial({A})"
    fake.write(recording(NODE, {key: {"kind": "timed-out", "text": "no answer"}}))
    assert ask_until_hung(fake, ("nvmlDeviceGetSerial", A, "-"), key) == []


def ask_until_hung(fake: Fake, last: tuple[str, str, str], *keys: str) -> list[Any]:
    """Ask until ``last`` is the last call made and stays it; kill; return the values that came."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, ASK], env=fake.env, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(keys))
        process.stdin.close()
        wait_for(lambda: calls_made(fake.log)[-1:] == [last])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(HUNG_S)
        process.kill()
        assert process.stdout is not None
        values = [json.loads(row)["value"] for row in process.stdout]
    assert calls_made(fake.log)[-1] == last
    return values


def test_hung_process_can_ignore_sigterm(fake: Fake) -> None:
    """Then only SIGKILL ends it."""
    changes = {"nvml:nvmlSystemGetDriverVersion()": Change(hang=True)}
    fake.write(recording(NODE), changes=changes, ignore_sigterm=True)
    script = "import pynvml; pynvml.nvmlInit(); pynvml.nvmlSystemGetDriverVersion()"
    with subprocess.Popen([sys.executable, "-c", script], env=fake.env) as process:
        wait_for(lambda: len(calls_made(fake.log)) > 1)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        ignored = next(line.split()[1] for line in status.splitlines() if line[:6] == "SigIgn")
        process.kill()
    assert int(ignored, 16) >> (signal.SIGTERM - 1) & 1


def wait_for(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; fail if it does not come to hold."""
    end = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_log_has_every_call_in_order(fake: Fake) -> None:
    """With the GPU and the numbers asked for."""
    fake.ask(f"nvml:nvmlDeviceGetTotalEccErrors({A},1,0)")
    assert calls_made(fake.log) == [
        ("nvmlInitWithFlags", "-", "-"),
        ("nvmlDeviceGetHandleByPciBusId_v2", A, "-"),
        ("nvmlDeviceGetTotalEccErrors", A, "1,0"),
    ]


def test_no_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of failing the tests of whoever has none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCompiler, match="cc"):
        build(tmp_path)


def need(tool: str) -> None:
    """Skip if the tool is not installed beside the tests."""
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")


def test_gpustat_sees_the_gpus(fake: Fake) -> None:
    """As JSON and as text."""
    need("gpustat")
    seen = json.loads(fake.run("-m", "gpustat", "--json"))
    assert seen["driver_version"] == "580.159.04"
    wanted = ("uuid", "temperature.gpu", "utilization.gpu", "memory.total", "power.draw")
    assert [tuple(each[name] for name in wanted) for each in seen["gpus"]] == [
        (f"{UUID}{number}", 34 + number, 7, 143771, None) for number in (0, 1)
    ]
    assert fake.run("-m", "gpustat", "--no-color").count("NVIDIA H200") == len((A, B))


def test_nvitop_sees_the_gpus(fake: Fake) -> None:
    """Its snapshot shows both, with what was recorded."""
    need("nvitop")
    screen = fake.run("-m", "nvitop", "-1")
    assert "580.159.04" in screen
    assert all(text in screen for text in ("34C", "35C", "615.1MiB / 140.4GiB", "7%"))


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.parent.name)
def test_a_real_node_comes_back(fake: Fake, path: Path) -> None:
    """Every getter of a real node, value or error, through the fake and back."""
    what = captures.load(path)
    fake.write(what)
    answers = fake.ask(*(reading["key"] for reading in what["readings"]))
    for reading, answer in zip(what["readings"], answers, strict=True):
        error = reading.get("error", {})
        expected = (error["code"], error["text"]) if error else reading["value"]
        assert answer == expected, reading["key"]
