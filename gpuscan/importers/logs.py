"""Kernel logs and the Fabric Manager's: what matters of them, as `gpuscan log` keeps it, under
`log:<name>`.
"""

import os

from gpuscan.importers.part import Part, answer
from gpuscan.kernellog.keeping import reading_value, select_lines
from gpuscan.recording import Reading

# lines of the beginning and of the end that tell what kind of log it is, and from when to when
ENDS = 1000


def readings(part: Part) -> list[Reading]:
    """Return one reading, of the log's last boot; no stamp of it is later than the file, where
    that is still at hand.
    """
    lines = part.text.encode("utf-8", "surrogateescape").split(b"\n")
    until_s = os.stat(part.origin).st_mtime if os.path.isfile(part.origin) else None
    found = select_lines(enumerate(lines, 1), until_s=until_s)
    value = reading_value(found, len(lines), lines[:ENDS], lines[-ENDS:], until_s=until_s)
    value["kernel"] = (
        # it was recognised as a log: having no line of the kernel it has no fault of the kernel
        True
    )
    return [answer(f"log:{name(part)}", value)]


def name(part: Part) -> str:
    """Return what people call the log: the file that it is in, and what it was printed by where
    that is told.
    """
    file = os.path.basename(part.origin)
    return f"{file} ({part.command})"[:120] if part.command else file or part.kind
