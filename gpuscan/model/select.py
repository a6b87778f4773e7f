"""Select GPUs by the names that people give them (`--gpus`)."""

from collections.abc import Sequence
from typing import Any

from gpuscan.errors import UsageError, near_misses
from gpuscan.model import Gpu, Node, is_unread


def select_gpus(node: Node, names: Sequence[str]) -> Node:
    """Return the node with only the GPUs in *names*: slot, PCI address, UUID, serial or index.

    Raises UsageError if the GPUs could not be listed, or a name fits no GPU or several.
    """
    if is_unread(node.gpus):
        raise UsageError(f"--gpus: the GPUs could not be listed ({node.gpus.text})")
    gpus = node.gpus
    chosen = {_find_gpu(gpus, name).address for name in names}
    incidents: Any = node.incidents
    if not is_unread(incidents):
        incidents = tuple(incident for incident in incidents if incident.address in chosen)
    return node._replace(
        gpus=tuple(gpu for gpu in gpus if gpu.address in chosen), incidents=incidents
    )


def _find_gpu(gpus: Sequence[Gpu], name: str) -> Gpu:
    """Return the one GPU of that name. Slot and address win over the other names; a bare number
    that is one GPU's chassis slot and another's index is ambiguous.
    """
    wanted = name.lower()
    matches = {gpu.address: gpu for gpu in gpus if wanted in (gpu.label.lower(), gpu.address)}
    if not matches:
        matches = {gpu.address: gpu for gpu in gpus if wanted in _other_names(gpu)}
    if not matches:
        known = [gpu.label for gpu in gpus] + [gpu.address for gpu in gpus]
        raise UsageError(f"--gpus {name}: no such GPU; {near_misses(name, known, 'GPUs')}")
    if len(matches) > 1:
        listing = " and ".join(f"{gpu.label} ({gpu.address})" for gpu in matches.values())
        raise UsageError(f"--gpus {name}: names {listing}: give a slot or an address")
    return next(iter(matches.values()))


def _other_names(gpu: Gpu) -> set[str]:
    facts = (gpu.serial, gpu.uuid, gpu.physical_slot, gpu.nvml_index)
    return {str(fact).lower() for fact in facts if not is_unread(fact)}
