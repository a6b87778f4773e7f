"""InfiniBand: every expected port is present, active and at its rate."""

from gpuscan import Action, Node, Port, Profile, check, fail, odd, read, warn
from gpuscan.engine.rails import Place, find_place, find_rails, kinds
from gpuscan.engine.rails_missing import explain_missing
from gpuscan.profile.version import satisfies
from gpuscan.text import counted

ERRORS_AN_HOUR = 120  # InfiniBand Architecture Specification: at a bit error rate of 1e-12
HOUR_S, DAY_S = 3600.0, 86400.0
MANY_DOWNS = 3  # a day, our own: a switch's restart is one
SHORT_S = 60.0  # a shorter window shows a burst, no rate
SIBLINGS = 3  # other ports of one board type: more than the second port of an adapter has
WAITING = ("INIT", "ARMED")  # for the subnet manager
CEILING = 255  # the counter has eight bits, and stops there


@check(action=Action.INSPECT, impact="capacity", aliases=["infiniband.every_port_is_there"])
def test_port_count(node: Node, profile: Profile) -> None:
    """The node has as many InfiniBand ports as the profile expects.

    Counted are the rails: the HCAs that the profile names, else ports of one board type. Storage
    ports of another type do not stand in for them.
    """
    found, expected = len(node.ports), profile.infiniband.ports
    if expected:
        found = len(find_rails(node.ports, profile.infiniband).labels)
    if found < expected:
        missing = explain_missing(node, profile.infiniband, expected - found)
        fail(
            f"{found} of {counted(expected, 'InfiniBand port is', 'InfiniBand ports are')} present"
            f": {missing.text}",
            action=missing.action,
            culprits=missing.culprits,
            observed=found,
            expected=expected,
        )


@check(action=Action.INSPECT, impact="capacity", aliases=["infiniband.port_is_active"])
def test_port_state(port: Port, profile: Profile) -> None:
    """The port's link is up, and the subnet manager has made it active.

    A spare, a port that was never up and that nothing misses, only warns, and so does one that no
    expectation speaks of.
    """
    state = port.state
    if state == "ACTIVE":
        return
    physical = next((value for _, value in read([port], "phys_state")), "unknown")
    place = find_place(port, profile.infiniband)
    if place is Place.VIRTUAL:
        return
    message, action = _explain_state(state, physical)
    expected = place in (Place.RAIL, Place.LOST) or _is_told_for_itself(port)
    say = fail if expected else warn
    say(message, action=action, observed=f"{state}, {physical}")


def _is_told_for_itself(port: Port) -> bool:
    """Return whether a text that tells nothing of the port's past shows that it is broken.

    Nobody pastes only ports that are meant to be down; a single one that is down among its
    siblings is no spare, nor is one with a link that waits for the subnet manager.
    """
    if read([port], "link_downed.total"):
        return False
    if any(state in WAITING for _, state in read([port], "state")):
        return any(physical == "LinkUp" for _, physical in read([port], "phys_state"))
    up = {one.label for one, state in read(port.peers, "state") if state == "ACTIVE"}
    siblings = next(group for group in kinds(port.peers).values() if _holds(group, port))
    others = {one.label for one in siblings} - {port.label}
    return not up or (len(others) >= SIBLINGS and others <= up)


def _explain_state(state: str, physical: str) -> tuple[str, Action]:
    if physical == "Disabled":
        return "the port is administratively disabled", Action.FIX_CONFIG
    if state in WAITING and physical in ("LinkUp", "unknown"):
        return f"the port is in {state}, waiting for the subnet manager", Action.FIX_CONFIG
    if state in (*WAITING, "DOWN"):
        return (
            f"the port is {state} ({physical}), no link: check cable, transceiver and switch",
            Action.INSPECT,
        )
    return f"the port is in state {state}, which gpuscan does not know", Action.INVESTIGATE


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    eased_by="infiniband.port_state",
    impact="performance",
    aliases=["infiniband.port_runs_at_its_rate"],
)
def test_port_rate(port: Port, profile: Profile) -> None:
    """The port's link runs at the rate the profile expects.

    That is the rate of the rails; storage ports may belong to another network. A spare port without
    a link is left to `infiniband.port_state`.
    """
    rate, expected = port.rate_gbps, profile.infiniband.rate_gbps
    if rate >= expected:
        return
    active = port.state == "ACTIVE"
    rails = find_rails(port.peers, profile.infiniband)
    if port.label not in rails.labels:
        return
    if active or find_place(port, profile.infiniband) is Place.RAIL:
        # A port without a link shows its lowest rate, which is no reason to open the node.
        fail(
            f"the port runs at {rate:g} Gb/s, the profile expects {expected:g} Gb/s",
            action=Action.INSPECT if active else Action.FIX_CONFIG,
            observed=rate,
            expected=expected,
        )


@check(
    action=Action.INSPECT,
    needs=("infiniband.port_state", "infiniband.port_rate"),
    impact="performance",
    aliases=["infiniband.no_port_is_slower_than_its_siblings"],
)
def test_port_rate_match(node: Node, profile: Profile) -> None:
    """No port runs slower than the others of its board type.

    It only warns where the profile sets no rate for them: a slow port may have lost lanes, or
    belong to another network by design. In a pasted text, which has no profile, a single slow port
    among its siblings fails.
    """
    judged: frozenset[str] = frozenset()
    if profile.infiniband.get("rate_gbps") is not None:  # their rate is judged by the profile
        judged = find_rails(node.ports, profile.infiniband).labels
    down = {port.label for port, state in read(node.ports, "state") if state != "ACTIVE"}
    rates = {port.label: rate for port, rate in read(node.ports, "rate_gbps")}
    for ports in kinds(node.ports).values():
        pairs = [
            (port, rates[port.label])
            for port in ports
            if port.label in rates and port.label not in judged and port.label not in down
        ]
        _compare_rates(pairs, pasted=node.imported)


def _compare_rates(pairs: list[tuple[Port, float]], *, pasted: bool) -> None:
    best = max((rate for _, rate in pairs), default=0.0)
    slow = [(port, rate) for port, rate in pairs if rate < best]
    if not slow:
        return
    which = ", ".join(f"{port.label} {rate:g}" for port, rate in slow)
    culprits = [port for port, _ in slow]
    if len(slow) == 1 and pasted:
        fail(f"one port is slower than its siblings ({best:g} Gb/s): {which}", culprits=culprits)
    else:
        action = Action.INSPECT if len(slow) == 1 else Action.MONITOR
        warn(
            f"slower than the others of the same board type ({best:g} Gb/s): {which}",
            action=action,
            culprits=culprits,
        )


@check(
    action=Action.INSPECT,
    needs="infiniband.port_count",
    impact="capacity",
    aliases=["infiniband.named_hcas_are_there"],
)
def test_hcas(node: Node, profile: Profile) -> None:
    """Every HCA that the profile names is present."""
    expected = profile.infiniband.hcas
    present = {name for port in node.ports for name in (port.hca, port.label)}
    absent = [name for name in expected if name not in present]
    if absent:
        missing = explain_missing(node, profile.infiniband, len(absent))
        fail(
            f"no InfiniBand port found for {', '.join(absent)}: {missing.text}",
            action=missing.action,
            culprits=missing.culprits,
            observed=sorted(port.hca for port in node.ports),
        )


@check(action=Action.FIX_CONFIG, impact="performance", aliases=["infiniband.firmware_is_expected"])
def test_firmware(port: Port, profile: Profile) -> None:
    """The HCA's firmware version is one that the profile allows.

    It is that of the rails: other boards have version numbers of their own.
    """
    version, allowed = port.firmware, profile.infiniband.firmware
    if satisfies(version, allowed):
        return
    rails = find_rails(port.peers, profile.infiniband).labels
    if not rails or port.label in rails:
        fail(
            f"firmware {version} does not satisfy {allowed}",
            observed=version,
            expected=allowed,
        )


@check(
    action=Action.MONITOR,
    needs=("infiniband.port_count", "infiniband.firmware"),
    impact="performance",
    aliases=["infiniband.one_firmware"],
)
def test_firmware_match(node: Node) -> None:
    """HCAs of the same board type run the same firmware version."""
    boards: dict[str, list[tuple[Port, str]]] = {}
    versions = {port.label: version for port, version in read(node.ports, "firmware")}
    for port, board in read(node.ports, "board_id"):
        if port.label in versions:
            boards.setdefault(board, []).append((port, versions[port.label]))
    for board, pairs in boards.items():
        others = odd(pairs)
        if others.odd:
            warn(
                f"firmware of {board} differs from the others ({others.common}): {others.told}",
                culprits=others.odd,
            )


@check(
    action=Action.INSPECT,
    source="PCI: lanes and speed are negotiated when the link trains and do not depend on load",
    impact="performance",
)
def test_pcie_link(port: Port) -> None:
    """The HCA's PCIe link is as wide and as fast as both ends support.

    Where the slot's own maximum was not read, the link is compared with the other HCAs of the same
    board type: a slot may have fewer lanes by design.
    """
    if port.virtual:
        return
    siblings = next((group for group in kinds(port.peers).values() if _holds(group, port)), [])
    for fact, most, slot, unit in LINK_FACTS:
        _judge_link(port, siblings, fact, most, slot, unit)


LINK_FACTS = (
    ("width", "max_width", "slot_width", "x{:g}"),
    ("speed_gts", "max_speed_gts", "slot_speed_gts", "{:g} GT/s"),
)


def _holds(ports: list[Port], port: Port) -> bool:
    return any(one.label == port.label for one in ports)


def _judge_link(
    port: Port, siblings: list[Port], fact: str, most: str, slot: str, unit: str
) -> None:
    now, highest = getattr(port.link, fact), getattr(port.link, most)
    if now >= highest:
        return
    slots = [value for _, value in read([port], f"link.{slot}")]
    best = max((value for _, value in read(siblings, f"link.{fact}")), default=now)
    shown, limit = unit.format(now), unit.format(highest)
    where = f"the PCIe link of {port.hca} ({port.address}) runs at {shown}"
    if now < best or any(now < value for value in slots):
        fail(
            f"{where}, it supports {limit}: check seating, riser and slot",
            observed=now,
            expected=min([highest, *slots]),
        )
    elif not slots:
        warn(f"{where}, it supports {limit}; whether the slot does was not read", observed=now)


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    eased_by="infiniband.port_state",
    impact="availability",
    aliases=["infiniband.link_does_not_flap"],
)
def test_link_flaps(port: Port) -> None:
    """The port's link stayed up during the scan.

    The counter's total covers the time since the driver was loaded and is history. Its growth since
    the newest stored run of this boot is judged, too: a switch that restarts takes a link down
    once, a cable that goes bad again and again.
    """
    grown = port.link_downed.growth
    if grown > 0:
        fail(
            f"the link is flapping: it went down {counted(grown, 'time')} during the scan",
            observed=grown,
            expected=0,
        )
    _judge_downs_between_runs(port)
    total = port.link_downed.total
    if total == CEILING:
        warn(
            f"link_downed has reached its ceiling ({CEILING}): whether the link still goes down "
            "cannot be seen; clear the counter (perfquery -R) and watch it",
            action=Action.MONITOR,
            observed=total,
        )


def _judge_downs_between_runs(port: Port) -> None:
    downs, seconds = port.downs_since_run, port.run_ago_s
    if not downs:
        return
    since = f"in the {seconds / HOUR_S:.3g} h since the last run"
    told = f"the link went down {counted(downs, 'time')} {since}"
    if downs >= MANY_DOWNS * max(seconds / DAY_S, 1.0):
        fail(f"{told}: check cable and transceiver", observed=downs, expected=0)
    else:
        warn(told, action=Action.MONITOR, observed=downs)


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    eased_by="infiniband.port_state",
    source="InfiniBand Architecture Specification: bit error rate 1e-12, 120 symbol errors an hour",
    impact="performance",
    aliases=["infiniband.no_symbol_errors_are_added"],
)
def test_symbol_errors(port: Port) -> None:
    """The port counts no more symbol errors than the InfiniBand specification allows.

    A window shorter than a minute shows no rate: what it counts warns, unless it is more than a
    whole hour may have.
    """
    grown = port.symbol_errors.growth
    if not grown:
        return
    seconds = port.symbol_errors.seconds
    allowed = ERRORS_AN_HOUR * max(seconds / HOUR_S, 1.0)
    told = f"{counted(grown, 'symbol error')} in {seconds:.3g} s"
    if grown > allowed:
        fail(
            f"{told}, at most {ERRORS_AN_HOUR} an hour are allowed: check cable and transceiver",
            observed=grown,
            expected=int(allowed),
        )
    else:
        short = "; too short a time to tell a rate" if seconds < SHORT_S else ""
        warn(f"{told}{short}; check cable and transceiver", observed=grown, expected=0)


MOST_EFFECTIVE_BER = 1e-12  # bit errors that remain behind the forward error correction
MOST_RAW_BER = 1e-5  # before it: what it corrects is normal
BEHIND_FEC = ("effective-ber", "symbol-ber")


@check(
    action=Action.INSPECT,
    source="DCGM: an effective bit error rate over 1e-12 fails; OCI: a raw one over 1e-5 warns",
    impact="performance",
    imported=True,
)
def test_link_quality(node: Node) -> None:
    """The links' bit error rates are within their limits, and no module reports a fault.

    Totals since the counters were last cleared are history, and only warn.
    """
    for said in node.link_quality:
        told = f"{said.part}: {said.text}"
        if said.kind in BEHIND_FEC and said.value > MOST_EFFECTIVE_BER:
            message = f"bit errors pass the error correction ({told}); check cable and transceiver"
            fail(message, observed=said.value, expected=MOST_EFFECTIVE_BER)
        elif said.kind == "module-fault":
            fail(f"the transceiver reports a fault ({told})", observed=said.text)
        elif said.kind == "raw-ber" and said.value > MOST_RAW_BER:
            message = f"the raw bit error rate is high ({told})"
            warn(message, observed=said.value, expected=MOST_RAW_BER)
        elif said.kind in ("advice", "lifetime-errors"):
            warn(told, action=Action.MONITOR, observed=said.text)
