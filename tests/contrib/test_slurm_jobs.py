"""Prolog, epilog, reboot and burn-in of contrib/slurm, with Slurm's own daemons."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import Change
from machine import Machine, call
from slurm import Cluster, lacking, soon
from slurm_site import FAULT, FAULTY, NODES, SXM4, Site

pytestmark = [
    pytest.mark.contrib,
    pytest.mark.skipif(bool(lacking()), reason=f"Slurm is not installed: {lacking()}"),
]

BOOT_ID = "proc/sys/kernel/random/boot_id"
XID = f"NVRM: Xid (PCI:{SXM4[:-2]}): 31, pid=7, name=train, MMU fault"


def test_the_prolog_refuses_a_held_node_until_it_is_healed(site: Site, node: str) -> None:
    cluster = site.cluster
    site.machines[node].nvml(FAULTY)
    assert site.gpuscan(node, "run", "-q").code == 41  # nobody has drained it
    job = cluster.submit(node, "true")
    soon(lambda: "DRAIN" in cluster.state(node))
    assert cluster.reason(node) == "Prolog error"
    assert f"job {job} refused (exit code 41): hardware (41): replace gpu SXM4" in site.log(node)
    assert site.check(node).code == 41
    assert cluster.reason(node).startswith(FAULT)
    site.machines[node].nvml()
    site.gpuscan(node, "clear", "--reason", "SXM4 replaced")
    soon(lambda: cluster.state(node) == "IDLE+DRAIN")
    assert site.check(node).code == 0
    cluster.scontrol("update", f"jobid={job}", "starttime=now")  # two minutes later by default
    soon(lambda: cluster.fields("job", job).get("JobState") == "COMPLETED")


@pytest.mark.parametrize("scanned", [False, True])
def test_the_prolog_lets_a_node_pass_that_lacks_only_a_scan(
    site: Site, node: str, scanned: bool
) -> None:
    if scanned:
        assert site.check(node).code == 0
        boot_again(site.machines[node])
    job = site.cluster.submit(node, "true")
    assert site.gpuscan(node, "status").code == 3
    soon(lambda: site.cluster.fields("job", job).get("JobState") == "COMPLETED")
    assert "refused" not in site.log(node)


def boot_again(machine: Machine) -> None:
    """Give a fake machine another boot than that of its last run."""
    (machine.root / BOOT_ID).write_text(f"{uuid.uuid4()}\n", "ascii")


def test_a_hold_outlives_a_boot(site: Site, node: str) -> None:
    site.machines[node].nvml(FAULTY)
    assert site.check(node).code == 41
    boot_again(site.machines[node])
    site.machines[node].nvml()
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1
    assert site.check(node).code == 41
    assert site.cluster.reason(node).startswith("gpuscan: ")


def test_the_epilog_names_what_happened_during_the_job(site: Site, node: str) -> None:
    machine, cluster = site.machines[node], site.cluster
    log_now(machine, XID.replace("31, pid=7", "13, pid=6"))
    assert site.check(node).code == 0
    began, go = site.folder / "began", site.folder / "go"
    script = f"touch {began}; until [ -e {go} ]; do sleep 0.05; done"
    job = cluster.submit(node, script)
    soon(began.exists)
    log_now(machine, XID)
    counted = {call("PcieReplayCounter", SXM4): 900, call("TotalEccErrors", SXM4, ",0,1"): 7}
    machine.nvml({key: Change(value=value) for key, value in counted.items()})
    go.touch()
    soon(lambda: site.log(node).count(f"job {job}: gpu SXM4: ") == 2)
    told = [line.partition(f"job {job}: ")[2] for line in site.log(node).splitlines()]
    assert [line.split(" at ")[0] for line in told if "Xid" in line] == ["Xid 31 on SXM4"]
    grown = {line.rpartition(" -> ")[0].rpartition(" ")[0]: line.split()[-1] for line in told[-2:]}
    assert grown == {"gpu SXM4: PCIe replays": "900", "gpu SXM4: corrected ECC errors": "7"}
    soon(lambda: cluster.state(node) == "IDLE")


def test_the_epilog_says_where_it_does_not_know_when_the_job_began(site: Site, node: str) -> None:
    log_now(site.machines[node], XID)
    assert site.run(node, "gpuscan-epilog", SLURM_JOB_ID="98").code == 0
    told = [line.partition("job 98: ")[2] for line in site.log(node).splitlines()]
    assert told[0].startswith("when it began is not known (no gpuscan-prolog)")
    assert any(line.startswith("Xid 31 on SXM4 ") for line in told)
    assert told[-1] == "no report from before the job: growth of counters is not known"


def test_what_the_epilog_finds_is_held_before_the_next_job(site: Site, node: str) -> None:
    cluster = site.cluster
    began, go = site.folder / "began2", site.folder / "go2"
    job = cluster.submit(node, f"touch {began}; until [ -e {go} ]; do sleep 0.05; done")
    soon(began.exists)
    site.machines[node].nvml(FAULTY)
    go.touch()
    soon(lambda: f"job {job} ended: exit code 41: hardware (41): replace" in site.log(node))
    assert site.gpuscan(node, "status").code == 41
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="99").code == 1
    soon(lambda: cluster.state(node) == "IDLE")


def log_now(machine: Machine, message: str) -> None:
    """Let the kernel of a fake machine log a message at this moment."""
    up_us = int(float(Path("/proc/uptime").read_text("ascii").split()[0]) * 1e6)
    path = machine.root / "dev" / "kmsg"
    number = path.read_bytes().count(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(f"4,{number},{up_us},-;{message}\n")


def needs_reset(site: Site, node: str) -> None:
    site.machines[node].nvml({call("FieldValues", SXM4, ",230,0"): Change(value=1)})


@pytest.mark.parametrize("healed", [True, False])
def test_a_reboot_is_asked_for_once_and_its_return_is_gated(
    site: Site, node: str, healed: bool
) -> None:
    cluster = site.cluster
    needs_reset(site, node)
    assert site.check(node).code == 30
    rebooted = site.folder / f"rebooted.{node}"
    soon(rebooted.exists)
    rebooted.unlink()
    assert cluster.reason(node).startswith("gpuscan: reset-gpu gpu SXM4")
    cluster.stop(node)
    if healed:
        site.machines[node].nvml()
    wait_a_second(cluster)  # Slurm counts a boot only a second after it was asked for
    cluster.start_node(node, rebooted=True)
    if healed:
        soon(lambda: cluster.state(node) == "IDLE")
        assert not (site.folder / "notes" / node / "rebooting").exists()
        return
    soon(lambda: cluster.state(node) == "IDLE+FAIL")
    assert cluster.reason(node).startswith("gpuscan: ")
    assert site.check(node).code >= 30
    assert not rebooted.exists()
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1
    site.machines[node].nvml()
    site.gpuscan(node, "clear", "--reason", "power cycled")
    assert site.check(node).code == 0
    soon(lambda: cluster.state(node) == "IDLE")


def test_a_job_that_runs_is_let_end_before_the_node_is_resumed_or_rebooted(
    site: Site, node: str
) -> None:
    cluster = site.cluster
    began, go = site.folder / "began3", site.folder / "go3"
    job = cluster.submit(node, f"touch {began}; until [ -e {go} ]; do sleep 0.05; done")
    soon(began.exists)
    site.machines[node].nvml(FAULTY)
    assert site.check(node).code == 41
    assert cluster.state(node) == "MIXED+DRAIN"
    site.machines[node].nvml()
    site.gpuscan(node, "clear", "--reason", "SXM4 replaced")
    assert site.check(node).code == 0
    assert cluster.state(node) == "MIXED+DRAIN"
    cluster.scontrol("update", f"nodename={node}", "state=resume")
    needs_reset(site, node)
    assert [site.check(node).code for _ in range(2)] == [30, 30]
    assert cluster.state(node) == "MIXED+DRAIN+REBOOT_REQUESTED"
    rebooted = site.folder / f"rebooted.{node}"
    assert (rebooted.exists(), cluster.fields("job", job)["JobState"]) == (False, "RUNNING")
    go.touch()
    soon(rebooted.exists)
    rebooted.unlink()
    site.machines[node].nvml()
    cluster.stop(node)
    wait_a_second(cluster)
    cluster.start_node(node, rebooted=True)
    soon(lambda: cluster.state(node) == "IDLE")


def test_the_return_from_an_operators_reboot_is_gated_too(site: Site, node: str) -> None:
    cluster = site.cluster
    cluster.scontrol("reboot", "ASAP", "nextstate=RESUME", "reason=new kernel", node)
    rebooted = site.folder / f"rebooted.{node}"
    soon(rebooted.exists)
    rebooted.unlink()
    cluster.stop(node)
    site.machines[node].nvml({call("RemappedRows", SXM4): Change(code=4)})
    wait_a_second(cluster)
    cluster.start_node(node, rebooted=True)
    soon(lambda: cluster.state(node) == "IDLE")
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1
    assert site.check(node).code == 3
    assert cluster.state(node) == "IDLE+DRAIN"
    site.machines[node].nvml()
    assert site.check(node).code == 0
    soon(lambda: cluster.state(node) == "IDLE")
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 0


def wait_a_second(cluster: Cluster) -> None:
    """Return when slurmctld's clock shows another second than now."""

    def clock() -> str:
        return cluster.call("date", "+%s").out

    now = clock()
    soon(lambda: clock() != now)


def test_a_burn_in_of_an_array_takes_each_node_once(site: Site, tmp_path: Path) -> None:
    for name in NODES:
        site.fresh(name)
    site.machines["n3"].nvml(FAULTY)
    folder = site.folder / "gpuscan-of"
    (tmp_path / "gpuscan").write_text(f'#!/bin/bash\nexec {folder}/$SLURMD_NODENAME "$@"\n')
    (tmp_path / "gpuscan").chmod(0o755)
    env = {"GPUSCAN": str(tmp_path / "gpuscan"), "GPUSCAN_LEVEL": "passive"}
    script = str(site.etc / "burnin.sbatch")
    done = site.cluster.call("bash", "-c", f"cd {tmp_path}; bash {script} 'n[1-4]'", env=env)
    assert done.code == 0, done.err
    elements = [f"{done.out.split()[-1]}_{number}" for number in range(4)]

    def ended() -> list[dict[str, Any]]:
        jobs = [site.cluster.fields("job", element) for element in elements]
        return [job for job in jobs if job.get("JobState") in ("COMPLETED", "FAILED")]

    soon(lambda: len(ended()) == len(NODES))
    assert [(job["NodeList"], job["ExitCode"]) for job in ended()] == [
        ("n1", "0:0"),
        ("n2", "0:0"),
        ("n3", "41:0"),
        ("n4", "0:0"),
    ]
    assert len(list(tmp_path.glob("gpuscan-burnin-n*.xml"))) == 4
