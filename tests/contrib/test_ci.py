"""The files of contrib/ci: linted by real linters, and their scripts run for each exit code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ci_jobs import CASES, FILES, STOP, SYSTEMS, job, run, table, words_for, workspace
from fake_nvml import Change
from machine import Machine, call
from paths import ROOT

pytestmark = pytest.mark.contrib

YAMLLINT = (
    "{extends: default, rules: {line-length: {max: 100}, truthy: {check-keys: false},"
    " comments: {min-spaces-from-content: 1}}}"
)
SCHEMAS = {
    "gitlab-ci.yml": "gitlab-ci",
    "github-actions.yml": "github-workflows",
    "azure-pipelines.yml": "azure-pipelines",
    "buildkite.yml": "buildkite",
}
KEPT = ("ctrf.json", "github.txt", "junit.xml", "report.json", "summary.md")


def lint(*words: str) -> None:
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_is_shellcheck_s_friend() -> None:
    lint("shellcheck", str(FILES / "gpuscan-ci.sh"))


@pytest.mark.parametrize("name", SYSTEMS)
def test_shellcheck_finds_nothing_in_the_jobs_either(name: str, tmp_path: Path) -> None:
    system = SYSTEMS[name]
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{system.script(system.read())}\n", "utf-8")
    lint("shellcheck", str(tmp_path / "job.sh"))


@pytest.mark.parametrize("file", SCHEMAS)
def test_the_yaml_holds_to_its_vendor_s_schema(file: str) -> None:
    lint("yamllint", "--strict", "-d", YAMLLINT, str(FILES / file))
    schema = f"vendor.{SCHEMAS[file]}"
    lint("check-jsonschema", "--builtin-schema", schema, str(FILES / file))


def test_github_s_workflow_satisfies_actionlint() -> None:
    own = 'label "gpu" is unknown'  # of the site's own runner
    lint("actionlint", "-ignore", own, str(FILES / "github-actions.yml"))


def test_buildkite_s_agent_reads_its_pipeline_and_leaves_the_script_its_dollars() -> None:
    if shutil.which("buildkite-agent") is None:
        pytest.skip("buildkite-agent is not installed")
    words = ["buildkite-agent", "pipeline", "upload", "--dry-run", "--format", "json"]
    done = subprocess.run(
        [*words, str(FILES / "buildkite.yml")],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"} | {"HOME": "/"},
        executable=shutil.which("buildkite-agent"),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (step,) = json.loads(done.stdout)["steps"]
    system = SYSTEMS["Buildkite"]
    assert step["command"] == system.script(system.read())


def test_the_jenkinsfile_is_groovy(tmp_path: Path) -> None:
    lint("npm-groovy-lint", "--failon", "error", "--files", "**/Jenkinsfile", str(FILES))


@pytest.mark.parametrize("code", CASES)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_job_ends_as_the_page_says(name: str, code: int, tmp_path: Path) -> None:
    if name == "Jenkins" and shutil.which("groovy") is None:
        pytest.skip("groovy is not installed")
    done = job(name, code, tmp_path)
    system = SYSTEMS[name]
    stated = table((ROOT / "docs" / "ci.md").read_text("utf-8"))
    assert system.outcome(system.read(), done) == stated[code][name], done.out
    reports = tmp_path / "gpuscan-reports"
    if code in (1, 2):
        assert not any((reports / file).exists() for file in KEPT)
        return
    assert json.loads((reports / "report.json").read_text("utf-8"))["summary"]["exit_code"] == code
    assert all((reports / file).stat().st_size for file in KEPT)
    assert (reports / "ticket.md").exists() is (code >= 20)
    assert (reports / "first").exists() is (code == 3), "only 3 is tried again"
    summary = (reports / "summary.md").read_text("utf-8")
    if name == "GitHub Actions":
        assert (tmp_path / "step-summary.md").read_text("utf-8") == summary
        shown = STOP.sub("", done.out).splitlines()
        assert shown == (reports / "github.txt").read_text("utf-8").splitlines()
    if name == "Azure Pipelines":
        assert f"##vso[task.uploadsummary]{reports}/summary.md\n" in done.out
    if name == "Buildkite":
        style = "success" if code == 0 else "error"
        annotated = (tmp_path / "annotated").read_text("utf-8")
        assert annotated == f"annotate --context gpuscan --style {style}\n{summary}"


def script(folder: Path, env: dict[str, str], *words: str) -> tuple[int, str]:
    done = run(folder, env, "bash", "ci/gpuscan-ci.sh", *words)
    return done.code, done.out


def test_no_report_of_the_job_before_is_left(tmp_path: Path) -> None:
    env = workspace(tmp_path)
    reports = tmp_path / "gpuscan-reports"
    assert script(tmp_path, env, "--replay", "demo-broken")[0] == 41
    (reports / "notes.txt").write_text("the site's own", "utf-8")
    gone = env | {"GPUSCAN": "/no/such/gpuscan"}
    assert script(tmp_path, gone, "--replay", "demo")[0] == 127
    assert [file.name for file in reports.iterdir()] == ["notes.txt"]


def test_a_hang_that_the_job_s_own_limit_ends_leaves_no_report(tmp_path: Path) -> None:
    env = workspace(tmp_path)
    assert script(tmp_path, env, "--replay", "demo")[0] == 0
    hung = tmp_path / "hung"
    hung.write_text("#!/bin/bash\nexec sleep infinity\n", "utf-8")
    hung.chmod(0o755)
    words = ("timeout", "--kill-after=5", "2", "bash", "ci/gpuscan-ci.sh", "--replay", "demo")
    assert run(tmp_path, env | {"GPUSCAN": str(hung)}, *words).code == 124
    assert list((tmp_path / "gpuscan-reports").iterdir()) == []


def test_the_second_try_of_an_incomplete_run_counts(tmp_path: Path) -> None:
    env = workspace(tmp_path)
    words = words_for(3, tmp_path)
    once = tmp_path / "bin" / "once"
    once.write_text(
        "#!/bin/bash\n"
        'if [ -e tried ] || [ "$1" != run ]; then exec gpuscan "${@/*node.json.gz/demo}"; fi\n'
        "touch tried\n"
        'exec gpuscan "$@"\n',
        "utf-8",
    )
    once.chmod(0o755)
    reports = tmp_path / "gpuscan-reports"
    reports.mkdir()
    (reports / "notes.txt").write_text("the site's own", "utf-8")
    code, out = script(tmp_path, env | {"GPUSCAN": str(once)}, *words.split())
    assert code == 0, out
    assert (reports / "notes.txt").exists()
    first = json.loads((tmp_path / "gpuscan-reports/first/report.json").read_text("utf-8"))
    assert first["summary"]["exit_code"] == 3


@pytest.mark.parametrize(("node", "code"), [("demo", 2), ("demo-broken", 41)])
def test_where_no_report_can_be_kept_the_exit_code_stands(
    node: str, code: int, tmp_path: Path
) -> None:
    env = workspace(tmp_path) | {"REPORTS": str(tmp_path / "file")}
    (tmp_path / "file").write_text("no folder", "utf-8")
    done, out = script(tmp_path, env, "--replay", node)
    assert done == code
    assert "/file cannot be written: no report is kept\n" in out
    assert "Verdict: " in out


def test_a_live_scan_keeps_its_recording(eight: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    eight.nvml({call("RemappedRows", eight.gpus()[3]): Change(value=[0, 8, 0, 1])})
    words = f"--profile h100-8x --root {eight.root}"
    env = eight.env() | workspace(folder) | {"GPUSCAN_ARGS": words}
    code, out = script(folder, env)
    assert code == 41, out
    reports = folder / "gpuscan-reports"
    kept = json.loads((reports / "report.json").read_text("utf-8"))
    again = run(folder, env, "gpuscan", "judge", str(reports / "recording.json.gz"), "-q")
    assert again.code == 41
    assert kept["summary"]["headline"].startswith("hardware (41): replace ")
    assert again.out.startswith(kept["summary"]["headline"][:60])
    assert (reports / "ticket.md").stat().st_size


def test_a_log_gives_neither_github_nor_azure_a_command(tmp_path: Path) -> None:
    line = "##vso[task.complete result=Succeeded;] ::set-env name=PATH::/tmp"
    stand_in = tmp_path / "hostile"
    stand_in.write_text(f"#!/bin/bash\necho '::error::x'\necho '{line}'\nexit 41\n", "utf-8")
    stand_in.chmod(0o755)
    env = workspace(tmp_path) | {"GPUSCAN": str(stand_in)}
    for name in ("GitHub Actions", "Azure Pipelines"):
        system = SYSTEMS[name]
        done = run(tmp_path, env, *system.shell, system.script(system.read()))
        assert done.code == 41
        seen = STOP.sub("", done.out) if name == "GitHub Actions" else done.out
        assert "##vso[task.complete" not in seen
        assert name != "GitHub Actions" or not re.search("^::(?!error title=gpuscan)", seen, re.M)
