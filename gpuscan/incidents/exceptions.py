"""The only exceptions: where evidence of harm may lower what a log asks for."""

from gpuscan import catalogue
from gpuscan.catalogue import Condition
from gpuscan.incidents.groups import CLEANUP, RECOVERY, normalise
from gpuscan.kernellog.event import Event


def companions(condition: Condition) -> tuple[str, ...]:
    """Return the entries of which one must be near for a condition to hold."""
    return tuple(condition.when.get("companion", {}).get("entries", ()))


def may_explain(cause: Event, effect: Event) -> bool:
    """Return whether *cause* may make *effect* ask for less.

    The line itself names its cause, a condition of the catalogue names the pair, or the driver has
    changed its own request (Xid 154). The log then asks for no less than the cause alone does.
    """
    if effect.entry == RECOVERY:
        return cause.entry == RECOVERY and cause.address == effect.address
    if effect.entry == CLEANUP and effect.cause:
        return cause.entry == f"xid:{effect.cause}" and cause.address == effect.address
    names = {cause.entry, normalise(cause).entry}
    conditions = catalogue.entry(normalise(effect).entry).conditions
    return any(names.intersection(companions(condition)) for condition in conditions)
