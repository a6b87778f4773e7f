"""Inventory: the cards that the profile expects are in the node, and all that count cards agree."""

from gpuscan import Action, Gpu, Node, Profile, check, fail


@check(action=Action.POWER_CYCLE, source="a card that PCI does not list is not powered, not seated or dead", impact="capacity")
def test_card_count(node: Node, profile: Profile) -> None:
    """As many cards are on PCI as the profile expects.

    A card that is absent from PCI cannot be reset, and a warm reboot seldom brings it back: take the power away first.
    """
    found, expected = len(node.gpus), profile.gpu.count
    if found < expected:
        fail(f"{found} of {expected} cards are on PCI: {expected - found} missing", observed=found, expected=expected)
    if found > expected:
        fail(
            f"{found} cards are on PCI where the profile expects {expected}: another profile, or another machine",
            action=Action.FIX_CONFIG,
            observed=found,
            expected=expected,
        )


@check(action=Action.REBOOT, needs="driver.every_card_answers", impact="capacity")
def test_counted_alike(node: Node) -> None:
    """PCI, the device files and NVML count the same cards."""
    counts = {"PCI": len(node.gpus), "/dev": len(node.device_minors), "NVML": node.driver.nvml_count}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{where} {number}" for where, number in counts.items())
        absent = [gpu for gpu in node.gpus if gpu.access != "ok"]
        # a device file alone is made again by nvidia-modprobe; a card that NVML lacks needs more
        action = Action.FIX_CONFIG if counts["NVML"] == counts["PCI"] else Action.REBOOT
        fail(f"the counts of cards differ: {told}", action=action, culprits=absent, observed=counts)


@check(action=Action.FIX_CONFIG, impact="capacity")
def test_card_model(gpu: Gpu, profile: Profile) -> None:
    """The card is of the model that the profile expects, by its PCI device id."""
    if gpu.device_id != profile.gpu.device_id:
        fail(
            f"the card is a {gpu.device_id}, the profile expects {profile.gpu.device_id}: another profile, or a wrong part",
            observed=gpu.device_id,
            expected=profile.gpu.device_id,
        )


@check(action=Action.FIX_CONFIG, needs=("inventory.card_model", "driver.every_card_answers"), impact="capacity")
def test_card_name(gpu: Gpu, profile: Profile) -> None:
    """The card calls itself what the profile expects, to the letter: "GH200" contains "H200"."""
    if gpu.name != profile.gpu.name:
        message = f"the card calls itself '{gpu.name}', the profile expects '{profile.gpu.name}'"
        fail(message, observed=gpu.name, expected=profile.gpu.name)
