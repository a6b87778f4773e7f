"""The role of contrib/ansible, played by ansible-playbook on localhost without a network."""

from __future__ import annotations

import json
import re
import shutil
import sys
from typing import Any

import pytest
from paths import ROOT
from program import Ended
from throwaway import Throwaway, need, throwaway
from wheelhouse import wheelhouse

pytestmark = pytest.mark.contrib

PLAYBOOK = ROOT / "contrib" / "ansible" / "gate.yml"
SITE = """- import_playbook: {gate}
- hosts: gpu
  gather_facts: false
  vars:
    seen:
      exit: "{{{{ gpuscan_exit | int }}}}"
      usable: "{{{{ gpuscan_usable }}}}"
      action: "{{{{ gpuscan_action }}}}"
      headline: "{{{{ gpuscan_headline }}}}"
      host: "{{{{ gpuscan_report.summary.verdict }}}}"
  tasks:
    - ansible.builtin.copy:
        content: "{{{{ seen | to_json }}}}"
        dest: {share}/{{{{ inventory_hostname }}}}.facts
"""
PLAY = """
export HOME=/root ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_NOCOLOR=1 ANSIBLE_RETRY_FILES_ENABLED=0
ansible-playbook -i inventory site.yml -e @vars.json || code=$?
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Throwaway:
    need("ansible-playbook")
    return throwaway(tmp_path_factory)


def play(place: Throwaway, replays: dict[str, str], *, more: str = "", **variables: Any) -> Ended:
    """Play the gate for nodes that are all this machine, each with its own recording."""
    hosts = [
        f"{name} ansible_connection=local ansible_python_interpreter={sys.executable}"
        f' gpuscan_args=\'["--replay", "{replay}"]\''
        for name, replay in replays.items()
    ]
    (place.share / "inventory").write_text("\n".join(["[gpu]", *hosts, ""]), "utf-8")
    site = SITE.format(gate=PLAYBOOK, share=place.share)
    (place.share / "site.yml").write_text(site, "utf-8")
    whole = {"gpuscan_become": False, "gpuscan_command": str(place.program()), **variables}
    (place.share / "vars.json").write_text(json.dumps(whole), "utf-8")
    return place.run(f'code=0\n{PLAY}{more}\nexit "$code"\n')


def facts(place: Throwaway, host: str) -> dict[str, Any] | None:
    """What the play after the gate saw of a node; None where it was not played there."""
    path = place.share / f"{host}.facts"
    if not path.exists():
        return None
    seen: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return {**seen, "exit": int(seen["exit"])}  # text or number, depending on Ansible's version


def test_only_a_node_that_passed_goes_on(place: Throwaway) -> None:
    reports = place.share / "reports"
    reports.mkdir()
    nodes = {"good": "demo", "bad": "demo-broken"}
    done = play(place, nodes, gpuscan_reports=str(reports))
    assert done.code == 2, done.out  # Ansible's own: hosts failed
    assert facts(place, "good") == {
        "exit": 0,
        "usable": True,
        "action": "none",
        "headline": "pass (0)",
        "host": "pass",
    }
    assert facts(place, "bad") is None
    assert "hardware (41): replace gpu SXM7" in done.out
    kept = {path.stem: json.loads(path.read_text("utf-8")) for path in reports.iterdir()}
    assert {name: report["summary"]["exit_code"] for name, report in kept.items()} == {
        "good": 0,
        "bad": 41,
    }


def test_it_installs_without_a_network(place: Throwaway) -> None:
    shutil.copytree(wheelhouse(), place.share / "wheelhouse")
    again = "ansible-playbook -i inventory site.yml -e @vars.json > again\n"
    done = play(
        place,
        {"node": "demo"},
        more=f"{again}/usr/local/bin/gpuscan version > version\n",
        gpuscan_wheelhouse=str(place.share / "wheelhouse"),
        gpuscan_python=sys.executable,
        gpuscan_command="gpuscan",
    )
    assert done.code == 0, done.out + done.err
    assert (place.share / "version").read_text("utf-8").startswith("gpuscan ")
    assert "changed=0" in (place.share / "again").read_text("utf-8")  # the second time, nothing


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"gpuscan_command": "/nonexistent/gpuscan"}, "gave no verdict"),
        ({"gpuscan_pass": [0, 1, 2], "gpuscan_args": ["--nonsense"]}, r"\(exit code 2\)"),
        ({"gpuscan_command": "{share}/hangs", "gpuscan_timeout": 1}, r"Scan the node\](?!.*TASK)"),
    ],
    ids=["missing", "wrong usage", "hangs"],
)
def test_without_a_verdict_no_node_goes_on(
    place: Throwaway, variables: dict[str, Any], said: str
) -> None:
    hangs = place.share / "hangs"
    hangs.write_text("#!/bin/bash\nexec sleep infinity\n", "utf-8")
    hangs.chmod(0o755)
    if "gpuscan_command" in variables:
        command = variables["gpuscan_command"].format(share=place.share)
        variables = {**variables, "gpuscan_command": command}
    done = play(place, {"node": "demo"}, **variables)
    assert done.code == 2
    assert re.search(said, done.out, re.DOTALL)
    assert facts(place, "node") is None


def test_a_report_that_cannot_be_kept_changes_no_verdict(place: Throwaway) -> None:
    nodes = {"good": "demo", "bad": "demo-broken"}
    done = play(place, nodes, gpuscan_reports="/proc/nowhere")
    assert done.code == 2
    assert "/proc/nowhere" in done.out
    good = facts(place, "good")
    assert good is not None
    assert good["usable"]
    assert facts(place, "bad") is None
    assert "hardware (41)" in done.out


def test_check_mode_scans_and_gates_as_well(place: Throwaway) -> None:
    more = "ansible-playbook -i inventory site.yml -e @vars.json --check > checked || true\n"
    play(place, {"good": "demo", "bad": "demo-broken"}, more=f"rm -f *.facts\n{more}")
    checked = (place.share / "checked").read_text("utf-8")
    assert "hardware (41): replace gpu SXM7" in checked
    assert "good: pass (0)" in checked
