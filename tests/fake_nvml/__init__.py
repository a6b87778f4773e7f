"""A stand-in for NVIDIA's management library that answers from a gpuscan recording.

    folder = build(tmp_path)                      # or skip on NoCompiler
    write_scenario(recording, path, changes={"nvml:*(0000:1b:00.0)": Change(code=15)})
    subprocess.run([...], env=environment(folder, path))

Any program that loads ``libnvidia-ml.so.1`` then sees the recorded GPUs: gpuscan itself, and
other people's tools, which is what makes the fake trustworthy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import calls
from .scenario import Change, Growth, write_scenario

__all__ = ["Change", "Growth", "NoCompiler", "build", "calls_made", "environment", "write_scenario"]

_SOURCES = Path(__file__).parent
_LIBRARY = "libnvidia-ml.so.1"


class NoCompiler(Exception):
    """The system has no C compiler, so that the tests on the fake cannot run here."""


def build(directory: Path) -> Path:
    """Compile the library below ``directory`` and return its folder, for LD_LIBRARY_PATH.

    The folder is named after the sources, so that one compilation serves all that share
    ``directory`` (a session's temporary folder, or a cache) and stale ones are never used.
    """
    stubs = calls.stubs()
    sources = [(_SOURCES / name).read_bytes() for name in ("nvml.c", "load.inc", "handles.inc")]
    digest = hashlib.sha256(b"\0".join([*sources, stubs.encode()])).hexdigest()[:12]
    folder = directory / f"fake-nvml-{digest}"
    if (folder / _LIBRARY).exists():
        return folder
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler: `cc` is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        (Path(scratch) / "stubs.inc").write_text(stubs, encoding="utf-8")
        made = Path(scratch) / _LIBRARY
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-pthread"]
        paths = ["-I", scratch, "-I", str(_SOURCES), "-o", str(made), str(_SOURCES / "nvml.c")]
        done = subprocess.run(
            [compiler, *flags, f"-Wl,-soname,{_LIBRARY}", *paths],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"the fake NVML does not compile:\n{done.stderr}")
        made.replace(folder / _LIBRARY)  # at once, since several test processes may be building
    return folder


def environment(library_dir: Path, scenario: Path, log: Path | None = None) -> dict[str, str]:
    """The environment in which a subprocess loads the fake; ``log`` gets a line for each call."""
    search = os.pathsep.join(filter(None, [str(library_dir), os.environ.get("LD_LIBRARY_PATH")]))
    extra = {"LD_LIBRARY_PATH": search, "FAKE_NVML_SCENARIO": str(scenario)}
    if log is not None:
        extra["FAKE_NVML_LOG"] = str(log)
    return {**os.environ, **extra}


def calls_made(log: Path) -> list[tuple[str, str, str]]:
    """The calls in a log, in order: symbol, address and arguments, ``-`` where there are none.

    pynvml asks for lists twice (how long, then what), so those are logged twice.
    """
    rows = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [
        (symbol, address, args) for symbol, address, args in (row.split(" ", 2) for row in rows)
    ]
