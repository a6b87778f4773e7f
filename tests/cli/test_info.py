"""`gpuscan info`: what is in the node."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from paths import RECORDINGS

from gpuscan.cli import inventory
from gpuscan.errors import UsageError
from gpuscan.importers.load import open_recording
from gpuscan.recording import Recording, load, patch

EIGHT = load(str(RECORDINGS / "h100-8x-ib.json.gz"))
DEMO = open_recording("demo")


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
    assert lines[24].split() == list(inventory.NIC_COLUMNS[:-1]), "no far end was recorded"
    assert lines[25].split()[:6] == [
        "mlx5_0",
        "0000:18:00.0",
        "MT4129",
        "MT2333ZT00000",
        "MCX75310AAS-NEAT",
        "ZZT0000000001",
    ]
    assert lines[33].split()[0] == "mlx5_bond_0"
    assert lines[35].split() == list(inventory.DISK_COLUMNS)
    assert lines[36].split() == [
        "nvme0",
        "0000:19:00.0",
        "Micron_7450_MTFDKCC3T8TFR",
        "23214ZT00000",
        "E2MU200",
    ]
    assert len(lines) == 3 + (2 + 8) + (2 + 8) + (2 + 9) + (2 + 8)
    starts = {line.index("0000:") for line in lines[5:13]}
    assert len(starts) == 1, "columns are aligned"
    assert not [line for line in lines if line != line.rstrip()]


def test_json_holds_the_same() -> None:
    document = as_json(EIGHT)
    assert list(document) == ["host", "driver", "gpus", "ports", "nics", "disks"]
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
    assert document["nics"][8] == {
        "slot": "mlx5_bond_0",
        "address": "0000:2a:00.0",
        "hca_type": "MT41692",
        "serial": "MT2333ZT00008",
        "part_number": "900-9D3B6-00CV-AA0",
        "psid": "ZZT0000000002",
        "firmware": "32.43.2026",
        "link_layer": "Ethernet",
        "netdev": "eth2",
        "mtu": 9000,
        "node_guid": "0c42:a103:00ab:0008",
        "far_end": None,
    }
    assert document["disks"][7]["serial"] == "23214ZT00007"


@pytest.mark.parametrize("width", [80, 200])
def test_tables_fit_a_terminal(width: int) -> None:
    """What is too wide goes on below, under the same names; nothing is lost."""
    lines = inventory.render(EIGHT, "text", width).splitlines()
    assert max(len(line) for line in lines[3:]) <= width
    whole = inventory.render(EIGHT, "text")
    assert set(whole.split()) == set(" ".join(lines).split())
    heads = [line.split() for line in lines if line.startswith("slot ")]
    assert [head[1] for head in heads] == (
        ["address", "uuid", "nvlinks_up", "address", "address", "psid", "node_guid", "address"]
        if width == 80
        else ["address"] * 4
    )


def test_a_far_end_is_shown_where_one_was_recorded() -> None:
    swept = "CA 4 1 0x0c42a10300ab0000 4x NDR - SW 2 17 0xb83fd20300cd0001 ( 'a' - 'leaf-1' )\n"
    made = patch(EIGHT, {"run:ibnetdiscover -p": swept})
    cabled = Recording(made.meta._replace(cables=True), made.scope, list(made))
    lines = inventory.render(cabled, "text").splitlines()
    assert lines[24].endswith("  far_end")
    assert lines[25].endswith("  SW leaf-1 (0xb83fd20300cd0001) port 17")
    assert lines[26].endswith("  -")


def test_csv_has_a_row_a_part() -> None:
    rows = list(csv.DictReader(io.StringIO(inventory.render(EIGHT, "csv"))))
    assert [row["kind"] for row in rows] == ["gpu"] * 8 + ["port"] * 8 + ["nic"] * 9 + ["disk"] * 8
    assert (rows[0]["serial"], rows[0]["firmware"]) == ("1654000000100", "")
    assert (rows[8]["slot"], rows[8]["rate_gbps"], rows[8]["serial"]) == ("mlx5_0/1", "400.0", "")
    assert (rows[16]["slot"], rows[16]["serial"], rows[16]["psid"]) == (
        "mlx5_0",
        "MT2333ZT00000",
        "ZZT0000000001",
    )
    assert (rows[25]["slot"], rows[25]["serial"], rows[25]["firmware"]) == (
        "nvme0",
        "23214ZT00000",
        "E2MU200",
    )
    assert "\r" not in inventory.render(EIGHT, "csv")


def test_what_was_not_read_is_null_in_json_and_a_dash_in_text() -> None:
    address = "0000:1b:00.0"
    lost = {f"nvml:*({address}*": {"error": ["lost", "GPU is lost", 15]}}
    broken = patch(
        EIGHT, {**lost, "file:/proc/sys/kernel/hostname": {"error": ["no-permission", "?"]}}
    )
    document = as_json(broken)
    gpu = next(gpu for gpu in document["gpus"] if gpu["address"] == address)
    assert (gpu["serial"], gpu["nvlinks_up"], gpu["memory_mib"], gpu["access"]) == (
        None,
        None,
        None,
        "lost",
    )
    assert document["host"]["hostname"] is None
    text = inventory.render(broken, "text")
    assert text.startswith("host    (no permission), Dell Inc.")
    (line,) = [line for line in text.splitlines() if f"  {address}" in line]
    assert line.split()[2:] == ["-"] * 7 + ["lost"]


def test_links_that_are_down_or_unread_are_not_up() -> None:
    link = "nvml:nvmlDeviceGetFieldValues(0000:1b:00.0,165,{})"
    changed = patch(EIGHT, {link.format(3): 0, link.format(4): {"error": ["timed-out", "?"]}})
    assert as_json(changed)["gpus"][0]["nvlinks_up"] == 16


def test_a_node_without_gpus_or_with_unlisted_ones_has_no_rows() -> None:
    empty = Recording({}, ["*"])
    assert as_json(empty)["gpus"] is None, "not listed is not none"
    assert [as_json(empty)[kind] for kind in ("ports", "nics", "disks")] == [None] * 3
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
