"""The jobs of contrib/ci, run as their CI system runs them: its shell, its rules for exit codes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from faults import FAULTS
from nodes_recordings import base
from paths import ROOT
from program import environment, program

from gpuscan.recording import patch, save

FILES = ROOT / "contrib" / "ci"
STOP = re.compile(r"::stop-commands::(.*)\n(?:.*\n)*?::\1::\n")
# What is replayed for each exit code: a fault of tests/faults, a recording, or bad words.
CASES: Mapping[int, str] = {
    0: "demo",
    1: "demo",
    2: "demo --profile nosuch",
    3: "kernel-log-denied",
    10: "h200-4x-app-xids --fail-on warn",
    20: "burnin-dcgm-fails",
    30: "aer-fatal",
    31: "half-the-cards-gone",
    40: "aer-fatal-growing",
    41: "demo-broken",
}
BROKEN = 'raise RuntimeError("broken")\n'  # a dependency of gpuscan that cannot be imported


class Job(NamedTuple):
    """What a script of a job came to: its exit code, what it printed, where it ran."""

    code: int
    out: str
    folder: Path


class System(NamedTuple):
    """A CI system: how its shell is started, its script, and the outcome of a job.

    *outcome* gets the file as data and the job, and returns the word of docs/ci.md.
    """

    file: str
    shell: tuple[str, ...]
    script: Callable[[Any], str]
    outcome: Callable[[Any, Job], str]

    def read(self) -> Any:
        """Return the file as data, or as text where it is no YAML."""
        text = (FILES / self.file).read_text("utf-8")
        return yaml.safe_load(text) if self.file.endswith(".yml") else text


def _gitlab(whole: Any, job: Job) -> str:
    allowed = whole["gpuscan"]["allow_failure"]["exit_codes"]
    return {0: "passed", allowed: "passed with warnings"}.get(job.code, "failed")


def _github(_: Any, job: Job) -> str:
    return "failure" if job.code else "success"


def _azure(_: Any, job: Job) -> str:
    issues = "##vso[task.complete result=SucceededWithIssues;]" in job.out
    passed = "succeeded with issues" if issues else "succeeded"
    return "failed" if job.code else passed


def _buildkite(whole: Any, job: Job) -> str:
    soft = [row["exit_status"] for row in whole["steps"][0]["soft_fail"]]
    return "passed" if not job.code else "soft failed" if job.code in soft else "failed"


def _jenkins(whole: Any, job: Job) -> str:
    """Let Groovy run the pipeline's own function on the exit code that `sh` returned."""
    function = str(whole)[str(whole).index("void settle") : str(whole).index("pipeline {")]
    steps = (
        "void unstable(String why) { println 'unstable' }\n"
        "void error(String why) { println 'failure'; System.exit(0) }\n"
    )
    text = f"{steps}{function}\nsettle({job.code})\n"
    home = Path(shutil.which("java") or "/usr/bin/java").resolve().parent.parent
    done = subprocess.run(
        ["groovy", "-e", text],
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_HOME": str(home)},
        timeout=120,
        check=True,
    )
    return done.stdout.strip() or "success"


SYSTEMS = {
    "GitLab": System(
        "gitlab-ci.yml",
        ("bash", "-eo", "pipefail", "-c"),
        lambda whole: "\n".join(whole["gpuscan"]["script"]),
        _gitlab,
    ),
    "Jenkins": System(
        "Jenkinsfile",
        ("sh", "-xec"),
        lambda whole: re.findall(r"sh\(script: '(.*)', returnStatus: true\)", whole)[0],
        _jenkins,
    ),
    "GitHub Actions": System(
        "github-actions.yml",
        ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"),
        lambda whole: next(s["run"] for s in whole["jobs"]["gpuscan"]["steps"] if "run" in s),
        _github,
    ),
    "Azure Pipelines": System(
        "azure-pipelines.yml",
        ("bash", "--noprofile", "--norc", "-c"),
        lambda whole: next(s["bash"] for s in whole["jobs"][0]["steps"] if "bash" in s),
        _azure,
    ),
    "Buildkite": System(
        "buildkite.yml",
        ("bash", "-e", "-c"),
        lambda whole: whole["steps"][0]["command"].replace("$$", "$"),  # as the upload does
        _buildkite,
    ),
}


def words_for(code: int, folder: Path) -> str:
    """Return the GPUSCAN_ARGS that end in an exit code; a recording is written if it needs one."""
    name, _, rest = CASES[code].partition(" ")
    if name in ("demo", "demo-broken"):
        return f"--replay {name} {rest}"
    fault = FAULTS.get(name, {"base": name})
    changed = patch(base(fault["base"]), fault.get("set", {}), fault.get("log", ()))
    save(changed, str(folder / "node.json.gz"))
    return f"--replay {folder}/node.json.gz {rest}"


def workspace(folder: Path, *, broken: bool = False) -> dict[str, str]:
    """Lay out a job's workspace and return its environment."""
    (folder / "ci").mkdir()
    shutil.copy(FILES / "gpuscan-ci.sh", folder / "ci")
    tools = folder / "bin"
    tools.mkdir()
    env = environment()
    if broken:
        (tools / "junit_xml.py").write_text(BROKEN, "utf-8")
        env["PYTHONPATH"] = f"{tools}:{env.get('PYTHONPATH', '')}"
    stand_ins = {
        "gpuscan": f'exec {shlex.join(program())} "$@"',
        # It would talk to Buildkite.
        "buildkite-agent": f'echo "$*" > {folder}/annotated; cat >> {folder}/annotated',
    }
    for name, line in stand_ins.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n", "utf-8")
        (tools / name).chmod(0o755)
    return {
        **env,
        "PATH": f"{tools}:{env['PATH']}",
        "GPUSCAN_STATE_DIR": str(folder / "state"),
        "GITHUB_STEP_SUMMARY": str(folder / "step-summary.md"),
    }


def run(folder: Path, env: Mapping[str, str], *words: str) -> Job:
    """Run words in a job's workspace."""
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=env,
        timeout=300,
        check=False,
    )
    return Job(done.returncode, done.stdout, folder)


def job(name: str, code: int, folder: Path) -> Job:
    """Run a system's script on a node that ends in an exit code."""
    env = workspace(folder, broken=code == 1) | {"GPUSCAN_ARGS": words_for(code, folder)}
    system = SYSTEMS[name]
    return run(folder, env, *system.shell, system.script(system.read()))


def table(page: str) -> dict[int, dict[str, str]]:
    """Return the outcome that a page's table states, by exit code and system."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ") and line.count("|") == len(SYSTEMS) + 2
    ]
    head, *body = rows
    return {
        int(code): dict(zip(head[1:], row[1:], strict=True))
        for row in body
        for code in re.findall(r"\d+", row[0])
    }
