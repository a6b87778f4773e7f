"""Inventory: the GPUs that the profile expects are in the node, and all that count GPUs agree."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, odd, read, warn


@check(
    action=Action.POWER_CYCLE,
    source="a GPU that PCI does not list is not powered, not seated or dead",
    impact="capacity",
    same=("observed",),
    aliases=["inventory.card_count"],
)
def test_gpu_count(node: Node, profile: Profile) -> None:
    """As many GPUs are on PCI as the profile expects.

    A GPU that is absent from PCI cannot be reset, and a warm reboot seldom brings it back: take
    the power away first. Where all that are there are of another model the profile is another
    machine's, and no power cycle mends that.
    """
    found, expected = len(node.gpus), profile.gpu.count
    if found < expected:
        models = {model for _, model in read(node.gpus, "device_id")}
        elsewhere = models and profile.gpu.get("device_id") not in (None, *models)
        words, action = (
            (", none of its model: is it the right profile?", Action.FIX_CONFIG)
            if elsewhere
            else ("", None)
        )
        told = f"{found} of {expected} GPUs are on PCI: {expected - found} missing{words}"
        fail(told, action=action, observed=found, expected=expected)
    if found > expected:
        fail(
            f"{found} GPUs are on PCI where the profile expects {expected}: another profile, or another machine",
            action=Action.FIX_CONFIG,
            observed=found,
            expected=expected,
        )


@check(
    action=Action.REBOOT,
    needs="driver.gpu_access",
    impact="capacity",
    aliases=["inventory.counted_alike"],
)
def test_gpu_count_match(node: Node) -> None:
    """PCI, the device files and NVML count the same GPUs."""
    counts = {
        "PCI": len(node.gpus),
        "/dev": len(node.device_minors),
        "NVML": node.driver.nvml_count,
    }
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{where} {number}" for where, number in counts.items())
        absent = [gpu for gpu in node.gpus if gpu.access != "ok"]
        # a device file alone is made again by nvidia-modprobe; a GPU that NVML lacks needs more
        action = Action.FIX_CONFIG if counts["NVML"] == counts["PCI"] else Action.REBOOT
        fail(f"the counts of GPUs differ: {told}", action=action, culprits=absent, observed=counts)


@check(action=Action.FIX_CONFIG, impact="capacity", aliases=["inventory.card_model"])
def test_gpu_model(gpu: Gpu, profile: Profile) -> None:
    """The GPU is of the model that the profile expects, by its PCI device id."""
    if gpu.device_id != profile.gpu.device_id:
        fail(
            f"the GPU is a {gpu.device_id}, the profile expects {profile.gpu.device_id}: another profile, or a wrong part",
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
    """The GPU calls itself what the profile expects, to the letter: "GH200" contains "H200"."""
    if gpu.name != profile.gpu.name:
        message = f"the GPU calls itself '{gpu.name}', the profile expects '{profile.gpu.name}'"
        fail(message, observed=gpu.name, expected=profile.gpu.name)


@check(
    action=Action.INVESTIGATE,
    needs=("inventory.gpu_model", "driver.gpu_access"),
    impact="capacity",
)
def test_memory_size(gpu: Gpu, profile: Profile) -> None:
    """The GPU has the memory that the profile expects.

    Drivers keep a little more or less for themselves, hence the hundredth; a lost memory channel is
    far more.
    """
    size, expected = gpu.memory_mib, profile.gpu.memory_mib
    if not 0.99 * expected <= size <= 1.01 * expected:
        fail(
            f"the GPU has {size} MiB of memory, the profile expects {expected}",
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
    """All GPUs carry one board part number."""
    others = odd(read(node.gpus, "part_number"))
    if others.odd:
        warn(
            f"the board part number differs from the other GPUs' {others.common}: {others.told}",
            culprits=others.odd,
        )


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    impact="correctness",
    aliases=["inventory.serials_are_unique"],
)
def test_unique_serials(node: Node) -> None:
    """No two GPUs carry one serial number: an RMA would take the wrong one."""
    _unique(read(node.gpus, "serial"), "serial number")


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    impact="correctness",
    aliases=["inventory.uuids_are_unique"],
)
def test_unique_uuids(node: Node) -> None:
    """No two GPUs carry one UUID: schedulers would give one GPU to two jobs."""
    _unique(read(node.gpus, "uuid"), "UUID")


def _unique(pairs: list[tuple[Gpu, str]], what: str) -> None:
    values = [value for _, value in pairs]
    twins = [gpu for gpu, value in pairs if values.count(value) > 1]
    if twins:
        fail(f"GPUs share one {what}: {', '.join(gpu.label for gpu in twins)}", culprits=twins)


@check(
    action=Action.POWER_CYCLE,
    needs="driver.gpu_access",
    impact="capacity",
    same=("observed",),
    aliases=["inventory.every_slot_is_filled"],
)
def test_slots(node: Node, profile: Profile) -> None:
    """A GPU answers in every slot that the profile names.

    A silent GPU may not tell its slot: as many of the empty slots as there are such GPUs are
    theirs.
    """
    seen = {name for gpu in node.gpus for name in (gpu.label, gpu.address)}
    slots = profile.gpu.slots
    empty = [slot for slot in slots if slot not in seen]
    answering = {gpu.address for gpu, _ in read(node.gpus, "access")}
    silent = [gpu for gpu in node.gpus if gpu.address not in answering and gpu.label not in slots]
    if len(empty) > len(silent):
        told = [f"{slot} ({slots[slot]})" if isinstance(slots, dict) else slot for slot in empty]
        fail(
            f"no GPU answers in {', '.join(told)}",
            observed=sorted(gpu.label for gpu in node.gpus),
            expected=list(slots),
        )
