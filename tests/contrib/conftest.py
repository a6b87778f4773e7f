"""The Slurm cluster that the tests of contrib/slurm share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_site import Site


@pytest.fixture(scope="module")
def site(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("slurm"), library)
    try:
        site.cluster.start()
        yield site
    finally:
        site.cluster.end()


@pytest.fixture
def node(site: Site) -> str:
    site.fresh("n1")
    return "n1"
