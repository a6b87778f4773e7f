"""Other tools' output, logs and files, judged as `gpuscan judge FILE` does: every kind, alone and
together.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from hypothesis import given
from hypothesis import strategies as st
from paths import RECORDINGS, SHARED
from program import Call

from gpuscan import collectors
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.errors import GpuscanError
from gpuscan.importers import reading as imports
from gpuscan.importers import unpacking
from gpuscan.importers.load import open_recording
from gpuscan.importers.registry import IMPORTERS
from gpuscan.model import Gpu, is_unread
from gpuscan.recording import packed, save

PLAN = judging.prepare(judging.Selection())
PUBLIC, CAPTURES = SHARED / "public", SHARED / "captures"

REPAIRED = """\
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 3
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
"""
UNIT = """\
\u00d7 nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; vendor preset: enabled)
     Active: {active} since Mon 2026-03-02 08:00:00 UTC; 2h ago
   Main PID: 900 (code=exited, status=1/FAILURE)

Mar 02 08:00:00 node1 nv-fabricmanager[900]: request to query NVSwitch device information failed
"""
LIST = "".join(
    f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-1000000{n}-0000-4000-8000-000000000000)\n"
    for n in range(3)
)
LINKS = "".join(f"\t Link {n}: 26.562 GB/s\n" for n in range(18))
LONE = "GPU 0: Tesla {} (UUID: GPU-10000000-0000-4000-8000-000000000000)\n" + "".join(
    f"\t Link {n}: {'<inactive>' if n in (3, 5) else '25.781 GB/s'}\n" for n in range(6)
)
IBSTAT = """\
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tNode GUID: 0xb8cef60300aabb01
\tPort 1:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: {rate}
\t\tLink layer: {layer}
"""
LSPCI = """\
15:01.0 PCI bridge: Intel Corporation Device 352a (rev 30) (prog-if 00 [Normal decode])
\tBus: primary=15, secondary=19, subordinate=19, sec-latency=0
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width {slot}, ASPM not supported
19:00.0 3D controller: NVIDIA Corporation Device 2330 (rev {rev})
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width {width}
\t\tUESta:\tDLP- SDES{sdes} TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq+ ACSViol-
\tKernel driver in use: nvidia
03:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)
\t\tLnkCap:\tPort #0, Speed 5GT/s, Width x2, ASPM not supported
\t\tLnkSta:\tSpeed 5GT/s (ok), Width x1 (downgraded)
"""
SYSFS = "# cat /sys/bus/pci/devices/0000:19:00.0/{}\n{}\n"
TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.124.06             Driver Version: 570.124.06     CUDA Version: 12.8     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |          {ecc:>11} |
| N/A   34C    P0            105W /  700W |       0MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|    0   N/A  N/A            4711      C   python                                  512MiB |
+-----------------------------------------------------------------------------------------+
"""


def text(tmp_path: Path, words: str, name: str = "pasted.txt") -> Path:
    file = tmp_path / name
    file.write_text(words, "utf-8")
    return file


def report(file: Path, **want: object) -> Report:
    plan = judging.prepare(judging.Selection(**want)) if want else PLAN  # type: ignore[arg-type]
    return judging.judge_recording(open_recording(str(file)), str(file), plan)


def found(of: Report) -> dict[str, list[str]]:
    """Return what does not pass, by check: who it is about, or that it is unknown."""
    wrong: dict[str, list[str]] = {}
    for result in of.results:
        if result.status.value in ("fail", "warn", "unknown"):
            culprits = [name for finding in result.findings for name in finding.culprits]
            wrong.setdefault(result.check, []).extend(culprits or [result.subject])
    return wrong


HANDLE = "Unable to determine the device handle for GPU {}: {}\n"
CASES = {  # what is pasted; the exit code; what is found
    "handle unknown": (HANDLE.format("0000:19:00.0", "Unknown Error"), 30, {"driver.gpu_access": ["gpu:0000:19:00.0"]}),
    "handle, new words": (HANDLE.format("0000:19:00.0", "Unknown Error").replace("GPU ", "GPU", 1), 30, None),
    "handle lost": (HANDLE.format("0000:19:00.0", "GPU is lost.  Reboot the system to recover this GPU"), 30, None),
    "handle reset": (HANDLE.format("0000:19:00.0", "GPU requires reset"), 30, {"driver.gpu_access": ["gpu:0000:19:00.0"]}),
    "handle in a container": (f"# container:\n{HANDLE.format('0000:19:00.0', 'Unknown Error')}", 3, None),
    "mismatch": ("Failed to initialize NVML: Driver/library version mismatch\n", 20, {"driver.nvidia_smi": ["node"]}),
    "no driver": (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is "
        "installed and running.\n",
        20,
        {"driver.nvidia_smi": ["node"]},
    ),
    "unknown on init": ("Failed to initialize NVML: Unknown Error\n", 20, {"driver.nvidia_smi": ["node"]}),
    "no permission": ("Failed to initialize NVML: Insufficient Permissions\n", 3, None),
    "no devices": ("# nvidia-smi\nNo devices were found\n", 20, {"driver.nvidia_smi_gpus": ["node"]}),
    "infoROM": ("WARNING: infoROM is corrupted at gpu 0000:19:00.0\n", 20, {"driver.gpu_access": ["gpu:0000:19:00.0"]}),
    "rows are well": (REPAIRED.format(pending="No", failed="No"), 0, {}),
    "rows pending": (REPAIRED.format(pending="Yes", failed="No"), 30, {"memory.row_remap_pending": ["gpu:unnamed"]}),
    "rows failed": (REPAIRED.format(pending="No", failed="Yes"), 41, {"memory.row_remap": ["gpu:unnamed"]}),
    "recovery action": ("    GPU Recovery Action       : Drain and Reset\n", 30, {"recovery.action": ["gpu:unnamed"]}),
    "page pending": (
        "    Retired Pages\n        Pending Page Blacklist  : Yes\n",
        30,
        {"memory.page_retirement_pending": ["gpu:unnamed"]},
    ),
    "fabric": (
        "    Fabric\n        State     : Completed\n        Status    : Insufficient Resources\n",
        20,
        {"fabric.registration": ["gpu:unnamed"]},
    ),
    "csv with a header": (
        "index, pci.bus_id, name, temperature.gpu, ecc.errors.uncorrected.volatile.total\n"
        "0, 00000000:19:00.0, NVIDIA H100 80GB HBM3, 34, 0\n1, 00000000:3B:00.0, NVIDIA H100 80GB HBM3, 36, 2\n",
        30,
        {"memory.uncorrectable_ecc": ["gpu:0000:3b:00.0"]},
    ),
    "csv, columns from the command": (
        "# nvidia-smi --query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure --format=csv,noheader\n"
        "00000000:19:00.0, No, Yes\n",
        41,
        {"memory.row_remap": ["gpu:0000:19:00.0"]},
    ),
    "csv by index": (
        "# nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv,noheader\n0, None\n1, Reset\n",
        30,
        {"recovery.action": ["gpu:GPU 1"]},
    ),
    "csv, not supported": ("gpu_bus_id, remapped_rows.pending\n00000000:19:00.0, [N/A]\n", 0, {}),
    "csv, a state": (
        "0, 34, 71.00\n1, [GPU requires reset], [GPU requires reset]\n",
        30,
        {"driver.gpu_access": ["gpu:GPU 1"]},
    ),
    "csv, nothing is known": (
        "index, name, temperature.gpu, power.draw [W]\n0, NVIDIA H100, 34, 71.00\n"
        "1, NVIDIA H100, [Unknown Error], [Unknown Error]\n",
        30,
        {"driver.gpu_access": ["gpu:GPU 1"]},
    ),
    "csv, slow link under load": (
        "pstate, utilization.gpu [%], pcie.link.gen.gpucurrent, pcie.link.gen.max\nP0, 99 %, 1, 5\nP0, 99 %, 5, 5\nP8, 0 %, 1, 5\n",
        40,
        {"pcie.link_generation_max": ["gpu:GPU 0"]},
    ),
    "programs": (
        "pid, process_name, gpu_bus_id, used_gpu_memory [MiB]\n4711, python, 00000000:19:00.0, 512 MiB\n",
        20,
        {"workload.processes": ["gpu:0000:19:00.0"]},
    ),
    "table": (TABLE.format(ecc="0"), 20, {"workload.processes": ["gpu:0000:19:00.0"]}),
    "table, ECC off": (TABLE.format(ecc="Off").replace("4711", " N/A"), 0, {}),
    "table, MIG on": (TABLE.format(ecc="On").replace("4711", " N/A"), 0, {}),
    "table, two lines of it": ("\n".join(TABLE.format(ecc="3").splitlines()[2:4]), 30, None),
    "table, uncorrected": (
        TABLE.format(ecc="1").replace("4711", " N/A"),
        30,
        {"memory.uncorrectable_ecc": ["gpu:0000:19:00.0"]},
    ),
    "-L": (LIST, 0, {}),
    "-L with an error": (
        LIST + HANDLE.format("0000:19:00.0", "Unknown Error"),
        30,
        {"driver.gpu_access": ["gpu:0000:19:00.0"]},
    ),
    "links, all of one card dead": (
        LIST.replace("\n", "\n" + LINKS, 1) + "NVML: Unable to retrieve NVLink information as all links are inActive\n",
        30,
        {"nvlink.links_match": ["GPU 2"]},
    ),
    "links, one inactive": (
        LIST.replace("\n", "\n" + LINKS, 2).replace("Link 3: 26.562 GB/s", "Link 3: <inactive>", 1),
        30,
        {"nvlink.links_match": ["GPU 0"]},
    ),
    "links, two of a lone module down": (LONE.format("V100-SXM2-32GB"), 30, {"nvlink.links_match": ["GPU 0"]}),
    "links, a lone PCIe card": (LONE.format("V100-PCIE-32GB"), 0, {}),
    "link errors are history": (LIST + "\t Link 0: Replay Errors: 7\n\t Link 0: CRC Errors: 3\n", 0, {}),
    "a PCIe card without links": (
        LIST.splitlines()[0] + "\nNVML: Unable to retrieve NVLink information as all links are inActive\n",
        0,
        {},
    ),
    "topology": ("\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-63\nGPU1\tNV18\t X \t0-63\n", 0, {}),
    "lspci": (LSPCI.format(slot="x16", rev="a1", width="x16 (ok)", sdes="-"), 0, {}),
    "lspci, narrow": (
        LSPCI.format(slot="x16", rev="a1", width="x8 (downgraded)", sdes="-"),
        40,
        {"pcie.link_width_max": ["gpu:0000:19:00.0"]},
    ),
    "lspci, narrow slot": (LSPCI.format(slot="x8", rev="a1", width="x8 (downgraded)", sdes="-"), 0, {}),
    "lspci, off the bus": (
        LSPCI.format(slot="x16", rev="ff", width="x16", sdes="-"),
        30,
        {"pcie.config_space": ["gpu:0000:19:00.0"]},
    ),
    "lspci, latched": (
        LSPCI.format(slot="x16", rev="a1", width="x16 (ok)", sdes="+"), 0, {"pcie.latched_errors": ["gpu:0000:19:00.0"]},
    ),
    "lspci, nameless": ("\t!!! Unknown header type 7f\n", 30, {"pcie.config_space": ["gpu:unnamed"]}),
    "sysfs, ones": (SYSFS.format("current_link_width", 63), 30, {"pcie.config_space": ["gpu:0000:19:00.0"]}),
    "sysfs, narrow": (
        SYSFS.format("current_link_width", 8) + SYSFS.format("max_link_width", 16),
        40,
        {"pcie.link_width_max": ["gpu:0000:19:00.0"]},
    ),
    "sysfs, idle": (
        "current_link_speed: 2.5 GT/s PCIe\nmax_link_speed: 32.0 GT/s PCIe\ncurrent_link_width: 16\nmax_link_width: 16\n",
        0,
        {},
    ),
    "ibstat": (IBSTAT.format(state="Active", physical="LinkUp", rate=400, layer="InfiniBand"), 0, {}),
    "ibstat, down": (
        IBSTAT.format(state="Down", physical="Polling", rate=10, layer="InfiniBand"),
        40,
        {"infiniband.port_state": ["port:mlx5_0/1"]},
    ),
    "ibstat, waiting": (
        IBSTAT.format(state="Initializing", physical="LinkUp", rate=400, layer="InfiniBand"),
        20,
        {"infiniband.port_state": ["port:mlx5_0/1"]},
    ),
    "ibstat, one waits": (
        IBSTAT.format(state="Active", physical="LinkUp", rate=400, layer="InfiniBand")
        + IBSTAT.replace("mlx5_0", "mlx5_1").format(
            state="Initializing", physical="LinkUp", rate=400, layer="InfiniBand"
        ),
        20,
        {"infiniband.port_state": ["port:mlx5_1/1"]},
    ),
    "query, narrow, no names": (
        "# nvidia-smi --query-gpu=gpu_bus_id,pcie.link.width.current,pcie.link.width.max --format=csv,noheader\n"
        "00000000:1B:00.0, 16, 16\n00000000:43:00.0, 16, 16\n00000000:52:00.0, 4, 16\n",
        40,
        {"pcie.link_width_max": ["gpu:0000:52:00.0"]},
    ),
    "query, other lanes, no names": (
        "# nvidia-smi --query-gpu=gpu_bus_id,pcie.link.width.current,pcie.link.width.max --format=csv,noheader\n"
        "00000000:1B:00.0, 16, 16\n00000000:43:00.0, 8, 8\n",
        0,
        {},
    ),
    "lspci, no card": ("00:00.0 Host bridge: Intel Corporation Device 09a2\n00:1f.0 ISA bridge: Intel Corporation C620\n", 3, {}),
    "ibstat, Ethernet": (IBSTAT.format(state="Down", physical="Disabled", rate=40, layer="Ethernet"), 0, {}),
    "ibstatus": (
        "Infiniband device 'mlx5_1' port 1 status:\n\tstate:\t\t 1: DOWN\n\tphys state:\t 2: Polling\n"
        "\trate:\t\t 10 Gb/sec (4X SDR)\n"
        "\tlink_layer:\t InfiniBand\n",
        40,
        {"infiniband.port_state": ["port:mlx5_1/1"]},
    ),
    "ibv_devinfo": (
        "hca_id:\tmlx5_2\n\tfw_ver:\t\t28.39.1002\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n"
        "\t\t\tlink_layer:\t\tInfiniBand\n",
        40,
        {"infiniband.port_state": ["port:mlx5_2/1"]},
    ),
    "ibv_devinfo, active": (
        "".join(
            f"hca_id:\tmlx5_{n}\n\tboard_id:\t\tMT_0000000838\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
            "\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t100.0 Gbps (128)\n\t\t\tlink_layer:\t\tInfiniBand\n"
            for n in range(2)
        ),
        0,
        {},
    ),
    "one slower port": (
        "".join(f"/sys/class/infiniband/mlx5_{n}/ports/1/rate: {rate} Gb/sec (4X NDR)\n" for n, rate in enumerate((400, 400, 200))),
        40,
        {"infiniband.port_rate_match": ["mlx5_2/1"]},
    ),
    "two slower ports": (
        "".join(f"/sys/class/infiniband/mlx5_{n}/ports/1/rate: {rate} Gb/sec (4X NDR)\n" for n, rate in enumerate((400, 200, 200))),
        0,
        None,
    ),
    "service failed": (UNIT.format(active="failed (Result: exit-code)"), 20, {"service.state": ["service:nvidia-fabricmanager"]}),
    "service runs": (UNIT.format(active="active (running)"), 0, {}),
    "service not wanted": (UNIT.format(active="inactive (dead)").replace("; enabled;", "; disabled;"), 0, {}),
    "service stopped": (UNIT.format(active="inactive (dead)"), 0, {"service.state": ["service:nvidia-fabricmanager"]}),
    "CUDA 802": ("RuntimeError: CUDA error: system not yet initialized\n", 20, {"workload.cuda": ["node"]}),
    "BMC": (" 1 | 03/05/2026 | 10:00:00 | Fan #0x41 | Lower Critical going low | Asserted\n", 40, {"host.bmc_events": ["node"]}),
    "BMC, healthy": (" 1 | 03/05/2026 | 10:00:00 | OS Boot | C: boot completed | Asserted\n", 0, {}),
    "host memory": ("mc0: csrow0: ch0: 2 Uncorrected Errors\n", 41, {"host.memory_errors": ["node"]}),
    "host memory, healthy": ("mc0: csrow0: ch0: 0 Corrected Errors\n", 0, {}),
    "NCCL": ("node01:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n", 20, {"workload.nccl": ["node"]}),
    "NCCL, a hint": ("node01:1:2 [0] NCCL WARN Missing iommu=pt from kernel command line\n", 0, {}),
    "IMEX": ("[Sep 18 2026 06:40:33] [ERROR] [tid 7] IMEX cannot bind\n", 20, {"service.daemon_logs": ["node"]}),
    "IMEX, healthy": ("[Sep 18 2026 06:40:33] [INFO] [tid 7] IMEX version 580.159.04 is running\n", 0, {}),
    "mlxlink": ("Effective Physical BER : 3E-9\n", 40, {"infiniband.link_quality": ["node"]}),
    "mlxlink, healthy": ("Effective Physical BER : 15E-255\n", 0, {}),
    "CUDA 700": ("CUDA error: an illegal memory access was encountered\n", 0, {"workload.cuda": ["node"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_pasted_text_is_judged(name: str, tmp_path: Path) -> None:
    words, code, wrong = CASES[name]
    judged = report(text(tmp_path, words))
    assert judged.exit_code == code, found(judged)
    if wrong is not None:
        assert found(judged) == wrong


def test_checks_of_imports_fail_and_pass_somewhere(tmp_path: Path) -> None:
    reports = [report(text(tmp_path, words)) for words, _, _ in CASES.values()]
    results = [result for one in reports for result in one.results]
    imported = {one.id for one in PLAN.checks if one.mark.imported}
    wrong = {one.check for one in results if one.status.value in ("fail", "warn")}
    right = {one.check for one in results if one.status.value == "pass"}
    assert imported - wrong == set()
    assert imported - right == {"workload.cuda"}, "a program that has said nothing proves nothing"


def test_the_report_names_what_was_judged(tmp_path: Path, call: Call) -> None:
    file = text(tmp_path, LIST)
    ended = call("judge", str(file))
    assert ended.code == 0
    assert (
        "partial: all but driver, inventory (nvidia-smi -L and nvlink shows no more)" in ended.out
    )
    document = json.loads(call("judge", str(file), "--format", "json").out)
    assert document["run"]["limited_to"] == ["nvidia-smi -L and nvlink"]
    assert document["run"]["recording"] == str(file)


def test_a_profile_is_judged_only_where_it_is_named(tmp_path: Path) -> None:
    assert report(text(tmp_path, LIST)).exit_code == 0
    missing = report(text(tmp_path, LIST), profile="h100-8x")
    assert "inventory.gpu_count" in found(missing)
    assert missing.exit_code == 31


def test_gpus_of_a_fragment_are_not_all_gpus(tmp_path: Path) -> None:
    """One row of a query says nothing of how many cards there are."""
    file = text(tmp_path, "index, name\n3, NVIDIA H100 80GB HBM3\n")
    judged = report(file, profile="h100-8x")
    assert "inventory.gpu_count" not in found(judged)
    assert [part.slot for part in judged.parts] == ["GPU 3"]


def test_parts_that_name_a_gpu_in_other_ways_speak_of_one(tmp_path: Path) -> None:
    """By index and UUID in the list, by address in the query, by nothing in the fragment."""
    uuid = "GPU-10000000-0000-4000-8000-000000000000"
    words = (
        f"# nvidia-smi -L\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid})\n"
        "# nvidia-smi --query-gpu=gpu_bus_id,uuid --format=csv,noheader\n"
        f"00000000:19:00.0, {uuid}\n# a comment cuts nothing off\n# nvidia-smi -q -d ROW_REMAPPER\n"
        f"{REPAIRED.format(pending='Yes', failed='No')}"
    )
    judged = report(text(tmp_path, words))
    assert [part.address for part in judged.parts] == ["0000:19:00.0"]
    assert found(judged) == {"memory.row_remap_pending": ["gpu:0000:19:00.0"]}


def test_parts_without_headers_are_known_by_their_shape(tmp_path: Path) -> None:
    words = (
        "[   12.345678] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06\n"
        + IBSTAT.format(state="Down", physical="Polling", rate=10, layer="InfiniBand")
    )
    words += UNIT.format(active="failed (Result: signal)") + "# nvidia-smi\nNo devices were found\n"
    recording = open_recording(str(text(tmp_path, words)))
    assert recording.meta.imported
    assert list(recording.meta.imported.kinds) == [
        "kernel log",
        "ibstat",
        "systemctl status",
        "nvidia-smi error",
    ]
    judged = report(text(tmp_path, words))
    assert {"infiniband.port_state", "service.state", "driver.nvidia_smi_gpus"} <= set(
        found(judged)
    )


RULE = "_" * 44


def bug_report() -> str:
    sections = (
        (
            "Start of NVIDIA bug report log file.  Please include this file, along\nwith a detailed"
            " description of your problem"
        ),
        (
            "*** /proc/driver/nvidia/./version\n*** ls: -r--r--r-- 1 root root 0 2026-01-01"
            " /proc/driver/nvidia/./version\nNVRM version: NVIDIA UNIX Open Kernel Module for"
            " x86_64  570.124.06  Release Build"
        ),
        "*** /etc/issue\n*** ls: -rw-r--r-- 1 root root 26 2026-01-01 /etc/issue\nUbuntu 22.04",
        (
            "/usr/bin/lspci -nn\n\n19:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100"
            " SXM5 80GB] [10de:2330] (rev ff)"
        ),
        (
            "/usr/bin/nvidia-smi --query\n\n==============NVSMI LOG==============\n\nDriver"
            " Version    : 570.124.06\nAttached GPUs   : 1\nGPU 00000000:19:00.0\n    Product Name"
            f"       : NVIDIA H100 80GB HBM3\n{REPAIRED.format(pending='No', failed='Yes')}"
        ),
        (
            "/usr/bin/dmesg:\n\n[  100.000001] NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off"
            " the bus."
        ),
    )
    return "".join(f"{RULE}\n\n{section}\n\n" for section in sections)


def test_a_bug_report_is_all_its_sections(tmp_path: Path) -> None:
    file = tmp_path / "nvidia-bug-report.log.gz"
    file.write_bytes(gzip.compress(bug_report().encode()))
    recording = open_recording(str(file))
    assert recording.meta.imported
    assert set(recording.meta.imported.kinds) == {
        "sysfs",
        "lspci",
        "nvidia-smi -q",
        "kernel log",
    }
    node = collectors.node(recording)
    assert (node.driver.module_version, node.driver.flavour, was_read(node.gpus)[0].device_id) == (
        "570.124.06",
        "open",
        "10de:2330",
    )
    wrong = found(report(file))
    assert "pcie.config_space" in wrong
    assert "memory.row_remap" in wrong


def test_a_directory_and_a_tar_of_it_are_judged_alike(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "node"
    (folder / "sys/class/infiniband/mlx5_0/ports/1").mkdir(parents=True)
    for name, words in {
        "state": "1: DOWN",
        "phys_state": "2: Polling",
        "link_layer": "InfiniBand",
        "rate": "10 Gb/sec (4X SDR)",
    }.items():
        text(folder / "sys/class/infiniband/mlx5_0/ports/1", f"{words}\n", name)
    text(folder, LIST, "smi.txt")
    text(folder, "nothing of note\n", "notes.txt")
    packed = tmp_path / "node.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(folder, "node")
    for place in (folder, packed):
        judged = report(place)
        assert found(judged) == {"infiniband.port_state": ["port:mlx5_0/1"]}
        assert any(
            "not recognised, and not judged: " in note and "notes.txt" in note
            for note in judged.notes
        )
    assert call("judge", str(folder)).code == 40


def test_a_query_that_was_cut_off_is_incomplete(tmp_path: Path) -> None:
    """What the first card tells and the next does not, and the cards that the head counts, are
    unknown.
    """
    one = (
        "GPU 00000000:{}:00.0\n    Product Name      : NVIDIA H100\n    Persistence Mode  :"
        " Enabled\n"
    )
    whole = f"Attached GPUs   : 2\n{one.format('19')}{one.format('3B')}"
    assert report(text(tmp_path, whole)).exit_code == 0
    assert report(text(tmp_path, whole[: whole.rindex("    Persistence")])).exit_code == 3
    assert report(text(tmp_path, whole.replace(": 2", ": 8"))).exit_code == 3


def test_the_refusal_lists_everything_that_can_be_read(tmp_path: Path, call: Call) -> None:
    refused = call("judge", str(text(tmp_path, "The quick brown fox.\n"))).err
    assert [one.name for one in IMPORTERS if one.reads not in refused] == []
    assert len({one.name for one in IMPORTERS}) == len(IMPORTERS) - 1, "logs.BARE is a kernel log"


WINDOWS = """\
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA RTX A6000             TCC   |   00000000:01:00.0 Off |                  {} |
"""
JETSON = """\
| NVIDIA-SMI 540.3.0                Driver Version: N/A          CUDA Version: 12.2     |
|   0  Orin (nvgpu)                  N/A  | N/A              N/A |                  N/A |
"""
REFUSED = {
    "Windows": (WINDOWS.format("Off").encode(), "the table of nvidia-smi on Windows"),
    "Windows, uncorrected": (WINDOWS.format("  3").encode(), "the table of nvidia-smi on Windows"),
    "Jetson": (JETSON.encode(), "the table of nvidia-smi on a Jetson"),
    "empty": (b"", "it is empty"),
    "blank": (b"\n \n", "it is empty"),
    "binary": (bytes(range(256)) * 9, "it is binary data"),
    "prose": (b"The quick brown fox.\n", "it begins with 'The quick brown fox.'"),
    "a report": (b'{"verdict": "pass", "exit_code": 0, "results": []}', "is a report"),
    "other JSON": (b'{"a": 1}', "not a gpuscan recording"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unreadable_input_is_refused_with_the_reason(name: str, tmp_path: Path, call: Call) -> None:
    file = tmp_path / "file"
    file.write_bytes(REFUSED[name][0])
    ended = call("judge", str(file))
    assert (ended.code, ended.out) == (2, "")
    assert REFUSED[name][1] in ended.err


@pytest.mark.parametrize("member", ["../out.log", "/etc/out.log"])
def test_a_tar_that_leads_out_of_itself_is_refused(member: str, tmp_path: Path) -> None:
    file = tmp_path / "evil.tar"
    with tarfile.open(file, "w") as archive:
        archive.addfile(tarfile.TarInfo(member), io.BytesIO())
    with pytest.raises(GpuscanError, match="leads out of the archive"):
        open_recording(str(file))


def test_links_in_a_tar_are_passed_over_and_named(tmp_path: Path) -> None:
    file = tmp_path / "links.tar"
    with tarfile.open(file, "w") as archive:
        link = tarfile.TarInfo("smi.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (link_there,) = unpacking.read_files(str(file))
    assert (link_there.name, link_there.data) == ("smi.txt", b"")
    assert "link" in link_there.missing


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGEST_BYTES", 1 << 20)
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b"NVRM: a\n" * (1 << 18)))
    with pytest.raises(GpuscanError, match="larger than 1 MiB unpacked"):
        open_recording(str(file))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_text_of_windows_is_decoded(encoding: str, tmp_path: Path) -> None:
    words, code, _ = CASES["table, uncorrected"]
    file = tmp_path / "table.txt"
    file.write_bytes(words.encode(encoding))
    assert report(file).exit_code == code


def test_recordings_are_still_recordings(tmp_path: Path) -> None:
    file = tmp_path / "again.json"
    save(open_recording("demo"), str(file))
    assert open_recording(str(file)).meta.imported is None


pieces = st.one_of(
    st.sampled_from([words for words, _, _ in CASES.values()]),
    st.text(max_size=60),
    st.binary(max_size=60).map(repr),
)


@given(st.lists(pieces, max_size=5).map("\n".join), st.integers(0, 400))
def test_any_text_gives_a_report_or_a_clear_refusal(
    tmp_path_factory: pytest.TempPathFactory, words: str, cut: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.txt"
    file.write_bytes(words.encode("utf-8", "surrogatepass")[cut:])
    try:
        judged = report(file)
    except GpuscanError as refusal:
        assert str(file) in str(refusal)  # noqa: PT017  # most texts are none of these
        return
    assert judged.run.limited_to
    assert not [result.traceback for result in judged.results if result.traceback]


@given(st.binary(max_size=400))
def test_any_bytes_are_parts_or_none(data: bytes) -> None:
    for part in imports.recognise("any", data):
        imports.read_part(part)


PRINTED: dict[str, Callable[[Gpu], Any]] = {  # how nvidia-smi -q prints what NVML says
    "Product Name": lambda gpu: gpu.name,
    "Serial Number": lambda gpu: gpu.serial,
    "GPU UUID": lambda gpu: gpu.uuid,
    "VBIOS Version": lambda gpu: gpu.vbios,
    "Persistence Mode": lambda gpu: "Enabled" if gpu.persistence else "Disabled",
    "ECC Mode": lambda gpu: {
        "Current": switch(was_read(was_read(gpu.ecc_mode).current)),
        "Pending": switch(was_read(was_read(gpu.ecc_mode).pending)),
    },
    "Remapped Rows": lambda gpu: {
        "Correctable Error": was_read(gpu.remapped_rows).correctable,
        "Uncorrectable Error": was_read(gpu.remapped_rows).uncorrectable,
        "Pending": "Yes" if was_read(gpu.remapped_rows).pending else "No",
        "Remapping Failure Occurred": "Yes" if was_read(gpu.remapped_rows).failed else "No",
    },
}
READ_BACK = (
    "name",
    "serial",
    "uuid",
    "vbios",
    "persistence",
    "ecc_mode",
    "remapped_rows",
    "address",
)


def switch(on: bool) -> str:
    return "Enabled" if on else "Disabled"


def printed(gpus: tuple[Gpu, ...]) -> str:
    lines = [
        "==============NVSMI LOG==============",
        "",
        f"Attached GPUs                             : {len(gpus)}",
    ]
    for gpu in gpus:
        lines.append(f"GPU 0000{gpu.address.upper()}")
        for name, of in PRINTED.items():
            told = of(gpu)
            rows = told if isinstance(told, dict) else None
            lines.append(f"    {name}" if rows else f"    {name:<38}: {told}")
            lines += [f"        {key:<34}: {value}" for key, value in (rows or {}).items()]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "name", ["demo", *sorted(str(file) for file in RECORDINGS.glob("h*.json.gz"))]
)
def test_what_a_query_prints_is_read_back(name: str, tmp_path: Path) -> None:
    live = collectors.node(open_recording(name)).gpus
    read = collectors.node(open_recording(str(text(tmp_path, printed(was_read(live)))))).gpus
    assert [[getattr(gpu, fact) for fact in READ_BACK] for gpu in was_read(read)] == [
        [getattr(gpu, fact) for fact in READ_BACK] for gpu in was_read(live)
    ]


captured = pytest.mark.skipif(not CAPTURES.exists(), reason="../shared/captures is not there")
FACTS = (
    "name", "uuid", "serial", "module_id", "part_number", "vbios", "inforom", "gsp_firmware", "memory_mib", "ecc_mode", "mig_mode",
    "persistence", "compute_mode", "processes", "sram", "remapped_rows", "spare_rows", "unrepairable_memory", "repair",
    "recovery_action", "ecc_errors", "device_id",
)  # fmt: skip


@captured
@pytest.mark.parametrize("suffix", ["txt", "xml"])
def test_a_query_agrees_with_nvml_on_the_same_gpus(suffix: str) -> None:
    """The demo was made on the machine of the capture; serial numbers were replaced in both."""
    node = collectors.node(open_recording(str(CAPTURES / f"h200-x4-vm/nvidia-smi-q.{suffix}")))
    live = collectors.node(open_recording("demo"))
    assert [gpu.label for gpu in was_read(node.gpus)] == [gpu.label for gpu in was_read(live.gpus)]
    for mine, other in zip(was_read(node.gpus), was_read(live.gpus), strict=True):
        for fact in FACTS:
            if fact not in ("serial", "uuid") and not is_unread(getattr(other, fact)):
                assert getattr(mine, fact) == getattr(other, fact), fact
        assert (
            was_read(mine.fabric).state,
            was_read(mine.fabric).status,
            mine.pcie.width,
            mine.pcie.max_generation,
        ) == (3, 0, 16, 5)
        assert not is_unread(mine.serial)


@captured
def test_a_captured_machine_is_healthy_in_every_format() -> None:
    for folder in CAPTURES.iterdir():
        for file in folder.glob("*.*") if folder.is_dir() else ():
            if (
                file.stem.startswith(("nvidia-smi", "topo", "sys-pci", "dmesg"))
                and "p2p" not in file.stem
            ):
                assert report(file).exit_code == 0, (file, found(report(file)))


def test_an_indentation_that_is_the_text_s_own_stays(tmp_path: Path) -> None:
    """Without its tabs, a line of lspci that names a driver would be taken for the kernel's."""
    hcas = "".join(
        f"1a:00.{n} Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        "\tSubsystem: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        "\tControl: I/O- Mem+ BusMaster+\n\tNUMA node: 0\n\tIOMMU group: 12\n"
        "\t\tLnkSta:\tSpeed 32GT/s, Width x16\n"
        "\tKernel driver in use: mlx5_core\n\tKernel modules: mlx5_core\n\n"
        for n in range(8)
    )
    healthy = LSPCI.format(slot="x16", width="x16", rev="a1", sdes="-")
    of_host = report(text(tmp_path, healthy + hcas))
    assert (of_host.exit_code, found(of_host)) == (0, {})


@pytest.mark.skipif(not PUBLIC.exists(), reason="../shared/public is not there")
def test_public_files_of_healthy_machines_pass() -> None:
    lspci = report(PUBLIC / "lspci-vvv-h100-8x.txt.gz")
    assert (lspci.exit_code, len(lspci.parts), found(lspci)) == (0, 8, {})
    assert report(PUBLIC / "ib-sysfs-h100-8x.tar.gz").exit_code == 0
    assert (
        len(
            was_read(collectors.node(open_recording(str(PUBLIC / "ib-sysfs-h100-8x.tar.gz"))).ports)
        )
        == 8
    )
    one_fault = report(PUBLIC / "fabricmanager.log")
    assert (one_fault.exit_code, [incident.entry for incident in one_fault.incidents]) == (
        30,
        ["sxid:12028"],
    )
