"""Which machine and boot this is: the only files that `status` reads itself, in a millisecond."""

import os

from gpuscan.files import read_input

LONGEST_BYTES = 4096
FILES = {
    "machine_id": "etc/machine-id",
    "dmi_serial": "sys/class/dmi/id/product_serial",
    "boot_id": "proc/sys/kernel/random/boot_id",
    "hostname": "proc/sys/kernel/hostname",
}


def this_machine(root: str = "/") -> dict[str, str]:
    """Return machine_id, dmi_serial, boot_id and hostname below *root*; "" where unreadable."""
    return {name: _line(os.path.join(root, file)) for name, file in FILES.items()}


def _line(path: str) -> str:
    try:
        return read_input(path, LONGEST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
