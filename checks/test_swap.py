"""After a swap: the named part is another and no other is, it fits, it is not worn, and the old
fault went with the old part.
"""

from gpuscan import Action, Change, Profile, check, fail, read, warn

PARTS = ("gpu", "nic", "disk")
NOUNS = {"gpu": "GPU", "nic": "adapter", "disk": "disk"}
PROVEN = "swap.missing_part"
POLICY = "gpuscan: what was not named must be what it was, or the wrong part was pulled"
PROFILED = {
    "ECC": "ecc",
    "MIG": "mig",
    "persistence mode": "persistence",
    "the compute mode": "compute_mode",
    "the power limit": "power_limit_w",
}
CORRECTED = "rows remapped for correctable errors"


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="a part that was there before the work and is not after it is not seated, not powered or dead",
    impact="capacity",
    shared=False,
    kinds=PARTS,
    aliases=["swap.no_part_is_missing"],
)
def test_missing_part(change: Change) -> None:
    """Every part that was there before is there, or another in its place."""
    if change.what != "missing":
        return
    if change.moved_to:
        fail(
            f"the slot is empty: its {NOUNS[change.kind]} ({change.identity_before}) is now in {change.moved_to}"
        )
    else:
        fail(
            f"no {NOUNS[change.kind]} is here after the swap; before it was {change.identity_before}",
            observed="missing",
        )


@check(
    action=Action.FIX_CONFIG,
    needs=PROVEN,
    source=POLICY,
    shared=False,
    kinds=PARTS,
    aliases=["swap.the_named_part_changed"],
)
def test_named_part(change: Change) -> None:
    """The part that was to be replaced is another part."""
    if change.what in ("replaced", "added") or not change.expected:
        return
    if change.what == "moved":
        where = change.moved_from
        fail(
            f"the {NOUNS[change.kind]} was to be a new one and is that of {where} ({change.identity}){_exchange(change)}"
        )
    else:
        told = (
            f"the {NOUNS[change.kind]} was to be replaced and is the one it was ({change.identity})"
        )
        fail(
            f"{told}: was another one pulled, or none?",
            observed=change.identity,
            expected="another part",
        )


@check(
    action=Action.FIX_CONFIG,
    needs=PROVEN,
    source=POLICY,
    shared=False,
    kinds=PARTS,
    aliases=["swap.no_other_part_changed"],
)
def test_other_parts(change: Change) -> None:
    """A part that nobody was to replace is the one it was."""
    if change.what == "same" or change.expected or change.allowed:
        return
    noun = NOUNS[change.kind]
    if change.everywhere:
        fail(
            "every GPU is another one: if the baseboard or the tray was replaced, --expect baseboard or tray says so"
        )
    elif change.what == "moved":
        told = f"the {noun} of {change.moved_from} is here ({change.identity}){_exchange(change)}"
        fail(f"{told}; before it was {change.identity_before}")
    elif change.what == "added":
        fail(f"a {noun} is here that was not before ({change.identity})")
    elif change.what == "replaced":
        fail(
            f"another {noun} is here than before, and nobody named it: {change.identity}, before {change.identity_before}",
            observed=change.identity,
            expected=change.identity_before,
        )


def _exchange(change: Change) -> str:
    both = change.moved_to and change.moved_to == change.moved_from
    return f": the two {NOUNS[change.kind]}s are exchanged" if both else ""


@check(
    action=Action.FIX_CONFIG,
    needs=(PROVEN, "driver.vbios", "infiniband.firmware"),
    source="NVIDIA and server vendors release firmware as one bundle for all GPUs of a board",
    impact="performance",
    shared=False,
    kinds=(*PARTS, "firmware"),
    aliases=["swap.firmware_fits"],
)
def test_firmware(change: Change) -> None:
    """The new part carries the firmware that its siblings carry: VBIOS, InfoROM, GSP firmware, the adapter's.

    The InfoROM is written at the factory and cannot be brought to another version with the driver's tools, so it only warns.
    """
    for one, value in read(change.versions, "value"):
        if value != one.usual:
            say = warn if one.label == "InfoROM" else fail
            say(
                f"{one.label} {value}, where {one.whose} {one.usual}",
                observed=value,
                expected=one.usual,
            )


@check(
    action=Action.FIX_CONFIG,
    needs=PROVEN,
    source="a PSID or part number names the board and the firmware that fits it",
    impact="performance",
    shared=False,
    kinds=PARTS,
    aliases=["swap.is_of_the_same_kind"],
)
def test_part_kind(change: Change) -> None:
    """The new part is of the kind that belongs here: part number, PSID, model, and what the list of expected parts says.

    A GPU's part number ends in its revision, and GPUs of several revisions work side by side.
    """
    for one, value in read(change.marks, "value"):
        if value.lower() == one.usual.lower():
            continue
        revision = (
            one.label == "part number" and value.rpartition("-")[0] == one.usual.rpartition("-")[0]
        )
        say = warn if revision and change.kind == "gpu" and "list" not in one.whose else fail
        say(
            f"{one.label} {value}, where {one.whose} {one.usual}",
            observed=value,
            expected=one.usual,
        )


@check(
    action=Action.INSPECT,
    needs=PROVEN,
    source="NVIDIA GPU memory error management: these counts are kept in the GPU over its life, and a new one has none",
    impact="correctness",
    shared=False,
    kinds=("gpu",),
    aliases=["swap.new_card_is_not_worn"],
)
def test_wear(change: Change) -> None:
    """A GPU that is new here has no uncorrectable errors, remapped rows or retired pages in its life so far."""
    counts = [(one.label, value) for one, value in read(change.wear, "value") if value]
    heavy = [f"{value} {label}" for label, value in counts if label != CORRECTED]
    if heavy:
        fail(
            f"the GPU is not new: {', '.join(heavy)} in its life",
            observed=dict(counts),
            expected=0,
        )
    for label, value in counts:
        if label == CORRECTED:
            warn(
                f"{label} in the GPU's life: {value}",
                action=Action.MONITOR,
                observed=value,
                expected=0,
            )


@check(
    action=Action.REPLACE,
    needs=PROVEN,
    source="the list that --known-bad names",
    shared=False,
    kinds=PARTS,
    aliases=["swap.is_not_known_to_be_bad"],
)
def test_known_bad(change: Change) -> None:
    """The part is not on the list of those that are known to be bad."""
    if change.known_bad:
        fail(
            f"the {NOUNS[change.kind]} is on the list of known bad parts ({change.identity})",
            observed=change.identity,
        )


@check(
    action=Action.FIX_CONFIG,
    needs=PROVEN,
    source="ECC, MIG and port settings are stored in the part; persistence and power limit are set anew by a service",
    impact="performance",
    shared=False,
    kinds=("gpu", "cable"),
    aliases=["swap.settings_are_back"],
)
def test_settings(change: Change, profile: Profile) -> None:
    """What is set in the part or its port is set as before: ECC, MIG, persistence, compute mode, power limit, link layer, MTU.

    What the profile says of a setting is judged by the check of that setting.
    """
    for one, value in read(change.settings, "value"):
        if value != one.usual and profile.gpu.get(PROFILED.get(one.label, "")) is None:
            fail(
                f"{one.label} is {value}, {one.whose} {one.usual}",
                observed=value,
                expected=one.usual,
            )


@check(
    action=Action.INSPECT,
    needs=("infiniband.port_state", "infiniband.port_rate"),
    source="a rate below the former one comes from the cable, the transceiver or the wrong port of the switch",
    impact="performance",
    shared=False,
    kinds=("cable",),
    aliases=["swap.port_has_its_former_rate"],
)
def test_port_rate(change: Change) -> None:
    """The port's link runs at the rate that it had before, or above."""
    for one, value in read(change.rate, "value"):
        if value < one.usual:
            fail(
                f"the port runs at {value:g} Gb/s, before at {one.usual:g} Gb/s",
                observed=value,
                expected=one.usual,
            )


@check(
    action=Action.FIX_CONFIG,
    source="rails are cabled to their own switches: a crossed cable works and slows every collective",
    impact="performance",
    shared=False,
    kinds=("cable",),
    aliases=["swap.cable_leads_where_it_did"],
)
def test_cable(change: Change) -> None:
    """The cable's far end is the one it was."""
    now, was = (
        words.removeprefix("far end ") for words in (change.identity, change.identity_before)
    )
    if change.what == "moved":
        crossed = change.moved_from == change.moved_to
        pair = (
            f": the cables of {change.label} and {change.moved_from} are crossed"
            if crossed
            else f", that of {change.moved_from}"
        )
        fail(f"the cable leads to {now}{pair}", observed=now, expected=was)
    elif change.what == "replaced":
        fail(f"the cable leads to {now}, before to {was}", observed=now, expected=was)


@check(
    action=Action.INSPECT,
    source="a fault that outlives its part is not the part's: the slot, the baseboard, the cable or its power",
    shared=False,
    kinds=(*PARTS, "cable"),
    aliases=["swap.the_old_fault_is_gone"],
)
def test_old_fault(change: Change) -> None:
    """What was wrong with the part that was here is not wrong with the one that is here now."""
    if not change.faults_left:
        return
    if not (change.kind == "cable" or change.new):
        return  # nothing is new here, and the fault itself is told
    for fault in change.faults_left:
        named = {
            "nic": "the slot, the riser or the cable",
            "cable": "the adapter, the transceiver or the switch's port",
        }
        where = named.get(change.kind, "the slot, the baseboard or a cable")
        fail(
            f"the same fault as before the swap ({fault}): it is not the part, look at {where}",
            observed=fault,
        )


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    source="NVIDIA GPU memory error management: these counts are kept in the InfoROM over the GPU's life",
    impact="correctness",
    shared=False,
    kinds=("gpu",),
    aliases=["swap.lifetime_counts_did_not_fall"],
)
def test_lifetime_counts(change: Change) -> None:
    """The counts that a GPU keeps over its life are not below what they were."""
    fallen = [
        f"{one.label} {one.usual} -> {value}"
        for one, value in read(change.counters, "value")
        if value < one.usual
    ]
    if fallen:
        told = f"the GPU kept its serial number and lost its history: {', '.join(fallen)}"
        fail(f"{told}; was its InfoROM written anew, or its serial number copied?", observed=fallen)


@check(
    action=Action.MONITOR,
    source="names are given by people, parts are not",
    impact="none",
    kinds=("node",),
    aliases=["swap.node_keeps_its_name"],
)
def test_hostname(change: Change) -> None:
    """The node is called as before."""
    for one, value in read(change.marks, "value"):
        if value != one.usual:
            known = "" if change.allowed else "; it is the same machine by its serial numbers"
            warn(f"the node was renamed: {value}, before {one.usual}{known}", observed=value)


@check(
    action=Action.MONITOR,
    source="a BIOS resets its settings when it is written",
    impact="performance",
    kinds=("node",),
    aliases=["swap.bios_is_the_one_it_was"],
)
def test_bios(change: Change) -> None:
    """The node's BIOS is of the version that it was."""
    for one, value in read(change.versions, "value"):
        if value != one.usual and not change.allowed:
            warn(
                f"{one.label} {value}, before {one.usual}: compare its settings",
                observed=value,
                expected=one.usual,
            )
