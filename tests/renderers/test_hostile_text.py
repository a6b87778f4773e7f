"""What others wrote (in a recording, a log, an archive, a profile, a name) stays text: no terminal
is steered, no line, link, mention or markup forged, in any format, and on standard error.
"""

import gzip
import io
import json
import random
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from paths import RECORDINGS
from program import Call

from gpuscan import renderers
from gpuscan.engine import judging
from gpuscan.engine.judging import Selection
from gpuscan.engine.report import Report
from gpuscan.errors import GpuscanError
from gpuscan.importers.load import open_recording
from gpuscan.recording import dump, restore
from gpuscan.renderers.json_ import document
from gpuscan.text import as_json, harmless
from gpuscan.tickets.parts import failures
from gpuscan.tickets.ticket import TicketInput, build_ticket, render_ticket

STEERING = "\x1b]0;PWNED\x07\x1b[2J\x9b1m\u202eEVIL\u2066\u200b\r\nVerdict: FORGED\x00\x85\u2028x"
MARKUP = (
    "<b>x</b>[l](http://evil.example/e)![i](javascript:1) @everyone |a|*b* _c_ www.evil.example"
    " ~~d~~"
)
HOSTILE = STEERING + MARKUP
# everything but text, its line ends and tabs
RAW = re.compile(
    r"[^\t\n\x20-\x7e\xa1-\uffff\U00010000-\U0010ffff]|[\u2028-\u202e\u2066-\u2069\u200b]"
)
# where a line of ours could begin; a ticket's findings are wrapped with an indent of four
FORGED = re.compile(r"^ {0,3}(gpuscan: )?Verdict: FORGED", re.MULTILINE)
LIVE = re.compile(
    r"(?<!\\)<b>|(?<!\\)\[l\]\(|(?<!\\)!?\\?\[i\]\(|(?<![`\\])@everyone"
    r"|https?://evil|(?<!\\)\bwww\.evil|(?<!\\)~~"
)
CODE = re.compile(r"`[^`\n]*`")  # no markup is live within it
SAMPLE = 40
SEED = 15
MARKED = ("demo-broken", "h100-8x-ib")


def opened(name: str) -> dict[str, Any]:
    file = name if name.startswith("demo") else str(RECORDINGS / f"{name}.json.gz")
    return dict(json.loads(json.dumps(dump(open_recording(file)))))


Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where a string is in a document, and each key of its objects (ending in None)."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, dict):
        for name, item in value.items():
            if at:
                yield (*at, name, "\0key")
            yield from places(item, (*at, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*at, number))


def planted(value: Any, place: Place) -> Any:
    """Return the document with a hostile string behind the one at *place*, or behind the key."""
    if not place:
        return value + HOSTILE
    first, *rest = place
    if rest == ["\0key"]:
        return {(name + HOSTILE if name == first else name): item for name, item in value.items()}
    copy = value.copy()
    copy[first] = planted(value[first], tuple(rest))
    return copy


PLAN = judging.prepare(Selection())


def forms(report: Report) -> Iterator[tuple[str, str]]:
    """Yield everything that can be written of a report, with the form's name."""
    for name in renderers.FORMATS:
        for verbosity in (-1, 0, 1):
            yield name, renderers.find(name)([report], verbosity=verbosity)
    data = json.loads(as_json(document(report)))
    if failures(data):
        ticket = build_ticket(TicketInput(data))
        for name in ("text", "markdown", "json"):
            yield f"ticket-{name}", render_ticket(ticket, name)


def assert_harmless(name: str, text: str) -> None:
    told = harmless(text)  # as it leaves through the door
    assert told == text, f"{name}: the door had to mend it"
    assert not RAW.search(told), (name, RAW.search(told))
    assert not FORGED.search(told), (name, FORGED.search(told))
    if name == "ticket-markdown":
        live = LIVE.search(CODE.sub("", told))
        assert not live, (name, live, told[max(live.start() - 80, 0) : live.end() + 80])
    if name.endswith("json"):
        json.loads(told, parse_constant=lambda word: pytest.fail(word))
    if name.startswith("junit"):
        ElementTree.fromstring(told)


def check(document: Any) -> bool:
    """Judge a document and look at every form; return whether it could be judged at all."""
    report, refusal = None, ""
    try:
        report = judging.judge_recording(restore(document, "planted"), "", PLAN)
    except GpuscanError as error:
        refusal = str(error)
    assert not RAW.search(refusal)
    assert not FORGED.search(refusal)
    if report is None:
        return False
    for name, text in forms(report):
        assert_harmless(name, text)
    return True


@pytest.mark.parametrize("name", MARKED)
def test_hostile_strings_in_a_recording(name: str) -> None:
    whole = opened(name)
    all_places = list(places(whole))
    sample = random.Random(SEED).sample(all_places, SAMPLE)
    heads = [place for place in all_places if place[0] not in ("readings", "scope")]
    judged = [check(planted(whole, place)) for place in [*sample, *heads]]
    assert sum(judged) > SAMPLE / 4  # the others are refused as no recordings


@pytest.mark.laws
@pytest.mark.parametrize("name", MARKED)
def test_hostile_strings_everywhere_in_a_recording(name: str) -> None:
    whole = opened(name)
    assert sum(check(planted(whole, place)) for place in places(whole)) > 1000


def tar(path: Path, member: str) -> None:
    with tarfile.open(path, "w") as archive:
        data = b"not known\n"
        info = tarfile.TarInfo(member)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))


def packed(path: Path, name: str) -> None:
    inner = name.encode("utf-8", "surrogatepass").replace(b"\0", b"")
    path.write_bytes(b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + inner + b"\0" + gzip.compress(b"x")[10:])


NAMED = STEERING.replace("\0", "").replace("\n", "")


def of_yaml(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


QUOTED = json.dumps(HOSTILE)
FILES: dict[str, tuple[str, Callable[[Path], None], list[str]]] = {
    "a tar member": ("a.tar", lambda path: tar(path, NAMED), ["judge"]),
    "a member that leads out": ("b.tar", lambda path: tar(path, f"../{NAMED}"), ["judge"]),
    "a name in gzip": ("c.gz", lambda path: packed(path, NAMED), ["judge"]),
    "a version": (
        "d.json",
        lambda path: of_yaml(
            path, f'{{"format": "gpuscan-recording", "schema_version": {QUOTED}}}'
        ),
        ["judge"],
    ),
    "a profile's key": (
        "e.yaml",
        lambda path: of_yaml(path, f"{QUOTED}: 1\n"),
        ["profile", "validate"],
    ),
    "a profile's value": (
        "f.yaml",
        lambda path: of_yaml(path, f"gpu: {{count: {QUOTED}}}\n"),
        ["profile", "validate"],
    ),
    "a parent": ("g.yaml", lambda path: of_yaml(path, f"extends: {QUOTED}\n"), ["profile", "show"]),
    "a report's version": (
        "h.json",
        lambda path: of_yaml(path, f'{{"schema_version": {QUOTED}, "summary": {{}}}}'),
        ["ticket"],
    ),
    "a log line": (
        "i.log",
        lambda path: of_yaml(path, f"[ 1.0] NVRM: Xid (PCI:0000:1b:00): 79, {NAMED}\n"),
        ["log"],
    ),
    "no log": ("j.log", lambda path: of_yaml(path, HOSTILE), ["judge"]),
    "a list of parts": (
        "k.yaml",
        lambda path: of_yaml(path, f"{QUOTED}: {{{QUOTED}: 1}}\n"),
        ["diff", "demo", "demo", "--expected-parts"],
    ),
    "a bad serial": (
        "l.txt",
        lambda path: of_yaml(path, HOSTILE),
        ["diff", "demo", "demo", "--known-bad"],
    ),
    "a name": (f"m{NAMED}".replace("/", ""), lambda path: of_yaml(path, "{}"), ["judge"]),
}


@pytest.mark.parametrize("what", FILES)
def test_hostile_strings_in_a_file(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name, make, words = FILES[what]
    make(tmp_path / name)
    ended = Call(monkeypatch, capfd)(*words, str(tmp_path / name))
    for text in (ended.out, ended.err):
        assert not RAW.search(text), text
        assert not FORGED.search(text), text


@pytest.mark.parametrize(
    "words",
    [
        ["judge", f"--{NAMED}"], [NAMED], ["explain", "xid", NAMED], ["run", "--only", HOSTILE],
        ["judge", "demo", "--profile", NAMED], ["checks", "show", NAMED],
        ["judge", "demo", "--set", NAMED],
        ["judge", "demo", "--gpus", NAMED], ["judge", "demo", "--format", NAMED], ["judge", NAMED],
    ],
)  # fmt: skip
def test_hostile_words_on_the_command_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = Call(monkeypatch, capfd)(*words)
    assert ended.code == 2
    assert not RAW.search(ended.out + ended.err), ended
    assert not FORGED.search(ended.err), ended


def test_json_is_always_json(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No key of a recording makes NaN or infinity of what its parser reads as a number."""
    whole = opened("demo-broken")
    numbers = [
        number
        for number, row in enumerate(whole["readings"])
        if re.fullmatch(r"[\d. \n]+", str(row.get("value")))
    ]
    for odd in ("nan", "inf", "-inf", "1e999", float("nan"), float("inf")):
        changed = json.loads(json.dumps(whole))
        for number in numbers:
            row = changed["readings"][number]
            row["value"] = odd if type(odd) is type(row["value"]) is float else f"{odd} {odd}\n"
        report = judging.judge_recording(restore(changed, "odd"), "", PLAN)
        for name, text in forms(report):
            assert_harmless(name, text)
    assert len(numbers) > 20
