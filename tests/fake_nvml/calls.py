"""What each NVML call takes and gives back: the one table behind the stubs and the encoder.

A *shape* has one letter for each thing in the C argument list:

``h``  a device handle: names the GPU
``u``  a number that chooses what is asked, part of the recording's key
``o``  a place for one fixed-size result
``v``  a place for a structure whose first word is the version, which the caller chooses
``s``  two arguments: a place for text and its size in bytes
``l``  two arguments: a place for a count (in: room, out: length) and an array
``n``  an argument without influence

A *result* is the name of a type in ``ctypes`` or ``pynvml``, or ``text``. ``A|B`` are versions of
one structure, oldest first; ``T.field`` stands for a structure that pynvml reduces to that field.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# Through importlib, since nvidia-ml-py has no types: an ignore comment would be needed or
# superfluous depending on whether the package is installed where mypy runs.
pynvml: Any = importlib.import_module("pynvml")

FIELD_VALUES = "nvmlDeviceGetFieldValues"
HANDLE_BY_ADDRESS = "nvmlDeviceGetHandleByPciBusId_v2"
HANDLE_BY_INDEX = "nvmlDeviceGetHandleByIndex_v2"
INIT = "nvmlInitWithFlags"
COUNT = "nvmlDeviceGetCount_v2"
INDEX = "nvmlDeviceGetIndex"
MEMORY = "nvmlDeviceGetMemoryInfo"
MEMORY_V2 = "nvmlDeviceGetMemoryInfo_v2"
TEMPERATURE = "nvmlDeviceGetTemperature"
TEMPERATURE_V = "nvmlDeviceGetTemperatureV"

# Newer forms of a call (symbol and arguments) that answer the same numbers: callers may use either.
NEWER_FORMS = {(MEMORY, "-"): MEMORY_V2, (TEMPERATURE, "0"): TEMPERATURE_V}


class Signature(NamedTuple):
    """How one C symbol is called: its shape and the types of its results, in order."""

    shape: str
    results: tuple[str, ...]


# (shape, results, names): device calls without their common beginning `nvmlDeviceGet`.
_DEVICE_CALLS: tuple[tuple[str, str, str], ...] = (
    (
        "ho",
        "c_uint",
        """AccountingBufferSize AccountingMode AdaptiveClockInfoStatus Architecture BoardId Brand
        BusType ComputeInstanceId ComputeMode CurrPcieLinkGeneration CurrPcieLinkWidth
        DefaultEccMode DisplayActive DisplayMode EnforcedPowerLimit FanSpeed GpuInstanceId
        GpuMaxPcieLinkGeneration HostVgpuMode Index InforomConfigurationChecksum IrqNum
        MaxMigDeviceCount MaxPcieLinkGeneration MaxPcieLinkWidth MemoryBusWidth MinorNumber
        ModuleId MultiGpuBoard NumFans NumGpuCores PcieLinkMaxSpeed PcieReplayCounter PcieSpeed
        PerformanceState PersistenceMode PowerManagementDefaultLimit PowerManagementLimit
        PowerManagementMode PowerSource PowerState PowerUsage RetiredPagesPendingStatus
        VirtualizationMode""",
    ),
    ("ho", "c_int", "GpcClkVfOffset MemClkVfOffset NumaNodeId"),
    (
        "ho",
        "c_ulonglong",
        """CurrentClocksEventReasons CurrentClocksThrottleReasons SupportedClocksEventReasons
        SupportedClocksThrottleReasons SupportedEventTypes TotalEnergyConsumption""",
    ),
    (
        "hoo",
        "c_uint c_uint",
        """AutoBoostedClocksEnabled DecoderUtilization DriverModel_v2 EccMode EncoderUtilization
        GpuOperationMode GspFirmwareMode JpgUtilization MigMode MinMaxFanSpeed OfaUtilization
        PowerManagementLimitConstraints""",
    ),
    ("hoo", "c_int c_int", "CudaComputeCapability GpcClkMinMaxVfOffset MemClkMinMaxVfOffset"),
    ("hoo", "c_ulonglong c_ulong", "LastBBXFlushTime"),
    ("hooo", "c_uint c_uint c_uint", "EncoderStats"),
    ("hoooo", "c_uint c_uint c_uint c_uint", "RemappedRows"),
    (
        "huo",
        "c_uint",
        """APIRestriction ApplicationsClock ClockInfo DefaultApplicationsClock EncoderCapacity
        FanControlPolicy_v2 FanSpeed_v2 MaxClockInfo MaxCustomerBoostClock NvLinkRemoteDeviceType
        NvLinkState NvLinkVersion PcieThroughput TargetFanSpeed Temperature TemperatureThreshold
        VgpuCapabilities""",
    ),
    ("huuo", "c_uint", "Clock NvLinkCapability"),
    ("huuo", "c_ulonglong", "NvLinkErrorCounter TotalEccErrors"),
    ("huuuo", "c_ulonglong", "MemoryErrorCounter"),
    ("huuoo", "c_uint c_uint", "MinMaxClockOfPState"),
    ("huuoo", "c_ulonglong c_ulonglong", "NvLinkUtilizationCounter"),
    ("hho", "c_uint", "TopologyCommonAncestor"),
    ("hhuo", "c_uint", "P2PStatus"),
    ("hs", "text", "BoardPartNumber InforomImageVersion Name Serial UUID VbiosVersion"),
    ("hus", "text", "InforomVersion"),
    ("ho", "text", "GspFirmwareVersion"),
    ("ho", "c_nvmlMemory_t", "MemoryInfo ConfComputeProtectedMemoryUsage"),
    ("hv", "c_nvmlMemory_v2_t", "MemoryInfo_v2"),
    ("ho", "c_nvmlBAR1Memory_t", "BAR1MemoryInfo"),
    ("ho", "c_nvmlUtilization_t", "UtilizationRates"),
    ("ho", "c_nvmlRowRemapperHistogramValues", "RowRemapperHistogram"),
    ("ho", "nvmlPciInfo_t", "PciInfo_v3"),
    ("ho", "c_nvmlDeviceAttributes", "Attributes_v2"),
    ("ho", "c_nvmlBridgeChipHierarchy_t", "BridgeChipInfo"),
    ("ho", "c_nvmlC2cModeInfo_v1_t", "C2cModeInfoV"),
    ("ho", "c_nvmlConfComputeMemSizeInfo_t", "ConfComputeMemSizeInfo"),
    ("ho", "c_nvmlFBCStats_t", "FBCStats"),
    ("ho", "c_nvmlGpuDynamicPstatesInfo_t", "DynamicPstatesInfo"),
    ("ho", "c_nvmlGridLicensableFeatures_v4_t", "GridLicensableFeatures_v4"),
    ("ho", "c_nvmlGpuFabricInfo_t", "GpuFabricInfo"),
    ("ho", "c_nvmlRemappedRowsInfo_v2_t", "RemappedRows_v2"),
    ("huo", "c_nvmlViolationTime_t", "ViolationStatus"),
    ("huo", "nvmlPciInfo_t", "NvLinkRemotePciInfo_v2"),
    ("huuo", "c_nvmlEccErrorCounts_t", "DetailedEccErrors"),
    ("hv", "c_nvmlDeviceAddressingMode_t", "AddressingMode"),
    ("hv", "c_nvmlDeviceCurrentClockFreqs_v1_t", "CurrentClockFreqs"),
    ("hv", "c_nvmlDevicePerfModes_v1_t", "PerformanceModes"),
    ("hv", "c_nvmlEccSramErrorStatus_v1_t", "SramEccErrorStatus"),
    ("hv", "c_nvmlFanSpeedInfo_t.speed", "FanSpeedRPM"),
    ("hv", "c_nvmlGpuFabricInfo_v2_t|c_nvmlGpuFabricInfo_v3_t", "GpuFabricInfoV"),
    ("hv", "c_nvmlMarginTemperature_v1_t", "MarginTemperature"),
    ("hv", "c_nvmlPdi_t", "Pdi"),
    ("hv", "c_nvmlPlatformInfo_v1_t|c_nvmlPlatformInfo_v2_t", "PlatformInfo"),
    ("hv", "c_nvmlRepairStatus_t", "RepairStatus"),
    ("hv", "c_nvmlTemperature_v1_t.temperature", "TemperatureV"),
    ("hv", "c_nvmlUnrepairableMemory_v1_t", "UnrepairableMemoryFlag_v1"),
    (
        "hl",
        "c_nvmlProcessInfo_v3_t",
        """ComputeRunningProcesses_v3 GraphicsRunningProcesses_v3
        MPSComputeRunningProcesses_v3""",
    ),
    ("hl", "c_uint", "AccountingPids SupportedMemoryClocks"),
    ("hl", "c_nvmlEncoderSession_t", "EncoderSessions"),
    ("hl", "c_nvmlFBCSession_t", "FBCSessions"),
    ("hul", "c_uint", "SupportedGraphicsClocks"),
    ("hul", "c_ulonglong", "RetiredPages"),
)

_OTHER_CALLS: tuple[tuple[str, str, str], ...] = (
    ("ho", "c_uint", "nvmlDeviceIsMigDeviceHandle"),
    ("o", "c_uint", "nvmlDeviceGetCount_v2 nvmlGetExcludedDeviceCount nvmlSystemGetNvlinkBwMode"),
    ("o", "c_uint", "nvmlSystemGetConfComputeGpusReadyState"),
    ("o", "c_int", "nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2"),
    ("s", "text", "nvmlSystemGetDriverVersion nvmlSystemGetNVMLVersion"),
    ("us", "text", "nvmlSystemGetProcessName"),
    ("o", "c_nvmlConfComputeSystemCaps_t", "nvmlSystemGetConfComputeCapabilities"),
    ("o", "c_nvmlConfComputeSystemState_t", "nvmlSystemGetConfComputeState"),
    (
        "v",
        "c_nvmlConfComputeGetKeyRotationThresholdInfo_t",
        "nvmlSystemGetConfComputeKeyRotationThresholdInfo",
    ),
    ("l", "c_nvmlHwbcEntry_t", "nvmlSystemGetHicVersion"),
    ("vn", "c_nvmlSystemDriverBranchInfo_v1_t", "nvmlSystemGetDriverBranch"),
)

SIGNATURES: Mapping[str, Signature] = {
    start + name: Signature(shape, tuple(results.split()))
    for start, calls in (("nvmlDeviceGet", _DEVICE_CALLS), ("", _OTHER_CALLS))
    for shape, results, names in calls
    for name in names.split()
}

# Symbols, and pynvml names, answered as another symbol: older names of the same call and layout.
ALIASES: Mapping[str, str] = {
    "nvmlInit": INIT,
    "nvmlInit_v2": INIT,
    "nvmlDeviceGetCount": COUNT,
    "nvmlDeviceGetHandleByIndex": HANDLE_BY_INDEX,
    "nvmlDeviceGetHandleByPciBusId": HANDLE_BY_ADDRESS,
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetAttributes": "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetDriverModel": "nvmlDeviceGetDriverModel_v2",
    "nvmlDeviceGetDriverModel_v1": "nvmlDeviceGetDriverModel_v2",
    "nvmlDeviceGetC2cModeInfoV1": "nvmlDeviceGetC2cModeInfoV",
    "nvmlDeviceGetGridLicensableFeatures": "nvmlDeviceGetGridLicensableFeatures_v4",
    "nvmlDeviceGetNvLinkRemotePciInfo": "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    **{
        f"nvmlDeviceGet{kind}RunningProcesses{version}": f"nvmlDeviceGet{kind}RunningProcesses_v3"
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in ("", "_v2")
    },
}

# Calls whose success is the answer: they give at most a handle, which no recording can hold.
WITHOUT_RESULTS = frozenset({HANDLE_BY_ADDRESS, HANDLE_BY_INDEX, INIT})

# Written by hand in handles.inc, since they give out handles, texts or batches.
_BY_HAND = frozenset(
    {
        *WITHOUT_RESULTS,
        *(symbol for symbol in ALIASES if ALIASES[symbol] in WITHOUT_RESULTS),
        *(FIELD_VALUES, "nvmlDeviceGetHandleBySerial", "nvmlDeviceGetHandleByUUID"),
        *("nvmlErrorString", "nvmlShutdown"),
    }
)


def stubs() -> str:
    """The lines of ``stubs.inc``: one C function for every symbol that pynvml can look up.

    Symbols without a signature are there too and answer "not supported", because a missing symbol
    would read as "function not found", which stands for a driver that is too old.
    """
    known = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', inspect.getsource(pynvml)))
    lines = []
    for symbol in sorted((known | set(SIGNATURES) | set(ALIASES)) - _BY_HAND):
        key = ALIASES.get(symbol, symbol)
        asks_gpu = re.match(r"nvmlDevice(?!Discover|ModifyDrain|QueryDrain|Remove)", symbol)
        shape = SIGNATURES[key].shape if key in SIGNATURES else "h" if asks_gpu else ""
        lines.append(f'STUB({symbol}, "{key}", "{shape}")\n')
    return "".join(lines)


def encodable(symbol: str) -> bool:
    """Whether a reading with a value for this symbol can be played back."""
    return symbol in SIGNATURES or symbol in WITHOUT_RESULTS or symbol == FIELD_VALUES
