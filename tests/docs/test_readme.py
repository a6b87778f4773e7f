"""What README shows is what the program does."""

import re

from paths import ROOT

from gpuscan import renderers
from gpuscan.engine import judging
from gpuscan.importers.load import open_recording

README = (ROOT / "README.md").read_text("utf-8")


def without_counts(text: str) -> str:
    """A report without what changes with the number of checks."""
    text = re.sub(r"^Not read: .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\d+ (skip|pass)\b", r"N \1", text)


def test_the_output_shown_is_the_real_one() -> None:
    report = judging.judge_recording(
        open_recording("demo-broken"), "demo-broken", judging.prepare(judging.Selection())
    )
    real = renderers.find("text")([report], verbosity=0)
    assert f"```\n{without_counts(real)}```" in without_counts(README)


def test_the_two_commands_are_there_once() -> None:
    commands_shown = re.findall(r"^    (python3 -m venv .*)$", README, re.MULTILINE)
    assert [line.rsplit(" ", 3)[1:] for line in commands_shown] == [
        ["run", "--replay", "demo"],
        [".venv-dev/bin/nox", "-s", "tests"],
    ]


def test_the_exit_codes_are_the_contract() -> None:
    codes = re.findall(r"^\| (\d+(?: / \d+)?|128\+n) \|", README, re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "10", "20", "30 / 31", "40 / 41", "128+n"]
