"""How old lines end: for each line of the catalogue, fresh or old, once or again, with the present
state good, bad or unread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from building import was_read
from hostlines import FITS
from nodes_recordings import base, judged

from gpuscan import catalogue, collectors
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.incidents.ageing import BURST_S, HOUR_S, Present
from gpuscan.incidents.diagnose import Situation, find_incidents
from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.lines import parse_lines
from gpuscan.model import Gpu, Unread
from gpuscan.model.outcome import ACTIONS, Action
from gpuscan.recording import patch

NOW_S = 100_000.0
# class 20, and about no GPU, switch, PCIe, memory or CPU fault
AGE = {
    *("nvrm:api-mismatch", "driver:module-mismatch", "driver:unsigned", "driver:nouveau"),
    *("peermem:symbol", "segfault:service", "oom:limit", "oom:node", "limits:file-max"),
    *("limits:conntrack", "limits:neighbours", "nfs:not-responding", "nfs:evicted"),
    *("fs:io-error-virtual", "fm:version", "fm:not-ready"),
}
# those whose matter can be asked now
ASKED = {
    *("nvrm:api-mismatch", "nvrm:not-supported", "nvrm:probe-not-called", "nvrm:no-gpu"),
    *("nvrm:bar", "nvrm:no-irq", "nvrm:firmware-missing", "nvrm:firmware-version"),
    *("driver:module-mismatch", "driver:unsigned", "driver:nouveau", "peermem:symbol"),
    *("segfault:service", "oom:limit", "oom:node", "mlx5:module-refused"),
    *("fm:version", "fm:not-ready", "fm:driver-query", "fm:multicast"),
}
PEER_MEMORY = "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"
STILL_WAITS = "nfs: server nas01 not responding, still trying"
FURTHER = [
    ("nfs:not-responding", STILL_WAITS),
    ("oom:node", "Out of memory: Killed process 912 (slurmd) total-vm:1kB, anon-rss:1kB"),
    ("oom:node", "Out of memory: Killed process 912 (sshd) total-vm:1kB, anon-rss:1kB"),
    ("oom:limit", "Memory cgroup out of memory: Killed process 9 (kubelet) total-vm:1kB"),
    (
        "segfault:service",
        "nv-hostengine[22]: segfault at 10 ip 0 sp 0 error 4 in libdcgm.so.4[1+1]",
    ),
    ("driver:module-mismatch", "nvidia_uvm: disagrees about version of symbol nvidia_p2p_get"),
    ("driver:module-mismatch", "mlx5_ib: Unknown symbol ib_register_device (err -2)"),
]
LINES = sorted({(entry, message) for entry, message, _ in FITS} | set(FURTHER))


class Way(NamedTuple):
    """When a line came (seconds before now), and whether that makes one old burst."""

    ages_s: tuple[float, ...]
    old: bool


WAYS = {
    "a minute ago": Way((60,), False),
    "just under an hour ago": Way((HOUR_S - 1,), False),
    "two hours ago": Way((2 * HOUR_S,), True),
    "in a burst, hours ago": Way((5 * HOUR_S, 5 * HOUR_S - 31, 5 * HOUR_S - BURST_S), True),
    "hours ago and again hours ago": Way((9 * HOUR_S, 5 * HOUR_S), False),
    "hours ago and a minute ago": Way((9 * HOUR_S, 60), False),
}


def told(message: str, ages_s: tuple[float, ...], present: Present) -> int:
    """Return the exit code of a log with this line so many seconds ago."""
    lines = []
    for age_s in ages_s:
        first, *others = message.split("\n")
        lines += [f"[{NOW_S - age_s:.6f}] {first}", *(f" {other}" for other in others)]
    situation = Situation(present.gpus, 580, 0.0, present=present)
    incidents = find_incidents(read_events(parse_lines(lines)), situation)
    actions = [Action(one.action) for one in incidents if not one.ended]
    return max((ACTIONS[one].exit_code for one in actions if one not in WARN_ONLY), default=0)


UNREAD = Present(NOW_S)


def present(message: str, *, good: bool) -> Present:
    """Return the present in which all that a line may speak of is well, or is not."""
    node = collectors.node(base("demo"))
    driver, gpus = was_read(node.driver), was_read(node.gpus)
    event = next(read_events(parse_lines(message.replace("\n", "\n ").split("\n"))))
    gpu: Gpu = gpus[0]
    fabric = was_read(gpu.fabric)._replace(state=3 if good else 2)
    address = event.address or gpu.address
    silent = Unread("", "not-recorded", "not read")  # the driver's word is another story
    gpu = gpu._replace(
        address=address,
        access="ok" if good else "lost",
        fabric=fabric,
        recovery_action=silent,
    )
    loaded = ("nvidia", "nvidia_uvm", event.part.replace("-", "_"), "nvidia_peermem")
    active = "active" if good else "failed"
    units = (
        *("nvidia-fabricmanager", "nvidia-dcgm", "nvidia-persistenced", "nvidia-imex", "slurmd"),
        *("kubelet", "containerd", "docker", "crio", "sshd", "dbus"),
    )
    return Present(
        at_s=NOW_S,
        gpus=(gpu,),
        driver=driver._replace(
            module_version="580.1", library_version="580.1" if good else "570.9"
        ),
        modules=loaded if good else ("nouveau",),
        hcas=True,
        ports={address: ("ACTIVE" if good else "DOWN",)},
        services=dict.fromkeys(units, active),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
def test_an_hour_without_return_ends_what_may_age(way: str) -> None:
    wrong: list[Any] = []
    for entry, message in LINES:
        alone = told(message, (60.0,), UNREAD)
        code = told(message, WAYS[way].ages_s, UNREAD)
        aged = WAYS[way].old and alone == 20 and entry in AGE and "still trying" not in message
        if aged and code:
            wrong.append((entry, message, alone, code))
        if not aged and code < alone:
            wrong.append((entry, message, alone, code))
    assert wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("good", [True, False])
def test_the_present_state_decides_where_it_can_be_asked(way: str, *, good: bool) -> None:
    wrong: list[Any] = []
    for entry, message in LINES:
        unread = told(message, WAYS[way].ages_s, UNREAD)
        alone = told(message, (60.0,), UNREAD)
        code = told(message, WAYS[way].ages_s, present(message, good=good))
        asked = alone == 20 and entry in ASKED
        right = (0 if good else 20) if asked else unread
        if code != right:
            wrong.append((entry, message, unread, code))
    assert wrong == []


def test_a_state_that_could_not_be_read_ends_nothing() -> None:
    """A reading that failed must not look better than one that shows the fault."""
    lost = Unread("file:/proc/modules", "timed-out", "gave no answer")
    driver = was_read(collectors.node(base("demo")).driver)._replace(module_version=lost)
    silent = Present(NOW_S, gpus=lost, driver=driver, modules=lost, hcas=lost)
    silent = silent._replace(services={"nvidia-dcgm": lost, "nvidia-fabricmanager": lost})
    for entry in ASKED & {"nvrm:api-mismatch", "driver:unsigned", "peermem:symbol"}:
        for message in (message for one, message in LINES if one == entry):
            assert told(message, (5 * HOUR_S,), silent) == 20, message


def test_only_lines_of_class_20_that_name_no_part_of_the_hardware_age() -> None:
    ages = {row["id"] for row in catalogue.document("lines")["entries"] if row.get("ages")}
    assert ages == AGE
    for one in map(catalogue.entry, AGE):
        actions = [one.action, *(condition.action for condition in one.conditions)]
        assert max(ACTIONS[action].exit_code for action in actions) == 20, one.id
    kinds = {one.partition(":")[0] for one in AGE}
    assert not kinds & {"xid", "sxid", "aer", "apei", "mce", "edac", "lockup", "hung", "nvme", "md"}


def test_a_line_without_a_time_does_not_age() -> None:
    for entry in ("limits:file-max", "segfault:service"):
        message = next(message for one, message in LINES if one == entry)
        incidents = find_incidents(
            read_events(parse_lines([message])), Situation((), 580, 0.0, present=UNREAD)
        )
        assert [one.ended for one in incidents] == [""]


def test_a_hard_mounts_hang_ends_when_its_server_is_back() -> None:
    back = "nfs: server nas01 OK"
    for hours, code in ((1.0, 0), (30.0, 0)):
        lines = [f"[100.0] {STILL_WAITS}", f"[{100 + hours * HOUR_S:.1f}] {back}"]
        later = Present(200 + hours * HOUR_S)
        situation = Situation((), 580, 0.0, present=later)
        incidents = find_incidents(read_events(parse_lines(lines)), situation)
        kept = [one for one in incidents if one.entry == "nfs:not-responding" and not one.ended]
        assert {one.action for one in kept} <= {"monitor"}, code


def test_an_old_line_beside_a_new_one_of_another_kind_changes_nothing() -> None:
    lines = ["[100.0] VFS: file-max limit 65536 reached"]
    lines += ["[99990.0] nf_conntrack: nf_conntrack: table full, dropping packet"]
    incidents = find_incidents(
        read_events(parse_lines(lines)), Situation((), 580, 0.0, present=UNREAD)
    )
    assert [(one.entry, bool(one.ended)) for one in incidents] == [
        ("limits:file-max", True),
        ("limits:conntrack", False),
    ]


@pytest.mark.parametrize("wanted", ["true", "false", "null"])
def test_peer_memory_is_missed_where_the_profile_wants_it(wanted: str) -> None:
    node = base("h100-8x-ib")
    modules = str(node.get("file:/proc/modules")).splitlines()
    without = "".join(f"{line}\n" for line in modules if not line.startswith("nvidia_peermem"))
    ring = [*node.get("kmsg:/dev/kmsg"), f"3,9999,9000000,-;{PEER_MEMORY}"]
    broken = patch(node, {"file:/proc/modules": without, "kmsg:/dev/kmsg": ring})
    report = judged(broken, settings=[f"kernel.gpudirect_rdma={wanted}"])
    assert report.exit_code == (0 if wanted == "false" else 20)
