"""Xid and SXid: what the driver logged in this boot, judged by its code and text, the events around
it, and the state of the GPU.
"""

from typing import Any

from gpuscan import Action, Incident, Node, check, fail, read, warn
from gpuscan.engine.suite import WARN_ONLY
from gpuscan.incidents.sentences import sentence
from gpuscan.model.outcome import TO_REPLACE


@check(
    action=Action.INVESTIGATE,
    kinds=("xid", "sxid", "nvrm"),
    needs=(
        "driver.gpu_access",
        "recovery.action",
        "memory.row_remap",
        "memory.row_remap_pending",
        "memory.uncorrectable_ecc",
    ),
    source="NVIDIA Xid catalogue; Fabric Manager user guide, appendix D",
    ladder=TO_REPLACE,
    same=("observed",),
    aliases=["xid.no_fault_is_logged"],
)
def test_faults(incident: Incident) -> None:
    """The driver logged no Xid or SXid in this boot that needs action.

    The present state decides where it can be read. If the driver maps a code to a recovery action
    and requests none now, the event is history, unless it asks for inspection or replacement or has
    returned; if it does not map the code, the event counts until a cure of its rank: a reset or
    reload of the driver ends what asks for a reset, a boot what asks for a reboot. Application
    faults only warn. An undocumented code, or one for which NVIDIA asks to be contacted, drains a
    node only when it recurs.
    """
    asks = Action(incident.asks)
    if asks is Action.NONE:
        return
    details: dict[str, Any] = {
        "observed": incident.code or incident.entry,
        "urgency": incident.urgency,
        "impact": incident.impact,
    }
    say = warn if asks in WARN_ONLY else fail
    say(sentence(incident), action=asks, **details)


@check(action=Action.MONITOR, aliases=["xid.log_covers_this_boot"])
def test_log_coverage(node: Node) -> None:
    """The kernel log covers the whole of this boot.

    What a missing beginning held must be told by something else: by the recovery action of every
    GPU (driver R565 and newer), or by an earlier complete run of this boot.
    """
    log = node.kernel_log
    if log.whole:
        return
    since_s = [seconds for _, seconds in read([log], "covered_from_s")]
    gap = f"starts {since_s[0]:.0f} s after boot" if since_s else "does not include a boot"
    told = f"only {log.instead} tells of earlier events"
    warn(f"the kernel log {gap}: {told if log.instead else 'earlier events are unknown'}")
