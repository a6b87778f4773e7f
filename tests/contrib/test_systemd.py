"""The units of contrib/systemd in a real systemd: checked, and booted as PID 1."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from booting import BEFORE, GATED, UNITS, boot, replayed
from fake_nvml import environment
from faults import FAULTS
from machine import EIGHT, LIMITS, Machine
from throwaway import Throwaway, need, throwaway

from gpuscan.recording import Recording, load, patch

pytestmark = pytest.mark.contrib

SERVICES = ("gpuscan-gate.service", "gpuscan.service")
EXPOSED = 5.0  # systemd's own border of "MEDIUM"


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Throwaway:
    need("systemd", "systemctl")
    return throwaway(tmp_path_factory)


def test_the_units_are_clean(place: Throwaway) -> None:
    need("systemd-analyze")
    place.program()
    done = place.run(f"""
cp bin/gpuscan /usr/local/bin/gpuscan
cp {UNITS}/gpuscan* /etc/systemd/system/
systemd-analyze verify --man=no /etc/systemd/system/gpuscan*
""")
    ours = [line for line in (done.err + done.out).splitlines() if "gpuscan" in line]
    assert (done.code, ours) == (0, [])


@pytest.mark.parametrize("name", SERVICES)
def test_the_services_are_hardened(name: str) -> None:
    need("systemd-analyze")
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None, done.stderr
    assert float(level[1]) < EXPOSED


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("", 0),
        ("kernel-log-denied", 3),
        ("driver-not-loaded", 20),
        ("card-lost", 30),
        ("hca-pcie-narrow", 40),
        ("row-remap-failed", 41),
    ],
)
def test_work_starts_after_exit_code_0_only(place: Throwaway, fault: str, code: int) -> None:
    states = boot(place, replayed(place, fault))
    gate = states["gpuscan-gate"]
    assert (gate["ExecMainStatus"], gate["ActiveState"]) == (
        str(code),
        "failed" if code else "active",
    )
    assert {states[name]["ActiveState"] for name in GATED} == {"inactive" if code else "active"}
    assert {states[name]["ActiveState"] for name in BEFORE} == {"active"}


def test_the_gate_waits_for_the_gpu_services_and_work_for_the_gate(place: Throwaway) -> None:
    states = boot(place, "--replay demo")
    began = int(states["gpuscan-gate"]["ExecMainStartTimestampMonotonic"])
    passed = int(states["gpuscan-gate"]["ActiveEnterTimestampMonotonic"])
    assert all(int(states[name]["ActiveEnterTimestampMonotonic"]) <= began for name in BEFORE)
    assert all(int(states[name]["ExecMainStartTimestampMonotonic"]) >= passed for name in GATED)
    assert "gpuscan.timer" in (place.share / "timers").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "kept", "status"),
    [
        ("--nonsense", "", "2"),
        ('"\nPYTHONHOME="/nonexistent', "", "1"),
        ("", "no-program", "203"),
        ("--replay demo", "no-state", "238"),
    ],
    ids=["wrong usage", "broken", "missing", "no state folder"],
)
def test_work_waits_where_gpuscan_cannot_run(
    place: Throwaway, arguments: str, kept: str, status: str
) -> None:
    if kept:
        (place.share / kept).touch()
    states = boot(place, arguments)
    assert states["gpuscan-gate"]["ExecMainStatus"] == status
    assert {states[name]["ActiveState"] for name in GATED} == {"inactive"}


def test_work_waits_where_gpuscan_hangs(place: Throwaway) -> None:
    drop_in = place.share / "drop-in"
    drop_in.mkdir()
    text = "[Service]\nTimeoutStartSec=1\nExecStart=\nExecStart=/bin/sleep infinity\n"
    (drop_in / "hangs.conf").write_text(text, "utf-8")
    states = boot(place, "")
    assert states["gpuscan-gate"]["Result"] == "timeout"
    assert {states[name]["ActiveState"] for name in GATED} == {"inactive"}


def test_the_hardening_takes_no_reading_away(place: Throwaway) -> None:
    """The same machine, read by the gate and by root's shell in the same boot."""
    more = """
gpuscan run --no-history --record plain.json >plain.txt
cp -r /var/lib/gpuscan state
ls -l /var/lib/gpuscan > listing
"""
    (place.share / "drop-in").mkdir()
    (place.share / "drop-in" / "quick.conf").write_text(
        "[Service]\nExecStart=\nExecStart=gpuscan run --record /var/lib/gpuscan/hard.json\n",
        "utf-8",
    )
    states = boot(place, "", more)
    assert states["gpuscan-gate"]["ExecMainStatus"] == "3"  # no GPU, no profile
    plain = load(str(place.share / "plain.json"))
    hard = load(str(place.share / "state" / "hard.json"))
    lacks = {r.key: r.error for r in hard if r.error is not None}
    more_read = {r.key for r in plain if r.error is None} & lacks.keys()
    assert len(list(plain)) > 20
    assert more_read == set()
    status = json.loads((place.share / "state" / "status.json").read_text("utf-8"))
    assert status
    assert re.search(
        r"^-rw-r--r-- .* status\.json$", (place.share / "listing").read_text("utf-8"), re.MULTILINE
    )


def test_after_the_repair_starting_the_work_scans_again(place: Throwaway) -> None:
    more = """
sed -i 's/=.*/="--replay demo"/' /etc/default/gpuscan
systemctl start slurmd
systemctl is-active slurmd gpuscan-gate > healed
sed -i 's/=.*/="--replay demo-broken"/' /etc/default/gpuscan
systemctl start gpuscan.service || true
systemctl show gpuscan.service -p ExecMainStatus > timed
systemctl is-active slurmd gpuscan-gate > at-work
systemctl disable gpuscan-gate
ls -A /etc/systemd/system > undone
"""
    states = boot(place, "--replay demo-broken", more)
    assert states["slurmd"]["ActiveState"] == "inactive"
    seen = {
        name: (place.share / name).read_text("utf-8").split()
        for name in ("healed", "timed", "at-work", "undone")
    }
    assert seen["healed"] == ["active", "active"]
    assert seen["timed"] == ["ExecMainStatus=41"]
    assert seen["at-work"] == ["active", "active"]  # a scan stops nothing
    assert not any(name.endswith(".requires") for name in seen["undone"])


@pytest.mark.parametrize(
    ("fault", "work"), [("kernel-log-denied", "active"), ("driver-not-loaded", "inactive")]
)
def test_a_site_may_let_incomplete_pass_and_nothing_else(
    place: Throwaway, fault: str, work: str
) -> None:
    (place.share / "drop-in").mkdir()
    text = "[Service]\nSuccessExitStatus=3\n"
    (place.share / "drop-in" / "incomplete.conf").write_text(text, "utf-8")
    states = boot(place, replayed(place, fault))
    assert {states[name]["ActiveState"] for name in GATED} == {work}


def test_the_gate_can_be_taken_away_and_restarted_as_documented(place: Throwaway) -> None:
    more = """
systemctl disable gpuscan-gate
systemctl start slurmd
systemctl is-active slurmd gpuscan-gate > without || true
systemctl enable gpuscan-gate
sed -i 's/=.*/="--replay demo"/' /etc/default/gpuscan
before=$(systemctl show slurmd -p MainPID)
systemctl restart gpuscan-gate
systemctl start slurmd # waits for the job that the restart left
[ "$before" != "$(systemctl show slurmd -p MainPID)" ] && echo yes > restarted
systemctl is-active slurmd gpuscan-gate > again || true
"""
    boot(place, "--replay demo-broken", more)
    seen = {
        name: (place.share / name).read_text("utf-8") for name in ("without", "restarted", "again")
    }
    assert seen == {
        "without": "active\nfailed\n",
        "restarted": "yes\n",
        "again": "active\nactive\n",
    }


def live(place: Throwaway, library: Path, name: str, recording: Recording) -> str:
    """The arguments and the environment with which gpuscan reads a fake machine."""
    folder = place.share / name
    folder.mkdir()
    node = Machine(library, folder, recording)
    env = environment(library, node.scenario, node.log)
    env["GPUSCAN_CONFIG"] = str(node.configure(LIMITS))
    names = ("LD_LIBRARY_PATH", "FAKE_NVML_SCENARIO", "GPUSCAN_CONFIG")
    more = "\n".join(f'{name}="{env[name]}"' for name in names)
    return f'--root {node.root} --settle 0s"\n{more.removesuffix(chr(34))}'


def test_a_hold_outlives_the_boot_until_it_is_lifted(
    tmp_path_factory: pytest.TempPathFactory, library: Path
) -> None:
    need("systemd", "systemctl")
    kept = tmp_path_factory.mktemp("state")
    planted, healthy = FAULTS["row-remap-failed"], load(str(EIGHT))
    broken = patch(healthy, planted["set"], planted["log"])
    seen = []
    for recording, more in (
        (broken, ""),
        (healthy, "gpuscan clear --root $PWD/node/root --reason replaced; systemctl start slurmd"),
        (healthy, ""),
    ):
        place = throwaway(tmp_path_factory)
        shutil.copytree(kept, place.share / "state")
        states = boot(place, live(place, library, "node", recording), more)
        seen.append((states["gpuscan-gate"]["ExecMainStatus"], states["slurmd"]["ActiveState"]))
        kept = place.share / "state"
    assert seen == [("41", "inactive"), ("41", "inactive"), ("0", "active")]


TRIES = """#!/bin/bash
echo > /etc/try && echo etc
echo > /root/try && echo home
echo > /usr/local/bin/try && echo program
echo > /proc/sys/kernel/domainname && echo kernel
unshare --mount true && echo namespace
echo x > /dev/udp/127.0.0.1/9 && echo network
hostname other && echo name
chown nobody /var/lib/gpuscan/tried && echo chown
echo > /var/lib/gpuscan/try && echo state
"""


def test_the_services_write_nothing_but_their_state(place: Throwaway) -> None:
    script = place.share / "try"
    script.write_text(TRIES, "utf-8")
    (place.share / "drop-in").mkdir()
    start = f"/bin/bash -c 'bash {script} > /var/lib/gpuscan/tried 2> /var/lib/gpuscan/err'"
    text = f"[Service]\nExecStart=\nExecStart={start}\n"
    (place.share / "drop-in" / "tries.conf").write_text(text, "utf-8")
    boot(place, "", "cp /var/lib/gpuscan/tried /var/lib/gpuscan/err .")
    assert (place.share / "tried").read_text("utf-8").split() == ["state"]


def test_the_timer_starts_the_scan(place: Throwaway) -> None:
    more = """
mkdir /etc/systemd/system/gpuscan.timer.d
printf '[Timer]\\nOnBootSec=\\nOnActiveSec=0\\nRandomizedDelaySec=0\\n' \\
    > /etc/systemd/system/gpuscan.timer.d/now.conf
systemctl daemon-reload
systemctl restart gpuscan.timer
for _ in $(seq 300); do
    [ "$(systemctl show gpuscan.service -p Result --value)" = exit-code ] && break
    sleep 0.1
done
systemctl show gpuscan.service -p ExecMainStatus > timed
"""
    boot(place, "--replay demo-broken", more)
    assert (place.share / "timed").read_text("utf-8").split() == ["ExecMainStatus=41"]
