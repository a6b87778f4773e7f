"""`gpuscan doctor`: what this user, container and driver let gpuscan read, and how to read more."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from gpuscan import __version__, collectors, renderers
from gpuscan.model import is_unread
from gpuscan.recording import Recording
from gpuscan.state.footprint import Footprint, told

AREAS = (  # what people call it, and the readings that belong to it
    ("NVML", ("nvml:",)),
    ("disks", ("dir:/sys/class/nvme", "file:/sys/class/nvme")),
    ("PCI devices", ("dir:/sys/bus/pci", "file:/sys/bus/pci", "link:/sys/bus/pci")),
    ("device files", ("dir:/dev",)),
    ("kernel log", ("kmsg:", "run:journalctl", "run:dmesg")),
    (
        "InfiniBand",
        (
            "dir:/sys/class/infiniband",
            "file:/sys/class/infiniband",
            "link:/sys/class/infiniband",
            "file:/sys/class/net",
        ),
    ),
    ("DMI", ("file:/sys/class/dmi",)),
    ("driver files", ("file:/proc/driver", "file:/proc/modules")),
    ("services", ("dir:/run/systemd", "run:systemctl")),
    ("host", ("file:/proc/", "file:/etc/", "link:/proc/")),
)
GAINS = {
    (
        "kernel log",
        "no-permission",
    ): "run as root, or grant CAP_SYSLOG (container: --cap-add SYSLOG, and mount /dev/kmsg)",
    (
        "PCI devices",
        "no-permission",
    ): "run as root: only root can read a GPU's VPD (serial and part number)",
    (
        "kernel log",
        "not-found",
    ): "there is no /dev/kmsg here: mount it into the container (--device /dev/kmsg, --cap-add"
    " SYSLOG), and /run/log/journal or /var/log/journal",
    ("DMI", "no-permission"): "run as root: only root can read serial numbers in DMI",
    ("DMI", "not-found"): "this machine or container has no DMI data",
    ("NVML", "no-permission"): "run as root, or give the container the device files (--gpus all)",
    ("NVML", "timed-out"): "the driver is stuck; see gpuscan run; usually only a reboot helps",
    ("InfiniBand", "not-found"): "no HCA, or its driver is not loaded (mlx5_ib)",
    ("disks", "not-found"): "this machine has no NVMe disk",
    ("device files", "not-found"): "/dev is not visible here",
    ("services", "not-found"): "systemd does not run here (a container, or --root)",
}
NVML_CODES = {
    9: "load the nvidia kernel module",
    12: "install libnvidia-ml, or give its location with --driver-root",
    18: "kernel module and library have different versions: reload the module or reboot",
}
WRONG_BINDINGS = ("pynvml", "nvidia-ml-py3")


NEEDED = ("NVML", "PCI devices", "kernel log")  # without them there is no verdict


class Visibility(NamedTuple):
    """One area: readings answered and asked, errors by kind, and what would help."""

    area: str
    answered: int
    asked: int
    lacks: dict[str, int]
    hint: str


def render(recording: Recording, format_: str, state: Footprint | None = None) -> str:
    """Return what can be read, and what is stored where, as text or JSON."""
    renderers.find(format_)
    areas = [_assess(name, recording) for name, _ in AREAS]
    warnings = list(_warnings(recording))
    if format_ == "json":
        document = {
            "gpuscan_version": __version__,
            "uid": os.geteuid(),
            "areas": [area._asdict() for area in areas],
            "state": state._asdict() if state else None,
            "warnings": warnings,
        }
        return json.dumps(document, indent=1) + "\n"
    lines = [f"gpuscan {__version__}, Python {sys.version.split()[0]}, uid {os.geteuid()}"]
    lines += [_line(area) for area in areas if area.asked]
    lines += _state_lines(state) if state else []
    return "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)]) + "\n"


def can_judge(recording: Recording) -> bool:
    """Return whether something was read of everything that a verdict needs."""
    return all(_assess(name, recording).answered for name in NEEDED)


def _line(area: Visibility) -> str:
    lacks = ", ".join(f"{number} {kind.replace('-', ' ')}" for kind, number in area.lacks.items())
    line = f"{area.area:<14}{area.answered} of {area.asked} read{'; ' + lacks if lacks else ''}"
    return f"{line}\n{'':<14}-> {area.hint}" if area.hint else line


def _state_lines(state: Footprint) -> list[str]:
    lines = [f"{'state':<14}{state.folder}: {told(state)}; written by {state.written_by}"]
    if state.trouble:
        lines.append(f"{'':<14}-> {state.trouble}")
    if state.node:
        lines.append(f"{'':<14}root's in {state.node} counts as well")
    return lines


def _assess(area: str, recording: Recording) -> Visibility:
    mine = [reading for reading in recording if _area_of(reading.key) == area]
    lacks: dict[str, int] = {}
    hint = ""
    for reading in mine:
        if reading.error is not None:
            kind = reading.error.kind
            lacks[kind] = lacks.get(kind, 0) + 1
            code = NVML_CODES.get(reading.error.code or 0, "") if area == "NVML" else ""
            hint = hint or code or GAINS.get((area, kind), "")
    return Visibility(area, sum(reading.error is None for reading in mine), len(mine), lacks, hint)


def _area_of(key: str) -> str:
    return next((area for area, prefixes in AREAS if key.startswith(prefixes)), "")


def _warnings(recording: Recording) -> Iterable[str]:
    from importlib import metadata

    for name in WRONG_BINDINGS:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        cure = f"pip uninstall {name}, then pip install --force-reinstall nvidia-ml-py"
        yield f"the package {name} {version} shadows nvidia-ml-py: {cure}"
    node: Any = collectors.node(recording)
    if not is_unread(node.gpus) and not node.gpus:
        yield "there is no NVIDIA GPU on the PCI bus"
    log = node.kernel_log
    if not is_unread(log) and not is_unread(log.whole) and not log.whole:
        yield f"the kernel log only reaches back to {log.covered_from_s:.0f} s after boot"
