"""Errors with which CUDA refuses a GPU because of how the node is set up, and what they ask for."""

from collections.abc import Mapping
from typing import NamedTuple

from gpuscan.model.outcome import Action


class SetupError(NamedTuple):
    """What fixes an error of the setup, and its cause in words."""

    action: Action
    cause: str


# CUDA driver API, CUresult; the last three names are our own worker's
SETUP_ERRORS: Mapping[str, SetupError] = {
    "CUDA_ERROR_SYSTEM_NOT_READY": SetupError(
        Action.FIX_CONFIG, "the Fabric Manager has not set up the NVSwitches"
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": SetupError(
        Action.FIX_CONFIG, "the CUDA library and the kernel module are of different versions"
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": SetupError(
        Action.FIX_CONFIG, "another program has the GPU for itself"
    ),
    "CUDA_ERROR_OUT_OF_MEMORY": SetupError(
        Action.FIX_CONFIG, "another program has the GPU's memory"
    ),
    "CUDA_ERROR_STUB_LIBRARY": SetupError(
        Action.FIX_CONFIG, "the libcuda.so.1 found is the toolkit's stub, not the driver's"
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": SetupError(
        Action.FIX_CONFIG, "libcuda.so.1 is newer than the driver"
    ),
    "NOT_STARTED": SetupError(
        Action.INVESTIGATE,
        "the CUDA driver does not start: is nvidia-uvm loaded, may /dev/nvidia-uvm be opened?",
    ),
    "NO_DRIVER": SetupError(Action.FIX_CONFIG, "libcuda.so.1 is not installed"),
    "NO_BINDING": SetupError(Action.FIX_CONFIG, "cuda-bindings is not installed"),
}
