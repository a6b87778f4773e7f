"""After a swap: the named part was replaced and no other was, the new part fits, and the old fault
is gone.
"""

from gpuscan import Action, Change, Profile, check, fail, read, warn

PARTS = ("gpu", "nic", "disk")
NOUNS = {"gpu": "GPU", "nic": "NIC", "disk": "disk"}
PROVEN = "swap.missing_part"
POLICY = "gpuscan: a part that was not named must not change, or the wrong one was pulled"
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
    source="a part that is gone after the work is unseated, unpowered or dead",
    impact="capacity",
    shared=False,
    kinds=PARTS,
    aliases=["swap.no_part_is_missing"],
)
def test_missing_part(change: Change) -> None:
    """Every slot that held a part before the swap still holds one."""
    if change.what != "missing":
        return
    if change.moved_to:
        fail(
            f"the slot is empty: its {NOUNS[change.kind]} ({change.identity_before}) is now in "
            f"{change.moved_to}"
        )
    else:
        fail(
            f"no {NOUNS[change.kind]} found after the swap (was {change.identity_before})",
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
    """The part to be replaced was replaced, and the part to be reseated is back."""
    done = ("same",) if change.reseated else ("replaced", "added")
    if change.what in done or not change.expected:
        return
    noun = NOUNS[change.kind]
    if change.reseated:
        fail(
            f"expected the same {noun} back in {change.label} ({change.identity_before}) but found "
            f"{change.identity}",
            observed=change.identity,
            expected=change.identity_before,
        )
    elif change.what == "moved":
        fail(
            f"expected a new {noun} in {change.label} but found the one from {change.moved_from} "
            f"({change.identity}){_exchange(change)}"
        )
    else:
        fail(
            f"the {noun} was not replaced, it is still {change.identity}: was another one pulled, "
            "or none?",
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
    """A part that was not to be replaced is still the same one."""
    if change.what == "same" or change.expected or change.allowed:
        return
    noun = NOUNS[change.kind]
    if change.everywhere:
        fail(
            "every GPU has been replaced: if the baseboard or the tray was, use --expect baseboard "
            "or --expect tray"
        )
    elif change.what == "moved":
        fail(
            f"unexpected {noun}: {change.identity} from {change.moved_from}, was "
            f"{change.identity_before}{_exchange(change)}"
        )
    elif change.what == "added":
        fail(f"unexpected {noun} in a slot that was empty: {change.identity}")
    elif change.what == "replaced":
        fail(
            f"unexpected {noun}: {change.identity}, was {change.identity_before} (not listed with "
            "--expect)",
            observed=change.identity,
            expected=change.identity_before,
        )


def _exchange(change: Change) -> str:
    both = change.moved_to and change.moved_to == change.moved_from
    return f": the two {NOUNS[change.kind]}s were swapped" if both else ""


@check(
    action=Action.FIX_CONFIG,
    needs=(PROVEN, "driver.vbios", "infiniband.firmware"),
    source="NVIDIA and server vendors release firmware in one bundle for all GPUs of a board",
    impact="performance",
    shared=False,
    kinds=(*PARTS, "firmware"),
    aliases=["swap.firmware_fits"],
)
def test_firmware(change: Change) -> None:
    """The new part has the same firmware as its siblings.

    Compared are VBIOS, InfoROM, GSP firmware and NIC firmware. The InfoROM is written at the
    factory and cannot be updated with the driver's tools, so a difference there only warns.
    """
    for one, value in read(change.versions, "value"):
        if value != one.usual:
            say = warn if one.label == "InfoROM" else fail
            say(
                f"{one.label} {value}, but {one.whose} {one.usual}",
                observed=value,
                expected=one.usual,
            )


@check(
    action=Action.FIX_CONFIG,
    needs=PROVEN,
    source="a PSID or part number identifies the board and the firmware that fits it",
    impact="performance",
    shared=False,
    kinds=PARTS,
    aliases=["swap.is_of_the_same_kind"],
)
def test_part_kind(change: Change) -> None:
    """The new part is of the kind that belongs in this slot.

    Compared are part number, PSID and model, and the list of expected parts. A GPU's part number
    ends in its revision, and GPUs of different revisions work side by side.
    """
    for one, value in read(change.marks, "value"):
        if value.lower() == one.usual.lower():
            continue
        revision = (
            one.label == "part number" and value.rpartition("-")[0] == one.usual.rpartition("-")[0]
        )
        say = warn if revision and change.kind == "gpu" and not one.listed else fail
        say(
            f"{one.label} {value}, but {one.whose} {one.usual}",
            observed=value,
            expected=one.usual,
        )


@check(
    action=Action.INSPECT,
    needs=PROVEN,
    source="NVIDIA GPU memory error management: lifetime counts; a new GPU has none",
    impact="correctness",
    shared=False,
    kinds=("gpu",),
    aliases=["swap.new_card_is_not_worn"],
)
def test_wear(change: Change) -> None:
    """A newly installed GPU has no memory errors in its lifetime counters.

    Counted are uncorrectable errors, remapped rows and retired pages.
    """
    counts = [(one.label, value) for one, value in read(change.wear, "value") if value]
    heavy = [f"{value} {label}" for label, value in counts if label != CORRECTED]
    if heavy:
        fail(
            f"the GPU is not new: {', '.join(heavy)} in its lifetime",
            observed=dict(counts),
            expected=0,
        )
    for label, value in counts:
        if label == CORRECTED:
            warn(
                f"{label} in the GPU's lifetime: {value}",
                action=Action.MONITOR,
                observed=value,
                expected=0,
            )


@check(
    action=Action.REPLACE,
    needs=PROVEN,
    source="the list given with --known-bad",
    shared=False,
    kinds=PARTS,
    aliases=["swap.is_not_known_to_be_bad"],
)
def test_known_bad(change: Change) -> None:
    """The part is not on the list of known bad parts."""
    if change.known_bad:
        fail(
            f"the {NOUNS[change.kind]} is on the list of known bad parts ({change.identity})",
            observed=change.identity,
        )


@check(
    action=Action.FIX_CONFIG,
    needs=PROVEN,
    source="the part stores ECC, MIG and port settings; a service sets persistence and power",
    impact="performance",
    shared=False,
    kinds=("gpu", "cable"),
    aliases=["swap.settings_are_back"],
)
def test_settings(change: Change, profile: Profile) -> None:
    """The part and its port have the same settings as before.

    Compared are ECC, MIG, persistence, compute mode and power limit, and a port's link layer and
    MTU. A setting that the profile fixes is left to that setting's own check.
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
    source="a lower rate than before: the cable, the transceiver or the wrong switch port",
    impact="performance",
    shared=False,
    kinds=("cable",),
    aliases=["swap.port_has_its_former_rate"],
)
def test_port_rate(change: Change) -> None:
    """The port's link runs at least at the rate it had before."""
    for one, value in read(change.rate, "value"):
        if value < one.usual:
            fail(
                f"the port runs at {value:g} Gb/s, was {one.usual:g} Gb/s",
                observed=value,
                expected=one.usual,
            )


@check(
    action=Action.FIX_CONFIG,
    source="each rail has its own switches: a crossed cable works but slows down every collective",
    impact="performance",
    shared=False,
    kinds=("cable",),
    aliases=["swap.cable_leads_where_it_did"],
)
def test_cable(change: Change) -> None:
    """The cable leads to the same far end as before."""
    now, was = (text.removeprefix("far end ") for text in (change.identity, change.identity_before))
    if change.what == "moved":
        crossed = change.moved_from == change.moved_to
        where = (
            f": the cables of {change.label} and {change.moved_from} are crossed"
            if crossed
            else f", the former far end of {change.moved_from}"
        )
        fail(f"the cable now leads to {now}{where}", observed=now, expected=was)
    elif change.what == "replaced":
        fail(f"the cable now leads to {now}, was {was}", observed=now, expected=was)


@check(
    action=Action.INSPECT,
    source="a fault that outlives its part lies in the slot, the baseboard, the cable or the power",
    shared=False,
    kinds=(*PARTS, "cable"),
    aliases=["swap.the_old_fault_is_gone"],
)
def test_old_fault(change: Change) -> None:
    """The fault that the previous part had is gone."""
    if not change.faults_left:
        return
    if not (change.kind == "cable" or change.new):
        return  # nothing is new here, and the fault has its own finding
    for fault in change.faults_left:
        suspects = {
            "nic": "the slot, the riser and the cable",
            "cable": "the NIC, the transceiver and the switch port",
        }
        where = suspects.get(change.kind, "the slot, the baseboard and the cables")
        if change.reseated:
            fail(
                f"same fault as before the work ({fault}): reseating has not mended it",
                observed=fault,
            )
            continue
        fail(
            f"same fault as before the swap ({fault}): the part is not the cause, check {where}",
            observed=fault,
        )


@check(
    action=Action.INVESTIGATE,
    needs="driver.gpu_access",
    source="NVIDIA GPU memory error management: the InfoROM keeps these counts for life",
    impact="correctness",
    shared=False,
    kinds=("gpu",),
    aliases=["swap.lifetime_counts_did_not_fall"],
)
def test_lifetime_counts(change: Change) -> None:
    """The GPU's lifetime counters have not decreased."""
    fallen = [
        f"{one.label} {one.usual} -> {value}"
        for one, value in read(change.counters, "value")
        if value < one.usual
    ]
    if fallen:
        fail(
            f"same serial number, but lifetime counters decreased: {', '.join(fallen)}; was the "
            "InfoROM rewritten, or the serial number copied?",
            observed=fallen,
        )


@check(
    action=Action.MONITOR,
    source="a hostname is assigned, a serial number is built in",
    impact="none",
    kinds=("node",),
    aliases=["swap.node_keeps_its_name"],
)
def test_hostname(change: Change) -> None:
    """The node has the same hostname as before."""
    for one, value in read(change.marks, "value"):
        if value != one.usual:
            known = "" if change.allowed else "; by its serial numbers it is the same machine"
            warn(f"the node was renamed from {one.usual} to {value}{known}", observed=value)


@check(
    action=Action.MONITOR,
    source="a BIOS update may reset the BIOS settings",
    impact="performance",
    kinds=("node",),
    aliases=["swap.bios_is_the_one_it_was"],
)
def test_bios(change: Change) -> None:
    """The node has the same BIOS version as before."""
    for one, value in read(change.versions, "value"):
        if value != one.usual and not change.allowed:
            warn(
                f"{one.label} {value}, was {one.usual}: compare the BIOS settings",
                observed=value,
                expected=one.usual,
            )
