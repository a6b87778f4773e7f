"""What a folder or tar holds: gpuscan's own files, several nodes, what was passed over or damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Call

from gpuscan.engine import judging
from gpuscan.importers.load import open_recording
from gpuscan.recording import save
from gpuscan.tickets import evidence

BOOT = "[    0.000000] Linux version 6.8.0-31-generic (a@b)\n"
NOISE = "".join(f"[ {n:4d}.000000] usb 1-1: device {n * 7919 % 100003}\n" for n in range(1, 900))
LOST = "[ 4000.500000] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"
WHOLE = BOOT + NOISE + LOST
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    return Call(monkeypatch, capfd)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the evidence folder of a GPU that must be replaced."""
    recording, plan = open_recording("demo-broken"), judging.prepare(judging.Selection())
    report = judging.judge_recording(recording, "demo-broken", plan)
    folder = tmp_path_factory.mktemp("evidence")
    return Path(evidence.collect(recording, report, str(folder), bug_report_s=0))


def tar(*members: tuple[str, str]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        for name, text in members:
            head = tarfile.TarInfo(name)
            head.size = len(text)
            archive.addfile(head, io.BytesIO(text.encode()))
    return into.getvalue()


def test_an_evidence_folder_comes_back_with_the_exit_code_of_the_run(
    call: Call, kept: Path, tmp_path: Path
) -> None:
    assert call("judge", str(kept), "-q").code == 41
    assert call("judge", str(kept.parent), "-q").code == 41
    packed = tmp_path / "evidence.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(kept, "evidence")
    assert call("judge", str(packed), "-q").code == 41


def test_a_bug_report_in_an_evidence_folder_is_named_as_not_judged(
    call: Call, kept: Path, tmp_path: Path
) -> None:
    assert call("judge", str(kept), "-q").err == ""
    folder, name = tmp_path / "evidence", "nvidia-bug-report.log.gz"
    shutil.copytree(kept, folder)
    (folder / name).write_bytes(gzip.compress(WHOLE.encode()))
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    manifest["files"].append({"name": name})
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    ended = call("judge", str(folder), "-q")
    assert (ended.code, ended.err.count("\n")) == (41, 1)
    assert f"{name} was not judged, only the recording of the same run" in ended.err
    assert call("judge", str(folder / name), "-q").code == 30


@pytest.mark.parametrize("name", ["report.json", "report.txt", "ticket.md", "MANIFEST.json"])
def test_what_gpuscan_wrote_itself_is_no_log(call: Call, kept: Path, name: str) -> None:
    assert call("judge", str(kept / name), "-q").code == 2


def test_each_recording_in_a_folder_is_a_node(call: Call, tmp_path: Path) -> None:
    for number, name in enumerate(("demo", "demo-broken")):
        (tmp_path / f"node{number}").mkdir()
        save(open_recording(name), str(tmp_path / f"node{number}" / "recording.json.gz"))
    ended = call("judge", str(tmp_path), "--format", "json")
    assert (ended.code, len(json.loads(ended.out))) == (41, 2)
    assert "node1/recording.json.gz" in call("judge", str(tmp_path), "-q").out


def test_folders_with_the_same_files_are_nodes(call: Call, tmp_path: Path) -> None:
    for name, lines in (("nodeA", WHOLE), ("nodeB", BOOT)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dmesg.txt").write_text(lines)
    told = call("judge", str(tmp_path), "-q").out.splitlines()
    assert [("nodeA" in line, "reboot (30)" in line) for line in told] == [
        (True, True),
        (False, False),
    ]


def test_several_files_of_one_node_are_one(call: Call, tmp_path: Path) -> None:
    for name in ("logs", "smi"):
        (tmp_path / name).mkdir()
    (tmp_path / "logs" / "dmesg.txt").write_text(WHOLE)
    (tmp_path / "smi" / "list.txt").write_text("GPU 0: NVIDIA H100 (UUID: GPU-1-2-3)\n")
    assert len(call("judge", str(tmp_path), "-q").out.splitlines()) == 1


@pytest.mark.parametrize("command", ["judge", "log"])
def test_lines_of_several_hosts_are_refused(call: Call, tmp_path: Path, command: str) -> None:
    file = tmp_path / "messages"
    file.write_text(
        "".join(
            f"Nov 28 10:00:0{n} {host} kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off\n"
            for n, host in enumerate(("gpu1", "gpu1.example.org", "gpu2"))
        )
    )
    ended = call(command, str(file))
    assert (ended.code, "gpu1, gpu2" in ended.err) == (2, True)


def test_one_host_by_two_names_is_one(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_text(
        "".join(
            f"Nov 28 10:00:0{n} {host} kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off\n"
            for n, host in enumerate(("localhost", "gpu1", "gpu1.example.org"))
        )
    )
    assert call("log", str(file)).code == 30


@pytest.mark.parametrize("way", PACK)
@pytest.mark.parametrize("command", ["judge", "log"])
def test_a_packed_log_that_is_cut_or_damaged_is_no_pass(
    call: Call, tmp_path: Path, way: str, command: str
) -> None:
    whole, file, chance = PACK[way](WHOLE.encode()), tmp_path / f"log.{way}", random.Random(3)
    for _ in range(10):
        file.write_bytes(whole[: chance.randrange(1, len(whole))])
        assert call(command, str(file), "-q").code >= 2
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        file.write_bytes(bytes(flipped))
        assert call(command, str(file), "-q").code >= 2


def test_a_tar_that_is_cut_or_damaged_in_a_header_is_no_pass(call: Call, tmp_path: Path) -> None:
    whole, file = tar(("a.log", BOOT), ("b.log", WHOLE)), tmp_path / "logs.tar"
    file.write_bytes(whole)
    assert call("judge", str(file), "-q").code == 30
    chance = random.Random(3)
    ends = len(whole) - len(whole.rstrip(b"\0"))
    for _ in range(20):
        file.write_bytes(whole[: chance.randrange(1, len(whole) - ends)])
        assert call("judge", str(file), "-q").code >= 2
        flipped = bytearray(whole)
        flipped[1024 + chance.randrange(512)] ^= 1 << chance.randrange(8)
        file.write_bytes(bytes(flipped))
        assert call("judge", str(file), "-q").code >= 3


def test_a_packed_recording_that_is_cut_is_refused_in_a_folder(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "node.json.gz"
    save(open_recording("demo"), str(file))
    file.write_bytes(file.read_bytes()[:-100])
    ended = call("judge", str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert "copy or record it again" in ended.err


def test_a_link_that_leads_out_is_named_and_no_pass(call: Call, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_text(BOOT)
    (tmp_path / "full.log").write_text(WHOLE)
    os.symlink("a.log", tmp_path / "in" / "same.log")
    assert call("judge", str(tmp_path / "in"), "-q").code == 0
    os.symlink("../full.log", tmp_path / "in" / "b.log")
    ended = call("judge", str(tmp_path / "in"))
    assert (ended.code, "b.log: it is a link" in ended.out) == (3, True)


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0: NVIDIA H100 (UUID: GPU-1-2)\n\t Link 99999999: 26.562 GB/s\n",
        "GPU 0: NVIDIA H100 (UUID: GPU-1-2)\n\t Link 0: 1.2.3 GB/s\n",
        "Attached GPUs : 4294967295\nGPU 00000000:1B:00.0\n    Product Name : NVIDIA H100\n",
    ],
)
def test_a_number_that_no_node_has_is_not_understood(call: Call, tmp_path: Path, text: str) -> None:
    file = tmp_path / "smi.txt"
    file.write_text(text)
    assert call("judge", str(file), "-q").code == 3


def test_a_list_of_modules_is_no_kernel_log(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "modules.txt"
    file.write_text("Module  Size  Used by\nnvidia 56717312  1 nvidia_uvm\n")
    assert call("log", str(file), "-q").code == 3


def test_earlier_boots_that_hold_faults_are_told(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "kern.log"
    file.write_text(WHOLE + BOOT + "[    1.000000] usb 1-1: x\n")
    assert "--boot all" in call("log", str(file)).out


def test_a_small_file_that_unpacks_to_millions_of_lines_is_refused(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "bomb.log.gz").write_bytes(gzip.compress(b"a\n" * 2_500_001, mtime=0))
    ended = call("judge", str(tmp_path / "bomb.log.gz"), "-q")
    assert (ended.code, "more than 2500000 lines" in ended.err) == (2, True)
