"""How often a fault comes: as log and counters had it when it was found, or at least, where it is a
fault from a documented rate on.
"""

from collections.abc import Mapping
from typing import Any

from gpuscan.model import Held, Node, is_unread, read_or
from gpuscan.model.outcome import Result
from gpuscan.model.proof import MOVED, SECONDS, WORD_BYTES, FaultRate

HOUR_S = 3600.0
# the counters of a check's fault in its part's record; all begin at a boot or later
COUNTERS = {
    "memory.uncorrectable_ecc": "ecc_errors.uncorrected_volatile",
    "memory.uncorrectable_sram": "sram.uncorrectable_volatile",
    "pcie.replays": "pcie.replays.total",
    "pcie.fatal_errors": "aer.fatal.total",
    "pcie.nonfatal_errors": "aer.nonfatal.total",
    "nvlink.link_errors": "nvlinks.crc_errors.total",
    "infiniband.link_flaps": "link_downed.total",
    "infiniband.symbol_errors": "symbol_errors.total",
}
DOCUMENTED: Mapping[str, FaultRate] = {
    "infiniband.symbol_errors": FaultRate(
        120, HOUR_S, SECONDS, "InfiniBand Architecture Specification: a bit error rate of 1e-12"
    ),
    "nvlink.link_errors": FaultRate(100, 1.0, SECONDS, "DCGM: 100 CRC errors a second fail"),
    "nvlink.bit_errors": FaultRate(
        1, 1e12 / (8 * WORD_BYTES), MOVED, "DCGM: an effective bit error rate of 1e-12 fails"
    ),
}


def count_events(result: Result, record: Any, node: Node) -> tuple[int, float]:
    """Return how often a result's fault was counted, and in how many seconds since the boot; zeros
    where nothing counts it or the time is not known.

    A counter that began after the boot, and a log that lost its beginning, count less than came:
    the rate is then lower than it was, and a proof longer than it needs to be.
    """
    over_s = read_or(node.host.uptime_s, 0.0)
    events = _logged(result, node) or _total(record, COUNTERS.get(result.check, ""))
    return (events, over_s) if events and over_s > 0 else (0, 0.0)


def _logged(result: Result, node: Node) -> int:
    """Return in how many bursts the kernel logged the incident that a result is about."""
    if result.about.kind != "incident":
        return 0
    incidents = read_or(node.incidents, ())
    return sum(one.times for one in incidents if one.label == result.about.label)


def _total(record: Any, path: str) -> int:
    """Return a record's counter, of a tuple of records the sum; 0 where it was not read."""
    name, _, rest = path.partition(".")
    if not name or record is None:
        return 0
    value = getattr(record, name)
    if is_unread(value):
        return 0
    if not rest:
        return int(value)
    many = isinstance(value, tuple) and not hasattr(value, "_fields")
    return sum(_total(one, rest) for one in (value if many else (value,)))


def rate_of(held: Held, links: int) -> FaultRate | None:
    """Return the rate at which a held fault comes, None where nothing tells it.

    What is a fault from a documented rate on comes at that rate at least. One link of *links* takes
    its share of what a GPU moves.
    """
    known = DOCUMENTED.get(held.check)
    if known is not None:
        shares = max(links, 1) if known.unit == MOVED else 1
        return known._replace(exposure=known.exposure * shares, documented=True)
    if not held.events or held.over_s <= 0:
        return None
    return FaultRate(held.events, held.over_s, SECONDS, "counted from that boot on, idle or not")
