"""Below another root, no link leads out of it."""

from pathlib import Path

import pytest

from gpuscan.live.host import HostReader
from gpuscan.live.reader import Places


def test_links_stay_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc" / "real").mkdir(parents=True)
    (root / "etc" / "shadow").write_text("inside\n")
    (root / "etc" / "machine-id").symlink_to("/etc/shadow")
    (root / "etc" / "up").symlink_to("../../../../../etc/shadow")
    (root / "etc" / "folder").symlink_to("/etc/real")
    (root / "etc" / "real" / "link").symlink_to("target")
    (root / "etc" / "gone").symlink_to("/etc/passwd")
    host = HostReader(Places(root=str(root)))
    assert host.file("/etc/machine-id") == host.file("/etc/up") == "inside\n"
    assert host.listing("/etc/folder") == ["link"]
    assert host.link("/etc/folder/link") == "target"
    with pytest.raises(FileNotFoundError):
        host.file("/etc/gone")
