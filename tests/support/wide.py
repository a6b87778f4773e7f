"""A node of any number of GPUs, for what must hold for each number."""

from __future__ import annotations

import re

from gpuscan.importers.load import open_recording
from gpuscan.recording import Reading, Recording

ADDRESS = "0000:00:06.0"
OTHERS = re.compile(r"0000:00:0[789]\.0")


def place(number: int) -> str:
    """The PCI address of a GPU by its index."""
    return f"0000:{0x20 + number:02x}:00.0"


def widened(number: int) -> Recording:
    """The demo's node with *number* GPUs, all copies of its first, each with a name of its own."""
    demo = open_recording("demo")
    rest = [reading for reading in demo if not OTHERS.search(reading.key)]
    places = [place(n) for n in range(number)]
    lists = {
        "dir:/sys/bus/pci/devices": places,
        "dir:/dev": ["kmsg", "nvidiactl", "nvidia-uvm", *(f"nvidia{n}" for n in range(number))],
        "nvml:nvmlDeviceGetCount()": number,
        "kmsg:/dev/kmsg": [line for line in demo.get("kmsg:/dev/kmsg") if "0000:00:0" not in line],
    }
    mine = [reading for reading in rest if ADDRESS in reading.key]
    common = [
        reading._replace(value=lists.get(reading.key, reading.value))
        for reading in rest
        if ADDRESS not in reading.key
    ]
    return Recording(
        demo.meta,
        demo.scope,
        [*common, *(_moved(one, n, address) for n, address in enumerate(places) for one in mine)],
    )


def _moved(reading: Reading, number: int, address: str) -> Reading:
    own = {
        "nvml:nvmlDeviceGetIndex(": number,
        "nvml:nvmlDeviceGetMinorNumber(": number,
        "nvml:nvmlDeviceGetModuleId(": number + 1,
        "nvml:nvmlDeviceGetUUID(": f"GPU-{number:08x}-0000-4000-8000-000000000000",
        "nvml:nvmlDeviceGetSerial(": f"165400000{number:04}",
    }
    value = next(
        (mine for call, mine in own.items() if reading.key.startswith(call)), reading.value
    )
    if isinstance(value, str):
        value = value.replace(ADDRESS, address).replace(
            "Device Minor: \t 0", f"Device Minor: \t {number}"
        )
    return reading._replace(key=reading.key.replace(ADDRESS, address), value=value)
