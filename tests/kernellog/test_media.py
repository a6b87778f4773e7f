"""Errors of removable and virtual media are none of the node; those of its disks are."""

from __future__ import annotations

import pytest

from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.keeping import select_lines
from gpuscan.kernellog.lines import parse_lines, parse_numbered_lines
from gpuscan.live.grep import search_lines

ATTACHED = "sd 11:0:0:0: [sdc] Attached SCSI removable disk"
FIXED = "sd 11:0:0:0: [sdc] Attached SCSI disk"
REMOVABLE: dict[str, list[str]] = {
    "a removable disk": [ATTACHED],
    "behind a USB bridge": ["scsi host11: usb-storage 1-14.2:1.0", FIXED],
    "behind a UAS bridge": ["scsi host11: uas", FIXED],
    "lent by the BMC": [
        "scsi 11:0:0:0: Direct-Access     AMI      Virtual HDisk0   1.00 PQ: 0 ANSI: 0 CCS",
        FIXED,
    ],
    "lent by another BMC": [
        "scsi 11:0:0:0: Direct-Access     Linux    File-Stor Gadget 0404 PQ: 0 ANSI: 2",
        FIXED,
    ],
    "pulled, its attaching lost": [
        "usb 1-14.2: USB disconnect, device number 5",
        "sd 11:0:0:0: [sdc] tag#0 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK",
    ],
}
DISKS: dict[str, list[str]] = {
    "nothing is known of it": [],
    "a disk": ["scsi host11: ahci", FIXED],
    "a guest's disk": [
        "scsi 11:0:0:0: Direct-Access     VMware   Virtual disk     2.0  PQ: 0 ANSI: 6",
        FIXED,
    ],
    "another guest's disk": [
        "scsi 11:0:0:0: Direct-Access     Msft     Virtual Disk     1.0  PQ: 0 ANSI: 5",
        FIXED,
    ],
    "another disk is removable": ["sd 12:0:0:0: [sdd] Attached SCSI removable disk", FIXED],
    "its name was a stick's before": [ATTACHED, "sd 2:0:0:0: [sdc] Attached SCSI disk"],
    "lost without a USB device": [
        "sd 11:0:0:0: [sdc] tag#0 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK"
    ],
}
ERRORS = {
    "blk_update_request: I/O error, dev sdc, sector 2048 op 0x0:(READ) flags 0x80700": "fs:io-error",
    "Buffer I/O error on dev sdc1, logical block 256, async page read": "fs:io-error",
    "critical medium error, dev sdc, sector 81920": "fs:medium-error",
    "EXT4-fs error (device sdc1): ext4_find_entry:1455: inode #2: reading directory": "fs:error",
    "EXT4-fs (sdc1): Remounting filesystem read-only": "fs:read-only",
}


def entries(messages: list[str]) -> list[str]:
    lines = [f"[  900.{at:03}000] {text}".encode() for at, text in enumerate(messages)]
    rows = select_lines(search_lines(lines), current=False).rows
    kept = [one.entry for one in read_events(parse_numbered_lines(rows))]
    assert kept == [one.entry for one in read_events(parse_lines(lines))]
    return kept


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("known", [*REMOVABLE, *DISKS])
def test_a_disk_is_what_the_kernel_said_of_it(known: str, error: str) -> None:
    if known in REMOVABLE:
        assert entries([*REMOVABLE[known], error]) == ["fs:removable"]
    else:
        assert entries([*DISKS[known], error]) == [ERRORS[error]]
