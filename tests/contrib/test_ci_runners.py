"""The jobs of contrib/ci in runners: act for GitHub Actions, gitlab-ci-local, Buildkite's agent.

Tried with act 0.2.89 and agent 3.52.0 (`go install`), gitlab-ci-local 4.64.1 (`npm`; newer ones
need Node 22) and rsync, which that one calls.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from ci_jobs import FILES, SYSTEMS, Job, table, words_for, workspace
from paths import ROOT

pytestmark = pytest.mark.contrib

CODES = (0, 2, 3, 10, 41)
UPLOAD = "actions/upload-artifact@v4"
# GitHub's own action is not at hand offline: this one keeps the same files under the same name.
STAND_IN = """
name: upload-artifact
inputs: {name: {}, path: {}, retention-days: {}}
runs:
  using: composite
  steps:
    - shell: bash
      run: cp -r "${{ inputs.path }}" "$KEPT/${{ inputs.name }}"
"""


class Place(NamedTuple):
    """A repository with a job, what lies beside it, and the job's environment."""

    repository: Path
    beside: Path
    env: Mapping[str, str]
    words: str

    def run(self, *words: str) -> Job:
        """Run a runner here."""
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.repository,
            env=self.env,
            timeout=300,
            check=False,
        )
        return Job(done.returncode, done.stdout, self.repository)


def need(*tools: str) -> None:
    for name in tools:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def place(code: int, folder: Path, file: str, at: str) -> Place:
    repository, beside = folder / "repository", folder / "beside"
    repository.mkdir()
    (beside / "home").mkdir(parents=True)
    env = workspace(repository) | {
        "GPUSCAN_STATE_DIR": str(beside / "state"),
        "HOME": str(beside / "home"),
        "XDG_CACHE_HOME": str(beside / "home" / "cache"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    path = repository / at
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(FILES / file, path)
    made = Place(repository, beside, env, words_for(code, beside).strip())
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a"]
    remote = ["remote", "add", "origin", "https://git.example.com/a/b.git"]
    for words in (["init", "-q"], ["add", "-A"], commit, remote):
        done = made.run("git", *words)
        assert done.code == 0, done.out
    return made


def under_act(code: int, folder: Path) -> tuple[str, Path]:
    need("act", "git")
    here = place(code, folder, "github-actions.yml", ".github/workflows/gpuscan.yml")
    action, kept = here.beside / "upload", here.beside / "kept"
    action.mkdir()
    kept.mkdir()
    (action / "action.yml").write_text(STAND_IN, "utf-8")
    done = here.run(
        *("act", "workflow_dispatch", "-P", "self-hosted=-self-hosted"),
        *("--local-repository", f"https://github.com/{UPLOAD}={action}"),
        *("--env", f"KEPT={kept}", "--env", f"GPUSCAN_ARGS={here.words}"),
    )
    if code != 2:
        assert "::error title=gpuscan on " in done.out or code == 0, done.out
        assert "Summary - ## gpuscan: " in done.out
    words = {"succeeded": "success", "failed": "failure"}
    return words[re.findall(r"Job (succeeded|failed)\n", done.out)[0]], kept / "gpuscan-reports-1"


def under_gitlab_ci_local(code: int, folder: Path) -> tuple[str, Path]:
    need("gitlab-ci-local", "git", "rsync")
    here = place(code, folder, "gitlab-ci.yml", ".gitlab-ci.yml")
    home = str(here.beside / "home")
    argument = f"GPUSCAN_ARGS={here.words}"
    done = here.run("gitlab-ci-local", "--home", home, "--variable", argument, "gpuscan")
    (word,) = re.findall(r"^ (PASS|WARN|FAIL) +gpuscan", done.out, re.MULTILINE)
    words = {"PASS": "passed", "WARN": "passed with warnings", "FAIL": "failed"}
    kept = here.repository / ".gitlab-ci-local" / "artifacts" / "gpuscan" / "gpuscan-reports"
    return words[word], kept


def under_buildkite(code: int, folder: Path) -> tuple[str, Path]:
    need("buildkite-agent", "git")
    here = place(code, folder, "buildkite.yml", ".buildkite/pipeline.yml")
    system = SYSTEMS["Buildkite"]
    names = ("job", "repository", "agent", "organization", "pipeline", "pipeline-provider")
    env = {
        **here.env,
        "GPUSCAN_ARGS": here.words,
        "BUILDKITE_BUILD_CHECKOUT_PATH": str(here.repository),
        "BUILDKITE_AGENT_ACCESS_TOKEN": "none",
        "BUILDKITE_AGENT_ENDPOINT": "http://127.0.0.1:9",  # nobody: it does not annotate
    }
    (here.repository / "bin" / "buildkite-agent").unlink()  # the real one
    done = here._replace(env=env).run(
        *("buildkite-agent", "bootstrap", "--phases", "command", "--command-eval"),
        *(word for name in names for word in (f"--{name}", "none")),
        *("--branch", "main", "--commit", "HEAD", "--build-path", str(here.beside)),
        *("--command", system.script(system.read())),
    )
    assert code == 2 or "no annotation was made\n" in done.out.replace("\r", "")
    return system.outcome(system.read(), done), here.repository / "gpuscan-reports"


RUNNERS: Mapping[str, Callable[[int, Path], tuple[str, Path]]] = {
    "GitHub Actions": under_act,
    "GitLab": under_gitlab_ci_local,
    "Buildkite": under_buildkite,
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_ends_the_job_as_the_page_says(name: str, code: int, tmp_path: Path) -> None:
    outcome, kept = RUNNERS[name](code, tmp_path)
    stated = table((ROOT / "docs" / "ci.md").read_text("utf-8"))
    assert outcome == stated[code][name]
    if code == 2:
        assert not (kept / "junit.xml").exists()
        return
    assert json.loads((kept / "report.json").read_text("utf-8"))["summary"]["exit_code"] == code
    assert (kept / "junit.xml").stat().st_size
    assert (kept / "ticket.md").exists() is (code >= 20)
