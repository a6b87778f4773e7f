"""Profiles as text: every mistake is told with its line and column, and no file can blow up the
reader.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpuscan.errors import ProfileError
from gpuscan.profile import yamlfile

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "gpu": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "count": {"type": ["integer", "null"], "minimum": 0},
                "name": {"type": ["string", "null"]},
                "slots": {"type": "array", "items": {"type": "object"}},
            },
        },
        "driver": {"type": "object"},
    },
}


def load(text: str) -> Any:
    return yamlfile.load(text, "f.yaml")[0]


def refused(text: str) -> str:
    with pytest.raises(ProfileError) as told:
        load(text)
    return str(told.value)


def invalid(text: str) -> str:
    document, positions = yamlfile.load(text, "f.yaml")
    with pytest.raises(ProfileError) as told:
        yamlfile.validate(document, positions, "f.yaml", SCHEMA)
    return str(told.value)


def test_plain_values() -> None:
    text = (
        "a: 1\nb: -2.5\nc: true\nd: False\ne: null\nf: ~\ng:\nh: text\ni: [1, 'x']\nj: {k:"
        " '010'}\nl: 0\nm: 1e3\n"
    )
    assert load(text) == {
        "a": 1, "b": -2.5, "c": True, "d": False, "e": None, "f": None, "g": None, "h": "text",
        "i": [1, "x"], "j": {"k": "010"}, "l": 0, "m": "1e3",
    }  # fmt: skip


def test_anchors_are_one_value_in_two_places() -> None:
    assert load("a: &x {b: 1}\nc: *x\n") == {"a": {"b": 1}, "c": {"b": 1}}


def test_positions_are_those_of_values_and_keys() -> None:
    _, positions = yamlfile.load("gpu:\n  slots:\n    - a\n    - bb: 2\n", "f.yaml")
    assert positions[()] == (1, 1)
    assert positions[("gpu", "")] == (1, 1)
    assert positions[("gpu", "slots", "")] == (2, 3)
    assert positions[("gpu", "slots", 1)] == (4, 7)
    assert positions[("gpu", "slots", 1, "bb")] == (4, 11)


@pytest.mark.parametrize("word", ["on", "off", "yes", "No", "Y", "n"])
def test_words_that_yaml_takes_for_true_or_false(word: str) -> None:
    text = f"gpu:\n  name: {word}\n"
    if word in ("Y", "n"):  # the reader takes these for text, though YAML 1.1 does not
        assert load(text) == {"gpu": {"name": word}}
    else:
        assert (
            refused(text)
            == f"f.yaml:2:9: $.gpu.name: '{word}' would be read as true or false: quote it, or"
            " write true or false"
        )
        assert load(f'gpu: {{name: "{word}"}}') == {"gpu": {"name": word}}


@pytest.mark.parametrize(
    "number", ["22:30", "010", "-017", "0x10", "0b11", "190:20:30.15", ".inf", ".NaN", "00"]
)
def test_numbers_that_yaml_reads_otherwise_than_people(number: str) -> None:
    told = refused(f"a:\n   b: {number}\n")
    assert told.startswith(f"f.yaml:2:7: $.a.b: '{number}' is an unusual number")
    assert load(f"b: '{number}'") == {"b": number}


@pytest.mark.parametrize(
    "value", ["2024-01-01", "2024-01-01 10:00:00", "!!binary aGk=", "=", "!mine 5"]
)
def test_dates_and_other_types(value: str) -> None:
    assert "quote it" in refused(f"a: {value}\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("on: 1\n", "f.yaml:1:1: $: key 'on' is not text: quote it"),
        ("a:\n  1: x\n", "f.yaml:2:3: $.a: key '1' is not text"),
        (
            "a: &x {b: 1}\nc:\n  <<: *x\n",
            "f.yaml:3:3: $.c: key '<<' is not text: quote it, and do not merge",
        ),
        ("? [a, b]\n: 1\n", "f.yaml:1:3: $: key"),
        ("null: 1\n", "f.yaml:1:1: $: key 'null' is not text"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: $: key 'a' is given twice"),
        ("g:\n  a: 1\n  a: 1\n", "f.yaml:3:3: $.g: key 'a' is given twice"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: not valid YAML"),
        ("a: [1\n", "not valid YAML"),
        ("a: 'x\n", "not valid YAML"),
        ("a:\n\tb: 1\n", "f.yaml:2:1: not valid YAML"),
        ("a: *nowhere\n", "f.yaml:1:4: not valid YAML"),
        ("a: \0\n", "not valid YAML"),
        ("a: \x1b[2J\n", "not valid YAML"),
        ("", "f.yaml:1:1: the file is empty"),
        ("# nothing\n\n", "f.yaml:1:1: the file is empty"),
    ],
)
def test_refused(text: str, words: str) -> None:
    told = refused(text)
    assert words in told
    assert told.startswith("f.yaml:")
    assert "\n" not in told


def test_bombs_are_refused_at_once() -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for n in range(1, 12):
        laughs += f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n"
    endless = "a: &a [*a]\n"
    deep = "a: " + "[" * 400 + "]" * 400 + "\n"
    deeper = "a: " + "[" * 100_000
    began = time.monotonic()
    for text in (laughs, endless, deep):
        assert "too many or too deep values (aliases within aliases?)" in refused(text)
    assert "not valid YAML" in refused(deeper)
    assert time.monotonic() - began < 5


def test_as_many_values_as_a_large_profile_has_are_read() -> None:
    assert len(load("a: [" + ", ".join(["1"] * 10_000) + "]")["a"]) == 10_000


def test_mistakes_against_the_schema_have_their_place() -> None:
    assert invalid("gpu:\n  count: eight\n").startswith(
        "f.yaml:2:10: $.gpu.count: 'eight' is not an integer"
    )
    assert invalid("gpu:\n  name: 5\n").startswith("f.yaml:2:9: $.gpu.name: 5 is not a string")
    assert invalid("gpu: {slots: [{}, 3]}\n").startswith(
        "f.yaml:1:19: $.gpu.slots[1]: 3 is not an object"
    )
    assert (
        invalid("gpu:\n  count: -1\n")
        == "f.yaml:2:10: $.gpu.count: -1 is less than the minimum of 0"
    )
    assert invalid("[1, 2]\n").startswith("f.yaml:1:1: $: [1, 2] is not an object")
    assert invalid("gpu:\n").startswith("f.yaml:1:5: $.gpu: None is not an object")


def test_unknown_keys_name_their_neighbours() -> None:
    assert (
        invalid("gpu:\n  conut: 8\n") == "f.yaml:2:3: $.gpu.conut: unknown key; did you mean count?"
    )
    assert invalid("gpus: {}\n") == "f.yaml:1:1: $.gpus: unknown key; did you mean gpu?"
    assert invalid("zzz: 1\n") == "f.yaml:1:1: $.zzz: unknown key; known keys: driver, gpu"


def test_every_mistake_is_told() -> None:
    told = invalid("gpu:\n  count: eight\n  name: 5\n  zzz: 1\nyyy: 2\nxxx: 3\n").splitlines()
    assert sorted(line.split(": ")[1] for line in told) == [
        "$.gpu.count",
        "$.gpu.name",
        "$.gpu.zzz",
        "$.xxx",
        "$.yyy",
    ]


def test_what_the_schema_allows_passes() -> None:
    document, positions = yamlfile.load("gpu: {count: 8, name: null}\n", "f.yaml")
    yamlfile.validate(document, positions, "f.yaml", SCHEMA)


def test_a_path_as_people_write_it() -> None:
    assert yamlfile.dotted(()) == "$"
    assert yamlfile.dotted(("gpu", "slots", 3)) == "$.gpu.slots[3]"
