"""No profile of this machine's own decides a test."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = "/nonexistent/gpuscan"


@pytest.fixture(autouse=True)
def _no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own /etc/gpuscan must not decide the tests."""
    monkeypatch.setattr("gpuscan.files.SITE", SITE)
    monkeypatch.delenv("GPUSCAN_CONFIG", raising=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    (folder / "profiles").mkdir(parents=True)
    monkeypatch.setattr("gpuscan.files.SITE", str(folder))
    return folder
