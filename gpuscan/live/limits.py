"""The time limits of reading the machine; `limits:` in the site configuration changes them."""

import os
from typing import NamedTuple

from gpuscan.files import SITE_CONFIG_VARIABLE, site_config_path
from gpuscan.live.keys import SWEEPS
from gpuscan.recording.keys import INIT


class Limits(NamedTuple):
    """Seconds that each kind of reading may take before the reader counts as hung.

    *call_s* is longer than the driver's own timeout of 45 s for the GPU's firmware (GSP), so that
    the driver's error arrives first. *sweep_s* is for commands that ask the whole fabric. A GPU
    whose answer took longer than *slow_s* is not asked again: its firmware is dead. A burn-in
    worker is stuck after *worker_s* of silence, twice its own limit for a stuck GPU.
    """

    init_s: float = 120.0
    call_s: float = 50.0
    host_s: float = 10.0
    sweep_s: float = 40.0
    slow_s: float = 5.0
    worker_s: float = 60.0

    def of(self, key: str) -> float:
        """Return the limit of one key."""
        if key == INIT:
            return self.init_s
        if key.removeprefix("run:").startswith(SWEEPS):
            return self.sweep_s
        return self.call_s if key.startswith("nvml:") else self.host_s

    def proof(self, key: str) -> float:
        """Return how long a silence must last to prove a hang; a shorter one only shows that the
        deadline was short.
        """
        return min(self.of(key), 40.0 if key == INIT else 10.0)


def load_limits() -> Limits:
    """Return this site's limits; raises ProfileError where its configuration is wrong.

    Most machines have no such file: then neither YAML nor the profiles are imported.
    """
    if not (os.environ.get(SITE_CONFIG_VARIABLE) or os.path.lexists(site_config_path())):
        return Limits()
    from gpuscan.profile.site import load_site_config

    return Limits(**load_site_config().limits)
