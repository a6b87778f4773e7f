"""As root nothing runs, or judges, from a place that another user may change: whatever it is, and
whichever name on the way to it is not root's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Call

from gpuscan.burnin.tools.run import run as run_tool
from gpuscan.live.evidence import SCRIPT, bug_report

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root must beware of others"),
]
NOBODY = 65534
Arrange = Callable[[Path], Path]


def _file(path: Path, mode: int = 0o755, owner: int = 0) -> Path:
    """Make a file at *path* with this owner and mode; what it says is written later."""
    path.touch()
    os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def _folder(path: Path, mode: int = 0o755, owner: int = 0) -> Path:
    path.mkdir()
    os.chown(path, owner, owner)
    path.chmod(mode)
    return path


def _link(path: Path, target: Path, owner: int = 0) -> Path:
    path.symlink_to(target)
    os.lchown(path, owner, owner)
    return path


NAME = "test_own"  # as the file of a check must be called; others take any name
GOOD: dict[str, Arrange] = {
    "root's file": lambda at: _file(at / NAME),
    "in a sticky folder": lambda at: _file(_folder(at / "sticky", 0o1777) / NAME),
    "by root's link": lambda at: _link(at / NAME, _file(at / "real")),
}
BAD: dict[str, Arrange] = {
    "another's file": lambda at: _file(at / NAME, owner=NOBODY),
    "all may write": lambda at: _file(at / NAME, 0o777),
    "a group may write": lambda at: _file(at / NAME, 0o775),
    "another's file in a sticky folder": lambda at: _file(
        _folder(at / "sticky", 0o1777) / NAME, owner=NOBODY
    ),
    "in another's folder": lambda at: _file(_folder(at / "in", owner=NOBODY) / NAME),
    "in a folder all may write": lambda at: _file(_folder(at / "in", 0o777) / NAME),
    "in a folder a group may write": lambda at: _file(_folder(at / "in", 0o775) / NAME),
    "below another's folder": lambda at: _file(_folder(_folder(at / "up", owner=NOBODY) / "in") / NAME),
    "below a folder all may write": lambda at: _file(_folder(_folder(at / "up", 0o777) / "in") / NAME),
    "by another's link": lambda at: _link(at / NAME, _file(at / "real"), NOBODY),
    "by root's link to another's file": lambda at: _link(at / NAME, _file(at / "real", owner=NOBODY)),
    "by root's link into another's folder": lambda at: _link(
        at / NAME, _file(_folder(at / "in", owner=NOBODY) / "real")
    ),
    "by root's link to a folder below another's": lambda at: _link(
        at / "way", _file(_folder(_folder(at / "up", owner=NOBODY) / "in") / NAME).parent
    ) / NAME,
    "by another's link to a folder": lambda at: _link(
        at / "way", _file(_folder(at / "in") / NAME).parent, NOBODY
    ) / NAME,
}  # fmt: skip
CHECK = '''"""Of a site."""

from gpuscan import Action, Node, check


@check(action=Action.INVESTIGATE)
def test_own(node: Node) -> None:
    """There are GPUs."""
    assert node.gpus
'''


def _as(path: Path, name: str, text: str) -> Path:
    """Write a text into the arranged file, and give file and link the name that they need."""
    path.resolve().write_text(text)
    named = path.with_name(name)
    owner = os.lstat(path.parent)
    os.rename(path, named)
    os.chown(path.parent, owner.st_uid, owner.st_gid)
    return named


def _is_refused(said: str) -> bool:
    return "and gpuscan runs as root" in said


def try_check(path: Path, call: Call, _m: pytest.MonkeyPatch) -> bool:
    named = _as(path, f"{NAME}.py", CHECK)
    done = call("judge", "demo", "-q", "--checks", str(named.parent))
    assert done.code in (0, 2), done
    return done.code == 2 and _is_refused(done.err)


def try_profile(path: Path, call: Call, _m: pytest.MonkeyPatch) -> bool:
    named = _as(path, "own.yaml", "extends: h200-4x\n")
    done = call("judge", "demo", "-q", "--profile", str(named))
    assert done.code in (0, 2), done
    return done.code == 2 and _is_refused(done.err)


def try_parent(path: Path, call: Call, _m: pytest.MonkeyPatch) -> bool:
    """A profile that another one extends."""
    named = _as(path, "own.yaml", "extends: h200-4x\n")
    child = Path(os.environ["OWN_PLACE"]) / "child.yaml"
    child.write_text(f"extends: {named}\n")
    done = call("judge", "demo", "-q", "--profile", str(child))
    assert done.code in (0, 2), done
    return done.code == 2 and _is_refused(done.err)


def try_config(path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("GPUSCAN_CONFIG", str(_as(path, "config.yaml", "deadline: 60s\n")))
    done = call("judge", "demo", "-q")
    assert done.code in (0, 2), done
    return done.code == 2 and _is_refused(done.err)


def try_bug_report(path: Path, _call: Call, monkeypatch: pytest.MonkeyPatch) -> bool:
    named = _as(path, SCRIPT, '#!/bin/sh\necho was run > "$2"\n')
    monkeypatch.setenv("PATH", str(named.parent))
    folder = Path(os.environ["OWN_PLACE"]) / "evidence"
    folder.mkdir()
    row = bug_report(str(folder), 30)
    assert ("sha256" in row) == bool(os.listdir(folder)), row
    return "sha256" not in row and _is_refused(row["error"])


def try_tool(path: Path, _call: Call, monkeypatch: pytest.MonkeyPatch) -> bool:
    named = _as(path, "nvbandwidth", "#!/bin/sh\necho was run\n")
    monkeypatch.setenv("PATH", f"{named.parent}:/usr/bin:/bin")
    reading = run_tool("run:nvbandwidth -j", 30)
    if reading.error is None:
        assert reading.value["stdout"] == "was run\n"
        return False
    assert reading.error.kind == "no-permission"
    return _is_refused(reading.error.text)


KINDS = {
    "check": try_check,
    "profile": try_profile,
    "parent": try_parent,
    "config": try_config,
    "bug report": try_bug_report,
    "tool": try_tool,
}
ARRANGED = {**GOOD, **BAD}


@pytest.mark.parametrize("arrangement", ARRANGED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_another_may_change_is_refused(
    kind: str, arrangement: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, own = _folder(tmp_path / "place"), _folder(tmp_path / "own")
    monkeypatch.setenv("OWN_PLACE", str(own))
    path = ARRANGED[arrangement](place)
    refused = KINDS[kind](path, call, monkeypatch)
    assert refused == (arrangement in BAD)


STATES: dict[str, Arrange] = {
    "another's": lambda at: _folder(at / "state", owner=NOBODY),
    "all may write": lambda at: _folder(at / "state", 0o777),
    "a group may write": lambda at: _folder(at / "state", 0o775),
    "by another's link": lambda at: _link(at / "state", _folder(at / "real"), NOBODY),
}


@pytest.mark.parametrize("arrangement", STATES)
def test_root_keeps_no_state_where_another_may_change_it(
    arrangement: str, tmp_path: Path, call: Call
) -> None:
    state = STATES[arrangement](_folder(tmp_path / "place"))
    before = sorted(os.listdir(state))
    done = call("judge", "demo", "-q", "--state-dir", str(state))
    assert done.code != 0 or _is_refused(done.err), done
    assert sorted(os.listdir(state)) == before
    assert call("status", "--state-dir", str(state)).code >= 2


@pytest.mark.parametrize("arrangement", ["all may write", "a group may write", "by another's link"])
def test_root_writes_nothing_where_another_may_redirect_it(
    arrangement: str, tmp_path: Path, call: Call
) -> None:
    folder = STATES[arrangement](_folder(tmp_path / "place"))
    for words in (["--output", f"{folder}/a"], ["--report", f"json={folder}/a"]):
        done = call("judge", "demo", "-q", *words)
        assert (done.code, _is_refused(done.err)) == (2, True), done
    done = call("profile", "capture", "--from", "demo", "--output", f"{folder}/a.yaml")
    assert (done.code, _is_refused(done.err)) == (2, True), done
    assert os.listdir(folder) == []


def test_a_tool_is_not_looked_for_in_the_current_folder_and_finds_only_roots_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, own = _folder(tmp_path / "foreign", 0o777), _folder(tmp_path / "own")
    for name in ("nvbandwidth", "helper"):
        (foreign / name).write_text("#!/bin/sh\necho foreign\n")
        (foreign / name).chmod(0o755)
    monkeypatch.chdir(foreign)
    monkeypatch.setenv("PATH", f":.:{own}:/usr/bin:/bin")
    error = run_tool("run:nvbandwidth -j", 30).error
    assert error is not None
    assert error.kind == "not-found"
    (own / "nvbandwidth").write_text('#!/bin/sh\nhelper || echo "$PATH $LD_PRELOAD"\n')
    (own / "nvbandwidth").chmod(0o755)
    monkeypatch.setenv("PATH", f"{foreign / 'none'}:{own}:{foreign}:/usr/bin:/bin")
    monkeypatch.setenv("LD_PRELOAD", "")
    assert run_tool("run:nvbandwidth -j", 30).value["stdout"].strip() == f"{own}:/usr/bin:/bin"
