"""GPM: how busy a GPU's multiprocessors, tensor cores and memory were since the last call (Hopper
and newer).
"""

from typing import Any

import pynvml

METRICS = {
    "sm_active": 2,
    "tensor_active": 5,
    "dram_active": 10,
}  # NVML_GPM_METRIC_SM_UTIL, ANY_TENSOR_UTIL, DRAM_BW_UTIL; percent


class Gpm:
    """Keeps each GPU's last sample: a metric is the difference between two."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}

    def since_last(self, address: str, handle: Any) -> dict[str, float] | None:
        """Return each metric as a share of the time, 0 to 1; None on the first call. Raises
        NVMLError where the GPU has no GPM.
        """
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        sample = pynvml.nvmlGpmSampleGet(handle, pynvml.nvmlGpmSampleAlloc())
        previous, self._last[address] = self._last.get(address), sample
        if previous is None:
            return None
        request = pynvml.c_nvmlGpmMetricsGet_t(
            version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(METRICS)
        )
        request.sample1, request.sample2 = previous, sample
        for position, number in enumerate(METRICS.values()):
            request.metrics[position].metricId = number
        pynvml.nvmlGpmMetricsGet(request)
        pynvml.nvmlGpmSampleFree(previous)
        rows = zip(METRICS, request.metrics[: len(METRICS)], strict=True)
        return {
            name: round(row.value / 100, 4)
            for name, row in rows
            if row.nvmlReturn == pynvml.NVML_SUCCESS
        }
