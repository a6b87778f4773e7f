"""Every error message of the program, with a situation that causes it.

`errors.yaml` is the table: how the program is called, in a folder with which files, what it then
says on standard error, and its exit code. `GPUSCAN_WRITE_GOLDEN=1 pytest tests/errors` writes the
messages and codes anew.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from nodes_recordings import base
from paths import ROOT
from program import Call

from gpuscan.importers.load import open_recording
from gpuscan.recording import save

TABLE = Path(__file__).parent / "errors.yaml"
SITUATIONS: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text("utf-8"))
RAISED = {
    "GpuscanError",
    "UsageError",
    "ProfileError",
    "RecordingError",
    "StateError",
    "Damaged",
    "Newer",
}
LEAST_TEXT = 6  # letters: a message with fewer of its own passes another one's on
# what no command line alone can cause: the file and the beginning of the message, and why
ELSEWHERE = {
    ("burnin/checkpoint.py", ""): "needs a GPU under load: tests/burnin",
    ("burnin/exercise.py", ""): "needs NVIDIA's binding of the CUDA driver: tests/burnin",
    ("burnin/worker/", ""): "between the scheduler and its workers, never shown to users",
    ("cli/output.py", "{}: cannot be written: {}"): "depends on the user: tests/cli",
    ("cli/output.py", "standard output"): "needs a full disk: tests/cli/test_surroundings.py",
    ("cli/profile.py", "interrupted"): "needs a signal during a scan: tests/live",
    ("engine/proving.py", "--part {}: "): "needs a machine with GPUs: tests/burnin",
    ("engine/suite.py", "no checks in"): "needs an installation without checks",
    ("files.py", "{}: cannot be written: "): "the folder must vanish during the run",
    ("importers/firmware.py", "{}: larger than"): "needs a file of many MiB",
    ("importers/reading.py", "{}: {}: copy or record"): "needs a damaged gzip: tests/importers",
    ("importers/unpacking.py", "{}: more than"): "needs a hostile archive: tests/importers",
    ("importers/unpacking.py", "{}: its member"): "needs a hostile archive: tests/importers",
    ("live/logfile.py", "{}: grep failed"): "needs a grep that fails: tests/cli/test_log.py",
    ("model/select.py", "--gpus {}: names"): "needs two GPUs of one name: tests/profile",
    ("paths.py", "{}: others may write"): "depends on the user: tests/profile, tests/engine",
    ("paths.py", "{}: belongs to user"): "depends on the user: tests/profile, tests/engine",
    ("profile/capture.py", "there is no NVIDIA"): "needs a node without GPUs: tests/profile",
    ("profile/capture.py", "the {} differ"): "needs a node of unlike GPUs: tests/profile",
    ("profile/capture.py", "port {} was up"): "needs a node with InfiniBand: tests/profile",
    ("profile/names.py", "{}: {}: its profiles"): "depends on the user: tests/profile",
    ("recording/files.py", "{}: larger than"): "needs a file of many MiB: tests/recording",
    ("recording/files.py", "{}: damaged or cut"): "needs a damaged gzip: tests/recording",
    ("recording/packed.py", "{}: packed with zstd"): "depends on the Python: tests/importers",
    ("state/archive.py", "{}: written by a newer"): "needs a newer archive: tests/state",
    ("state/place.py", "{}: another gpuscan"): "needs another process: tests/state",
    ("state/place.py", "{}: damaged, and it"): "needs a read-only file system",
    ("state/place.py", "{}: others may write"): "needs a folder of all users: tests/state",
    ("state/archive.py", "{}: is not a regular"): "needs a pipe: tests/state",
    ("state/archive.py", "{}: a report in it"): "needs a damaged archive: tests/state",
    ("state/history.py", "--check {}: no such"): "needs an archive: tests/state",
    ("state/kept.py", "{}: is not a folder"): "needs a scan: tests/state",
    ("swap/compare.py", "nothing to compare"): "needs a scan: tests/swap",
    ("swap/compare.py", "{} and {} are of two"): "needs recordings with ids: tests/swap",
    ("swap/compare.py", "{}: contains no serial"): "needs a recording without ids: tests/swap",
    ("swap/expect.py", "{} {}: matches"): "needs two parts of one name: tests/swap",
    ("swap/worksheet.py", "{} {}: {} is at"): "needs two runs: tests/swap/test_renumbered.py",
    ("swap/worksheet.py", "{} {}: it is {}"): "needs two runs: tests/swap/test_renumbered.py",
    ("swap/session.py", "a swap is under way"): "needs a scan: tests/swap",
    ("swap/session.py", "swap {} was begun"): "needs two scans: tests/swap",
    ("swap/session.py", "swap begin: the scan"): "needs a signal during a scan: tests/swap",
    ("swap/session.py", "swap needs"): "no command can do without the state",
    ("swap/session.py", "{}: "): "depends on the user: tests/swap",
    ("tickets/evidence.py", "--collect-on-fail {}: this user"): "depends on the user",
    ("tickets/evidence.py", "{}: cannot keep"): "the folder must vanish during the run",
    ("tickets/load.py", "{}: larger than"): "needs a file of many MiB",
    ("tickets/parts.py", "--gpu {}: matches"): "needs two parts of one name: tests/tickets",
}
# typer refuses such values before the code that would
UNREACHABLE = {
    ("engine/judging.py", "--context {}: a node"),
    ("cli/inventory.py", "unknown format"),
}


class Template(NamedTuple):
    """One message that the package can raise; `{}` stands for what it is told at run time."""

    file: str
    line: int
    text: str

    def is_in(self, said: str) -> bool:
        """Whether the parts of the text stand in *said* in their order; a pattern with a wildcard
        for each gap would take hours to find that they do not.
        """
        place = 0
        for part in re.sub(r"\s+", " ", self.text).strip().split("{}"):
            place = said.find(part, place)
            if place < 0:
                return False
            place += len(part)
        return True


def text_of(node: ast.expr) -> str:
    """Return an expression's literal text, `{}` for all that is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return "{}"


@cache
def templates() -> tuple[Template, ...]:
    """Return every message of an error that ends a command."""
    found = []
    for path in sorted((ROOT / "gpuscan").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            if isinstance(node.exc.func, ast.Name) and node.exc.func.id in RAISED:
                text = text_of(node.exc.args[0]) if node.exc.args else ""
                file = str(path.relative_to(ROOT / "gpuscan"))
                found.append(Template(file, node.lineno, text))
    return tuple(found)


def happens_elsewhere(template: Template) -> bool:
    return any(
        template.file.startswith(file) and template.text.startswith(text)
        for file, text in (*ELSEWHERE, *UNREACHABLE)
    )


def prepare(folder: Path, files: dict[str, Any]) -> None:
    """Make the files of a situation: a text (repeated), a folder (null), or a recording."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.write_bytes(content.encode("latin-1"))
        elif "repeat" in content:
            path.write_text(content["repeat"] * content["times"], "utf-8")
        else:
            name = content["recording"]
            recording = open_recording(name) if name == "demo" else base(name)
            recording.meta = recording.meta._replace(**content.get("meta", {}))
            save(recording, str(path))


@pytest.fixture
def cause(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Bring a situation about; return its exit code and standard error."""

    def run(situation: dict[str, Any]) -> tuple[int, str]:
        prepare(tmp_path, situation.get("files", {}))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GPUSCAN_STATE_DIR", str(tmp_path / "state"))
        for name, value in situation.get("env", {}).items():
            monkeypatch.setenv(name, value)
        if "first" in situation:
            call(*shlex.split(situation["first"]))
        ended = call(*shlex.split(situation["run"]))
        err = ended.err.replace(str(tmp_path), "FOLDER").replace(str(ROOT), "SOURCE")
        return ended.code, err

    return run


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one["situation"])
def test_a_mistake_gets_its_message(situation: dict[str, Any], cause: Any) -> None:
    code, err = cause(situation)
    if os.environ.get("GPUSCAN_WRITE_GOLDEN"):
        situation |= {"code": code, "stderr": err}
        text = yaml.safe_dump(SITUATIONS, sort_keys=False, allow_unicode=True, width=100)
        TABLE.write_text(text, "utf-8")
    assert "Traceback" not in err
    assert (code, err) == (situation["code"], situation["stderr"])


def test_every_message_has_a_situation() -> None:
    said = " ".join(" ".join(one["stderr"].replace("gpuscan: ", "").split()) for one in SITUATIONS)
    missing = [
        f"gpuscan/{one.file}:{one.line}: {one.text}"
        for one in templates()
        if len(re.sub("[^A-Za-z]", "", one.text)) >= LEAST_TEXT
        and not happens_elsewhere(one)
        and not one.is_in(said)
    ]
    told = "\n".join(missing)
    assert not missing, f"add a situation to tests/errors/errors.yaml for:\n{told}"


def test_the_messages_elsewhere_exist() -> None:
    unused = [
        key
        for key in ELSEWHERE
        if not any(
            one.file.startswith(key[0]) and one.text.startswith(key[1]) for one in templates()
        )
    ]
    assert unused == []


def test_no_message_is_without_words() -> None:
    assert [one for one in SITUATIONS if not one["stderr"].strip()] == []
