"""The machine: names, boot, kernel, DMI, and whether it is a guest."""

from typing import Any

from gpuscan.collectors.reading import Sources, take, text
from gpuscan.model import Host
from gpuscan.recording import Recording

DMI = "file:/sys/class/dmi/id/"
CPUINFO = "file:/proc/cpuinfo"
NAMESPACE = "link:/proc/self/ns/pid"
FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h


def _seconds(value: Any) -> float:
    return float(text(value).split()[0])


def _os_name(value: Any) -> str:
    pairs = dict(line.split("=", 1) for line in text(value).splitlines() if "=" in line)
    return pairs["PRETTY_NAME"].strip('"')


def _guest(value: Any) -> bool:
    """Parse /proc/cpuinfo: a hypervisor sets the flag of that name (x86; aarch64 has none)."""
    flags = [line for line in text(value).splitlines() if line.startswith(("flags", "Features"))]
    return "hypervisor" in flags[0].split()


def container(value: Any) -> bool:
    """Parse `pid:[4026531836]`: the number of the machine's first PID namespace is fixed."""
    name = text(value)
    int(name.removeprefix("pid:[").removesuffix("]"))
    return name != FIRST_NAMESPACE


FACTS = {
    "hostname": ("file:/proc/sys/kernel/hostname", text),
    "machine_id": ("file:/etc/machine-id", text),
    "boot_id": ("file:/proc/sys/kernel/random/boot_id", text),
    "uptime_s": ("file:/proc/uptime", _seconds),
    "kernel": ("file:/proc/sys/kernel/osrelease", text),
    "os": ("file:/etc/os-release", _os_name),
    "virtual": (CPUINFO, _guest),
    "container": (NAMESPACE, container),
    "vendor": (DMI + "sys_vendor", text),
    "product": (DMI + "product_name", text),
    "board": (DMI + "board_name", text),
    "serial": (DMI + "product_serial", text),
    "bios_version": (DMI + "bios_version", text),
    "board_serial": (DMI + "board_serial", text),
    "chassis_serial": (DMI + "chassis_serial", text),
    "product_uuid": (DMI + "product_uuid", text),
}
KEPT = ("bios_date",)  # recorded for tickets


def plan(known: Recording) -> list[str]:
    """Return the machine's keys, whatever is known."""
    return [key for key, _ in FACTS.values()] + [DMI + name for name in KEPT]


def scope() -> list[str]:
    """Return the same keys: none contains the name of a part."""
    return plan(Recording({}, ()))


def facts(recording: Recording, sources: Sources) -> Host:
    """Return the machine's facts."""
    sources.update({f"host.{fact}": (key,) for fact, (key, _) in FACTS.items()})
    return Host(**{fact: take(recording, key, parse) for fact, (key, parse) in FACTS.items()})
