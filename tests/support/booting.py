"""A real systemd as PID 1 that boots with the units of contrib/systemd, between stand-ins for the
GPU services before and the workloads behind them.
"""

from __future__ import annotations

from faults import FAULTS
from nodes_recordings import base
from paths import ROOT
from throwaway import Throwaway

from gpuscan.recording import patch, save

UNITS = ROOT / "contrib" / "systemd"
BEFORE = ("nvidia-persistenced", "nvidia-fabricmanager", "openibd")
GATED = ("slurmd", "kubelet")
TARGETS = "basic sysinit multi-user timers paths sockets slices shutdown local-fs"

# Installs as the units' heads say, on a machine whose GPU services and workloads are stand-ins.
BOOT = f"""
mount -t tmpfs none /etc/systemd/system
mkdir -p /run/units
for name in {TARGETS}; do cp "/lib/systemd/system/$name.target" /run/units/; done
cp -r stubs/. /run/units/
cp {UNITS}/gpuscan* /etc/systemd/system/
if [ -d drop-in ]; then
    mkdir /etc/systemd/system/gpuscan-gate.service.d
    cp drop-in/* /etc/systemd/system/gpuscan-gate.service.d/
fi
[ ! -d state ] || mount --mkdir --bind state /var/lib/gpuscan
[ ! -e no-state ] || touch /var/lib/gpuscan
[ -e no-program ] || cp bin/gpuscan /usr/local/bin/gpuscan
cp gpuscan.default /etc/default/gpuscan
export container=test SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/units
systemctl enable gpuscan-gate.service gpuscan.timer
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console
"""
ENDED = """[Unit]
After=gpuscan-gate.service {after} timers.target
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/bash {share}/look.sh
"""
LOOK = """cd {share}
for unit in gpuscan-gate {units}; do
    systemctl show "$unit" -p Id -p ActiveState -p Result -p ExecMainStatus \\
        -p ActiveEnterTimestampMonotonic -p ExecMainStartTimestampMonotonic
    echo
done > seen
systemctl list-timers --all > timers
{more}
"""
State = dict[str, str]


def replayed(place: Throwaway, fault: str) -> str:
    """The arguments that have a planted fault judged; none for the healthy demo."""
    if not fault:
        return "--replay demo"
    path = place.share / "node.json.gz"
    save(
        patch(
            base(FAULTS[fault]["base"]), FAULTS[fault].get("set", {}), FAULTS[fault].get("log", ())
        ),
        str(path),
    )
    return f"--replay {path}"


def boot(place: Throwaway, arguments: str, more: str = "") -> dict[str, State]:
    """Boot with these GPUSCAN_ARGS and return what each unit came to."""
    stubs = place.share / "stubs"
    wants = stubs / "multi-user.target.wants"
    wants.mkdir(parents=True)
    for name in (*BEFORE, *GATED):
        text = "[Service]\nType=exec\nExecStart=/bin/sleep infinity\n"
        (stubs / f"{name}.service").write_text(text, "utf-8")
    after = " ".join(f"{name}.service" for name in (*BEFORE, *GATED))
    ended = ENDED.format(after=after, share=place.share)
    (stubs / "ended.service").write_text(ended, "utf-8")
    for name in (*BEFORE, *GATED, "ended"):
        (wants / f"{name}.service").symlink_to(f"../{name}.service")
    look = LOOK.format(share=place.share, units=" ".join((*BEFORE, *GATED)), more=more)
    (place.share / "look.sh").write_text(look, "utf-8")
    (place.share / "gpuscan.default").write_text(f'GPUSCAN_ARGS="{arguments}"\n', "utf-8")
    place.program()
    done = place.run(BOOT)
    seen = place.share / "seen"
    assert seen.exists(), done.err + done.out
    blocks = seen.read_text("utf-8").strip().split("\n\n")
    states = [dict(line.split("=", 1) for line in block.splitlines()) for block in blocks]
    return {state["Id"].removesuffix(".service"): state for state in states}
