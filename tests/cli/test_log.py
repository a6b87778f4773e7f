"""`gpuscan log`: a kernel log from a file or a pipe, packed or not, judged alone; any input ends
in a verdict or a refusal.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from building import was_read
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import BOOT, USERS, WAYS, XID, write_journal
from program import Call, environment, program, start

from gpuscan import collectors
from gpuscan.cli import app as cli
from gpuscan.kernellog.events import read_events
from gpuscan.kernellog.lines import parse_numbered_lines
from gpuscan.kernellog.needles import is_needed
from gpuscan.live import grep, kernel_log
from gpuscan.live.logfile import LogFile
from gpuscan.recording import Recording, load, redaction, save

BEGINS = f"Feb 23 15:24:18 node01 {BOOT}\n"
QUIET = "Feb 23 15:30:00 node01 kernel: usb 1-1: new device\n"
FAULT = f"Feb 23 16:24:18 node01 kernel: {XID}\n"


def recorded(path: Path, *, current: bool = True) -> Recording:
    with LogFile(str(path)) as source:
        return kernel_log.record_log(source, current=current)


def value_of(path: Path, *, current: bool = True) -> dict[str, object]:
    (reading,) = recorded(path, current=current)
    return dict(reading.value)


def written(folder: Path, text: str | bytes, name: str = "a.log") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_quiet_log_is_good_news_and_only_of_a_log(tmp_path: Path, call: Call) -> None:
    ended = call("log", str(written(tmp_path, BEGINS + QUIET)), "--format", "json")
    report = json.loads(ended.out)
    assert (ended.code, report["summary"]["verdict"], report["summary"]["complete"]) == (
        0,
        "pass",
        True,
    )
    assert report["run"]["limited_to"] == ["a kernel log"]
    assert report["run"]["scope"] == ["log:*"]
    assert {result["status"] for result in report["checks"]} == {"pass", "skip"}


def test_a_log_without_its_beginning_says_so(tmp_path: Path, call: Call) -> None:
    ended = call("log", str(written(tmp_path, QUIET)))
    assert (ended.code, "earlier events are unknown" in ended.out) == (0, True)


@pytest.mark.parametrize("way", WAYS)
def test_a_fault_has_its_exit_code_whatever_wrote_it(way: str, tmp_path: Path, call: Call) -> None:
    ended = call("log", str(written(tmp_path, f"{WAYS[way](XID)}\n")))
    assert ended.code == 30
    assert "Xid 79 on 0000:3b:00.0" in ended.out


@pytest.mark.parametrize("way", USERS)
def test_a_quote_is_no_fault(way: str, tmp_path: Path, call: Call) -> None:
    assert call("log", str(written(tmp_path, f"{BEGINS}{USERS[way](XID)}\n")), "-q").code == 0


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip in two members": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("size", [1, 5000], ids=["small", "large"])
def test_a_packed_log_is_read_alike(packer: str, size: int, tmp_path: Path) -> None:
    """A large one goes through grep, a small one does not."""
    plain = BEGINS + QUIET * size + FAULT + QUIET
    value = value_of(written(tmp_path, PACKERS[packer](plain.encode())))
    assert value["total_lines"] == size + 3
    assert [row for row in value["lines"] if "Xid" in row[1]] == [[size + 2, FAULT.rstrip("\n")]]  # type: ignore[attr-defined]
    assert (value["boots"], value["whole"], value["kernel"]) == (1, True, True)


def test_a_packed_log_that_was_cut_off_counts_as_far_as_it_goes(tmp_path: Path, call: Call) -> None:
    data = gzip.compress(
        (
            BEGINS
            + FAULT
            + "".join(f"Feb 23 17:00:00 n sshd[{n * 7919}]: {n * n}\n" for n in range(9999))
        ).encode()
    )
    ended = call("log", str(written(tmp_path, data[: len(data) // 2])), "--format", "json")
    assert ended.code == 30
    assert any("cut off" in note for note in json.loads(ended.out)["notes"])
    assert call("log", str(written(tmp_path, data[:10]))).code == 2


def test_zstd_without_a_library_is_refused_with_the_way_out(tmp_path: Path, call: Call) -> None:
    path = written(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(40))
    ended = call("log", str(path))
    assert ended.code == 2
    assert "zstd -d" in ended.err or "damaged" in ended.err


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    for size in (1, 9000):
        text = BEGINS + QUIET * size + FAULT
        done = subprocess.run(
            [*program(), "log", "-", "--format", "json"],
            input=text.encode(),
            capture_output=True,
            env=environment(),
            check=False,
        )
        assert done.returncode == 30
        assert "Xid 79 on 0000:3b:00.0" in done.stdout.decode()


def test_what_cannot_be_read_is_refused(tmp_path: Path, call: Call) -> None:
    journal = written(tmp_path, b"LPKSHHRH" + bytes(200), "system.journal")
    for words, said in (
        ((str(tmp_path / "none"),), "No such file"),
        ((str(tmp_path),), "directory"),
        ((str(journal),), "journalctl --file"),
        (
            (str(written(tmp_path, FAULT)), "--boot", "last"),
            "'last' is not one of 'current', 'all'",
        ),
        ((str(written(tmp_path, FAULT)), "--format", "xml"), "xml"),
        ((str(written(tmp_path, FAULT)), "--profile", "no-such"), "no-such"),
    ):
        ended = call("log", *words)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "Read me: this is no log.\n", "root:x:0:0:root:/root:/bin/bash\n", "\0" * 500],
)
def test_what_is_no_kernel_log_is_never_healthy(text: str, tmp_path: Path, call: Call) -> None:
    assert call("log", str(written(tmp_path, text)), "-q").code == 3


LATER = BEGINS.replace("Feb 23", "Feb 24")


def test_only_the_last_boot_counts_unless_all_are_asked_for(tmp_path: Path, call: Call) -> None:
    path = str(written(tmp_path, BEGINS + FAULT + LATER + QUIET))
    assert call("log", path, "-q").code == 0
    every = call("log", path, "--boot", "all")
    assert every.code == 0
    assert "history, ended by a boot" in every.out
    value = value_of(Path(path))
    assert (value["boots"], [row[0] for row in value["lines"]]) == (2, [3])  # type: ignore[attr-defined]


def test_gaps_and_cuts_are_told(tmp_path: Path, call: Call) -> None:
    path = written(
        tmp_path, BEGINS + "Feb 23 15:30:00 node01 kernel: printk: 17 messages dropped\n" + QUIET
    )
    ended = call("log", str(path), "--format", "json")
    assert any("once that lines were lost" in note for note in json.loads(ended.out)["notes"])
    assert value_of(path)["gaps"] == 1


def test_a_flood_is_thinned_and_hides_nothing(tmp_path: Path) -> None:
    flood = "".join(
        f"Feb 23 15:30:00 node01 kernel: NVRM: nvAssertFailed: Assertion failed: {n}\n"
        for n in range(6000)
    )
    value = value_of(written(tmp_path, BEGINS + flood + FAULT + flood))
    lines = [row[1] for row in value["lines"]]  # type: ignore[attr-defined]
    assert len(lines) < 5000
    assert value["left_out"] == 12_000 + 2 - len(lines)
    assert FAULT.rstrip("\n") in lines


def test_a_recording_of_a_log_is_judged_again(tmp_path: Path, call: Call) -> None:
    path, kept = written(tmp_path, BEGINS + FAULT), tmp_path / "kept.json.gz"
    save(recorded(path), str(kept))
    again = call("judge", str(kept), "--format", "json")
    report = json.loads(again.out)
    assert (again.code, report["run"]["limited_to"]) == (30, ["a kernel log"])
    assert [one.label for one in was_read(collectors.node(load(str(kept))).incidents)] == [
        "Xid 79 on 0000:3b:00.0"
    ]


def test_redaction_covers_the_hosts_and_serials_in_a_log(tmp_path: Path) -> None:
    logs = {
        "secretnode": "2025-02-23T16:24:18+00:00 secretnode.example.com kernel: NVRM: GPU Board"
        " Serial Number: 1650123456789",
        "othernode": "Feb 23 16:24:18 othernode kernel: NVRM: GPU at PCI:0000:91:00:"
        " GPU-11111111-2222-3333-4444-555555555555",
        "thirdnode": WAYS["journalctl -o json"](XID).replace("node01", "thirdnode"),
    }
    texts = []
    for node, line in logs.items():  # a log is of one node
        found = recorded(written(tmp_path, line, f"{node}.log"))
        texts.append(json.dumps([tuple(reading) for reading in redaction.redact(found)]))
    text = "\n".join(texts)
    assert "Xid (PCI:0000:3b:00)" in text
    for name in (*logs, "1650123456789", "11111111-2222"):
        assert name not in text


def test_grep_and_python_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.log"
    write_journal(path, 3_000_000)
    ways: dict[str, list[tuple[int, bytes]]] = {}
    with LogFile(str(path)) as source:
        assert source.searches
        ways["a file"] = list(source.rows())
        total = source.total
    with path.open("rb") as file:
        assert total == sum(1 for _ in file)
    written(tmp_path, gzip.compress(path.read_bytes(), 1), "journal.gz")
    with LogFile(str(tmp_path / "journal.gz")) as source:
        ways["packed"] = list(source.rows())
    monkeypatch.setitem(grep.ENVIRONMENT, "PATH", str(tmp_path))
    monkeypatch.setattr(grep, "GREP", ("no-grep-here",))
    with LogFile(str(path)) as source:
        ways["without grep"] = list(source.rows())
        assert source.total == total
    matter = {way: [row for row in rows if is_needed(row[1])] for way, rows in ways.items()}
    assert len(matter["a file"]) > 5
    assert matter["a file"] == matter["packed"] == matter["without grep"]


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_file_searched_in_parts_is_one_file(
    parts: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part begins with a line that continues another, and numbers run through."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(parts))
    lines = [
        f"[ {n}.000000] NVRM: a message of {n}" if n % 7 == 0 else f"\tpadded {n}"
        for n in range(30_000)
    ]
    path = written(tmp_path, "\n".join(lines) + end)
    with LogFile(str(path)) as source:
        assert len(source.searches) == parts
        rows = list(source.rows())
        assert source.total == len(lines)
    assert rows == [(number, line.encode()) for number, line in enumerate(lines, 1)]


def test_a_line_without_end_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is too long for grep's memory the log is read once more, with the line cut."""
    monkeypatch.setattr(grep, "MOST_MEMORY_BYTES", 24 * 1024 * 1024)
    path = written(
        tmp_path, FAULT.encode() + b"x" * 60_000_000 + b"\n" + FAULT.replace("3b", "5e").encode()
    )
    with LogFile(str(path)) as source:
        rows = [(number, line.rstrip(b"\n")) for number, line in source.rows() if b"Xid" in line]
        assert source.total == 3
    assert rows == [
        (1, FAULT.rstrip("\n").encode()),
        (3, FAULT.rstrip("\n").replace("3b", "5e").encode()),
    ]


def test_the_command_is_in_the_help_and_starts_alone() -> None:
    assert "log" in start(["--help"]).out
    assert "--boot" in start(["log", "--help"]).out


PIECES = st.one_of(
    st.sampled_from(
        [
            *(way(XID).encode() for way in WAYS.values()),
            *(way(XID).encode() for way in USERS.values()),
        ]
    ),
    st.sampled_from(
        [
            BEGINS.encode(),
            QUIET.encode(),
            FAULT.encode(),
            b"\x1f\x8b",
            b"BZh9",
            b"\xfd7zXZ\0",
            b"\xff\xfe",
            b"{",
            b"[",
            b" ",
        ]
    ),
    st.binary(max_size=80),
    st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")),
)
CODES = (0, 2, 3, 20, 30, 31, 40, 41)


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=12), st.sampled_from([b"\n", b"\r\n", b""]))
def test_any_input_gives_a_report_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], end: bytes
) -> None:
    path = written(tmp_path_factory.getbasetemp(), end.join(pieces), "any.log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["gpuscan", "log", str(path), "-q"])
        assert cli.start(None) in CODES


@given(st.lists(PIECES, max_size=8), st.lists(PIECES, max_size=8))
def test_no_neighbour_costs_a_fault_its_verdict(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes]
) -> None:
    fault = FAULT.replace("3b", "5e").encode()
    text = b"[ 1.000000] a\n" + b"\n".join([*before, fault.rstrip(b"\n"), *after])
    value = value_of(written(tmp_path_factory.getbasetemp(), text, "any.log"), current=False)
    rows = [(row[0], row[1]) for row in value["lines"]]  # type: ignore[attr-defined]
    assert "0000:5e:00.0" in [
        one.address for one in read_events(parse_numbered_lines(rows, 1.75e9))
    ]
