"""NCCL's warnings in a job's log, behind whatever stamp, pod or rank stands before them."""

import re

from gpuscan.importers.applications import cuda_error
from gpuscan.importers.applications import readings as cuda_readings
from gpuscan.importers.part import Importer, Part
from gpuscan.importers.said import Line, reading
from gpuscan.recording import Reading
from gpuscan.recording.keys import NCCL_WARNINGS

WARN = re.compile(r"\bNCCL WARN (?P<text>.*)$")
SOURCE = re.compile(r"\b\w+\.cc\b")
RANK = re.compile(r"\[(?P<device>\d+)\] (?:\S+\.cc:\d+ |NCCL WARN)")
NVLS = r"(?:NVLink SHARP|\bNVLS\b|[Mm]ulticast|\bnvls\.cc)"
KINDS = (  # NCCL's sources: transport/nvls.cc, transport/net_ib.cc, misc/socket.cc, init.cc
    (rf"{NVLS}.*(?:CUDA error 401|present state|999|unknown error)", "nvls"),
    (NVLS, "nvls-setup"),
    (r"uncorrectable|NVLink error|[Hh]ardware error|ECC error", "gpu-fault"),
    (r"async (?:fatal )?event.*(?:port error|PORT_ERR|local catastrophic|[Dd]evice fatal)", "port"),
    (r"Got completion .*(?:status|error)[ =]+(?:12|13)\b", "network"),
    (r"Got completion .*(?:status|error)[ =]+\d+", "peer"),
    (r"ibv_(?:modify|create|reg|open|alloc|poll)\w* failed", "network"),
    (r"No (?:IB |network )?(?:device|interface)s? found|No usable listening interface", "network"),
    (r"connection closed by remote peer|socketProgress|Connection (?:reset|refused)", "peer"),
    (r"Call to (?:connect|bind|recv|send|accept)\b|[Tt]imed? ?out|Timeout", "peer"),
    (r"system not (?:yet )?initialized|driver version is insufficient", "setup"),
    (r"\bshm\b|shared memory segment|No space left|Cannot allocate memory", "setup"),
    (r"Cuda failure|CUDA error|cuda\w+ failed", "cuda"),
    (r"iommu=pt|NUMA auto balancing|ACS|RO is enabled|memlock|LD_LIBRARY_PATH|NCCL_\w+", "hint"),
)


def readings(part: Part) -> list[Reading]:
    """Return a row of each warning; one that gpuscan does not know has no kind.

    CUDA's errors in them are readings of their own, as in any program's output.

    >>> line = "pod:420:437 [5] transport/nvls.cc:379 NCCL WARN Failed to bind NVLink SHARP (NVLS)"
    >>> readings(Part("NCCL warnings", line))[0].value[0][:2]
    ['GPU 5', 'nvls-setup']
    """
    lines = [_line(line) for line in part.text.splitlines() if WARN.search(line)]
    return [*reading(NCCL_WARNINGS, lines), *cuda_readings(part)]


def _line(line: str) -> Line:
    hit = WARN.search(line)
    text = hit["text"].strip() if hit else ""
    rank = RANK.search(line)
    part = f"GPU {rank['device']}" if rank else "node"
    source = f"{SOURCE.findall(line)} {text}"
    kind = next((kind for pattern, kind in KINDS if re.search(pattern, source)), "")
    kind = "judged" if kind == "cuda" and cuda_error(line) else kind
    return Line(part, kind, text)


IMPORTER = Importer(
    name="NCCL warnings",
    reads="NCCL warnings in a job's log",
    readings=readings,
    claims=re.compile(r"\bNCCL WARN "),
)
