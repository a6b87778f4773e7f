"""Scanning this machine as a command wants it: once, or again and again until it has settled."""

import os
import time
from importlib import import_module
from typing import Any, NamedTuple

from gpuscan.burnin.request import BurnInOptions
from gpuscan.engine import judging
from gpuscan.engine.judging import Wanted
from gpuscan.engine.report import Report
from gpuscan.errors import UsageError
from gpuscan.recording import Recording
from gpuscan.state import remembering

LATER = (
    "gpuscan.incidents.diagnose",
    "gpuscan.kernellog.events",
    "gpuscan.state.store",
    "gpuscan.renderers.text",
)
SETTLE_PAUSE_S = 5.0  # between two scans of a node that is still settling


PASSIVE = BurnInOptions()


class Machine(NamedTuple):
    """A live scan: the one that began at start (or None), the roots to read below, the seconds it
    may take (None: not said).

    *cables* asks for the far end of each port, too; *wish* is the burn-in that follows the scan.
    """

    scanner: Any
    root: str
    driver_root: str
    deadline_s: float | None = None
    cables: bool = False
    wish: BurnInOptions = PASSIVE

    def scan_s(self) -> float:
        """Return the seconds that a scan may take."""
        from gpuscan.live.scanner import DEADLINE_S

        return DEADLINE_S if self.deadline_s is None else self.deadline_s


def scan(machine: Machine, want: Wanted | None) -> tuple[Recording, int]:
    """Return this machine's recording: from the scan begun at start, if that reads what is wanted,
    else from a new one.
    """
    from gpuscan.live.limits import load_limits
    from gpuscan.live.scanner import Request, Scanner

    load_limits()  # the scan's process reads them too, but cannot report a mistake in them
    for folder in (machine.root, machine.driver_root):
        if folder and not os.path.isdir(folder):
            raise UsageError(f"{folder}: no such folder")
    names = judging.gpus_named(want.gpus) if want and want.gpus else []
    gpus = (
        tuple(names) if all(":" in name for name in names) else ()
    )  # whoever is named otherwise must be looked for
    request = Request(machine.root, machine.driver_root, machine.scan_s(), gpus, machine.cables)
    scanner = machine.scanner
    if scanner is not None and scanner.request != request:
        scanner.cancel()
        scanner = None
    scanner = scanner or Scanner(request)
    _prepare_to_judge()
    return scanner.finish()


def _prepare_to_judge() -> None:
    """Import now, while another process reads the machine, what will be needed when it has."""
    for name in LATER:
        import_module(name)


def settled(
    machine: Machine, plan: judging.Plan, memory: remembering.Memory
) -> tuple[Recording, int, Report, Any]:
    """Scan and judge; where something is wrong or unread, again and again until the time to settle
    is over.

    Returns the recording, the signal that cut it short, the report and the store that told of the
    past.
    """
    ends_s = time.monotonic() + memory.settle_s
    while True:
        recording, stopped = scan(machine, plan.want)
        store = remembering.told(recording, memory, own=True)
        if store is not None and store.wants_the_sel:
            _add_sel(recording, machine)
        report = judging.judged(recording, "", plan)
        if stopped or report.exit_code == 0 or time.monotonic() >= ends_s:
            break
        machine = machine._replace(scanner=None)
        time.sleep(min(SETTLE_PAUSE_S, max(ends_s - time.monotonic(), 0)))
    if machine.wish.level != PASSIVE.level and not stopped:
        from gpuscan.burnin.exercise import run_burnin

        stopped = run_burnin(machine, recording, plan)
        report = judging.judged(recording, "", plan)
    return recording, stopped, report, store


def _add_sel(recording: Recording, machine: Machine) -> None:
    """Read the BMC's event log: slow, and so only where the past asks whether the machine was
    without power.
    """
    from gpuscan.collectors.past import SEL
    from gpuscan.live.scanner import Request, Scanner

    found, _ = Scanner(
        Request(machine.root, machine.driver_root, machine.scan_s(), keys=(SEL,))
    ).finish()
    for reading in found:
        recording.add(reading)
