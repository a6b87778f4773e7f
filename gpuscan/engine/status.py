"""The status of one check on one subject: derived from what it found and what it could not read."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuscan.engine.lens import FactLog
from gpuscan.model import Unread
from gpuscan.model.gpu import ALWAYS_READ
from gpuscan.model.outcome import HARMLESS, Finding, SkipReason, Status
from gpuscan.profile import Profile
from gpuscan.profile.keys import is_choice

SKIP_REASONS = {
    "not-recorded": SkipReason.NOT_RECORDED,
    "not-supported": SkipReason.NOT_SUPPORTED,
    "too-old-driver": SkipReason.NEEDS_DRIVER,
}
LISTS = (
    "gpus",
    "ports",
    "app_errors",
    "complaints",
    "bmc_events",
    "host_errors",
    "nccl_warnings",
    "daemon_errors",
    "link_quality",
)  # of the node; empty where it has no such part
Gap = tuple[str, Unread]  # a fact's path, and why it was not read


class Outcome(NamedTuple):
    """A status, the sentence for it, and the reason of a skip."""

    status: Status
    reason: str = ""
    skip_reason: SkipReason | None = None


def derive_status(findings: Sequence[Finding], gaps: Sequence[Gap], profile: Profile) -> Outcome:
    """Return a proven failure, else what was not read, else a warning, else a pass."""
    if any(finding.severity is Status.FAIL for finding in findings):
        return Outcome(Status.FAIL)
    needed = [(path, unread) for path, unread in gaps if not _is_harmless(path, unread, profile)]
    if needed:
        return Outcome(Status.UNKNOWN, _describe(needed))
    if findings:
        return Outcome(Status.WARN)
    if gaps:
        return Outcome(Status.SKIP, _describe(gaps), SKIP_REASONS[gaps[0][1].kind])
    return Outcome(Status.PASS)


def open_expectation(name: str, profile: Profile) -> Outcome:
    """Return the outcome of a check whose expectation the profile leaves open.

    It is a skip where the profile vouches for the machine, or where only the owner can want a
    value; elsewhere nobody said what is right, and the outcome is unknown.
    """
    if (profile.vouches and name not in profile.unvouched) or is_choice(name):
        reason = f"not judged: profile {profile.name} leaves {name} open"
        return Outcome(Status.SKIP, reason, SkipReason.NOT_JUDGED)
    return Outcome(
        Status.UNKNOWN,
        f"no expectation for {name}: name a profile, or use --set {name}=…",
    )


def saw_only_empty_lists(log: FactLog) -> bool:
    """Return whether a check saw only empty lists of parts, which no expectation asked for."""
    return bool(log.reads) and all(seen.fact in LISTS and not seen.value for seen in log.reads)


WHOLE_SENTENCES = (".what", ".new")  # facts of a change whose text names the part


def _is_harmless(path: str, unread: Unread, profile: Profile) -> bool:
    """Return whether a gap is a skip: out of scope, or beyond this hardware or driver."""
    required = any(_covers(path, fact) for fact in (*profile.data["capabilities"], *ALWAYS_READ))
    if unread.kind == "not-supported":
        return path.startswith(("gpus[", "changes[")) and not required
    return unread.kind in HARMLESS and not (unread.kind == "too-old-driver" and required)


def _covers(path: str, capability: str) -> bool:
    """Return whether a capability includes the fact at *path*.

    `nvlinks` includes all facts of a link, `nvlinks.active` that one alone.
    """
    fact = f"{capability_of(path)}."
    return fact.startswith(f"{capability}.") or f"{capability}.".startswith(fact)


def capability_of(path: str) -> str:
    """Return the fact of a GPU that a path leads to, without labels.

    >>> capability_of("gpus[SXM6].nvlinks[3].active")
    'nvlinks.active'
    """
    return re.sub(r"\[[^]]*\]", "", path.partition("].")[2] or path)


def _describe(gaps: Sequence[Gap]) -> str:
    path, unread = gaps[0]
    more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
    kind = unread.kind.replace("-", " ")
    if path.startswith("changes[") and path.endswith(WHOLE_SENTENCES):
        return f"{kind}: {unread.text}{more}"
    return f"{kind}: {path or 'node'} ({unread.text}){more}"
