"""What a result is about: a record with one written form, `kind:label`."""

from typing import NamedTuple


class Subject(NamedTuple):
    """The node, one of its parts, an incident or a test.

    *kind* is `node`, `gpu`, `port`, `incident`, `test`, …; *label* its name within the kind, empty
    for the node; *address* its PCI address, None where it has none. *entry* is an incident's id in
    the catalogue (`xid:79`); *gpu*, *test* and *peer* name what a test of a burn-in ran on.
    """

    kind: str
    label: str = ""
    address: str | None = None
    entry: str = ""
    gpu: str = ""
    test: str = ""
    peer: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.label}" if self.label else self.kind


NODE = Subject("node")


def parse_subject(text: str) -> Subject:
    """Return the subject that a report, an archive or last.json has written as `kind:label`.

    >>> parse_subject("gpu:SXM6").label, parse_subject("node") == NODE
    ('SXM6', True)
    """
    kind, _, label = text.partition(":")
    return Subject(kind, label)
