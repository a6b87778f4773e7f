"""Removable and virtual media (a USB stick, a BMC's virtual disk, a DVD): no part of the node."""

import re

from gpuscan.kernellog.event import Event
from gpuscan.kernellog.record import Record

REMOVABLE = "fs:removable"
ALWAYS = re.compile(r"(?:sr|scd|fd)\d+")  # optical drives and floppies
DISK = re.compile(r"sd[a-z]+")
BRIDGE = re.compile(r"scsi host(\d+): (\S+)")
BRIDGES = ("usb-storage", "uas")
# what BMCs call the media that they lend; a hypervisor's `Virtual disk` is a disk of its guest
LENT = re.compile(
    r"scsi (\d+:\d+:\d+:\d+): .*"
    r"(?:Virtual (?:HDisk|Floppy|CD|DVD|Media)|File-Stor Gadget|OEMDRV|LCDRIVE)"
)
NAMED = re.compile(
    r"sd ((\d+):\d+:\d+:\d+): \[(sd[a-z]+)\] (?:Attached SCSI (removable )?|.*DID_NO_CONNECT)"
)
PULLED = re.compile(r"usb \S+: USB disconnect")
GONE = "DID_NO_CONNECT"
PULLED_S = 2.0  # a disk that stops answering so soon after a USB device was pulled is that device


class Media:
    """The disks that are removable or virtual, as far as the log has named them so far."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()  # SCSI hosts that are USB bridges
        self.lent: set[str] = set()  # SCSI addresses of a BMC's media
        self.places: dict[str, str] = {}  # the SCSI address behind each disk's name
        self.disks: set[str] = set()
        self.pulled: Record | None = None

    def note(self, record: Record) -> None:
        """Learn from a record which disk is what; a name that is given anew is another disk."""
        message = record.message
        if hit := BRIDGE.match(message):
            (self.hosts.add if hit[2] in BRIDGES else self.hosts.discard)(hit[1])
        elif hit := LENT.match(message):
            self.lent.add(hit[1])
        elif PULLED.match(message):
            self.pulled = record
        elif hit := NAMED.match(message):
            self._name(hit)
            if GONE in message and self._is_just_pulled(record):
                self.disks.add(hit[3])

    def _name(self, hit: re.Match[str]) -> None:
        place, host, disk, removable = hit.groups()
        if self.places.get(disk) != place:
            self.places[disk] = place
            self.disks.discard(disk)
        if removable or host in self.hosts or place in self.lent:
            self.disks.add(disk)

    def _is_just_pulled(self, record: Record) -> bool:
        if self.pulled is None:
            return False
        clocks = ((self.pulled.at_s, record.at_s), (self.pulled.wall_s, record.wall_s))
        for earlier, later in clocks:
            if earlier is not None and later is not None:
                return abs(later - earlier) <= PULLED_S
        return True

    def judge(self, event: Event) -> Event:
        """Return the event, as one of removable media if it is about such a disk."""
        if event.kind != "fs" or not event.part:
            return event
        disk = DISK.match(event.part)
        if ALWAYS.match(event.part) or (disk and disk[0] in self.disks):
            return event._replace(entry=REMOVABLE)
        return event
