"""The project's own files: tools are pinned alike wherever they are named."""

from __future__ import annotations

import re
import tomllib

import yaml
from paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))


def test_development_tools_are_pinned() -> None:
    tools = [
        tool for extra in ("test", "contrib", "lint", "types", "dev") for tool in EXTRAS[extra]
    ]
    loose = [tool for tool in tools if not re.search(r"==[\d.]+$", tool)]
    assert loose == ["gpuscan[test,lint,types]"]


def test_hooks_use_the_same_versions() -> None:
    pins = {tool.partition("==")[0]: tool for extra in EXTRAS.values() for tool in extra}
    for hook in HOOKS["repos"][0]["hooks"]:
        for tool in hook.get("additional_dependencies", ()):
            name = tool.partition("==")[0]
            assert tool == pins.get(name, tool), hook["id"]
            assert "==" in tool


def test_every_marker_of_a_tier_has_its_session() -> None:
    markers = [
        line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]
    ]
    noxfile = (ROOT / "noxfile.py").read_text("utf-8")
    assert markers == ["sweep", "burnin", "laws", "system", "contrib", "smoke"]
    assert all(f"def {tier}(session" in noxfile for tier in markers[:5])
