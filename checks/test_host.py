"""Host: what the BMC's log and the counters of host memory report, in an imported text."""

from gpuscan import Action, Node, check, fail, warn

BMC = {  # what an event says -> what it asks for as long as it stands
    "memory-uncorrected": (Action.REPLACE, "an uncorrectable error of host memory"),
    "memory-flood": (Action.INSPECT, "so many corrected memory errors that counting ended"),
    "bus-fatal": (Action.INSPECT, "an uncorrected error on the PCIe bus"),
    "cpu-error": (Action.INSPECT, "a processor stopped with an internal error"),
    "psu-failed": (Action.INSPECT, "a power supply failed or lost its input"),
    "power-redundancy": (Action.INSPECT, "the power supplies are not redundant any more"),
    "thermal-trip": (Action.INSPECT, "a processor shut down from heat"),
    "fan": (Action.INSPECT, "a fan failed or is too slow"),
    "too-hot": (Action.INSPECT, "a temperature is over its critical limit"),
    "voltage": (Action.INSPECT, "a voltage is beyond its critical limit"),
    "drive-failed": (Action.INSPECT, "a drive failed"),
    "critical": (Action.INSPECT, "a sensor turned critical"),
}
MINOR = {
    "corrected": "corrected errors",
    "watchdog": "the watchdog restarted the node",
    "near-limit": "a sensor is near its limit",
}
FLOOD = 1000  # corrected errors of one DIMM: the same limit as for the kernel's EDAC lines


@check(
    action=Action.INSPECT,
    source="IPMI 2.0, table 42-3; a moment that is 30 days older than the newest entry is history",
    imported=True,
)
def test_bmc_events(node: Node) -> None:
    """The BMC's event log shows no fault that is still present.

    A state that was deasserted is over. An error without an end counts if it is recent, by the
    newest entry of the log; an older one only warns, as the part may have been replaced since.
    """
    for event in node.bmc_events:
        if event.kind in BMC and event.standing:
            action, meaning = BMC[event.kind]
            fail(f"{meaning}: {event.text}", action=action, observed=event.part)
        elif event.kind in BMC:
            message = f"{BMC[event.kind][1]}, no longer active or long ago: {event.text}"
            warn(message, action=Action.MONITOR, observed=event.part)
        elif event.kind in MINOR:
            message = f"{MINOR[event.kind]}: {event.text}"
            warn(message, action=Action.MONITOR, observed=event.part)


@check(
    action=Action.REPLACE,
    source="EDAC: a memory word with more wrong bits than ECC corrects; rasdaemon",
    impact="correctness",
    imported=True,
)
def test_memory_errors(node: Node) -> None:
    """Host memory had no uncorrected errors, and no flood of corrected ones.

    EDAC counts since its driver was loaded. The database of rasdaemon outlives repairs: what it
    keeps asks to inspect whether the part named there is still the same.
    """
    for error in node.host_errors:
        told = f"{error.part}: {error.text}"
        if error.kind == "uncorrected":
            fail(f"uncorrected errors of host memory on {told}", observed=error.value)
        elif error.kind in ("uncorrected-kept", "machine-fatal-kept"):
            message = f"rasdaemon recorded uncorrected errors of {told}"
            fail(message, action=Action.INSPECT, observed=error.value)
        elif error.kind == "corrected" and error.value >= FLOOD:
            message = f"at least {FLOOD} corrected errors of host memory on {told}"
            fail(message, action=Action.INSPECT, observed=error.value)
        elif error.kind in ("corrected", "corrected-kept"):
            message = f"corrected errors on {told}"
            warn(message, action=Action.MONITOR, observed=error.value)
