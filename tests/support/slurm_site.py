"""A Slurm cluster of four nodes whose files are those of contrib/slurm: each node is a fake machine
of eight GPUs.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fake_nvml import Change
from machine import EIGHT, Machine, call
from paths import ROOT
from program import TREE, Ended
from slurm import Cluster, soon

from gpuscan.recording import load

NODES = ("n1", "n2", "n3", "n4")
SXM4 = "0000:52:00.0"
FAULTY: Mapping[str, Change] = {call("RemappedRows", SXM4): Change(value=[0, 8, 0, 1])}
FAULT = "gpuscan: replace gpu SXM4 serial 1654000000102: row remapping failed"

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
