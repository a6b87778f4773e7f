"""What brings a fault back: the tests that exercise a part as it was when the fault showed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuscan.model.outcome import LEVELS
from gpuscan.model.proof import MOVED, PRODUCTS, READ, SECONDS


class Drive(NamedTuple):
    """The *tests* (names of a level's steps) that exercise a kind of fault, and the *unit* in which
    exposure to it is counted. *watched*: the fault is one of the load itself, and shows only where
    the temperature was read meanwhile. *lacks* is what would exercise it where no test here does.
    """

    tests: tuple[str, ...] = ()
    unit: str = ""
    watched: bool = False
    lacks: str = ""


MEMORY = Drive(("memory-hot", "hbm"), READ)
LINKS = Drive(("peer", "nccl"), MOVED)
HOST_COPIES = Drive(("pcie", "pcie-together"), MOVED)
HEAT = Drive(("stress-bf16",), SECONDS, watched=True)
SURGES = Drive(("pulse-bf16", "stress-bf16", "pcie-together"), SECONDS)
COMPUTE = Drive(("exact-bf16", "stress-bf16", "memory-hot"), SECONDS)
PORT = Drive(("ib_write_bw",), SECONDS)
MISSING = "nothing here exercises it"
STATE = Drive()  # the scan itself shows it
BURNT = {  # kinds of a burn-in's own tests
    "exact": PRODUCTS,
    "stress": PRODUCTS,
    "pulse": PRODUCTS,
    "memory": READ,
    "fade": READ,
    "hbm": MOVED,
    "pcie": MOVED,
    "peer": MOVED,
    "nccl": MOVED,
}
FIRST_LEVELS = {"pulse": "medium", "fade": "long", "ib_write_bw": "medium"}  # the others quick
OPENING = ("open", "end")  # of a burn-in, beside its tests and other programs
# check, its area, or a code in the log; the longest that fits counts
DRIVES: Mapping[str, Drive] = {
    "memory": MEMORY,
    "memory.ecc_mode": STATE,
    "memory.ecc_mode_pending": STATE,
    "nvlink": LINKS,
    "fabric": LINKS,
    "pcie": HOST_COPIES,
    "thermal": HEAT,
    "burnin.temperature": HEAT,
    "burnin.temperature_spread": HEAT,
    "burnin.slowdown": HEAT,
    "burnin.power": HEAT,
    "power": HEAT,
    "clocks": HEAT,
    "infiniband.link_flaps": PORT,
    "infiniband.link_quality": PORT,
    "infiniband.port_rate": PORT,
    "infiniband.port_rate_match": PORT,
    "infiniband.port_state": PORT,
    "infiniband.symbol_errors": PORT,
    "driver.gpu_access": SURGES,
    "recovery.action": COMPUTE,
    "xid": COMPUTE,
    "xid:48": MEMORY,
    "xid:63": MEMORY,
    "xid:64": MEMORY,
    "xid:92": MEMORY,
    "xid:94": MEMORY,
    "xid:95": MEMORY,
    "xid:140": MEMORY,
    "xid:62": SURGES,
    "xid:79": SURGES,
    "xid:54": SURGES,
    "xid:74": LINKS,
    **{f"xid:{code}": LINKS for code in range(144, 151)},
    "sxid": LINKS,
    "inventory.gpu_count": SURGES,
    "inventory.gpu_count_match": SURGES,
    "inventory.known_gpus": SURGES,
    "inventory.slots": SURGES,
    "host.memory_errors": Drive(lacks=f"{MISSING}: stressapptest or memtest86+ would, on the host"),
    "host.bmc_events": Drive(lacks=f"{MISSING}: what the BMC's event names would show it"),
    "log.host_faults": Drive(lacks=f"{MISSING}: the work in which the host logged it would"),
    "service.daemon_logs": Drive(lacks=f"{MISSING}: the daemon's own work would, for hours"),
    "aer": HOST_COPIES,
}


def drive_of(check: str, codes: Sequence[str] = (), tests: Sequence[str] = ()) -> Drive:
    """Return what exercises a check's fault: of a burn-in the very tests that failed, but for
    faults of the load itself, which any test may meet and a soak brings back.

    *codes* are the fault's in the log, *tests* the names of a burn-in's tests; both may be empty.
    """
    if check.startswith("burnin.") and check in DRIVES:
        return DRIVES[check]
    own = tuple(name for name in tests if name.split("-")[0] in BURNT)
    if own:
        units = {BURNT[name.split("-")[0]] for name in own}
        return Drive(own, units.pop() if len(units) == 1 else SECONDS)
    programs = [name for name in tests if name not in OPENING]
    if programs:
        found = " and ".join(programs)
        return Drive(
            lacks=f"{MISSING}: {found}, which found it, would (gpuscan run --level medium)"
        )
    if check.startswith("burnin."):
        return COMPUTE
    drives = [_drive_of(check, code) for code in codes or ("",)]
    tests_of_all = dict.fromkeys(name for drive in drives for name in drive.tests)
    if len(set(drives)) == 1 or not tests_of_all:
        return drives[0]
    return Drive(tuple(tests_of_all), SECONDS)


def level_of(tests: str) -> str:
    """Return the lowest level at which all of these tests run (their labels, `; ` between them)."""
    kinds = [label.split()[1].partition("-")[0] for label in tests.split("; ") if " " in label]
    levels = [FIRST_LEVELS.get(kind, LEVELS[1]) for kind in kinds]
    return max(levels, key=LEVELS.index, default=LEVELS[0])


def _drive_of(check: str, code: str) -> Drive:
    names = (code, check, code.partition(":")[0], check.partition(".")[0])
    return next((DRIVES[name] for name in names if name in DRIVES), STATE)
