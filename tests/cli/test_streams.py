"""Standard output that is closed or full costs the result, never a traceback, in no command."""

from __future__ import annotations

import subprocess

import pytest
from program import environment, program

BROKEN = (0, 2, 3, 41)  # as far as the result had got
COMMANDS = (
    ("judge", "demo"),
    ("judge", "demo-broken"),
    ("judge", "demo-broken", "--format", "json"),
    ("judge", "demo-broken", "-q"),
    ("run", "--replay", "demo-broken"),
    ("log", "/dev/null"),
    ("info",),
    ("history", "list"),
    ("checks", "list"),
    ("checks", "show", "memory.row_remap"),
    ("explain", "xid", "79"),
    ("profile", "list"),
    ("profile", "show", "h100-8x"),
    ("profile", "validate", "/dev/null"),
    ("schema", "report"),
    ("doctor",),
)


@pytest.mark.system
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("stream", [">&-", "> /dev/full", ">&- 2>&-", "<&-"])
def test_a_stream_that_is_closed_or_full(words: tuple[str, ...], stream: str) -> None:
    script = f'"$@" {stream}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *program(), *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=60,
    )
    assert done.returncode in BROKEN, done
    assert "Traceback" not in done.stderr
    if "demo-broken" in words:
        assert done.returncode in (2, 41)
