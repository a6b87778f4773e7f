"""Split a text into parts: by a bug report's rules, by headers, else by the form of its lines."""

import re
from collections.abc import Iterator

from gpuscan.importers import files, logs
from gpuscan.importers.part import Part
from gpuscan.importers.registry import BY_NAME, IMPORTERS

RULE = re.compile(r"^_{20,}\s*$", re.MULTILINE)
BUG_REPORT = "Start of NVIDIA bug report log file"
HEADER = re.compile(  # of a line without blanks around it
    r"(?:#++|\$|==++>?|[^\s@]++@\S+[#$]) ?(?P<command>.*?)(?: ?<?(?<!=)==++)?$"
)
COMMAND = re.compile("|".join(importer.commands for importer in IMPORTERS if importer.commands))
ROOTS = {importer.root: importer.name for importer in IMPORTERS if importer.root}
ROOT = "|".join(ROOTS)
XML = re.compile(rf"(?:<\?xml[^>\n]*>\s*)?(?:<!DOCTYPE (?:{ROOT})\b[^>]*>\s*)?<(?P<root>{ROOT})\b")
LONGEST_ORIGIN = 120


def split_text(name: str, text: str) -> list[Part]:
    """Return the parts of a text that some importer reads; *name* is its file."""
    if is_bug_report(text):
        return list(_split_bug_report(name, text))
    return list(_split_documents(name, text, ""))


def is_bug_report(text: str) -> bool:
    """Return whether a text is nvidia-bug-report.log."""
    return BUG_REPORT in text[:4096] and RULE.search(text) is not None


def _split_documents(name: str, text: str, command: str) -> Iterator[Part]:
    """Yield the XML documents in a text, and the parts of what stands around them."""
    position = 0
    while hit := XML.search(text, position):
        yield from _split_lines(name, text[position : hit.start()], command)
        end = f"</{hit['root']}>"
        found = text.find(end, hit.end())
        following = XML.search(text, hit.end())
        cut = following.start() if following else len(text)
        position = found + len(end) if 0 <= found < cut else cut
        yield Part(ROOTS[hit["root"]], text[hit.start() : position], name)
    yield from _split_lines(name, text[position:], command)


def _split_bug_report(name: str, text: str) -> Iterator[Part]:
    """Yield the parts of nvidia-bug-report.log.

    Its sections are divided by rules; each begins with the command or `*** file`, then its output.
    """
    for section in RULE.split(text):
        head, _, body = section.strip("\n").partition("\n")
        head = head.removeprefix("*** ").rstrip(": ")
        body = re.sub(r"^\*\*\* ls: .*\n?", "", body.lstrip("\n"), count=1)
        if not body.strip() or head.endswith(("does not exist", "not found")):
            continue
        if files.PATH_ALONE.match(head):
            yield Part(files.IMPORTER.name, body, name, head)
        elif logs.LOG_COMMAND.search(head):
            yield Part(logs.KERNEL.name, body, f"{name} {head}"[:LONGEST_ORIGIN], head)
        else:
            yield from _split_documents(name, body, head)


def _split_lines(name: str, text: str, command: str) -> Iterator[Part]:
    """Yield the parts of a text with or without headers.

    A comment that is not a command does not end a part.
    """
    kind, lines = _kind_of_command(command), list[str]()
    opened: set[str] = set()
    for line in text.splitlines():
        header = HEADER.match(line.strip())
        if header and _is_claimed(line):
            header = None
        if header and COMMAND.search(header["command"]):
            yield from _part(kind, lines, name, command)
            command, lines = header["command"], []
            kind = _kind_of_command(command)
            continue
        if header and line.lstrip().startswith("#"):
            if not kind:
                command = header["command"]  # `# container:` says where the next lines come from
            continue
        found = kind_of_line(line, kind)
        if found and kind and found != kind:
            yield from _part(kind, lines, name, command)
            command, lines, kind = "", [], found
        opening = _opening(line, kind or found)
        if opening in opened:
            yield from _part(kind, lines, name, command)
            lines, opened = [], set()
        if opening:
            opened.add(opening)
        kind = kind or found
        lines.append(line)
    yield from _part(kind, lines, name, command)


def _opening(line: str, kind: str) -> str:
    """Return what comes once in a document of this kind, "" for any other line."""
    opens = BY_NAME[kind].opens if kind else None
    hit = opens.search(line) if opens else None
    return hit[0] if hit else ""


def _kind_of_command(command: str) -> str:
    """Return the kind of a command's output if it is certain, else ""."""
    owners = (one.name for one in IMPORTERS if one.owns and re.search(one.owns, command))
    return next(owners, "")


def kind_of_line(line: str, kind: str = "") -> str:
    """Return the kind of part that a line begins or belongs to, "" if its form does not say.

    *kind* is that of the part so far.
    """
    continues = BY_NAME[kind].continues if kind else None
    if continues and continues(line):
        return kind
    for importer in IMPORTERS:
        if importer.claims and importer.claims.search(line):
            return importer.name
    for importer in IMPORTERS:
        if importer.begins(line, kind):
            return importer.name
    for importer in IMPORTERS:
        if importer.fits(line, kind):
            return importer.name
    return ""


def _is_claimed(line: str) -> bool:
    """Return whether only one tool writes such a line, so that a `#` in it marks no comment."""
    return any(one.claims and one.claims.search(line) for one in IMPORTERS)


def _part(kind: str, lines: list[str], name: str, command: str) -> Iterator[Part]:
    text = "\n".join(lines).strip("\n")
    if kind and text.strip():
        yield Part(kind, f"{text}\n", name, command)
