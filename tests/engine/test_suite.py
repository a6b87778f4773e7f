"""Loading, selecting and calling check modules; every mistake in one is told with its file and
line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from building import HEAD, checks_of, demo_node, judged, module, the, was_read

from gpuscan.engine import suite
from gpuscan.errors import UsageError
from gpuscan.files import bundled
from gpuscan.model.outcome import Action, Status

GOOD = '''
@check(action=Action.REBOOT)
def test_a(node: Node) -> None:
    """The first is right."""


@check(action=Action.REBOOT, needs="area.a", aliases=("area.old", "past.name"))
def test_b(gpu: Gpu, profile: Profile) -> None:
    """The second is right.

    Because it must be.
    """
'''
BY_ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root refuses what others may write"
)


def test_ids_titles_and_subjects_come_from_file_and_function(tmp_path: Path) -> None:
    first, second = checks_of(tmp_path / "c", GOOD)
    assert (first.id, first.title, first.subject, first.wants_profile) == (
        "area.a",
        "The first is right.",
        "node",
        False,
    )
    assert (second.id, second.title, second.subject, second.wants_profile) == (
        "area.b",
        "The second is right.",
        "gpu",
        True,
    )
    assert second.text.endswith("Because it must be.")
    assert (second.area, second.mark.needs, second.mark.urgency) == ("area", ("area.a",), "now")
    assert second.file.endswith("test_area.py")


def test_the_bundled_checks_load() -> None:
    checks = suite.load([bundled("checks")])
    ids = [one.id for one in checks]
    assert len(ids) == len(set(ids)) > 10
    assert all(ids.index(need) < ids.index(one.id) for one in checks for need in one.mark.needs)


MISTAKES = {
    "syntax": ("def test_x(node:\n", 2, "SyntaxError"),
    "import": (
        "\nimport no_such_module_anywhere\n",
        3,
        "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    ),
    "from gpuscan": ("from gpuscan import Nodes\n", 2, "Nodes"),
    "raises": ("x = 1\ny = 1 / 0\n", 3, "ZeroDivisionError: division by zero"),
    "raises in a library": ("import json\nx = json.loads('{')\n", 3, "JSONDecodeError"),
    "coding": ("\n", None, "SyntaxError"),
    "exits": ("import sys\nsys.exit(0)\n", 3, "SystemExit: 0"),
    "null byte": ("x = '\0'\n", None, "null bytes"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_module_that_cannot_be_loaded_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    text, line, words = MISTAKES[name]
    path = tmp_path / "test_x.py"
    path.write_text("# coding: nonsense\n" if name == "coding" else HEAD + text, "utf-8")
    with pytest.raises(UsageError) as told:
        suite.load([str(tmp_path)])
    assert words in str(told.value)
    assert "check module cannot be loaded" in str(told.value)
    assert str(told.value).startswith(f"{path}:{line or 1}: ")


def test_a_syntax_error_in_what_a_module_imports_is_told_at_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_helper_xyz.py").write_text("\n\n\n\n\n\n(\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "test_x.py").write_text("\nimport broken_helper_xyz\n", "utf-8")
    with pytest.raises(
        UsageError, match=r"test_x\.py:2: check module cannot be loaded: SyntaxError"
    ):
        suite.load([str(folder)])


UNFIT = {
    "empty": ("x = 1", "holds no check"),
    "a class": ("class TestX:\n    def test_a(self): pass", "holds no check"),
    "no mark": ('def test_x(node):\n    """True."""', r"test_x lacks @check\(action"),
    "action by its word": (
        '@check(action="replace")\ndef test_x(node):\n    """True."""',
        r"test_x: @check\(action='replace'\): write it as Action\.REPLACE",
    ),
    "no action": (
        '@check(action=None)\ndef test_x(node):\n    """True."""',
        r"test_x: @check\(action=None\): write it as Action\.REPLACE",
    ),
    "no docstring": (
        "@check(action=Action.REBOOT)\ndef test_x(node): pass",
        "test_x lacks a docstring",
    ),
    "blank docstring": (
        '@check(action=Action.REBOOT)\ndef test_x(node):\n    """  """',
        "test_x lacks a docstring",
    ),
    "unknown subject": (
        '@check(action=Action.REBOOT)\ndef test_x(gup):\n    """True."""',
        r"test_x\(gup\): wants one subject \(node",
    ),
    "no subject": (
        '@check(action=Action.REBOOT)\ndef test_x():\n    """True."""',
        r"test_x\(\): wants one subject",
    ),
    "profile alone": (
        '@check(action=Action.REBOOT)\ndef test_x(profile):\n    """True."""',
        "wants one subject",
    ),
    "profile first": (
        '@check(action=Action.REBOOT)\ndef test_x(profile, gpu):\n    """True."""',
        "then profile",
    ),
    "two subjects": (
        '@check(action=Action.REBOOT)\ndef test_x(node, gpu):\n    """True."""',
        r"test_x\(node, gpu\)",
    ),
    "by name only": (
        '@check(action=Action.REBOOT)\ndef test_x(gpu, *, profile):\n    """True."""',
        r"gpu, \*profile",
    ),
    "any number": (
        '@check(action=Action.REBOOT)\ndef test_x(gpu, *more):\n    """True."""',
        r"gpu, \*more",
    ),
    "any name": (
        '@check(action=Action.REBOOT)\ndef test_x(gpu, **more):\n    """True."""',
        r"gpu, \*more",
    ),
    "kinds of nothing": (
        '@check(action=Action.REBOOT, kinds=("gpus",))\ndef test_x(change):\n    """True."""',
        r"test_x\(change\): kinds=\('gpus',\): those of a change are gpu, nic",
    ),
    "kinds of a GPU": (
        '@check(action=Action.REBOOT, kinds=("gpu",))\ndef test_x(gpu):\n    """True."""',
        "those of a gpu are none",
    ),
    "async": (
        '@check(action=Action.REBOOT)\nasync def test_x(gpu):\n    """True."""',
        "async or yields",
    ),
    "yields": (
        '@check(action=Action.REBOOT)\ndef test_x(gpu):\n    """True."""\n    yield',
        "async or yields",
    ),
    "partial": ("from functools import partial\ntest_x = partial(print)", "no plain function"),
    "twice": (
        '@check(action=Action.REBOOT)\ndef test_x(node):\n    """True."""\ntest_y = test_x',
        r"check id area\.x is taken by .*test_area\.py",
    ),
    "unknown need": (
        (
            '@check(action=Action.REBOOT)\ndef test_abc(node):\n    """True."""\n'
            '@check(action=Action.REBOOT, needs="area.abd")\ndef test_x(node):\n    """True."""'
        ),
        r"area\.x needs area\.abd, which is no check: did you mean area\.abc\?",
    ),
    "circle": (
        (
            '@check(action=Action.REBOOT, needs="area.b")\ndef test_a(node):\n    """True."""\n'
            '@check(action=Action.REBOOT, needs="area.a")\ndef test_b(node):\n    """True."""'
        ),
        r"circle: area\.a → area\.b → area\.a",
    ),
    "needs itself": (
        '@check(action=Action.REBOOT, needs="area.a")\ndef test_a(node):\n    """True."""',
        r"circle: area\.a → area\.a",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_module_that_holds_no_proper_check_is_refused(name: str, tmp_path: Path) -> None:
    text, words = UNFIT[name]
    (tmp_path / "test_area.py").write_text(HEAD + text + "\n", "utf-8")
    with pytest.raises(UsageError, match=words) as told:
        suite.load([str(tmp_path)])
    assert str(tmp_path / "test_area.py") in str(told.value)


def test_an_id_in_two_folders_is_refused_and_both_files_are_named(tmp_path: Path) -> None:
    one, two = module(tmp_path / "one", GOOD), module(tmp_path / "two", GOOD)
    with pytest.raises(UsageError) as told:
        suite.load([one, two])
    assert one in str(told.value)
    assert two in str(told.value)


def test_folders_without_modules_and_missing_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("x = 1\n", "utf-8")
    with pytest.raises(UsageError, match=r"no checks in .*: check modules are named test_\*\.py"):
        suite.load([str(tmp_path)])
    with pytest.raises(UsageError, match="No such file or directory: name a folder"):
        suite.load([str(tmp_path / "missing")])
    with pytest.raises(UsageError, match="Not a directory"):
        suite.load([str(tmp_path / "helper.py")])


PROGRAM = """
import os, sys
from gpuscan import collectors, profile
from gpuscan.engine import suite
from gpuscan.importers.load import open_recording
from gpuscan.engine.case import Case
from gpuscan.engine.stages import judge
checks = suite.load([sys.argv[1]])
report = judge(Case(collectors.node(open_recording("demo")), profile.load("default"), checks))
print(*[f"{r.check}={r.status.value}" for r in report.results], sorted(os.listdir(sys.argv[1])))
"""


def test_asserts_live_under_minus_o_and_nothing_is_written(tmp_path: Path) -> None:
    folder = module(
        tmp_path / "c",
        '@check(action=Action.REBOOT)\ndef test_x(node):\n    """True."""\n    assert 1 == 2\n',
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [sys.executable, "-O", "-c", PROGRAM, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "area.x=fail ['test_area.py']\n"


def test_a_module_knows_its_name_and_file(tmp_path: Path) -> None:
    text = (
        '@check(action=Action.REBOOT)\ndef test_x(node):\n    """True."""\n    fail(f"{__name__}'
        ' {__file__}")\n'
    )
    result = the(judged(checks_of(tmp_path / "c", text), demo_node()), "area.x")
    assert result.findings[0].message == f"test_area {tmp_path / 'c' / 'test_area.py'}"


def test_modules_do_not_enter_sys_modules(tmp_path: Path) -> None:
    before = set(sys.modules)
    checks_of(tmp_path / "c", GOOD)
    assert not {name for name in set(sys.modules) - before if "area" in name}


@BY_ROOT_ONLY
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_file_that_others_may_write_is_refused_with_its_chmod(tmp_path: Path, mode: int) -> None:
    folder = module(tmp_path / "c", GOOD)
    path = tmp_path / "c" / "test_area.py"
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"chmod go-w {path}$"):
        suite.load([folder])
    path.chmod(0o644)
    assert suite.load([folder])


@BY_ROOT_ONLY
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = module(tmp_path / "c", GOOD)
    (tmp_path / "c").chmod(0o777)
    with pytest.raises(UsageError, match=f"chmod go-w {folder}$"):
        suite.load([folder])
    (tmp_path / "c").chmod(0o1777)
    assert suite.load([folder]), "with the sticky bit nobody else can change the file"
    os.chown(tmp_path / "c" / "test_area.py", 12345, 0)
    with pytest.raises(UsageError, match="chown root"):
        suite.load([folder])
    (tmp_path / "c").chmod(0o755)
    with pytest.raises(UsageError, match="chown root"):
        suite.load([folder])


@BY_ROOT_ONLY
def test_a_link_into_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    module(tmp_path / "open", GOOD)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "test_area.py").symlink_to(tmp_path / "open" / "test_area.py")
    with pytest.raises(UsageError, match=f"chmod go-w {tmp_path / 'open'}$"):
        suite.load([str(tmp_path / "c")])


SELECTABLE = (
    GOOD
    + '''
@check(action=Action.REBOOT)
def test_other(node: Node) -> None:
    """The third is right."""
'''
)


@pytest.mark.parametrize(
    ("only", "ids"),
    [
        ([], {"area.a", "area.b", "area.other"}),
        (["area"], {"area.a", "area.b", "area.other"}),
        (["area.a"], {"area.a"}),
        (["area.?"], {"area.a", "area.b"}),
        (["*.o*"], {"area.other", "area.b"}),  # area.b was called area.old
        (["past.name"], {"area.b"}),
        (["area.a", "area.b"], {"area.a", "area.b"}),
    ],
)
def test_selectors(only: list[str], ids: set[str], tmp_path: Path) -> None:
    selected, skipped = suite.select(checks_of(tmp_path / "c", SELECTABLE), only, [])
    assert ({one.id for one in selected}, skipped) == (ids, frozenset())


def test_skipping(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", SELECTABLE)
    selected, skipped = suite.select(checks, [], ["area.?"])
    assert selected == checks
    assert skipped == {"area.a", "area.b"}
    for skip in ("area", "area.a"):
        with pytest.raises(UsageError, match="no check is left"):
            suite.select(checks, ["area.a"], [skip])


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("area.ohter", "did you mean area.other"),
        ("aera", "did you mean area"),
        ("", "gpuscan checks list shows all 3; areas: area"),
    ],
)
def test_a_selector_without_a_match_names_its_neighbours(
    selector: str, hint: str, tmp_path: Path
) -> None:
    checks = checks_of(tmp_path / "c", SELECTABLE)
    for only, skip in (([selector], []), ([], [selector])):
        with pytest.raises(UsageError, match=hint):
            suite.select(checks, only, skip)


def test_needs_order_the_checks_whatever_the_order_of_files(tmp_path: Path) -> None:
    module(
        tmp_path / "c",
        '@check(action=Action.REBOOT, needs="zz.root")\ndef test_x(node):\n    """True."""\n',
        "test_aa.py",
    )
    module(
        tmp_path / "c",
        '@check(action=Action.REBOOT)\ndef test_root(node):\n    """True."""\n',
        "test_zz.py",
    )
    assert [one.id for one in suite.load([str(tmp_path / "c")])] == ["zz.root", "aa.x"]


CALLS = '''
@check(action=Action.REBOOT, source="the book", urgency="next-idle", impact="capacity")
def test_bare(node):
    """The sun shines."""
    assert 1 == 2

@check(action=Action.REBOOT)
def test_message(node):
    """The sun shines."""
    assert 1 == 2, "it rains"

@check(action=Action.MONITOR)
def test_soft(node):
    """The sun shines."""
    assert 1 == 2

@check(action=Action.REBOOT)
def test_says_two(node):
    """The sun shines."""
    fail("first", action=Action.REPLACE, culprits=[node.gpus[0], "PSU1"], observed=1, expected=2)
    warn("second", impact="none")

@check(action=Action.REBOOT)
def test_warn_only_action(node):
    """The sun shines."""
    fail("no", action=Action.MONITOR)

@check(action=Action.REBOOT)
def test_crash(node):
    """The sun shines."""
    return node.no_such_fact

@check(action=Action.REBOOT)
def test_returns(node):
    """The sun shines."""
    return node.driver.access != "ok"

@check(action=Action.REBOOT)
def test_exits(node):
    """The sun shines."""
    raise SystemExit(0)

@check(action=Action.REBOOT)
def test_fails_then_crashes(node):
    """The sun shines."""
    fail("found before the crash")
    1 / 0

@check(action=Action.REBOOT)
def test_unknown_detail(node):
    """The sun shines."""
    fail("no", colour="red")

@check(action=Action.REBOOT)
def test_compares_records(node):
    """The sun shines."""
    assert node.gpus[0] == node.gpus[1]
'''


def test_what_a_check_can_say(tmp_path: Path) -> None:
    report = judged(checks_of(tmp_path / "c", CALLS), demo_node())
    bare = the(report, "area.bare")
    (finding,) = bare.findings
    assert (bare.status, finding.message, finding.action) == (
        Status.FAIL,
        "Not so: The sun shines.",
        Action.REBOOT,
    )
    assert (finding.source, finding.urgency, finding.impact) == (
        "the book",
        "next-idle",
        "capacity",
    )
    assert the(report, "area.message").findings[0].message == "it rains"
    soft = the(report, "area.soft")
    assert (soft.status, soft.findings[0].action, soft.findings[0].severity) == (
        Status.WARN,
        Action.MONITOR,
        Status.WARN,
    )
    first, second = the(report, "area.says_two").findings
    assert (first.action, first.observed, first.expected) == (Action.REPLACE, 1, 2)
    assert first.culprits == (was_read(demo_node().gpus)[0].label, "PSU1")
    assert (second.severity, second.action, second.impact) == (Status.WARN, Action.REBOOT, "none")


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("warn_only_action", "ValueError: a failure cannot ask for 'monitor': use warn()"),
        ("crash", "AttributeError"),
        ("returns", "TypeError: the check returned False"),
        ("exits", "SystemExit: 0"),
        ("unknown_detail", "TypeError"),
        ("compares_records", "TypeError: gpus["),
    ],
)
def test_a_check_that_crashes_is_unknown_with_its_traceback(
    check: str, words: str, tmp_path: Path
) -> None:
    result = the(judged(checks_of(tmp_path / "c", CALLS), demo_node()), f"area.{check}")
    assert result.status is Status.UNKNOWN
    assert result.findings == ()
    assert words in result.traceback
    assert "test_area.py" in result.traceback
    assert result.reason.startswith("garbled: node (the check itself crashed: ")


def test_what_was_proven_before_a_crash_stays_a_failure(tmp_path: Path) -> None:
    result = the(judged(checks_of(tmp_path / "c", CALLS), demo_node()), "area.fails_then_crashes")
    assert (result.status, result.findings[0].message) == (Status.FAIL, "found before the crash")
    crashed = the(judged(checks_of(tmp_path / "c", CALLS), demo_node()), "area.exits")
    assert crashed.reason == "garbled: node (the check itself crashed: SystemExit: 0)", (
        "the last line of the traceback"
    )
    assert "ZeroDivisionError" in result.traceback


def test_fail_and_warn_speak_only_within_a_check() -> None:
    with pytest.raises(LookupError):
        suite.fail("nobody listens")
    with pytest.raises(LookupError):
        suite.warn("nobody listens")
