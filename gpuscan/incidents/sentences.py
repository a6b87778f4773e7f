"""An incident in one sentence, as the checks of the log report it."""

from typing import TYPE_CHECKING

from gpuscan.model.outcome import Action

if TYPE_CHECKING:
    from gpuscan.views import Incident  # checks call this, and so it is seen through the lens


def sentence(incident: "Incident") -> str:
    """Return time, programs, text, the reason for the action, the echoes of an incident, and why it
    asks for less now.
    """
    by = f", in {', '.join(incident.processes)}" if incident.processes else ""
    because = f"; {incident.because}" if incident.because else ""
    echoes = (
        f"; also {', '.join(echo.label for echo in incident.echoes)}" if incident.echoes else ""
    )
    text = incident.text or incident.name
    return f"{incident.when}{by}: {text}{because}{echoes}{_standing(incident)}"


def _standing(incident: "Incident") -> str:
    action = Action(incident.action)
    if action.rank <= Action.RESTART_APP.rank:
        return ""
    if incident.ended:
        return f"; history, ended by {incident.ended}"
    if action is not Action.INVESTIGATE or incident.because or incident.kind == "host":
        return ""
    what = "contact NVIDIA about this code" if incident.listed else "this code is undocumented"
    once = "seen once, " if incident.asks == Action.MONITOR.value else ""
    return f"; {once}{what}: open a ticket with nvidia-bug-report.sh"
