"""A judgement of a part of the node says so in every form, and is worth less than one of the whole."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from nodes_recordings import NAMES, base
from program import Call

from gpuscan import collectors, profile
from gpuscan.model import read_or
from gpuscan.recording import save

FORMS = {
    "text": (),
    "one line": ("-q",),
    "all of it": ("-v",),
    "JSON": ("--format", "json"),
    "JUnit": ("--format", "junit"),
    "JUnit with properties": ("--format", "junit-full"),
    "nagios": ("-q", "--exit-style", "nagios"),
    "npd": ("--exit-style", "npd"),
}
NARROWED = {
    "whole": (),
    "an area left out": ("--skip", "memory"),
    "a check left out": ("--skip", "inventory.gpu_count"),
    "one area": ("--only", "driver"),
    "one GPU": ("--gpus",),
    "no expectation": ("--profile", "default"),
}
OPEN = [name for name in profile.list_profiles() if profile.load(name).data["gpu"]["count"] is None]
SAMPLE = 24


class Grid(NamedTuple):
    """One judgement: of which recording, how it is narrowed, and how it is told."""

    name: str
    narrowed: str
    form: str


GRID = [Grid(*one) for one in ((n, o, f) for n in NAMES for o in NARROWED for f in FORMS)]


def words_of(one: Grid) -> tuple[str, ...]:
    words = NARROWED[one.narrowed]
    if words != ("--gpus",):
        return words
    gpus = read_or(collectors.node(base(one.name)).gpus, ())
    return (*words, gpus[0].address) if gpus else ()


def is_part(one: Grid, document: dict[str, object]) -> bool:
    """Whether options or an open profile that vouches for the machine narrow the judgement."""
    run = document["run"]
    assert isinstance(run, dict)
    vouched = run["profile"]["vouches"] and run["profile"]["name"] in OPEN
    return bool(words_of(one)) or vouched


def hold_laws(one: Grid, folder: Path, call: Call) -> None:
    file = str(folder / "node.json.gz")
    save(base(one.name), file)
    words = ("judge", file, *words_of(one))
    plain = call(*words, "--format", "json")
    document = json.loads(plain.out)
    part = is_part(one, document)
    told = call(*words, *FORMS[one.form])
    assert ("partial:" in told.out) is part, one
    assert bool(document["partial"]) is part
    assert document["summary"]["usable"] is (plain.code == 0 and not part)
    assert all(row["what"] and row["why"] for row in document["partial"])
    assert "may go to work" not in told.out or not part
    required = call(*words, "--require-full")
    assert required.code == (3 if part and plain.code == 0 else plain.code)
    line = call(*words, "-q").out
    if plain.code >= 20:
        assert f": {document['summary']['action']} " in line[:80], line
    if plain.code == 3:
        assert ": " in line.partition("; partial:")[0], line


@pytest.mark.parametrize("one", random.Random(3).sample(GRID, SAMPLE), ids=" ".join)
def test_a_part_is_told_as_a_part(one: Grid, tmp_path: Path, call: Call) -> None:
    hold_laws(one, tmp_path, call)


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_told_as_a_part(name: str, tmp_path: Path, call: Call) -> None:
    for one in GRID:
        if one.name == name:
            hold_laws(one, tmp_path, call)
