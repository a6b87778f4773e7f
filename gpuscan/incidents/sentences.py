"""An incident in one sentence, as the checks of the log report it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuscan.views import Incident  # checks call this, and so it is seen through the lens


def sentence(incident: "Incident") -> str:
    """Return time, programs, text, the reason for the action and the echoes of an incident."""
    by = f", in {', '.join(incident.processes)}" if incident.processes else ""
    because = f"; {incident.because}" if incident.because else ""
    echoes = (
        f"; also {', '.join(echo.label for echo in incident.echoes)}" if incident.echoes else ""
    )
    return f"{incident.when}{by}: {incident.text or incident.name}{because}{echoes}"
