"""Which machine it is: serials that name one, placeholders that name none, and what decides."""

from __future__ import annotations

from typing import Any

import pytest
from nodes_recordings import base

from gpuscan import collectors
from gpuscan.model import Unread
from gpuscan.model.identity import Machine, machine_of, real, same_machine
from gpuscan.recording import patch

PLACEHOLDERS = [
    "", " ", "0", "None", "none\n", "N/A", "[N/A]", "Not Specified", "Not Available",
    "Not Applicable", "Unknown", "OEM", "O.E.M.",
    "To be filled by O.E.M.", "To Be Filled By O.E.M", "Default string", "System Serial Number",
    "Chassis Serial Number",
    "Base Board Serial Number", "SerialNumber", "Serial", "123456789", "0123456789", "0000000",
    "FFFFFFFF", "xxxxxxxx", "........",
    "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "00:00:00",
    "<none>",
]  # fmt: skip


@pytest.mark.parametrize("word", PLACEHOLDERS)
def test_placeholders_are_no_serials(word: str) -> None:
    assert real(word) is None


@pytest.mark.parametrize(
    "word",
    [
        "ZZTEST1",
        "1654000000100",
        ".ZZTEST1.CN1.",
        "NONE12",
        "FF00FA",
        "SN12",
        "serial-7",
        "1234567890123",
    ],
)
def test_serials_are(word: str) -> None:
    assert real(f" {word}\n") == word


@pytest.mark.parametrize("value", [None, 12, ["x"], Unread("k", "no-permission", "?")])
def test_what_is_no_text_is_no_serial(value: Any) -> None:
    assert real(value) is None


def test_a_machine() -> None:
    machine = machine_of(collectors.node(base("h100-8x-ib")))
    assert machine == Machine(
        dmi_serial="ZZTEST1",
        machine_id="0123456789abcdef0123456789abcdef",
        boot_id="11111111-2222-4333-8444-555555555555",
        hostname="gpu-042",
        gpu_serials=tuple(f"16540000001{n:02d}" for n in range(8)),
    )


def test_a_machine_that_tells_little() -> None:
    """A dead GPU's serial comes from the log; a placeholder and what was not read name nobody."""
    log = [
        *base("h100-8x-ib").get("kmsg:/dev/kmsg"),
        "4,90,900000000,-;NVRM: GPU at PCI:0000:1b:00: GPU-00000000-0100-4000-8000-000000000100",
        "4,91,900000001,-;NVRM: GPU Board Serial Number: 1654000000100",
    ]
    changes = {
        "file:/sys/class/dmi/id/product_serial": "Not Specified\n",
        "file:/etc/machine-id": {"error": ["not-found", "?"]},
        "nvml:nvmlDeviceGetSerial(*": {"error": ["lost", "?"]},
        "kmsg:/dev/kmsg": log,
    }
    machine = machine_of(collectors.node(patch(base("h100-8x-ib"), changes)))
    assert (machine.dmi_serial, machine.machine_id, machine.gpu_serials) == (
        None,
        None,
        ("1654000000100",),
    )
    unlisted = patch(
        base("h100-8x-ib"),
        {"dir:/sys/bus/pci/devices": {"error": ["garbled", "?"]}, "nvml:*": None},
    )
    assert machine_of(collectors.node(unlisted)).gpu_serials == ()


def of(dmi: str | None = None, machine_id: str | None = None, *serials: str) -> Machine:
    return Machine(dmi, machine_id, None, None, serials)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (of("A"), of("A"), True),
        (of("A", "m", "1"), of("B", "m", "1"), False),
        (of("A", "m", "1"), of("A", "n", "2"), True),
        (of("A", "m", "1", "2"), of(None, "n", "2", "3"), True),
        (of(None, "m", "1"), of(None, "m", "2"), True),
        (of(None, "m", "1"), of("B", "n", "2"), False),
        (of(None, "m"), of("B", None), None),
        (of(None, None, "1"), of(None, None, "2"), None),
        (of(), of(), None),
    ],
)
def test_the_first_that_both_have_decides(one: Machine, other: Machine, same: bool | None) -> None:
    assert same_machine(one, other) is same
    assert same_machine(other, one) is same
