"""What NVML's return codes mean: the one table from code to the kind of an unread fact and to a
GPU's access, and from access to the work that restores it.

Sources: nvmlReturn_t in NVIDIA's nvml.h and the exit codes of nvidia-smi's manual.
"""

from typing import NamedTuple

from gpuscan.model.outcome import Action

INVALID_ARGUMENT, FUNCTION_NOT_FOUND, UNKNOWN_ERROR = 2, 13, 999
# the library lacks the function, or knows only an older version of its structure
TOO_OLD = (FUNCTION_NOT_FOUND, 25)


class Meaning(NamedTuple):
    """What a return code means: the kind of the unread fact, and the access it tells of, "" for
    none.

    *of_gpu* is whether it tells so of a GPU in whichever call of it, not only in the one that
    opens the driver or the GPU.
    """

    kind: str
    access: str = ""
    of_gpu: bool = False


RETURN_CODES: dict[int, Meaning] = {
    1: Meaning("garbled"),  # not initialised
    INVALID_ARGUMENT: Meaning("garbled"),
    3: Meaning("not-supported"),
    4: Meaning("no-permission"),
    5: Meaning("garbled"),  # already initialised
    6: Meaning("not-found"),
    7: Meaning("garbled"),  # too little room for the answer
    8: Meaning("garbled", "unpowered", of_gpu=True),
    9: Meaning("not-found", "not-loaded"),
    10: Meaning("timed-out", "timed-out", of_gpu=True),
    11: Meaning("garbled", "no-interrupts", of_gpu=True),
    12: Meaning("not-found", "no-library"),
    FUNCTION_NOT_FOUND: Meaning("not-found"),
    14: Meaning("garbled", "corrupt-inforom", of_gpu=True),
    15: Meaning("lost", "lost", of_gpu=True),
    16: Meaning("reset-required", "reset-required", of_gpu=True),
    # the operating system denies access to the GPU, for example a container's device rules
    17: Meaning("no-permission"),
    18: Meaning("not-found", "mismatch"),
    19: Meaning("garbled"),  # in use
    20: Meaning("garbled"),  # no memory
    21: Meaning("garbled"),  # no data
    22: Meaning("not-supported"),  # ECC with vGPU
    23: Meaning("garbled"),  # no resources
    24: Meaning("not-supported"),  # a frequency
    25: Meaning("not-supported"),  # an older version of the structure
    26: Meaning("not-supported"),  # deprecated
    27: Meaning("garbled"),  # not ready
    28: Meaning("not-found"),
    29: Meaning("garbled"),  # invalid state
    30: Meaning("not-supported"),  # a type of reset
    UNKNOWN_ERROR: Meaning("garbled", "failed"),
}


def meaning_of(code: int) -> Meaning:
    """Return what a return code means; one that this table does not know makes no sense."""
    return RETURN_CODES.get(code, Meaning("garbled"))


class Trouble(NamedTuple):
    """What restores an access: the action, and the sentence for the driver as a whole (*of_node*)
    and for one GPU (*of_gpu*).
    """

    action: Action
    of_node: str
    of_gpu: str


STUCK = "a call to the GPU timed out: its driver or firmware is stuck"
POWER = "insufficient external power: check the GPU's power cables and their supply"
INTERRUPTS = (
    "has a problem with interrupts: check the BIOS settings (MSI, IOMMU), or those of the virtual "
    "machine"
)
INFOROM = "InfoROM is corrupt: flash it; if it is corrupt again, replace the GPU"
ACCESS: dict[str, Trouble] = {
    "not-loaded": Trouble(
        Action.FIX_CONFIG,
        "the NVIDIA kernel module is not loaded",
        "the NVIDIA kernel module is not loaded",
    ),
    "mismatch": Trouble(
        Action.FIX_CONFIG,
        "the kernel module and libnvidia-ml differ in version: load the new module, or reboot",
        "the kernel module and libnvidia-ml differ in version: load the new module, or reboot",
    ),
    "no-library": Trouble(
        Action.FIX_CONFIG,
        "libnvidia-ml.so.1 is missing, or this user cannot load it",
        "libnvidia-ml.so.1 is missing, or this user cannot load it",
    ),
    "failed": Trouble(
        Action.FIX_CONFIG,
        'NVML fails to initialise ("unknown error"): if this is a container, it has lost access to '
        "its devices and must be restarted; on the host, check the kernel log",
        'NVML fails to initialise ("unknown error")',
    ),
    "no-interrupts": Trouble(
        Action.FIX_CONFIG,
        f"the driver reports that a GPU {INTERRUPTS}",
        f"the driver reports that the GPU {INTERRUPTS}",
    ),
    "corrupt-inforom": Trouble(
        Action.FIX_CONFIG,
        f"the driver reports that a GPU's {INFOROM}",
        f"the GPU's {INFOROM}",
    ),
    "reset-required": Trouble(
        Action.RESET_GPU,
        "the driver reports that a GPU needs a reset",
        "the driver refuses to use the GPU until it is reset",
    ),
    "erring": Trouble(
        Action.RESET_GPU,
        "NVML answers calls with an unknown error",
        'NVML answers calls to the GPU with "unknown error" that it answers for the GPUs beside it',
    ),
    "lost": Trouble(
        Action.REBOOT,
        "the driver reports that a GPU is lost",
        "the GPU is on PCI, but the driver has lost it",
    ),
    "timed-out": Trouble(Action.REBOOT, "NVML does not respond: the driver is stuck", STUCK),
    "no-device-file": Trouble(
        Action.REBOOT,
        "a GPU's device file /dev/nvidiaN is missing",
        "the GPU's device file /dev/nvidiaN is missing, so NVML does not list it: run "
        "nvidia-modprobe -c N; if that does not restore it, reboot",
    ),
    "unopened": Trouble(
        Action.REBOOT,
        "the driver cannot open a GPU (unknown error)",
        "the driver cannot open the GPU (unknown error): it has most likely fallen off the bus",
    ),
    "unpowered": Trouble(
        Action.INSPECT,
        f"the driver reports {POWER}",
        f"the driver reports {POWER}",
    ),
}
