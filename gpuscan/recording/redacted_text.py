"""Redact free text, as log lines: what is known to name nobody stays, all else is replaced."""

import re
from collections.abc import Callable
from functools import cache
from importlib import resources

Replace = Callable[[str], str]

OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
# what names a machine or a part by its shape, beyond UUIDs and addresses
LONG = (
    r"(?:iqn|nqn|eui|naa)[.-][\w.:-]+|[\w.+-]+@[\w.:-]+"
    r"|(?<![0-9a-zA-Z])(?:[0-9a-f]{2}-){5,19}[0-9a-f]{2}(?![0-9a-zA-Z])"  # MAC with dashes
    r"|(?<![0-9a-zA-Z])(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}(?![0-9a-zA-Z])"  # and as switches write it
    r"|(?<![0-9a-fA-F:.])(?:[0-9a-f]{1,4}:){1,7}:(?:/\d+)?(?!\w)"  # the prefix of a network
    r"|(?:0x)?(?<![1-9a-zA-Z])[0-9a-f]{12,}(?![0-9a-zA-Z])|(?<![0-9a-zA-Z.])\d{10,}(?![0-9a-zA-Z.])"
    rf"|(?<![\d.])(?:{OCTET}\.){{3}}{OCTET}(?!\.?\w)"  # an IPv4 address behind a letter
)
# and what names none: PCI addresses, times, stamps, versions, vendor and device
PLAIN = (
    r"(?<![\w.:])(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?(?!\w|:[0-9a-f])"
    r"|(?<![\w.])\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![\w.])\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?!\w)|(?<![\w.])\d{1,10}\.\d{3,9}(?![\w.])"
    r"|\[[0-9a-f]{4}:[0-9a-f]{4}\]|scsi host\d+"
)
WORD = r"\w(?:[\w.+-]*\w)?"
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


@cache
def _patterns(secret: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of secrets, and that of secrets, of what is plain and of words."""
    secrets = f"{secret}|{LONG}"
    whole = f"(?P<secret>{secrets})|(?P<plain>{PLAIN})|(?P<word>{WORD})"
    return re.compile(secrets, re.IGNORECASE), re.compile(whole, re.IGNORECASE)


def redact_words(text: str, secret: str, replace: Replace) -> str:
    """Return *text* with all that *secret* (a pattern) matches, and each word that is not known to
    name nobody, replaced; punctuation, numbers, PCI addresses, times and versions stay.
    """
    secrets, whole = _patterns(secret)

    def stand_in(hit: re.Match[str]) -> str:
        word = hit[0]
        if hit.lastgroup == "plain" or (hit.lastgroup == "word" and is_plain(word)):
            return word
        if _is_size(word):
            return word
        if hit.lastgroup == "word" and all(map(is_plain, _around(secrets, word))):
            return secrets.sub(lambda part: replace(part[0]), word)  # GPU-UUID, nvme-SERIAL
        return replace(word)

    return whole.sub(stand_in, text)


def _around(secrets: re.Pattern[str], word: str) -> list[str]:
    """Return the words around the secrets in a compound word, all of it where there is none."""
    if not secrets.search(word):
        return [word]
    return re.findall(r"[^\W_]+", secrets.sub(" ", word))


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
