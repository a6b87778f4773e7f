"""Recordings: saved, loaded, patched, refused where they are none; recordings and reports against
their schemas.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from building import failing, report_of
from hypothesis import given
from hypothesis import strategies as st
from paths import RECORDINGS
from program import Call

from gpuscan.cli.schema import SCHEMAS as NAMES
from gpuscan.engine import judging
from gpuscan.errors import RecordingError, UsageError
from gpuscan.files import schema_text, write_atomically
from gpuscan.importers.load import DEMOS, open_recording
from gpuscan.model import DERIVED, KINDS, READING_KINDS, Unread, is_unread
from gpuscan.model.outcome import ACTIONS, Action, Status
from gpuscan.model.subject import Subject
from gpuscan.recording import Reading, Recording, dump, load, patch, restore, save
from gpuscan.recording.redaction import redact
from gpuscan.renderers import json_

EMPTY = {"format": "gpuscan-recording", "schema_version": "1.0", "scope": ["*"], "readings": []}


def simple(*readings: Reading) -> Recording:
    return Recording({"gpuscan_version": "1", "made_at": 5.0}, ["*"], readings)


def refused(path: Path | str) -> str:
    with pytest.raises(RecordingError) as told:
        load(str(path))
    assert str(path) in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a"])
def test_what_is_saved_is_loaded_again(tmp_path: Path, name: str) -> None:
    whole = load(str(RECORDINGS / "h200-1x.json.gz"))
    whole.add(
        Reading(
            "file:/a", None, Unread("file:/a", "not-found", "gone", 2), 7.0005, 1.5, "before:gemm"
        )
    )
    whole.add(Reading("file:/a", "second", None, 8.0, 0.25))
    save(whole, str(tmp_path / name))
    again = load(str(tmp_path / name))
    assert dump(again) == dump(whole)
    assert [r.phase for r in again.all("file:/a")] == ["before:gemm", "scan"]
    assert again.all("file:/a")[0].error == Unread("file:/a", "not-found", "gone", 2)
    assert (
        (tmp_path / name).read_bytes().startswith(b"{" if name.endswith(".json") else b"\x1f\x8b")
    )
    assert os.listdir(tmp_path) == [name], "no draft stays behind"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(value=values)
def test_any_value_survives(value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("any") / "a.json.gz")
    save(simple(Reading("k", value)), path)
    assert load(path).get("k") == value


def test_bytes_that_are_no_utf8_survive(tmp_path: Path) -> None:
    text = b"serial \xff\xfe\x80 \xc3\xa9".decode("utf-8", "surrogateescape")
    for name in ("a.json", "a.json.gz"):
        save(simple(Reading("file:/x", text), Reading(f"file:/{text}", 1)), str(tmp_path / name))
        again = load(str(tmp_path / name))
        assert (
            again.get("file:/x").encode("utf-8", "surrogateescape")
            == b"serial \xff\xfe\x80 \xc3\xa9"
        )
        assert f"file:/{text}" in again


def test_the_newest_reading_of_a_key_counts_and_all_are_kept() -> None:
    one = simple(
        Reading("k", 1),
        Reading("other", 0),
        Reading("k", 2),
        Reading("k", None, Unread("k", "lost", "gone")),
    )
    assert [r.value for r in one.all("k")] == [1, 2, None]
    assert one.get("k") == Unread("k", "lost", "gone")
    assert list(one.keys()) == ["k", "other"]
    assert one.all("never") == []
    one.add(Reading("k", 3))
    assert one.get("k") == 3


def test_scope_separates_missing_from_not_recorded() -> None:
    part = Recording({}, ["nvml:*", "file:/proc/modules"], [])
    assert part.get("nvml:nvmlInit()").kind == "blocked-behind"
    assert part.get("file:/proc/modules").kind == "blocked-behind"
    assert part.get("file:/proc/cpuinfo").kind == "not-recorded"
    assert Recording({}, ["*"]).get("anything").kind == "blocked-behind"
    assert Recording({}, []).get("anything").kind == "not-recorded"


@pytest.mark.parametrize("kind", ["strange", "", "ok", "pass", *DERIVED])
def test_kinds_that_no_reading_can_have_are_garbled(kind: str) -> None:
    got = simple(Reading("k", None, Unread("k", kind, "?"))).get("k")
    assert (got.kind, got.text) == ("garbled", "?"), "or a file could make a lack harmless"


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    save(load(str(RECORDINGS / "h200-1x.json.gz")), str(tmp_path / "whole.json.gz"))
    save(load(str(RECORDINGS / "h200-1x.json.gz")), str(tmp_path / "whole.json"))
    for name in ("whole.json.gz", "whole.json"):
        data = (tmp_path / name).read_bytes()
        for share in (0.01, 0.5, 0.9, 0.999):
            cut = tmp_path / f"cut-{name}"
            cut.write_bytes(data[: int(len(data) * share)])
            told = refused(cut)
            assert "cut off" in told
            assert "again" in told


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no valid JSON"),
        (b"{}", 'not a gpuscan recording (its JSON has no "format": "gpuscan-recording")'),
        (b'{"format": "other"}', "not a gpuscan recording"),
        (b"[]", "not a gpuscan recording"),
        (b"null", "not a gpuscan recording"),
        (b"hello", "no valid JSON"),
        (b"\xff\xfe\x00", "no valid JSON"),
        (b"\x1f\x8bnot gzip at all", "damaged or cut off"),
        (b"[" * 100_000, "no valid JSON"),
        (b'{"a":' * 100_000, "no valid JSON"),
        (b"1" * 5000, "no valid JSON"),
    ],
)
def test_what_is_no_recording(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(content)
    assert words in refused(path)


def test_other_programs_files(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a log\n"))
    assert "not a gpuscan recording" in refused(path)
    assert refused(tmp_path / "missing") == f"{tmp_path / 'missing'}: No such file or directory"
    assert refused(tmp_path) == f"{tmp_path}: Is a directory"


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0", "", None])
def test_versions(version: object) -> None:
    with pytest.raises(
        RecordingError,
        match=r"^f: recording format .*, but this gpuscan reads 1\.0: update gpuscan$",
    ):
        restore({**EMPTY, "schema_version": version}, "f")


def test_a_newer_minor_version_and_unknown_keys_are_read() -> None:
    newer = restore({**EMPTY, "schema_version": "1.7", "colour": "red"}, "f")
    assert newer.meta.extra == {"colour": "red"}
    assert dump(newer)["colour"] == "red"


ROW = {"key": "k", "value": 1, "at": 0.0, "ms": 0.0}
NO_TIMES: tuple[Any, ...] = (float("nan"), float("inf"), -1, 1e300, 10**400, "5", [], True)


@pytest.mark.parametrize(
    "change",
    [
        {"readings": None},
        {"readings": 5},
        {"readings": {"a": 1}},
        {"readings": ["k"]},
        {"readings": [{**ROW, "key": 5}]},
        {"readings": [{k: v for k, v in ROW.items() if k != "value"}]},
        {"readings": [{k: v for k, v in ROW.items() if k != "at"}]},
        {"readings": [{**ROW, "ms": "fast"}]},
        {"readings": [{**ROW, "error": "lost"}]},
        {"readings": [{**ROW, "error": {"kind": "lost"}}]},
        {"readings": [{**ROW, "error": {"kind": "lost", "text": "x", "code": []}}]},
        {"readings": [{**ROW, "error": {"kind": "lost", "text": "x", "code": True}}]},
        {"scope": None},
        {"scope": "*"},
        {"scope": {"*": 1}},
        {"readings": [{**ROW, "error": {"kind": "lost", "text": "x"}}]},
        {"readings": [{**ROW, "value": 0, "error": {"kind": "lost", "text": "x"}}]},
        {"readings": [{**ROW, "value": "", "error": {"kind": "lost", "text": "x"}}]},
        *(
            {part: number}
            for part in ("made_at", "duration_s", "ended_by_signal")
            for number in NO_TIMES
        ),
    ],
)
def test_damaged_rows_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecordingError, match=r"^f: damaged recording \("):
        restore({**EMPTY, **change}, "f")
    missing = {key: value for key, value in EMPTY.items() if key not in change}
    if len(missing) < len(EMPTY):
        with pytest.raises(RecordingError, match="^f: damaged recording"):
            restore(missing, "f")


HEAD = '{"format": "gpuscan-recording", "schema_version": "1.0", "scope": ["*"], '
DAMAGED = {
    "a time that is none": HEAD + '"made_at": NaN, "readings": []}',
    "a time without end": HEAD + '"made_at": Infinity, "readings": []}',
    "a time beyond all years": HEAD + '"made_at": 1e18, "readings": []}',
    "a number of 400 digits": HEAD + f'"made_at": 1{"0" * 400}, "readings": []}}',
    "a number of 5000 digits": HEAD + f'"made_at": 1{"0" * 5000}, "readings": []}}',
    "value and error": (
        HEAD
        + '"readings": [{"key": "k", "value": 1, "error": {"kind": "lost", "text": "x"}, "at": 0,'
        ' "ms": 0}]}'
    ),
    "readings that are no list": HEAD + '"readings": {"k": 1}}',
    "a reading that is none": HEAD + '"readings": ["k"]}',
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("command", ["judge", "info --replay", "run --replay"])
def test_a_damaged_recording_is_wrong_usage_for_every_command(
    name: str, command: str, tmp_path: Path, call: Call
) -> None:
    path = tmp_path / "a.json"
    path.write_text(DAMAGED[name], "utf-8")
    done = call(*command.split(), str(path))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"gpuscan: {path}: ")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("made_at", [None, 0, 5, 1.7e9, 9.9e12])
def test_a_time_that_can_be_one_is_read(made_at: float | None, tmp_path: Path, call: Call) -> None:
    restore({**EMPTY, "made_at": made_at}, "f")
    save(Recording({"made_at": made_at}, ["*"], [Reading("k", 1)]), str(tmp_path / "a.json"))
    assert call("judge", str(tmp_path / "a.json")).code == 3


def test_a_file_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuscan.recording.files.LARGEST_BYTES", 1 << 20)
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b" " * (64 << 20)))
    assert "larger than 1 MiB unpacked" in refused(bomb)
    plain = tmp_path / "plain.json"
    plain.write_bytes(b" " * ((1 << 20) + 1))
    assert "larger than 1 MiB" in refused(plain)


def test_patch_sets_replaces_by_error_removes_and_adds() -> None:
    before = simple(Reading("a", 1, at_s=3.0), Reading("b", 2), Reading("c", 3), Reading("a", 4))
    changes = {
        "a": 5,
        "b": {"error": ["lost", "gone"]},
        "c": None,
        "d": 6,
        "e": {"error": ["timed-out", "late", 19]},
        "f": None,
    }
    after = patch(before, changes)
    assert [(r.key, r.value) for r in after] == [
        ("a", 5),
        ("a", 5),
        ("b", None),
        ("d", 6),
        ("e", None),
    ]
    assert after.get("b") == Unread("b", "lost", "gone")
    assert after.get("e") == Unread("e", "timed-out", "late", 19)
    assert after.all("a")[0].at_s == 3.0
    assert (after.meta, after.scope) == (before.meta, before.scope)
    assert before.get("b") == 2, "the original stays"


def test_patch_by_glob() -> None:
    before = simple(
        Reading("nvml:x(0000:1b:00.0)", 1),
        Reading("nvml:y(0000:1b:00.0,1)", 2),
        Reading("nvml:x(0000:43:00.0)", 3),
    )
    after = patch(before, {"nvml:*(0000:1b:00.0*": {"error": ["lost", "gone"]}, "nothing:*": 5})
    assert [r.error is not None for r in after] == [True, True, False]
    assert len(list(after)) == 3, "a glob adds no reading"
    assert list(patch(before, {"nvml:*": None})) == []


def test_patch_turns_an_error_into_a_value() -> None:
    after = patch(simple(Reading("a", None, Unread("a", "lost", "gone"))), {"a": 0})
    assert after.get("a") == 0


def test_patch_logs_after_what_was_logged() -> None:
    log = ["6,0,100,-;boot", "6,7,2000000,-;later"]
    after = patch(
        simple(Reading("kmsg:/dev/kmsg", log), Reading("a", 1)), {}, ["NVRM: one", "NVRM: two"]
    )
    assert after.get("kmsg:/dev/kmsg") == [
        *log,
        "4,8,3000000,-;NVRM: one",
        "4,9,4000000,-;NVRM: two",
    ]
    assert patch(simple(Reading("kmsg:/dev/kmsg", [])), {}, ["x"]).get("kmsg:/dev/kmsg") == [
        "4,1,1000000,-;x"
    ]
    unread = simple(Reading("kmsg:/dev/kmsg", None, Unread("k", "no-permission", "?")))
    assert is_unread(patch(unread, {}, ["x"]).get("kmsg:/dev/kmsg")), (
        "a log that could not be read stays so"
    )


def test_a_file_is_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    link = tmp_path / "link"
    link.symlink_to(path)
    write_atomically(str(link), b"newer")
    assert link.is_symlink()
    assert path.read_bytes() == b"newer"
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_a_special_file_is_written_into_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(str(pipe), b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo(), "as root this would have been /dev/null"


def test_unwritable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        write_atomically(str(tmp_path / "no" / "folder"), b"")
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        write_atomically(str(tmp_path), b"")
    assert os.listdir(tmp_path) == []


SCHEMAS = {name: json.loads(schema_text(name)) for name in NAMES}


def closed(schema: Any) -> Any:
    """Return the schema with every object closed, so that a field it does not describe is an
    error.
    """
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return (
        {**inner, "additionalProperties": False}
        if "properties" in schema and "type" in schema
        else inner
    )


def described(schema: Any, path: str = "$") -> list[str]:
    """Return the paths of properties that have no description."""
    lacking = []
    for key, part in schema.get("properties", {}).items():
        if "description" not in part and "$ref" not in part:
            lacking.append(f"{path}.{key}")
        lacking += described(part, f"{path}.{key}") + described(
            part.get("items", {}), f"{path}.{key}[]"
        )
    for name, part in schema.get("$defs", {}).items():
        lacking += described(part, f"{path}.{name}")
    return lacking


def mistakes(schema: Any, document: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message:.200}" for error in found]


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_are_valid_named_and_described(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:gpuscan:schema:{name}:1"
    assert schema["title"] == f"gpuscan {name}"
    if name != "profile":
        assert described(schema) == []
        assert "additionalProperties" not in json.dumps(schema), (
            "readers pass over what they do not know"
        )


def recordings() -> dict[str, Recording]:
    found = {path.name: load(str(path)) for path in sorted(RECORDINGS.glob("*.json.gz"))}
    found |= {name: open_recording(name) for name in DEMOS}
    one = found["h200-1x.json.gz"]
    found["unread"] = patch(one, {"nvml:*": {"error": ["timed-out", "no answer", 10]}})
    found["empty"] = Recording({}, ["*"])
    found["redacted"] = redact(one)
    found["signal"] = Recording(
        one.meta._replace(ended_by_signal=15, synthetic=True),
        one.scope,
        [*one, Reading("a", 1, phase="b")],
    )
    found["logged"] = patch(
        one, {}, ["NVRM: Xid (PCI:0000:00:06): 79, pid=5, name=x, GPU has fallen off the bus."]
    )
    return found


ALL = recordings()


@pytest.mark.parametrize("name", ALL)
def test_recordings_match_their_schema(name: str) -> None:
    document = json.loads(json.dumps(dump(ALL[name])))
    assert mistakes(closed(SCHEMAS["recording"]), document) == []


def documents(name: str) -> list[dict[str, Any]]:
    plans = [
        judging.prepare(judging.Selection(profile))
        for profile in ("auto", "h200-1x", "default", "h100-8x")
    ]
    return [
        json.loads(json_.render([judging.judge_recording(ALL[name], name, plan)], verbosity=0))
        for plan in plans
    ]


@pytest.mark.parametrize("name", ALL)
def test_reports_match_their_schema(name: str) -> None:
    for document in documents(name):
        assert mistakes(closed(SCHEMAS["report"]), document) == []


def test_a_report_with_a_crash_matches_the_schema() -> None:
    document = json_.document(report_of())
    result = failing(Action.REPLACE)._replace(
        traceback="Traceback",
        unread=(("gpus", Unread("k", "lost", "x")),),
        about=Subject("node", "", "0000:00:06.0"),
    )
    result = result._replace(
        findings=(
            result.findings[0]._replace(shared=True, culprits=("SXM1",), observed={"a": [1]}),
        )
    )
    part = json_.document(report_of(result))
    for key in ("run", "host", "software"):
        del part[key], document[key]
    schema = copy.deepcopy(closed(SCHEMAS["report"]))
    schema["required"] = [
        key for key in schema["required"] if key not in ("run", "host", "software")
    ]
    assert mistakes(schema, part) == []
    assert mistakes(schema, document) == []


def test_the_schemas_name_the_same_words_as_the_program() -> None:
    report, row = SCHEMAS["report"], SCHEMAS["recording"]["$defs"]["reading"]
    assert report["$defs"]["action"]["enum"] == [action.value for action in Action]
    assert report["$defs"]["kind"]["enum"] == list(KINDS)
    assert row["properties"]["error"]["properties"]["kind"]["enum"] == list(READING_KINDS)
    assert report["$defs"]["result"]["properties"]["status"]["enum"] == [
        status.value for status in Status
    ]
    summary = report["properties"]["summary"]["properties"]
    assert set(summary["verdict"]["enum"]) == {
        "incomplete",
        *(entry.verdict for entry in ACTIONS.values()),
    }
    assert set(summary["exit_code"]["enum"]) == {
        3,
        10,
        *(entry.exit_code for entry in ACTIONS.values()),
    }


@pytest.mark.parametrize(
    "change",
    [
        {"value": 1, "error": {"kind": "lost", "text": "x"}},
        {},
        {"error": {"kind": "strange", "text": "x"}},
        {"value": 1, "key": ""},
    ],
)
def test_the_schema_refuses_rows_that_are_none(change: dict[str, Any]) -> None:
    row = {"key": "k", "at": 1.0, "ms": 1.0, **change}
    assert mistakes(SCHEMAS["recording"], {**EMPTY, "readings": [row]})


def test_schemas_are_in_the_package() -> None:
    for name in NAMES:
        assert files("gpuscan").joinpath("schemas", f"{name}.schema.json").is_file()


def test_a_field_that_no_schema_describes_would_be_noticed() -> None:
    document, *_ = documents("demo-broken")
    for place in (
        document,
        document["summary"]["counts"],
        document["findings"][0],
        document["checks"][3]["evidence"][0],
    ):
        place["colour"] = "red"
        assert mistakes(closed(SCHEMAS["report"]), document)
        assert mistakes(SCHEMAS["report"], document) == [], "and is allowed to readers"
        del place["colour"]


def told(readings: list[Reading]) -> list[object]:
    return [reading.value if reading.error is None else reading.error.kind for reading in readings]


def test_patch_gives_a_key_several_readings() -> None:
    before = simple(Reading("a", 3, at_s=1.0), Reading("a", 3, at_s=2.0), Reading("b", 7))
    samples = patch(before, {"a": {"samples": [3, {"error": ["lost", "gone"]}, 5]}})
    assert told(samples.all("a")) == [3, "lost", 5]
    assert [reading.at_s for reading in samples.all("a")] == [1.0, 2.0, 2.0]
    assert told(patch(before, {"b": {"samples": [7, 8]}}).all("b")) == [7, 8]
    assert told(patch(before, {"c": {"samples": [1, 2]}}).all("c")) == [1, 2]


def test_patch_lets_counters_grow() -> None:
    file = "DLP 1\nTOTAL_ERR_FATAL 1\n"
    before = simple(
        Reading("a", 3, at_s=1.0),
        Reading("a", 4, at_s=2.0),
        Reading("file:b", file),
        Reading("file:c", "9\n"),
    )
    grown = patch(before, {"a": {"growth": 5}, "file:*": {"growth": 2}})
    assert told(grown.all("a")) == [3, 8]
    assert told(grown.all("file:b")) == [file, "DLP 1\nTOTAL_ERR_FATAL 3\n"]
    assert told(grown.all("file:c")) == ["9\n", "11\n"]
