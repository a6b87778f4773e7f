"""Which tool a line comes from, by its shape: where no header tells, a part begins where another
shape does.
"""

import re

from gpuscan.importers import smi_csv, smi_errors
from gpuscan.importers.applications import code_of
from gpuscan.importers.part import ADDRESS
from gpuscan.kernellog.needles import NEEDLE

SMI_QUERY, SMI_XML, SMI_CSV, SMI_TABLE = (
    "nvidia-smi -q",
    "nvidia-smi -q -x",
    "nvidia-smi --query",
    "nvidia-smi",
)
SMI_LIST, SMI_TOPO, SMI_ERROR = "nvidia-smi -L and nvlink", "nvidia-smi topo -m", "nvidia-smi error"
LSPCI, IB, SERVICE, APPLICATION, FILES = (
    "lspci",
    "ibstat",
    "systemctl status",
    "application log",
    "sysfs",
)
KERNEL, FABRIC_MANAGER = "kernel log", "Fabric Manager log"

STAMPED = re.compile(  # a log's line, whatever it then says
    r"^\[ *\d+\.\d{6}\]|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\]|^<\d+>|^\d+,\d+,\d+,[-\w,=]*;"
    r"|^(?:kern|user|daemon) *: *\w+ *: |^kern: +\w+: \[|^[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+?(?:\[\d+\])?: "
    r"|^\d{4}-\d\d-\d\dT[\d:.,+-]+\S* \S+ \S+?(?:\[\d+\])?: |^-- (?:Boot|Logs begin|Journal begins)|\"_TRANSPORT\"|\"MESSAGE\" ?:"
)
OF_FABRIC_MANAGER = re.compile(
    r"^\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\] \[\w+\]|NV_WARN_NOTHING_TO_DO|detected NVSwitch (?:non-)?fatal error"
    r"|NVSwitch device information"
)
OF_KERNEL = re.compile(
    r"NVRM:|nvidia-nvswitch\d*:|nvidia-peermem|nvidia-modeset:|nvidia-uvm:|nvidia-nvlink:|\bkernel: ?[\[\w{]|\bXid\b"
    r"|\bmlx5_(?:core|cmd|ib)\w*|\bEDAC\b|\[Hardware Error\]|\bpcieport \S+:|PCIe Bus Error|\bmce:|oom-kill"
    r"|Out of memory: Kill|soft lockup|Linux version \d"
)
OF_LSPCI = re.compile(
    r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \S|^\s+Lnk(?:Sta|Cap)2?:|Unknown header type 7f|^\s+[UC]ESta:"
)
OF_SYSTEMCTL = re.compile(
    r"^\s*(?:[●×○x*↻]\s+)?[\w@.\\-]+\.service(?: - |\s*$)|^\s*Active: (?:active|inactive|failed|activating)"
    r"|Unit \S+\.service could not be found"
)
OF_GPU_BURN = re.compile(
    r"^[ \t]*GPU \d+: (?:OK|FAULTY)[ \t\r]*$|\bproc'd: .* errors: ", re.MULTILINE
)
STARTS = (  # the first that fits names the line
    (KERNEL, STAMPED),
    (SMI_ERROR, smi_errors.WORDS),
    (
        FILES,
        re.compile(r"^/(?:sys|proc)/[\w./:@+-]+\s*[:=]|^(?:current|max)_link_(?:speed|width):"),
    ),
    (FABRIC_MANAGER, OF_FABRIC_MANAGER),
    (KERNEL, OF_KERNEL),
    (SMI_TABLE, re.compile(r"^\| NVIDIA-SMI |^\+-{20,}[+-]*\+\s*$")),
    (SMI_QUERY, re.compile(rf"^=+NVSMI LOG=+|^\s*GPU {ADDRESS}\s*$|^Attached GPUs\s+: ")),
    (SMI_TOPO, re.compile(r"^\s*GPU0\s+(?:GPU1|CPU Affinity|X\b|NIC0)")),
    (SMI_LIST, re.compile(r"^\s*GPU \d+: .*(?:\(UUID: |$)|^\s+Link \d+: |all links are inActive")),
    (LSPCI, OF_LSPCI),
    (IB, re.compile(r"^\s*CA '[^']+'|^\s*Infiniband device '|^\s*hca_id:")),
    (SERVICE, OF_SYSTEMCTL),
)
# of a section of -q; other tools indent, too, but put no blank before the colon
VALUES = re.compile(
    r"^ {4,}[A-Z]\S.*\s+: ?\S|^ {4,}(?:ECC Errors|Remapped Rows|Retired Pages|Fabric|PCI|Temperature)\s*$"
    r"|^\s*(?:GPU Recovery Action|Remapping Failure Occurred|Pending Page Blacklist|SRAM Threshold Exceeded)\s+:"
)
PROGRAM = re.compile(r"^[\w.@-]+\[\d+\]: ")  # `systemd[1]: …`, a log without its stamps
STATE_ROW = re.compile(r"\[(?:GPU requires reset|GPU is lost|Unknown Error)\]", re.IGNORECASE)
ROW = re.compile(r"^\s*(?:\d{1,2}|[0-9a-fA-F]{8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]), ?\S")


def kind_of(line: str, among: str = "") -> str:
    """Return the kind of part that a line begins or belongs to, "" where nothing tells; *among* is
    that of the part it is in.
    """
    if among == SERVICE and STAMPED.search(line) and "kernel:" not in line:
        return SERVICE  # the unit's last messages
    for kind, shape in STARTS:
        if shape.search(line) and not _is_within(line, kind, shape, among):
            return kind
    if among in ("", SMI_QUERY, SMI_LIST, SMI_CSV, SMI_ERROR, FILES) and VALUES.search(line):
        return SMI_QUERY
    if among in ("", SMI_CSV, SMI_QUERY, SMI_ERROR) and (
        STATE_ROW.search(line) or ROW.match(line) or _names_columns(line)
    ):
        return SMI_CSV
    if among != KERNEL and code_of(line):
        return APPLICATION
    return KERNEL if not among and (PROGRAM.match(line) or NEEDLE.search(line)) else ""


def _is_within(line: str, kind: str, shape: re.Pattern[str], among: str) -> bool:
    """Tell whether an indented line that speaks of a driver is part of other output and begins no
    log.
    """
    return (
        kind == KERNEL
        and among not in ("", KERNEL)
        and shape is OF_KERNEL
        and line[:1] in (" ", "\t")
    )


def _names_columns(line: str) -> bool:
    return "," in line and smi_csv.is_header(line)
