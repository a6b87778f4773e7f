"""One text cut into its parts: by a bug report's rules, by lines that name a command or a file,
else by shape.
"""

import re
from collections.abc import Iterator

from gpuscan.importers import shapes
from gpuscan.importers.part import Part

RULE = re.compile(r"^_{20,}\s*$", re.MULTILINE)
BUG_REPORT = "Start of NVIDIA bug report log file"
HEADER = re.compile(r"^\s*(?:#+|\$|==+>?|\S+@\S+[#$]) ?(?P<words>.*?)(?: ?<?==+)?\s*$")
COMMAND = re.compile(
    r"nvidia-smi\b|--query-[a-z-]+|\blspci\b|\bibstat(?:us)?\b|\bibv_devinfo\b|\bsystemctl (?:status|is-active)"
    r"|\bdmesg\b|\bjournalctl\b|/var/log/\S+|/dev/kmsg|kern\.log|fabricmanager\.log|/(?:sys|proc)/\S+"
)
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
FILE = re.compile(r"^/(?:sys|proc)/\S+$")
LOG_COMMAND = re.compile(
    r"\bdmesg\b|\bjournalctl\b|/var/log/(?:kern|messages|syslog)|kern\.log|/dev/kmsg|Scanning kernel log"
)


def parts_of(name: str, text: str) -> list[Part]:
    """Return the parts of a text that some importer knows; *name* is its file."""
    text = ANSI.sub("", text).replace("\r\n", "\n")
    if BUG_REPORT in text[:4096] and RULE.search(text):
        return list(_sections(name, text))
    if re.match(r"\s*(?:<\?xml|<!DOCTYPE nvidia_smi_log|<nvidia_smi_log)", text):
        return [Part(shapes.SMI_XML, text, name)] if "<nvidia_smi_log" in text else []
    return list(_pieces(name, text, ""))


def _sections(name: str, text: str) -> Iterator[Part]:
    """Yield what nvidia-bug-report.sh collected: below a rule stands the command or `*** file`,
    then its output.
    """
    for section in RULE.split(text):
        head, _, body = section.strip("\n").partition("\n")
        head = head.removeprefix("*** ").rstrip(": ")
        body = re.sub(r"^\*\*\* ls: .*\n?", "", body.lstrip("\n"), count=1)
        if not body.strip() or head.endswith(("does not exist", "not found")):
            continue
        if FILE.match(head):
            yield Part(shapes.FILES, body, name, head)
        elif LOG_COMMAND.search(head):
            yield Part(shapes.KERNEL, body, f"{name} {head}"[:120], head)
        else:
            yield from _pieces(name, body, head)


def _pieces(name: str, text: str, command: str) -> Iterator[Part]:
    """Yield the parts of a text with or without headers; a comment that is no command does not cut
    a part off.
    """
    kind, lines = _first_kind(command), list[str]()
    for line in text.splitlines():
        header = HEADER.match(line)
        if header and COMMAND.search(header["words"]):
            yield from _part(kind, lines, name, command)
            command, lines = header["words"], []
            kind = _first_kind(command)
            continue
        if header and line.lstrip().startswith("#"):
            if not kind:
                command = header["words"]  # `# container:` says where the next lines come from
            continue
        found = shapes.kind_of(line, kind)
        if found and kind and found != kind:
            yield from _part(kind, lines, name, command)
            command, lines, kind = "", [], found
        kind = kind or found
        lines.append(line)
    yield from _part(kind, lines, name, command)


def _first_kind(command: str) -> str:
    """Return the kind that a command's output has whatever it looks like: of values without names
    it alone can tell.
    """
    if "--query-" in command:
        return shapes.SMI_CSV
    if re.search(r"(?:^|\s)/(?:sys|proc)/\S+", command):
        return shapes.FILES
    return shapes.KERNEL if LOG_COMMAND.search(command) else ""


def _part(kind: str, lines: list[str], name: str, command: str) -> Iterator[Part]:
    text = "\n".join(lines).strip("\n")
    if kind and text.strip():
        yield Part(kind, f"{text}\n", name, command)
