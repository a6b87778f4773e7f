"""Texts as tools print them, healthy and faulty, and the forms in which people pass them on."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Iterator
from typing import NamedTuple

DMESG = "[Wed Mar  5 10:{0:02d}:{1:02d} 2025] {2}"
JOURNAL = "Mar 05 10:{0:02d}:{1:02d} gpu-a17 kernel: {2}"
LOST = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
QUIET = (
    "Linux version 6.8.0-45-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13) #45-Ubuntu SMP",
    "Command line: BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/sda2 ro",
    "ACPI: Core revision 20230628",
    "pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint",
    "nvidia: loading out-of-tree module taints kernel.",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024",
    "nvidia-modeset: Loading NVIDIA UNIX Kernel Mode Setting Driver for UNIX platforms  550.90.07",
    "EXT4-fs (sda2): mounted filesystem with ordered data mode. Quota mode: none.",
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
)


def log(form: str, *more: str) -> str:
    """A kernel log, a line each: a boot, then *more*."""
    return "".join(f"{form.format(0, n, line)}\n" for n, line in enumerate((*QUIET, *more), 3))


ROWS = """\
|   {n}  NVIDIA H100 80GB HBM3          On  |   00000000:{bus}:00.0 Off |{ecc:>21} |
| N/A   3{n}C    P0             71W /  700W |       4MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


def table(*ecc: str) -> str:
    """The table of nvidia-smi, a GPU for each cell of uncorrected errors."""
    head = """\
Wed Mar  5 10:14:07 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
    tail = """\

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
    buses = ("19", "3B", "5D", "9B")
    rows = (
        ROWS.format(n=n, bus=bus, ecc=word)
        for n, (bus, word) in enumerate(zip(buses, ecc, strict=False))
    )
    return head + "".join(rows) + tail


def query(failed: str) -> str:
    """`nvidia-smi -q` of two GPUs, of which the second may have failed to remap a row."""
    head = """\

==============NVSMI LOG==============

Timestamp                                 : Wed Mar  5 10:14:07 2025
Driver Version                            : 550.90.07
CUDA Version                              : 12.4

Attached GPUs                             : 2
"""
    gpu = """\
GPU 00000000:{bus}:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    GPU UUID                              : GPU-{n}0000000-0000-4000-8000-000000000000
    VBIOS Version                         : 96.00.89.00.01
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : {failed}
    Temperature
        GPU Current Temp                  : 34 C

"""
    return head + gpu.format(bus="19", n=1, failed="No") + gpu.format(bus="3B", n=2, failed=failed)


def xml(failed: str) -> str:
    """`nvidia-smi -q -x` of two GPUs."""
    gpu = """\
\t<gpu id="00000000:{bus}:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<uuid>GPU-{n}0000000-0000-4000-8000-000000000000</uuid>
\t\t<ecc_mode>
\t\t\t<current_ecc>Enabled</current_ecc>
\t\t\t<pending_ecc>Enabled</pending_ecc>
\t\t</ecc_mode>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>0</remapped_row_corr>
\t\t\t<remapped_row_unc>0</remapped_row_unc>
\t\t\t<remapped_row_pending>No</remapped_row_pending>
\t\t\t<remapped_row_failure>{failed}</remapped_row_failure>
\t\t</remapped_rows>
\t\t<temperature>
\t\t\t<gpu_temp>34 C</gpu_temp>
\t\t</temperature>
\t</gpu>

"""
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "\t<timestamp>Wed Mar  5 10:14:07 2025</timestamp>\n\t<driver_version>550.90.07</driver_version>\n"
        "\t<cuda_version>12.4</cuda_version>\n\t<attached_gpus>2</attached_gpus>\n"
        + gpu.format(bus="19", n=1, failed="No")
        + gpu.format(bus="3B", n=2, failed=failed)
        + "</nvidia_smi_log>\n"
    )


def links(state: str) -> str:
    """`nvidia-smi nvlink -s` of two GPUs; the last link is *state*."""
    lines = []
    for gpu in (0, 1):
        lines.append(
            f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu + 1}0000000-0000-4000-8000-000000000000)"
        )
        lines += [f"\t Link {link}: 26.562 GB/s" for link in range(18)]
    lines[-1] = f"\t Link 17: {state}"
    return "\n".join(lines) + "\n"


def lspci(revision: str) -> str:
    """`lspci -nn | grep -i nvidia` of two GPUs."""
    name = "3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]"
    return f"19:00.0 {name} (rev a1)\n3b:00.0 {name} (rev {revision})\n"


def ibstat(state: str, physical: str) -> str:
    """`ibstat` of two HCAs, or of the one whose port is not in the *state* Active."""
    hca = """\
CA 'mlx5_{n}'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0xb8cef60300aabb0{n}
\tSystem image GUID: 0xb8cef60300aabb0{n}
\tPort 1:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: 400
\t\tBase lid: 1{n}
\t\tLMC: 0
\t\tSM lid: 1
\t\tCapability mask: 0xa651e848
\t\tPort GUID: 0xb8cef60300aabb0{n}
\t\tLink layer: InfiniBand
"""
    down = hca.format(n=0, state=state, physical=physical)
    return down if state != "Active" else down + hca.format(n=1, state=state, physical=physical)


FABRIC_MANAGER = """\
\u00d7 nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; vendor preset: enabled)
     Active: failed (Result: exit-code) since Wed 2025-03-05 10:00:00 UTC; 14min ago
    Process: 1212 ExecStart=/usr/bin/nv-fabricmanager-start.sh (code=exited, status=1/FAILURE)
        CPU: 24ms
"""
CSV = """\
index, pci.bus_id, name, remapped_rows.pending, remapped_rows.failure, temperature.gpu
0, 00000000:19:00.0, NVIDIA H100 80GB HBM3, No, No, 33
1, 00000000:3B:00.0, NVIDIA H100 80GB HBM3, No, {}, 34
"""
NO_HANDLE = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
TEXTS: dict[str, str] = {
    "dmesg, lost": log(DMESG, LOST),
    "journal, lost": log(JOURNAL, LOST),
    "dmesg, clean": log(DMESG),
    "table, uncorrected": table("0", "1"),
    "table, clean": table("0", "0"),
    "-q, remap failed": query("Yes"),
    "-q, clean": query("No"),
    "XML, remap failed": xml("Yes"),
    "XML, clean": xml("No"),
    "nvlink, one inactive": links("<inactive>"),
    "nvlink, clean": links("26.562 GB/s"),
    "lspci, off the bus": lspci("ff"),
    "ibstat, polling": ibstat("Down", "Polling"),
    "ibstat, clean": ibstat("Active", "LinkUp"),
    "service failed": FABRIC_MANAGER,
    "CSV, remap failed": CSV.format("Yes"),
    "nvidia-smi error": NO_HANDLE,
    "bundle, lost": f"# dmesg -T\n{log(DMESG, LOST)}\n# nvidia-smi\n{table('0', '0')}\n# ibstat\n{ibstat('Active', 'LinkUp')}",
}  # fmt: skip


class Quoted(NamedTuple):
    """A program that reads the texts it logs, so that what it logs of the kernel is no evidence."""

    form: str


def each(prefix: str | Callable[[int], str]) -> Callable[[str], str]:
    """A form that puts something before every line; numbers begin with 1."""

    def rewrite(text: str) -> str:
        lines = enumerate(text.splitlines(), 1)
        return "".join(f"{prefix(n) if callable(prefix) else prefix}{line}\n" for n, line in lines)

    return rewrite


def each_json(make: Callable[[str, int], object]) -> Callable[[str], str]:
    """A form that writes every line as a JSON document."""

    def rewrite(text: str) -> str:
        lines = enumerate(text.splitlines(), 1)
        return "".join(f"{json.dumps(make(line, n))}\n" for n, line in lines)

    return rewrite


def around(before: str, after: str = "") -> Callable[[str], str]:
    """A form that puts lines before and after the text."""
    return lambda text: f"{before}{text}{after}"


def wrapped(text: str) -> str:
    """Break lines after 80 characters, as a terminal's copy does."""
    lines = (textwrap.wrap(line, 80, drop_whitespace=False, break_long_words=True, break_on_hyphens=False) or [""] for line in text.splitlines())  # fmt: skip
    return "".join(f"{piece}\n" for pieces in lines for piece in pieces)


def stamp(n: int) -> str:
    """A container runtime's time of a line."""
    return f"2025-03-05T10:14:{n % 60:02d}.{n:09d}Z"


def smart(text: str) -> str:
    """Straight quotes as a word processor writes them."""
    pairs = {"'": "\u2018\u2019", '"': "\u201c\u201d"}
    return "".join(pairs[char][n % 2] if char in pairs else char for n, char in enumerate(text))


def cloudwatch(text: str) -> str:
    """What `aws logs get-log-events` prints."""
    events = [
        {"timestamp": 1741169647000 + n, "message": line, "ingestionTime": 1741169650000 + n}
        for n, line in enumerate(text.splitlines())
    ]
    return json.dumps({"events": events, "nextForwardToken": "f/1"}, indent=4) + "\n"


def gke(text: str) -> str:
    """What `gcloud logging read --format json` prints."""
    return json.dumps(
        [
            {
                "insertId": f"i{n}",
                "jsonPayload": {"MESSAGE": line, "_HOSTNAME": "gke-a3-0"},
                "logName": "projects/p/logs/serialconsole",
                "timestamp": stamp(n),
            }
            for n, line in enumerate(text.splitlines())
        ],
        indent=2,
    )


def export(text: str) -> str:
    """What `journalctl -u unit -o export` prints."""
    return "".join(
        f"__CURSOR=s=1;i={n}\n__REALTIME_TIMESTAMP=17411696{n:08d}\n_TRANSPORT=stdout\n_HOSTNAME=gpu-a17\n"
        f"SYSLOG_IDENTIFIER=check\n_PID=812\nMESSAGE={line}\n\n"
        for n, line in enumerate(text.splitlines())
    )


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR alone": lambda text: text.replace("\n", "\r"),
    "colours": lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
    "erased ends": lambda text: "".join(f"{line}\x1b[K\n" for line in text.splitlines()),
    "two blanks": each("  "),
    "Markdown's four blanks": each("    "),
    "a tab": each("\t"),
    "mail's quote": each("> "),
    "mail's quote, twice": each(">> "),
    "a fence": around("```\n", "```\n"),
    "a fence and a prompt": around("Hi,\n\n```bash\nroot@gpu-a17:~# collect.sh\n", "```\nThanks\n"),
    "cat -n": each(lambda n: f"{n:6d}\t"),
    "less -N": each(lambda n: f"{n:7d} "),
    "grep -n": each(lambda n: f"{n}:"),
    "grep -H": each("/var/tmp/node.txt:"),
    "pdsh": each("node01: "),
    "talosctl": each("10.0.0.10: "),
    "kubectl --prefix": each("[pod/collect-x7k2p/main] "),
    "kubectl --timestamps": each(lambda n: f"{stamp(n)} "),
    "compose": each("collect-1  | "),
    "docker's JSON": each_json(lambda line, n: {"log": f"{line}\n", "stream": "stdout", "time": stamp(n)}),
    "CRI": each(lambda n: f"{stamp(n)} stdout F "),
    "a unit's journal": each(lambda n: f"Mar 05 10:14:{n % 60:02d} gpu-a17 check[812]: "),
    "ansible's lines": lambda text: "node01 | CHANGED => "
    + json.dumps({"changed": True, "rc": 0, "stdout_lines": text.splitlines()}, indent=4) + "\n",
    "a JSON string": lambda text: json.dumps({"cmd": "collect.sh", "stdout": text}) + "\n",
    "a YAML block": lambda text: "output: |\n" + textwrap.indent(text, "  "),
    "no-break blanks": lambda text: text.replace(" ", "\u00a0"),
    "HTML entities": lambda text: html.escape(text),
    "HTML, preformatted": lambda text: f"<pre>{text}</pre>\n",
    "smart quotes": smart,
    "a byte order mark": lambda text: f"\ufeff{text}",
    "trailing blanks": lambda text: text.replace("\n", "   \n"),
    "doubled line ends": lambda text: text.replace("\n", "\n\n"),
    "tabs as blanks": lambda text: text.expandtabs(8),
    "no indent": lambda text: "".join(f"{line.lstrip()}\n" for line in text.splitlines()),
    "80 columns": wrapped,
    "a prompt": around("root@gpu-a17:~# collect.sh\n", "root@gpu-a17:~# \n"),
    "prose": around("Dear all,\n\nthis is what node a17 printed today:\n\n", "\nBest regards\nKim\n"),
    "script": around("Script started on 2025-03-05 10:14:07+00:00 [TERM=\"xterm\"]\n", "\nScript done on 2025-03-05\n"),
    "diff": each("+"),
    "Slurm's output": around("srun: job 4711 queued and waiting for resources\nsrun: job 4711 has been allocated resources\n"),
    "mpirun --tag-output": each("[1,0]<stdout>:"),
    "mpirun's newer tag": each("[1,0]<stdout>: "),
    "srun --label": each("0: "),
    "kubectl's note": around('Defaulted container "driver" out of: driver, manager (init)\n'),
    "ssh's warning": around("Warning: Permanently added 'gpu-a17' (ED25519) to the list of known hosts.\n"),
    "a comment": around("# nvidia-smi -q -x\n"),
    "CloudWatch": cloudwatch,
    "GKE": gke,
    "Fluent Bit": each_json(lambda line, n: {"date": 1741169647.5 + n, "log": line, "stream": "stdout"}),
    "journal's JSON": each_json(
        lambda line, n: {"__REALTIME_TIMESTAMP": str(1741169647000000 + n), "_TRANSPORT": "stdout",
                         "SYSLOG_IDENTIFIER": "check", "_PID": "812", "_HOSTNAME": "gpu-a17", "MESSAGE": line}
    ),
    "journal's export": export,
}  # fmt: skip
# A program's journal, in which lines of the kernel are quotations.
OF_A_PROGRAM = ("a unit's journal", "journal's JSON", "journal's export")
OF_THE_KERNEL = ("dmesg", "journal", "bundle")


def is_quoted(form: str, text: str) -> bool:
    """Whether a form makes of a text what a program says of the kernel."""
    return form in OF_A_PROGRAM and text.startswith(OF_THE_KERNEL)


def cases() -> Iterator[tuple[str, str]]:
    """Every form of every text."""
    return ((form, text) for form in FORMS for text in TEXTS)
