"""Toy checks of what was logged and what a burn-in found, for the golden outputs."""

from gpuscan import Action, BurnTest, Incident, check, warn


@check(action=Action.INVESTIGATE, source="a toy")
def test_faults(incident: Incident) -> None:
    """The driver logged no fault."""
    warn(f"seen {incident.times} times", action=Action.RESTART_APP)


@check(action=Action.RESET_GPU, source="a toy")
def test_completion(test: BurnTest) -> None:
    """The test ran to its end."""
    assert test.ended == "ran"
