"""systemd's lines on the units that gpuscan knows: the last one of each is its state.

They stand in a unit's journal, in a node's whole journal, or alone in a terminal. Those before the
last boot in the text say nothing of now.
"""

import re
from collections.abc import Iterator

from gpuscan.importers.part import Importer, Part, answer
from gpuscan.recording import Reading
from gpuscan.recording.keys import service

UNITS = (
    "nvidia-fabricmanager",
    "nvidia-persistenced",
    "nvidia-imex",
    "nvidia-dcgm",
    "nvlsm",
    "openibd",
    "opensm",
)
NAMES = "|".join(UNITS)
UNIT = rf"(?P<unit>{NAMES})\.service"
# older systemd prints only the description
DESCRIBED = {
    "NVIDIA fabric manager service": "nvidia-fabricmanager",
    "NVIDIA Persistence Daemon": "nvidia-persistenced",
    "NVIDIA IMEX service": "nvidia-imex",
    "NVIDIA DCGM service": "nvidia-dcgm",
    "NVIDIA Fabric Manager Service": "nvidia-fabricmanager",
    "LSB: Start/Stop OpenSM InfiniBand Subnet Manager": "opensm",
    "openibd - configure Mellanox devices": "openibd",
}
WHOSE = rf"(?:(?P<unit>{NAMES})\.service\b|(?P<text>{'|'.join(map(re.escape, DESCRIBED))}))"
SYSTEMD = r"\bsystemd\[\d+\]: "
RULES = tuple(
    (re.compile(pattern), active)
    for pattern, active in (
        (rf"Job for {UNIT} failed", "failed"),
        (rf"{SYSTEMD}{UNIT}: Failed with result '(?P<result>[\w-]+)'", "failed"),
        (rf"{SYSTEMD}{UNIT}: Start request repeated too quickly", "failed"),
        (rf"{SYSTEMD}{UNIT}: Main process exited, code=\w+, status=[1-9]", "failed"),
        (rf"{SYSTEMD}{UNIT}: Control process exited, code=\w+, status=[1-9]", "failed"),
        (rf"{SYSTEMD}Failed to start {WHOSE}", "failed"),
        (rf"{SYSTEMD}{UNIT}: Scheduled restart job, .*at (?P<result>\d+)", "activating"),
        (rf"{SYSTEMD}(?:Started|Finished) {WHOSE}", "active"),
        (rf"{SYSTEMD}Stopped {WHOSE}", "inactive"),
        (rf"{SYSTEMD}{UNIT}: (?:Succeeded|Deactivated successfully)", "inactive"),
    )
)  # fmt: skip
CONFIG = re.compile(r"fabric manager config file item: (?P<item>\S+) has an invalid value")
NOTHING_TO_DO = re.compile(r"NV_WARN_NOTHING_TO_DO")
BOOT = re.compile(r"^-- (?:Boot [0-9a-f]+|Reboot) --|\bLinux version \d+\.")
BETTER = ("active", "inactive")


def readings(part: Part) -> list[Reading]:
    """Return a reading `service:<unit>` of each unit of which a text has a line.

    >>> line = "systemd[1]: nvidia-imex.service: Failed with result 'exit-code'."
    >>> readings(Part("systemd's lines", line))[0].value["active"]
    'failed'
    """
    states: dict[str, dict[str, str]] = {}
    for unit, active, result in _states(part.text):
        before = states.get(unit, {})
        if active == "failed" and not result and before.get("active") == "failed":
            result = before["result"]  # `Failed to start` follows the line with the reason
        states[unit] = {"active": active, "result": result, "enabled": "", "loaded": ""}
    return [answer(service(unit), state) for unit, state in states.items()]


def _states(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (unit, active, result) of each line that says something, since the last boot."""
    lines = text.splitlines()
    boots = [at for at, line in enumerate(lines) if BOOT.search(line)]
    nothing_to_do = False
    for line in lines[boots[-1] if boots else 0 :]:
        nothing_to_do = nothing_to_do or NOTHING_TO_DO.search(line) is not None
        if hit := CONFIG.search(line):
            yield "nvidia-fabricmanager", "failed", f"{hit['item']} has an invalid value"
        for unit, active, result in _said(line):
            if unit == "nvidia-fabricmanager" and nothing_to_do and active not in BETTER:
                # without NVSwitches it gives up, as it should
                yield unit, "inactive", "it found no NVSwitch"
            else:
                yield unit, active, result


def _said(line: str) -> Iterator[tuple[str, str, str]]:
    for pattern, active in RULES:
        if hit := pattern.search(line):
            found = hit.groupdict()
            unit = found.get("unit") or DESCRIBED[found["text"]]
            result = found.get("result") or ""
            yield unit, active, f"restart {result}" if result.isdecimal() else result
            return


IMPORTER = Importer(
    name="systemd's lines",
    reads="a service's journal",
    readings=readings,
    claims=re.compile(
        rf"^(?:\S+: )?(?:Job for {UNIT} failed|fabric manager config file item: )"
        rf"|^systemd\[\d+\]: .*(?:{NAMES})"
    ),
)
