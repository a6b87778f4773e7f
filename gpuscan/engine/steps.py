"""What to do about a report's failures: one step for each action and kind of part, the worst first,
in the words that are right for that kind.
"""

from typing import NamedTuple

from gpuscan.engine.blame import Target, find_targets
from gpuscan.engine.case import HOLD_CHECK, SWAP
from gpuscan.engine.report import Report
from gpuscan.model.outcome import ACTIONS, Action, Finding, Result, Status
from gpuscan.model.report_rows import ChangeRow
from gpuscan.model.todo import SENTENCES, Sentences

AREAS = {"infiniband": "port", "disk": "disk"}
CHECKS = {
    "infiniband.port_count": "nic",
    "infiniband.hcas": "nic",
    "infiniband.pcie_link": "nic",
    "inventory.known_parts": "nic",
    "host.memory_errors": "memory",
}
ENTRIES = {  # the first word of an incident's entry in the catalogue
    "edac": "memory",
    "apei": "host",
    "mce": "host",
    "mlx5": "nic",
    "nvme": "disk",
    "md": "disk",
    "fs": "disk",
}
OF_PORTS = ("mlx5:link-down", "mlx5:carrier-lost", "mlx5:cable", "mlx5:module")
OPTIONS = {  # of nvidia-smi, for what a check expects of a GPU's settings
    "modes.mig": "-mig",
    "modes.persistence": "-pm",
    "memory.ecc_mode": "-e",
    "power.limit": "-pl",
}
AT_RESET = ("modes.mig", "memory.ecc_mode")  # take effect then
VERIFIED = "gpuscan swap verify passes."
OF_SWAPS = "swap."  # begins the ids of the checks of a swap
PULL = "Change the part that gpuscan swap begin names, then run gpuscan swap verify."
PUT_RIGHT = "Put the parts where gpuscan swap verify asked for them, then run it again."
OF_SLOTS = ("swap.named_part", "swap.other_parts")  # whether the right part was changed


class Step(NamedTuple):
    """One thing to do: its action, what to do and how to see that it worked, and the parts that it
    is for, none where it is for the node.
    """

    action: Action
    todo: str
    proof: str
    targets: tuple[Target, ...]


def find_steps(report: Report) -> tuple[Step, ...]:
    """Return all that is to be done, worst first."""
    kinds = {row.slot: row.kind for row in report.changes}
    found: dict[tuple[Action, Sentences], dict[str, Target]] = {}
    for result in report.results:
        for finding in result.findings if result.status is Status.FAIL else ():
            if finding.severity is Status.FAIL:
                told = _sentences(result, finding, report)
                targets = find_targets(result, finding, report.parts, kinds)
                mine = found.setdefault((finding.action, told), {})
                mine.update((target.subject, target) for target in targets)
    order = sorted(found.items(), key=lambda item: -item[0][0].rank)
    return tuple(
        Step(action, told.todo, told.proof, tuple(targets.values()))
        for (action, told), targets in order
    )


def _sentences(result: Result, finding: Finding, report: Report) -> Sentences:
    if result.check in OF_SLOTS and (todo := _put_right(report.changes)):
        return Sentences(todo, VERIFIED)
    about = result.about
    held = finding.same if result.check == HOLD_CHECK else ""
    if held.startswith(OF_SWAPS):
        return Sentences(PULL if held == SWAP else PUT_RIGHT, VERIFIED)
    if finding.action is Action.FIX_CONFIG and (command := _command(result.check, finding)):
        return Sentences(command, sentences("", finding.action).proof)
    kind = kind_of(held, about.kind) or kind_of(result.check, about.kind, about.entry)
    return sentences(kind, finding.action)


def _command(check: str, finding: Finding) -> str:
    """Return the command that sets a GPU as the profile expects it, "" where none is known."""
    value = finding.expected
    if check not in OPTIONS or not isinstance(value, (bool, int, float)):
        return ""
    command = f"nvidia-smi -i ADDRESS {OPTIONS[check]} {float(value):g}"
    reset = ", then reset the GPU: nvidia-smi --gpu-reset -i ADDRESS" if check in AT_RESET else ""
    return f"Set what the profile expects: {command}{reset}."


def sentences(kind: str, action: Action) -> Sentences:
    """Return what to do and how to see that it worked, for an action on a kind of part."""
    row = ACTIONS[action]
    return SENTENCES.get((kind, action), Sentences(row.todo, row.proof))


def kind_of(check: str, subject: str = "", entry: str = "") -> str:
    """Return the kind of part that a finding asks to work on: gpu, port, nic, disk, memory, host;
    "" where the table's own sentences are meant.
    """
    if entry:
        return "port" if entry.startswith(OF_PORTS) else ENTRIES.get(entry.partition(":")[0], "")
    if check == HOLD_CHECK and subject in ("port", "disk"):
        return subject
    return CHECKS.get(check, AREAS.get(check.partition(".")[0], ""))


def _put_right(rows: tuple[ChangeRow, ...]) -> str:
    """Return what puts a swap right in which another part than the named one was changed."""
    strangers = [row for row in rows if row.what in ("replaced", "moved") and not row.expected]
    due = [row for row in rows if _is_due(row)]
    if not strangers or any(row.kind == "cable" for row in strangers):
        return f"Change {_names(due)}, then run gpuscan swap verify." if due else ""
    back = " and ".join(f"{_identity(row)} back into {row.slot}" for row in strangers)
    change = f", change {_names(due)}" if due else ""
    named = " ".join(f"--expect {row.kind}:{row.slot}" for row in strangers)
    return (
        f"Put {back}{change}, then run gpuscan swap verify. If that was meant to be changed, name"
        f" it: {named}."
    )


def _is_due(row: ChangeRow) -> bool:
    """Return whether a part is still to be replaced: the old one is there, or nobody can tell."""
    return row.expected and row.what in ("same", "unknown") and not row.reseated


def _names(rows: list[ChangeRow]) -> str:
    return " and ".join(f"{row.slot} ({_identity(row)})" for row in rows)


def _identity(row: ChangeRow) -> str:
    return str(row.before.get("identity") or "the former part")
