"""The site's own command on a verdict: what it gets, and that nothing it does changes the verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from program import Call, environment, program, start

from gpuscan.live.site_command import run_on_verdict

KEEPS = """#!/bin/sh
env | grep '^GPUSCAN_' > "$1.env"
cat > "$1.json"
echo kept
exit 7
"""


def _is_gone(pid: int) -> bool:
    """Return whether a process has ended; one that nobody reaps has, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def command(folder: Path, text: str, name: str = "site") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_command_gets_the_report_and_the_facts(call: Call, tmp_path: Path) -> None:
    kept, state = tmp_path / "kept", str(tmp_path / "state")
    site = f"{command(tmp_path, KEEPS)} {kept}"
    done = call(
        "run", "--replay", "demo-broken", "--format", "json", "--state-dir", state,
        "--on-verdict", site,
    )  # fmt: skip
    assert done.code == 41, "never the command's"
    assert "gpuscan: --on-verdict: site ended with 7" in done.err
    assert "  kept\n" in done.err
    assert json.loads((tmp_path / "kept.json").read_text()) == json.loads(done.out)
    facts = dict(line.split("=", 1) for line in (tmp_path / "kept.env").read_text().splitlines())
    assert facts["GPUSCAN_VERDICT"] == "hardware"
    assert (facts["GPUSCAN_EXIT_CODE"], facts["GPUSCAN_HOLD"]) == ("41", "41")
    assert facts["GPUSCAN_HEADLINE"].startswith("hardware (41): replace gpu SXM7")
    exported = call("ticket", "--state-dir", state, "--format", "json")
    timeline = json.loads(exported.out)["timeline"]
    assert "site ended with 7" in [row["text"] for row in timeline]


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (("demo",), 0, ("pass", "0", "0")),
        (("demo", "--fail-on", "warn"), 0, ("pass", "0", "0")),
        (("demo-broken", "--exit-style", "nagios"), 2, ("hardware", "41", "0")),
        (("demo", "--only", "swap"), 3, ("incomplete", "3", "0")),
    ],
)
def test_it_runs_whatever_the_verdict(
    call: Call, tmp_path: Path, words: tuple[str, ...], code: int, facts: tuple[str, ...]
) -> None:
    site = command(
        tmp_path, '#!/bin/sh\necho "$GPUSCAN_VERDICT $GPUSCAN_EXIT_CODE $GPUSCAN_HOLD"\n'
    )
    done = call("run", "--replay", *words, "--no-history", "-q", "--on-verdict", site)
    assert done.code == code
    assert " ".join(facts) in done.err


def test_one_that_reads_nothing_or_prints_much_does_no_harm(tmp_path: Path) -> None:
    much = command(tmp_path, "#!/bin/sh\nyes | head -c 1000000\n")
    told, printed = run_on_verdict([much], b"x" * 10_000_000, {})
    assert told == "site ended with 0"
    assert 0 < len(printed) <= 4096


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    hangs = command(tmp_path, f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/pid\nwait\n")
    assert run_on_verdict([hangs], b"", {}, 2.0)[0] == "site was ended after 2 s"
    pid = int((tmp_path / "pid").read_text())
    ends_s = time.monotonic() + 30
    while not _is_gone(pid) and time.monotonic() < ends_s:
        time.sleep(0.01)
    assert _is_gone(pid)


def test_one_that_dies_or_cannot_start_is_told(tmp_path: Path) -> None:
    dies = command(tmp_path, "#!/bin/sh\nkill -9 $$\n")
    assert run_on_verdict([dies], b"", {})[0] == "site was ended by signal 9"
    lost = command(tmp_path, "#!/no/such/interpreter\n")
    assert "site could not be started" in run_on_verdict([lost], b"", {})[0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("no-such-program", "no-such-program: no such program on PATH"),
        ("'", "No closing quotation: quote it for a shell"),
        ("  ", "no command: name the program to run"),
    ],
)
def test_a_command_that_cannot_run_is_refused_before_the_scan(
    call: Call, tmp_path: Path, given: str, told: str
) -> None:
    report = tmp_path / "report.json"
    done = call("run", "--replay", "demo", "--report", f"json={report}", "--on-verdict", given)
    assert (done.code, done.out) == (2, "")
    assert f"gpuscan: --on-verdict: {told}" in done.err
    assert not report.exists()


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="only root must beware of others")
def test_as_root_a_command_that_others_may_write_is_refused(tmp_path: Path) -> None:
    site = command(tmp_path, KEEPS)
    os.chmod(site, 0o777)
    done = start(["run", "--replay", "demo", "--on-verdict", site])
    assert done.code == 2
    assert "and gpuscan runs as root" in done.err


@pytest.mark.system
def test_a_signal_ends_the_command_and_the_verdict_stands(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    site = command(tmp_path, f"#!/bin/sh\necho begun > {fifo}\nsleep 600\n")
    words = ["run", "--replay", "demo-broken", "-q", "--no-history", "--on-verdict", site]
    with subprocess.Popen(
        [*program(), *words], stderr=subprocess.PIPE, env=environment(), text=True
    ) as running:
        assert fifo.read_text() == "begun\n"
        running.send_signal(signal.SIGTERM)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 41
    assert "gpuscan: --on-verdict: site was ended by a signal" in told


def test_the_report_is_out_before_the_command_runs(call: Call, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    site = f'{sys.executable} -c \'import json; json.load(open("{report}")); print("read")\''
    done = call("run", "--replay", "demo", "-q", "--report", f"json={report}", "--on-verdict", site)
    assert (done.code, "  read\n" in done.err) == (0, True)
