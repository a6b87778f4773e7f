"""`nvidia-smi -q`, whole, in sections (-d) or as a fragment that was pasted: names and values,
indented by section.
"""

import re
from collections.abc import Iterator

from gpuscan.importers import smi_words
from gpuscan.importers.part import (
    ADDRESS,
    NAMELESS,
    TOLD_GPUS,
    Part,
    answer,
    by_index,
    handle,
    refusal,
)
from gpuscan.pci import pci_address
from gpuscan.recording import Reading

GPU = re.compile(rf"^\s*GPU ({ADDRESS})\s*$")
LEAF = re.compile(r"^(\s*)(\S.*?)\s+: ?(.*)$")
HEAD = re.compile(r"^(\s*)(\S.*?)\s*$")
# by the end of a value's path: headings were moved in the course of time, and a fragment may begin
# below one
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
    "Power Readings/Default Power Limit": "power_default", "GPU Current Temp": "core_c", "Memory Current Temp": "memory_c",
    "GPU Slowdown Temp": "slowdown_c", "Memory Max Operating Temp": "memory_max_c", "Reasons/Idle": "reason_idle",
    "Reasons/Applications Clocks Setting": "reason_applications", "Reasons/SW Power Cap": "reason_power_cap",
    "Reasons/HW Slowdown": "reason_hw", "HW Thermal Slowdown": "reason_hw_thermal",
    "HW Power Brake Slowdown": "reason_brake", "Reasons/Sync Boost": "reason_sync",
    "Reasons/SW Thermal Slowdown": "reason_sw_thermal",
    "Reasons/Display Clock Setting": "reason_display", "Utilization/GPU": "busy", "Utilization/Gpu": "busy",
    "Utilization/Memory": "busy_memory",
}  # fmt: skip
MOVED = {  # headings that bear another name in front of the same values
    "Clocks Event Reasons": "Reasons", "Clocks Throttle Reasons": "Reasons", "Bank Remap Availability Histogram": "Histogram",
    "Bank Remapping Availability Histogram": "Histogram", "GPU Link Width": "Link Width",
}  # fmt: skip
NODE = {  # of the whole node: the key, and how the word is parsed
    "Driver Version": ("nvml:nvmlSystemGetDriverVersion()", smi_words.plain),
    "CUDA Version": ("nvml:nvmlSystemGetCudaDriverVersion()", lambda word: cuda(word)),
    "Attached GPUs": ("nvml:nvmlDeviceGetCount()", smi_words.number),
}
INIT = "nvml:nvmlInit()"
MOST_GPUS = 64
COMPUTES = ("C", "C+G", "M+C")


def cuda(word: str) -> int:
    """Return `13.0` as NVML gives it: 13000."""
    major, _, minor = word.strip().partition(".")
    return int(major) * 1000 + int(minor) * 10


def readings(part: Part) -> list[Reading]:
    """Return the readings of every GPU in the text; values above the first GPU's line are the
    node's or a nameless GPU's.
    """
    node: list[Reading] = []
    gpus: dict[str, dict[str, str]] = {}
    for gpu, path, word in _leaves(part.text):
        if not gpu and path in NODE:
            node += of_node(path, word)
            continue
        words = gpus.setdefault(gpu or NAMELESS, {})
        fact = _fact(path)
        if fact:
            words.setdefault(fact, word)
        else:
            _programs(path, word, words)
    by_gpu = {
        gpu: smi_words.readings(gpu, words)
        for gpu, words in gpus.items()
        if words or gpu != NAMELESS
    }
    return whole(node, by_gpu, part.command) if by_gpu or node else []


def whole(node: list[Reading], by_gpu: dict[str, list[Reading]], command: str) -> list[Reading]:
    """Return all readings of a text; what it tells of one GPU and not of the next was cut off,
    and so were GPUs that lack.
    """
    calls = dict.fromkeys(
        _call(gpu, reading.key) for gpu, found in by_gpu.items() for reading in found
    )
    kept = []
    for gpu, found in by_gpu.items():
        told = {_call(gpu, reading.key) for reading in found}
        lacking = [call.format(gpu) for call in calls if call not in told]
        kept += [*found, *(refusal(key, "garbled", "the text ends before it") for key in lacking)]
    gpus = list(by_gpu)
    number = next((reading.value for reading in node if reading.key == NODE["Attached GPUs"][0]), 0)
    if 1 < len(gpus) < number and not re.search(r"\s(?:-i|--id)\b", command):
        absent = [by_index(n) for n in range(len(gpus), min(number, MOST_GPUS))]
        kept += [refusal(handle(gpu), "garbled", "the text ends before this GPU") for gpu in absent]
        gpus += absent
    told_gpus = [answer(TOLD_GPUS, gpus)] if gpus else []
    return [answer(INIT, True), *node, *told_gpus, *_numbered(number, gpus), *kept]


def _call(gpu: str, key: str) -> str:
    return key.replace(gpu, "{}", 1)


def of_node(path: str, word: str) -> list[Reading]:
    """Return the reading behind a value of the whole node, none for a word that is no value."""
    key, parse = NODE[path]
    try:
        return [answer(key, parse(word))]
    except (ValueError, IndexError):
        return []  # "N/A" of a driver that does not answer: its GPUs tell


def _numbered(number: int, gpus: list[str]) -> list[Reading]:
    """GPUs come in the order of their index, and where all are listed that is their index."""
    return (
        [answer(f"nvml:nvmlDeviceGetHandleByIndex({n})", gpu) for n, gpu in enumerate(gpus)]
        if number == len(gpus)
        else []
    )


def _leaves(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (GPU, path, value) of every value: the path of the headings above it, by indentation."""
    gpu, above = "", list[tuple[int, str]]()
    for line in text.splitlines():
        named = GPU.match(line)
        leaf = None if named else LEAF.match(line)
        head = None if named or leaf else HEAD.match(line)
        if named:
            gpu, above = pci_address(named[1]), []
        elif leaf or head:
            hit = leaf or head
            indent, name = len(hit[1].expandtabs()), hit[2]  # type: ignore[index]
            above = [(depth, word) for depth, word in above if depth < indent]
            if leaf:
                yield gpu, "/".join([*(word for _, word in above), name]), leaf[3].strip()
            above.append((indent, MOVED.get(name, name)))


def _fact(path: str) -> str:
    """Return the fact that a path ends in, the longest end first."""
    words = path.split("/")
    return next(
        (FACTS[end] for n in range(len(words)) if (end := "/".join(words[n:])) in FACTS), ""
    )


def _programs(path: str, word: str, words: dict[str, str]) -> None:
    """Gather the programs that compute: a process is told by its id, and by its type below that."""
    if path == "Processes" and word == "None":
        words["programs"] = ""
    elif path.endswith("Process ID"):
        words["_pid"] = word
    elif path.endswith("/Type") and "_pid" in words:
        pid = words.pop("_pid")
        words["programs"] = " ".join(
            [*words.get("programs", "").split(), *([pid] if word in COMPUTES else [])]
        )
