"""Records of the node's past: what earlier runs found, what was done about it, what is held."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A failure that an earlier run found; *same* distinguishes faults of one check (such as an
    Xid's number).

    *serial* is the part's, empty if it was not known; *at_s* Unix time; *action* what the run asked
    for.
    """

    check: str
    subject: str
    serial: str
    same: str
    action: str
    at_s: float
    boot_id: str
    message: str


class Tried(NamedTuple):
    """Work on the node, declared by a user or seen in the BMC's event log: reset, reboot,
    power-cycle, reseat or replace.

    It was done between *after_s*, the run before its declaration, and *at_s*: what was logged by
    *after_s* is older than the work, what was logged later may be its return. 0.0: not known.
    """

    work: str
    at_s: float
    source: str
    after_s: float = 0.0


class Boot(NamedTuple):
    """A boot that earlier runs saw, from the first to the last of them (Unix time).

    *complete_s* is the last of those that read all they needed of the whole node, 0 if none did.
    """

    boot_id: str
    first_s: float
    last_s: float
    complete_s: float = 0.0


class Seen(NamedTuple):
    """A part that was seen in a slot; the newest row of a slot is its last part."""

    kind: str
    slot: str
    address: str
    serial: str
    part_number: str
    first_s: float
    last_s: float


class Held(NamedTuple):
    """One reason of a hold: the failure that set it, its part, level and boot.

    *code* is its exit code; *since_s* and *seen_s* are when it was first and last found (Unix
    time), *boot_id* the boot of the latter; *slot* and *serial* name the part, empty if unknown.
    *expects* are the profile's values that it missed, as JSON; *link_downed* is a port's count,
    -1 where there is none. *asleep*: the part is gone, and nothing lacks without it. *of_root*:
    root holds the node, and this run is another user's. *tests* are the burn-in's that found it,
    or met it in the log (`SXM1 exact-bf16; SXM1 peer SXM2`), *exercised_s* is when its fault was
    last exercised and did not show. *events* is how often log or counters had it when it was found
    last, in the *over_s* seconds since that boot; 0 where nothing counts it.
    """

    code: int
    action: str
    check: str
    subject: str
    slot: str
    address: str
    serial: str
    message: str
    level: str
    boot_id: str
    profile: str
    since_s: float
    seen_s: float = 0.0
    expects: str = "{}"
    link_downed: int = -1
    asleep: bool = False
    of_root: bool = False
    tests: str = ""
    exercised_s: float = 0.0
    events: int = 0
    over_s: float = 0.0


class PortSeen(NamedTuple):
    """A port as earlier runs saw it: its best rate, and its counters in the newest of these runs
    (-1 if it was not read), of the boot *boot_id* at *at_s* (Unix time).
    """

    label: str
    best_gbps: float
    link_downed: int
    symbol_errors: int
    at_s: float
    boot_id: str


class Measured(NamedTuple):
    """A number that an earlier run read of a part: *name* as in a report's measurements."""

    name: str
    subject: str
    value: float
    at_s: float


class PastTest(NamedTuple):
    """What earlier runs did with one test of a burn-in (`test:SXM4 exact-bf16`) up to the last in
    which it was wrong: in how many of them it was, what they compared and how long they took in
    all, and the core temperature of that last one (0: not known).
    """

    subject: str
    wrong_runs: int
    operations: float
    seconds: float
    hot_c: float


class Past(NamedTuple):
    """What the archive had on this machine when the scan began at *at_s*; *runs* counts earlier
    ones. *booted_s* is the Unix time of this boot, 0.0 if that is not known.

    *parts* are all that gave a serial number, ever; *present* those of the newest passing run of
    the whole node (a serial number is empty where the part gave none), none where a swap was proven
    or a hold cleared since. *burnt* are the tests of burn-ins that were ever wrong. *lifted* is
    what was held until lately, and not exercised since. *unread_holds* says what of the stored hold
    is not known.
    """

    at_s: float
    runs: int
    faults: tuple[Fault, ...]
    tried: tuple[Tried, ...]
    boots: tuple[Boot, ...]
    parts: tuple[Seen, ...]
    held: tuple[Held, ...]
    booted_s: float = 0.0
    ports: tuple[PortSeen, ...] = ()
    measured: tuple[Measured, ...] = ()
    present: tuple[Seen, ...] = ()
    burnt: tuple[PastTest, ...] = ()
    lifted: tuple[Held, ...] = ()
    unread_holds: tuple[str, ...] = ()
