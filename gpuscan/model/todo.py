"""What an action means on a part that is no GPU: what to do, and how to see that it worked."""

from typing import NamedTuple

from gpuscan.model.outcome import Action


class Sentences(NamedTuple):
    """What to do, and how to see that it worked."""

    todo: str
    proof: str


BACK = "gpuscan run passes."
HOST = "Save the BMC's event log for the server's vendor"
CHANGED = "Another serial number is there, and gpuscan swap verify or gpuscan run passes."
# Kinds and actions that are not here have the sentences of `ACTIONS`.
SENTENCES: dict[tuple[str, Action], Sentences] = {
    ("port", Action.INSPECT): Sentences(
        "Check the cable, the transceiver and the switch port first; reseat the HCA only if they"
        " are good.",
        f"The port is up at its rate, and {BACK}",
    ),
    ("port", Action.REPLACE): Sentences(
        "Replace the cable or the transceiver, then the HCA if the fault stays.",
        f"The port is up at its rate, and {BACK}",
    ),
    ("nic", Action.REBOOT): Sentences(
        "Drain and reboot the node.", f"After the reboot every port is back, and {BACK}"
    ),
    ("nic", Action.INSPECT): Sentences(
        "Power-cycle the node and reseat the HCA; replace it if it stays away.",
        f"Every port is back, and {BACK}",
    ),
    ("nic", Action.REPLACE): Sentences(
        "Save the output of mlxfwmanager and mstdump for the RMA, then replace the HCA.", CHANGED
    ),
    ("disk", Action.REBOOT): Sentences(
        "Drain and reboot the node, and let it check the file system (fsck).",
        f"After the boot the file system is mounted read-write, and {BACK}",
    ),
    ("disk", Action.INSPECT): Sentences(
        "Look at the disk's own health (nvme smart-log), save its data, and reseat it.",
        f"The disk answers without errors, and {BACK}",
    ),
    ("disk", Action.REPLACE): Sentences(
        "Save the disk's health log (nvme smart-log) and its data, then replace the disk.", CHANGED
    ),
    ("memory", Action.INSPECT): Sentences(
        f"{HOST}, and reseat the DIMM that it names.", f"It counts no further error, and {BACK}"
    ),
    ("memory", Action.REPLACE): Sentences(
        f"{HOST}, and replace the DIMM that it names.", f"It counts no further error, and {BACK}"
    ),
    ("host", Action.INSPECT): Sentences(
        f"{HOST}, and check the part that it names.", f"It logs no further error, and {BACK}"
    ),
    ("host", Action.REPLACE): Sentences(
        f"{HOST}, and replace the part that it names.", f"It logs no further error, and {BACK}"
    ),
}
