"""Which profiles state how many GPUs a node must have: what to propose where one leaves it open."""

from functools import cache
from typing import NamedTuple

from gpuscan.errors import ProfileError
from gpuscan.profile import names, yamlfile
from gpuscan.profile.loading import load_family


class _Sized(NamedTuple):
    """A profile with the model and the number of GPUs that it expects."""

    name: str
    device_id: str
    gpus: int


def counting_profiles(device_id: str, least: int, *, without: str = "") -> tuple[str, ...]:
    """Return the names of the profiles for *least* GPUs of a model or more, the smallest first."""
    found = [one for one in _sized() if one.device_id == device_id and one.name != without]
    return tuple(one.name for one in found if one.gpus >= least)


@cache
def _sized() -> tuple[_Sized, ...]:
    """Return the profiles that state a number of GPUs; one that cannot be read proposes nothing."""
    found = []
    for name, path in names.list_profiles().items():
        try:
            if "count:" not in yamlfile.read_text(path, trusted=True):
                continue
            gpu = load_family(path).get("gpu") or {}
        except ProfileError:
            continue
        if gpu.get("count") and gpu.get("device_id"):
            found.append(_Sized(name, str(gpu["device_id"]), int(gpu["count"])))
    return tuple(sorted(found, key=lambda one: (one.gpus, one.name)))
