"""What is read of a GPU once a second while it is loaded, and the summary that is kept; pure."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from gpuscan.burnin.results import LoadSummary
from gpuscan.recording import Reading

# NVML clocks event reasons: the bits that say why clocks are lower than they could be
REASONS = {
    "hw_slowdown": 0x8,
    "hw_thermal": 0x40,
    "sw_thermal": 0x20,
    "power_brake": 0x80,
    "power_cap": 0x4,
}
# all but the power cap, which is what full load looks like
SLOWDOWN_BITS = sum(bit for name, bit in REASONS.items() if name != "power_cap")
CALLS = {
    "core_c": "nvmlDeviceGetTemperature({},0)",
    "power_w": "nvmlDeviceGetPowerUsage({})",
    "sm_clock_mhz": "nvmlDeviceGetClockInfo({},1)",
    "reasons": "nvmlDeviceGetCurrentClocksEventReasons({})",
    "pcie_generation": "nvmlDeviceGetCurrPcieLinkGeneration({})",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth({})",
    "gpm": "nvmlGpmMetricsGet({})",
    "memory_c": "nvmlDeviceGetFieldValues({},82,0)",
}
# the degrees left to a limit, of GPUs that name no temperature in its place
MARGIN = "nvmlDeviceGetMarginTemperature({})"


def sample_keys(address: str, *, margin: bool = False) -> list[str]:
    """Return the keys of the readings that make one sample of a GPU, with its *margin* or not."""
    calls = (*CALLS.values(), MARGIN) if margin else CALLS.values()
    return [f"nvml:{call.format(address)}" for call in calls]


class LoadSampler:
    """Collects the samples of one GPU during one test."""

    def __init__(self, address: str) -> None:
        names = (*CALLS, "margin_c")
        self._names = dict(zip(sample_keys(address, margin=True), names, strict=True))
        self._values: dict[str, list[Any]] = {name: [] for name in names}
        self._errors: dict[str, tuple[str, str]] = {}

    def add(self, readings: Sequence[Reading]) -> None:
        """Keep those of *readings* that are this GPU's."""
        for reading in readings:
            name = self._names.get(reading.key)
            if name and reading.error is not None:
                self._errors[name] = (reading.error.kind, reading.error.text)
            elif name and reading.value is not None:
                self._values[name].append(reading.value)

    def newest(self, name: str) -> Any:
        """Return the newest value (as NVML gives it), None if there is none yet."""
        return self._values[name][-1] if self._values[name] else None

    def summary(self) -> LoadSummary:
        """Return the highest temperatures, the lowest margin, mean and highest power in W, the
        median clock, and the share of samples with each clock event reason.
        """
        sampled = {name: values for name, values in self._values.items() if values}
        highest = ("core_c", "memory_c", "pcie_generation", "pcie_width")
        values: dict[str, float] = {name: max(sampled[name]) for name in highest if name in sampled}
        if "power_w" in sampled:
            watts = [milliwatts / 1000 for milliwatts in sampled["power_w"]]
            values |= {"power_w": round(fmean(watts), 1), "most_power_w": round(max(watts), 1)}
        if "margin_c" in sampled:
            values["margin_c"] = min(sampled["margin_c"])
        if "sm_clock_mhz" in sampled:
            values["sm_clock_mhz"] = int(median(sampled["sm_clock_mhz"]))
        if "reasons" in sampled:
            bits = sampled["reasons"]
            for name, bit in REASONS.items():
                values[name] = round(sum(bool(value & bit) for value in bits) / len(bits), 3)
            values["slowed"] = sum(bool(value & SLOWDOWN_BITS) for value in bits)
        for name in ("sm_active", "tensor_active", "dram_active"):
            shares = [value[name] for value in sampled.get("gpm", ()) if name in value]
            if shares:
                values[name] = round(fmean(shares), 3)
        missing = {name: error for name, error in self._errors.items() if name not in sampled}
        return LoadSummary(max(map(len, sampled.values()), default=0), values, missing)
