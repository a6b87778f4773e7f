"""A Slurm cluster of its own on loopback: munged, slurmctld and some slurmd, all below one folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from program import Ended

ENOUGH_S = 40.0  # for anything that is not meant to hang: only a guard, never a condition
TOOLS = ("munged", "slurmctld", "slurmd", "scontrol", "sbatch")

CONF = """\
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmdParameters=config_overrides
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=0
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdTimeout=300
GresTypes=gpu
{own}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 Gres=gpu:1"


def lacking() -> str:
    """Name the tools that are not installed."""
    search = f"{os.environ.get('PATH', '')}:/usr/sbin"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=search) is None]
    return ", ".join(missing)


def free_ports(count: int) -> list[int]:
    """Return TCP ports that nothing listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def soon(condition: Callable[[], object]) -> None:
    """Return once the condition holds; fail if it does not come to hold."""
    ends = time.monotonic() + ENOUGH_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.1)


class Cluster:
    """The daemons, started one by one; `end` ends all that still run."""

    def __init__(self, folder: Path, names: Sequence[str], own: str) -> None:
        self.folder, self.names = folder, tuple(names)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        first, *others = free_ports(len(names) + 1)
        rows = [NODE.format(name=name, port=port) for name, port in zip(names, others, strict=True)]
        self.conf = folder / "slurm.conf"
        text = CONF.format(port=first, folder=folder, own=own, nodes="\n".join(rows))
        self.conf.write_text(text, "utf-8")
        (folder / "gres.conf").write_text("Name=gpu File=/dev/null\n", "utf-8")
        (folder / "ctld").mkdir()
        for name in names:
            (folder / name).mkdir()
        self.env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "SLURM_CONF": str(self.conf),
        }

    def start(self) -> None:
        """Start everything and wait until every node is idle."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"key-file": key} | {
            name: self.folder / f"munge.{name.partition('-')[0]}"
            for name in ("socket", "pid-file", "log-file", "seed-file")
        }
        words = [f"--{name}={path}" for name, path in files.items()]
        self.spawn("munged", "--foreground", "--force", *words)
        soon((self.folder / "munge.socket").exists)
        self.start_controller()
        for name in self.names:
            self.start_node(name)
        for name in self.names:
            soon(lambda name=name: self.state(name) == "IDLE")  # type: ignore[misc]

    def start_controller(self) -> None:
        self.spawn("slurmctld", "-D", "-i")
        soon(lambda: self.scontrol("ping").out.rstrip().endswith("UP"))

    def start_node(self, name: str, *, rebooted: bool = False) -> None:
        """Start a node's slurmd, which may claim that the node has just booted."""
        self.spawn("slurmd", "-D", "-N", name, *(["-b"] if rebooted else []), key=name)

    def spawn(self, tool: str, *words: str, key: str = "") -> None:
        with (self.folder / f"{key or tool}.out").open("ab") as out:
            self.daemons[key or tool] = subprocess.Popen(
                [tool, *words], env=self.env, stdout=out, stderr=out, cwd=self.folder
            )

    def stop(self, key: str) -> None:
        """End one daemon: a tool's name, or a node's."""
        process = self.daemons.pop(key)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def end(self) -> None:
        for key in reversed(tuple(self.daemons)):
            self.stop(key)

    def call(self, *words: str, env: dict[str, str] | None = None) -> Ended:
        """Run one of Slurm's commands, or a script as slurmd would."""
        done = subprocess.run(
            words,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def scontrol(self, *words: str) -> Ended:
        return self.call("scontrol", *words)

    def fields(self, what: str, name: str) -> dict[str, str]:
        """Return what `scontrol show` says of a node or a job; the reason without who and when."""
        line = self.scontrol("show", what, name, "--oneliner").out.strip()
        pairs = (word.partition("=") for word in line.split())
        fields = {key: value for key, _, value in pairs}
        reason = line.partition(" Reason=")[2].rpartition(" [")[0]
        return {**fields, "Reason": reason} if what == "node" else fields

    def state(self, name: str) -> str:
        return self.fields("node", name).get("State", "")

    def reason(self, name: str) -> str:
        return self.fields("node", name).get("Reason", "")

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a job on a node and return its id."""
        words = ["--parsable", "-w", name, "-o", str(self.folder / "job.out"), "--wrap", script]
        done = self.call("sbatch", *options, *words)
        assert done.code == 0, done.err
        return done.out.strip()
