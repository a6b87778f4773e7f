"""The slot of a GPU that does not tell its own: what earlier runs saw at its address, or the only
slot that its siblings leave.
"""

from collections.abc import Mapping, Sequence

from gpuscan.model import Fact, Gpu, Past, Unread, is_unread, read_or

BOARD = 8  # module numbers of a full HGX or DGX board are 1 to 8
NEVER_TOLD = ("not-supported", "too-old-driver")  # PCIe GPUs have none, old drivers tell none
MODULES = {f"SXM{number}" for number in range(1, BOARD + 1)}


def name_silent(gpus: Sequence[Gpu], past: Fact[Past]) -> list[Gpu]:
    """Return the GPUs, the silent ones under the name of the slot that they are known to be in.

    A name that another GPU tells for itself is given to no second one.
    """
    speaking = [gpu for gpu in gpus if not _is_silent(gpu)]
    taken = {gpu.label for gpu in speaking}
    slots = {
        address: slot
        for address, slot in {**_by_siblings(gpus, speaking), **_by_past(speaking, past)}.items()
        if slot not in taken
    }
    return [
        gpu._replace(label=slots[gpu.address]) if _is_silent(gpu) and gpu.address in slots else gpu
        for gpu in gpus
    ]


def _is_silent(gpu: Gpu) -> bool:
    """Return whether a GPU failed to tell its module number."""
    module = gpu.module_id
    return is_unread(module) and module.kind not in NEVER_TOLD


def _by_past(speaking: Sequence[Gpu], past: Fact[Past]) -> Mapping[str, str]:
    """Return the slot of each address as earlier runs saw it; nothing where a GPU that speaks sits
    elsewhere now, for then the addresses have moved.
    """
    at: dict[str, str] = {}
    places: dict[str, str] = {}
    if isinstance(past, Unread):
        return {}
    for seen in past.parts:  # the newest of a slot comes last
        if seen.kind == "gpu" and seen.slot != seen.address:
            at[seen.address] = seen.slot
            places[seen.slot] = seen.address
    known = {address: slot for address, slot in at.items() if places[slot] == address}
    moved = any(
        gpu.label != known.get(gpu.address, gpu.label)
        or places.get(gpu.label, gpu.address) != gpu.address
        for gpu in speaking
        if gpu.label != gpu.address
    )
    return {} if moved else known


def _by_siblings(gpus: Sequence[Gpu], speaking: Sequence[Gpu]) -> Mapping[str, str]:
    """Return the one slot that the seven others of a full board leave, by the address of the GPU
    that must be in it.
    """
    board = [gpu for gpu in gpus if gpu.role != "display"]
    left = MODULES - {gpu.label for gpu in speaking}
    silent = [gpu for gpu in board if _is_silent(gpu)]
    alike = len({read_or(gpu.device_id, "") for gpu in board}) == 1
    if len(board) == BOARD and len(silent) == len(left) == 1 and alike:
        return {silent[0].address: left.pop()}
    return {}
