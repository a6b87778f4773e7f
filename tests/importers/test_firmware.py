"""A Redfish FirmwareInventory taken into a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building import was_read
from machine import Machine
from nodes_recordings import base, judged

from gpuscan import collectors
from gpuscan.errors import RecordingError
from gpuscan.importers import firmware
from gpuscan.model import is_unread
from gpuscan.recording import FIRMWARE, Recording, load, patch

BMC = {
    "@odata.id": "/redfish/v1/UpdateService/FirmwareInventory/BMC",
    "Id": "BMC",
    "Name": "BMC image",
    "Version": "24.09-1",
}
GPU = {
    "Id": "HGX_FW_GPU_SXM_1",
    "Name": "Software Inventory",
    "Version": "96.00.A5.00.01",
    "RelatedItem": [{"@odata.id": "/x"}],
}
SILENT = {"Id": "CPLD", "Version": None}
ROWS = [
    {"id": "BMC", "name": "BMC image", "version": "24.09-1"},
    {"id": "HGX_FW_GPU_SXM_1", "name": "Software Inventory", "version": "96.00.A5.00.01"},
    {"id": "CPLD", "name": "", "version": ""},
]


def file(folder: Path, document: Any) -> str:
    path = folder / "inventory.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "document", [{"Members": [BMC, GPU, SILENT], "Name": "x"}, [BMC, GPU, SILENT]]
)
def test_a_collection_or_its_members(tmp_path: Path, document: Any) -> None:
    assert firmware.load_firmware(file(tmp_path, document)) == ROWS


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (
            {"Members": [{"@odata.id": "/redfish/v1/UpdateService/FirmwareInventory/BMC"}]},
            r"only links: fetch .*\?\$expand=\.",
        ),
        ({"Members": []}, "lists no firmware"),
        ({"Members@odata.count": 3}, "no Members"),
        ("{", "not JSON, or cut off"),
        ("7", "not a Redfish FirmwareInventory"),
        ([BMC, {"Name": "x"}], r"Members\[1\] has no Id"),
        ([BMC, "x"], r"Members\[1\] has no Id"),
        ([{"Id": "BMC", "Version": 7}], r"Members\[0\] \(BMC\): Name and Version must be text"),
    ],
)
def test_what_is_none_is_refused(tmp_path: Path, document: Any, told: str) -> None:
    with pytest.raises(RecordingError, match=told) as refused:
        firmware.load_firmware(file(tmp_path, document))
    assert str(tmp_path) in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        firmware.load_firmware(str(tmp_path / "none.json"))


def test_the_facts() -> None:
    recording = patch(base("h100-8x-ib"), {})
    assert collectors.node(recording).firmware == ()
    firmware.add_firmware(recording, ROWS)
    assert [tuple(one) for one in was_read(collectors.node(recording).firmware)] == [
        tuple(row.values()) for row in ROWS
    ]
    assert judged(recording).exit_code == 0
    for nonsense in ("x", [7], [{"id": "a"}], [{"id": 1, "name": "", "version": ""}]):
        found: Any = collectors.node(patch(Recording({}, ["*"]), {FIRMWARE: nonsense})).firmware
        assert is_unread(found)
        assert found.kind == "garbled"


def test_collect_takes_it_in(eight: Machine, tmp_path: Path) -> None:
    done = eight.plain("collect", str(eight.file), "--firmware", file(tmp_path, [BMC, GPU, SILENT]))
    assert (done.code, load(str(eight.file)).get(FIRMWARE)) == (0, ROWS)


def test_collect_reads_it_before_the_machine(eight: Machine, tmp_path: Path) -> None:
    done = eight.plain("collect", str(eight.file), "--firmware", file(tmp_path, "{"))
    assert (done.code, eight.file.exists()) == (2, False)
    assert "not JSON" in done.err
