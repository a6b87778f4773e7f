"""Other programs that a burn-in runs where they are on PATH: which ones a level asks for, and what
they said.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gpuscan.burnin.tools import dcgm, dcgm_health, nvbandwidth
from gpuscan.burnin.tools import text as tooltext
from gpuscan.burnin.tools.output import ODDITIES, Absent, Output, lacking, record
from gpuscan.model import Gpu, Unread, is_unread
from gpuscan.model.burnin import BurnTest, Ending
from gpuscan.recording import Recording

# the last word of a command that is started twice, as server and as client, on this machine
LOOPBACK = "loopback"
LAWLESS = ("gpu_burn",)  # its exit code tells nothing


class Tool(NamedTuple):
    """A program's run: *name* for people, its reading's *key* (`run:dcgmi diag -r 2 -j`), when it
    is too slow, its usual time.
    """

    name: str
    key: str
    limit_s: float
    usual_s: float = 0.0


class _Known(NamedTuple):
    """A command as it is asked for: at which levels, how long it takes as a rule, and when it is
    too slow.
    """

    levels: tuple[str, ...]
    command: str
    usual_s: float
    limit_s: float


PARSERS: dict[
    str, tuple[str, Callable[[Output], list[BurnTest]]]
] = {  # how a command begins -> name and parser
    "dcgmi diag": ("dcgmi-diag", dcgm.parse),
    "dcgmi health": ("dcgmi-health", dcgm_health.parse),
    "nvbandwidth": ("nvbandwidth", nvbandwidth.parse),
    "all_reduce_perf": ("all_reduce_perf", tooltext.nccl),
    "nccl-tests": ("nccl-tests", tooltext.nccl),
    "gpu_burn": ("gpu_burn", tooltext.gpu_burn),
    "ib_write_bw": ("ib_write_bw", tooltext.write_bw),
    "ib_write_lat": ("ib_write_lat", tooltext.write_lat),
}
BOTH = ("medium", "long")
# times: DCGM's documented 2 and 15 minutes, of which AWS reports 10 and 45 for eight GPUs; the
# others as asked for
KNOWN = (
    _Known(("quick",), "dcgmi diag -r 1 -j", 10, 60),
    _Known(("medium",), "dcgmi diag -r 2 -j", 150, 660),
    _Known(("long",), "dcgmi diag -r 3 -j", 900, 3600),
    _Known(BOTH, "nvbandwidth -j", 90, 600),
    _Known(BOTH, "all_reduce_perf -b 1G -e 1G -f 2 -g {gpus} -c 1", 20, 120),
    _Known(BOTH, "ib_write_bw -d {hca} -F --report_gbits -s 1048576 -D 5 loopback", 7, 30),
    _Known(BOTH, "ib_write_lat -d {hca} -F -s 8 -n 10000 loopback", 3, 30),
    _Known(("long",), "gpu_burn -m 90% -tc 300", 315, 420),
)


def wanted(level: str, gpus: int, hcas: Sequence[str], left_s: float) -> list[Tool]:
    """Return the runs that a level asks for, in their order; what usually takes longer than is left
    of *left_s* is left out.

    *hcas* are the ports with a link that is up (`mlx5_0`, `mlx4_0 -i 2`). Nothing is asked for at
    the level `passive`.
    """
    tools = []
    for known in KNOWN:
        if level not in known.levels or ("{gpus}" in known.command and gpus < 2):
            continue
        for hca in hcas if "{hca}" in known.command else ("",):
            if known.usual_s > left_s:
                continue
            key = f"run:{known.command.format(gpus=gpus, hca=hca)}"
            tools.append(Tool(_parser(key)[0], key, min(known.limit_s, left_s), known.usual_s))
            left_s -= known.usual_s
    return tools


def is_tool(key: str) -> bool:
    """Tell whether a reading is of a program that this module knows."""
    return any(key == f"run:{begins}" or key.startswith(f"run:{begins} ") for begins in PARSERS)


def tests(recording: Recording, gpus: Iterable[Gpu]) -> list[BurnTest]:
    """Make the records of all programs that a recording has run, in their order, each with a label
    of its own.
    """
    return [made for _, made in keyed(recording, gpus)]


def keyed(
    recording: Recording, gpus: Iterable[Gpu], asked: Sequence[str] = ()
) -> list[tuple[str, BurnTest]]:
    """Return the records with the keys of their readings; those that were *asked* for have one in
    any case.

    A program that is not on PATH, gave no answer, or printed what makes no sense has one record,
    each fact of which is the reason; nothing that it may have said counts as passed then.
    """
    known = () if is_unread(gpus) else tuple(gpus)
    records = [
        (key, made)
        for key in dict.fromkeys([*asked, *recording.keys()])
        if is_tool(key)
        for made in _made(recording, key, known)
    ]
    seen: Counter[str] = Counter()
    distinct = []
    for key, made in records:
        seen[made.label] += 1
        again = seen[made.label] > 1
        distinct.append(
            (key, made._replace(label=f"{made.label} ({seen[made.label]})") if again else made)
        )
    return distinct


def _parser(key: str) -> tuple[str, Callable[[Output], list[BurnTest]]]:
    return next(found for begins, found in PARSERS.items() if key.startswith(f"run:{begins}"))


def _made(recording: Recording, key: str, gpus: tuple[Gpu, ...]) -> list[BurnTest]:
    """Return the records of a program's newest run; of all that were pasted, if it was imported."""
    absent = Unread(key, "blocked-behind", "not run: the burn-in ended before")
    newest: Any = recording.get(key) if key in recording else absent
    seconds = sum(reading.ms for reading in recording.all(key)[-1:]) / 1000
    output = Output(key, _parser(key)[0], "", "", 0, seconds, gpus)
    if recording.meta.imported is None:
        return _parsed(output, newest, absent="not-recorded")
    pasted = [reading.value for reading in recording.all(key)]
    return [made for value in pasted for made in _parsed(output, value, absent="garbled")]


def _parsed(output: Output, value: Any, absent: str) -> list[BurnTest]:
    """Return the records of one run; *absent* is what it is where the program lacked a service."""
    name, parse = _parser(output.key)
    part = tooltext.device(output)
    if is_unread(value):
        return [lacking(output, _lack(value), part)]
    try:
        output = output._replace(
            stdout=str(value["stdout"]),
            stderr=str(value.get("stderr", "")),
            exit_code=int(value["exit_code"]),
        )
        records = parse(output)
    except Absent as error:
        return [lacking(output, output.unread(absent, f"{name}: {error}"), part)]
    except ODDITIES as error:
        return [lacking(output, output.unread("garbled", f"{name}: {error}"), part)]
    told = any(
        made.ended.kind != "not-recorded" if is_unread(made.ended) else made.ended == Ending.FAILED
        for made in records
    )
    if output.exit_code and not told and name not in LAWLESS:
        contrary = output.unread(
            "garbled",
            f"{name} says of nothing that it failed, and ends with exit code {output.exit_code}",
        )
        records.append(record(output, "exit code", ended=contrary))
    return records


def _lack(value: Unread) -> Any:
    program = value.key.removeprefix("run:").split()[0]
    return (
        value._replace(kind="not-recorded", text=f"{program} is not on PATH")
        if value.kind == "not-found"
        else value
    )
