"""GPM: how busy a GPU's multiprocessors, tensor cores and memory were since the last time it was
asked (Hopper and newer).
"""

from typing import Any

import pynvml

METRICS = {
    "sm_active": 2,
    "tensor_active": 5,
    "dram_active": 10,
}  # NVML_GPM_METRIC_SM_UTIL, ANY_TENSOR_UTIL, DRAM_BW_UTIL; percent


class Gpm:
    """Keeps each GPU's last sample: a metric is what lies between two."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}

    def since_last(self, address: str, handle: Any) -> dict[str, float] | None:
        """Return shares of the time, 0 to 1, by name; None the first time. NVMLError where the
        GPU has no GPM.
        """
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        sample = pynvml.nvmlGpmSampleGet(handle, pynvml.nvmlGpmSampleAlloc())
        before, self._last[address] = self._last.get(address), sample
        if before is None:
            return None
        asked = pynvml.c_nvmlGpmMetricsGet_t(
            version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(METRICS)
        )
        asked.sample1, asked.sample2 = before, sample
        for place, number in enumerate(METRICS.values()):
            asked.metrics[place].metricId = number
        pynvml.nvmlGpmMetricsGet(asked)
        pynvml.nvmlGpmSampleFree(before)
        rows = zip(METRICS, asked.metrics[: len(METRICS)], strict=True)
        return {
            name: round(row.value / 100, 4)
            for name, row in rows
            if row.nvmlReturn == pynvml.NVML_SUCCESS
        }
