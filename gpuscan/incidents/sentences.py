"""An incident in one sentence, as the checks of the log tell it; a moment as people are told it."""

import time

from gpuscan.model import Incident


def moment(at_s: float) -> str:
    """Return a time since the epoch in words.

    >>> moment(1_800_000_000.0)
    '2027-01-15 08:00 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at_s))


def sentence(incident: Incident) -> str:
    """Return when it happened, in which programs, what the log says, why it asks for what it does,
    and what came with it.
    """
    by = f", in {', '.join(incident.processes)}" if incident.processes else ""
    because = f"; {incident.because}" if incident.because else ""
    echoes = (
        f"; with it {', '.join(echo.label for echo in incident.echoes)}" if incident.echoes else ""
    )
    return f"{incident.when}{by}: {incident.text or incident.name}{because}{echoes}"
