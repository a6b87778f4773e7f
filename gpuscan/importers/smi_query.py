"""`nvidia-smi -q`, whole, in sections (-d) or a pasted fragment: indented names and values."""

import re
from collections.abc import Iterator

from gpuscan.collectors.reading import MOST_GPUS
from gpuscan.importers import smi_words
from gpuscan.importers.part import (
    ADDRESS,
    NAMELESS,
    Importer,
    Part,
    answer,
    begins_with,
    by_index,
    refusal,
)
from gpuscan.importers.smi_words import COMPUTE_TYPES
from gpuscan.pci import pci_address
from gpuscan.recording import Reading
from gpuscan.recording.keys import (
    COUNT,
    CUDA_VERSION,
    DRIVER_VERSION,
    IMPORTED_GPUS,
    INIT,
    UNREAD_LINES,
    handle,
    handle_by_index,
)

GPU = re.compile(rf"^\s*GPU ({ADDRESS})\s*$")
LEAF = re.compile(r"^(\s*+)(\S.*?)(?<!\s)\s++: ?(.*)")
HEAD = re.compile(r"^(\s*+)(\S(?:.*\S)?)\s*$")
# by the end of a value's path: drivers have moved headings, and a fragment may begin below one
FACTS = {
    "Product Name": "name", "GPU UUID": "uuid", "Serial Number": "serial", "Minor Number": "minor", "Module Id": "module",
    "Module ID": "module", "Board Part Number": "part_number", "VBIOS Version": "vbios", "Inforom Version/Image Version": "inforom",
    "GSP Firmware Version": "gsp", "Device Id": "device_id", "Base Classcode": "class", "Sub Classcode": "subclass",
    "FB Memory Usage/Total": "memory", "ECC Mode/Current": "ecc", "ECC Mode/Pending": "ecc_pending",
    "Ecc Mode/Current": "ecc", "Ecc Mode/Pending": "ecc_pending", "MIG Mode/Current": "mig", "MIG Mode/Pending": "mig_pending",
    "Persistence Mode": "persistence", "Compute Mode": "compute_mode", "SRAM Threshold Exceeded": "sram_threshold",
    "Volatile/SRAM Uncorrectable Parity": "v_sram_parity", "Volatile/SRAM Uncorrectable SEC-DED": "v_sram_secded",
    "Aggregate/SRAM Uncorrectable Parity": "a_sram_parity", "Aggregate/SRAM Uncorrectable SEC-DED": "a_sram_secded",
    "Volatile/SRAM Uncorrectable": "v_sram_unc", "Aggregate/SRAM Uncorrectable": "a_sram_unc",
    "Volatile/SRAM Correctable": "v_sram_cor", "Aggregate/SRAM Correctable": "a_sram_cor",
    "Volatile/DRAM Uncorrectable": "v_dram_unc", "Aggregate/DRAM Uncorrectable": "a_dram_unc",
    "Volatile/DRAM Correctable": "v_dram_cor", "Aggregate/DRAM Correctable": "a_dram_cor",
    "Volatile/Double Bit/Total": "v_unc", "Aggregate/Double Bit/Total": "a_unc",
    "Volatile/Single Bit/Total": "v_cor", "Aggregate/Single Bit/Total": "a_cor",
    "SRAM L2": "sram_l2", "SRAM SM": "sram_sm", "SRAM Microcontroller": "sram_mcu", "SRAM PCIE": "sram_pcie",
    "SRAM Other": "sram_other", "Channel Repair Pending": "channel_repair", "TPC Repair Pending": "tpc_repair",
    "Unrepairable Memory": "unrepairable", "Remapped Rows/Correctable Error": "rows_correctable",
    "Remapped Rows/Uncorrectable Error": "rows_uncorrectable", "Remapped Rows/Pending": "rows_pending",
    "Remapping Failure Occurred": "rows_failed", "Histogram/Max": "bank_max", "Histogram/High": "bank_high",
    "Histogram/Partial": "bank_partial", "Histogram/Low": "bank_low", "Histogram/None": "bank_none",
    "Single Bit ECC": "pages_single", "Double Bit ECC": "pages_double", "Pending Page Blacklist": "pages_pending",
    "Retired Pages/Pending": "pages_pending", "GPU Recovery Action": "recovery", "Fabric/State": "fabric",
    "Fabric/Status": "fabric_status", "Health/Bandwidth": "fabric_bandwidth",
    "Health/Route Recovery in progress": "fabric_recovery",
    "Health/Route Unhealthy": "fabric_route", "Health/Access Timeout Recovery": "fabric_timeout",
    "Health/Incorrect Configuration": "fabric_mistake", "Performance State": "pstate", "Link Width/Current": "width",
    "Link Width/Max": "width_max", "PCIe Generation/Current": "generation", "PCIe Generation/Max": "generation_max",
    "PCIe Generation/Device Max": "generation_own", "Replays Since Reset": "replays", "Replays since reset": "replays",
    "Replay Counter": "replays", "GPU Power Readings/Instantaneous Power Draw": "power", "Power Readings/Power Draw": "power",
    "GPU Power Readings/Power Draw": "power", "GPU Power Readings/Current Power Limit": "power_limit",
    "GPU Power Readings/Default Power Limit": "power_default", "Power Readings/Power Limit": "power_limit",
    "Power Readings/Default Power Limit": "power_default", "GPU Current Temp": "core_c", "GPU T.Limit Temp": "margin_c", "Memory Current Temp": "memory_c",
    "GPU Slowdown Temp": "slowdown_c", "Memory Max Operating Temp": "memory_max_c", "Reasons/Idle": "reason_idle",
    "Reasons/Applications Clocks Setting": "reason_applications", "Reasons/SW Power Cap": "reason_power_cap",
    "Reasons/HW Slowdown": "reason_hw", "HW Thermal Slowdown": "reason_hw_thermal",
    "HW Power Brake Slowdown": "reason_brake", "Reasons/Sync Boost": "reason_sync",
    "Reasons/SW Thermal Slowdown": "reason_sw_thermal",
    "Reasons/Display Clock Setting": "reason_display", "Utilization/GPU": "busy", "Utilization/Gpu": "busy",
    "Utilization/Memory": "busy_memory", "Clocks/SM": "sm_clock", "Clocks/Memory": "memory_clock",
}  # fmt: skip
HISTOGRAMS = ("Bank Remap Availability Histogram", "Bank Remapping Availability Histogram")
MOVED = {  # headings that some drivers name differently
    "Clocks Event Reasons": "Reasons",
    "Clocks Throttle Reasons": "Reasons",
    **dict.fromkeys(HISTOGRAMS, "Histogram"),
    "GPU Link Width": "Link Width",
}
NODE = {  # of the whole node: the key, and how its value is parsed
    "Driver Version": (DRIVER_VERSION, smi_words.parse_text),
    "CUDA Version": (CUDA_VERSION, smi_words.parse_cuda_version),
    "Attached GPUs": (COUNT, smi_words.parse_number),
}
# values of a section without its GPU; other tools indent too, but put no space before the colon
VALUES = re.compile(
    r"^ {4,}[A-Z]\S.*\s+: ?\S"
    r"|^ {4,}(?:ECC Errors|Remapped Rows|Retired Pages|Fabric|PCI|Temperature)\s*$"
    r"|^\s*(?:GPU Recovery Action|Remapping Failure Occurred|Pending Page Blacklist"
    r"|SRAM Threshold Exceeded)\s+:"
)
WITHIN = (
    "",
    "nvidia-smi -q",
    "nvidia-smi -L and nvlink",
    "nvidia-smi --query",
    "nvidia-smi error",
    "sysfs",
)


def readings(part: Part) -> list[Reading]:
    """Return the readings of every GPU in the text.

    Values above the first GPU's line are the node's or a nameless GPU's.

    >>> text = '''Attached GPUs   : 1
    ... GPU 00000000:19:00.0
    ...     Remapped Rows
    ...         Pending     : Yes
    ...         Remapping Failure Occurred  : No'''
    >>> for reading in readings(Part("nvidia-smi -q", text)):
    ...     print(reading.key, reading.value)
    nvml:nvmlInit() True
    nvml:nvmlDeviceGetCount() 1
    import:cards ['0000:19:00.0']
    nvml:nvmlDeviceGetHandleByIndex(0) 0000:19:00.0
    nvml:nvmlDeviceGetHandleByPciBusId(0000:19:00.0) True
    nvml:nvmlDeviceGetRemappedRows(0000:19:00.0) ['not recorded', 'not recorded', 1, 0]
    """
    node: list[Reading] = []
    gpus: dict[str, dict[str, str]] = {}
    for gpu, path, word in _parse_values(part.text):
        if not gpu and path in NODE:
            node += node_readings(path, word)
            continue
        words = gpus.setdefault(gpu or NAMELESS, {})
        fact = _find_fact(path)
        if fact:
            words.setdefault(fact, word)
        else:
            _add_program(path, word, words)
    by_gpu = {
        gpu: smi_words.gpu_readings(gpu, words)
        for gpu, words in gpus.items()
        if words or gpu != NAMELESS
    }
    return complete(node, by_gpu, part.command) if by_gpu or node else []


def complete(node: list[Reading], by_gpu: dict[str, list[Reading]], command: str) -> list[Reading]:
    """Return all readings of a text, with errors for what was cut off.

    That is what one GPU has and another does not, and the GPUs that are counted but not listed.
    """
    calls = dict.fromkeys(_call(gpu, reading.key) for gpu, own in by_gpu.items() for reading in own)
    made = []
    for gpu, own in by_gpu.items():
        present = {_call(gpu, reading.key) for reading in own}
        missing = [call.format(gpu) for call in calls if call not in present]
        made += own
        made += [refusal(key, "garbled", "the text ends before it") for key in missing]
    gpus = list(by_gpu)
    count = next((reading.value for reading in node if reading.key == COUNT), 0)
    if 1 < len(gpus) < count and not re.search(r"\s(?:-i|--id)\b", command):
        absent = [by_index(number) for number in range(len(gpus), min(count, MOST_GPUS))]
        made += [refusal(handle(gpu), "garbled", "the text ends before this GPU") for gpu in absent]
        gpus += absent
    listing = [answer(IMPORTED_GPUS, gpus)] if gpus else []
    if count == len(gpus):  # all are listed, in the order of their index
        listing += [answer(handle_by_index(index), gpu) for index, gpu in enumerate(gpus)]
    unread = [f"Attached GPUs: {count}"] if count > MOST_GPUS else []
    return [
        answer(INIT, True),
        *node,
        *listing,
        *made,
        *(answer(UNREAD_LINES, [one]) for one in unread),
    ]


def _call(gpu: str, key: str) -> str:
    return key.replace(gpu, "{}", 1)


def node_readings(path: str, word: str) -> list[Reading]:
    """Return the reading of one of the node's values; none if the driver did not answer (N/A)."""
    key, parse = NODE[path]
    try:
        return [answer(key, parse(word))]
    except (ValueError, IndexError):
        return []


def _parse_values(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (GPU, path, value); the path is that of the headings above, by indentation."""
    gpu, above = "", list[tuple[int, str]]()
    for line in text.splitlines():
        named = GPU.match(line)
        if named:
            gpu, above = pci_address(named[1]), []
            continue
        leaf = LEAF.match(line)
        hit = leaf or HEAD.match(line)
        if not hit:
            continue
        indent, name = len(hit[1].expandtabs()), hit[2]
        above = [(depth, heading) for depth, heading in above if depth < indent]
        if leaf:
            yield gpu, "/".join([*(heading for _, heading in above), name]), leaf[3].strip()
        above.append((indent, MOVED.get(name, name)))


def _find_fact(path: str) -> str:
    """Return the fact of a value, by the longest end of its path that is known."""
    names = path.split("/")
    ends = ("/".join(names[start:]) for start in range(len(names)))
    return next((FACTS[end] for end in ends if end in FACTS), "")


def _add_program(path: str, word: str, words: dict[str, str]) -> None:
    """Add a program that computes: its type follows its process id."""
    if path == "Processes" and word == "None":
        words["programs"] = ""
    elif path.endswith("Process ID"):
        words["_pid"] = word
    elif path.endswith("/Type") and "_pid" in words:
        pid = words.pop("_pid")
        pids = [*words.get("programs", "").split(), *([pid] if word in COMPUTE_TYPES else [])]
        words["programs"] = " ".join(pids)


def _is_value(line: str, kind: str) -> bool:
    return kind in WITHIN and VALUES.search(line) is not None


IMPORTER = Importer(
    name="nvidia-smi -q",
    reads="nvidia-smi -q",
    readings=readings,
    opens=re.compile(r"^=+NVSMI LOG=+|^\s*Attached GPUs\s+:"),
    begins=begins_with(rf"^=+NVSMI LOG=+|^\s*GPU {ADDRESS}\s*$|^Attached GPUs\s+: "),
    fits=_is_value,
)
