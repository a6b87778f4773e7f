"""Parse what follows the code in an Xid or SXid line: program, link, registers, unit, address."""

import re
from typing import Any

UNKNOWN = ("", "<unknown>", "unknown")
PID = re.compile(r"pid=(?P<quote>['\"]?)(?P<pid>[^,'\"]*)(?P=quote)(?:,\s*|$)")
NAME = re.compile(r"name=(?P<quote>['\"]?)")
COMM = 15  # characters of a program's name that the kernel keeps
TEXT = re.compile(  # how the text after a name begins; the name itself may contain a comma
    r"Ch(?:annel)?\b|channel\b|Graphics|MMU|Timeout|GPU|GSP|NVLink|Row|Dynamic|Contained"
    r"|Uncontained|An |GDDR|SEC_FAULT|Error|FSP|CMDre|Class|Corrupt|errorString|intr\b"
    r"|[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)* +(?:Fatal|Non|Link)|[0-9a-f]{4,8}[ (]"
)
CAUSE = re.compile(r"caused by previous Xid (\d{1,9})")
GSP_CRASH = re.compile(
    r"GSP (?:[\w-]+ )?(?:task|kernel|watchdog)\b.*?(?:exception|panic|timeout|timed out)",
    re.IGNORECASE,
)
HEX = r"0x[0-9a-fA-F]{1,16}"
REGISTERS = re.compile(rf"\(({HEX}(?:,? +{HEX})+)\)")
NUMBERS = {  # decimal numbers by name
    "link": re.compile(r"\b[Ll]ink (-?\d{1,3})(?=\D|$)"),
    "gpc": re.compile(r"\(GPC (\d{1,3})\b"),
    "tpc": re.compile(r"\bTPC (\d{1,3})\b"),
    "sm": re.compile(r"\bSM (\d{1,3})\)"),
    "seconds": re.compile(r"Timeout after (\d{1,9})s"),
    "function": re.compile(r"Expected function (\d{1,9})\b"),
    "sequence": re.compile(r"\bsequence (\d{1,18})\b"),
    "partition": re.compile(r"\bpartition (\d{1,4})\b"),
    "subpartition": re.compile(r"\bsubpartition (\d{1,4})\b"),
    "fbpa": re.compile(r"\bFBPA (\d{1,4})\b"),
    "dram": re.compile(r"\bDRAM: ?(\d{1,9})\b"),
    "ltc": re.compile(r"\bLTC: ?(\d{1,9})\b"),
    "mmu": re.compile(r"\bMMU: ?(\d{1,9})\b"),
    "pcie": re.compile(r"\bPCIE: ?(\d{1,9})\b"),
}
WORDS = {  # text by name, kept as it is written
    "fault_address": re.compile(rf"faulted @ ({HEX}(?:_[0-9a-fA-F]+)?)"),
    "fault_type": re.compile(r"Fault is of type (?:0x[0-9a-f]+ \()?(FAULT_\w+)"),
    "access": re.compile(r"(ACCESS_TYPE_\w+)"),
    "engine": re.compile(r"ENGINE (?:0x[0-9a-fA-F]+ \()?(\w+)"),
    "client": re.compile(r"\b(\w*CLIENT_\w+)"),
    "channel": re.compile(r"\b[Cc]h(?:annel)?(?: ID)? (?:0x)?([0-9a-fA-F]{8})\b"),
    "physical_address": re.compile(rf"physAddr:? ({HEX})"),
    "row_address": re.compile(
        rf"(?:New row|Row Remapper(?: Error)?:|retired page.*?) ?\(({HEX})\)"
    ),
    "reason": re.compile(r"\(GPC \d+, TPC \d+(?:, SM \d+)?\): (.+)"),
    "function_name": re.compile(r"Expected function (?:\d+ \()?([A-Z]\w+)"),
    "source": re.compile(r"(?:Unc|C)ontained: (.+?) \(0x"),
}
FLAGS = {
    "rst": re.compile(r"(?<!D-)RST: ?(Yes|No)", re.IGNORECASE),
    "d_rst": re.compile(r"D-RST: ?(Yes|No)", re.IGNORECASE),
}
RECOVERY = re.compile(
    r"(?:from 0x(?P<from>[0-9a-fA-F]{1,8})\b.{0,100}?)?\bto 0x(?P<to>[0-9a-fA-F]{1,8})\b"
    r"(?: \((?P<word>[^)]*)\))?",
    re.IGNORECASE,
)
NVLINK5 = re.compile(
    r"(?<![A-Z0-9_])[0-9_]*+(?P<unit>[A-Z][A-Z0-9_]++(?: Degraded)?)\s++"
    r"(?P<severity>[A-Z][a-z]++(?:[- ][a-z]++)?)\s++XC(?P<xc>\d)\s+i(?P<instance>\d+)\s+Link"
)
SWITCH = re.compile(
    r"(?P<severity>Fatal|Non-fatal|Correctable),? ?(?:Link (?P<link>\d{1,3})\b ?)?(?P<what>.*)"
)
CONTINUED = re.compile(r"Severity (?P<severity>\d)|Data \{")
PORT = re.compile(r"\bport (\d{1,3})\b")


def split_program(tail: str) -> tuple[int, str, str]:
    """Split a tail into the program's pid (0 if unknown), its name ("" if unknown) and the text.

    >>> split_program("pid=812, name=python, GPU has fallen off the bus.")
    (812, 'python', 'GPU has fallen off the bus.')
    """
    pid, name = 0, ""
    hit = PID.match(tail)
    if hit:
        word = hit["pid"].strip()
        pid, tail = int(word) if word.isdecimal() and len(word) < 12 else 0, tail[hit.end() :]
    hit = NAME.match(tail)
    if hit:
        name, tail = _name(tail[hit.end() :], hit["quote"])
    return pid, "" if name in UNKNOWN else name, tail.strip()


def _name(rest: str, quote: str) -> tuple[str, str]:
    if quote and quote in rest:
        name, _, rest = rest.partition(quote)
        return name, rest.lstrip(", ")
    ends = [hit.start() for hit in re.finditer(", ", rest[: COMM + 2])]
    end = next(
        (end for end in ends if TEXT.match(rest, end + 2)), ends[0] if ends else rest.find(", ")
    )
    return (rest[:end], rest[end + 2 :]) if end >= 0 else (rest.rstrip(","), "")


def is_gsp_crash(text: str) -> bool:
    """Return whether a text reports a crash of the GPU's GSP, whatever its Xid."""
    return GSP_CRASH.match(text) is not None


def xid_values(code: int, text: str) -> dict[str, Any]:
    """Return the values in an Xid's text by name.

    >>> xid_values(154, "GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)")
    {'from': 0, 'to': 2}
    """
    found: dict[str, Any] = {
        name: int(hit[1]) for name, shape in NUMBERS.items() if (hit := shape.search(text))
    }
    found |= {name: hit[1].strip() for name, shape in WORDS.items() if (hit := shape.search(text))}
    found |= {
        name: hit[1].lower() == "yes"
        for name, shape in FLAGS.items()
        if (hit := shape.search(text))
    }
    hit = REGISTERS.search(text)
    if hit:
        found["registers"] = hit[1].replace(",", " ").split()
    if code == 154 and (hit := RECOVERY.search(text)):
        found |= _recovery(hit)
    hit = NVLINK5.search(text)
    if hit:
        found |= {
            "unit": hit["unit"],
            "severity": hit["severity"],
            "xc": int(hit["xc"]),
            "instance": int(hit["instance"]),
        }
        if found.get("registers") and code == 149:
            found["subcode"] = int(found["registers"][0], 16) >> 20 & 0x3F
    return found


def _recovery(hit: re.Match[str]) -> dict[str, int]:
    """Return the actions before and after; none where number and word contradict each other."""
    after, word = int(hit["to"], 16), (hit["word"] or "").lower()
    if after == 0 and word not in ("", "none"):
        return {}
    return {**({"from": int(hit["from"], 16)} if hit["from"] else {}), "to": after}


def sxid_values(text: str) -> dict[str, Any]:
    """Return the values in an SXid's text: severity, link, data.

    `continues` is set for a line that only continues the report of another.

    >>> sxid_values("Non-fatal, Link 44 Minion Link DLREQ interrupt")
    {'severity': 'Non-fatal', 'link': 44}
    """
    hit = CONTINUED.match(text)
    if hit:
        severity = {"0": "Non-fatal", "1": "Fatal"}.get(hit["severity"] or "")
        data = {"data": re.findall(HEX, text)} if text.startswith("Data") else {}
        return {"continues": True, **data, **({"severity": severity} if severity else {})}
    hit = SWITCH.match(text)
    if hit is None:
        port = PORT.search(text)
        return {"link": int(port[1])} if port else {}
    found: dict[str, Any] = {"severity": hit["severity"]}
    if hit["link"]:
        found["link"] = int(hit["link"])
    if hit["what"].endswith("(First)"):
        found["first"] = True
    return found
