"""Scanning this machine for a command: with the scan that began at start, or with a new one."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from gpuscan.errors import UsageError

if TYPE_CHECKING:
    from gpuscan.live.scanner import Scanner
    from gpuscan.recording import Recording

NEEDED_AFTERWARDS = (
    "gpuscan.incidents.diagnose",
    "gpuscan.kernellog.events",
    "gpuscan.state.store",
    "gpuscan.renderers.text",
)


class ScanOptions(NamedTuple):
    """How to scan this machine.

    *scanner* is the scan that began at start, if any; *deadline_s* is None where the user set
    none; *cables* also reads the far end of each network port.
    """

    scanner: "Scanner | None" = None
    root: str = "/"
    driver_root: str = ""
    deadline_s: float | None = None
    cables: bool = False

    def limit_s(self) -> float:
        """Return how many seconds the scan may take."""
        from gpuscan.live.scanner import DEADLINE_S

        return DEADLINE_S if self.deadline_s is None else self.deadline_s


def scan_machine(options: ScanOptions, gpus: tuple[str, ...] = ()) -> "tuple[Recording, int]":
    """Scan this machine, NVML only of *gpus* (PCI addresses; all if empty).

    Return the recording and the signal that cut it short, 0 if none did. The scan that began at
    start is used if it reads what *options* ask for. Raises UsageError for a root that is no
    folder, and for wrong limits in config.yaml.
    """
    from gpuscan.live.limits import load_limits
    from gpuscan.live.scanner import Request, Scanner

    load_limits()  # the scan's own process reads them too, but cannot report a mistake in them
    for flag, folder in (("--root", options.root), ("--driver-root", options.driver_root)):
        if folder and not os.path.isdir(folder):
            raise UsageError(f"{flag} {folder}: no such folder")
    request = Request(options.root, options.driver_root, options.limit_s(), gpus, options.cables)
    scanner = options.scanner
    if scanner is not None and scanner.request != request:
        scanner.cancel()
        scanner = None
    scanner = scanner or Scanner(request)
    for name in NEEDED_AFTERWARDS:  # imported while the other process reads the machine
        import_module(name)
    return scanner.finish()


def read_keys(options: ScanOptions, keys: tuple[str, ...]) -> "Recording":
    """Return a recording of these readings only."""
    from gpuscan.live.scanner import Request, Scanner

    request = Request(options.root, options.driver_root, options.limit_s(), keys=keys)
    recording, _ = Scanner(request).finish()
    return recording
