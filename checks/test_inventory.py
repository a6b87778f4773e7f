"""Inventory: the expected GPUs are in the node, and PCI, /dev and NVML agree on them."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, odd_siblings, read, warn
from gpuscan.profile.values import in_words, options
from gpuscan.text import counted


@check(
    action=Action.POWER_CYCLE,
    source="a GPU that PCI does not list is unpowered, unseated or dead",
    impact="capacity",
    same=("observed",),
    aliases=["inventory.card_count"],
    counts_gpus=True,
)
def test_gpu_count(node: Node, profile: Profile) -> None:
    """PCI lists as many GPUs as the profile expects.

    A GPU that is absent from PCI cannot be reset, and a warm reboot seldom brings it back:
    power-cycle the node first. If every GPU found is of another model, the profile belongs to
    another machine, and a power cycle will not help.
    """
    roles = [gpu.role for gpu in node.gpus if gpu.role != "display"]
    found, expected = len(roles), profile.gpu.count
    if "hidden" in roles and len(roles) - roles.count("hidden") == expected:
        return  # PCI shows a container the whole machine; it was given as many as expected
    if found < expected:
        models = {model for _, model in read(node.gpus, "device_id")}
        elsewhere = models and profile.gpu.get("device_id") not in (None, *models)
        seen = f"{found} of {counted(expected, 'GPU is', 'GPUs are')} on PCI"
        message = f"{seen}: {expected - found} missing"
        action = None
        if elsewhere:
            message += ", and none is of the expected model: is this the right profile?"
            action = Action.FIX_CONFIG
        fail(message, action=action, observed=found, expected=expected)
    if found > expected:
        fail(
            f"{counted(found, 'GPU is', 'GPUs are')} on PCI, the profile expects {expected}: "
            "wrong profile or machine",
            action=Action.FIX_CONFIG,
            observed=found,
            expected=expected,
        )


@check(
    action=Action.POWER_CYCLE,
    needs="inventory.gpu_count",
    source="a GPU that PCI does not list is unpowered, unseated or dead",
    impact="capacity",
    same=("observed",),
    counts_gpus=True,
)
def test_known_gpus(node: Node, profile: Profile) -> None:
    """Every GPU of the last run that passed is still in the node.

    A profile that states the number of GPUs has the last word; this is for those that leave it
    open. `gpuscan clear --reason` says that a GPU was taken out on purpose.
    """
    before = [part for part in node.past.present if part.kind == "gpu"]
    if profile.gpu.get("count") is not None or len(node.gpus) >= len(before):
        return
    here = {name for gpu in node.gpus for name in (gpu.label, gpu.address)}
    here |= {serial for _, serial in read(node.gpus, "serial")}
    absent = [one for one in before if not here & {one.slot, one.address, one.serial}]
    named = [f"{one.slot} (serial {one.serial})" if one.serial else one.slot for one in absent]
    fail(
        f"{len(node.gpus)} of the {counted(len(before), 'GPU')} of the last passing run on PCI: "
        f"{', '.join(named)} missing",
        observed=[one.slot for one in absent],
    )


@check(
    action=Action.INSPECT,
    source="an HCA or disk that is listed no more is unpowered, unseated or dead",
    impact="capacity",
    same=("observed",),
)
def test_known_parts(node: Node, profile: Profile) -> None:
    """Every HCA and disk of the last run that passed is still in the node.

    A profile that states the ports or the HCAs has the last word on these. An HCA on PCI is not
    missing, whatever its driver calls it now. `gpuscan clear --reason` says that a part was taken
    out on purpose.
    """
    before = node.past.present
    hcas = [part for part in before if part.kind == "nic"]
    disks = [part for part in before if part.kind == "disk"]
    absent = []
    if hcas and profile.infiniband.get("ports") is None and not profile.infiniband.get("hcas"):
        here = {adapter.address for adapter in node.adapters}
        here |= {name for port in node.ports for name in (port.hca, port.address)}
        here |= {serial for _, serial in read(node.ports, "hca_serial")}
        absent += [one for one in hcas if not here & {one.slot, one.address, one.serial}]
    if disks:
        here = {name for disk in node.disks for name in (disk.label, disk.address)}
        here |= {serial for _, serial in read(node.disks, "serial")}
        absent += [one for one in disks if not here & {one.slot, one.address, one.serial}]
    if absent:
        named = ", ".join(f"{one.slot} ({one.address}, serial {one.serial})" for one in absent)
        fail(
            f"missing since the last passing run: {named}",
            observed=[one.slot for one in absent],
        )


@check(
    action=Action.REBOOT,
    needs="driver.gpu_access",
    impact="capacity",
    aliases=["inventory.counted_alike"],
    counts_gpus=True,
)
def test_gpu_count_match(node: Node) -> None:
    """PCI, the device files and NVML agree on the number of GPUs.

    A GPU that is lent to a guest, or that a container does not see, is on PCI alone.
    """
    here = [gpu for gpu in node.gpus if gpu.role not in ("lent", "hidden")]
    listed, most = len(here), len(node.gpus)
    counts = {"PCI": listed, "/dev": len(node.device_minors), "NVML": node.driver.nvml_count}
    if any(not listed <= number <= most for number in counts.values()):
        numbers = ", ".join(f"{where} {number}" for where, number in counts.items())
        absent = [gpu for gpu in here if gpu.access != "ok"]
        # nvidia-modprobe can restore a device file; a GPU missing from NVML needs more
        action = Action.FIX_CONFIG if counts["NVML"] == counts["PCI"] else Action.REBOOT
        fail(f"GPU counts differ: {numbers}", action=action, culprits=absent, observed=counts)


@check(action=Action.FIX_CONFIG, impact="capacity", aliases=["inventory.card_model"])
def test_gpu_model(gpu: Gpu, profile: Profile) -> None:
    """The GPU is of the model the profile expects, by its PCI device ID."""
    if gpu.device_id != profile.gpu.device_id:
        fail(
            f"the GPU has device ID {gpu.device_id}, the profile expects {profile.gpu.device_id}: "
            "wrong profile or wrong part",
            observed=gpu.device_id,
            expected=profile.gpu.device_id,
        )


@check(
    action=Action.FIX_CONFIG,
    needs=("inventory.gpu_model", "driver.gpu_access"),
    impact="capacity",
    aliases=["inventory.card_name"],
)
def test_gpu_name(gpu: Gpu, profile: Profile) -> None:
    """The GPU's name is exactly one that the profile expects.

    A partial match would not do: "GH200" contains "H200". Drivers before R465 leave out "NVIDIA".
    """
    names = options(profile.gpu.name)
    if _bare(gpu.name) not in map(_bare, names):
        told = "' or '".join(names)
        message = f"the GPU's name is '{gpu.name}', the profile expects '{told}'"
        fail(message, observed=gpu.name, expected=profile.gpu.name)


def _bare(name: str) -> str:
    return name.removeprefix("NVIDIA ")


@check(
    action=Action.INVESTIGATE,
    needs=("inventory.gpu_model", "driver.gpu_access"),
    voided_by="inventory.gpu_name",
    impact="capacity",
)
def test_memory_size(gpu: Gpu, profile: Profile) -> None:
    """The GPU has as much memory as the profile expects.

    Drivers reserve slightly different amounts, hence the tolerance of 1 %; a lost memory channel
    costs far more.
    """
    size, expected = gpu.memory_mib, profile.gpu.memory_mib
    if not any(0.99 * one <= size <= 1.01 * one for one in options(expected)):
        fail(
            f"the GPU has {size} MiB of memory, the profile expects {in_words(expected)} MiB",
            observed=size,
            expected=expected,
        )


@check(
    action=Action.MONITOR,
    needs="driver.gpu_access",
    impact="none",
    aliases=["inventory.one_part_number"],
)
def test_part_number_match(node: Node) -> None:
    """All GPUs have the same board part number."""
    others = odd_siblings(node.gpus, "part_number")
    if others.odd:
        warn(
            f"board part number differs from the other GPUs ({others.common}): {others.told}",
            culprits=others.odd,
        )


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    impact="correctness",
    aliases=["inventory.serials_are_unique"],
)
def test_unique_serials(node: Node) -> None:
    """No two GPUs have the same serial number.

    With duplicates, an RMA may take the wrong GPU.
    """
    _unique(read(node.gpus, "serial"), "serial number")


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    impact="correctness",
    aliases=["inventory.uuids_are_unique"],
)
def test_unique_uuids(node: Node) -> None:
    """No two GPUs have the same UUID.

    With duplicates, a scheduler may assign one GPU to two jobs.
    """
    _unique(read(node.gpus, "uuid"), "UUID")


def _unique(pairs: list[tuple[Gpu, str]], what: str) -> None:
    values = [value for _, value in pairs]
    twins = [gpu for gpu, value in pairs if values.count(value) > 1]
    if twins:
        fail(f"GPUs have the same {what}: {', '.join(gpu.label for gpu in twins)}", culprits=twins)


@check(
    action=Action.POWER_CYCLE,
    needs="driver.gpu_access",
    impact="capacity",
    same=("observed",),
    aliases=["inventory.every_slot_is_filled"],
    expects_slots=True,
)
def test_slots(node: Node, profile: Profile) -> None:
    """Every slot that the profile names holds a GPU that responds.

    A GPU that does not respond may not report its slot, so each one accounts for an empty slot.
    """
    seen = {name for gpu in node.gpus for name in (gpu.label, gpu.address)}
    slots = profile.gpu.slots
    empty = [slot for slot in slots if slot not in seen]
    answering = {gpu.address for gpu, _ in read(node.gpus, "access")}
    silent = [gpu for gpu in node.gpus if gpu.address not in answering and gpu.label not in slots]
    if len(empty) > len(silent):
        names = [f"{slot} ({slots[slot]})" if isinstance(slots, dict) else slot for slot in empty]
        fail(
            f"no GPU responds in {', '.join(names)}",
            observed=sorted(gpu.label for gpu in node.gpus),
            expected=list(slots),
        )
