"""JUnit as CI systems read it: several files, of which cases of one class and name are one case."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from nodes_recordings import base
from program import Call

from gpuscan.recording import Recording, patch, save

FAULTY = {"nvml:nvmlDeviceGetRemappedRows(0000:52:00.0)": [0, 1, 0, 1]}


def shown_failures(files: Iterable[Path]) -> set[tuple[str, str]]:
    """The failures that a reader shows which keeps the first case of each class and name."""
    cases: dict[tuple[str, str], bool] = {}
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            key = str(case.get("classname")), str(case.get("name"))
            cases.setdefault(key, case.find("failure") is not None)
    return {key for key, failed in cases.items() if failed}


def node(host: str, *, faulty: bool = False) -> Recording:
    changes = {"file:/proc/sys/kernel/hostname": f"{host}\n" if host else None}
    return patch(base("h100-8x-ib"), {**changes, **(FAULTY if faulty else {})})


@pytest.mark.parametrize("names", [("gpu-001", "gpu-002"), ("", "")], ids=["named", "nameless"])
@pytest.mark.parametrize("format_", ["junit", "junit-full"])
def test_a_file_a_node_shows_every_failure(
    format_: str, names: tuple[str, str], tmp_path: Path, call: Call
) -> None:
    files = []
    for number, name in enumerate(names):
        recording, report = tmp_path / f"node{number}.json.gz", tmp_path / f"{number}.xml"
        save(node(name, faulty=number == 1), str(recording))
        call("judge", str(recording), "--profile", "h100-8x", "--report", f"{format_}={report}")
        files.append(report)
    alone = shown_failures(files[1:])
    assert alone
    assert shown_failures(files) == alone
    assert all("/" not in classname for classname, _ in alone)


def test_evidence_without_a_value_is_no_line(tmp_path: Path, call: Call) -> None:
    out = call("judge", "demo-broken", "--format", "junit").out
    assert " =  (" not in out
    assert "echoes = 0" not in out
