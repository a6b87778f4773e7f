"""A text reads the same in every form in which people pass it on, or it is incomplete or refused:
never better than as its tool prints it.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
from rewriting import FORMS, OF_THE_KERNEL, TEXTS, each, is_quoted, links, log, query, table, xml

from gpuscan.engine import judging
from gpuscan.errors import GpuscanError
from gpuscan.importers.load import open_recording
from gpuscan.live.kernel_log import record_log
from gpuscan.live.logfile import LogFile

PLAN = judging.prepare(judging.Selection())
INCOMPLETE = (2, 3)
LOGS = [name for name in TEXTS if name.startswith(OF_THE_KERNEL) and "bundle" not in name]
# The form breaks the lines of these texts, or `log` streams and cannot read JSON as a whole.
BROKEN = {
    ("80 columns", "table, uncorrected"), ("80 columns", "table, clean"), ("80 columns", "-q, clean"),
    ("80 columns", "CSV, remap failed"),
}  # fmt: skip
NOT_STREAMED = ("no-break blanks", "CloudWatch", "GKE", "a unit's journal", "journal's JSON", "journal's export")  # fmt: skip


def code(text: str, folder: Path, *, by_log: bool = False) -> int:
    """The exit code of `judge` or of `log` on a text."""
    file = folder / "pasted.txt"
    file.write_text(text, "utf-8", newline="")
    try:
        if by_log:
            with LogFile(str(file)) as lines:
                recording = record_log(lines)
        else:
            recording = open_recording(str(file))
    except GpuscanError:
        return 2
    return judging.judge_recording(recording, str(file), PLAN).exit_code


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return {name: code(text, tmp_path_factory.mktemp("plain")) for name, text in TEXTS.items()}


def test_the_texts_are_healthy_and_faulty(plain: dict[str, int]) -> None:
    clean = {name for name, got in plain.items() if got == 0}
    assert clean == {name for name in TEXTS if name.endswith("clean")}
    assert set(plain.values()) == {0, 20, 30, 40, 41}


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
def test_a_text_in_another_form_is_judged_the_same(
    form: str, plain: dict[str, int], tmp_path: Path
) -> None:
    for name, text in TEXTS.items():
        got = code(FORMS[form](text), tmp_path)
        if is_quoted(form, name):
            assert got in (0, *INCOMPLETE), name
        elif (form, name) in BROKEN:
            assert got in INCOMPLETE, name
        else:
            assert got == plain[name], name


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LOGS)
def test_a_log_in_another_form_is_judged_the_same(
    name: str, form: str, plain: dict[str, int], tmp_path: Path
) -> None:
    got = code(FORMS[form](TEXTS[name]), tmp_path, by_log=True)
    if form in NOT_STREAMED:
        assert got in (plain[name], *INCOMPLETE) or is_quoted(form, name)
    else:
        assert got == plain[name]


@cache
def pairs(count: int = 60) -> tuple[tuple[str, str], ...]:
    """Two forms, one around the other, as a ticket quotes what a script collected."""
    chance = random.Random(20250305)
    every = [(inner, outer) for inner in FORMS for outer in FORMS if inner != outer]
    return tuple(chance.sample(every, count))


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in TEXTS if not name.endswith("clean")])
def test_a_form_within_a_form_hides_no_fault(
    name: str, plain: dict[str, int], tmp_path: Path
) -> None:
    for inner, outer in pairs():
        got = code(FORMS[outer](FORMS[inner](TEXTS[name])), tmp_path)
        quoted = is_quoted(inner, name) or is_quoted(outer, name)
        assert got in (plain[name], *INCOMPLETE) or (quoted and got == 0), (inner, outer)


@pytest.mark.parametrize(
    "prefix", ["node{}: ", "[pod/x{}/main] ", "x{}-1  | ", "10.0.0.{}: ", "{}: "]
)
@pytest.mark.parametrize("text", ["dmesg, clean", "table, clean", "-q, clean", "ibstat, clean"])
def test_lines_of_two_nodes_are_refused(prefix: str, text: str, tmp_path: Path) -> None:
    ends = (each(prefix.format(node))(TEXTS[text]) for node in (1, 2))
    assert code("".join(ends), tmp_path) == 2


TWICE = {
    "-q": (query("Yes"), query("No").replace("GPU-", "GPU-9")),
    "XML": (xml("Yes"), xml("No").replace("GPU-", "GPU-9")),
    "nvlink": (links("<inactive>"), links("26.562 GB/s").replace("GPU-", "GPU-9")),
    "table": (table("0", "1"), table("0", "0")),
    "ibstat": (TEXTS["ibstat, polling"], TEXTS["ibstat, clean"].replace("0xb8", "0xb9")),
    "CSV": (TEXTS["CSV, remap failed"], TEXTS["CSV, remap failed"].replace("Yes", "No")),
}


@pytest.mark.parametrize("kind", TWICE)
@pytest.mark.parametrize("between", ["", "\n", "root@gpu-b22:~# collect.sh\n"])
def test_the_output_of_two_nodes_is_never_merged(kind: str, between: str, tmp_path: Path) -> None:
    bad, good = TWICE[kind]
    assert code(good, tmp_path) == 0
    assert code(f"{bad}{between}{good}", tmp_path) != 0
    assert code(f"{good}{between}{bad}", tmp_path) != 0


@pytest.mark.parametrize(
    "kind", ["-q, clean", "XML, clean", "table, clean", "ibstat, clean", "nvlink, clean"]
)
def test_one_node_twice_is_judged(kind: str, tmp_path: Path) -> None:
    assert code(f"{TEXTS[kind]}\n{TEXTS[kind]}", tmp_path) == 0


def test_two_logs_in_one_text_are_both_judged(tmp_path: Path) -> None:
    lost, quiet = TEXTS["dmesg, lost"], log("[Thu Mar  6 10:{0:02d}:{1:02d} 2025] {2}")
    head = "# dmesg -T\n"
    assert code(f"{head}{lost}{TEXTS['table, clean']}{head}{quiet}", tmp_path) != 0


UNREAD = {  # a fault that the reader of the text does not ask for
    "a fan": TEXTS["table, clean"].replace("| N/A   31C", "| ERR!  31C"),
    "power": TEXTS["table, clean"].replace("71W /  700W", "ERR! / 700W"),
    "a link": f"{TEXTS['-q, clean']}\tLink 3: <inactive>\n",
    "a state": TEXTS["-q, clean"].replace("34 C\n", "34 C\n    Fan Speed : Unknown Error\n", 1),
    "a table in a log": f"{TEXTS['dmesg, clean']}| memory diagnostics   | Fail - GPU 3 |\n",
    "CSV without names": "0, NVIDIA H100 80GB HBM3, 00000000:18:00.0, No, No, 0\n",
}  # fmt: skip


@pytest.mark.parametrize("what", UNREAD)
def test_a_fault_that_nothing_reads_is_no_pass(what: str, tmp_path: Path) -> None:
    assert code(UNREAD[what], tmp_path) == 3
