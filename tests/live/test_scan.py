"""Whole runs on a fake machine: what each kind of broken GPU or driver costs, what it is blamed
for, what is unread.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import Change
from machine import DEMO, EIGHT, ENOUGH_S, INIT, WITHOUT_OVERRIDE, Done, Machine, call, gpu

from gpuscan.recording import Recording, load, patch

A, B = "0000:43:00.0", "0000:c3:00.0"  # SXM1 in slot 22 and SXM5 in slot 26
OTHERS = 7
Make = Callable[[Recording], Machine]


@pytest.mark.smoke
def test_eight_healthy_gpus(eight: Machine) -> None:
    done = eight.run()
    assert done.verdict == (0, "pass", True)
    assert done.report["run"]["profile"]["name"] == "h100-8x"
    assert done.report["findings"] == []
    assert done.err == ""
    assert len(eight.gpus()) == OTHERS + 1
    assert eight.read_all_but()
    fields = sum(symbol == "nvmlDeviceGetFieldValues" for symbol in eight.calls())
    assert fields == 2 * (OTHERS + 1), (
        "one batch for the links and their number, one for the recovery action"
    )


@pytest.mark.parametrize(
    ("changes", "kind", "action"),
    [
        ({gpu(A): Change(code=15)}, "lost", "reboot"),
        ({gpu(A): Change(code=15, handle=True)}, "lost", "reboot"),
        ({gpu(A): Change(absent=True)}, "not-found", "reboot"),
        ({gpu(A): Change(code=16)}, "reset-required", "reset-gpu"),
        ({gpu(A): Change(code=16, handle=True)}, "reset-required", "reset-gpu"),
    ],
    ids=[
        "lost",
        "lost from the handle on",
        "seven of eight",
        "reset required",
        "reset required for the handle",
    ],
)
def test_one_gpu_that_does_not_answer(
    eight: Machine, changes: Mapping[str, Change], kind: str, action: str
) -> None:
    """It is one finding with one action, and only its own facts are unread."""
    eight.nvml(changes)
    done = eight.run()
    assert done.verdict[:2] == (30, "reboot")
    assert done.findings() == {("driver.gpu_access", "gpu:SXM1"): action}
    assert list(done.of("driver.gpu_access").values()).count("pass") == OTHERS
    missing = eight.unread(kind)
    assert missing
    assert all(A in key for key in missing)
    assert eight.read_all_but(A)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (9, (20, "software")),
        (12, (20, "software")),
        (18, (20, "software")),
        (4, (3, "incomplete")),
        (999, (20, "software")),
    ],
    ids=["not loaded", "no library", "mismatch", "no permission", "unknown error"],
)
def test_nvml_does_not_start(eight: Machine, code: int, verdict: tuple[int, str]) -> None:
    """GPUs are on PCI: a driver that does not answer is a software fault; one that denies access is
    unknown.
    """
    eight.nvml({INIT: Change(code=code)})
    done = eight.run()
    assert done.verdict[:2] == verdict
    assert list(done.findings()) == [("driver.loaded", "node")] * (verdict[0] == 20)
    assert not eight.read_all_but()
    assert eight.calls() == ["nvmlInitWithFlags"] * len(eight.calls()), "no GPU is asked"


def test_no_library(eight: Machine) -> None:
    """Whatever is installed here, an unreadable library comes first."""
    folder = eight.folder / "no library"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").write_bytes(b"")
    done = eight.run(env={"LD_LIBRARY_PATH": str(folder)})
    assert done.verdict[:2] == (20, "software")
    assert done.findings() == {("driver.loaded", "node"): "fix-config"}
    assert eight.recorded.get(INIT).code == 12


def test_a_driver_root_brings_the_library(eight: Machine) -> None:
    """And one without it says so."""
    assert eight.library is not None
    nothing = eight.folder / "no library"
    driver = eight.folder / "driver"
    (driver / "usr" / "lib64").mkdir(parents=True)
    nothing.mkdir()
    (nothing / "libnvidia-ml.so.1").write_bytes(b"")
    env = {"LD_LIBRARY_PATH": str(nothing)}
    done = eight.run("--driver-root", str(driver), env=env)
    assert done.findings() == {("driver.loaded", "node"): "fix-config"}
    (driver / "usr" / "lib64" / "libnvidia-ml.so.1").symlink_to(eight.library / "libnvidia-ml.so.1")
    assert eight.run("--driver-root", str(driver), env=env).verdict == (0, "pass", True)


def without_gpus() -> Recording:
    """The eight-GPU machine after all its GPUs have left PCI."""
    recording = load(str(EIGHT))
    pci = "dir:/sys/bus/pci/devices"
    devices = [
        name
        for name in recording.get(pci)
        if f"nvml:nvmlDeviceGetHandleByPciBusId({name})" not in recording
    ]
    gone = {f"*{address}*": None for address in set(recording.get(pci)) - set(devices)}
    return patch(recording, {pci: devices, **gone, "nvml:nvmlDeviceGetCount()": 0})


def test_no_gpu_where_eight_are_expected(machine: Make) -> None:
    node = machine(without_gpus())
    node.nvml({INIT: Change(code=9)})
    done = node.run("--profile", "h100-8x")
    assert done.verdict[:2] == (31, "reboot")
    assert done.findings()["inventory.gpu_count", "node"] == "power-cycle"
    assert any("8 missing" in row["message"] for row in done.report["findings"])


def test_no_gpu_and_nothing_expected(machine: Make) -> None:
    node = machine(without_gpus())
    node.nvml({INIT: Change(code=9)})
    done = node.run("--profile", "auto")
    assert done.verdict == (3, "incomplete", False)
    assert done.report["findings"] == []
    assert any("no profile matches" in note for note in done.report["notes"])


def test_crash_costs_one_key(eight: Machine) -> None:
    """A crash is no hang: a new child reads the rest, of that GPU, too."""
    key = call("RemappedRows", A)
    eight.nvml({key: Change(crash=True)})
    done = eight.run()
    assert done.verdict == (3, "incomplete", False)
    assert eight.unread("garbled") == [key]
    assert "SIGSEGV" in eight.recorded.get(key).text
    assert eight.unread("blocked-behind") == []
    assert eight.read_all_but(A)
    assert done.of("driver.loaded") == {"node": "unknown"}, "NVML's process died"
    assert done.of("memory.row_remap")["gpu:SXM1"] == "skip", "which explains it"
    assert not list(eight.folder.glob("core*"))


def test_a_crash_hides_no_fault_of_another_gpu(eight: Machine) -> None:
    eight.nvml(
        {
            call("RemappedRows", A): Change(crash=True),
            call("RemappedRows", B): Change(value=[0, 1, 0, 1]),
        }
    )
    done = eight.run()
    assert done.verdict == (41, "hardware", False)
    assert ("memory.row_remap", "gpu:SXM5") in done.findings()


def test_crash_on_every_gpu(eight: Machine) -> None:
    """As a binding does that disagrees with the library."""
    eight.nvml({call("RemappedRows", address): Change(crash=True) for address in eight.gpus()})
    assert eight.run().verdict == (3, "incomplete", False)
    assert eight.unread("garbled") == [call("RemappedRows", address) for address in eight.gpus()]
    assert eight.unread("blocked-behind") == []


def test_crash_in_init(eight: Machine) -> None:
    eight.nvml({INIT: Change(crash=True)})
    assert eight.run().verdict == (3, "incomplete", False)
    assert eight.unread("garbled") == [INIT]
    assert eight.calls() == ["nvmlInitWithFlags"]


def test_slow_gpu_is_asked_nothing_more(eight: Machine) -> None:
    """An answer that late came from dead firmware; each further call would take as long."""
    key = call("RemappedRows", A)
    eight.nvml({key: Change(delay_ms=2500)})
    done = eight.run(limits="init=20,call=10,host=10,slow=2")
    assert done.verdict == (3, "incomplete", False)
    assert done.of("driver.gpu_access")["gpu:SXM1"] == "unknown"
    assert eight.calls(A)[-1] == "nvmlDeviceGetRemappedRows"
    assert eight.recorded.get(key) == [0, 0, 0, 0], "late, but an answer"
    missing = eight.unread("blocked-behind")
    assert missing
    assert all(A in key for key in missing)
    assert eight.read_all_but(A)


@pytest.mark.parametrize("words", [B, B.upper(), f"0000{B}", B[5:]])
def test_only_the_named_gpu_is_touched(eight: Machine, words: str) -> None:
    """By its PCI address, however written: the others may hang."""
    eight.nvml({gpu(A): Change(hang=True, handle=True)})
    done = eight.run("--gpus", words)
    assert done.verdict == (0, "pass", True)
    assert eight.order() == [B]
    assert list(done.of("driver.gpu_access")) == ["gpu:SXM5"]


@pytest.mark.parametrize(
    "words",
    ["SXM1", "sxm1,SXM5", "22", "1654000000101", "GPU-00000001-0100-4000-8000-000000000101"],
)
def test_gpus_named_otherwise(eight: Machine, words: str) -> None:
    """These names are known only once all GPUs have been read."""
    done = eight.run("--gpus", words)
    assert done.verdict == (0, "pass", True)
    assert "gpu:SXM1" in done.of("driver.gpu_access")
    assert len(done.of("driver.gpu_access")) == len(words.split(","))


def test_a_gpu_that_is_not_there(eight: Machine) -> None:
    done = eight.plain("run", "--gpus", "SXM9")
    assert (done.code, done.out) == (2, "")
    assert "SXM9" in done.err
    done = eight.plain("run", "--gpus", "0000:99:00.0")
    assert (done.code, done.out) == (2, "")
    assert "0000:99:00.0" in done.err


@pytest.mark.parametrize("code", [79, 119, 62])
def test_suspects_are_read_last(eight: Machine, code: int) -> None:
    """A GPU that is likely to hang, by the kernel log, then blocks none of the others."""
    eight.log_lines(f"NVRM: Xid (PCI:{A[:-2]}): {code}, pid=1234, name=python, told by the driver")
    done = eight.run()
    assert [row["subject"] for row in done.report["findings"]] == [f"incident:Xid {code} on SXM1"]
    assert eight.order() == [*(address for address in eight.gpus() if address != A), A]


@pytest.mark.parametrize(("second", "found"), [(0, False), (0x80, True)], ids=["flash", "lasting"])
def test_clock_reasons_are_sampled_twice(eight: Machine, second: int, found: bool) -> None:
    """A power brake in only one of two samples does not fail; one in both is sampled a third time,
    a second after the first.
    """
    key = call("CurrentClocksEventReasons", A)
    eight.nvml({key: Change(value=0x80, then=second)})
    done = eight.run()
    readings = eight.recorded.all(key)
    assert [reading.value for reading in readings] == [0x80, second, *[second] * found]
    assert not found or readings[-1].at_s - readings[0].at_s > 0.9
    assert (("thermal.power_brake", "gpu:SXM1") in done.findings()) is found
    assert done.code == (40 if found else 0)


def test_files_that_may_not_be_read(eight: Machine) -> None:
    """Denied is a kind of its own: the kernel log is not clean, it is not known."""
    for path in ("dev/kmsg", "sys/class/dmi/id/product_serial"):
        (eight.root / path).chmod(0)
    done = eight.run(before=(sys.executable, "-c", WITHOUT_OVERRIDE))
    assert done.verdict == (3, "incomplete", False)
    for key in ("kmsg:/dev/kmsg", "file:/sys/class/dmi/id/product_serial"):
        assert eight.recorded.get(key).kind == "no-permission"
    assert done.of("xid.faults") == {"node": "unknown"}
    assert done.report["host"]["serial"] is None


def test_a_pipe_in_place_of_a_file_does_not_block(eight: Machine) -> None:
    """Nor does a folder."""
    import os

    for path, make in (("proc/uptime", os.mkfifo), ("etc/os-release", os.mkdir)):
        (eight.root / path).unlink()
        make(eight.root / path)
    assert eight.run().verdict == (0, "pass", True)
    for path in ("proc/uptime", "etc/os-release"):
        assert eight.recorded.get(f"file:/{path}")[1:3] == ("garbled", "not a regular file")


def test_bytes_that_are_no_text_survive(eight: Machine) -> None:
    """In files, names and the kernel log, through recording and judging."""
    (eight.root / "proc/sys/kernel/hostname").write_bytes(b"n\xf6de\n")
    with (eight.root / "dev/kmsg").open("ab") as log:
        log.write(b"4,99999,900000000,-;usb 1-1: Product: \xff\xfe\n")
    assert eight.run().verdict == (0, "pass", True)
    assert eight.recorded.get("file:/proc/sys/kernel/hostname") == "n\udcf6de\n"
    assert eight.recorded.get("kmsg:/dev/kmsg")[-1].endswith("\udcff\udcfe")
    assert eight.plain("run", "--replay", str(eight.file)).code == 0


def judged(file: Path) -> Done:
    whole = [sys.executable, "-m", "gpuscan", "judge", str(file), "--format", "json"]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=ENOUGH_S, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


SAME = ("summary", "checks", "findings", "blind_spots", "parts", "software")


def lasting(report: Mapping[str, Any]) -> dict[str, Any]:
    """What two scans of one machine have in common: not the seconds between two readings."""
    same = {name: report[name] for name in SAME}
    checks = [
        row | {"evidence": [e for e in row["evidence"] if not e["fact"].endswith(".seconds")]}
        if "evidence" in row
        else row
        for row in report["checks"]
    ]
    return same | {"checks": checks}


@pytest.mark.parametrize("changes", [{}, {gpu(A): Change(code=15)}], ids=["healthy", "lost"])
def test_collect_and_judge_equals_run(eight: Machine, changes: Mapping[str, Change]) -> None:
    eight.nvml(changes)
    ran = eight.run()
    assert eight.plain("collect", str(eight.file)).code == 0
    later = judged(eight.file)
    assert later.code == ran.code
    assert lasting(later.report) == lasting(ran.report)


def test_redacted_names_nobody_and_is_judged_alike(eight: Machine) -> None:
    eight.nvml({call("RemappedRows", A): Change(value=[0, 1, 0, 1])})
    ran = eight.run()
    names = {
        str(reading.value)
        for reading in eight.recorded
        if reading.key.startswith(("nvml:nvmlDeviceGetSerial", "nvml:nvmlDeviceGetUUID"))
    }
    names |= {
        str(eight.recorded.get(f"file:{path}")).strip()
        for path in ("/proc/sys/kernel/hostname", "/etc/machine-id")
    }
    names |= {
        str(eight.recorded.get(f"file:/sys/class/dmi/id/{name}")).strip()
        for name in ("product_serial", "product_uuid", "board_serial")
    }
    assert eight.plain("collect", str(eight.file), "--redact").code == 0
    text = eight.file.read_text("utf-8")
    assert len(names) == 2 * (OTHERS + 1) + 5
    assert [name for name in names if name in text or name.removeprefix("GPU-") in text] == []
    later = judged(eight.file)
    assert later.verdict == ran.verdict
    assert later.verdict[0] == 41
    assert later.findings() == ran.findings()


def test_two_recordings_of_one_machine_stay_comparable(eight: Machine) -> None:
    """A pseudonym is the same next time."""
    files = [eight.folder / name for name in ("one.json", "two.json")]
    for file in files:
        assert eight.plain("collect", str(file), "--redact").code == 0
    first, second = (load(str(file)) for file in files)
    serial = call("Serial", A)
    assert first.get(serial) == second.get(serial) != eight.recording.get(serial)


@pytest.mark.parametrize("tool", ["gpustat", "nvitop"])
def test_other_tools_see_eight_gpus(eight: Machine, tool: str) -> None:
    """Other tools read from the fake what was recorded."""
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed")
    arguments = ["--json"] if tool == "gpustat" else ["-1"]
    whole = [sys.executable, "-m", tool, *arguments]
    done = subprocess.run(
        whole, env=eight.env(), capture_output=True, text=True, timeout=ENOUGH_S, check=True
    )
    if tool == "gpustat":
        assert [each["name"] for each in json.loads(done.stdout)["gpus"]] == [
            "NVIDIA H100 80GB HBM3"
        ] * (OTHERS + 1)
    else:
        assert done.stdout.count("H100 80GB HBM3") == OTHERS + 1


def test_inventory_and_doctor_on_a_hung_gpu(eight: Machine) -> None:
    """Whatever command reads the machine is as safe."""
    eight.nvml({call("RemappedRows", A): Change(hang=True)})
    inventory = eight.plain("info", "--format", "json")
    assert inventory.code == 0
    assert [gpu["access"] for gpu in json.loads(inventory.out)["gpus"]].count("ok") == OTHERS
    doctor = eight.plain("doctor", "--format", "json")
    assert doctor.code == 0
    nvml = next(area for area in json.loads(doctor.out)["areas"] if area["area"] == "NVML")
    assert nvml["lacks"]["timed-out"] == 1


def test_demo_runs_live(machine: Make) -> None:
    """Four H200 in a virtual machine, the profile named."""
    done = machine(load(str(DEMO))).run("--profile", "h200-4x")
    assert done.verdict == (0, "pass", True)


@pytest.mark.parametrize(
    ("changes", "code", "exit_code", "verdict"),
    [
        ({}, 2, 0, "pass"),
        ({INIT: Change(code=4)}, 2, 3, "incomplete"),
        ({INIT: Change(code=9)}, 20, 20, "software"),
        ({gpu(A): Change(code=15)}, 30, 30, "reboot"),
    ],
    ids=["healthy", "not known", "no driver", "a lost GPU"],
)
def test_a_recording_that_cannot_be_kept_does_not_cost_the_verdict(
    eight: Machine, changes: Mapping[str, Change], code: int, exit_code: int, verdict: str
) -> None:
    """A proven failure keeps its exit code; anything else exits with 2. This device is full even
    for root.
    """
    eight.nvml(changes)
    done = eight.plain("run", "--format", "json", "--record", "/dev/full")
    summary = done.report["summary"]
    assert (done.code, summary["exit_code"], summary["verdict"]) == (code, exit_code, verdict)
    assert done.err == "gpuscan: /dev/full: cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (
            "/no/such/folder/x.gz",
            "cannot be written: there is no folder /no/such/folder; create it first",
        ),
        ("/usr", "cannot be written: is a folder; name a file in it"),
    ],
)
def test_a_recording_that_can_be_kept_nowhere_costs_no_scan(
    eight: Machine, file: str, told: str
) -> None:
    done = eight.plain("run", "--record", file)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"gpuscan: {file}: {told}\n"
    assert eight.calls() == []
