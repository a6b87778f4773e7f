"""The compiled kernels that the package carries: all there, untouched, from these sources, for
what their names say.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zipfile
from pathlib import Path

import pytest

from gpuscan.burnin.worker import cubins
from gpuscan.burnin.worker.kernels.variants import ARCHITECTURES, variants

SOURCES = Path(cubins.__file__).parent / "kernels"
CUDA = 190  # the ELF machine number of NVIDIA's code
ACCELERATED = 0x800  # the flag of an `a` architecture up to ELF ABI 7
ALL = [*ARCHITECTURES, cubins.PORTABLE]


def members(arch: str) -> dict[str, bytes]:
    with zipfile.ZipFile(cubins.HERE / f"{arch}.zip") as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def test_made_from_these_sources() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [*SOURCES.glob("*.py"), *SOURCES.glob("*.cu")]
        if path.name != "__init__.py"
    }
    assert cubins.manifest()["sources"] == found, (
        "the sources changed: run `nox -s kernels -- --write`"
    )


def test_every_architecture_is_there() -> None:
    assert set(cubins.manifest()["architectures"]) == set(ALL)
    assert {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"} == set(
        ARCHITECTURES
    )
    assert sum(path.stat().st_size for path in cubins.HERE.iterdir()) < 3 << 20


@pytest.mark.parametrize("arch", ALL)
def test_hashes(arch: str) -> None:
    entries = cubins.manifest()["architectures"][arch]
    assert {name: hashlib.sha256(data).hexdigest() for name, data in members(arch).items()} == {
        name: entry["sha256"] for name, entry in entries.items()
    }


@pytest.mark.parametrize("arch", ALL)
def test_every_variant_is_there(arch: str) -> None:
    wanted = variants(arch)
    assert cubins.names(arch) == {f"{variant.kernel}-{variant.name}" for variant in wanted}
    for dtype in ("bf16", "fp16", "int8", "tf32", "fp64"):
        assert f"tiled-{dtype}" in cubins.names(arch)
    assert ("tiled-fp8" in cubins.names(arch)) == (arch not in ("sm_80", "sm_86"))
    assert ("persistent-bf16" in cubins.names(arch)) == (
        arch in ("sm_90a", "sm_100a", "sm_103a", "sm_120a")
    )


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_cubins_are_what_their_names_say(arch: str) -> None:
    """ELF for CUDA and this architecture; ABI 7 up to Hopper, which drivers of CUDA 12 load, 8 for
    Blackwell.
    """
    number = ARCHITECTURES[arch][0]
    for name, data in members(arch).items():
        ident, _, machine, _, _, _, _, flags = struct.unpack_from("<16sHHIQQQI", data)
        assert ident[:6] == b"\x7fELF\x02\x01", name
        assert machine == CUDA
        assert ident[8] == (7 if number <= 90 else 8), name
        assert (flags & 0xFF if number <= 90 else flags >> 8 & 0xFF) == number, name
        if number <= 90:
            assert bool(flags & ACCELERATED) == arch.endswith("a"), name


def test_portable_code_is_old_ptx() -> None:
    for data in members(cubins.PORTABLE).values():
        assert re.search(rb"^\.version 8\.4$", data, re.MULTILINE)
        assert re.search(rb"^\.target sm_89$", data, re.MULTILINE)


@pytest.mark.parametrize("arch", ALL)
def test_no_place_of_the_build_is_told(arch: str) -> None:
    for name, data in members(arch).items():
        assert not re.search(rb"/(?:tmp|root|home|usr|work|site-packages)/|\.py\b", data), name


@pytest.mark.parametrize("arch", ALL)
def test_a_block_has_the_shared_memory(arch: str) -> None:
    limit_kib = ARCHITECTURES.get(arch, (0, 0, 99))[2]  # 99: the least that any GPU has since sm_86
    for name, entry in cubins.manifest()["architectures"][arch].items():
        assert entry["shared_bytes"] <= limit_kib * 1024, name
        assert entry["profile_scratch_bytes"] == 0, name
        assert (entry["scratch_bytes"] > 0) == (entry["kernel"] == "persistent"), name


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 7), "sm_86"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_103a"),
        ((10, 1), "compute_89"),
        ((12, 0), "sm_120a"),
        ((12, 1), "compute_89"),
        ((13, 0), "compute_89"),
    ],
)
def test_architecture_of_a_gpu(capability: tuple[int, int], arch: str) -> None:
    assert cubins.architecture(capability) == arch


def test_code_of_a_kernel() -> None:
    code = cubins.code("sm_90a", "check-read")
    assert code.data[:4] == b"\x7fELF"
    assert [name for name, _ in code.arguments] == [
        "buffer",
        "words",
        "kind",
        "seed",
        "offset",
        "flip",
        "found",
        "capacity",
    ]
    assert cubins.code("compute_89", "check-read").data.endswith(b"\0")
    with pytest.raises(KeyError):
        cubins.code("compute_89", "persistent-bf16")
