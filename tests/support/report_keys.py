"""What the JSON schema of the report says of the records in gpuscan/model/report_rows.py besides
their types: a description of each record and field, and keywords that no type gives.
"""

from __future__ import annotations

from typing import Any

from gpuscan.model.report_rows import (
    BlindSpot,
    ChangeRow,
    Measurement,
    NotJudged,
    ProfileInfo,
    ReportedDisk,
    ReportedGpu,
    ReportedPort,
    RunInfo,
)

# where the schema describes each record
PLACES: dict[type, tuple[str | int, ...]] = {
    RunInfo: ("run",),
    ReportedGpu: ("parts", "items", "oneOf", 0),
    ReportedPort: ("parts", "items", "oneOf", 1),
    ReportedDisk: ("parts", "items", "oneOf", 2),
    ChangeRow: ("changes", "items"),
    Measurement: ("measurements", "items"),
    NotJudged: ("partial", "items"),
    BlindSpot: ("blind_spots", "items"),
}
# fields that every report has now and that the schema does not require, because older ones do not
NOT_REQUIRED: dict[type, tuple[str, ...]] = {
    RunInfo: ("context", "limited_to"),
    ChangeRow: ("reseated",),
    ReportedPort: ("hca", "hca_type", "hca_serial", "hca_part_number", "node_guid"),
}
RECORDS: dict[type, str] = {
    RunInfo: "how this judgement came about",
    ProfileInfo: "what the node was expected to be",
    ReportedGpu: "a GPU",
    ReportedPort: "a port",
    ReportedDisk: "a disk",
    ChangeRow: "one slot, part or cable",
    Measurement: "one number",
    NotJudged: "one part of the node",
    BlindSpot: "one lack",
}
# a description alone, or keywords that replace those of the type (None drops one)
FIELDS: dict[type, dict[str, str | dict[str, Any]]] = {
    RunInfo: {
        "gpuscan_version": "the version that judged",
        "started_at": {"description": "start of the collection, UTC", "format": "date-time"},
        "duration_s": {"description": "how long the collection took, in seconds", "minimum": 0},
        "level": {
            "description": "how deep it looked",
            "enum": ["passive", "quick", "medium", "long"],
        },
        "recording": "the file that was judged; null for a live scan",
        "synthetic": "true where no machine gave the readings",
        "context": {
            "description": "`idle`: a drained node; `busy`: jobs run, and what they cause only warns",
            "enum": ["idle", "busy"],
        },
        "drill": "true where a fault was injected on purpose",
        "ended_by_signal": "number of the signal that cut the scan short",
        "scope": {"$ref": "#/$defs/scope"},
        "selected": "the selectors of --only; empty where all checks ran",
        "limited_to": "the options and the kind of input that narrow this judgement; `partial` says what they leave out",
        "compared_with": "the recording, or the list of expected parts, that this one was compared with",
        "expected": "what was expected to be replaced",
        "fail_on": {
            "description": "present where --fail-on asked that warnings count",
            "const": "warn",
            "type": None,
        },
        "require_full": {
            "description": "present where --require-full asked that a partial judgement is incomplete",
            "const": True,
            "type": None,
        },
        "proof": {
            "description": "present where the run is to show that old faults are gone",
            "const": True,
            "type": None,
        },
    },
    NotJudged: {
        "what": "what was not judged: memory, number of GPUs, kernel log",
        "why": "the option, the input or the profile that leaves it out",
    },
    ProfileInfo: {
        "name": "its name",
        "vouches": "false where nothing matched this very machine: what the profile leaves open is then unknown",
        "chosen": "how it was chosen",
    },
    ReportedGpu: {
        "kind": "a graphics card or module",
        "slot": "the name to people: SXM3, slot21, or the address",
        "address": "PCI address: lower case, 4-digit domain (8 where needed)",
        "device_id": "PCI vendor and device, 10de:2335",
        "physical_slot": "the chassis slot's name",
        "module_id": "number of the module on its board",
        "access": "`ok`, or why the driver cannot talk to the GPU",
        "nvml_index": "NVML's index; it shifts when a GPU drops out",
        "name": "product name",
        "uuid": "NVML's UUID",
        "serial": "serial number of the board",
        "part_number": "NVIDIA's part number of the board",
        "vbios": "VBIOS version",
        "inforom": "InfoROM image version",
        "gsp_firmware": "GSP firmware version",
        "memory_mib": {"description": "memory in MiB", "minimum": 0},
        "usual_slot": "of a GPU that does not tell its slot: the one at this address when it last did",
        "serial_source": {
            "description": "where the serial number is from, if the GPU itself did not tell it",
            "enum": ["kernel log", "history"],
            "type": None,
        },
    },
    ReportedPort: {
        "kind": "an InfiniBand port",
        "slot": "HCA and port number: mlx5_0/1",
        "address": "PCI address: lower case, 4-digit domain (8 where needed) of the HCA",
        "hca": "the adapter that the port is on: mlx5_0",
        "firmware": "firmware version of the HCA",
        "board_id": "board id (PSID) of the HCA",
        "hca_type": "the HCA's chip: MT4129",
        "hca_serial": "the HCA's serial number, from its PCI VPD",
        "hca_part_number": "the HCA's part number, from its PCI VPD",
        "node_guid": "the HCA's node GUID",
    },
    ReportedDisk: {
        "kind": "an NVMe disk",
        "slot": "its name: nvme0",
        "address": "PCI address",
        "serial": "serial number",
        "model": "model name",
        "firmware": "firmware revision",
    },
    ChangeRow: {
        "kind": {
            "description": "what it is; `firmware` is a group of the BMC's list, `node` the machine itself",
            "enum": ["gpu", "nic", "cable", "disk", "firmware", "node"],
        },
        "slot": "its name to people: SXM6, mlx5_3, mlx5_3/1, nvme0, node",
        "address": "PCI address, or the slot's name where there is none",
        "what": {
            "description": "what became of it; `moved`: a part of this node that was elsewhere; `unknown`: nothing tells the parts apart",
            "enum": ["same", "replaced", "missing", "added", "moved", "unknown"],
        },
        "expected": "true where it was named to be replaced, or may be another without that",
        "before": {"$ref": "#/$defs/compared_part"},
        "after": {"$ref": "#/$defs/compared_part"},
        "reseated": "true where it was named to be reseated: the same part back in its slot",
    },
    Measurement: {
        "name": "the fact: power.usage_w; of a burn-in burnin.gemm_bf16_tflops, its second try burnin.gemm_bf16_tflops.again",
        "value": "as it was read",
        "unit": "what it counts or is measured in: W, C, Gb/s, TFLOP/s, rows",
        "subject": "kind and name: gpu:SXM3, test:SXM3 stress-bf16",
        "address": "PCI address: lower case, 4-digit domain (8 where needed); empty for what no GPU did alone",
        "test": "the burn-in's test that measured it: stress-bf16",
        "card": "the GPU that was tested: SXM3; node for what no GPU did alone",
        "to": "the GPU at the other end of a test between two",
    },
    BlindSpot: {
        "fact": "path of the fact, without its subject",
        "kind": {"$ref": "#/$defs/kind"},
        "text": "in the words of whoever refused",
        "subjects": "where it lacked",
    },
}
