"""Opening what others made and writing what is ours: never a wait, never through others' links."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from gpuscan import files
from gpuscan.errors import UsageError
from gpuscan.paths import follow_any, walk

NOBODY = 65534
BY_ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root must beware of others")
CONTENT = b"whole"


def read(path: Path, most_bytes: int = 100) -> bytes:
    return files.read_input(str(path), most_bytes)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_read_up_to_its_limit_and_one_byte_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    assert read(tmp_path / "file") == CONTENT
    assert read(tmp_path / "file", 2) == CONTENT[:3]


def test_only_a_regular_file_is_read_and_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, why in (
        (tmp_path / "pipe", "is a named pipe, not a file"),
        (Path("/dev/zero"), "is a device or socket, not a file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(OSError, match=why):
            read(path)


def test_a_pipe_of_ones_own_was_handed_over_on_purpose() -> None:
    ours, into = os.pipe()
    os.write(into, CONTENT)
    os.close(into)
    assert read(Path(f"/dev/fd/{ours}")) == CONTENT
    os.close(ours)


@BY_ROOT_ONLY
@pytest.mark.parametrize("place", ["file", "folder"])
def test_root_follows_only_links_of_its_own(tmp_path: Path, place: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(CONTENT)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "a" if place == "file" else tmp_path / "real")
    path = link if place == "file" else link / "a"
    assert read(path) == CONTENT
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(OSError, match=f"{link} is a link that belongs to user {NOBODY}"):
        read(path)
    with pytest.raises(UsageError, match="is a link that belongs to user"):
        files.write_atomically(str(path), b"other")
    assert (tmp_path / "real" / "a").read_bytes() == CONTENT


def test_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.write_atomically(str(tmp_path / "report"), CONTENT)
        files.replace_file(str(tmp_path / "status"), CONTENT, files.PUBLIC)
        files.make_folder(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "report") == 0o600
    assert mode_of(tmp_path / "status") == 0o644
    assert (mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")) == (0o755, 0o700)


def test_a_file_that_was_readable_stays_so_but_is_nobody_elses_to_write(tmp_path: Path) -> None:
    (tmp_path / "report").touch()
    (tmp_path / "report").chmod(0o666)
    files.write_atomically(str(tmp_path / "report"), CONTENT)
    assert mode_of(tmp_path / "report") == 0o644
    files.replace_file(str(tmp_path / "report"), CONTENT)
    assert mode_of(tmp_path / "report") == 0o600


@BY_ROOT_ONLY
def test_root_writes_into_no_folder_that_others_may_write(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match=f"others may write {tmp_path}/open, .*: chmod go-w"):
        files.write_atomically(str(tmp_path / "open" / "report"), CONTENT)
    assert os.listdir(tmp_path / "open") == []
    (tmp_path / "open").chmod(0o1777)
    (tmp_path / "open" / "report").write_bytes(b"theirs")
    os.link(tmp_path / "open" / "report", tmp_path / "victim")
    files.write_atomically(str(tmp_path / "open" / "report"), CONTENT)
    assert (tmp_path / "victim").read_bytes() == b"theirs", "a hard link is replaced, not followed"


@BY_ROOT_ONLY
def test_root_writes_into_no_pipe_of_another_user(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.chown(tmp_path / "pipe", NOBODY, NOBODY)
    with pytest.raises(UsageError, match="belongs to another user"):
        files.write_atomically(str(tmp_path / "pipe"), CONTENT)
    os.close(reader)


def test_a_pipe_without_a_reader_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot be written: No such device or address"):
        files.write_atomically(str(tmp_path / "pipe"), CONTENT)


def test_a_planted_draft_is_never_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(CONTENT)
    (tmp_path / f"report.{os.getpid()}.tmp").symlink_to(victim)
    files.write_atomically(str(tmp_path / "report"), b"report")
    assert victim.read_bytes() == CONTENT


ROOTED = {  # what a link below another root says, and where it leads there
    "absolute": ("/etc/real", True),
    "upwards": ("../../../../etc/real", True),
    "beside": ("real", True),
    "through": ("/etc/dir/../real", True),
    "outside": ("/outside", False),
    "circle": ("/etc/link", None),
}


@pytest.mark.parametrize("name", ROOTED)
def test_no_link_leads_out_of_another_root(tmp_path: Path, name: str) -> None:
    target, leads = ROOTED[name]
    etc = tmp_path / "root" / "etc"
    (etc / "dir").mkdir(parents=True)
    (etc / "real").write_bytes(CONTENT)
    (tmp_path / "outside").write_bytes(b"outside")
    (etc / "link").symlink_to(target)
    if leads is None:
        with pytest.raises(OSError, match="Too many levels"):
            walk("/etc/link", follow_any, str(tmp_path / "root"))
        return
    with walk("/etc/link", follow_any, str(tmp_path / "root")) as found:
        assert (found.status is not None) == leads
        if leads:
            with os.fdopen(found.open(os.O_RDONLY), "rb") as file:
                assert file.read() == CONTENT


def test_a_walk_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    (tmp_path / "a").symlink_to("a")
    for path in (tmp_path, tmp_path / "a", tmp_path / "none" / "b", Path("/"), tmp_path / ".."):
        try:
            walk(str(path), follow_any).__exit__()
        except OSError:
            continue
    assert os.listdir("/proc/self/fd") == before


def test_drafts_of_killed_runs_are_removed_and_no_other_file(tmp_path: Path) -> None:
    target = tmp_path / "last.json"
    names = {
        "stale": ".last.json.0123456789abcdef.tmp",
        "locked": ".last.json.fedcba9876543210.tmp",
        "young": ".last.json.0000000000000000.tmp",
        "another file's": ".other.json.0123456789abcdef.tmp",
        "no draft": ".last.json.tmp",
    }
    for what, name in names.items():
        (tmp_path / name).write_bytes(CONTENT)
        if what != "young":
            os.utime(tmp_path / name, (1.0, 1.0))
    with (tmp_path / names["locked"]).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        files.replace_file(str(target), CONTENT)
    left = {*os.listdir(tmp_path)}
    assert left == {target.name, *names.values()} - {names["stale"]}


@pytest.mark.system
def test_the_draft_of_a_killed_run_goes_with_the_next(tmp_path: Path) -> None:
    """A process that is killed between making a draft and renaming it."""
    script = (
        "import os, signal; from gpuscan import files;"
        " os.rename = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL);"
        f" files.replace_file({str(tmp_path / 'a')!r}, b'x')"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=env, check=False)
    assert done.returncode == -9
    (draft,) = tmp_path.iterdir()
    os.utime(draft, (1.0, 1.0))
    files.replace_file(str(tmp_path / "a"), CONTENT)
    assert os.listdir(tmp_path) == ["a"]
