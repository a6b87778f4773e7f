"""What may be asked of a burn-in, and what is refused before anything is touched."""

from __future__ import annotations

import sys
import tomllib
import types
from pathlib import Path

import pytest
from paths import ROOT, TESTS
from program import Call

from gpuscan.burnin.request import BurnInOptions, parse_options
from gpuscan.errors import UsageError


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's binding is installed: that it can be found is enough."""
    cuda = types.ModuleType("cuda")
    cuda.__path__ = [str(TESTS / "fake_cuda" / "binding" / "cuda")]
    monkeypatch.setitem(sys.modules, "cuda", cuda)


@pytest.mark.usefixtures("binding")
def test_what_is_asked_comes_out_in_seconds() -> None:
    assert parse_options("passive", "", "", force=False) == BurnInOptions()
    asked = parse_options("long", "24h", "soak.json", force=True)
    assert asked == BurnInOptions("long", 86400.0, "soak.json", force=True)


@pytest.mark.usefixtures("binding")
@pytest.mark.parametrize(
    ("level", "duration", "checkpoint", "force", "message"),
    [
        ("quik", "", "", False, "did you mean quick?"),
        ("passive", "3h", "", False, "--duration needs a burn-in: add --level long"),
        ("passive", "", "x", False, "--checkpoint needs a burn-in: add --level"),
        ("passive", "", "", True, "--force needs a burn-in: add --level"),
        ("long", "24", "", False, "with its unit"),
        ("long", "0h", "", False, "with its unit"),
        ("long", "soon", "", False, "write a duration"),
        ("quick", "3h", "", False, "--duration needs --level long"),
    ],
)
def test_contradictions_are_refused(
    level: str, duration: str, checkpoint: str, force: bool, message: str
) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        parse_options(level, duration, checkpoint, force=force)


def test_a_busy_node_is_not_loaded() -> None:
    with pytest.raises(UsageError, match="drain the node"):
        parse_options("quick", "", "", force=False, busy=True)


def test_without_the_binding_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (wanted,) = project["optional-dependencies"]["burnin"]
    with pytest.raises(UsageError) as refused:
        parse_options("quick", "", "", force=False)
    assert f"pip install '{wanted}'" in str(refused.value)


@pytest.mark.usefixtures("binding")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--level", "long", "--duration", ""), "--duration"),
        (("--level", "quick", "--replay", "demo"), "--level"),
        (("--duration", "3h", "--replay", "demo"), "--duration"),
        (("--checkpoint", "x", "--replay", "demo"), "--checkpoint"),
        (("--force", "--replay", "demo"), "--force"),
        (("--level", "quick", "--only", "pcie"), "every burn-in check"),
        (("--level", "quick", "--skip", "burnin"), "every burn-in check"),
    ],
)
def test_the_command_line_refuses_what_has_no_effect(
    call: Call, words: tuple[str, ...], message: str
) -> None:
    done = call("run", "--no-history", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.usefixtures("binding")
@pytest.mark.parametrize("option", ["--report", "--record", "--output"])
def test_a_checkpoint_shares_its_file_with_no_output(
    call: Call, tmp_path: Path, option: str
) -> None:
    file = tmp_path / "x.json"
    value = f"json={file}" if option == "--report" else f"{tmp_path}/./x.json"
    words = ("--level", "quick", "--checkpoint", str(file), option, value)
    done = call("run", "--no-history", *words)
    assert (done.code, done.out) == (2, "")
    assert str(tmp_path) in done.err
    assert not list(tmp_path.glob("x.json*"))
