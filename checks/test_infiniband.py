"""InfiniBand: every expected port is present, active and at its rate."""

from gpuscan import Action, Node, Port, Profile, check, fail, odd, read, warn
from gpuscan.profile.version import satisfies


@check(action=Action.INSPECT, impact="capacity", aliases=["infiniband.every_port_is_there"])
def test_port_count(node: Node, profile: Profile) -> None:
    """The node has as many InfiniBand ports as the profile expects."""
    found, expected = len(node.ports), profile.infiniband.ports
    if expected and not found:
        fail(
            f"0 of {expected} InfiniBand ports are present: is the driver (mlx5_ib) loaded, and is "
            "this the right profile?",
            action=Action.FIX_CONFIG,
            observed=found,
            expected=expected,
        )
    elif found < expected:
        fail(
            f"{found} of {expected} InfiniBand ports are present",
            observed=found,
            expected=expected,
        )


@check(action=Action.INSPECT, impact="capacity", aliases=["infiniband.port_is_active"])
def test_port_state(port: Port, profile: Profile) -> None:
    """The port's link is up, and the subnet manager has made it active.

    If as many ports are active as the profile expects, any other port is a spare and only warns.
    """
    state = port.state
    if state == "ACTIVE":
        return
    physical = next((value for _, value in read([port], "phys_state")), "unknown")
    message, action = _explain_state(state, physical)
    say = warn if _is_spare(port, profile) else fail
    say(message, action=action, observed=f"{state}, {physical}")


def _is_spare(port: Port, profile: Profile) -> bool:
    expected = profile.infiniband.get("ports")
    return port.state != "ACTIVE" and expected is not None and port.active_ports >= expected


def _explain_state(state: str, physical: str) -> tuple[str, Action]:
    if state in ("INIT", "ARMED"):
        return f"the port is in {state}, waiting for the subnet manager", Action.FIX_CONFIG
    if physical == "Disabled":
        return "the port is administratively disabled", Action.FIX_CONFIG
    if state == "DOWN":
        return (
            f"the port is DOWN ({physical}), no link: check cable, transceiver and switch",
            Action.INSPECT,
        )
    return f"the port is in state {state}, which gpuscan does not know", Action.INVESTIGATE


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    impact="performance",
    aliases=["infiniband.port_runs_at_its_rate"],
)
def test_port_rate(port: Port, profile: Profile) -> None:
    """The port's link runs at the rate the profile expects.

    A spare port without a link is left to `infiniband.port_state`.
    """
    rate, expected = port.rate_gbps, profile.infiniband.rate_gbps
    if rate < expected and not _is_spare(port, profile):
        # A port without a link shows its lowest rate, which is no reason to open the node.
        action = Action.INSPECT if port.state == "ACTIVE" else Action.FIX_CONFIG
        fail(
            f"the port runs at {rate:g} Gb/s, the profile expects {expected:g} Gb/s",
            action=action,
            observed=rate,
            expected=expected,
        )


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    impact="performance",
    imported=True,
    aliases=["infiniband.no_port_is_slower_than_its_siblings"],
)
def test_port_rate_match(node: Node, profile: Profile) -> None:
    """No port runs slower than the others of its board type.

    Judged where the profile sets no rate. A single slow port has lost lanes or a generation;
    several may belong to another network by design, so they only warn.
    """
    if profile.infiniband.get("rate_gbps") is not None:
        return
    down = [port.label for port, state in read(node.ports, "state") if state != "ACTIVE"]
    boards = {port.label: board for port, board in read(node.ports, "board_id")}
    kinds: dict[str, list[tuple[Port, float]]] = {}
    for port, rate in read(node.ports, "rate_gbps"):
        if port.label not in down:
            kinds.setdefault(boards.get(port.label, ""), []).append((port, rate))
    for pairs in kinds.values():
        best = max(rate for _, rate in pairs)
        slow = [(port, rate) for port, rate in pairs if rate < best]
        which = ", ".join(f"{port.label} {rate:g}" for port, rate in slow)
        if len(slow) == 1:
            fail(
                f"one port is slower than its siblings ({best:g} Gb/s): {which}",
                culprits=[port for port, _ in slow],
            )
        elif slow:
            warn(
                f"ports are slower than their siblings ({best:g} Gb/s): {which}",
                action=Action.MONITOR,
                culprits=[port for port, _ in slow],
            )


@check(
    action=Action.INSPECT,
    needs="infiniband.port_count",
    impact="capacity",
    aliases=["infiniband.named_hcas_are_there"],
)
def test_hcas(node: Node, profile: Profile) -> None:
    """Every HCA that the profile names is present."""
    absent = [
        name for name in profile.infiniband.hcas if name not in {port.hca for port in node.ports}
    ]
    if absent:
        fail(
            f"no InfiniBand port found for {', '.join(absent)}",
            observed=sorted(port.hca for port in node.ports),
        )


@check(action=Action.FIX_CONFIG, impact="performance", aliases=["infiniband.firmware_is_expected"])
def test_firmware(port: Port, profile: Profile) -> None:
    """The HCA's firmware version is one that the profile allows."""
    version, allowed = port.firmware, profile.infiniband.firmware
    if not satisfies(version, allowed):
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
    needs="infiniband.port_state",
    impact="availability",
    aliases=["infiniband.link_does_not_flap"],
)
def test_link_flaps(port: Port) -> None:
    """The port's link stayed up during the scan.

    The counter's total covers the time since the driver was loaded and is history.
    """
    grown = port.link_downed.growth
    if grown > 0:
        fail(
            f"the link is flapping: times it went down during the scan: {grown}",
            observed=grown,
            expected=0,
        )


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    impact="performance",
    aliases=["infiniband.no_symbol_errors_are_added"],
)
def test_symbol_errors(port: Port) -> None:
    """The port counted no symbol error during the scan."""
    grown = port.symbol_errors.growth
    if grown > 0:
        warn(
            f"symbol errors during the scan: {grown}; check cable and transceiver",
            observed=grown,
            expected=0,
        )
