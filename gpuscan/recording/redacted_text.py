"""Redact free text, as log lines: what is known to name nobody stays, all else is replaced."""

import re
from collections.abc import Callable
from functools import cache
from importlib import resources

from gpuscan.recording.shapes import Names

Replace = Callable[[str], str]

# what names nobody: PCI addresses, times, stamps, versions, vendor and device
PLAIN = (
    r"(?<![\w.:])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?(?!\w|:[0-9a-f])"
    r"|(?<![\w.])\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![\w.])\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?!\w)|(?<![\w.])\d{1,10}\.\d{3,9}(?![\w.])"
    r"|\[[0-9a-f]{4}:[0-9a-f]{4}\]|scsi host\d+"
)
WORDS = re.compile(rf"(?P<plain>{PLAIN})|(?P<word>\w(?:[\w.+-]*\w)?)", re.IGNORECASE)
DEVICE = re.compile(
    r"(?:mlx\d|nvme|eth|ibp?|en[ops]|eno|sd[a-z]|md|dm-|loop|gpu|cpu|nvidia|nvidia-nvswitch|nvswitch"
    r"|nvlink|link|zone|thermal_zone|lane|channel|mc|dimm|cs|csrow|row|rank|bank|slot|port|ring"
    r"|sxm|rail|irq|hwmon|bond|vlan|usb|ata|lo|tty|ttys|ch|v|r|b|x|pci|igb|ixgbe|mce|xid|sxid"
    r"|rev|irqs|sms|gpc|tpc|sm|fbpa|ltc|hub|mmu|ce|ras|level|code|type|class|id)"
    r"(?:_?\d{1,4})(?:[a-z_]{1,4}\d{1,4}){0,4}[a-z]?",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"[+-]?(?:0x)?(?:[0-9a-f]{1,8}|\d{1,9})|\d+(?:\.\d+)?(?:[kmgt]i?b?|[kmg]?hz|[gm]t|ms|us|ns|s|m|c|w|v|x|th|nd|st)"
    r"|\d{1,4}(?:\.[0-9a-f]{1,4}){1,5}(?:-\d+)?|x\d{1,2}|\d{1,9}(?:[.+-]\d{1,6}){1,3}",
    re.IGNORECASE,
)
HEXADECIMAL_WORD = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{5,8}", re.IGNORECASE)
# what follows these words is a name, whatever it looks like
NAMED = re.compile(
    r"(?:(?<!\w)SN(?: ?[:=] ?)?|serial(?: ?n(?:umber|o))?\.?[ :=#]+|hostname[ :=]+|host="
    r"|user[:=] ?|(?<=nfs: )server |lockd: server |asset(?:[ _]tag)?[ :=]+"
    r"|domain(?:name)?[:=] ?|\bpod[ :=]|set hostname to )[<\"'(]?([\w.+-]*\w)",
    re.IGNORECASE,
)
NO_NAMES = frozenset(("is", "not", "number", "of", "the", "for", "has", "was", "none", "unknown"))


@cache
def known_words() -> frozenset[str]:
    """Return the words of the kernel, of the driver and of gpuscan, in lower case: they name
    nobody.
    """
    text = (resources.files("gpuscan.recording") / "words.txt").read_text("utf-8")
    return frozenset(text.split())


def find_named(text: str) -> set[str]:
    """Return the names that the words before them give away, in any text."""
    return {name for name in NAMED.findall(text) if name.lower() not in NO_NAMES}


def redact_words(text: str, names: Names, replace: Replace) -> str:
    """Return *text* with all that is one of *names*, and each word that is not known to name
    nobody, replaced; punctuation, numbers, PCI addresses, times and versions stay.
    """
    told, at = [], 0
    for start, end in names.spans(text):
        name = text[start:end]
        told += [
            _redact_between(text, at, start, replace),
            name if _is_size(name) else replace(name),
        ]
        at = end
    return "".join((*told, _redact_between(text, at, len(text), replace)))


def _redact_between(text: str, start: int, end: int, replace: Replace) -> str:
    """Redact the words between two names, as `GPU-` before a UUID."""

    def stand_in(hit: re.Match[str]) -> str:
        return hit[0] if hit.lastgroup == "plain" or is_plain(hit[0]) else replace(hit[0])

    return WORDS.sub(stand_in, text[start:end])


def _is_size(word: str) -> bool:
    """Return whether a long number is a power of two: a size in bytes, and no serial number."""
    return word.isdecimal() and word.isascii() and int(word).bit_count() == 1


def is_plain(word: str) -> bool:
    """Return whether a word names nobody.

    >>> [is_plain(word) for word in ("fallen", "0x1f", "580.159.04", "mlx5_0", "gpu-node-17")]
    [True, True, True, True, False]
    """
    if word.lower() in known_words():
        return True
    if HEXADECIMAL_WORD.fullmatch(word):
        return False
    return bool(NUMBER.fullmatch(word) or DEVICE.fullmatch(word))
