"""Every shell script of contrib, those within other files as well, read by shellcheck."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from paths import ROOT
from throwaway import need

pytestmark = pytest.mark.contrib

CONTRIB = ROOT / "contrib"
SCRIPTS = [
    path
    for path in sorted(CONTRIB.rglob("*"))
    if path.is_file() and path.read_text("utf-8").startswith(("#!/bin/bash", "#!/bin/sh"))
]


def complaints(path: Path) -> str:
    need("shellcheck")
    words = ["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(CONTRIB)))
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    assert complaints(script) == ""


def test_nor_of_the_script_that_cloud_init_writes(tmp_path: Path) -> None:
    data = yaml.safe_load((CONTRIB / "cloud-init" / "user-data").read_text("utf-8"))
    (script,) = [
        row["content"] for row in data["write_files"] if row["content"].startswith("#!/bin/bash")
    ]
    path = tmp_path / "first-boot"
    path.write_text(script, "utf-8")
    assert complaints(path) == ""
