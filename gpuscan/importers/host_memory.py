"""`edac-util`, and `ras-mc-ctl --summary`, `--errors` and `--error-count`: errors of host memory.

EDAC counts since its driver was loaded; rasdaemon's database outlives reboots and repairs.
"""

import re
from collections.abc import Iterator

from gpuscan.importers.part import Importer, Part, begins_with, refusal
from gpuscan.importers.said import Line, reading
from gpuscan.recording import Reading
from gpuscan.recording.keys import HOST_ERRORS

EDAC = re.compile(
    r"^\s*+(?P<part>mc\d++:.*?)(?<!\s)(?:\s*+:)?\s++(?P<count>\d++) "
    r"(?P<word>Uncorrected|Corrected) Errors?\b"
)
NO_EDAC = re.compile(r"edac-util: Error: (.*)")
EDAC_CLEAN = "edac-util: No errors to report"
SUMMARY = re.compile(
    r"^\s*(?P<word>Corrected|Uncorrected|Fatal|Deferred) on DIMM Label\(s\): '(?P<part>[^']*)'"
    r".*errors: (?P<count>\d+)"
)
EVENT = re.compile(
    r"^\s*\d+ (?P<day>\d{4}-\d\d-\d\d) \S+ \S+ (?P<count>\d+) (?P<word>Corrected|Uncorrected|Fatal|"
    r"Deferred) error\(s\):? (?:.*? at )?(?P<part>.*?)(?: location:| label=|,|$)"
)
TABLE = re.compile(r"^\s*Label\s+CE\s+UE\s*$")
TABLE_ROW = re.compile(r"^\s*+(?P<part>\S.*?)(?<!\s)\s++(?P<ce>\d++)\s++(?P<ue>\d++)\s*$")
SECTION = re.compile(r"^(?P<name>[A-Z][\w ]*?) (?:events|records|errors) summary:")
COUNTED = re.compile(r"^\s+(?P<count>\d+) (?P<what>\S.*)$")
CLEAN = re.compile(r"^No (?P<what>[\w ()]*?)(?:errors|records|events)\.")
KINDS = {
    "Corrected": "corrected",
    "Deferred": "corrected",
    "Uncorrected": "uncorrected",
    "Fatal": "uncorrected",
}


def edac_readings(part: Part) -> list[Reading]:
    """Return a row of each counter.

    >>> text = "mc0: csrow0: CPU_SrcID#0_MC#0_Chan#0_DIMM#0: 3 Corrected Errors"
    >>> edac_readings(Part("edac-util", text))[0].value[0][:2]
    ['mc0: csrow0: CPU_SrcID#0_MC#0_Chan#0_DIMM#0', 'corrected']
    """
    if missing := NO_EDAC.search(part.text):
        return [refusal(HOST_ERRORS, "garbled", f"edac-util read nothing: {missing[1]}")]
    if EDAC_CLEAN in part.text:
        return reading(HOST_ERRORS, [Line("EDAC", "clean", EDAC_CLEAN)])
    return reading(HOST_ERRORS, _counters(part.text))


def _counters(text: str) -> Iterator[Line]:
    for hit in filter(None, map(EDAC.match, text.splitlines())):
        count = int(hit["count"])
        kind = KINDS[hit["word"]] if count else "clean"
        yield Line(hit["part"], kind, hit[0].strip(), count)


def ras_readings(part: Part) -> list[Reading]:
    """Return a row of each entry in rasdaemon's database."""
    return reading(HOST_ERRORS, _entries(part.text))


def _entries(text: str) -> Iterator[Line]:
    section, in_table = "", False
    for line in text.splitlines():
        if hit := SECTION.match(line):
            section = hit["name"]
        elif hit := (SUMMARY.match(line) or EVENT.match(line)):
            yield _kept(hit["part"], KINDS[hit["word"]], line, int(hit["count"]))
        elif TABLE.match(line):
            in_table = True
        elif in_table and (hit := TABLE_ROW.match(line)):
            yield _kept(hit["part"], "uncorrected", line, int(hit["ue"]))
            yield _kept(hit["part"], "corrected", line, int(hit["ce"]))
        elif section and (hit := COUNTED.match(line)):
            yield _counted(section, hit, line)
        elif not in_table and (hit := COUNTED.match(line)):
            yield Line("rasdaemon", "", line.strip())  # a count, and nothing says of what
        elif hit := CLEAN.match(line):
            section = ""
            yield Line(hit["what"].strip(), "clean", line.strip())


def _kept(part: str, kind: str, line: str, count: int) -> Line:
    """Return what the database keeps of memory: how old it is, nobody knows."""
    return Line(part, f"{kind}-kept" if count else "clean", line.strip(), count)


def _counted(section: str, hit: re.Match[str], line: str) -> Line:
    what = hit["what"].lower()
    grave = "fatal" in what.replace("non-fatal", "") or (
        section.startswith("MCE") and "uncorrected" in what
    )
    kind = "machine-fatal-kept" if grave else "corrected-kept"
    return Line(section, kind, line.strip(), int(hit["count"]))


EDAC_UTIL = Importer(
    name="edac-util",
    reads="edac-util",
    readings=edac_readings,
    commands=r"\bedac-util\b",
    begins=begins_with(r"^\s*mc\d+: .*\d (?:Uncorrected|Corrected) Errors|^edac-util: "),
)
RAS_MC_CTL = Importer(
    name="ras-mc-ctl",
    reads="ras-mc-ctl",
    readings=ras_readings,
    commands=r"\bras-mc-ctl\b",
    owns=r"\bras-mc-ctl\b",
    begins=begins_with(
        r"^Memory controller events|^No Memory errors\.|^\s*Label\s+CE\s+UE\s*$"
        r"|^\s*\w+ on DIMM Label\(s\): |^(?:PCIe AER|MCE|Extlog|ARM processor) \w+ summary:"
        r"|^No (?:PCIe AER|MCE|Extlog|ARM processor|disk) errors"
    ),
)
