"""What diagnostic programs print: `dcgmi`, nvbandwidth, nccl-tests, gpu_burn, perftest.

Each becomes the reading of the program's run, as a burn-in records it, and is parsed by the same
code.
"""

import re
from collections.abc import Callable

from gpuscan.importers.part import Importer, Part, answer, begins_with
from gpuscan.recording import Reading
from gpuscan.recording.keys import command

# a line of pretty-printed JSON, or of a table
JSON_OR_TABLE = re.compile(r'^\s*(?:["{}\[\]|]|\+[-=]|-?\d+,?$|(?:true|false|null),?$)')
NCCL_COMMENT = (
    r"^#\s*(?:nThread \d|nccl-tests version|Collective test |Using devices|Rank +\d+ .*\bdevice\b"
    r"|size +count |\(B\) |out-of-place |Out of bounds values|Avg bus bandwidth)"
)


def _output(key: str) -> Callable[[Part], list[Reading]]:
    """Return a reader of a program's output as its run's reading; the exit code is not known."""

    def readings(part: Part) -> list[Reading]:
        run = {"stdout": part.text, "stderr": "", "exit_code": 0}
        return [answer(command(key), run)]

    return readings


DCGM_DIAG = Importer(
    name="dcgmi diag",
    reads="dcgmi diag (table, JSON)",
    readings=_output("dcgmi diag"),
    commands=r"\bdcgmi diag\b",
    owns=r"\bdcgmi diag\b",
    begins=begins_with(
        r'"DCGM (?:GPU )?Diagnostic"|^\s*\| Diagnostic +\| Result +\||^\s*[|+]-----  \w+  -+\+-'
        r"|^Successfully ran diagnostic for group|\bUnable to complete diagnostic for group"
        r"|^Error: Diagnostic "
    ),
    continues=lambda line: JSON_OR_TABLE.match(line) is not None,
)
DCGM_HEALTH = Importer(
    name="dcgmi health",
    reads="dcgmi health -c",
    readings=_output("dcgmi health"),
    commands=r"\bdcgmi health\b",
    begins=begins_with(
        r"^\s*\| Health Monitor Report|^\s*\| Overall Health +\||[Uu]nable to check health watches"
        r"|Health watches not enabled"
    ),
    continues=lambda line: JSON_OR_TABLE.match(line) is not None,
)
NVBANDWIDTH = Importer(
    name="nvbandwidth",
    reads="nvbandwidth (text, JSON)",
    readings=_output("nvbandwidth"),
    commands=r"\bnvbandwidth\b",
    begins=begins_with(
        r'"nvbandwidth" ?: ?\{|^nvbandwidth Version: |^SUM \w+_(?:ce|sm|copy) [\d.]+'
        r"|^Running \w*(?:device|host|all)\w*_(?:ce|sm|copy)\.\s*$"
        r"|Invalid value when checking the pattern"
    ),
    continues=lambda line: JSON_OR_TABLE.match(line) is not None,
)
NCCL_TESTS = Importer(
    name="nccl-tests",
    reads="nccl-tests",
    readings=_output("nccl-tests"),
    commands=r"\b(?:all_reduce|all_gather|alltoall|broadcast|reduce|reduce_scatter|sendrecv"
    r"|gather|scatter|hypercube)_perf\b",
    claims=re.compile(NCCL_COMMENT),
)
GPU_BURN = Importer(
    name="gpu_burn",
    reads="gpu_burn",
    readings=_output("gpu_burn"),
    commands=r"\bgpu[_-]burn\b",
    claims=re.compile(
        r"^\s*GPU \d+: (?:OK|FAULTY)\s*$|\bproc'd: .* errors: |^Tested \d+ GPUs?:"
        r"|^No clients are alive!"
    ),
)
WRITE_BW = Importer(
    name="ib_write_bw",
    reads="ib_write_bw, ib_write_lat",
    readings=_output("ib_write_bw"),
    commands=r"\bib_write_bw\b",
    claims=re.compile(r"^\s*RDMA_Write BW Test|^\s*#bytes +#iterations +BW peak"),
)
WRITE_LAT = Importer(
    name="ib_write_lat",
    reads="ib_write_bw, ib_write_lat",
    readings=_output("ib_write_lat"),
    commands=r"\bib_write_lat\b",
    claims=re.compile(r"^\s*RDMA_Write Latency Test|^\s*#bytes +#iterations +t_min\[usec\]"),
)
IMPORTERS = (DCGM_DIAG, DCGM_HEALTH, NVBANDWIDTH, NCCL_TESTS, GPU_BURN, WRITE_BW, WRITE_LAT)
