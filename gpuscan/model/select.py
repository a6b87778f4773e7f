"""Select GPUs by the names that people give them (`--gpus`)."""

from collections.abc import Iterable, Sequence, Set
from typing import Any

from gpuscan.errors import UsageError, near_misses
from gpuscan.model import Gpu, Incident, Node, is_unread

OF_A_GPU = ("xid", "nvrm")  # kinds of incidents whose address is a GPU's
SHARED = ("sxid", "fm")  # kinds of the fabric, which all GPUs share


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
        others = {gpu.address for gpu in gpus} - chosen
        incidents = tuple(one for one in incidents if _concerns(one, chosen, others))
    return node._replace(
        gpus=tuple(gpu for gpu in gpus if gpu.address in chosen), incidents=incidents
    )


def _concerns(incident: Incident, chosen: Set[str], others: Set[str]) -> bool:
    """Return whether an incident concerns the chosen GPUs: what names another GPU does not, unless
    an echo of it names a chosen one or the fabric that all share.
    """
    if incident.address in chosen or not _is_of_another(incident, others):
        return True
    return any(echo.address in chosen or echo.kind in SHARED for echo in incident.echoes)


def _is_of_another(incident: Incident, others: Set[str]) -> bool:
    """Return whether an incident names a GPU: one of the others, or one that is gone."""
    return incident.address in others or (incident.kind in OF_A_GPU and bool(incident.address))


def _find_gpu(gpus: Sequence[Gpu], name: str) -> Gpu:
    """Return the one GPU of that name. Slot and address win over the other names; a bare number
    that is one GPU's chassis slot and another's index is ambiguous.
    """
    matches = find_gpus(gpus, name)
    if not matches:
        known = [gpu.label for gpu in gpus] + [gpu.address for gpu in gpus]
        raise UsageError(f"--gpus {name}: no such GPU; {near_misses(name, known, 'GPUs')}")
    if len(matches) > 1:
        raise UsageError(f"--gpus {name}: names {listed(matches)}: give a slot or an address")
    return matches[0]


def find_gpus(gpus: Sequence[Gpu], name: str) -> list[Gpu]:
    """Return the GPUs that a name may mean: one unless it is ambiguous, none that has it."""
    wanted = name.lower()
    matches = {gpu.address: gpu for gpu in gpus if wanted in (gpu.label.lower(), gpu.address)}
    if not matches:
        matches = {gpu.address: gpu for gpu in gpus if wanted in _other_names(gpu)}
    return list(matches.values())


def listed(gpus: Iterable[Gpu]) -> str:
    """Return the GPUs that a name may mean, as people know them."""
    return " and ".join(f"{gpu.label} ({gpu.address})" for gpu in gpus)


def _other_names(gpu: Gpu) -> set[str]:
    facts = (gpu.serial, gpu.uuid, gpu.physical_slot, gpu.nvml_index)
    return {str(fact).lower() for fact in facts if not is_unread(fact)}
