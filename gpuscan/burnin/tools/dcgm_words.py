"""What DCGM's codes, sentences and words mean, whether its JSON or its tables carry them."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from gpuscan import catalogue
from gpuscan.model import is_unread
from gpuscan.model.burnin import Ending
from gpuscan.model.outcome import Action

ENDS = {
    Ending.RAN: ("pass", "passed"),
    Ending.FAILED: ("fail", "failed", "error"),
    Ending.WARNED: ("warn", "warning"),
}
SKIPS = ("skip", "skipped", "not run")
RAN, SKIPPED, WARNED, GARBLED, FAILED = range(5)
# The sentence of each code without its blanks, as a table breaks words (DCGM's dcgm_errors.h). Only
# those whose meaning is certain: a link that is "down" may be one that this card does not have.
SENTENCES = {
    3: r"morethan\d+PCIereplaysperminute",
    4: r"Detected\d+volatiledouble-biterror|Detected\d+volatiledouble-bitECCerror",
    6: r"pendingretiredpage(?:has|s)",
    7: r"ormoreretiredpageshavebeendetected",
    8: r"retiredpagesduetoDBEs",
    9: r"corruptInfoROM",
    29: r"PersistencemodeforGPU\d+isdisabled",
    46: r"isrunningatPCIlinkwidth",
    52: r"faultymemoryelementsonGPU",
    55: r"becauseECCisnotenabledonGPU",
    57: r"indicatedthatadouble-bitECCerror",
    58: r"memorymismatchwasdetectedonGPU",
    61: r"ECCmemoryforGPU\d+isinapendingstate",
    70: r"NvLinkerrorsfoundoccuringpersecond",
    71: r"NvLinkerrorsonGPU\d+'sNVLink\(shouldbe0\)",
    79: r"miscomparefailureintheL1cache",
    80: r"rowremappingfailed",
    81: r"uncontainederror\(XID95\)",
    83: r"PendingpageretirementstogetherwithaDBE",
    84: r"uncorrectablememoryerrorsand\d+rowswereremapped",
    85: r"rowremappingsarepending",
    98: r"host-sidePCIereplayviolation",
    111: r"NaN-valuememoryelements",
}
CODES = {code: re.compile(sentence, re.IGNORECASE) for code, sentence in SENTENCES.items()}


class DcgmOutcome(NamedTuple):
    """What a test said of one entity: as in BurnTest."""

    ended: Any
    text: str = ""
    action: str = ""


def ending(word: str) -> Ending | None:
    """Return what a status word says, None for one that says nothing.

    >>> ending("Fail"), ending("Queued")
    (<Ending.FAILED: 'failed'>, None)
    """
    low = word.strip().lower()
    return next((ended for ended, known in ENDS.items() if low in known), None)


def code_name(code: Any) -> str:
    """Return a code and its name: `DCGM code 80 ROW_REMAP_FAILURE`."""
    try:
        return f"DCGM code {code} {catalogue.entry(f'dcgm:{code}').name}"
    except KeyError:
        return f"DCGM code {code}"


def code_action(code: Any) -> Action:
    """Return what the catalogue asks for a code; one that it does not have is to investigate."""
    try:
        return catalogue.entry(f"dcgm:{code}").action
    except KeyError:
        return Action.INVESTIGATE


def heaviest(codes: Iterable[Any]) -> str:
    """Return the heaviest action that the codes ask for, "" without any."""
    return max(map(code_action, codes), key=lambda each: each.rank).value if codes else ""


def codes_in(text: str) -> list[int]:
    """Return the codes whose sentences a message holds.

    >>> codes_in("GPU 0 had uncorrectable memory errors and row remapp ing failed.")
    [80]
    """
    bare = re.sub(r"\s+", "", text)
    return [code for code, sentence in CODES.items() if sentence.search(bare)]


def weight(said: DcgmOutcome) -> int:
    """Return the rank of an outcome, the worst last."""
    if is_unread(said.ended):
        return GARBLED if said.ended.kind == "garbled" else SKIPPED
    return {Ending.RAN: RAN, Ending.WARNED: WARNED, Ending.FAILED: FAILED}[said.ended]
