"""The table of `dcgmi diag`, of DCGM 2 to 4: one row a test, then one a GPU, then messages.

DCGM 2 and 3 print `| GPU Memory | Fail - GPU: 0 |`, DCGM 4 `| memory | Fail |` and below it
`|        | GPU0: Fail |`. Messages break anywhere, also inside a word.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuscan.burnin.tools.dcgm_words import (
    SKIPS,
    WARNED,
    DcgmOutcome,
    code_name,
    codes_in,
    ending,
    heaviest,
    weight,
)
from gpuscan.burnin.tools.output import Output, brief, by_index, record
from gpuscan.model.burnin import BurnTest, Ending

WORD = r"(?P<word>Pass|Fail|Warn|Skip|Error|Not Run)"
ROW = re.compile(r"^\s*\|(?P<left> [^|]*)\|(?P<right> [^|]*)\|?\s*$")
SECTION = re.compile(r"^\s*[|+]-{3,} +(?P<name>\w[\w ]*?)(?<! ) ++-{3,}+\+")
FOOT = re.compile(r"^\s*\+-+\+-+\+\s*$")
STATUS = re.compile(rf"^{WORD}(?: - (?:(?P<all>All)|GPUs?: ?(?P<gpus>[\d, ]+)))?$")
ENTITY = re.compile(rf"^(?P<group>[A-Za-z]\w*?)(?: |(?<!\d))(?P<id>\d++): {WORD}$")
MESSAGE = re.compile(
    r"^(?P<grade>Warning|Error|Info)"
    r"(?:: ?(?P<group>[A-Za-z]\w*?)(?: |(?<!\d))(?P<id>\d++))?$"
)
OF_GPU = re.compile(r"GPU ?(\d+)")
TABLE = re.compile(r"^\s*\| Diagnostic +\| Result +\||^\s*[|+]-----  \w+  -+\+-+[|+]", re.MULTILINE)
CHUNK = slice(1, 46)  # of a cell: a message is cut after 45 characters, also inside a word
METADATA = "Metadata"
NODE = ("", "")
Entity = tuple[str, str]


class Verdict(NamedTuple):
    """A status word, and of which entities; none: of all of them alike."""

    word: str
    entities: tuple[Entity, ...] = ()


class Message(NamedTuple):
    """What a warning says, and of which entity if it names one."""

    text: str
    entity: Entity | None = None


class TestRows(NamedTuple):
    """The rows of one test; the lists are filled while the table is read."""

    name: str
    verdicts: list[Verdict]
    messages: list[Message]


def is_table(text: str) -> bool:
    """Return whether a text holds such a table, or a piece of one."""
    return TABLE.search(text) is not None


def parse(output: Output) -> list[BurnTest]:
    """Make one record a test, or one a GPU where they differ or one is wrong.

    A table without its last rule was cut off, and is garbled. Raises ValueError without a result.
    """
    lines = output.stdout.splitlines()
    tests = [test for test in _tests(lines) if test.verdicts]
    records = [made for test in tests for made in _records(output, test)]
    if not records:
        raise ValueError("its table holds no test's result")
    if not _is_whole(lines):
        lack = output.unread("garbled", "its table was cut off: the last tests are missing")
        records.append(record(output, "table", ended=lack))
    return records


def _is_whole(lines: list[str]) -> bool:
    """Return whether a rule ends the table, below its last row or section."""
    last = [at for at, line in enumerate(lines) if ROW.match(line) or SECTION.match(line)]
    return any(FOOT.match(line) for line in lines[last[-1] + 1 :])


def _tests(lines: list[str]) -> Iterator[TestRows]:
    test, section, open_message = TestRows("", [], []), "", False
    for line in lines:
        if hit := SECTION.match(line):
            section, open_message = hit["name"], False
            continue
        row = ROW.match(line)
        if row is None or section == METADATA:
            continue
        left, right = row["left"].strip(), row["right"].strip()
        status = STATUS.match(right) or (ENTITY.match(right) if not left else None)
        if message := MESSAGE.match(left):
            open_message = message["grade"] != "Info"
            if open_message:
                test.messages.append(_message(message, row["right"]))
        elif left and status:
            yield test
            test, open_message = TestRows(left, [_verdict(status)], []), False
        elif status:
            test.verdicts.append(_verdict(status))
            open_message = False
        elif not left and open_message:
            last = test.messages[-1]
            test.messages[-1] = last._replace(text=last.text + row["right"][CHUNK])
        elif left and left != "Diagnostic":
            yield test
            # a test whose result gpuscan does not know is no pass
            test, open_message = TestRows(left, [Verdict(right)], []), False
    yield test


def _verdict(hit: re.Match[str]) -> Verdict:
    groups = hit.groupdict()
    if groups.get("id"):
        return Verdict(hit["word"], ((groups["group"], groups["id"]),))
    ids = re.findall(r"\d+", groups.get("gpus") or "")
    return Verdict(hit["word"], tuple(("GPU", id_) for id_ in ids))


def _message(hit: re.Match[str], cell: str) -> Message:
    entity = (hit["group"], hit["id"]) if hit["id"] else None
    return Message(cell[CHUNK], entity)


def _records(output: Output, test: TestRows) -> list[BurnTest]:
    outcomes = _outcomes(output, test)
    worst = max(map(weight, outcomes.values()))
    if worst < WARNED and len({weight(one) for one in outcomes.values()}) == 1:
        return [record(output, test.name, **next(iter(outcomes.values()))._asdict())]
    return [_record(output, test.name, entity, said) for entity, said in outcomes.items()]


def _record(output: Output, name: str, entity: Entity, said: DcgmOutcome) -> BurnTest:
    group, id_ = entity
    gpu = by_index(output, int(id_)) if group == "GPU" else None
    part = name if gpu is not None else f"{name} {group} {id_}".strip()
    return record(output, part, gpu, **said._asdict())


def _outcomes(output: Output, test: TestRows) -> dict[Entity, DcgmOutcome]:
    """Return what a test said of each entity; of the node only what it said of no entity."""
    outcomes: dict[Entity, DcgmOutcome] = {}
    for verdict in test.verdicts:
        for entity in verdict.entities or _blamed(verdict, test.messages):
            said = _outcome(output, verdict.word, _texts(test.messages, entity))
            outcomes[entity] = max(outcomes.get(entity, said), said, key=weight)
    whole = outcomes.get(NODE)
    if (
        whole
        and len(outcomes) > 1
        and any(
            weight(said) >= weight(whole) for entity, said in outcomes.items() if entity != NODE
        )
    ):
        del outcomes[NODE]
    return outcomes


def _blamed(verdict: Verdict, messages: list[Message]) -> tuple[Entity, ...]:
    """Return whom the messages name where a failure names nobody."""
    if ending(verdict.word) != Ending.FAILED:
        return (NODE,)
    named = [entity for message in messages for entity in _named(message)]
    return tuple(dict.fromkeys(named)) or (NODE,)


def _named(message: Message) -> list[Entity]:
    if message.entity:
        return [message.entity]
    return [("GPU", id_) for id_ in OF_GPU.findall(message.text)]


def _texts(messages: list[Message], entity: Entity) -> list[str]:
    """Return what is said of an entity: by its name, or without a name."""
    return [
        " ".join(message.text.split())
        for message in messages
        if entity == NODE or not _named(message) or entity in _named(message)
    ]


def _outcome(output: Output, word: str, texts: list[str]) -> DcgmOutcome:
    told = "; ".join(texts)
    if word.lower() in SKIPS:
        return DcgmOutcome(output.unread("not-recorded", f"DCGM left it out: {told or word}"))
    ended = ending(word)
    if ended is None:
        return DcgmOutcome(output.unread("garbled", f"DCGM's status {word!r} says nothing"))
    codes = [code for text in texts for code in codes_in(text)]
    if ended == Ending.RAN and not texts:
        return DcgmOutcome(ended)
    if ended == Ending.RAN:
        ended = Ending.WARNED
    names = [code_name(code) for code in codes]
    text = "; ".join([*names, *texts]) or f"DCGM says no more than {word}"
    return DcgmOutcome(ended, brief(text), heaviest(codes))
