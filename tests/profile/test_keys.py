"""The profile schema is the only list of keys; what follows from it is generated."""

from __future__ import annotations

import pytest
from generate import GENERATED
from nodes_recordings import base
from paths import ROOT

from gpuscan import collectors
from gpuscan.model import Gpu
from gpuscan.profile.capture import _walk
from gpuscan.profile.keys import annotated, is_choice, is_table, load_schema


@pytest.mark.parametrize("file", GENERATED)
def test_generated_files_are_fresh(file: str) -> None:
    assert (ROOT / file).read_text("utf-8") == GENERATED[file](), (
        "run python tests/support/generate.py"
    )


def test_annotations_are_read_by_key_and_by_branch() -> None:
    assert is_choice("gpu.vbios")
    assert is_choice("burnin.hbm_read_gbps")
    assert is_choice("burnin.all-reduce p2p 8 1GiB")
    assert not is_choice("gpu.count")
    assert is_table("gpu.slots")
    assert not is_table("gpu")


def test_each_captured_fact_exists() -> None:
    node = collectors.node(base("h100-8x-ib"))
    for rule in annotated("x-capture").values():
        area, _, fact = rule["fact"].partition(".")
        record = getattr(node, area)
        record = record[0] if isinstance(record, tuple) and area == "gpus" else record
        assert not fact or _walk(record, fact) is not None, rule


def test_capabilities_are_the_facts_of_a_gpu() -> None:
    names = load_schema()["properties"]["capabilities"]["items"]["else"]["enum"]
    assert {name.partition(".")[0] for name in names} <= set(Gpu._fields)
    assert "sram" in names
    assert "uuid" not in names
