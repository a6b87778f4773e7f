"""The keys of readings: built and taken apart in one place.

>>> nvml("nvmlDeviceGetTotalEccErrors", "0000:1b:00.0", 1, 0)
'nvml:nvmlDeviceGetTotalEccErrors(0000:1b:00.0,1,0)'
>>> file("/proc/modules"), directory("/sys/bus/pci/devices"), command("lspci -Dnnvv")
('file:/proc/modules', 'dir:/sys/bus/pci/devices', 'run:lspci -Dnnvv')
"""

FIELD_VALUES = "nvmlDeviceGetFieldValues"


def nvml(call: str, *arguments: object) -> str:
    """Return the key of an NVML call; a GPU is named by its PCI address."""
    return f"nvml:{call}({','.join(map(str, arguments))})"


def field(gpu: str, number: int, scope: int = 0) -> str:
    """Return the key of one NVML field of a GPU; *scope* is a link, or 0."""
    return nvml(FIELD_VALUES, gpu, number, scope)


def handle_by_index(index: int | str) -> str:
    """Return the key that names the GPU of an NVML index."""
    return nvml("nvmlDeviceGetHandleByIndex", index)


def handle(gpu: str) -> str:
    """Return the key that says whether NVML can open a GPU."""
    return nvml("nvmlDeviceGetHandleByPciBusId", gpu)


def file(path: str) -> str:
    """Return the key of a file's text."""
    return f"file:{path}"


def directory(path: str) -> str:
    """Return the key of a directory's list of names."""
    return f"dir:{path}"


def link(path: str) -> str:
    """Return the key of a symbolic link's target."""
    return f"link:{path}"


def command(line: str) -> str:
    """Return the key of a command's output."""
    return f"run:{line}"


def service(unit: str) -> str:
    """Return the key of a systemd unit's state."""
    return f"service:{unit}"


def log(name: str) -> str:
    """Return the key of the lines selected from a log file."""
    return f"log:{name}"


INIT = nvml("nvmlInit")
NVML_PROCESS = "process:nvml"  # only where it died or hung: in which call, whoever reads its answer
COUNT = nvml("nvmlDeviceGetCount")
DRIVER_VERSION = nvml("nvmlSystemGetDriverVersion")
CUDA_VERSION = nvml("nvmlSystemGetCudaDriverVersion")
NVML_VERSION = nvml("nvmlSystemGetNVMLVersion")
FIRMWARE = "redfish:FirmwareInventory"  # imported: a list of {id, name, version}
UNREAD_LINES = "text:unread"  # imported: lines that a reader took and did not understand
IMPORTED_GPUS = "import:cards"  # the GPUs in an imported text, by address, UUID or index
SMI_ERRORS = "text:nvidia-smi"  # imported: the errors that nvidia-smi printed
CUDA_ERRORS = "text:cuda"  # imported: [error, line] of what programs printed
# imported: [part, kind, text, value, standing] of what other tools said; kind "" if unknown
BMC_EVENTS, HOST_ERRORS = "text:bmc", "text:host-errors"
NCCL_WARNINGS, DAEMON_ERRORS, LINK_QUALITY = "text:nccl", "text:daemons", "text:links"


def parse_nvml(key: str) -> tuple[str, list[str]]:
    """Split the key of an NVML call into the function's name and its arguments.

    >>> parse_nvml("nvml:nvmlDeviceGetTotalEccErrors(0000:1b:00.0,1,0)")
    ('nvmlDeviceGetTotalEccErrors', ['0000:1b:00.0', '1', '0'])
    """
    name, _, rest = key.removeprefix("nvml:").partition("(")
    inner = rest.rstrip(")")
    return name, inner.split(",") if inner else []


def gpu_of(key: str) -> str:
    """Return the PCI address of the GPU that an NVML call asks, "" for any other key."""
    _, arguments = parse_nvml(key) if key.startswith("nvml:") else ("", [])
    return arguments[0] if arguments and ":" in arguments[0] else ""
