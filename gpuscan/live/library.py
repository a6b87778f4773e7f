"""Finds NVML's library, and starts it while its Python binding is still being imported."""

import ctypes
import os
import threading

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "lib64",
    "lib",
    "nvidia/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/glibc/usr/lib",
    "opt/lib64",
    "run/opengl-driver/lib",
)


def find_library(root: str) -> str:
    """Return the path of NVML's library below a driver root (driver containers, Talos,
    Bottlerocket, COS, NixOS); "" without a driver root, for the system's own.
    """
    if not root:
        return ""
    paths = [os.path.join(root, folder, "libnvidia-ml.so.1") for folder in (*LIBRARY_FOLDERS, "")]
    return next((path for path in paths if os.path.exists(path)), paths[-1])


def initialise_nvml(driver_root: str) -> None:
    """Initialise NVML in a thread: importing its binding takes longer than the driver's own start.

    The result is ignored: the binding initialises NVML once more, and its answer counts.
    """
    threading.Thread(
        target=_initialise, args=(find_library(driver_root) or "libnvidia-ml.so.1",), daemon=True
    ).start()


def _initialise(library: str) -> None:
    try:
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL).nvmlInit_v2()
    except (OSError, AttributeError):
        return  # no library, or not NVML's: the binding will report it
