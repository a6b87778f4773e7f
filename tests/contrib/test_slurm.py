"""contrib/slurm with Slurm's own daemons: four nodes on loopback, each a fake machine of eight
GPUs. The scripts are the very files, beside a gpuscan.env.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_nvml import Change
from machine import EIGHT, Machine, call
from paths import ROOT
from program import TREE, Ended
from slurm import Cluster, lacking, soon

from gpuscan.recording import load

pytestmark = [
    pytest.mark.contrib,
    pytest.mark.skipif(bool(lacking()), reason=f"Slurm is not installed: {lacking()}"),
]

NODES = ("n1", "n2", "n3", "n4")
SXM4 = "0000:52:00.0"
FAULTY: Mapping[str, Change] = {call("RemappedRows", SXM4): Change(value=[0, 8, 0, 1])}
FAULT = "gpuscan: replace gpu SXM4 serial 1654000000102: row remapping failed"
XID = f"NVRM: Xid (PCI:{SXM4[:-2]}): 31, pid=7, name=train, MMU fault"

SETTINGS = """\
daemon=$(cut -d' ' -f4 "/proc/$PPID/stat") # of the RebootProgram: it is told no name
name=${{SLURMD_NODENAME:-$(tr '\\0' ' ' <"/proc/$daemon/cmdline" | sed 's/.*-N //; s/ .*//')}}
SLURMD_NODENAME=$name
export SLURM_CONF={conf}
GPUSCAN={folder}/gpuscan-of/$name
GPUSCAN_SLURM_STATE={folder}/notes/$name
GPUSCAN_SLURM_LOG={folder}/notes/$name.log
GPUSCAN_REBOOT_CMD="touch {folder}/rebooted.$name"
"""
EXAMPLE = (ROOT / "contrib" / "slurm" / "slurm.conf.example").read_text("utf-8")
OFTEN, NEVER = 2, 3600  # seconds between two health checks


class Site:
    """A cluster, the fake machine of each of its nodes, and the folder of the scripts."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.etc = folder, folder / "etc"
        shutil.copytree(ROOT / "contrib" / "slurm", self.etc)
        (folder / "notes").mkdir()
        (folder / "gpuscan-of").mkdir()
        recording = load(str(EIGHT))
        self.machines: dict[str, Machine] = {}
        for name in NODES:
            (folder / f"machine-{name}").mkdir()
            self.machines[name] = Machine(library, folder / f"machine-{name}", recording)
            self.program(name)
        own = EXAMPLE.replace("/etc/slurm/gpuscan", str(self.etc)).replace("=300", f"={NEVER}")
        self.cluster = Cluster(folder, NODES, own)
        settings = SETTINGS.format(conf=self.cluster.conf, folder=folder)
        (self.etc / "gpuscan.env").write_text(settings, "utf-8")

    def program(self, name: str, body: str = "") -> None:
        """Let `gpuscan` on a node read its fake machine, or be *body*."""
        machine = self.machines[name]
        env = machine.env() | {"PYTHONPATH": TREE, "GPUSCAN_STATE_DIR": str(self.state(name))}
        wanted = ("LD_LIBRARY_PATH", "PYTHONPATH")
        exports = [
            f"export {key}={shlex.quote(value)}"
            for key, value in env.items()
            if key in wanted or key.startswith(("FAKE_NVML", "GPUSCAN"))
        ]
        words = shlex.join([sys.executable, "-m", "gpuscan"])
        start = body or f'exec {words} "$@" --root {machine.root}'
        path = self.folder / "gpuscan-of" / name
        path.write_text("\n".join(["#!/bin/bash", *exports, start, ""]), "utf-8")
        path.chmod(0o755)

    def state(self, name: str) -> Path:
        return self.folder / "state" / name

    def gpuscan(self, name: str, *words: str) -> Ended:
        return self.cluster.call(str(self.folder / "gpuscan-of" / name), *words)

    def run(
        self, name: str, script: str, *, before: Sequence[str] = (), **environment: str
    ) -> Ended:
        """Run a script as slurmd does: with next to nothing in its environment."""
        done = subprocess.run(
            [*before, str(self.etc / script)],
            env={"SLURMD_NODENAME": name, **environment},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def check(self, name: str) -> Ended:
        return self.run(name, "gpuscan-healthcheck")

    def log(self, name: str) -> str:
        path = self.folder / "notes" / f"{name}.log"
        return path.read_text("utf-8") if path.exists() else ""

    def fresh(self, name: str) -> None:
        """Make a node healthy, without a past, and idle."""
        self.program(name)
        self.machines[name].nvml()
        for path in (self.state(name), self.folder / "notes" / name):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (self.folder / "notes" / f"{name}.log").unlink(missing_ok=True)
        if self.cluster.state(name) != "IDLE":
            self.cluster.scontrol("update", f"nodename={name}", "state=resume")
        soon(lambda: self.cluster.state(name) == "IDLE")

    def interval(self, seconds: int) -> None:
        """Let slurmctld ask for health checks this often."""
        conf = self.cluster.conf
        rows = conf.read_text("utf-8").splitlines()
        own = f"HealthCheckInterval={seconds}"
        rows = [own if row.startswith("HealthCheckInterval=") else row for row in rows]
        conf.write_text("\n".join([*rows, ""]), "utf-8")
        assert self.cluster.scontrol("reconfigure").code == 0


@pytest.fixture(scope="module")
def site(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("slurm"), library)
    try:
        site.cluster.start()
        yield site
    finally:
        site.cluster.end()


@pytest.fixture
def node(site: Site) -> str:
    site.fresh("n1")
    return "n1"


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


def test_the_prolog_lets_a_node_pass_that_lacks_only_a_scan(site: Site, node: str) -> None:
    job = site.cluster.submit(node, "true")
    assert site.gpuscan(node, "status").code == 3
    soon(lambda: site.cluster.fields("job", job).get("JobState") == "COMPLETED")
    assert "refused" not in site.log(node)


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


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_scripts_are_clean() -> None:
    folder = ROOT / "contrib" / "slurm"
    files = [path for path in folder.iterdir() if path.read_bytes().startswith(b"#!/bin/bash")]
    words = [
        "shellcheck",
        "-x",
        "-P",
        str(ROOT),
        *map(str, files),
        str(folder / "gpuscan-slurm.sh"),
    ]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == ""


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
