"""What a burn-in shows meanwhile: a block that is redrawn in place on a terminal, lines elsewhere,
and nothing that steers it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import Any

import pytest
from building import lost

from gpuscan.burnin.progress import Progress, Size

EIGHT = [f"SXM{n}" for n in range(1, 9)]


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Screen:
    """What a terminal of endless height makes of the few escapes that are used; other control
    characters are refused.
    """

    def __init__(self, text: str) -> None:
        self.lines, self.row, self.column = [""], 0, 0
        for piece in re.findall(r"\x1b\[\d*[A-Z]|[^\x1b]", text):
            self.take(piece)

    def take(self, piece: str) -> None:
        line = self.lines[self.row]
        if piece == "\x1b[K":
            self.lines[self.row] = line[: self.column]
        elif piece == "\x1b[J":
            self.lines[self.row :] = [line[: self.column]]
        elif piece.startswith("\x1b"):
            assert piece.endswith("A"), ascii(piece)
            self.row -= int(piece[2:-1])
            assert self.row >= 0
        elif piece in "\r\n":
            self.row += piece == "\n"
            self.column = 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        else:
            assert piece.isprintable(), ascii(piece)
            self.lines[self.row] = line[: self.column] + piece + line[self.column + 1 :]
            self.column += 1


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def shown(
    stream: io.StringIO | None,
    size: Size = (80, 24),
    gpus: list[str] = EIGHT,
    expected_s: float = 540,
) -> tuple[Progress, Clock]:
    clock = Clock()
    return Progress(gpus, stream, expected_s=expected_s, clock=clock, size=lambda: size), clock


def fill(progress: Progress, clock: Clock, **fields: Any) -> None:
    progress.step("stress-bf16", 12, 41, 15)
    for n, gpu in enumerate(progress.gpus):
        clock.now_s += 0.1
        some = {
            "test": "stress-bf16",
            "temperature_c": 61 + n,
            "power_w": 697.4,
            "rate": f"{690 - 10 * n} tflops",
        }
        progress.update(gpu, **(some | fields))


def test_a_line_a_gpu_is_redrawn_in_place_and_wiped_at_the_end() -> None:
    stream = Terminal("")
    progress, clock = shown(stream)
    fill(progress, clock)
    clock.now_s += 60
    progress.update("SXM1")
    screen = Screen(stream.getvalue()).lines
    assert screen[0] == "burn-in 1:00 of about 9:00: stress-bf16, step 12 of 41, 15 s"
    assert screen[1] == "SXM1  stress-bf16   61 °C   697 W  690 TFLOP/s"
    assert screen[8] == "SXM8  stress-bf16   68 °C   697 W  620 TFLOP/s"
    assert screen[9:] == [""]
    progress.close()
    assert Screen(stream.getvalue()).lines == [""]
    progress.close()
    assert Screen(stream.getvalue()).lines == [""], "closing twice wipes nothing that came before"


def test_it_is_redrawn_at_most_twice_a_second() -> None:
    stream = Terminal("")
    progress, clock = shown(stream)
    for _ in range(100):
        clock.now_s += 0.05
        progress.update("SXM1", temperature_c=50)
    assert 8 <= stream.getvalue().count("burn-in") <= 10


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_lines_are_cut_to_the_terminal(columns: int) -> None:
    stream = Terminal("")
    progress, clock = shown(stream, (columns, 24))
    fill(progress, clock, rate="391 one_way_gbps 760 both_gbps " * 3)
    widest = max(map(len, Screen(stream.getvalue()).lines))
    assert widest < columns or widest == 20
    assert widest > min(columns, 80) - 2


def test_more_gpus_than_lines_are_counted() -> None:
    stream = Terminal("")
    progress, clock = shown(stream, (80, 10), [f"SXM{n}" for n in range(1, 17)])
    fill(progress, clock)
    screen = Screen(stream.getvalue()).lines
    assert len(screen) == 10
    assert (screen[7].split()[0], screen[8]) == ("SXM7", "and 9 more GPUs")


def test_elsewhere_a_line_a_step_and_a_line_a_minute() -> None:
    stream = io.StringIO()
    progress, clock = shown(stream)
    fill(progress, clock)
    clock.now_s = 1060.0
    for _ in range(590):
        clock.now_s += 0.1
        progress.update("SXM3", temperature_c=71, power_w=700)
    clock.now_s = 1180.5
    progress.update("SXM2", temperature_c=lost(), power_w=None)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "burn-in 0:00 of about 9:00: step 12 of 41, stress-bf16 (15 s)",
        (
            "burn-in 1:00 of about 9:00: stress-bf16; hottest SXM3 71 °C, 5.6 kW together; slowest"
            " SXM8 620 TFLOP/s"
        ),
        (
            "burn-in 3:00 of about 9:00: stress-bf16; hottest SXM3 71 °C, 5.6 kW together; slowest"
            " SXM8 620 TFLOP/s"
        ),
    ]


def test_what_was_spent_before_counts() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(EIGHT, stream, expected_s=86400, spent_s=72000, clock=clock)
    clock.now_s += 90
    progress.step("memory", 1, 41, 60)
    assert stream.getvalue().startswith("burn-in 20:01:30 of about 24:00:00: step 1 of 41")


def test_a_rate_is_told_with_its_own_test_only() -> None:
    stream = Terminal("")
    progress, clock = shown(stream, gpus=["SXM1"])
    progress.update("SXM1", test="stress-bf16", rate="690 tflops")
    clock.now_s += 1
    progress.update("SXM1", test="hbm")
    assert "TFLOP/s" not in "".join(Screen(stream.getvalue()).lines)


def test_a_step_begins_with_what_is_known_of_the_gpus_and_nothing_of_the_last_one() -> None:
    stream = Terminal("")
    progress, clock = shown(stream, gpus=["SXM1", "SXM2"])
    fill(progress, clock)
    progress.step("pcie", 13, 41, 2)
    clock.now_s += 1
    progress.update("SXM2", test="pcie", rate="55.3 to_card_gbps")
    screen = Screen(stream.getvalue()).lines
    assert screen[1:3] == [
        "SXM1         61 °C   697 W",
        "SXM2  pcie   62 °C   697 W  to card 55.3 GB/s",
    ]


def test_gpus_that_measure_different_things_have_no_slowest_one() -> None:
    stream = io.StringIO()
    progress, clock = shown(stream, gpus=["SXM1", "SXM2"], expected_s=0)
    progress.update("SXM1", rate="3061 read_gbps")
    clock.now_s += 4000
    progress.update("SXM2", rate="2800 write_gbps", temperature_c=50)
    assert stream.getvalue() == "burn-in 1:06:40: hottest SXM2 50 °C\n"


def test_evidence_does_not_steer_the_terminal() -> None:
    evil = "a\x1b[2J\x1b]0;t\x07\r\nVerdict: pass"
    for stream in (Terminal(""), io.StringIO()):
        progress, clock = shown(stream, gpus=[evil, "SXM2"])
        progress.step(evil, 1, 2, 3)
        clock.now_s += 61
        progress.update(evil, test=evil, rate=evil, temperature_c=90)
        progress.close()
        assert "\x1b[2J" not in stream.getvalue()
        assert "\x07" not in stream.getvalue()
        assert not re.search(r"^Verdict", stream.getvalue(), re.MULTILINE)


def test_a_stream_that_cannot_be_written_to_ends_nothing() -> None:
    for stream in (io.StringIO(), Terminal("")):
        progress, clock = shown(stream)
        fill(progress, clock)
        stream.close()
        fill(progress, clock)
        progress.close()
    progress, clock = shown(None)
    fill(progress, clock)
    progress.close()


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_knows_no_escapes_gets_lines(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = Terminal("")
    progress, clock = shown(stream)
    fill(progress, clock)
    progress.close()
    assert stream.getvalue() == "burn-in 0:00 of about 9:00: step 12 of 41, stress-bf16 (15 s)\n"


def test_a_reader_that_takes_nothing_holds_nobody_up() -> None:
    """A pipe that is full, a terminal that was stopped: what would be shown meanwhile is left
    out.
    """
    ends = os.pipe()
    with (
        os.fdopen(ends[0], "rb", buffering=0) as reader,
        os.fdopen(ends[1], "w", encoding="utf-8") as stream,
    ):
        os.set_blocking(reader.fileno(), False)
        os.set_blocking(
            stream.fileno(), False
        )  # so that who writes all the same fails here, and does not wait
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(stream.fileno(), b"x" * 4096)
        progress = Progress(EIGHT, stream)
        progress.step("stress-bf16", 1, 2, 15)
        reader.read(1 << 20)
        progress.step("stress-fp8", 2, 2, 6)
        assert reader.read(1 << 20).decode() == "burn-in 0:00: step 2 of 2, stress-fp8 (6 s)\n"
