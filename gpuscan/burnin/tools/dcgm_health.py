"""The report of `dcgmi health -c`: what DCGM's watches say of each GPU, system by system.

A tree in a table: `| -> 0 | Warning |` is a GPU, `|       -> Memory system | Warning |` below it a
system, and cells without a name continue its message. A warning whose code asks for a reset or a
part (a pending row remap) is judged by that: it is a state of the GPU, whatever DCGM calls it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuscan.burnin.tools.dcgm_table import ROW
from gpuscan.burnin.tools.dcgm_words import code_name, codes_in, heaviest
from gpuscan.burnin.tools.output import Output, brief, by_index, record
from gpuscan.model.burnin import BurnTest, Ending
from gpuscan.model.outcome import Action

GRADES = {"Healthy": Ending.RAN, "Warning": Ending.WARNED, "Failure": Ending.FAILED}
OVERALL = "Overall Health"
REPORT = re.compile(rf"Health Monitor Report|\| {OVERALL} ")
ENTITY = re.compile(r"^-> (\d+)$")
SYSTEM = re.compile(r"^-> (\D.*)$")
HEADINGS = ("Errors",)


class Incident(NamedTuple):
    """What a watch says of one system of an entity; the message grows while it is read."""

    group: str
    id: str
    watch: str
    grade: str
    words: list[str]


def parse(output: Output) -> list[BurnTest]:
    """Make one record an incident, or one of the node where all is healthy.

    Raises ValueError where the overall result lacks, or says what no incident explains.
    """
    rows = [
        (hit["left"].strip(), hit["right"].strip())
        for hit in map(ROW.match, output.stdout.splitlines())
        if hit
    ]
    overall = next((right for left, right in rows if left == OVERALL), "")
    incidents = list(_incidents(rows))
    if overall == "Healthy" and not incidents:
        return [record(output, ended=Ending.RAN)]
    records = [_record(output, incident) for incident in incidents]
    if overall == "Failure" and not any(one.grade == "Failure" for one in incidents):
        records.append(_untold(output))
    if not records:
        raise ValueError(f"DCGM's overall health reads {overall!r}, and nothing explains it")
    return records


def _untold(output: Output) -> BurnTest:
    text = "DCGM reports a failure, and the text does not say which"
    return record(output, ended=Ending.FAILED, text=text)


def _incidents(rows: list[tuple[str, str]]) -> Iterator[Incident]:
    group, id_, open_one = "GPU", "", None
    for left, right in rows:
        if left in ("", OVERALL):
            if open_one is not None and not left:
                open_one.words.append(right)
            continue
        if open_one is not None:
            yield open_one
        open_one = None
        if hit := ENTITY.match(left):
            id_ = hit[1]
        elif (hit := SYSTEM.match(left)) and hit[1] not in HEADINGS:
            open_one = Incident(group, id_, hit[1], right, [])
        elif not left.startswith("->"):
            group, id_ = left, ""
    if open_one is not None:
        yield open_one


def _record(output: Output, incident: Incident) -> BurnTest:
    gpu = by_index(output, int(incident.id)) if incident.group == "GPU" and incident.id else None
    whose = "" if gpu is not None else f"{incident.group} {incident.id}".strip()
    part = f"{incident.watch} {whose}".strip()
    ended = GRADES.get(incident.grade)
    message = " ".join(incident.words)
    if ended is None:
        lack = output.unread("garbled", f"DCGM's grade {incident.grade!r} says nothing")
        return record(output, part, gpu, ended=lack)
    codes = codes_in(message)
    action = heaviest(codes)
    if ended == Ending.WARNED and _is_state(action):
        ended = Ending.FAILED
    names = [code_name(code) for code in codes]
    text = "; ".join([*names, message] if message else [*names, f"DCGM says {incident.grade}"])
    return record(output, part, gpu, ended=ended, text=brief(text), action=action)


def _is_state(action: str) -> bool:
    """Return whether a code tells a state that waits for a cure, rather than counts events."""
    return action not in ("", Action.INSPECT.value) and (
        Action(action).rank >= Action.RESET_GPU.rank
    )
