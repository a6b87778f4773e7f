"""What services, NCCL, the BMC, host memory and network tools print, pasted: healthy, faulty, cut
after any line, and behind a prompt.
"""

from __future__ import annotations

import pytest
from pasted import (
    Pasted,
    judge,
    wrongly_cut,
    wrongly_disturbed,
    wrongly_judged,
    wrongly_prompted,
)

FM = "nvidia-fabricmanager"


def unit_log(*words: str, unit: str = FM, tag: str = "systemd[1]") -> str:
    """Write a unit's journal; `U` in the words is the unit's name."""
    return "".join(
        f"Jan 05 15:{n:02}:17 node01 {tag}: {word.replace('U', f'{unit}.service')}\n"
        for n, word in enumerate(words)
    )


STARTED = "Started U - NVIDIA fabric manager service."
FAILED = ("U: Main process exited, code=exited, status=1/FAILURE", "U: Failed with result 'exit-code'.",
          "Failed to start U - NVIDIA fabric manager service.")  # fmt: skip
RESTARTS = ("U: Scheduled restart job, restart counter is at 4.",)
OLD = "Jan 05 15:00:00 node01 systemd[1]: Failed to start NVIDIA fabric manager service.\n"
SETTING = "10.0.0.{}: fabric manager config file item: {} has an invalid value\n"
NO_SWITCH = (
    "Jan 05 15:00:01 node01 nv-fabricmanager[9]: request to query NVSwitch device information from NVSwitch"
    " driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
)
SERVICES = {
    "FM failed": Pasted(unit_log(STARTED, *FAILED), 20, "Main process exited", (FM,)),
    "FM failed, then ran": Pasted(unit_log(*FAILED, STARTED), 0, cured=True),
    "FM ran": Pasted(unit_log("Starting U - NVIDIA fabric manager service...", STARTED), 0),
    "FM restarts": Pasted(unit_log(*FAILED[:2], *RESTARTS), 20, "Main process exited", (FM,)),
    "FM failed, old systemd": Pasted(OLD, 20, "Failed to start", (FM,)),
    "FM without switches": Pasted(NO_SWITCH + unit_log(*FAILED), 0),
    "job failed": Pasted(f"Job for {FM}.service failed because the control process exited with error code.\n", 20, "Job for", (FM,)),
    "job of persistenced": Pasted("Job for nvidia-persistenced.service failed because a timeout was exceeded.\n", 20, "Job for"),
    "IMEX failed": Pasted(unit_log(*FAILED, unit="nvidia-imex"), 20, "Main process exited", ("nvidia-imex",)),
    "DCGM stopped": Pasted(unit_log("Stopped U.", "U: Deactivated successfully.", unit="nvidia-dcgm"), 0),
    "a setting": Pasted(SETTING.format(10, "FABRIC_NODE_CONFIG_FILE") * 3, 20, "invalid value", ("FABRIC_NODE_CONFIG_FILE",)),
    "another setting": Pasted(SETTING.format(7, "LOG_LEVEL").partition(": ")[2], 20, "invalid value", ("LOG_LEVEL",)),
}  # fmt: skip


def imex(*lines: tuple[str, str]) -> str:
    rows = "".join(f"[Sep 18 2026 06:40:33] [{level}] [tid 77] {text}\n" for level, text in lines)
    return f"IMEX Log initializing at: 9/18/2026 06:40:33.561\n{rows}"


RUNS = ("INFO", "IMEX version 580.159.04 is running with the following configuration options:")


def manager(*lines: tuple[str, str]) -> str:
    return "".join(f"[Mar 04 2025 10:11:12] [{level}] [tid 88] {text}\n" for level, text in lines)


STARTS = (
    "INFO",
    "Fabric Manager version 550.54.15 is running with the following configuration options",
)
REFUSES = ("ERROR", "fabric manager version 550.54.15 is not compatible with the installed driver")
MANAGER = {
    "FM runs": Pasted(manager(STARTS, ("WARNING", "the lock of the pid file is held, retrying")), 0),
    "FM refuses": Pasted(manager(STARTS, REFUSES), 20, "[ERROR]", (FM, "not compatible")),
    "FM's port is taken": Pasted(manager(("ERROR", "failed to bind to port 6666")), 20, "[ERROR]", (FM, "port 6666")),
    "FM refused, started again": Pasted(manager(STARTS, REFUSES, STARTS), 0, cured=True),
    "FM has nothing to do": Pasted(manager(("ERROR", NO_SWITCH.partition("]: ")[2].strip())), 0),
}  # fmt: skip
SM = "Mar 05 08:00:{:02} 123456 [7F2BC700] 0x{} -> osm_state_mgr_process: {}\n"
DAEMONS = {
    "IMEX runs": Pasted(imex(RUNS, ("INFO", "Treating node config entry 'node02' as a host name.")), 0),
    "IMEX error": Pasted(imex(RUNS, ("ERROR", "failed to bind to port 50000")), 20, "[ERROR]", ("port 50000",)),
    "IMEX error, started again": Pasted(imex(RUNS, ("ERROR", "failed to bind")) + imex(RUNS), 0, cured=True),
    "NVLSM runs": Pasted(SM.format(1, "02", "Entering MASTER state"), 0),
    "NVLSM error": Pasted(SM.format(1, "02", "Entering MASTER state") + SM.format(2, "01", "ERR 3315: invalid topology"), 20, "ERR 3315", ("nvlsm",)),
}  # fmt: skip


def warned(
    text: str,
    before: str = "[2026-06-23 15:45:07] gpu-node01:420:437 [5] transport/net.cc:379 (f) ",
) -> str:
    return f"{before}NCCL WARN {text}\n"


WARNINGS = {
    "multicast": Pasted(
        warned("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation'"),
        30,
        "NCCL WARN",
        ("GPU 5",),
    ),
    "port": Pasted(warned("NET/IB : mlx5_3:1 Got async event : port error"), 20, "NCCL WARN", ("mlx5_3",)),
    "no answer": Pasted(
        warned("NET/IB: Got completion from peer 10.0.0.2<4242> with status=12 opcode=129 len=0 vendor err 129", "pod/x "),
        20,
        "NCCL WARN",
    ),
    "flushed": Pasted(warned("NET/IB: Got completion from peer 10.0.0.2<4242> with status=5 opcode=0 len=0"), 0),
    "peer gone": Pasted(warned("socketProgress: Connection closed by remote peer node02<53111>"), 0),
    "ECC": Pasted(warned("Cuda failure 'uncorrectable ECC error encountered'"), 30, "NCCL WARN"),
    "hint": Pasted(warned('Missing "iommu=pt" from kernel command line which can lead to system instability'), 0),
    "not known": Pasted(warned("The frobnicator of channel 3 is upside down"), 3),
}  # fmt: skip


def sel(*rows: tuple[str, str, str, str]) -> str:
    """Write `ipmitool sel list` of (date, sensor, event, direction)."""
    return "".join(
        f" {n + 1:3x} | {day} | 10:00:{n:02} | {sensor} | {event} | {way}\n"
        for n, (day, sensor, event, way) in enumerate(rows)
    )


BOOT = ("03/05/2026", "System Boot Initiated #0xe0", "Initiated by power up", "Asserted")
PSU = ("03/05/2026", "Power Supply #0x51", "Failure detected", "Asserted")
DIMM = ("03/05/2026", "Memory #0x02", "Uncorrectable ECC", "Asserted")
BMC = {
    "empty": Pasted("SEL has no entries\n", 0),
    "boots": Pasted(sel(BOOT, ("03/06/2026", "OS Boot", "C: boot completed", "Asserted")), 0),
    "supply failed": Pasted(sel(BOOT, PSU), 40, "Failure detected", ("#0x51",)),
    "supply came back": Pasted(sel(PSU, (*PSU[:3], "Deasserted")), 0, cured=True),
    "one of two supplies": Pasted(sel(PSU, ("03/05/2026", "Power Supply #0x52", "Failure detected", "Deasserted")), 40, "Failure detected", ("#0x51",)),
    "supply lost its input": Pasted(sel(("03/05/26", "Power Supply PSU3 Status", "Power Supply AC lost", "Asserted")), 40, "AC lost", ("PSU3",)),
    "memory": Pasted(sel(BOOT, DIMM), 41, "Uncorrectable ECC", ("Memory #0x02",)),
    "memory, a year ago": Pasted(sel(("03/05/2025", *DIMM[1:]), BOOT), 0, cured=True),
    "memory, no date": Pasted(sel(("Pre-Init", *DIMM[1:]), BOOT), 0),
    "bus": Pasted(sel(("03/05/2026", "Critical Interrupt #0x07", "PCI SERR", "Asserted")), 40, "PCI SERR"),
    "bus, fatal": Pasted(sel(("03/05/2026", "Critical Interrupt PCIe Slot 4", "Bus Fatal Error", "Asserted"), BOOT), 40, "Bus Fatal", ("Slot 4",)),
    "bus, corrected": Pasted(sel(("03/05/2026", "Critical Interrupt #0x07", "Bus Correctable error", "Asserted")), 0),
    "heat": Pasted(sel(("03/05/2026", "Processor CPU2 Status", "Thermal Trip", "Asserted")), 40, "Thermal Trip", ("CPU2",)),
    "heat, over": Pasted(sel(("03/05/2026", "Processor CPU2 Status", "Thermal Trip", "Asserted"), ("03/05/2026", "Processor CPU2 Status", "Thermal Trip", "Deasserted")), 0, cured=True),
    "warm": Pasted(sel(("03/05/2026", "Temperature GPU3", "Upper Non-critical going high", "Asserted")), 0),
    "hot": Pasted(sel(("03/05/2026", "Temperature GPU3", "Upper Critical going high", "Asserted")), 40, "Upper Critical", ("GPU3",)),
    "fan": Pasted(sel(("03/05/2026", "Fan FAN4_A", "Lower Critical going low ", "Asserted")), 40, "Lower Critical", ("FAN4_A",)),
}  # fmt: skip
EDAC = "mc0: 0 Uncorrected Errors with no DIMM info\nmc0: csrow0: {} Uncorrected Errors\nmc0: csrow0: CPU#0_DIMM#1: {} Corrected Errors\n"
RAS = "Memory controller events summary:\n\t{} on DIMM Label(s): 'DIMM_A1' location: 1:0:0:0 errors: {}\n\nNo PCIe AER errors.\n\nNo MCE errors.\n"
EVENT = "Memory controller events:\n1 2026-05-24 11:42:07 -0700 1 {} error(s): memory read error at DIMM_B2 location: 0:1:1:-1, addr 1\n"
MEMORY = {
    "EDAC clean": Pasted(EDAC.format(0, 0), 0),
    "EDAC none": Pasted("edac-util: No errors to report.\n", 0),
    "EDAC corrected": Pasted(EDAC.format(0, 12), 0),
    "EDAC flood": Pasted(EDAC.format(0, 12_000), 40, "12000", ("DIMM#1",)),
    "EDAC uncorrected": Pasted(EDAC.format(1, 0), 41, "csrow0: 1 Unc", ("csrow0",)),
    "EDAC unread": Pasted("edac-util: Error: No memory controller data found.\n", 3),
    "RAS clean": Pasted("No Memory errors.\n\nNo PCIe AER errors.\n\nNo MCE errors.\n", 0),
    "RAS corrected": Pasted(RAS.format("Corrected", 42), 0),
    "RAS uncorrected": Pasted(RAS.format("Uncorrected", 2), 40, "Uncorrected", ("DIMM_A1",)),
    "RAS fatal": Pasted(RAS.format("Fatal", 34), 40, "Fatal", ("DIMM_A1",)),
    "RAS event": Pasted(EVENT.format("Uncorrected"), 40, "Uncorrected", ("DIMM_B2",)),
    "RAS counts": Pasted("Label                 CE      UE\nDIMM_A1               42       0\nDIMM_B1                1       3\n", 40, "1       3", ("DIMM_B1",)),
    "RAS machine check": Pasted("No Memory errors.\n\nMCE records summary:\n\t3 Uncorrected, software containable error. errors\n", 40, "3 Uncorr"),
    "RAS AER": Pasted("No Memory errors.\n\nPCIe AER events summary:\n\t2 Uncorrected (Non-Fatal) errors: Completion Timeout\n", 0),
}  # fmt: skip


def mlxlink(
    state: str = "Active", physical: str = "LinkUp", speed: str = "IB-NDR", **more: str
) -> str:
    rows = {
        "State": state,
        "Physical state": physical,
        "Speed": speed,
        "Width": "4x",
        "FEC": "RS-FEC",
    }
    told = {"Status Opcode": "0", "Group Opcode": "N/A", "Recommendation": "No issue was observed"}
    counts = {
        "Effective Physical BER": "15E-255",
        "Raw Physical BER": "1E-8",
        "Symbol BER": "15E-255",
    }
    counts |= {name.replace("_", " "): value for name, value in more.items() if "BER" in name}
    told |= {name: value for name, value in more.items() if name == "Recommendation"}

    def block(title: str, values: dict[str, str]) -> str:
        return (
            f"{title}\n{'-' * len(title)}\n"
            + "".join(f"{k:<35}: {v}\n" for k, v in values.items())
            + "\n"
        )

    return (
        "$ mlxlink -d mlx5_3 -c\n\n"
        + block("Operational Info", rows)
        + block("Troubleshooting Info", told)
        + block("Physical Counters and BER Info", counts)
    )


LINKS = {
    "up": Pasted(mlxlink(), 0),
    "polling": Pasted(mlxlink("Polling", "Polling", "N/A", Recommendation="Cable is unplugged"), 40, "Polling", ("mlx5_3",)),
    "disabled": Pasted(mlxlink("Disable", "Disabled", "N/A", Recommendation="The port is closed by command"), 20, "Disable", ("mlx5_3",)),
    "bit errors": Pasted(mlxlink(Effective_Physical_BER="3E-9"), 40, "3E-9", ("mlx5_3",)),
    "raw errors, corrected": Pasted(mlxlink(Raw_Physical_BER="4E-7"), 0),
    "many raw errors": Pasted(mlxlink(Raw_Physical_BER="4E-4"), 0),
    "Ethernet, down": Pasted(mlxlink("Polling", "ETH_AN_FSM_ENABLE", "N/A", Recommendation="Cable is unplugged"), 0),
    "Ethernet, up": Pasted(mlxlink("Active", "LinkUp", "100G"), 0),
}  # fmt: skip
PERF = (
    "# Port counters: Lid 7 port 1 (CapMask: 0x5A00)\nPortSelect:......................1\n"
    "SymbolErrorCounter:..............{}\nLinkErrorRecoveryCounter:........0\nLinkDownedCounter:...............{}\n"
    "PortXmitData:....................123456\n"
)
QUERIED = (
    'Errors for "node01 mlx5_0"\n   GUID 0x7cfe900300179b31 port 1: [SymbolErrorCounter == 3] [PortXmitWait == 4294967295]\n'
    "\n## Summary: 16 nodes checked, 1 bad nodes found\n##          226 ports checked, 1 ports have errors beyond threshold\n"
)
NETWORK = {
    "counters": Pasted(PERF.format(0, 0), 0),
    "lifetime counters": Pasted(PERF.format(12, 3), 0),
    "a link that flaps": Pasted(PERF.format(0, 3) + PERF.format(0, 5), 40, "Counter:...............5", ("lid7",)),
    "fabric errors": Pasted(QUERIED, 0),
    "ibstatus finds none": Pasted("Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)\n", 3),
    "interfaces": Pasted("mlx5_0   port  1  ==>  ibp26s0        (Down)\nmlx5_1   port  1  ==>  enp27s0f0np0   (Up)\n", 0),
    "topology": Pasted("CA   134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'o0001 HCA-1' - 'ib-i1l1s01' )\n", 0),
}  # fmt: skip


def nvlinks(*gpus: str) -> str:
    rows = "".join(f"    gpuId {n}:\n        {' '.join(links)}\n" for n, links in enumerate(gpus))
    title = "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\n"
    return f"{title}GPUs:\n{rows}NvSwitches:\n    No NvSwitches found.\n\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"


ROW = "| -> {:<23} | {:<46} |\n"
COUNTS = (
    "| NVLINK Error Counts                                                          |\n"
    "| GPU 0                                                                        |\n"
    "| Link 0                      |                                                |\n"
    + ROW.format("CRC FLIT Error", 0)
    + ROW.format("Replay Error", 2)
)
NVLINKS = {
    "up": Pasted(nvlinks("U" * 12 + "______", "U" * 12 + "______"), 0),
    "all of one down": Pasted(nvlinks("U" * 12, "D" * 12), 30, "D D", ("GPU 1",)),
    "one down": Pasted(nvlinks("U" * 18, "U" * 17 + "D", "U" * 18), 30, "U D", ("GPU 1",)),
    "two disabled": Pasted(nvlinks("X" * 2 + "U" * 16, "U" * 18), 30, "gpuId 1:\n        U", ("GPU 0",)),
    "disabled alike": Pasted(nvlinks("X" * 2 + "U" * 16, "X" * 2 + "U" * 16), 0),
    "none": Pasted(nvlinks("_" * 18, "_" * 18), 0),
    "counts": Pasted(COUNTS, 0),
}  # fmt: skip
KINDS = {
    f"journalctl -u {FM}": SERVICES,
    "cat /var/log/fabricmanager.log": MANAGER,
    "cat /var/log/nvidia-imex.log": {
        name: case for name, case in DAEMONS.items() if "IMEX" in name
    },
    "cat /var/log/nvlsm.log": {name: case for name, case in DAEMONS.items() if "NVLSM" in name},
    "cat job.out": WARNINGS,
    "ipmitool sel list": BMC,
    "edac-util -v": {name: case for name, case in MEMORY.items() if "EDAC" in name},
    "ras-mc-ctl --summary": {name: case for name, case in MEMORY.items() if "RAS" in name},
    "mlxlink -d mlx5_3": LINKS,
    "perfquery": NETWORK,
    "dcgmi nvlink -s": NVLINKS,
}
ALL = [pytest.param(command, case, id=f"{command}: {name}")
       for command, cases in KINDS.items() for name, case in cases.items()]  # fmt: skip


@pytest.mark.parametrize(("command", "case"), ALL)
def test_a_text_is_judged(command: str, case: Pasted) -> None:
    assert not wrongly_judged(case)


@pytest.mark.sweep
@pytest.mark.parametrize(("command", "case"), ALL)
def test_a_text_that_was_cut_off_never_passes_with_its_fault(command: str, case: Pasted) -> None:
    assert wrongly_cut(case) == []


@pytest.mark.sweep
@pytest.mark.parametrize(("command", "case"), ALL)
def test_a_strange_line_within_a_text_hides_no_fault(command: str, case: Pasted) -> None:
    assert wrongly_disturbed(case) == []


@pytest.mark.sweep
@pytest.mark.parametrize(("command", "case"), ALL)
def test_what_stands_before_a_text_changes_nothing(command: str, case: Pasted) -> None:
    assert wrongly_prompted(case, "true") == []


def test_texts_of_several_tools_are_judged_together() -> None:
    texts = [SERVICES["FM ran"], BMC["supply failed"], MEMORY["EDAC uncorrected"], LINKS["up"]]
    assert judge("\n".join(case.text for case in texts)).code == 41
    assert (
        judge(
            f"$ ipmitool sel list\n{BMC['memory'].text}$ ipmitool sel elist\n{BMC['boots'].text}"
        ).code
        == 41
    )
