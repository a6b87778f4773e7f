"""Every kind of mistake in a profile, wherever it stands: all are told at once, in the order of
their lines, each with file, line and column.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from program import Call

from gpuscan.profile.keys import load_schema

# a line of a branch, the column of what is wrong in it, and the words for it
IN_GPU = {
    "number": ("count: eight", 10, "'eight' is not an integer"),
    "range": ("count: -1", 10, "-1 is less than"),
    "choice": ("pcie_width: 3", 15, "3 is not one of"),
    "key": ("cuont: 8", 3, "unknown key; did you mean count?"),
    "boolean": ("ecc: 5", 8, "5 is not a boolean"),
    "word for a boolean": ("mig: yes", 8, "would be read as true or false"),
    "version": ("vbios: 96.00", 10, "96.0 is not"),
    "version without a sign": ("vbios: 96.00.A5", 10, "is not a version limit: write =="),
    "octal": ("memory_mib: 010", 15, "is an unusual number"),
    "date": ("name: 2026-11-28", 9, "would be read as timestamp"),
    "number for a key": ("5: 5", 3, "is not text"),
    "device": ("device_id: nonsense", 14, "is not a PCI vendor and device: write"),
}
AT_THE_TOP = {
    "area": ("gpus: {}", 1, "unknown key; did you mean gpu?"),
    "no branch": ("kernel: 5", 9, "5 is not an object"),
    "parent": ("extends: nosuch", 10, "unknown profile 'nosuch'"),
    "parent's file": ("extends: ./no.yaml", 10, "No such file or directory"),
    "skipped check": ("skip: {memory.row_remapp: because}", 8, "did you mean memory.row_remap?"),
    "skipped area": ("skip: {infinband: because}", 8, "did you mean infiniband?"),
    "skipped glob": ("skip: {'foo.*': because}", 8, "no check is called foo.*"),
    "skip without a reason": ("skip: {nvlink: 5}", 16, "5 is not a string"),
    "optional check": ("optional: [memory.row_remapp]", 12, "did you mean memory.row_remap?"),
    "capability": ("capabilities: [warp]", 16, "'warp' is not one of"),
    "driver": ('driver: {version: "> 550"}', 19, "is not a version limit: write >=550.54"),
}
PADDING = ("", "# a comment\n", "\n\n# two\n\n", "description: long\n")


def place(call: Call, path: Path, text: str) -> list[str]:
    path.write_text(text, "utf-8")
    done = call("profile", "validate", str(path))
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)
    return done.err.splitlines()


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("kind", [*IN_GPU, *AT_THE_TOP])
def test_a_mistake_has_its_place(kind: str, padding: str, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "p.yaml"
    above = f"{padding}gpu:\n  " if kind in IN_GPU else padding
    line, column, words = (IN_GPU | AT_THE_TOP)[kind]
    (told,) = place(call, path, f"{above}{line}\n")
    assert told.startswith(f"gpuscan: {path}:{above.count(chr(10)) + 1}:{column}: $")
    assert words in told


@pytest.mark.parametrize("pair", list(itertools.combinations(IN_GPU, 2)), ids=" and ".join)
def test_two_mistakes_are_told_at_once_in_their_order(
    pair: tuple[str, str], tmp_path: Path, call: Call
) -> None:
    rows = [IN_GPU[kind] for kind in pair]
    if rows[0][0].partition(":")[0] == rows[1][0].partition(":")[0]:
        rows[1] = ("nonsense: 1", 3, "unknown key")
    text = "gpu:\n" + "".join(f"  {line}\n" for line, _, _ in rows)
    told = place(call, tmp_path / "p.yaml", text)
    assert [re.sub(r".*p[.]yaml:(\d+:\d+): .*", r"\1", line) for line in told] == [
        f"{number}:{column}" for number, (_, column, _) in enumerate(rows, 2)
    ]


def test_all_mistakes_of_a_file_and_of_its_parent_are_told(tmp_path: Path, call: Call) -> None:
    (tmp_path / "parent.yaml").write_text(
        "gpu: {count: eight}\noptional: [nosuch.check]\n", "utf-8"
    )
    text = (
        "extends: parent.yaml\ngpu:\n  count: eight\n  ecc: yes\n  ecc: true\n"
        "skip: {memory.row_remapp: because}\ndriver: {version: 5}\n"
    )
    told = place(call, tmp_path / "child.yaml", text)
    places = [re.sub(r"gpuscan: .*/(\w+[.]yaml:\d+:\d+): .*", r"\1", line) for line in told]
    assert places == [
        "child.yaml:3:10",
        "child.yaml:4:8",
        "child.yaml:5:3",
        "child.yaml:6:8",
        "child.yaml:7:19",
        "parent.yaml:1:14",
        "parent.yaml:2:12",
    ]


def test_every_limit_of_a_version_says_what_to_write() -> None:
    text = str(load_schema())
    assert text.count("'x-pattern': 'a version limit: write") == text.count("|<=|>|<)[0-9") // 2


@pytest.mark.parametrize("selector", ["infiniband", "infiniband.*", "infiniband.port_count"])
def test_areas_and_globs_are_skipped(selector: str, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"extends: h200-4x\nskip: {{'{selector}': no such fabric}}\n", "utf-8")
    assert call("profile", "validate", str(path)).code == 0
    out = call("judge", "demo", "--profile", str(path), "--format", "json").out
    assert out.count("no such fabric") >= (1 if "port_count" in selector else 5)
