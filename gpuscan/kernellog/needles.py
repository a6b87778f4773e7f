"""Patterns of which a relevant log line contains one: grep searches gigabytes for them."""

import re

# Patterns that grep -E and Python read alike. One that begins with a capital or another rare
# letter is cheap to search for, one that begins with a frequent letter expensive.
NEEDLES = (
    "NVRM", "nvidia-nvswitch", "nvidia-nvlink", "nvidia.peermem", "nv_peer_mem", "nvidia 0",
    "nvidia[:_]", "nouveau", "nccl",
    "NVSwitch", "GPU handle", "ailed to train", "ot trained", "Xid", "nfoROM", "nv-fabricmanage",
    "ERROR\\] \\[tid", "n't match with",
    "SystemNotReady", "SYSTEM_NOT_READY", "not yet initialized",
    "Linux version ", "Boot [0-9a-f]+ --", "Reboot --", "Booting Linux on", "Loading of ",
    "Key was rejected", "Required key", "Lockdown: ", "Direct firmware load", "vfio-pci 0",
    "AER: ", "PCIe ", "DPC: ", "Link Down", "Card not present", "Surprise Down", "ACS ?Viol",
    "ning failed", "naccessible", "not ready [0-9]",
    "DMAR: ", "IO_PAGE_FAULT", "EDAC", "Hardware Error", "Machine [Cc]heck", "MCE: ",
    "Uncorrected", "CMCI", "SError", "Memory failure",
    "Core temperature", "Package temperature", "zone[0-9]+: ", "x5_c", "x5_ib", "Port module",
    "nvme", "ve with [0-9]+ out of", "non-fresh", "Disk failure", "I/O error", "Medium Error",
    "medium error, dev",
    "k_update_request", "yond end of device",
    "JBD2: ", "XFS ", "EXT[34]-fs", "BTRFS", "Remounting ", "nfs: ", "NFS: ", "LustreError",
    "Out of memory", "Killed process", "Memory cgroup out", "CONSTRAINT_", "GFP_",
    "BUG[: ]", "Unable to handle", "nvalid opcode", "RCU_GP_",
    "LOCKUP", "INFO: task", "INFO: rcu",
    "\\+0x[0-9a-f]+/0x[0-9a-f]+ \\[(nvidia|nfs|sunrpc|lustre|ptlrpc|osc|lov|mdc|llite|mlx5|ib_)",
    "NMI backtrace", "Sending NMI", "CPU: [0-9]+ [PU]ID: ", "WARNING: CPU", "Task in /",
    "Attached SCSI", "scsi host[0-9]", "USB disconnect", "DID_NO_CONNECT", "Virtual [HFCDM]",
    "File-Stor Gadget", "OEMDRV", "LCDRIVE",
    "Kernel panic", "Oops", "n fault", "gfault at ",
    "VFS: ", "nf_conntrack: ", "neighbor table", "ntroller in ",
    "Missed ", "ntk:? [0-9 ]*messages dropped", "ks suppressed",
)  # fmt: skip
NEEDLE = re.compile("|".join(NEEDLES))
# Lines that others need: continuations, messages that journald writes as bytes, and the full
# timestamps of `dmesg --human`.
CONTEXT = (
    "^[ \t]",
    'MESSAGE" ?: ?[^" n]',  # neither a string nor null
    "\\[[0-9]+, ?[0-9]+, ?[0-9]+, ?[0-9]",
    "^\\[[A-Z][a-z][a-z][ 0-9][0-9] [0-9][0-9]:",
)
PATTERN = "|".join((*NEEDLES, *CONTEXT))  # every line to read, beside the one before each
FOUND = re.compile(PATTERN.encode())


def is_needed(line: bytes) -> bool:
    """Return whether a line matches PATTERN, where there is no grep to say so."""
    return FOUND.search(line) is not None
