"""Finding things: every id that is printed is explained, help is everywhere, and the shell
completes what can be named.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Iterable

import pytest
import typer
from faults import FAULTS, faulty
from nodes_recordings import NAMES, base, judged
from program import Call, environment, program
from swap_stories import STORIES, told

from gpuscan import catalogue, profile
from gpuscan.cli import lookup, reference
from gpuscan.cli.app import MODULES, build_command_line
from gpuscan.cli.candidates import candidates
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.model.outcome import Action
from gpuscan.renderers import FORMATS, find

IDS = tuple(one.id for one in judging.all_checks())


def printed_ids(report: Report) -> set[str]:
    """Every id that a report prints: of checks, of actions, of the catalogue."""
    document = json.loads(find("json")([report], verbosity=0))
    ids = {row["id"] for row in document["checks"]}
    ids |= {row["check"] for row in document["findings"]}
    ids |= {row["action"] for row in document["findings"]} | {document["summary"]["action"]}
    ids |= {row["explained_by"]["check"] for row in document["checks"] if "explained_by" in row}
    # a number that no catalogue has is refused, with what gpuscan makes of such numbers
    entries = {one.entry for one in report.incidents if one.listed}
    return ids | entries


def unexplained(reports: Iterable[Report]) -> tuple[int, list[str]]:
    """How many different ids the reports print, and those that nothing explains."""
    ids = set().union(*map(printed_ids, reports))
    wrong = []
    for id_ in sorted(ids):
        try:
            assert lookup.explanations([id_], "text", "")
            assert json.loads(lookup.explanations([id_], "json", ""))
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{id_}: {error!r}")
    return len(ids), wrong


def test_every_id_of_a_sample_is_explained() -> None:
    reports = [faulty(name) for name in list(FAULTS)[::9]]
    reports += [judged(base(name), "") for name in list(NAMES)[::4]]
    reports += [told(name) for name in list(STORIES)[::4]]
    number, wrong = unexplained(reports)
    assert number > len(IDS)
    assert wrong == []


@pytest.mark.sweep
def test_every_id_that_is_printed_is_explained() -> None:
    reports = [faulty(name) for name in FAULTS]
    reports += [judged(base(name), "") for name in NAMES]
    reports += [told(name) for name in STORIES]
    number, wrong = unexplained(reports)
    assert number > len(IDS)
    assert wrong == []


@pytest.mark.parametrize("id_", [*reference.OTHERS, *reference.OTHER_ALIASES])
def test_results_that_are_no_check_s_are_shown_as_checks_are(id_: str, call: Call) -> None:
    for words in (("explain", id_), ("explain", "check", id_), ("checks", "show", id_)):
        done = call(*words)
        assert (done.code, done.err) == (0, "")
        assert "todo" in done.out


def test_every_code_and_line_is_found_by_what_is_printed_of_it() -> None:
    rows = catalogue.document("lines")["entries"]
    words = [
        f"{kind}:{one.code}" for kind in catalogue.WITH_CODE for one in catalogue.entries(kind)
    ]
    words += [row["id"] for row in rows]
    assert [word for word in words if not lookup.explanations([word], "text", "")] == []


SAME: dict[tuple[str, ...], list[tuple[str, ...]]] = {
    ("xid", "79"): [("79",), ("xid79",), ("Xid", "79"), ("XID-79",), ("xid:79",)],
    ("check", "memory.row_remap"): [("memory.row_remap",), ("MEMORY.ROW_REMAP",)],
    ("check", "nvlink"): [("nvlink",)],
    ("exit", "20"): [("exit", "20"), ("exit20",)],
    ("action", "replace"): [("replace",), ("Replace",)],
}


@pytest.mark.parametrize("words", SAME, ids=" ".join)
def test_ways_of_asking_for_one_thing(words: tuple[str, ...], call: Call) -> None:
    wanted = call("explain", *words)
    assert wanted.code == 0
    for other in SAME[words]:
        assert call("explain", *other) == wanted


def test_several_codes_are_explained_at_once(call: Call) -> None:
    parts = [call("explain", "xid", code).out for code in ("79", "80")]
    for words in (("xid", "79", "80"), ("xid", "79,80"), ("xid79", "xid80")):
        assert call("explain", *words).out == "\n".join(parts)
    done = call("explain", "xid", "79", "80", "--format", "json")
    assert [one["code"] for one in json.loads(done.out)] == [79, 80]


def test_a_number_is_all_that_it_may_be(call: Call) -> None:
    out = call("explain", "41").out
    assert "Replace the part" in out
    assert "Xid 41 " in out


def test_checks_are_listed_by_area_and_glob(call: Call) -> None:
    for words, wanted in (
        (("nvlink",), [id_ for id_ in IDS if id_.startswith("nvlink.")]),
        (("*.row_remap*",), [id_ for id_ in IDS if ".row_remap" in id_]),
        (("nvlink", "power"), [id_ for id_ in IDS if id_.startswith(("nvlink.", "power."))]),
    ):
        lines = call("checks", "list", *words).out.splitlines()[1:]
        assert [line.split()[0] for line in lines] == sorted(wanted)


WALL = 1000  # characters of a hint, which no list of all ids stays below


def test_no_mistake_prints_a_wall(call: Call) -> None:
    for words in (
        ("judge", "demo", "--skip", "foo"),
        ("explain", "check", "x"),
        ("checks", "show", "zz"),
        ("explain", "xid", "foo"),
        ("judge", "demo", "--set", "foo=1"),
        ("explain", "foo"),
    ):
        done = call(*words)
        assert (done.code, len(done.err) < WALL) == (2, True), done.err


COMMANDS = [name for name in MODULES if name not in ("complete-words", "help")]


def commands_of_commands() -> list[tuple[str, ...]]:
    whole = typer.main.get_command(build_command_line())
    words: list[tuple[str, ...]] = []
    for name in COMMANDS:
        nested = getattr(whole.commands[name], "commands", {})  # type: ignore[attr-defined]
        words += [(name,), *((name, one) for one in nested)]
    return words


@pytest.mark.parametrize("words", commands_of_commands(), ids=" ".join)
def test_help_is_everywhere(words: tuple[str, ...], call: Call) -> None:
    whole = call(*words, "--help")
    assert whole.code == 0
    assert call(*words, "-h") == whole
    assert call("help", *words) == whole
    at = typer.main.get_command(build_command_line())
    for word in words:
        at = at.commands[word]  # type: ignore[attr-defined]
    shown = [one for one in at.params if not getattr(one, "hidden", False)]
    flags = [one.opts[-1] for one in shown if one.param_type_name == "option"]
    assert set(flags) <= set(re.findall(r"--[a-z-]+", whole.out)), "no panel is left out"
    assert "<" not in whole.out.replace("<(", "")  # no metavar that is a type of Python's
    assert "..." not in whole.out.replace(",...", "").replace("...]", "").replace(
        "]...", ""
    ).replace("E...", "")


def test_the_first_help_shows_every_command_whole_and_where_to_start(call: Call) -> None:
    out = call("-h").out
    listed = [
        line.split()[0] for line in out.splitlines() if line[:2] == "  " and line[2:3].isalpha()
    ]
    assert set(MODULES) - {"complete-words"} <= set(listed)
    assert "complete-words" not in out
    assert "gpuscan run --replay demo " in out
    assert call("help").out == call("--help").out == out


def test_the_version_is_a_command_too(call: Call) -> None:
    assert call("version") == call("--version")


COMPLETED = {
    ("",): ["run", "judge", "explain", "swap"],
    ("ru",): ["run"],
    ("swap", ""): ["begin", "verify"],
    ("run", "--prof"): ["--profile"],
    ("run", "--profile", "h1"): [name for name in profile.list_profiles() if name[:2] == "h1"],
    ("run", "--profile=h1"): ["--profile=h100-8x"],
    ("judge", "x.json", "--profile", "H100-8"): ["h100-8x"],
    ("run", "--format", ""): list(FORMATS),
    ("run", "--level", "q"): ["quick"],
    ("run", "--only", "memory,nvl"): ["memory,nvlink", "memory,nvlink.links"],
    ("run", "--skip", "memory.row_remap"): ["memory.row_remap", "memory.row_remap_pending"],
    ("run", "--report", ""): [f"{name}=" for name in FORMATS],
    ("run", "--set", "gpu.c"): ["gpu.count=", "gpu.compute_mode="],
    ("run", "--tried", "re"): ["reset", "reboot", "reseat", "replace"],
    ("run", "--replay", ""): ["demo", "demo-broken"],
    ("swap", "begin", "--part", ""): ["gpu:", "nic:", "cable:", "disk:", "baseboard", "tray"],
    ("prove", "--part", ""): ["gpu:", "port:"],
    ("prove", "--part=p"): ["--part=port:"],
    ("diff", "a", "b", "--expect", "n"): ["nic:", "none"],
    ("explain", "x"): ["xid"],
    ("explain", "xid", "11"): ["110", "119"],
    ("explain", "exit", "4"): ["40", "41"],
    ("explain", "check", "histo"): ["history.hold"],
    ("explain", "rep"): ["replace"],
    ("checks", "show", "memory.row"): ["memory.row_remap"],
    ("profile", "show", "h200-"): ["h200-8x"],
    ("profile", "validate", "b200"): ["b200", "b200-8x"],
    ("schema", "p"): ["profile"],
    ("completion", ""): ["bash", "zsh", "fish"],
}


@pytest.mark.parametrize("words", COMPLETED, ids=" ".join)
def test_what_the_shell_is_offered(words: tuple[str, ...]) -> None:
    offered = candidates(words)
    assert set(COMPLETED[words]) <= set(offered)
    assert all("complete-words" not in one for one in offered)
    assert offered == sorted(set(offered))


def test_nothing_that_makes_no_sense_is_offered() -> None:
    for words in (
        ("run", "--profile", "zz"),
        ("run", "--since", ""),
        ("prove", "--part", "nic"),
        ("frob", "x"),
        ("explain", "99"),
    ):
        assert candidates(words) == []


@pytest.mark.system
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("gpuscan run --profile h100-8", ["h100-8x"]),
        ("gpuscan run --profile=h100-8", ["h100-8x"]),
        ("gpuscan swap begin --part gp", ["gpu:"]),
        ("gpuscan explain xid 11", ["11", "110", "111", "112", "113", "114", "115", "116", "117"]),
    ],
)
def test_bash_completes_with_the_script_that_is_printed(line: str, wanted: list[str]) -> None:
    start = " ".join(program())
    script = (
        f'gpuscan() {{ {start} "$@"; }}; source <(gpuscan completion bash); '
        f"COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=(gpuscan); COMP_CWORD=0; "
        'compopt() { :; }; _gpuscan; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.stdout.splitlines()[: len(wanted)] == wanted, done.stderr


@pytest.mark.system
def test_no_variable_makes_a_command_complete_instead(call: Call) -> None:
    words = [*program(), "judge", "demo-broken", "-q"]
    shells, kinds = ("bash", "zsh", "fish"), ("source", "complete")
    for shell, kind in itertools.product(shells, kinds):
        env = environment({"_GPUSCAN_COMPLETE": f"{kind}_{shell}"})
        done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
        assert (done.returncode, done.stdout[:8]) == (41, "hardware")


def test_actions_are_explained_one_and_all(call: Call) -> None:
    whole = call("explain", "action").out
    for action in Action:
        assert call("explain", "action", action.value).out in whole
