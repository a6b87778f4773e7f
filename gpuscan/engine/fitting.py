"""Which expectations of a profile hold for a GPU: none of a GPU that the profile does not describe.

A profile describes the GPUs that the node computes with, by their device id. What it expects of
their links, power or memory says nothing of a GPU of another model, of a display adapter beside
them, or of a vGPU, which is a part of a GPU under the device id of the whole.
"""

from collections.abc import Collection

from gpuscan.model import Gpu, Node, is_unread, read_or
from gpuscan.profile import Profile
from gpuscan.profile.capabilities import required_facts
from gpuscan.profile.keys import default_data
from gpuscan.profile.values import options

VGPU = "vgpu"
# nvmlDeviceGetRemappedRows: not supported while a GPU in MIG mode has instances
SILENT_UNDER_MIG = frozenset({"remapped_rows"})
# what a profile says beside its GPUs
ABOUT_A_MACHINE = ("driver", "infiniband", "kernel", "limits")


def fit_profile(profile: Profile, record: object) -> Profile:
    """Return the profile as it holds for one subject of a check.

    Of a GPU of another model only that model is left to judge, and of a display adapter not even
    that. For a vGPU the profile does not vouch: what it leaves open is unknown. A GPU that is
    divided by MIG is not required to answer what NVML answers for whole GPUs only.
    """
    if not isinstance(record, Gpu):
        return profile
    expected = profile.data["gpu"]["device_id"]
    if expected is not None and not is_unread(record.device_id) and record.device_id != expected:
        return _without_gpu(profile, None if record.role == "display" else expected)
    if record.virtualization == VGPU and not names_gpu(profile, record):
        return _without_gpu(profile)._replace(vouches=False)
    if not is_unread(record.mig_mode) and record.mig_mode.current:
        return _without_facts(profile, SILENT_UNDER_MIG)
    return profile


def fit_to_node(profile: Profile, node: Node) -> Profile:
    """Return the profile as it holds for a node: if none of its GPUs is of the profile's model, the
    profile is another machine's, and only the GPUs' number and model are left to judge.
    """
    gpus = [gpu for gpu in read_or(node.gpus, ()) if gpu.role != "display"]
    expected = profile.data["gpu"]["device_id"]
    models = {gpu.device_id for gpu in gpus if not is_unread(gpu.device_id)}
    if expected is None or not models or expected in models:
        return profile
    own = {key: value for key, value in profile.data.items() if key not in ABOUT_A_MACHINE}
    opened = {key: default_data()[key] for key in ABOUT_A_MACHINE}
    return profile._replace(data={**own, **opened})


def require_facts(profile: Profile, node: Node) -> Profile:
    """Return the profile with the facts that it requires of this node as its capabilities."""
    version = read_or(node.driver.library_version, read_or(node.driver.module_version, ""))
    branch = version.partition(".")[0]
    facts = required_facts(
        profile.data,
        int(branch) if branch.isdecimal() else 0,
        virtual=read_or(node.host.virtual, False),
    )
    return profile._replace(data={**profile.data, "capabilities": facts})


def names_gpu(profile: Profile, gpu: Gpu) -> bool:
    """Return whether a profile leaves the GPU's name open, or gives the one that it has."""
    name = profile.data["gpu"]["name"]
    return name is None or is_unread(gpu.name) or gpu.name in options(name)


def _without_facts(profile: Profile, facts: Collection[str]) -> Profile:
    left = [fact for fact in profile.data["capabilities"] if fact not in facts]
    return profile._replace(data={**profile.data, "capabilities": left})


def _without_gpu(profile: Profile, device_id: str | None = None) -> Profile:
    opened = dict.fromkeys(profile.data["gpu"]) | {"device_id": device_id}
    return profile._replace(data={**profile.data, "gpu": opened, "capabilities": []})
