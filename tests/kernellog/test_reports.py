"""What the kernel writes in several records of one report is one event, however it was logged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from logs import journal

from gpuscan import catalogue
from gpuscan.incidents.conditions import Context, choose_action
from gpuscan.kernellog.event import Event
from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.keeping import select_lines
from gpuscan.kernellog.lines import parse_lines, parse_numbered_lines
from gpuscan.live.grep import search_lines

NOW_S = 1751328000.0
HEAD = [
    "INFO: task python3:4711 blocked for more than 120 seconds.",
    "      Tainted: P           OE     5.15.0-112-generic #122-Ubuntu",
    '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
    "task:python3         state:D stack:    0 pid: 4711 ppid:     1 flags:0x00004006",
    "Call Trace:",
    " <TASK>",
    " __schedule+0x2cd/0x890",
    " schedule+0x69/0x110",
]
TAIL = [" do_syscall_64+0x5c/0xc0", " entry_SYSCALL_64_after_hwframe+0x61/0xcb", " </TASK>"]
STACKS: dict[str, tuple[list[str], str]] = {  # what a task waits in: the frames, the action
    "nvidia": ([" os_acquire_rwlock_read+0x33/0x50 [nvidia]", " nvidia_ioctl+0x1/0x2 [nvidia]"], "reboot"),
    "nvidia with a build id": ([" os_acquire_mutex+0x33/0x50 [nvidia 3c0ffee0aa]"], "reboot"),
    "uvm": ([" uvm_va_space_mm_shutdown+0x4a/0x90 [nvidia_uvm]"], "reboot"),
    "old frames": (["[<ffffffffc0a1b2c3>] os_acquire_semaphore+0x31/0x40 [nvidia]"], "reboot"),
    "nfs write-back": ([" nfs_wb_all+0x2c/0x190 [nfs]", " nfs4_file_flush+0x73/0xa0 [nfsv4]"], "reboot"),
    "nfs page flush": ([" nfs_page_async_flush+0x1b/0x260 [nfs]"], "reboot"),
    "mlx5": ([" mlx5_cmd_exec+0x2f/0x60 [mlx5_core]", " ib_destroy_qp_user+0x1/0x2 [ib_core]"], "reboot"),
    "lustre": ([" ptlrpc_queue_wait+0x7b/0x250 [ptlrpc]"], "monitor"),
    "nfs read": ([" rpc_wait_bit_killable+0x24/0xa0 [sunrpc]"], "monitor"),
    "a disk": ([" io_schedule+0x46/0x80", " xfs_log_force+0x1/0x2 [xfs]"], "monitor"),
    "nvidia, a leftover": ([" io_schedule+0x46/0x80", " ? nv_ioctl+0x1/0x2 [nvidia]"], "monitor"),
}  # fmt: skip
STAMPS: dict[str, Callable[[str, int], str]] = {
    "dmesg": lambda text, ms: f"[ 3600.{250 + ms:03}000] {text}",
    "dmesg -t": lambda text, _: text,
    "/dev/kmsg": lambda text, ms: f"3,{1227 + ms},{3600250000 + ms * 1000},-;{text}",
    "journalctl": lambda text, _: f"Feb 23 16:24:18 node01 kernel: {text}",
    "rsyslog": lambda text, ms: f"Feb 23 16:24:18 node01 kernel: [ 3600.{250 + ms:03}000] {text}",
    "journalctl -o json": lambda text, ms: journal(
        text, _SOURCE_MONOTONIC_TIMESTAMP=str(3600250000 + ms * 1000)
    ),
    "dmesg -T": lambda text, _: f"[Sun Feb 23 16:24:18 2025] {text}",
}


def log(lines: list[str], stamp: str) -> list[bytes]:
    return [STAMPS[stamp](line, number).encode() for number, line in enumerate(lines)]


def hung(lines: list[bytes]) -> list[Event]:
    whole = [one for one in read_events(parse_lines(lines, NOW_S)) if one.entry == "hung:task"]
    rows = select_lines(search_lines(lines), current=False, until_s=NOW_S).rows
    kept = [
        one for one in read_events(parse_numbered_lines(rows, NOW_S)) if one.entry == "hung:task"
    ]
    assert [choice(one) for one in kept] == [choice(one) for one in whole], "what is kept says less"
    return whole


def choice(event: Event) -> str:
    entry = catalogue.entry(event.entry)
    return choose_action(entry, event, Context([event])).action.value


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("stack", STACKS)
def test_a_hung_task_waits_where_its_stack_says(stack: str, stamp: str) -> None:
    frames, action = STACKS[stack]
    (one,) = hung(log([*HEAD, *frames, *TAIL], stamp))
    assert choice(one) == action
    assert (one.process, one.pid, one.line) == ("python3", 4711, 1)


@pytest.mark.parametrize("stamp", STAMPS)
def test_each_of_two_hung_tasks_has_its_own_stack(stamp: str) -> None:
    disk, driver = STACKS["a disk"][0], STACKS["nvidia"][0]
    second = [HEAD[0].replace("4711", "4712"), *HEAD[1:]]
    for first, then in ((disk, driver), (driver, disk)):
        got = hung(log([*HEAD, *first, *TAIL, *second, *then, *TAIL], stamp))
        expected = ["monitor", "reboot"] if first is disk else ["reboot", "monitor"]
        assert [(one.pid, choice(one)) for one in got] == list(
            zip((4711, 4712), expected, strict=True)
        )


@pytest.mark.parametrize("stamp", ["dmesg", "/dev/kmsg", "rsyslog"])
def test_the_stack_of_another_report_is_not_the_hung_tasks(stamp: str) -> None:
    lockup = [
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:99]",
        "CPU: 3 PID: 99 Comm: python3 Tainted: P",
        " os_acquire_spinlock+0xe/0x20 [nvidia]",
    ]
    (one,) = hung(log([*HEAD, *STACKS["a disk"][0], *TAIL, *lockup], stamp))
    assert choice(one) == "monitor"


@pytest.mark.parametrize("stamp", ["dmesg", "/dev/kmsg", "rsyslog"])
def test_what_stands_between_the_frames_counts(stamp: str) -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=812, name=python, GPU has fallen off the bus."
    lines = log([*HEAD, xid, *STACKS["nvidia"][0], *TAIL], stamp)
    events = list(read_events(parse_lines(lines, NOW_S)))
    assert [one.entry for one in events] == ["hung:task", "xid:79"]
    assert choice(events[0]) == "reboot"


JOBS = (
    "/slurm/uid_1001/job_4242",
    "/system.slice/slurmstepd.scope/job_12/step_0/user/task_0",
    "/kubepods.slice/kubepods-burstable.slice/cri-containerd-0a.scope",
    "/kubepods/besteffort/pod12/34",
    "/docker/0123abcd",
    "/system.slice/docker-0123.scope",
    "/user.slice/user-1001.slice/session-3.scope",
    "/machine.slice/libpod-12.scope",
    "/lxc.payload.c1",
    "/pbs_jobs.service/jobid/12.pbs",
    "/system.slice/condor.service/condor_slot1",
)
SERVICES = ("slurmd", "sshd", "ssh", "nvidia-dcgm", "kubelet", "containerd", "systemd-journald")
VICTIMS = ("python", "sshd", "systemd", "slurmd", "containerd-shim")


def kill(memcg: str, victim: str) -> list[str]:
    limit = f"oom_memcg={memcg},task_memcg={memcg}"
    return [
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,{limit},"
        f"task={victim},pid=4711,uid=1001",
        f"Memory cgroup out of memory: Killed process 4711 ({victim}) total-vm:1kB, anon-rss:1kB",
    ]


def kill_of_old(memcg: str, victim: str) -> list[str]:
    return [
        f"Task in {memcg} killed as a result of limit of {memcg}",
        f"Memory cgroup out of memory: Kill process 4711 ({victim}) score 1000 or sacrifice child",
    ]


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("write", [kill, kill_of_old])
def test_a_jobs_own_limit_is_the_jobs_affair(
    write: Callable[[str, str], list[str]], stamp: str
) -> None:
    for victim in VICTIMS:
        for memcg in JOBS:
            (one,) = read_events(parse_lines(log(write(memcg, victim), stamp), NOW_S))
            assert choice(one) == "restart-app", (memcg, victim)
        for unit in SERVICES:
            memcg = f"/system.slice/{unit}.service"
            (one,) = read_events(parse_lines(log(write(memcg, victim), stamp), NOW_S))
            assert choice(one) == "fix-config", (memcg, victim)


def test_two_kills_are_two_events() -> None:
    first = kill(JOBS[0], "sshd")
    other = [line.replace("4711", "4800") for line in kill("/system.slice/sshd.service", "sshd")]
    lines = log([*first, *other], "dmesg")
    got = list(read_events(parse_lines(lines, NOW_S)))
    assert [(one.pid, choice(one)) for one in got] == [(4711, "restart-app"), (4800, "fix-config")]
    mixed = log([first[0], other[1]], "dmesg")
    assert len(list(read_events(parse_lines(mixed, NOW_S)))) == 2
