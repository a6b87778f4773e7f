"""The lens: what a check reads is booked, what it could not read is refused and booked."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest
from building import lost

from gpuscan.engine.lens import FactLog, Lens, NotRead, focus, look, read
from gpuscan.model import Unread
from gpuscan.model.outcome import Evidence


class Rows(NamedTuple):
    """A nested record."""

    failed: bool
    spare: int


class Link(NamedTuple):
    """A record without a label."""

    number: int
    active: bool


class CudaGpu(NamedTuple):
    """A record with all kinds of facts."""

    address: str
    label: str
    name: str
    rows: Rows
    links: tuple[Link, ...]
    names: tuple[str, ...]


class Box(NamedTuple):
    """A record of records."""

    gpus: tuple[CudaGpu, ...]


SOURCES = {
    "gpus": ("dir:/sys",),
    "gpus[A]": ("nvml:gpu(A)",),
    "gpus[A].rows": ("nvml:rows(A)",),
    "gpus[A].rows.failed": ("nvml:failed(A)",),
    "gpus[A].links": ("nvml:count(A)",),
    "gpus[A].links[1]": ("nvml:state(A,1)",),
}


def gpu(label: str = "A", **changes: Any) -> CudaGpu:
    links = (Link(0, True), Link(1, False))
    return CudaGpu(
        f"0000:0{label}:00.0", label, "H200", Rows(False, 3), links, ("a", "b")
    )._replace(**changes)


def focused(
    record: Any = None, path: str = "gpus[A]", explained: frozenset[str] = frozenset()
) -> tuple[Any, FactLog]:
    log = FactLog(SOURCES, explained)
    return look(gpu() if record is None else record, path, log), log


def test_a_fact_that_is_read_is_booked_with_value_and_source() -> None:
    lens, log = focused()
    assert lens.name == "H200"
    assert log.reads == [Evidence("gpus[A].name", "H200", ("nvml:gpu(A)",))]
    assert log.missing == []


def test_what_the_subject_is_called_is_no_evidence() -> None:
    lens, log = focused()
    assert (lens.label, lens.address) == ("A", "0000:0A:00.0")
    assert log.reads == []


def test_a_fact_that_was_not_read_is_refused_and_booked() -> None:
    lens, log = focused(gpu(name=lost()))
    with pytest.raises(NotRead, match=r"gpus\[A\]\.name"):
        _ = lens.name
    assert log.missing == [("gpus[A].name", lost())]
    assert log.reads == []


def test_nested_records_are_lenses_and_only_their_facts_are_booked() -> None:
    lens, log = focused()
    assert lens.rows.failed is False
    assert lens.rows.spare == 3
    assert [(e.fact, e.keys) for e in log.reads] == [
        ("gpus[A].rows.failed", ("nvml:failed(A)",)),
        ("gpus[A].rows.spare", ("nvml:rows(A)",)),
    ]


def test_a_nested_record_that_was_not_read_is_refused_as_a_whole() -> None:
    lens, log = focused(gpu(rows=lost()))
    with pytest.raises(NotRead):
        _ = lens.rows.failed
    assert [path for path, _ in log.missing] == ["gpus[A].rows"]


def test_tuples_of_records_become_lenses_named_by_label_or_number() -> None:
    lens, log = focused(Box((gpu("A"), gpu("B"))), "")
    assert [one.name for one in lens.gpus] == ["H200", "H200"]
    assert [link.active for link in lens.gpus[0].links] == [True, False]
    assert [(e.fact, e.value) for e in log.reads] == [
        ("gpus", 2),
        ("gpus[A].name", "H200"),
        ("gpus[B].name", "H200"),
        ("gpus", 2),
        ("gpus[A].links", 2),
        ("gpus[A].links[0].active", True),
        ("gpus[A].links[1].active", False),
    ]
    assert log.reads[-1].keys == ("nvml:state(A,1)",)
    assert log.reads[-2].keys == ("nvml:count(A)",), (
        "a link without a reading of its own has that of the list"
    )


def test_tuples_of_plain_values_stay_plain_and_one_unread_item_is_refused() -> None:
    lens, log = focused()
    assert lens.names == ("a", "b")
    lens, log = focused(gpu(names=("a", lost())))
    with pytest.raises(NotRead):
        _ = lens.names
    assert log.missing == [("gpus[A].names[1]", lost())]


def test_keys_fall_back_to_the_record_around() -> None:
    log = FactLog({**SOURCES, "": ("all",)})
    assert log.keys("gpus[A].rows.failed") == ("nvml:failed(A)",)
    assert log.keys("gpus[A].rows.other.deep") == ("nvml:rows(A)",)
    assert log.keys("gpus[A].other") == ("nvml:gpu(A)",)
    assert log.keys("gpus[B].rows") == ("dir:/sys",)
    assert log.keys("gpus.rows[3]") == ("dir:/sys",)
    assert log.keys("elsewhere") == ("all",)
    assert FactLog(SOURCES).keys("elsewhere") == ()


def test_a_lens_is_no_value() -> None:
    lens, _ = focused()
    other, _ = focused()
    for this, that in ((lens, other), (lens, "H200"), (lens.rows, (False, 3))):
        with pytest.raises(TypeError, match="compare"):
            _ = this == that
        with pytest.raises(TypeError, match="compare"):
            _ = this != that
    with pytest.raises(TypeError, match="assert one of its facts"):
        bool(lens)
    with pytest.raises(TypeError, match="not its type"):
        isinstance(lens, CudaGpu)
    with pytest.raises(TypeError):
        hash(lens)
    with pytest.raises(TypeError):
        _ = lens in (other,)
    with pytest.raises(TypeError):
        _ = lens[0]
    with pytest.raises(TypeError):
        list(lens)
    with pytest.raises(TypeError):
        _ = lens < other


def test_a_lens_cannot_be_written_and_has_no_other_names() -> None:
    lens, log = focused()
    with pytest.raises(AttributeError, match=r"cannot change gpus\[A\]\.name"):
        lens.name = "better"
    with pytest.raises(AttributeError):
        _ = lens.nam
    assert log.reads == []
    assert log.missing == []
    assert repr(lens) == "<lens on gpus[A]>"
    assert repr(Lens(gpu(), "", log)) == "<lens on node>"


def test_read_pairs_those_that_were_read_and_books_the_rest() -> None:
    gpus = (gpu("A"), gpu("B", name=lost()), gpu("C", name="H100"))
    lens, log = focused(Box(gpus), "")
    pairs = read(lens.gpus, "name")
    assert [(one.label, value) for one, value in pairs] == [("A", "H200"), ("C", "H100")]
    assert log.missing == [("gpus[B].name", lost())]


def test_read_follows_dots() -> None:
    gpus = (gpu("A"), gpu("B", rows=Rows(cast(bool, lost()), 5)), gpu("C", rows=lost()))
    lens, log = focused(Box(gpus), "")
    assert [value for _, value in read(lens.gpus, "rows.failed")] == [False]
    assert [path for path, _ in log.missing] == ["gpus[B].rows.failed", "gpus[C].rows"]


def test_read_leaves_out_gpus_whose_silence_is_explained_and_books_nothing_of_them() -> None:
    gpus = (gpu("A"), gpu("B", name=lost()))
    lens, log = focused(Box(gpus), "", frozenset({"0000:0B:00.0"}))
    assert [one.label for one, _ in read(lens.gpus, "name")] == ["A"]
    assert log.missing == []


def test_read_lets_a_typing_error_through() -> None:
    lens, _ = focused(Box((gpu(),)), "")
    with pytest.raises(AttributeError):
        read(lens.gpus, "nmae")


def test_an_unread_has_no_truth() -> None:
    with pytest.raises(TypeError, match="was not read"):
        bool(lost())
    with pytest.raises(NotRead):
        focus(Unread("k", "garbled", "?"), "p", FactLog({}))
