"""No variable of the environment makes a broken node pass, or runs something else."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import program
import pytest

READ = re.compile(
    r"""(?:environ(?:\.get|\.pop|\.setdefault)?|getenv)\(?[\[(]?\s*f?["'](\w+)["']|"(_?[A-Z]{3,}_[A-Z_]+)"\s+in\s+os\.environ"""
)
LIBRARIES = ("gpuscan", "typer", "rich", "pytest", "_pytest")
# what the interpreter and the C library react to, and what `completion` reads by a computed name
MORE = [
    "_GPUSCAN_COMPLETE",
    "_TYPER_COMPLETE",
    "GPUSCAN_COMPLETE",
    "COMPLETE",
    "GPUSCAN_PROFILE",
    "GPUSCAN_FORMAT",
    "LANG",
    "LC_ALL",
    "LANGUAGE",
    "LC_CTYPE",
    "TZ",
    "HOME",
    "PATH",
    "TMPDIR",
    "XDG_STATE_HOME",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
    "COV_CORE_SOURCE",
    "COLUMNS",
    "LINES",
    "TERM",
    "CI",
    "MALLOC_CHECK_",
    "BASH_ENV",
    "ENV",
    "IFS",
    "SHELLOPTS",
]
# what makes Python run, or be, another program: no program can undo that (the docs say so)
ANOTHER_PROGRAM = {"PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONSTARTUP"}
VALUES = (
    "", "0", "1", "source_bash", "complete_zsh", "error", "-k none --exitfirst", "/nonexistent",
    "10000000", "dumb", "C",
)  # fmt: skip
COMMANDS = {
    "judge": ["judge", "demo-broken", "-q"],
    "run": ["run", "--replay", "demo-broken", "-q"],
    "diff": ["diff", "demo", "demo-broken", "-q"],
    "checked": ["judge", "demo-broken", "-q", "--format", "junit"],
}
OWN_FAILURE = {1, 2, 3}  # refused by Python or by us: never a pass


def sources() -> Iterator[str]:
    for library in LIBRARIES:
        found = find_spec(library)
        assert found is not None
        for folder in found.submodule_search_locations or ():
            yield from (path.read_text("utf-8") for path in Path(folder).rglob("*.py"))


def variables() -> list[str]:
    """Return every variable that the libraries read, that Python documents, and some more."""
    found = {name for text in sources() for hit in READ.findall(text) for name in hit if name}
    told = subprocess.run(
        [sys.executable, "--help-env"], capture_output=True, text=True, check=True
    ).stdout
    found |= set(re.findall(r"^(PYTHON[A-Z]+)", told, re.MULTILINE))
    return sorted((found | set(MORE)) - ANOTHER_PROGRAM)


VARIABLES = variables()


def test_the_variables_are_found() -> None:
    assert {"FORCE_COLOR", "_TYPER_COMPLETE_ARGS", "GPUSCAN_STATE_DIR", "PYTHONOPTIMIZE"} <= {
        *VARIABLES
    }
    assert len(VARIABLES) > 60


@pytest.mark.system
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("command", COMMANDS)
def test_all_variables_at_once(command: str, value: str) -> None:
    ended = program.start(COMMANDS[command], dict.fromkeys(VARIABLES, value))
    assert ended.code in {41, *OWN_FAILURE}, ended


@pytest.mark.system
@pytest.mark.parametrize("name", VARIABLES)
def test_one_variable_at_a_time(name: str) -> None:
    """A value that breaks Python itself ends in its error, and a configuration that is not there
    in ours; everything else changes nothing.
    """
    for value in ("source_bash", "1"):
        ended = program.start(COMMANDS["judge"], {name: value})
        strict = not name.startswith(("PYTHON", "GPUSCAN_CONFIG"))
        assert ended.code == 41 or (not strict and ended.code in OWN_FAILURE), (name, value, ended)
        assert not strict or "hardware (41): replace gpu SXM7" in ended.out


@pytest.mark.system
@pytest.mark.parametrize("word", ["source_bash", "source_zsh", "complete_fish"])
@pytest.mark.parametrize("command", ["judge", "run", "diff", "log"])
def test_completion_never_answers_in_place_of_a_command(
    command: str, word: str, tmp_path: Path
) -> None:
    log = tmp_path / "kern.log"
    log.write_text("[    1.0] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n")
    words = COMMANDS.get(command, ["log", str(log), "-q"])
    plain = program.start(words)
    assert plain.code >= 20
    assert program.start(words, {"_GPUSCAN_COMPLETE": word})[:2] == plain[:2]
