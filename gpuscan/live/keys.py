"""The keys of readings, taken apart."""

INIT = "nvml:nvmlInit()"
SWEEPS = (
    "ibnetdiscover",
    "lldpcli",
)  # commands that ask the network, and take longer than one machine's own


def parse_key(key: str) -> tuple[str, list[str]]:
    """Split `nvml:nvmlDeviceGetTotalEccErrors(0000:1b:00.0,1,0)` into the function and its
    arguments.
    """
    name, _, rest = key.removeprefix("nvml:").partition("(")
    inner = rest.rstrip(")")
    return name, inner.split(",") if inner else []


def gpu_of(key: str) -> str:
    """Return the PCI address of the GPU that an NVML key asks, or nothing."""
    _, arguments = parse_key(key) if key.startswith("nvml:") else ("", [])
    return arguments[0] if arguments and ":" in arguments[0] else ""
