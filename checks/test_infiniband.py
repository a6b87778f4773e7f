"""InfiniBand: every port that the profile expects is there, active and at its rate."""

from gpuscan import Action, Node, Port, Profile, check, fail


@check(action=Action.INSPECT, impact="capacity")
def test_every_port_is_there(node: Node, profile: Profile) -> None:
    """As many InfiniBand ports are in the node as the profile expects."""
    found, expected = len(node.ports), profile.infiniband.ports
    if expected and not found:
        why = "none of {} InfiniBand ports is there: is the driver (mlx5_ib) loaded, is it the right profile?"
        fail(why.format(expected), action=Action.FIX_CONFIG, observed=found, expected=expected)
    elif found < expected:
        fail(f"{found} of {expected} InfiniBand ports are there", observed=found, expected=expected)


@check(action=Action.INSPECT, impact="capacity")
def test_port_is_active(port: Port) -> None:
    """The port's link is up and its subnet manager has made it active."""
    state, physical = port.state, port.phys_state
    if state == "ACTIVE":
        return
    if state in ("INIT", "ARMED"):
        fail(f"the port waits in {state} for the subnet manager", action=Action.FIX_CONFIG, observed=state)
    elif physical == "Disabled":
        fail("the port is disabled by its administrator", action=Action.FIX_CONFIG, observed=physical)
    else:
        fail(f"the port is {state} ({physical}): no link to its far end; cable, transceiver or switch", observed=state)


@check(action=Action.INSPECT, needs="infiniband.port_is_active", impact="performance")
def test_port_runs_at_its_rate(port: Port, profile: Profile) -> None:
    """The port's link runs at the rate that the profile expects."""
    rate, expected = port.rate_gbps, profile.infiniband.rate_gbps
    if rate < expected:
        # A port without a link shows its lowest rate, which is no reason to open the node.
        action = Action.INSPECT if port.state == "ACTIVE" else Action.FIX_CONFIG
        fail(f"the port runs at {rate:g} of {expected:g} Gb/s", action=action, observed=rate, expected=expected)
