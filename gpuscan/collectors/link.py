"""How a GPU's PCIe link compares with what both of its ends support, and with its siblings'."""

import os
from collections.abc import Sequence
from typing import Any

from gpuscan.collectors import host
from gpuscan.collectors.reading import Sources, count, offered, take, text
from gpuscan.model import BusLink, Gpu, Link, Pcie, Unread, is_unread, read_or
from gpuscan.recording import Recording

DEVICES = "/sys/bus/pci/devices"
FULL_SPEED = 0  # P0


def slot_key(recording: Recording, address: str) -> str:
    """Return the key of the lanes that the port above a GPU supports, "" if there is none, as in
    many guests.
    """
    way = take(recording, f"link:{DEVICES}/{address}", text)
    above = "" if is_unread(way) else os.path.basename(os.path.dirname(way))
    return f"file:{DEVICES}/{above}/max_link_width" if ":" in above[5:] else ""


def link(recording: Recording, address: str, answers: dict[str, Any], bus: BusLink) -> Link:
    """Return a GPU's link, yet without its siblings'."""
    pcie: Pcie = answers["pcie"]
    guest = take(recording, *host.FACTS["virtual"])
    narrow, slot_seen = bus.narrow, True
    if is_unread(narrow):
        key = slot_key(recording, address)
        slot = 0 if guest is True or not key else read_or(offered(recording, key, count), 0)
        narrow = _is_narrow(pcie, slot)
        slot_seen = bool(slot) or guest is False
    lanes = bus.width if is_unread(pcie.width) else pcie.width
    return Link(lanes, narrow, slot_seen, _at_full_speed(answers["performance_state"], pcie))


def _is_narrow(pcie: Pcie, slot: int) -> Any:
    if is_unread(pcie.width):
        return pcie.width
    if is_unread(pcie.max_width):
        return pcie.max_width
    return pcie.width < min(pcie.max_width, slot or pcie.max_width)


def _at_full_speed(state: Any, pcie: Pcie) -> Any:
    if is_unread(pcie.generation) or state == FULL_SPEED:
        return pcie.generation
    if is_unread(state):
        return state
    return Unread("", "not-supported", f"in P{state} the link slows down to save power")


def with_siblings(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs, each with the best link of the others of its model."""
    return [gpu._replace(link=_compared(gpu, gpus)) for gpu in gpus]


def _compared(gpu: Gpu, gpus: Sequence[Gpu]) -> Link:
    siblings = [other.link for other in gpus if other is not gpu and _are_alike(gpu, other)]
    return gpu.link._replace(
        sibling_lanes=max((read_or(one.lanes, 0) for one in siblings), default=0),
        sibling_generation=max((read_or(one.generation, 0) for one in siblings), default=0),
    )


def _are_alike(gpu: Gpu, other: Gpu) -> bool:
    """Return whether two GPUs are of one model. In a text without names, which then gives each
    its address for a model, those are that support as many lanes.
    """
    if gpu.model != gpu.address or other.model != other.address:
        return gpu.model == other.model
    return read_or(gpu.pcie.max_width, 0) == read_or(other.pcie.max_width, 0) > 0


def book(gpu: Gpu, booked: Sources) -> None:
    """Add the reading keys behind the record of a GPU."""
    path, address = f"gpus[{gpu.label}]", gpu.address
    lanes = (*booked[f"{path}.pcie.width"], *booked[f"{path}.pcie.max_width"])
    booked[f"{path}.link"] = booked[f"{path}.link.narrow"] = (*lanes, *booked[f"{path}.bus"])
    # the siblings' own keys are theirs: a reading of this GPU does not tell what they have
    booked[f"{path}.link.sibling_lanes"] = booked[f"{path}.link.sibling_generation"] = ()
    booked[f"{path}.link.generation"] = (
        *booked[f"{path}.pcie.generation"],
        *booked[f"{path}.performance_state"],
    )
    booked[f"{path}.link.slot_seen"] = (host.CPUINFO, f"link:{DEVICES}/{address}")
