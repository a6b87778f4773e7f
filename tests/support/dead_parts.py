"""Parts that do not answer, in every way they stop answering, and every command that takes one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fake_nvml import Change
from over_time import EIGHT, GPU, later

from gpuscan.recording import Recording, load, patch

HCA, HCA_AT = "mlx5_3", "0000:5e:00.0"
DISK, DISK_AT = "nvme3", "0000:5f:00.0"
PCI = "dir:/sys/bus/pci/devices"
CALLS = f"nvml:*({GPU})"
NONE: Mapping[str, Any] = {}


class Part(NamedTuple):
    """A part of the node of eight H100: its kind, and what people call it."""

    kind: str
    slot: str
    address: str
    serial: str

    @property
    def names(self) -> tuple[str, ...]:
        """Slot, address and serial; a cable has its port only."""
        return tuple(name for name in self[1:] if name)


class Death(NamedTuple):
    """A way in which a part stops answering: what the host shows, what NVML answers, and what a
    recording of it holds in place of NVML's answers.
    """

    part: str
    name: str
    host: Mapping[str, Any] = NONE
    nvml: Mapping[str, Change] = NONE
    recorded: Mapping[str, Any] = NONE
    log: tuple[str, ...] = ()
    on_pci: bool = True
    listed: bool = True


PARTS = {
    "gpu": Part("gpu", "SXM4", GPU, "1654000000102"),
    "nic": Part("nic", HCA, HCA_AT, "MT2333ZT00003"),
    "disk": Part("disk", DISK, DISK_AT, "23214ZT00003"),
    "cable": Part("cable", f"{HCA}/1", "", ""),
}
LOST = (
    "NVRM: GPU at PCI:0000:52:00: GPU-00000002-0100-4000-8000-000000000102",
    "NVRM: GPU Board Serial Number: 1654000000102",
    "NVRM: Xid (PCI:0000:52:00): 79, GPU has fallen off the bus.",
)


def without(listing: str, *names: str) -> dict[str, Any]:
    """Return a listing of the healthy node without some of its names."""
    return {listing: [name for name in load(EIGHT).get(listing) if name not in names]}


def _gpu(name: str, change: Change, kind: str, text: str, code: int) -> Death:
    """A GPU whose calls fail; where the change includes its handle, that does not open either."""
    error = {"error": [kind, text, code]} if code else {"error": [kind, text]}
    return Death("gpu", name, NONE, {CALLS: change}, {f"nvml:*({GPU}*": error})


GONE = {**without(PCI, GPU), f"*{GPU}*": None, f"*{GPU.rpartition('.')[0]}*": None}
NO_HCA = {**without("dir:/sys/class/infiniband", HCA), f"*infiniband/{HCA}/*": None}
NO_DISK = {**without("dir:/sys/class/nvme", DISK), f"*nvme/{DISK}/*": None}
PORT = f"file:/sys/class/infiniband/{HCA}/ports/1"
DOWN = {
    f"{PORT}/state": "1: DOWN\n",
    f"{PORT}/phys_state": "2: Polling\n",
    f"{PORT}/rate": "10 Gb/sec (4X SDR)\n",
}
DEATHS = (
    _gpu("lost", Change(code=15), "lost", "GPU is lost", 15),
    _gpu("lost, handle too", Change(code=15, handle=True), "lost", "GPU is lost", 15),
    _gpu("not found", Change(code=6, handle=True), "not-found", "Not Found", 6),
    _gpu("wants a reset", Change(code=16), "reset-required", "GPU requires reset", 16),
    _gpu("unknown error", Change(code=999, handle=True), "garbled", "Unknown Error", 999),
    _gpu("hung", Change(hang=True), "timed-out", "no answer within 1 s", 0),
    _gpu("lost, its serial logged", Change(code=15), "lost", "GPU is lost", 15)._replace(log=LOST),
    Death("gpu", "gone from PCI", GONE, on_pci=False),
    Death("nic", "gone", {**NO_HCA, **without(PCI, HCA_AT), f"*{HCA_AT}*": None}, on_pci=False),
    Death("nic", "on PCI without a port", NO_HCA),
    Death(
        "nic",
        "files that cannot be read",
        {f"*infiniband/{HCA}/*": None, f"*{HCA_AT}/vpd": None},
        listed=False,
    ),
    Death("disk", "gone", NO_DISK, on_pci=False),
    Death("disk", "files that cannot be read", {f"*nvme/{DISK}/*": None}, on_pci=False),
    Death("cable", "down", DOWN),
    Death("cable", "its HCA gone", {**NO_HCA, **without(PCI, HCA_AT), f"*{HCA_AT}*": None}),
)


class Case(NamedTuple):
    """One command on one dead part, which earlier runs knew (*seen*) or did not."""

    death: Death
    seen: bool
    name: str
    command: str

    @property
    def part(self) -> Part:
        return PARTS[self.death.part]

    @property
    def can_be_named(self) -> bool:
        """Whether the name leads to the part: an earlier run knew it, or the node still tells."""
        if self.seen or self.name == self.part.slot:
            return True
        if self.name == self.part.address:
            return self.death.on_pci
        return bool(self.death.log) or not self.death.listed  # then any name is taken as given

    def __str__(self) -> str:
        past = "known" if self.seen else "unknown"
        return f"{self.part.kind} {self.death.name}, {past}: {self.command} {self.name}"


COMMANDS = {  # {part} is gpu:SXM4, {name} SXM4; the files are those of before and now
    "begin": "swap begin --ticket T --bug-report 0 --part {part}",
    "verify": "swap verify --level passive --expect {part}",
    "gpus": "run --gpus {name}",
    "judge": "judge {now} --gpus {name}",
    "diff": "diff {before} {now} --expect {part}",
    "ticket": "ticket {report} --gpu {name}",
    "history": "history list --part {name}",
}
OF_GPUS = ("gpus", "judge")


def cases() -> Iterator[Case]:
    """Every part, in every way it dies, by each of its names, with and without a past, in every
    command that takes one.
    """
    for death in DEATHS:
        part = PARTS[death.part]
        for seen in (False, True):
            for name in part.names:
                for command in COMMANDS:
                    if command not in OF_GPUS or part.kind == "gpu":
                        yield Case(death, seen, name, command)


def broken(death: Death) -> Recording:
    """Return the recording of the node with the dead part, as a scan a day later makes it."""
    return later(patch(load(EIGHT), {**death.host, **death.recorded}, death.log), 1)
