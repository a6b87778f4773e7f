"""The compiled kernels that come with the package: which of them a GPU runs."""

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent / "cubins"
PORTABLE = "compute_89"


class Code(NamedTuple):
    """One kernel's code, ready for the driver: cubin, or PTX that ends with a zero byte; and what a
    launch must know.

    *arguments* are (name, Triton's type) in their order; two hidden pointers come after them
    (scratch, profiler's scratch). *scratch_bytes* is for one block.
    """

    name: str
    data: bytes
    function: str
    arguments: tuple[tuple[str, str], ...]
    constants: dict[str, Any]
    warps: int
    shared_bytes: int
    scratch_bytes: int


@cache
def manifest() -> dict[str, Any]:
    """Return what was compiled, by architecture, with hashes, and the golden digests."""
    loaded: dict[str, Any] = json.loads((HERE / "manifest.json").read_text("utf-8"))
    return loaded


def architecture(capability: tuple[int, int]) -> str:
    """Return the architecture whose code runs on a GPU of this compute capability, or `compute_89`
    for newer ones.

    A cubin runs on its own major version from its minor version upwards; one with an `a` only on
    exactly its own.

    >>> architecture((9, 0)), architecture((8, 7)), architecture((12, 1)), architecture((11, 0))
    ('sm_90a', 'sm_86', 'compute_89', 'compute_89')
    """
    found = PORTABLE
    for name in manifest()["architectures"]:
        if name == PORTABLE:
            continue
        number = int(name.removeprefix("sm_").removesuffix("a"))
        major, minor = divmod(number, 10)
        if capability == (major, minor):
            return str(name)
        if not name.endswith("a") and capability[0] == major and capability[1] > minor:
            found = max(str(name), found if found != PORTABLE else "")
    return found


def names(arch: str) -> set[str]:
    """Return the kernels that there are for an architecture: `persistent-bf16`."""
    return {
        f"{entry['kernel']}-{entry['variant']}"
        for entry in manifest()["architectures"][arch].values()
    }


def code(arch: str, name: str) -> Code:
    """Return one kernel's code; KeyError where that architecture has none of this name."""
    member = f"{name}.{arch}.{'ptx' if arch == PORTABLE else 'cubin'}"
    entry = manifest()["architectures"][arch][member]
    with zipfile.ZipFile(HERE / f"{arch}.zip") as packed:
        data = packed.read(member)
    arguments = tuple((argument, kind) for argument, kind in entry["arguments"])
    return Code(
        name,
        data + b"\0" if arch == PORTABLE else data,
        entry["function"],
        arguments,
        entry["constants"],
        entry["warps"],
        entry["shared_bytes"],
        entry["scratch_bytes"],
    )
