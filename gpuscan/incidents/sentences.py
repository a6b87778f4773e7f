"""An incident in one sentence, as the checks of the log report it."""

from typing import TYPE_CHECKING

from gpuscan.model.outcome import Action
from gpuscan.text import shorten

if TYPE_CHECKING:
    from gpuscan.views import Incident  # checks call this, and so it is seen through the lens

LONGEST_TEXT = 160  # characters of the driver's own words; the recording has them all
MOST_ECHOES = 4  # that are named


def sentence(incident: "Incident") -> str:
    """Return what an incident is, when and in which programs it occurred, what it means and the
    line's own words, the reason for the action, its echoes, and why it asks for less now.
    """
    comma = "" if incident.events == 1 else ","
    by = f", in {incident.programs}" if incident.programs else ""
    because = f"; {incident.because}" if incident.because else ""
    return (
        f"{incident.label}{comma} {incident.when}{by}: {_what(incident)}{because}"
        f"{_echoes(incident)}{_standing(incident)}"
    )


def _what(incident: "Incident") -> str:
    """Return the catalogue's meaning and, in quotes, the line: `the GPU is lost ("GPU has …")`."""
    quoted = shorten(incident.text.rstrip(". "), LONGEST_TEXT)
    if not incident.meaning:
        return f'"{quoted}"' if quoted else incident.name
    return f'{incident.meaning} ("{quoted}")' if quoted else incident.meaning


def _echoes(incident: "Incident") -> str:
    here = incident.label.rpartition(" on ")[2]
    names = list(dict.fromkeys(echo.label.removesuffix(f" on {here}") for echo in incident.echoes))
    if not names:
        return ""
    more = f" and {len(names) - MOST_ECHOES} more" if len(names) > MOST_ECHOES else ""
    return f"; also {', '.join(names[:MOST_ECHOES])}{more}"


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
