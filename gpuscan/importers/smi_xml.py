"""`nvidia-smi -q -x`: the values of -q in XML, under other names."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as Tree

from gpuscan.importers import smi_query, smi_words
from gpuscan.importers.part import Importer, Part
from gpuscan.importers.smi_words import COMPUTE_TYPES
from gpuscan.pci import pci_address
from gpuscan.recording import Reading

FACTS = {
    "product_name": "name", "uuid": "uuid", "serial": "serial", "minor_number": "minor", "module_id": "module",
    "board_part_number": "part_number", "vbios_version": "vbios", "inforom_version/img_version": "inforom",
    "gsp_firmware_version": "gsp", "pci/pci_device_id": "device_id", "pci/pci_base_class": "class",
    "pci/pci_sub_class": "subclass", "fb_memory_usage/total": "memory", "current_ecc": "ecc", "pending_ecc": "ecc_pending",
    "current_mig": "mig", "pending_mig": "mig_pending", "persistence_mode": "persistence", "compute_mode": "compute_mode",
    "sram_threshold_exceeded": "sram_threshold", "volatile/sram_uncorrectable_parity": "v_sram_parity",
    "volatile/sram_uncorrectable_secded": "v_sram_secded", "aggregate/sram_uncorrectable_parity": "a_sram_parity",
    "aggregate/sram_uncorrectable_secded": "a_sram_secded", "volatile/sram_uncorrectable": "v_sram_unc",
    "aggregate/sram_uncorrectable": "a_sram_unc", "volatile/sram_correctable": "v_sram_cor",
    "aggregate/sram_correctable": "a_sram_cor", "volatile/dram_uncorrectable": "v_dram_unc",
    "aggregate/dram_uncorrectable": "a_dram_unc", "volatile/dram_correctable": "v_dram_cor",
    "aggregate/dram_correctable": "a_dram_cor", "volatile/double_bit/total": "v_unc", "aggregate/double_bit/total": "a_unc",
    "volatile/single_bit/total": "v_cor", "aggregate/single_bit/total": "a_cor", "sram_l2": "sram_l2", "sram_sm": "sram_sm",
    "sram_microcontroller": "sram_mcu", "sram_pcie": "sram_pcie", "sram_other": "sram_other",
    "channel_repair_pending": "channel_repair", "tpc_repair_pending": "tpc_repair", "unrepairable_memory": "unrepairable",
    "remapped_row_corr": "rows_correctable", "remapped_row_unc": "rows_uncorrectable", "remapped_row_pending": "rows_pending",
    "remapped_row_failure": "rows_failed", "row_remapper_histogram_max": "bank_max", "row_remapper_histogram_high": "bank_high",
    "row_remapper_histogram_partial": "bank_partial", "row_remapper_histogram_low": "bank_low",
    "row_remapper_histogram_none": "bank_none", "multiple_single_bit_retirement/retired_count": "pages_single",
    "double_bit_retirement/retired_count": "pages_double", "pending_blacklist": "pages_pending",
    "pending_retirement": "pages_pending", "gpu_recovery_action": "recovery", "fabric/state": "fabric",
    "fabric/status": "fabric_status", "health/bandwidth": "fabric_bandwidth",
    "health/route_recovery_in_progress": "fabric_recovery", "health/route_unhealthy": "fabric_route",
    "health/access_timeout_recovery": "fabric_timeout", "health/incorrect_configuration": "fabric_mistake",
    "performance_state": "pstate", "current_link_width": "width", "max_link_width": "width_max",
    "pcie_gen/current_link_gen": "generation", "pcie_gen/max_link_gen": "generation_max",
    "pcie_gen/max_device_link_gen": "generation_own", "replay_counter": "replays",
    "gpu_power_readings/instant_power_draw": "power", "gpu_power_readings/power_draw": "power",
    "gpu_power_readings/current_power_limit": "power_limit", "gpu_power_readings/default_power_limit": "power_default",
    "power_readings/power_draw": "power", "power_readings/power_limit": "power_limit",
    "power_readings/default_power_limit": "power_default", "clocks/sm_clock": "sm_clock", "clocks/mem_clock": "memory_clock", "temperature/gpu_temp": "core_c", "gpu_temp_tlimit": "margin_c", "temperature/memory_temp": "memory_c",
    "gpu_temp_slow_threshold": "slowdown_c", "gpu_temp_max_mem_threshold": "memory_max_c", "utilization/gpu_util": "busy",
    "utilization/memory_util": "busy_memory",
}  # fmt: skip
REASONS = {  # after clocks_event_reason_ or clocks_throttle_reason_
    "gpu_idle": "idle", "applications_clocks_setting": "applications", "sw_power_cap": "power_cap", "hw_slowdown": "hw",
    "sync_boost": "sync", "sw_thermal_slowdown": "sw_thermal", "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "brake", "display_clocks_setting": "display",
}  # fmt: skip
NODE = {
    "driver_version": "Driver Version",
    "cuda_version": "CUDA Version",
    "attached_gpus": "Attached GPUs",
}
REASON = re.compile(r"clocks_(?:event|throttle)_reason_(\w+)")


def readings(part: Part) -> list[Reading]:
    """Return the readings of every GPU; XML that was cut off gives what came before.

    >>> text = '''<nvidia_smi_log><driver_version>580.95.05</driver_version>
    ...     <gpu id="00000000:19:00.0"><product_name>NVIDIA H200</product_name></gpu>
    ...     </nvidia_smi_log>'''
    >>> for reading in readings(Part("nvidia-smi -q -x", text)):
    ...     print(reading.key, reading.value)
    nvml:nvmlInit() True
    nvml:nvmlSystemGetDriverVersion() 580.95.05
    import:cards ['0000:19:00.0']
    nvml:nvmlDeviceGetHandleByPciBusId(0000:19:00.0) True
    nvml:nvmlDeviceGetName(0000:19:00.0) NVIDIA H200
    """
    root = _parse(part.text)
    node = [
        reading
        for tag, path in NODE.items()
        for reading in smi_query.node_readings(path, root.findtext(tag) or "N/A")
    ]
    by_gpu = {}
    for element in root.iter("gpu"):
        if _is_address(element.get("id")):
            gpu = pci_address(str(element.get("id")))
            by_gpu[gpu] = smi_words.gpu_readings(gpu, _words(element))
    return smi_query.complete(node, by_gpu, part.command) if by_gpu or node else []


def _is_address(name: str | None) -> bool:
    return smi_query.GPU.match(f"GPU {name}") is not None


def _parse(text: str) -> Tree.Element:
    """Parse XML as far as it goes; one that declares entities, which nvidia-smi never does, is
    refused.
    """
    if "<!ENTITY" in text:
        return Tree.Element("none")
    parser: Any = Tree.XMLPullParser(events=("start",))
    with suppress(Tree.ParseError, ValueError):
        parser.feed(text[text.index("<") :].encode("utf-8", "replace"))
    root: Any = None
    with suppress(Tree.ParseError):
        for _, element in parser.read_events():
            root = element if root is None else root
    return Tree.Element("none") if root is None else root


def _words(gpu: Tree.Element) -> dict[str, str]:
    """Return the facts of one GPU as they are printed."""
    words: dict[str, str] = {}
    for tags, text in _leaves(gpu, ()):
        fact = _find_fact(tags)
        if fact:
            words.setdefault(fact, text)
    processes = gpu.find("processes")
    if processes is not None:
        computing = [
            process.findtext("pid", "")
            for process in processes.iter("process_info")
            if process.findtext("type") in COMPUTE_TYPES
        ]
        words["programs"] = " ".join(computing)
    return words


def _find_fact(tags: tuple[str, ...]) -> str:
    """Return the fact of a value, by the longest end of its path that is known."""
    reason = REASON.fullmatch(tags[-1])
    if reason:
        return f"reason_{REASONS.get(reason[1], '')}"
    ends = ("/".join(tags[start:]) for start in range(len(tags)))
    return next((FACTS[end] for end in ends if end in FACTS), "")


def _leaves(element: Tree.Element, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the text of every element without children."""
    for child in element:
        if child.tag in ("processes", "supported_clocks"):
            continue
        path = (*above, child.tag)
        if len(child):
            yield from _leaves(child, path)
        else:
            yield path, (child.text or "").strip()


IMPORTER = Importer(
    name="nvidia-smi -q -x",
    reads="nvidia-smi -q -x",
    readings=readings,
    root="nvidia_smi_log",
)
