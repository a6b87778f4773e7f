"""The hold that root keeps, as other users and containers see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import Done, Machine, finished
from over_time import EIGHT
from program import TREE, environment

from gpuscan.recording import Recording, load

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="takes two users"),
]
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
NO_PAST = "--no-history"  # what the fake machine adds for tests that want none
BROKEN = "NVRM: Xid (PCI:0000:1b:00): 119, pid=1, name=x, Timeout waiting for RPC!"


class Users:
    """One node on which root has its state, and another user his own."""

    def __init__(self, node: Machine, folder: Path) -> None:
        self.node = node
        self.state = node.root / "var" / "lib" / "gpuscan"
        for path in (folder, *folder.parents):
            if path.stat().st_uid == 0 and path not in (Path("/"), Path("/tmp")):
                path.chmod(0o755)
        self.home = folder / "home"
        self.home.mkdir()
        shutil.chown(self.home, 65534, 65534)

    def root(self, *words: str) -> Done:
        return self.node.plain(*words, "--state-dir", str(self.state))

    def other(self, *words: str, before: tuple[str, ...] = NOBODY) -> Done:
        own = {"GPUSCAN_STATE_DIR": str(self.home / "state"), "HOME": str(self.home)}
        for path in (self.node.folder, *self.node.folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
        self.node.log.touch()
        self.node.log.chmod(0o666)
        keep = [path for path in self.state.rglob("*") if path.name != "status.json"]
        for path in keep:
            path.chmod(0o700 if path.is_dir() else 0o600)
        env = {**self.node.env(), **own}
        command = [word for word in self.node.command(*words, before=before) if word != NO_PAST]
        with self.node.start(command, env) as process:
            return finished(process, env)


@pytest.fixture
def users(eight: Machine, tmp_path: Path) -> Users:
    return Users(eight, tmp_path)


def test_every_user_sees_the_hold_of_root_and_only_root_lifts_it(
    users: Users, machine: Callable[[Recording], Machine]
) -> None:
    users.node.log_lines(BROKEN)
    held = users.root("run", "-q")
    assert (held.code, held.err, held.out.endswith("; held\n")) == (30, "", True)
    hold = users.root("run", "--format", "json").report["hold"]
    assert hold["told"].startswith("This node is held from now on: ")
    assert all("a passing run" in reason["lifted_by"] for reason in hold["reasons"])
    status = users.other("status")
    assert (status.code, "reset" in status.out) == (30, True)

    mended = machine(load(EIGHT))  # the same node without its fault
    shutil.copytree(users.state, mended.root / "var" / "lib" / "gpuscan")
    users.node, users.state = mended, mended.root / "var" / "lib" / "gpuscan"
    ran = users.other("run", "--profile", "h100-8x")
    assert ran.code == 30, ran
    assert "held by root" in ran.out
    assert "only root lifts it: gpuscan explain hold, as root, says how" in ran.out
    cleared = users.other("clear", "--reason", "I looked at it")
    assert (cleared.code, "only root lifts that" in cleared.out) == (0, True)
    denied = users.other("clear", "--reason", "x", "--state-dir", str(users.state))
    assert (denied.code, "another --state-dir" in denied.err) == (2, True), denied
    assert users.other("status").code == 30
    assert users.root("status").code == 30
    assert "lifted:" in users.root("clear", "--reason", "GPU was reset").out
    assert users.other("status").code == 3


def test_a_rootless_container_believes_what_the_host_s_root_keeps(users: Users) -> None:
    """There the host's root has no number of its own: files of his seem to be another user's."""
    # this process's Python may lie where an ordinary user of a container cannot start it
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    rootless = [*NOBODY, "unshare", "--user", "--map-root-user", python]
    if subprocess.run([*rootless, "-c", ""], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    words = ["-m", "gpuscan", "status", "--root", str(users.node.root), "--format", "oneline"]
    env = {**environment({"GPUSCAN_STATE_DIR": str(users.home / "state")}), "PYTHONPATH": TREE}
    for log, code in ((), 0), ((BROKEN,), 30):
        users.node.log_lines(*log)
        assert users.root("run", "-q", "--profile", "h100-8x").code == code
        users.other("status")  # lets others in
        seen = subprocess.run(
            [*rootless, *words], env=env, cwd="/", check=False, capture_output=True, text=True
        )
        assert (seen.returncode, seen.stderr) == (code, ""), seen
