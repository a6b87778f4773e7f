"""GPUs by the names that people give them."""

from __future__ import annotations

from typing import Any

import pytest
from building import demo_node, lost, was_read

from gpuscan.errors import UsageError
from gpuscan.model.select import select_gpus

GPU_NAMES = {
    "SXM8": "SXM8",
    "sxm8": "SXM8",
    "0000:00:07.0": "SXM8",
    "1654000000002": "SXM8",
    "1": "SXM8",
}


@pytest.mark.parametrize("name", GPU_NAMES)
def test_gpus_are_named_by_slot_address_serial_or_index(name: str) -> None:
    node = select_gpus(demo_node(), [name])
    assert [gpu.label for gpu in was_read(node.gpus)] == [GPU_NAMES[name]]


def test_gpus_are_named_by_uuid_and_keep_their_order() -> None:
    uuid = was_read(demo_node().gpus)[1].uuid
    assert [
        gpu.label
        for gpu in was_read(select_gpus(demo_node(), ["SXM5", was_read(uuid).upper(), "SXM5"]).gpus)
    ] == [
        "SXM8",
        "SXM5",
    ]


def test_the_incidents_of_other_gpus_go_with_them() -> None:
    node = demo_node()
    first = was_read(node.incidents)[:1] or ()
    assert all(
        one.address == "0000:00:07.0"
        for one in was_read(select_gpus(node._replace(incidents=first), ["SXM8"]).incidents)
    )
    unread: Any = lost()
    assert select_gpus(node._replace(incidents=unread), ["SXM8"]).incidents == unread


def test_a_name_of_no_gpu_or_of_two_is_refused() -> None:
    with pytest.raises(UsageError, match="--gpus SXM9: no such GPU; known GPUs: 0000:00:06.0, "):
        select_gpus(demo_node(), ["SXM9"])
    with pytest.raises(UsageError, match="--gpus : no such GPU"):
        select_gpus(demo_node(), [""])
    node = demo_node()
    slot1 = node._replace(
        gpus=(*was_read(node.gpus)[:3], was_read(node.gpus)[3]._replace(physical_slot="1"))
    )
    with pytest.raises(
        UsageError, match=r"--gpus 1: names SXM8 \(0000:00:07.0\) and SXM7 \(0000:00:09.0\)"
    ):
        select_gpus(slot1, ["1"])
    unread: Any = lost()
    with pytest.raises(UsageError, match=r"could not be listed \(GPU is lost\)"):
        select_gpus(demo_node(gpus=unread), ["SXM8"])
