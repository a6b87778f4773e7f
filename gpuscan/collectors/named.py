"""A GPU's serial number and UUID as the driver logged them when it failed; for a dead GPU the log
may be the only source.
"""

import re
from collections.abc import Sequence
from typing import Any

from gpuscan.collectors.reading import Sources
from gpuscan.kernellog.record import Record
from gpuscan.model import Unread, is_unread
from gpuscan.pci import PCI, pci_address

AT = rf"NVRM: GPU at (?:PCI:)?{PCI}: (?P<uuid>GPU-[0-9a-fA-F-]{{36}})"
BOARD = r"NVRM: GPU Board Serial Number: (?P<serial>[0-9A-Za-z]+)\s*$"  # may be empty, or [N/A]
OWN = rf"NVRM: GPU {PCI}: GPU serial number is (?P<serial>[0-9A-Za-z]+)\.?\s*$"
XID = rf"NVRM:\s*Xid \((?:PCI:)?{PCI}"
WORDS = ("GPU at ", "erial", "Xid")  # cheaper than four patterns on every line
TOGETHER_S = 1.0  # lines further apart belong to two events
Names = dict[str, dict[str, str]]  # address -> fact -> what the log says


def gpus(records: Any, gpus: Any, sources: Sources) -> Any:
    """Return the GPUs with their logged serial number and UUID, Unread if *records* is."""
    if is_unread(gpus):
        return gpus
    logged = {} if is_unread(records) else find_names(records)
    absent = (
        records
        if is_unread(records)
        else Unread("", "not-found", "the kernel log does not name it")
    )
    for gpu in gpus:
        sources.update(
            {
                f"gpus[{gpu.label}].{fact}": sources["kernel_log"]
                for fact in ("logged_serial", "logged_uuid")
            }
        )
    return tuple(
        gpu._replace(
            **{
                fact: logged.get(gpu.address, {}).get(fact, absent)
                for fact in ("logged_serial", "logged_uuid")
            }
        )
        for gpu in gpus
    )


def find_names(records: Sequence[Record]) -> Names:
    """Return the names in the driver's lines by GPU; the newest line wins.

    A line with a serial number has no address: it belongs to the GPU named just before it, or to
    the Xid just after. If two GPUs fail at once and their lines mingle, it is given to neither.
    """
    names: Names = {}
    open_: list[tuple[str, float]] = []  # GPUs whose serial number may follow
    waiting = ("", 0.0)  # a serial number whose Xid may follow
    for record in records:
        at_s, message = record.at_s or 0.0, record.message
        if not any(word in message for word in WORDS):
            continue
        open_ = [(address, since_s) for address, since_s in open_ if at_s - since_s <= TOGETHER_S]
        if hit := re.search(AT, message):
            address = pci_address(hit["address"])
            names.setdefault(address, {})["logged_uuid"] = hit["uuid"]
            open_, waiting = [*open_, (address, at_s)], ("", 0.0)
        elif hit := re.search(OWN, message):
            names.setdefault(pci_address(hit["address"]), {})["logged_serial"] = hit["serial"]
        elif hit := re.search(BOARD, message):
            waiting = (hit["serial"], at_s) if not open_ else ("", 0.0)
            if len(open_) == 1:
                names[open_[0][0]]["logged_serial"] = hit["serial"]
                open_ = []
        elif hit := re.search(XID, message):
            if waiting[0] and at_s - waiting[1] <= TOGETHER_S:
                names.setdefault(pci_address(hit["address"]), {})["logged_serial"] = waiting[0]
            open_, waiting = [], ("", 0.0)
    return names
