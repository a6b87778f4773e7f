"""The catalogue: every file holds to its schema, names only what exists, and says it in words of
its own.
"""

from __future__ import annotations

import csv
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from paths import SHARED

from gpuscan import catalogue
from gpuscan.incidents import conditions
from gpuscan.model.outcome import CATALOGUE_WORDS, Action

FACTS = SHARED / "facts"
FOLDER = Path(str(files("gpuscan").joinpath("catalogue")))
FILES = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "policy")
KINDS = [name for name in FILES if name != "nvlink5"]
SCHEMA = json.loads(
    files("gpuscan").joinpath("schemas", "catalogue.schema.json").read_text("utf-8")
)
UNMAPPED = (46, 54, 119, 140, 151, 166, 167, 168, 169, 173, 175)
needs_facts = pytest.mark.skipif(not FACTS.exists(), reason="../shared/facts is not there")


@cache
def facts(name: str) -> Any:
    return yaml.load(
        (FACTS / name).read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def mistakes(document: Any, part: str = "") -> list[str]:
    schema = SCHEMA if not part else {"$ref": f"#/$defs/{part}", "$defs": SCHEMA["$defs"]}
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    return [f"{error.json_path}: {error.message:.200}" for error in checker.iter_errors(document)]


def rows() -> list[Any]:
    return [row for name in KINDS for row in catalogue.document(name)["entries"]]


@pytest.mark.parametrize("name", FILES)
def test_every_file_holds_to_the_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = catalogue.document(name)
    assert mistakes(document) == []
    part = "decode" if name == "nvlink5" else "entry"
    assert [found for row in document["entries"] for found in mistakes(row, part)] == []


def test_a_predicate_that_does_not_exist_is_refused() -> None:
    good = {"if": {"rst": True}, "action": "reboot", "because": "x"}
    assert mistakes(good, "condition") == []
    for when in (
        {"eval": "1"},
        {},
        {"rst": "yes"},
        {"text_matches": "("},
        {"state": {"warm": True}},
        {"recurred": {"times": 1, "within_s": 1}},
    ):
        assert mistakes({**good, "if": when}, "condition"), when
    assert mistakes({**good, "action": "pray"}, "condition")
    assert mistakes(
        {**good, "if": {"companion": {"entries": ["79"], "within_s": 1, "when": "any"}}},
        "condition",
    )


def test_the_schema_names_what_the_program_knows() -> None:
    assert SCHEMA["$defs"]["action"]["enum"] == [action.value for action in Action]
    assert set(SCHEMA["$defs"]["if"]["properties"]) == set(conditions.PREDICATES)
    assert set(SCHEMA["$defs"]["entry"]["properties"]["decode"]["enum"]) == set(conditions.DECODERS)


def test_ids_are_unique_and_follow_from_kind_and_code() -> None:
    ids = [row["id"] for row in rows()]
    assert len(ids) == len(set(ids))
    for kind in catalogue.WITH_CODE:
        known = catalogue.entries(kind)
        assert [one.id for one in known] == [f"{kind}:{one.code}" for one in known]
        assert [one.code for one in known] == sorted(one.code for one in known)
    assert [one.code for one in catalogue.entries("xid")] == list(range(1, 186))


def named(row: Any) -> set[str]:
    beside = [
        one["if"]["companion"]["entries"] for one in row["conditions"] if "companion" in one["if"]
    ]
    return set(row["companions"]).union(*beside)


def test_every_companion_and_source_exists() -> None:
    kinds = {
        *catalogue.WITH_CODE,
        *({row["id"].partition(":")[0] for row in rows()} if "lines" in KINDS else ()),
    }
    for row in rows():
        for id_ in named(row):
            if id_.partition(":")[0] in kinds:
                assert catalogue.entry(id_).sources, f"{row['id']} names {id_}"
        assert row["id"] not in row["companions"]
    for name in KINDS:
        document = catalogue.document(name)
        assert {key for row in document["entries"] for key in row["sources"]} == set(
            document["source_keys"]
        )


@pytest.mark.parametrize("kind", catalogue.WITH_CODE)
def test_every_entry_has_a_meaning_and_a_source(kind: str) -> None:
    for one in catalogue.entries(kind):
        assert one.meaning[0].isupper(), one.id
        assert one.meaning.endswith("."), one.id
        assert len(one.meaning) < 240, one.id
        assert one.sources, one.id
        for other in one.disagreements:
            assert other.says[0].islower(), one.id
        if one.ladder is not None:
            assert list(one.ladder) == sorted(one.ladder, key=lambda step: step.rank)
            assert not one.ladder or one.action in one.ladder, one.id


def test_what_a_clear_state_can_tell() -> None:
    assert (
        tuple(one.code for one in catalogue.entries("xid") if one.state == "unmapped") == UNMAPPED
    )
    assert {one.state for one in catalogue.entries("sxid")} == {"unmapped"}
    assert {
        catalogue.entry(f"xid:{code}").state for code in (48, 62, 63, 64, 74, 79, 94, 95, 154)
    } == {"mapped"}
    assert {catalogue.entry(f"xid:{code}").state for code in (13, 14, 31, 43, 45, 106)} == {"none"}


def test_programs_faults_are_named_as_such() -> None:
    for code in (8, 13, 31, 43, 45, 68, 69, 137):
        one = catalogue.entry(f"xid:{code}")
        assert (one.application, one.action) == (True, Action.RESTART_APP)
    for code in (32, 48, 62, 79, 94, 95, 119):
        assert not catalogue.entry(f"xid:{code}").application


def test_ladders_of_codes_that_have_their_own() -> None:
    lost = catalogue.entry("xid:79")
    steps = (Action.REBOOT, Action.POWER_CYCLE, Action.INSPECT, Action.REPLACE)
    assert (lost.ladder, lost.window_days) == (steps, 7)
    assert [catalogue.entry(f"xid:{code}").ladder for code in (63, 94)] == [(), ()]
    memory = (Action.RESET_GPU, Action.REBOOT, Action.INSPECT, Action.REPLACE)
    assert {catalogue.entry(f"xid:{code}").ladder for code in (48, 95, 140)} == {memory}
    assert catalogue.entry("xid:119").ladder is None


@pytest.mark.parametrize("id_", ["xid:999", "sxid:99999", "xid:0", "sxid:79", "xid:" + "9" * 5000])
def test_what_nvidia_has_not_published_is_to_be_investigated(id_: str) -> None:
    one = catalogue.entry(id_)
    assert (one.id, one.action, one.confidence) == (id_, Action.INVESTIGATE, "low")
    asked = {condition.action for condition in one.conditions}  # an SXid obeys its printed word
    assert asked == ({Action.RESET_GPU, Action.MONITOR} if id_.startswith("sxid") else set())
    assert one.name == "not in NVIDIA's catalogue"
    assert one.state == ("mapped" if id_.startswith("xid") else "unmapped")


@pytest.mark.parametrize("id_", ["dcgm:9999", "xid:", "xid:seven", "xid:-1"])
def test_an_id_that_is_none_is_a_mistake_of_the_program(id_: str) -> None:
    with pytest.raises(KeyError):
        catalogue.entry(id_)


# --- against the facts
# ----------------------------------------------------------------------------------------------------

# Where the conditions or a clearer word of NVIDIA's change the facts' first action: warnings
# instead of nothing for what may come again, and what was judged by hand.
DIFFERENT = {
    63: "reset-gpu",
    110: "power-cycle",
    154: "investigate",
    171: "reset-gpu",
    172: "reset-gpu",
}
SHOWN = (37, 38, 44, 66, 67, 92, 93, 121, 157, 160, 161, 163, 164, 165, 170, 176, 185)
PROGRAMS = (43, 45, 108, 137, 141)


def word(row: Any) -> str:
    code = row["code"]
    known = CATALOGUE_WORDS.get(row["class"])
    return DIFFERENT.get(code) or (
        "monitor" if code in SHOWN else "restart-app" if code in PROGRAMS else known or row["class"]
    )


@needs_facts
def test_xids_ask_for_what_the_facts_ask_for() -> None:
    rows = facts("xid_catalog.yaml")["xids"]
    assert {row["code"]: word(row) for row in rows} == {
        one.code: one.action for one in catalogue.entries("xid")
    }
    assert {row["code"]: row["name"] for row in rows} == {
        one.code: one.name for one in catalogue.entries("xid")
    }


@needs_facts
def test_sxids_ask_for_what_the_facts_ask_for() -> None:
    rows = facts("sxid_catalog.yaml")["sxids"]
    assert len(rows) > 300
    assert {one.code: one.action for one in catalogue.entries("sxid")} == {
        row["code"]: CATALOGUE_WORDS.get(row["class"], row["class"]) for row in rows
    }
    assert {one.code: one.bucket["immediate"] for one in catalogue.entries("sxid")} == {
        r["code"]: r["fm_guide_class"] for r in rows
    }


@needs_facts
def test_dcgm_codes_are_those_of_the_facts() -> None:
    with (FACTS / "dcgm_errors.csv").open(encoding="utf-8") as file:
        rows = {int(row["code"]): (row["name"], row["severity"]) for row in csv.DictReader(file)}
    assert rows == {
        one.code: (one.name, one.bucket["immediate"]) for one in catalogue.entries("dcgm")
    }


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().lower()


def sentences(value: Any) -> set[str]:
    if isinstance(value, str):
        return {plain(part) for part in (value, *re.split(r"(?<=[.;:]) ", value))}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {sentence for part in parts for sentence in sentences(part)}


@needs_facts
@pytest.mark.parametrize("kind", catalogue.WITH_CODE)
def test_no_sentence_is_one_of_the_facts(kind: str) -> None:
    theirs = sentences(facts("xid_catalog.yaml")) | sentences(facts("sxid_catalog.yaml"))
    theirs |= {plain(line) for line in (FACTS / "xid_formats.md").read_text("utf-8").splitlines()}
    for one in catalogue.entries(kind):
        ours = [
            one.meaning,
            *one.notes,
            *(other.says for other in one.disagreements),
            *(c.because for c in one.conditions),
        ]
        for sentence in sentences(ours):
            assert len(sentence.split()) < 4 or sentence not in theirs, one.id
