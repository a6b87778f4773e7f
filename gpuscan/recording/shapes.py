"""What names a machine or a part by its shape, in any text: UUIDs, GUIDs, addresses."""

import re
from collections.abc import Iterator
from functools import cache

OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?![0-9a-f])(?!:[0-9a-f]{2}:)"
# Four groups of hex digits or more, twelve digits in all: a UUID, MAC, GUID, GID or IPv6 address in
# any spelling, by itself or glued to a word. The first group has two digits, so that the last
# letter of a word before the colon is none.
GROUPS = "|".join(
    rf"(?!{PCI})(?=(?:{separator}*[0-9a-f]){{12}})[0-9a-f]{{2,}}(?:{repeated}[0-9a-f]+){{3,}}"
    for separator, repeated in ((":", ":{1,2}"), ("-", "-"), ("_", "_"))
)
SHAPES = (
    rf"(?:0x)?(?:{GROUPS})"
    r"|(?:0x)?[0-9a-f]{12,}"  # a GUID, MAC, UUID, WWN or boot id as one number
    r"|(?<![0-9a-z.])\d{10,}+(?![0-9a-z.]| kB)"  # a serial number, but no size
    r"|[0-9a-f]{6}-[0-9a-f]{6}"  # MAC, as some switches write it
    r"|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2,3}"  # and others
    # an IPv4 address, but no version number
    rf"|(?<![\d.])(?:{OCTET}\.){{3}}{OCTET}(?!\d|\.\d)"
    # IPv6 address, shortened; the prefix of a network
    r"|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?!\w|:\w)"
    r"|(?<![0-9a-f:.])(?:[0-9a-f]{1,4}:){1,7}:(?:/\d+)?(?!\w)"
    r"|(?:iqn|nqn|eui|naa)[.-][\w.:-]+"  # a storage target
    r"|[\w.+-]+@[\w.:-]+"  # a user of a host; who built the kernel module
)


class Names:
    """The names to find in a text: those of this machine, and all that have a name's shape."""

    def __init__(self, names: set[str]) -> None:
        longest_first = sorted(names, key=len, reverse=True)
        # whole words only: digits within a longer number are not a serial
        whole = [rf"(?<![0-9a-z]){re.escape(name)}(?![0-9a-z])" for name in longest_first]
        self.names = frozenset(names)
        self._known = re.compile("|".join(whole), re.IGNORECASE) if whole else None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where a name begins and ends, in order; those that overlap are one.

        >>> text = "user=b83f:d203:0000:0004"
        >>> [text[start:end] for start, end in Names({"b83f"}).spans(text)]
        ['b83f:d203:0000:0004']
        """
        patterns = [_shapes(), *([self._known] if self._known else [])]
        hits = sorted(hit.span() for pattern in patterns for hit in pattern.finditer(text))
        while hits:
            start, end = hits.pop(0)
            while hits and hits[0][0] < end:
                end = max(end, hits.pop(0)[1])
            yield start, end


@cache
def _shapes() -> re.Pattern[str]:
    return re.compile(SHAPES, re.IGNORECASE)
