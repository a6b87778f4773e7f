"""Which machine this is, and whether another recording is of the same one: serials first, for
names change.
"""

import re
from typing import Any, NamedTuple

from gpuscan.model import Node, is_unread, read_or

# What vendors leave where a serial number should be.
PLACEHOLDERS = r"""(?xi)
    not[ ]?(specified|applicable|available|present|provided|set|known|settable)|none|null|nil|n/?a|unknown|undefined|empty|invalid
    |to[ ]be[ ]filled([ ]by[ ]o\.?e\.?m\.?)?|filled[ ]by[ ]o\.?e\.?m\.?|o\.?e\.?m\.?|default([ ]string)?|default[ ]?serial
    |(system|chassis|base[ ]?board|board|product)?[ _-]?serial([ _-]?(number|num|no\.?|\#))?|asset[ ]?tag|s/?n
    |0?123456789(0|abcdef)?|(?P<one>.)(?P=one)*"""
BRACKETS = " \t\r\n\0[]()<>'\""


class Machine(NamedTuple):
    """What identifies a machine; None for what is not known, a tuple of the serials that its GPUs
    tell or told.
    """

    dmi_serial: str | None
    machine_id: str | None
    boot_id: str | None
    hostname: str | None
    gpu_serials: tuple[str, ...]


def real(value: Any) -> str | None:
    """Return a serial number, UUID or name without the blanks around it, or None where it is a
    placeholder or was not read.
    """
    if is_unread(value) or not isinstance(value, str):
        return None
    word = value.strip()
    if not word.strip(BRACKETS) or re.fullmatch(PLACEHOLDERS, word.strip(BRACKETS)):
        return None
    return None if not word.strip("0fF-:. ") else word


def serial_of(gpu: Any) -> tuple[str | None, str]:
    """Return a GPU's serial number and where it is from: NVML (empty), or the `kernel log` of the
    GPU's failure.
    """
    for value, source in ((gpu.serial, ""), (gpu.logged_serial, "kernel log")):
        if real(value):
            return real(value), source
    return None, ""


def machine_of(node: Node) -> Machine:
    """Return what identifies the node's machine."""
    gpus = read_or(node.gpus, ())
    serials = (serial_of(gpu)[0] for gpu in gpus)
    host = node.host
    return Machine(
        dmi_serial=real(host.serial),
        machine_id=real(host.machine_id),
        boot_id=real(host.boot_id),
        hostname=real(host.hostname),
        gpu_serials=tuple(serial for serial in serials if serial),
    )


def same_machine(a: Machine, b: Machine) -> bool | None:
    """Tell whether both are one machine: by the DMI serial, else by a GPU in both, else by the
    machine id; None: nobody can.

    A machine id is copied with a disk's image, and no GPU in common may be a whole tray that was
    replaced.
    """
    if a.dmi_serial and b.dmi_serial:
        return a.dmi_serial == b.dmi_serial
    if set(a.gpu_serials) & set(b.gpu_serials):
        return True
    if a.machine_id and b.machine_id:
        return a.machine_id == b.machine_id
    return None
