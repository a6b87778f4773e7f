"""Recordings that grow: many times one kind of thing that comes from outside, so that a test can see
how judging grows with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from nodes_recordings import base

from gpuscan.collectors.log_text import KMSG
from gpuscan.model import Unread
from gpuscan.recording import Reading, Recording, patch

EIGHT = "h100-8x-ib"
GPU = "0000:1b:00.0"
LISTING = "dir:/sys/bus/pci/devices"
HCAS = "dir:/sys/class/infiniband"
FIRST_US, APART_US = 900_000_000, 250_000


def logged(messages: Iterable[str], apart_us: int = APART_US) -> Recording:
    """The eight-GPU node whose kernel has also logged *messages*."""
    recording = base(EIGHT)
    ring = list(recording.get(KMSG))
    lines = [
        f"4,{len(ring) + n},{FIRST_US + n * apart_us},-;{message}"
        for n, message in enumerate(messages)
    ]
    return patch(recording, {KMSG: [*ring, *lines]})


def distinct_xids(count: int) -> Recording:
    """As many codes of one GPU, which no catalogue knows."""
    return logged(f"NVRM: Xid (PCI:0000:1b:00): {1000 + n}, pid=7, name=p" for n in range(count))


def known_xids(count: int) -> Recording:
    """Known codes, on as many GPUs as it takes."""
    codes = (13, 31, 43, 45, 48, 63, 64, 74, 79, 94, 95, 119, 145, 154)
    return logged(
        f"NVRM: Xid (PCI:{n // len(codes):04x}:1b:00): {codes[n % len(codes)]}, pid={n}, name=p{n}"
        for n in range(count)
    )


def resets(count: int) -> Recording:
    """One fault after another, each cured by a reset of its GPU."""
    lines = ("NVRM: Xid (PCI:0000:1b:00): 48, pid=1, name=p", "nvidia 0000:1b:00.0: resetting")
    return logged(lines[n % 2] for n in range(count))


def one_storm(count: int) -> Recording:
    """One code of one GPU, each line with a text of its own."""
    return logged(
        f"NVRM: Xid (PCI:0000:1b:00): 31, pid={n}, name=p{n}, at 0x{n:x}" for n in range(count)
    )


def links(count: int) -> Recording:
    """NVLink errors, of as many GPUs and links as it takes."""
    return logged(
        f"NVRM: Xid (PCI:{n // 18:04x}:1b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error"
        f" detected on link {n % 18}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
        for n in range(count)
    )


def cgroups(count: int) -> Recording:
    """What a user who may make cgroups can fill the ring with."""
    return logged(
        f"cgroup: fork rejected by pids controller in /user.slice/u{n}" for n in range(count)
    )


def _copies(
    recording: Recording, old: str, new: Iterable[str], changes: Mapping[str, Any]
) -> list[Reading]:
    """The readings of one part for each name in *new*."""
    own = [
        (reading.key, json.dumps(reading.value), reading)
        for reading in recording
        if old in reading.key
    ]
    copies = []
    for name in new:
        for key, value, reading in own:
            for word, instead in ((old, name), *changes.get(name, ())):
                key, value = key.replace(word, instead), value.replace(word, instead)
            copies.append(reading._replace(key=key, value=json.loads(value)))
    return copies


def _with(recording: Recording, listing: str, names: list[str], copies: list[Reading]) -> Recording:
    grown = patch(recording, {listing: [*recording.get(listing), *names]})
    for reading in copies:
        grown.add(reading)
    return grown


def many_gpus(count: int) -> Recording:
    """A node of as many GPUs, the first eight as recorded and the others like the first."""
    names = [f"{number:04x}:1b:00.0" for number in range(1, max(count - 7, 1))]
    recording = base(EIGHT)
    copies = _copies(recording, GPU, names, {name: ((GPU[:-2], name[:-2]),) for name in names})
    return _with(recording, LISTING, names, copies)


def lost_gpus(count: int) -> Recording:
    """As many GPUs, all of them lost."""
    grown = many_gpus(count)
    lost = Recording(grown.meta, grown.scope)
    for reading in grown:
        if reading.key.startswith("nvml:nvmlDevice") and ":1b:00.0" in reading.key:
            reading = reading._replace(
                value=None, error=Unread(reading.key, "lost", "GPU is lost", 15)
            )
        lost.add(reading)
    return lost


def down_ports(count: int) -> Recording:
    """A node of as many InfiniBand ports more, all of them down."""
    recording = base(EIGHT)
    (first, *_) = [name for name in recording.get(HCAS) if "bond" not in name]
    address = str(recording.get(f"link:/sys/class/infiniband/{first}/device")).split("/")[-1]
    names = [f"mlx9_{number}" for number in range(count)]
    places = {name: ((address, f"{n + 1:04x}:aa:00.0"),) for n, name in enumerate(names)}
    copies = _copies(recording, first, names, places)
    down = [
        one._replace(value="1: DOWN\n") if one.key.endswith("/ports/1/state") else one
        for one in copies
    ]
    return _with(recording, HCAS, names, down)


KINDS: Mapping[str, Callable[[int], Recording]] = MappingProxyType(
    {
        "distinct Xids": distinct_xids,
        "known Xids": known_xids,
        "resets": resets,
        "one storm": one_storm,
        "NVLink errors": links,
        "cgroups": cgroups,
        "GPUs": many_gpus,
        "lost GPUs": lost_gpus,
        "ports down": down_ports,
    }
)
