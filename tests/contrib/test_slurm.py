"""The health check of contrib/slurm, with Slurm's own daemons."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys

import pytest
from fake_nvml import Change
from machine import call
from paths import ROOT
from slurm import lacking, soon
from slurm_site import FAULT, FAULTY, NEVER, NODES, OFTEN, SXM4, Site

pytestmark = [
    pytest.mark.contrib,
    pytest.mark.skipif(bool(lacking()), reason=f"Slurm is not installed: {lacking()}"),
]


def test_a_fault_drains_the_node_and_it_is_resumed_once_healed(site: Site, node: str) -> None:
    cluster = site.cluster
    site.interval(OFTEN)
    try:
        site.machines[node].nvml(FAULTY)
        soon(lambda: cluster.state(node) == "IDLE+DRAIN")
        assert cluster.reason(node).startswith(FAULT)
        site.machines[node].nvml()
        site.gpuscan(node, "clear", "--reason", "SXM4 replaced")
        soon(lambda: cluster.state(node) == "IDLE")
    finally:
        site.interval(NEVER)
    assert cluster.reason(node) == ""
    assert [other for other in NODES if cluster.state(other) != "IDLE"] == []


def test_what_somebody_else_drained_stays_as_it_is(site: Site, node: str) -> None:
    cluster = site.cluster
    cluster.scontrol("update", f"nodename={node}", "state=drain", "reason=disk [sda] to be swapped")
    site.machines[node].nvml(FAULTY)
    done = site.check(node)
    assert (done.code, "drained by somebody else (disk [sda] to be swapped)" in done.err) == (
        41,
        True,
    )
    assert cluster.reason(node) == "disk [sda] to be swapped"
    site.machines[node].nvml()
    site.gpuscan(node, "clear", "--reason", "replaced")
    assert site.check(node).code == 0
    assert (cluster.state(node), cluster.reason(node)) == ("IDLE+DRAIN", "disk [sda] to be swapped")


def test_a_node_that_is_down_is_left_alone(site: Site, node: str) -> None:
    cluster = site.cluster
    cluster.scontrol("update", f"nodename={node}", "state=down", "reason=gpuscan: by hand")
    site.machines[node].nvml(FAULTY)
    assert site.check(node).code == 41
    assert (cluster.state(node), cluster.reason(node)) == ("DOWN", "gpuscan: by hand")
    assert "left alone (DOWN): gpuscan: replace gpu SXM4" in site.log(node)
    site.machines[node].nvml()
    site.gpuscan(node, "clear", "--reason", "replaced")
    assert site.check(node).code == 0
    assert cluster.state(node) == "DOWN"


def test_no_verdict_drains_only_the_third_time_in_a_row(site: Site, node: str) -> None:
    cluster = site.cluster
    unread = {call("RemappedRows", SXM4): Change(code=4)}
    site.machines[node].nvml(unread)
    states = []
    for _ in range(3):
        assert site.check(node).code == 3
        states.append(cluster.state(node))
    assert states == ["IDLE", "IDLE", "IDLE+DRAIN"]
    assert cluster.reason(node).startswith("gpuscan: no verdict (exit code 3): incomplete (3): ")
    site.machines[node].nvml()
    assert site.check(node).code == 0
    soon(lambda: cluster.state(node) == "IDLE")


def test_gpuscan_that_breaks_counts_as_no_verdict(site: Site, node: str) -> None:
    site.program(node, "echo 'Traceback: it broke' >&2; exit 1")
    assert [site.check(node).code for _ in range(2)] == [1, 1]
    assert site.cluster.state(node) == "IDLE"
    assert "no verdict (exit code 1, 2 in a row): Traceback: it broke" in site.log(node)
    assert site.check(node).code == 1
    assert site.cluster.state(node) == "IDLE+DRAIN"
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1


def test_without_slurmctld_the_exit_code_stays_and_the_node_does_not_work(
    site: Site, node: str
) -> None:
    site.machines[node].nvml(FAULTY)
    site.cluster.stop("slurmctld")
    try:
        done = site.check(node)
    finally:
        site.cluster.start_controller()
    assert done.code == 41
    for told in (done.err, site.log(node)):
        assert f"Slurm does not say how {node} is: " in told
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1
    soon(lambda: site.cluster.state(node) == "IDLE")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_without_permission_to_drain_that_is_told(site: Site, node: str) -> None:
    site.program(node, "echo 'hardware (41): replace gpu SXM4'; exit 41")
    may = "+dac_override"  # the folders of a test are its owner's
    user = ("setpriv", "--reuid=65534", "--clear-groups", f"--inh-caps={may}")
    done = site.run(node, "gpuscan-healthcheck", before=(*user, f"--ambient-caps={may}"))
    assert done.code == 41
    for told in (done.err, site.log(node)):
        assert f"Slurm refuses drain for {node}: slurm_update error: Invalid user id" in told
    assert site.cluster.state(node) == "IDLE"


def test_gpuscan_that_is_not_installed_counts_as_no_verdict(site: Site, node: str) -> None:
    (site.folder / "gpuscan-of" / node).unlink()
    assert site.run(node, "gpuscan-healthcheck", GPUSCAN_UNKNOWN="1").code == 127
    told = "gpuscan: no verdict (exit code 127): timeout: failed to run command"
    assert site.cluster.reason(node).startswith(told)
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1


def test_gpuscan_that_hangs_is_ended_and_counts_as_no_verdict(site: Site, node: str) -> None:
    pids = site.folder / "pids"  # as a driver that hangs, it outlives SIGKILL
    site.program(node, f"trap '' TERM; setsid sleep 600 & echo $! >>{pids}; wait; sleep 600")
    done = site.run(node, "gpuscan-healthcheck", GPUSCAN_LIMIT="4", GPUSCAN_UNKNOWN="1")
    for number in pids.read_text("ascii").split():
        os.kill(int(number), signal.SIGKILL)
    assert done.code in (124, 137)
    told = f"gpuscan: no verdict (exit code {done.code}): nothing was said in "
    assert site.cluster.reason(node).startswith(told)


def test_a_node_without_a_gpu_is_judged_by_a_recording_as_shown(site: Site, node: str) -> None:
    page = (ROOT / "docs" / "slurm.md").read_text("utf-8")
    shown = page.partition("```sh\n#!/bin/bash\n")[2].partition("```")[0]
    words = shlex.join([sys.executable, "-m", "gpuscan"])
    site.program(node, shown.replace("exec gpuscan", f"exec {words}"))
    assert site.check(node).code == 41
    assert site.cluster.reason(node).startswith("gpuscan: replace gpu SXM7 serial 1654000000004: ")
    shown = shown.replace("demo-broken", "demo")
    site.program(node, shown.replace("exec gpuscan", f"exec {words}"))
    assert site.check(node).code == 0
    soon(lambda: site.cluster.state(node) == "IDLE")


def test_a_node_that_slurm_does_not_know_is_told(site: Site, node: str) -> None:
    site.machines[node].nvml(FAULTY)
    (site.folder / "gpuscan-of" / "n9").symlink_to(node)
    done = site.check("n9")
    assert done.code == 41
    for told in (done.err, site.log("n9")):
        assert "Slurm does not say how n9 is: Node n9 not found" in told


@pytest.mark.parametrize("which", ["state", "notes"])
def test_a_folder_that_cannot_be_written_puts_no_node_to_work(
    site: Site, node: str, which: str
) -> None:
    path = site.folder / which / node
    path.parent.mkdir(exist_ok=True)
    path.write_text("in the way", "utf-8")
    if which == "notes":
        site.program(node, "echo 'incomplete (3): kernel_log denied'; exit 3")
    done = site.check(node)
    assert done.code == 3
    assert site.cluster.state(node) == "IDLE+DRAIN"
    assert site.cluster.reason(node).startswith("gpuscan: ")
    assert site.run(node, "gpuscan-prolog", SLURM_JOB_ID="1").code == 1
    assert "refused (exit code 3)" in site.log(node)
    path.unlink()
    site.program(node)
    assert site.check(node).code == 0
    soon(lambda: site.cluster.state(node) == "IDLE")
