"""What is asked of a GPU while it is loaded, once a second, and what is kept of the answers;
pure.
"""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from gpuscan.recording import Reading

# NVML clocks event reasons: the bits that tell why clocks are lower than they could be
REASONS = {
    "hw_slowdown": 0x8,
    "hw_thermal": 0x40,
    "sw_thermal": 0x20,
    "power_brake": 0x80,
    "power_cap": 0x4,
}
SLOWED = sum(
    bit for name, bit in REASONS.items() if name != "power_cap"
)  # the cap is what full load looks like
GPM = "nvmlGpmMetricsGet"
CALLS = {
    "core_c": "nvmlDeviceGetTemperature({},0)",
    "power_w": "nvmlDeviceGetPowerUsage({})",
    "sm_clock_mhz": "nvmlDeviceGetClockInfo({},1)",
    "reasons": "nvmlDeviceGetCurrentClocksEventReasons({})",
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration({})",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth({})",
    "gpm": GPM + "({})",
    "memory_c": "nvmlDeviceGetFieldValues({},82,0)",
}


def keys(address: str) -> list[str]:
    """Return the readings that make one sample of a GPU."""
    return [f"nvml:{call.format(address)}" for call in CALLS.values()]


class Samples:
    """The samples of one GPU during one test."""

    def __init__(self, address: str) -> None:
        self._names = dict(zip(keys(address), CALLS, strict=True))
        self._values: dict[str, list[Any]] = {name: [] for name in CALLS}
        self._lacks: dict[str, tuple[str, str]] = {}

    def add(self, readings: Sequence[Reading]) -> None:
        """Keep those of *readings* that are this GPU's."""
        for reading in readings:
            name = self._names.get(reading.key)
            if name and reading.error is not None:
                self._lacks[name] = (reading.error.kind, reading.error.text)
            elif name and reading.value is not None:
                self._values[name].append(reading.value)

    def newest(self, name: str) -> Any:
        """Return the newest value, None without one."""
        return self._values[name][-1] if self._values[name] else None

    def told(self) -> dict[str, Any]:
        """Return the summary that a reading keeps; of what was never answered, `lacks` tells kind
        and text.
        """
        found = {name: values for name, values in self._values.items() if values}
        told: dict[str, Any] = {"samples": max(map(len, found.values()), default=0)}
        told |= {
            name: max(found[name])
            for name in ("core_c", "memory_c", "pcie_generation", "pcie_width")
            if name in found
        }
        if "power_w" in found:
            watts = [value / 1000 for value in found["power_w"]]
            told |= {"power_w": round(fmean(watts), 1), "most_power_w": round(max(watts), 1)}
        if "sm_clock_mhz" in found:
            told["sm_clock_mhz"] = int(median(found["sm_clock_mhz"]))
        if "reasons" in found:
            told |= {
                name: _share([bool(value & bit) for value in found["reasons"]])
                for name, bit in REASONS.items()
            }
            told["slowed"] = sum(bool(value & SLOWED) for value in found["reasons"])
        for name in ("sm_active", "tensor_active", "dram_active"):
            shares = [value[name] for value in found.get("gpm", ()) if name in value]
            told |= {name: round(fmean(shares), 3)} if shares else {}
        lacks = {name: list(lack) for name, lack in self._lacks.items() if name not in found}
        return told | ({"lacks": lacks} if lacks else {})


def _share(flags: Sequence[bool]) -> float:
    return round(sum(flags) / len(flags), 3)
