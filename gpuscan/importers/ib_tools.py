"""`ibdev2netdev`, `perfquery`, `ibqueryerrors`, `ibnetdiscover`, and ibstatus's own error."""

import re
from collections.abc import Iterator

from gpuscan.importers.infiniband import ROOT
from gpuscan.importers.part import Importer, Part, answer, begins_with, refusal
from gpuscan.importers.said import Line, reading
from gpuscan.recording import Reading
from gpuscan.recording.keys import LINK_QUALITY, directory, file
from gpuscan.text import counted

NETDEV = re.compile(r"^\s*(?P<hca>\w+)\s+port\s+(?P<port>\d+)\s+==>\s+(?P<netdev>\S+)\s+\((\w+)\)")
COUNTERS = re.compile(r"^# Port (?:extended )?counters: Lid (?P<lid>\d+) port (?P<port>\d+)")
COUNTER = re.compile(r"^(?P<name>[A-Z]\w+):\.*(?P<value>\d+)\s*$")
CHANNEL_ADAPTER = re.compile(r"(?:-C|--Ca) +(\S+)")
FILES = {"SymbolErrorCounter": "symbol_error", "LinkDownedCounter": "link_downed"}
ERRORS_OF = re.compile(r"^Errors for (?P<node>.*\S|)\s*$")
ERROR_PORT = re.compile(r"^\s*GUID (?P<guid>0x\w+) port (?P<port>\w+): ?(?P<counts>\[.*)$")
COUNT = re.compile(r"\[(?P<name>\w+) == (?P<value>\d+)")
CHECKED = re.compile(r"^## Summary: .*nodes checked")
PHYSICAL = ("SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
            "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")  # fmt: skip
LINK = re.compile(
    r"^(?:CA|SW|RT) +\d+ +\d+ 0x[0-9a-f]{16} \d+x |^\[\d+\](?:\([0-9a-f]+\))?\s+\"[SHR]-[0-9a-f]+\""
)
MISSING = re.compile(r"Fatal error: +device '[^']*': sys files not found")


def netdev_readings(part: Part) -> list[Reading]:
    """Return the HCAs' ports, and which are of InfiniBand by their interface's name.

    Up and down are those of the interface (IPoIB), not of the port.

    >>> text = "mlx5_0 port 1 ==> ibp26s0 (Down)"
    >>> netdev_readings(Part("ibdev2netdev", text))[-1].value
    'InfiniBand'
    """
    rows = [hit for hit in map(NETDEV.match, part.text.splitlines()) if hit]
    hcas: dict[str, list[str]] = {}
    for row in rows:
        hcas.setdefault(row["hca"], []).append(row["port"])
    layers = [
        answer(
            file(f"{ROOT}/{row['hca']}/ports/{row['port']}/link_layer"),
            "InfiniBand" if row["netdev"].startswith("ib") else "Ethernet",
        )
        for row in rows
    ]
    return [*_listing(hcas), *layers]


def _listing(hcas: dict[str, list[str]]) -> list[Reading]:
    ports = [answer(directory(f"{ROOT}/{hca}/ports"), numbers) for hca, numbers in hcas.items()]
    return [answer(directory(ROOT), list(hcas)), *ports] if hcas else []


def perfquery_readings(part: Part) -> list[Reading]:
    """Return the counters of each port, as the files of sysfs, and what they counted in all.

    The same port twice in a text shows whether they grow.
    """
    adapter = CHANNEL_ADAPTER.search(part.command)
    hcas: dict[str, list[str]] = {}
    made, lines = list[Reading](), list[Line]()
    hca = port = ""
    for line in part.text.splitlines():
        if hit := COUNTERS.match(line):
            hca, port = adapter[1] if adapter else f"lid{hit['lid']}", hit["port"]
            if port not in hcas.setdefault(hca, []):
                hcas[hca].append(port)
        elif port and (hit := COUNTER.match(line)):
            lines.append(_counted(f"{hca} port {port}", hit["name"], int(hit["value"])))
            if hit["name"] in FILES:
                path = f"{ROOT}/{hca}/ports/{port}/counters/{FILES[hit['name']]}"
                made.append(answer(file(path), hit["value"]))
    return [*_listing(hcas), *made, *reading(LINK_QUALITY, lines)]


def _counted(part: str, name: str, value: int) -> Line:
    kind = "lifetime-errors" if value and name in PHYSICAL else "counted"
    return Line(part, kind, f"{name} {value} in all", value)


def error_readings(part: Part) -> list[Reading]:
    """Return what ibqueryerrors lists: totals of the fabric's ports, also of other nodes."""
    return reading(LINK_QUALITY, _errors(part.text))


def _errors(text: str) -> Iterator[Line]:
    node = ""
    for line in text.splitlines():
        if hit := ERRORS_OF.match(line):
            node = hit["node"]
        elif hit := ERROR_PORT.match(line):
            for count in COUNT.finditer(hit["counts"]):
                yield _counted(f"{node} port {hit['port']}", count["name"], int(count["value"]))
        elif CHECKED.match(line):
            yield Line("fabric", "counted", line.strip("# \n"))


def topology_readings(part: Part) -> list[Reading]:
    """Return the links of a fabric: they say which there are, not which there should be."""
    links = [line for line in part.text.splitlines() if LINK.match(line)]
    return reading(
        LINK_QUALITY, [Line("fabric", "topology", counted(len(links), "link"), len(links))]
    )


def missing_readings(part: Part) -> list[Reading]:
    """Return that ibstatus found no InfiniBand device where one was asked for."""
    why = "ibstatus found no InfiniBand device in sysfs: is the driver (mlx5_ib) loaded?"
    return [refusal(directory(ROOT), "garbled", why)]


IMPORTERS = (
    Importer(
        name="ibdev2netdev",
        reads="ibdev2netdev",
        readings=netdev_readings,
        commands=r"\bibdev2netdev\b",
        begins=begins_with(NETDEV.pattern),
    ),
    Importer(
        name="perfquery",
        reads="perfquery",
        readings=perfquery_readings,
        commands=r"\bperfquery\b",
        claims=COUNTERS,
    ),
    Importer(
        name="ibqueryerrors",
        reads="ibqueryerrors",
        readings=error_readings,
        commands=r"\bibqueryerrors\b",
        claims=re.compile(f"{ERROR_PORT.pattern}|{CHECKED.pattern}"),
        begins=begins_with(r'^Errors for (?:0x[0-9a-f]+ )?"'),
    ),
    Importer(
        name="ibnetdiscover",
        reads="ibnetdiscover",
        readings=topology_readings,
        commands=r"\bibnetdiscover\b",
        begins=begins_with(LINK.pattern),
    ),
    Importer(
        name="ibstatus error",
        reads="errors of ibstatus",
        readings=missing_readings,
        begins=begins_with(MISSING.pattern),
    ),
)
