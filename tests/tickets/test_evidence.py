"""Evidence: what a failed node leaves in a folder, what NVIDIA's script may and may not do, who
holds the GPUs.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_nvml import Change
from machine import Machine, finished, gpu, wait_for
from machine import call as key_of
from program import Call

from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.errors import UsageError
from gpuscan.importers.load import open_recording
from gpuscan.live.evidence import LOG, bug_report, describe_file
from gpuscan.live.holders import holders
from gpuscan.live.signals import recorded_stop_signals
from gpuscan.recording import Recording, load
from gpuscan.tickets import evidence

A, B = "0000:43:00.0", "0000:c3:00.0"
WORKS = 'echo "asked $*" > "$2.gz"\n'
FAILS = (
    'echo Some words; echo "ERROR: Please run nvidia-bug-report.sh as root." >&2; echo; exit 1\n'
)
HANGS = (
    'echo "the beginning" > "$2"\ntrap "" TERM INT\n(trap "" TERM INT; sleep 1000) & sleep 1000\n'
)
NAMES = [
    "MANIFEST.json",
    "holders.json",
    "recording.json.gz",
    "report.json",
    "report.txt",
    "ticket.md",
]
PATH = "/usr/bin:/bin"
Tool = Callable[[str], str]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Puts a script of NVIDIA's name, which does what it is told, on PATH; returns that PATH."""

    def put(body: str) -> str:
        folder = tmp_path / "bin"
        folder.mkdir(mode=0o755)
        (folder / "nvidia-bug-report.sh").write_text(f"#!/bin/sh\n{body}", "utf-8")
        (folder / "nvidia-bug-report.sh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{PATH}")
        return f"{folder}:{PATH}"

    return put


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "evi dence").mkdir()
    return tmp_path / "evi dence"


def broken() -> tuple[Recording, Report]:
    recording = open_recording("demo-broken")
    return recording, judging.judge_recording(recording, "", judging.prepare(judging.Selection()))


def only_folder(place: Path) -> Path:
    (folder,) = place.iterdir()
    return folder


# NVIDIA's script


def test_the_script_writes_its_log(tool: Tool, place: Path) -> None:
    tool(WORKS)
    row = bug_report(str(place), 30)
    assert row == describe_file(str(place / f"{LOG}.gz"))
    assert (place / f"{LOG}.gz").read_text() == f"asked --output-file {LOG}\n"
    assert row["sha256"] == hashlib.sha256((place / f"{LOG}.gz").read_bytes()).hexdigest()


def test_a_script_that_hangs_is_killed_with_what_it_started_and_its_log_is_kept(
    tool: Tool, place: Path
) -> None:
    tool(HANGS.replace("sleep 1000\n", "echo $$ > pid; sleep 1000\n"))
    row = bug_report(str(place), 1)
    assert (
        row["error"]
        == "cut off after 1 s; run nvidia-bug-report.sh --safe-mode by hand where it hangs"
    )
    assert (row["name"], row["bytes"]) == (LOG, len("the beginning\n"))
    group = int((place / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        wait_for(lambda: os.killpg(group, 0))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (FAILS, "nvidia-bug-report.sh failed: ERROR: Please run nvidia-bug-report.sh as root."),
        ("exit 7\n", "nvidia-bug-report.sh failed: exit code 7"),
        ("kill -SEGV $$\n", "nvidia-bug-report.sh failed: exit code -11"),
        ("exit 0\n", "nvidia-bug-report.sh ended well, but wrote no log"),
        (
            'read line && exit 3; touch "$2"; exit 0\n',
            "nvidia-bug-report.sh ended well, but wrote no log",
        ),
    ],
)
def test_a_script_that_gives_nothing(tool: Tool, place: Path, body: str, error: str) -> None:
    tool(body)
    assert bug_report(str(place), 30) == {"name": LOG, "error": error}


def test_no_script_and_no_time(tool: Tool, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(WORKS)
    assert bug_report(str(place), 0)["error"] == "not run: no time was left for it"
    monkeypatch.setenv("PATH", "relative:")
    if not any(
        os.path.exists(f"{folder}/nvidia-bug-report.sh")
        for folder in ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
    ):
        assert bug_report(str(place), 30)["error"] == "nvidia-bug-report.sh is not installed here"
    assert list(place.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has others to fear")
def test_as_root_a_script_that_others_may_write_is_not_run(
    tool: Tool, place: Path, tmp_path: Path
) -> None:
    tool(WORKS)
    script = tmp_path / "bin" / "nvidia-bug-report.sh"
    script.chmod(0o777)
    assert (
        bug_report(str(place), 30)["error"]
        == f"not run: {script}: others may write it, and gpuscan runs as root: chmod go-w {script}"
    )


def test_a_signal_cuts_the_script_short_and_ends_nothing_else(tool: Tool, place: Path) -> None:
    tool(f"kill -TERM {os.getpid()}\n{HANGS}")
    with recorded_stop_signals():
        row = bug_report(str(place), 60)
    assert row["error"] == "cut off by a signal"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


# Who holds the GPUs


def process(
    root: Path,
    pid: int,
    name: str,
    *devices: str,
    control: str = "0::/init.scope\n",
    parent: int = 1,
) -> None:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{name[:15]}\n")
    (folder / "cgroup").write_text(control)
    (folder / "stat").write_text(f"{pid} ({name[:15]}) S {parent} 1 1 0\n")
    for number, device in enumerate(["/dev/null", "pipe:[7]", *devices]):
        (folder / "fd" / str(number)).symlink_to(device)


def test_holders_and_what_ends_them(tmp_path: Path) -> None:
    pod = f"0::/kubepods.slice/cri-containerd-{'0123456789ab' + 'c' * 52}.scope\n"
    process(tmp_path, 700_012, "python", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia1")
    process(
        tmp_path,
        700_002,
        "nvidia-persistenced",
        "/dev/nvidia0 (deleted)",
        "/dev/nvidia-caps/nvidia-cap1",
    )
    process(tmp_path, 700_003, "nv-hostengine", "/dev/nvidia-uvm")
    process(tmp_path, 700_004, "dcgm-exporter", "/dev/nvidia0", control=pod)
    process(tmp_path, 700_005, "bash", "/dev/tty", "/home/x/dev/nvidia0")
    rows = {row["pid"]: row for row in holders(10, str(tmp_path))}
    assert list(rows) == [700_002, 700_003, 700_004, 700_012]
    assert rows[700_002] == {
        "pid": 700_002, "name": "nvidia-persistenced", "user": os.getuid(),
        "files": ["/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia0"],
        "ends_with": "systemctl stop nvidia-persistenced",
    }  # fmt: skip
    assert rows[700_003]["ends_with"] == "systemctl stop nvidia-dcgm"
    assert (
        rows[700_004]["ends_with"]
        == "it runs in a container (0123456789ab): drain the node, or stop the container"
    )
    assert rows[700_012]["files"] == ["/dev/nvidia1", "/dev/nvidiactl"]
    assert rows[700_012]["ends_with"] == "kill 700012, or its owner ends it"


def test_our_own_processes_hold_nothing_up(tmp_path: Path) -> None:
    process(tmp_path, 700_001, "gpuscan", "/dev/nvidia0", parent=os.getpid())
    process(tmp_path, 700_002, "reader", "/dev/nvidia0", parent=700_001)
    process(tmp_path, 700_003, "a stranger", "/dev/nvidia0", parent=700_009)
    assert [row["pid"] for row in holders(10, str(tmp_path))] == [700_003]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at all")
def test_what_may_not_be_seen_is_said(tmp_path: Path) -> None:
    process(tmp_path, 700_001, "secret")
    process(tmp_path, 700_002, "kworker/0:1", parent=2)
    for pid in (700_001, 700_002):
        (tmp_path / "proc" / str(pid) / "fd").chmod(0)
    assert holders(10, str(tmp_path)) == [
        {"error": "processes whose open files could not be seen: 1; run as root"}
    ]


def test_this_machine_s_processes_can_be_looked_at() -> None:
    assert all("error" in row or row["files"] for row in holders(30))


def test_no_time_and_no_processes_are_said(tmp_path: Path) -> None:
    unseen = [{"error": "the processes could not all be looked at"}]
    assert holders(30, str(tmp_path)) == unseen
    process(tmp_path, 700_001, "python", "/dev/nvidia1")
    assert holders(0, str(tmp_path)) == unseen


# The folder


def test_the_folder_holds_all_and_its_hashes(tool: Tool, place: Path) -> None:
    tool(WORKS)
    recording, report = broken()
    folder = Path(evidence.collect(recording, report, str(place), bug_report_s=30))
    assert folder == place / "unknown-host-20261127T221818Z"
    assert sorted(path.name for path in folder.iterdir()) == sorted([*NAMES, f"{LOG}.gz"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "serials are nobody else's"
    rows = json.loads((folder / "MANIFEST.json").read_text("utf-8"))["files"]
    assert {row["name"] for row in rows} == {path.name for path in folder.iterdir()} - {
        "MANIFEST.json"
    }
    assert all(row == describe_file(str(folder / row["name"])) for row in rows)
    assert load(str(folder / "recording.json.gz")).get("nvml:nvmlInit()") == recording.get(
        "nvml:nvmlInit()"
    )
    assert json.loads((folder / "report.json").read_text("utf-8"))["summary"]["exit_code"] == 41
    text = (folder / "ticket.md").read_text("utf-8")
    assert text.startswith("# Ticket: gpu SXM7: replace")
    assert all(row["sha256"] in text for row in rows if row["name"] != "ticket.md")


def test_two_within_a_second_have_two_folders(tool: Tool, place: Path) -> None:
    tool(WORKS)
    folders = [Path(evidence.collect(*broken(), str(place), bug_report_s=0)).name for _ in range(2)]
    assert folders == ["unknown-host-20261127T221818Z", "unknown-host-20261127T221818Z-2"]


def test_a_host_s_name_cannot_lead_elsewhere(place: Path) -> None:
    recording, report = broken()
    report = report._replace(host=report.host._replace(hostname="../../etc/x y"))
    assert Path(evidence.collect(recording, report, str(place), bug_report_s=0)).parent == place


def test_nothing_is_left_where_it_cannot_be_kept(place: Path) -> None:
    recording, report = broken()
    with pytest.raises(UsageError, match="cannot keep the evidence: No such file"):
        evidence.collect(recording, report, str(place / "none"), bug_report_s=0)
    assert list(place.iterdir()) == []


def test_what_did_not_fail_has_evidence_and_no_ticket(place: Path) -> None:
    recording, report = broken()
    folder = Path(
        evidence.collect(recording, report._replace(results=()), str(place), bug_report_s=0)
    )
    assert "recording.json.gz" in os.listdir(folder)
    assert "ticket.md" not in os.listdir(folder)


def test_a_ticket_from_the_folder_has_its_hashes_and_holders(
    tool: Tool, place: Path, call: Call
) -> None:
    tool(FAILS)
    folder = evidence.collect(*broken(), str(place), bug_report_s=30)
    for what in (folder, f"{folder}/report.json"):
        done = call("ticket", what, "--gpu", "SXM6", "--format", "json")
        told = json.loads(done.out)
        assert [row["name"] for row in told["files"]] == [
            "recording.json.gz",
            "report.json",
            "report.txt",
            "holders.json",
            LOG,
        ]
        assert told["holders"] == json.loads(Path(folder, "holders.json").read_text("utf-8"))


# A whole run


def test_a_failed_run_leaves_its_evidence(
    eight: Machine, tool: Tool, place: Path, call: Call
) -> None:
    path = tool(WORKS)
    eight.nvml({gpu(A): Change(code=15)})
    done = eight.run("--collect-on-fail", str(place), env={"PATH": path})
    assert done.verdict[:2] == (30, "reboot")
    folder = only_folder(place)
    assert folder.name.startswith("gpu-042-20")
    assert f"gpuscan: evidence: {folder}\n" in done.err
    assert json.loads((folder / "report.json").read_text("utf-8")) == done.report
    assert (folder / "ticket.md").read_text("utf-8").startswith("# Ticket: gpu SXM1: reboot")
    again = call("judge", str(folder / "recording.json.gz"), "--format", "json")
    assert again.code == 30
    assert json.loads(again.out)["findings"] == done.report["findings"]


@pytest.mark.parametrize(
    ("body", "error"),
    [(FAILS, "failed: ERROR: Please run"), (HANGS, "cut off after 15 s")],
    ids=["fails", "hangs"],
)
def test_a_bad_script_costs_neither_the_verdict_nor_the_rest(
    eight: Machine, tool: Tool, place: Path, body: str, error: str
) -> None:
    path = tool(body)
    eight.nvml({gpu(A): Change(code=15)})
    done = eight.run("--collect-on-fail", str(place), "--deadline", "15", env={"PATH": path})
    assert done.code == 30
    rows = json.loads((only_folder(place) / "MANIFEST.json").read_text("utf-8"))["files"]
    (row,) = [row for row in rows if row["name"].startswith(LOG)]
    assert error in row["error"]


def test_a_signal_while_it_collects_finishes_the_folder(
    eight: Machine, tool: Tool, place: Path
) -> None:
    path = tool(f"touch '{place.parent}/begun'\n{HANGS}")
    eight.nvml({gpu(A): Change(code=15)})
    env = {**eight.env(), "PATH": path}
    with eight.start(
        eight.command("run", "--output", "/dev/null", "--collect-on-fail", str(place)), env
    ) as process:
        wait_for((place.parent / "begun").exists)
        assert all(path.name.startswith(".") for path in place.iterdir()), (
            "nothing has its name before it is whole"
        )
        process.send_signal(signal.SIGTERM)
        done = finished(process, env)
    assert done.code == 30
    assert (only_folder(place) / "MANIFEST.json").exists()


def test_a_pass_leaves_nothing(eight: Machine, tool: Tool, place: Path) -> None:
    path = tool(f"touch '{place}/begun'\n")
    done = eight.run("--collect-on-fail", str(place), env={"PATH": path})
    assert (done.code, done.err) == (0, "")
    assert list(place.iterdir()) == []


def test_a_folder_that_goes_away_does_not_cost_the_verdict(eight: Machine, place: Path) -> None:
    """It is there when the run begins, and gone when the report is out."""
    eight.nvml({gpu(A): Change(code=15), key_of("EccMode", B): Change(delay_ms=1500)})
    env = eight.env("init=10,call=10,host=5")
    with eight.start(
        eight.command("run", "--output", "/dev/null", "--collect-on-fail", str(place)), env
    ) as process:
        wait_for(eight.log.exists)
        place.rmdir()
        done = finished(process, env)
    assert done.code == 30
    assert f"gpuscan: {place}: cannot keep the evidence: No such file or directory" in done.err


def test_what_is_refused_before_the_scan(eight: Machine, call: Call, tmp_path: Path) -> None:
    done = eight.run("--collect-on-fail", str(tmp_path / "none"))
    assert (done.code, done.out) == (2, "")
    assert f"no such folder: create it first (mkdir -p {tmp_path}/none)" in done.err
    assert eight.calls() == []
    (tmp_path / "file").touch()
    assert call("run", "--collect-on-fail", str(tmp_path / "file")).code == 2
    replay = call("run", "--replay", "demo-broken", "--collect-on-fail", str(tmp_path))
    assert (replay.code, "--collect-on-fail cannot be combined with --replay" in replay.err) == (
        2,
        True,
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(call: Call, place: Path) -> None:
    place.chmod(0o500)
    assert "this user cannot write there" in call("run", "--collect-on-fail", str(place)).err
