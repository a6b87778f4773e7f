"""Hangs, deaths, signals and deadlines: the report always arrives, and only what did not answer is
blamed.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_nvml import Change
from machine import (
    ENOUGH_S,
    INIT,
    LIMITS,
    MARK,
    Machine,
    call,
    end_all,
    finished,
    gpu,
    living,
    wait_for,
)

from gpuscan.live.child import fork_reader
from gpuscan.live.limits import Limits
from gpuscan.live.process import end_what_is_left
from gpuscan.live.supervisor import ReadOptions, ReadSupervisor
from gpuscan.recording import load

pytestmark = pytest.mark.system
A, B = "0000:43:00.0", "0000:c3:00.0"  # SXM1 in slot 22 and SXM5 in slot 26
OTHERS = 7
HANDLE = "nvmlDeviceGetHandleByPciBusId_v2"
MIDDLE = call("RemappedRows", A)
CLOCKS = call(
    "CurrentClocksEventReasons", A
)  # read twice: the second sample is blocked where the first one was not
TWICE = {CLOCKS, call("PcieReplayCounter", A)}  # their second samples come after all else
PATIENT = "init=60,call=60,host=60"

# Stands in for a process that hangs in the kernel: neither gpuscan's SIGKILL nor gpuscan's end
# reaches it.
UNKILLABLE = """
import os, signal
from gpuscan.live import process
for name in ("kill", "killpg"):
    way = getattr(os, name)
    setattr(os, name, lambda pid, number, way=way: None if number == signal.SIGKILL else way(pid, number))
process.die_with_parent = lambda: None
from gpuscan.__main__ import main
main()
"""

# A folder of the kernel that never answers.
HUNG_FOLDER = """
import os, time
from gpuscan.__main__ import main
listdir = os.listdir
def hang(path):
    name = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
    return time.sleep(1000) if name.endswith("/class/infiniband") else listdir(path)
os.listdir = hang
main()
"""

# A process that gpuscan leaves behind becomes a child of this one.
SUBREAPER = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
code = subprocess.run(sys.argv[1:]).returncode
try:
    os.waitpid(-1, os.WNOHANG)
    print("somebody is left", file=sys.stderr)
except ChildProcessError:
    print("nobody is left", file=sys.stderr)
sys.exit(code)
"""


def keys_of(machine: Machine, address: str) -> list[str]:
    return [
        reading.key
        for reading in machine.recording
        if reading.key.startswith("nvml:") and address in reading.key
    ]


@pytest.mark.parametrize(
    ("changes", "culprit", "last"),
    [
        ({gpu(A): Change(hang=True, handle=True)}, call("HandleByPciBusId", A), HANDLE),
        ({MIDDLE: Change(hang=True)}, MIDDLE, "nvmlDeviceGetRemappedRows"),
        (
            {call("FieldValues", A, ",165,17"): Change(hang=True)},
            call("FieldValues", A, ",230,0"),
            "nvmlDeviceGetFieldValues",
        ),
    ],
    ids=["at its handle", "in the middle", "in its last call"],
)
def test_one_gpu_hangs(eight: Machine, changes: dict[str, Change], culprit: str, last: str) -> None:
    """Its first unanswered key is blamed and the rest of its keys are blocked; the other GPUs are
    read, and it is not asked again.
    """
    eight.nvml(changes)
    done = eight.run()
    assert done.verdict[:2] == (30, "reboot")
    assert list(done.findings().items()) == [
        (("driver.gpu_access", done.report["findings"][0]["subject"]), "reboot")
    ]
    assert done.report["findings"][0]["address"] == A
    assert eight.unread("timed-out") == [culprit]
    keys = keys_of(eight, A)
    blocked = {*eight.unread("blocked-behind"), *TWICE}
    later = {*keys[keys.index(culprit) + 1 :], *TWICE}
    assert blocked & {*keys, *TWICE} == later
    assert all(A in key for key in blocked), "the others are calls that the recording lacks"
    assert eight.read_all_but(A)
    assert eight.calls(A)[-1] == last
    assert eight.calls(A).count("nvmlDeviceGetCurrentClocksEventReasons") <= 1, (
        "nor for its second sample"
    )
    assert eight.calls(B).count("nvmlDeviceGetCurrentClocksEventReasons") == 2
    assert done.err == ""


def test_init_hangs(eight: Machine) -> None:
    eight.nvml({INIT: Change(hang=True)})
    done = eight.run(limits="init=5,call=3,host=10")
    assert done.verdict[:2] == (30, "reboot")
    assert done.findings() == {("driver.loaded", "node"): "reboot"}
    assert eight.unread("timed-out") == [INIT]
    assert set(eight.calls()) == {"nvmlInitWithFlags"}


@pytest.mark.smoke
@pytest.mark.parametrize("hung", [(A, B), "all"], ids=["two", "all"])
def test_several_gpus_hang(eight: Machine, hung: tuple[str, ...] | str) -> None:
    """After the second one NVML itself counts as stuck, and no third child is sent in."""
    gpus = eight.gpus() if hung == "all" else list(hung)
    eight.nvml({gpu(address): Change(hang=True, handle=True) for address in gpus})
    done = eight.run()
    assert done.verdict[:2] == (30, "reboot")
    assert ("driver.loaded", "node") in done.findings()
    assert set(done.findings().values()) == {"reboot"}
    assert eight.unread("timed-out") == [
        INIT,
        *(call("HandleByPciBusId", address) for address in gpus[:2]),
    ]
    assert eight.order()[-1] == gpus[1]
    assert (
        eight.calls().count("nvmlInitWithFlags") == 3
    )  # the first child begins before it is asked, and once more then
    asked = [address for address in eight.gpus() if address < gpus[1] and address not in gpus]
    assert all(
        eight.recorded.get(call("Serial", address)) == eight.recording.get(call("Serial", address))
        for address in asked
    )


def test_sigterm_does_not_end_a_hung_child(eight: Machine) -> None:
    eight.nvml({MIDDLE: Change(hang=True)}, ignore_sigterm=True)
    assert eight.run().verdict[:2] == (30, "reboot")
    assert eight.read_all_but(A)


def test_a_child_that_cannot_be_killed_is_left_behind(eight: Machine) -> None:
    """The report comes, the program ends, and whoever reads its output sees the end of it."""
    eight.nvml({MIDDLE: Change(hang=True)})
    env = eight.env()
    command = (
        f"{shlex.join(eight.command(*eight.scan(), script=UNKILLABLE))} | cat; exit"
        " ${PIPESTATUS[0]}"
    )
    with eight.start(["bash", "-c", command], env) as process:
        try:
            out, err = process.communicate(timeout=ENOUGH_S)
            assert len(living(env[MARK])) >= 1, "the stand-in does not stand in"
        finally:
            end_all(env[MARK])
    assert (process.returncode, err) == (30, "")
    assert '"verdict": "reboot"' in out
    assert eight.read_all_but(A)


def test_a_hung_folder_of_the_host(eight: Machine) -> None:
    """A new child reads what comes after it; its own facts are unknown."""
    done = eight.run(limits="init=20,call=3,host=3", script=HUNG_FOLDER)
    assert done.verdict == (3, "incomplete", False)
    missing = [
        reading.key
        for reading in eight.recorded
        if reading.error is not None and reading.error.kind == "timed-out"
    ]
    assert missing == ["dir:/sys/class/infiniband"]
    assert done.of("infiniband.port_count") == {"node": "unknown"}
    assert eight.read_all_but()


def test_nonsense_from_a_child(eight: Machine) -> None:
    """A library that writes where it should not costs only the call in which it does."""
    eight.nvml({MIDDLE: Change(scribble=True)})
    assert eight.run().verdict == (3, "incomplete", False)
    assert eight.unread("garbled") == [MIDDLE]
    assert "nonsense" in eight.recorded.get(MIDDLE).text
    assert eight.read_all_but(A)


def hanging(machine: Machine, **options: object) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """Start a run, and return when it hangs in the middle of GPU A."""
    machine.nvml({MIDDLE: Change(hang=True)})
    env = machine.env(PATIENT)
    process = machine.start(machine.command(*machine.scan()), env, **options)
    wait_for(
        lambda: (
            machine.calls()[-1:] == ["nvmlDeviceGetRemappedRows"]
            and machine.calls(A)[-1:] == machine.calls()[-1:]
        )
    )
    return process, env


@pytest.mark.parametrize(
    "numbers", [(2,), (15,), (1,), (2, 15)], ids=["INT", "TERM", "HUP", "both"]
)
def test_a_signal_ends_the_scan_with_a_partial_report(
    eight: Machine, numbers: tuple[int, ...]
) -> None:
    process, env = hanging(eight)
    with process:
        for number in numbers:
            process.send_signal(number)
        done = finished(process, env)
    code = done.code
    assert (code - 128 in numbers, done.err) == (True, ""), "of two at once either may come first"
    assert done.report["summary"]["complete"] is False
    assert any("partial" in note for note in done.report["notes"])
    assert done.report["run"]["ended_by_signal"] == code - 128
    assert "ended by a signal" in eight.recorded.get(MIDDLE).text
    assert set(eight.unread("timed-out")) <= {MIDDLE}, "on a busy machine the hang may be proven"
    assert eight.recorded.get(call("Name", A)) == "NVIDIA H100 80GB HBM3"
    later = eight.plain("run", "--replay", str(eight.file))
    assert later.code == 3
    assert "partial" in later.out


def test_interrupted_at_the_terminal(eight: Machine) -> None:
    """There the signal reaches every process of the group, and people press Ctrl-C twice."""
    process, env = hanging(eight, start_new_session=True)
    with process:
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
        done = finished(process, env)
    assert (done.code, done.err) == (130, "")
    assert done.report["summary"]["complete"] is False


@pytest.mark.parametrize("wait_s", [0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3])
def test_a_signal_at_any_moment(eight: Machine, wait_s: float) -> None:
    """Early and late it ends the program as a signal does; in between there is a report. Nobody is
    left behind.
    """
    env = eight.env()
    with eight.start(eight.command(*eight.scan()), env) as process:
        time.sleep(wait_s)
        process.send_signal(signal.SIGTERM)
        done = finished(process, env)
    assert "Traceback" not in done.err
    assert done.code in (-signal.SIGTERM, 143, 0)
    if done.code == 143:
        assert done.report["summary"]["complete"] is False


def test_the_scan_ends_with_the_program(eight: Machine) -> None:
    process, env = hanging(eight)
    with process:
        process.kill()
        done = finished(process, env)
    assert (done.code, done.out) == (-signal.SIGKILL, "")


def test_the_scan_is_killed(eight: Machine) -> None:
    """For example by the kernel when memory is short: the report says that nothing is known."""
    process, env = hanging(eight)
    scans = [pid for pid in living(env[MARK]) if parent_of(pid) == process.pid]
    with process:
        for pid in scans:
            os.kill(pid, signal.SIGKILL)
        done = finished(process, env)
    assert done.verdict == (3, "incomplete", False)
    assert "died" in done.err
    assert "Traceback" not in done.err


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[1])


def test_a_short_deadline_blames_nobody(eight: Machine) -> None:
    """The report comes in time; a few seconds of silence prove nothing, and are no pass."""
    eight.nvml({MIDDLE: Change(hang=True)})
    done = eight.run("--deadline", "20", limits="")
    assert done.verdict == (3, "incomplete", False)
    assert done.report["findings"] == []
    assert done.err == ""
    assert eight.unread("timed-out") == []
    assert "not waited for longer" in eight.recorded.get(MIDDLE).text
    assert eight.calls(A)[-1] == "nvmlDeviceGetRemappedRows"


def test_a_slow_start_is_no_hang(eight: Machine) -> None:
    """Without persistence mode the first use of NVML is slow; a short deadline then leaves
    everything unknown.
    """
    eight.nvml({INIT: Change(delay_ms=2500)})
    done = eight.run("--deadline", "3", limits="")
    assert done.verdict == (3, "incomplete", False)
    assert done.report["findings"] == []
    assert eight.run().verdict == (0, "pass", True)


def test_a_machine_that_stood_still_blames_nobody(eight: Machine) -> None:
    """As a virtual machine does while it moves to another host: that time is no GPU's silence."""
    eight.nvml({MIDDLE: Change(delay_ms=2000)})
    env = eight.env("init=20,call=6,host=10,slow=60")
    with eight.start(eight.command(*eight.scan()), env) as process:
        wait_for(
            lambda: (
                eight.calls()[-1:] == ["nvmlDeviceGetRemappedRows"]
                and eight.calls(A)[-1:] == eight.calls()[-1:]
            )
        )
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in living(env[MARK]):
                os.kill(pid, number)
            time.sleep(7)
        done = finished(process, env)
    assert done.verdict == (0, "pass", True)


def test_many_slow_calls_end_at_the_deadline(eight: Machine) -> None:
    """Each call is within its limit, all together take too long: what was read counts."""
    eight.nvml({call("Name", address): Change(delay_ms=1500) for address in eight.gpus()})
    done = eight.run("--deadline", "16", limits="")
    assert done.verdict == (3, "incomplete", False)
    assert done.report["findings"] == []
    assert eight.recorded.get(call("Name", eight.gpus()[0])) == "NVIDIA H100 80GB HBM3"
    assert eight.unread("timed-out") == []


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--no-such-option"),
        ("run", "--profile", "no-such"),
        ("collect", "/no/such/folder/file"),
    ],
)
def test_wrong_usage_leaves_no_process_behind(words: tuple[str, ...]) -> None:
    """Though the scan had begun by then."""
    whole = [sys.executable, "-c", SUBREAPER, sys.executable, "-m", "gpuscan", *words]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=ENOUGH_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("nobody is left\n")


@pytest.mark.parametrize("hang", [False, True])
def test_no_zombies(eight: Machine, hang: bool) -> None:
    """They would stay where a container's first process does not reap."""
    eight.nvml({MIDDLE: Change(hang=hang)})
    done = eight.run(before=(sys.executable, "-c", SUBREAPER))
    assert (done.code, done.err) == (30 if hang else 0, "nobody is left\n")


def test_a_parent_that_ignores_sigchld(eight: Machine) -> None:
    """Where our parent ignores SIGCHLD, the kernel reaps, and waiting for a child is an error."""
    eight.nvml({MIDDLE: Change(hang=True)})
    ignore = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        " os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = eight.run(before=(sys.executable, "-c", ignore))
    assert (done.verdict[:2], done.err) == ((30, "reboot"), "")


def test_a_plan_and_an_answer_larger_than_the_pipes(tmp_path: Path) -> None:
    """Every key gets its reading, in order; a file is cut at its limit."""
    (tmp_path / "large").write_bytes(b"x" * (9 << 20))
    keys = [f"file:/proc/{'a' * 40}/{number}" for number in range(5000)]
    guard = ReadSupervisor(
        {"host": fork_reader("host")},
        ReadOptions(str(tmp_path), limits=Limits(host_s=ENOUGH_S)),
        lambda key, seconds: None,
    )
    try:
        readings = guard.read([*keys, "file:/large"])
    finally:
        guard.close()
        end_what_is_left()
    assert [reading.key for reading in readings] == [*keys, "file:/large"]
    assert len(readings[-1].value) == 8 << 20
    assert {reading.error.kind for reading in readings if reading.error is not None} == {
        "not-found"
    }


def test_the_recording_says_how_long_each_took(eight: Machine) -> None:
    eight.nvml({MIDDLE: Change(delay_ms=50)})
    assert eight.run(limits=LIMITS).code == 0
    taken = {reading.key: reading.ms for reading in load(str(eight.file))}
    assert taken[MIDDLE] >= 50
