"""`gpuscan info`: what is in the node."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from building import RECORDINGS

from gpuscan import inventory
from gpuscan.commands import opened
from gpuscan.errors import UsageError
from gpuscan.recording import Recording, load, patch

EIGHT = load(str(RECORDINGS / "h100-8x-ib.json.gz"))
DEMO = opened("demo")


def as_json(recording: Recording) -> dict[str, Any]:
    return dict(json.loads(inventory.render(recording, "json")))


def test_text_names_host_system_and_driver_and_lists_the_parts() -> None:
    lines = inventory.render(EIGHT, "text").splitlines()
    assert lines[0] == "host    gpu-042, Dell Inc. PowerEdge XE9680, serial ZZTEST1"
    assert lines[1] == "system  Ubuntu 22.04.4 LTS, kernel 5.15.0-112-generic"
    assert lines[2] == "driver  580.159.04 (open), CUDA 13.0"
    assert lines[4].split() == list(inventory.GPU_COLUMNS)
    assert lines[5].split()[:2] == ["SXM3", "0000:1b:00.0"]
    assert lines[14].split() == list(inventory.PORT_COLUMNS)
    assert lines[15].split()[:5] == ["mlx5_0/1", "0000:18:00.0", "ACTIVE", "LinkUp", "400.0"]
    assert len(lines) == 5 + 8 + 1 + 1 + 8
    starts = {line.index("0000:") for line in lines[5:13]}
    assert len(starts) == 1, "columns are aligned"
    assert not [line for line in lines if line != line.rstrip()]


def test_json_holds_the_same() -> None:
    document = as_json(EIGHT)
    assert list(document) == ["host", "driver", "gpus", "ports"]
    assert document["host"]["serial"] == "ZZTEST1"
    assert document["driver"]["nvml_count"] == 8
    assert [gpu["nvlinks_up"] for gpu in document["gpus"]] == [18] * 8
    assert document["gpus"][0] == {
        "slot": "SXM3",
        "address": "0000:1b:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "serial": "1654000000100",
        "part_number": "692-2G520-0200-000",
        "uuid": "GPU-00000000-0100-4000-8000-000000000100",
        "vbios": "96.00.99.00.01",
        "memory_mib": 81559,
        "nvlinks_up": 18,
        "access": "ok",
    }
    assert document["ports"][0]["rate_gbps"] == 400


def test_csv_has_a_row_a_part() -> None:
    rows = list(csv.DictReader(io.StringIO(inventory.render(EIGHT, "csv"))))
    assert [row["kind"] for row in rows] == ["gpu"] * 8 + ["port"] * 8
    assert (rows[0]["serial"], rows[0]["firmware"]) == ("1654000000100", "")
    assert (rows[8]["slot"], rows[8]["rate_gbps"], rows[8]["serial"]) == ("mlx5_0/1", "400.0", "")
    assert "\r" not in inventory.render(EIGHT, "csv")


def test_what_was_not_read_is_null_in_json_and_a_dash_in_text() -> None:
    card = "0000:1b:00.0"
    lost = {f"nvml:*({card}*": {"error": ["lost", "GPU is lost", 15]}}
    broken = patch(EIGHT, {**lost, "file:/proc/sys/kernel/hostname": {"error": ["no-permission", "?"]}})
    document = as_json(broken)
    gpu = next(gpu for gpu in document["gpus"] if gpu["address"] == card)
    assert (gpu["serial"], gpu["nvlinks_up"], gpu["memory_mib"], gpu["access"]) == (None, None, None, "lost")
    assert document["host"]["hostname"] is None
    text = inventory.render(broken, "text")
    assert text.startswith("host    (no permission), Dell Inc.")
    (line,) = [line for line in text.splitlines() if f"  {card}" in line]
    assert line.split()[2:] == ["-"] * 7 + ["lost"]


def test_links_that_are_down_or_unread_are_not_up() -> None:
    link = "nvml:nvmlDeviceGetFieldValues(0000:1b:00.0,165,{})"
    changed = patch(EIGHT, {link.format(3): 0, link.format(4): {"error": ["timed-out", "?"]}})
    assert as_json(changed)["gpus"][0]["nvlinks_up"] == 16


def test_a_node_without_cards_or_with_unlisted_ones_has_no_rows() -> None:
    empty = Recording({}, ["*"])
    assert as_json(empty)["gpus"] is None, "not listed is not none"
    assert as_json(empty)["ports"] is None
    assert as_json(patch(DEMO, {"dir:/sys/bus/pci/devices": []}))["gpus"] == []
    assert len(inventory.render(empty, "text").splitlines()) == 4
    assert inventory.render(empty, "csv").count("\n") == 1


def test_text_holds_no_control_characters() -> None:
    hostile = patch(DEMO, {"nvml:nvmlDeviceGetName(0000:00:06.0)": "a\x1b[2J\nb"})
    assert r"a\x1b[2J b" in inventory.render(hostile, "text")
    assert as_json(hostile)["gpus"][0]["name"] == "a\x1b[2J\nb"


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown format 'jsn': did you mean json"):
        inventory.render(DEMO, "jsn")
