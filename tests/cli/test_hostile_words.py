"""Every command echoes an argument as text: no escape sequence, no line of its own, no reversed text
reaches the terminal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from program import Call

from gpuscan.cli import app

HOSTILE = "x\x1b]0;PWNED\x07\u202eevil\nFORGED: pass\x9b2J"
CONTRACT = (0, 2, 3, 10, 20, 30, 31, 40, 41)
# a scan of this machine is not what is tried here: each is given what it need not scan for
INSTEAD: dict[tuple[str, ...], tuple[str, ...]] = {
    ("run",): ("--replay", "demo", "--no-history"),
    ("judge",): ("demo",),
    ("info",): ("--replay", "demo"),
}
SCANS = {("collect",), ("doctor",), ("swap", "begin"), ("swap", "verify"), ("run",), ("info",)}
# what these options name is run or waited for
LEFT_OUT = {"--on-verdict", "--settle", "--duration", "--level"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, with its path."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, (*path, name))
        else:
            yield (*path, name), one


def lines() -> Iterator[tuple[str, ...]]:
    """Command lines with the hostile word in place of each argument and option of each command."""
    whole = typer.main.get_command(app.build_command_line())
    yield (HOSTILE,)
    yield ("--" + HOSTILE,)
    for path, one in commands(whole):
        own = INSTEAD.get(path, ())
        yield (*path[:-1], path[-1] + HOSTILE)
        yield (*path, f"--{HOSTILE}")
        if path not in SCANS or own:
            yield (*path, HOSTILE, *own)
            yield (*path, *own, HOSTILE)
        for option in one.params:
            name = max(option.opts, key=len)
            takes = name.startswith("--") and not getattr(option, "is_flag", False)
            if takes and name not in LEFT_OUT and (path not in SCANS or own):
                yield (*path, *own, name, HOSTILE)
                yield (*path, *own, f"{name}=a={HOSTILE}")
    for topic in ("xid", "sxid", "dcgm", "exit", "check", "hold", "action"):
        yield ("explain", topic, HOSTILE)


LINES = list(dict.fromkeys(lines()))
SAMPLE = random.Random(15).sample(LINES, 12)


def see(call: Call, folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = call(*words)
    shown = done.out + done.err
    assert done.code in CONTRACT, done.err
    assert "Traceback" not in done.err
    for bad in ("\x1b", "\x07", "\u202e", "\x9b", "\nFORGED", "\ngpuscan: FORGED"):
        assert bad not in shown, (words, bad, shown[-500:])


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(len(LINES)))
def test_every_argument_of_every_command(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    see(call, tmp_path, LINES[number], monkeypatch)


@pytest.mark.parametrize("number", range(len(SAMPLE)))
def test_a_sample_of_arguments(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    see(call, tmp_path, SAMPLE[number], monkeypatch)
