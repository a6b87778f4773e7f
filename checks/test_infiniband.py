"""InfiniBand: every port that the profile expects is there, active and at its rate."""

from gpuscan import Action, Node, Port, Profile, check, fail, odd, read, warn
from gpuscan.profile.version import satisfies


@check(action=Action.INSPECT, impact="capacity", aliases=["infiniband.every_port_is_there"])
def test_port_count(node: Node, profile: Profile) -> None:
    """As many InfiniBand ports are in the node as the profile expects."""
    found, expected = len(node.ports), profile.infiniband.ports
    if expected and not found:
        why = "none of {} InfiniBand ports is there: is the driver (mlx5_ib) loaded, is it the right profile?"
        fail(why.format(expected), action=Action.FIX_CONFIG, observed=found, expected=expected)
    elif found < expected:
        fail(f"{found} of {expected} InfiniBand ports are there", observed=found, expected=expected)


@check(action=Action.INSPECT, impact="capacity", aliases=["infiniband.port_is_active"])
def test_port_state(port: Port, profile: Profile) -> None:
    """The port's link is up and its subnet manager has made it active.

    Where as many ports are active as the profile expects, one more that is not is a spare, and only
    warned of.
    """
    state = port.state
    if state == "ACTIVE":
        return
    physical = next((value for _, value in read([port], "phys_state")), "unknown")
    words, action = _of_state(state, physical)
    say = warn if _is_spare(port, profile) else fail
    say(words, action=action, observed=f"{state}, {physical}")


def _is_spare(port: Port, profile: Profile) -> bool:
    expected = profile.infiniband.get("ports")
    return port.state != "ACTIVE" and expected is not None and port.active_ports >= expected


def _of_state(state: str, physical: str) -> tuple[str, Action]:
    if state in ("INIT", "ARMED"):
        return f"the port waits in {state} for the subnet manager", Action.FIX_CONFIG
    if physical == "Disabled":
        return "the port is disabled by its administrator", Action.FIX_CONFIG
    if state == "DOWN":
        return (
            f"the port is DOWN ({physical}): no link to its far end; cable, transceiver or switch",
            Action.INSPECT,
        )
    return f"the port is in the state {state}, which gpuscan does not know", Action.INVESTIGATE


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    impact="performance",
    aliases=["infiniband.port_runs_at_its_rate"],
)
def test_port_rate(port: Port, profile: Profile) -> None:
    """The port's link runs at the rate that the profile expects.

    A spare without a link runs at none, and that it is down has been told.
    """
    rate, expected = port.rate_gbps, profile.infiniband.rate_gbps
    if rate < expected and not _is_spare(port, profile):
        # A port without a link shows its lowest rate, which is no reason to open the node.
        action = Action.INSPECT if port.state == "ACTIVE" else Action.FIX_CONFIG
        fail(
            f"the port runs at {rate:g} of {expected:g} Gb/s",
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
    """Where no profile says at which rate ports run, none runs below the others of its kind.

    One that does has lost lanes or a generation; several may be cabled to another network by
    design, and are told of.
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
        told = ", ".join(f"{port.label} {rate:g}" for port, rate in slow)
        if len(slow) == 1:
            fail(
                f"one port runs below the {best:g} Gb/s of its siblings: {told}",
                culprits=[port for port, _ in slow],
            )
        elif slow:
            warn(
                f"ports run below the {best:g} Gb/s of their siblings: {told}",
                action=Action.MONITOR,
                culprits=[p for p, _ in slow],
            )


@check(
    action=Action.INSPECT,
    needs="infiniband.port_count",
    impact="capacity",
    aliases=["infiniband.named_hcas_are_there"],
)
def test_hcas(node: Node, profile: Profile) -> None:
    """Every HCA that the profile names has a port."""
    absent = [
        name for name in profile.infiniband.hcas if name not in {port.hca for port in node.ports}
    ]
    if absent:
        fail(
            f"no InfiniBand port of {', '.join(absent)}",
            observed=sorted(port.hca for port in node.ports),
        )


@check(action=Action.FIX_CONFIG, impact="performance", aliases=["infiniband.firmware_is_expected"])
def test_firmware(port: Port, profile: Profile) -> None:
    """The HCA's firmware is a version that the profile allows."""
    version, allowed = port.firmware, profile.infiniband.firmware
    if not satisfies(version, allowed):
        fail(f"firmware {version} is not {allowed}", observed=version, expected=allowed)


@check(
    action=Action.MONITOR,
    needs=("infiniband.port_count", "infiniband.firmware"),
    impact="performance",
    aliases=["infiniband.one_firmware"],
)
def test_firmware_match(node: Node) -> None:
    """HCAs of one board type run one firmware version."""
    boards: dict[str, list[tuple[Port, str]]] = {}
    versions = {port.label: version for port, version in read(node.ports, "firmware")}
    for port, board in read(node.ports, "board_id"):
        if port.label in versions:
            boards.setdefault(board, []).append((port, versions[port.label]))
    for board, pairs in boards.items():
        others = odd(pairs)
        if others.odd:
            warn(
                f"the firmware of {board} differs from {others.common}: {others.told}",
                culprits=others.odd,
            )


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    impact="availability",
    aliases=["infiniband.link_does_not_flap"],
)
def test_link_flaps(port: Port) -> None:
    """The port's link did not go down while the scan ran; the total is history since the driver was loaded."""
    grown = port.link_downed.growth
    if grown > 0:
        fail(f"the link went down {grown} times within the scan", observed=grown, expected=0)


@check(
    action=Action.INSPECT,
    needs="infiniband.port_state",
    impact="performance",
    aliases=["infiniband.no_symbol_errors_are_added"],
)
def test_symbol_errors(port: Port) -> None:
    """No symbol error was counted while the scan ran."""
    grown = port.symbol_errors.growth
    if grown > 0:
        warn(
            f"{grown} symbol errors within the scan: cable or transceiver",
            observed=grown,
            expected=0,
        )
