"""Compiles every kernel for every architecture, without a GPU, into gpuscan/burnin/worker/cubins;
needs Triton, ptxas and NVRTC 12.9.
"""

import hashlib
import json
import os
import re
import sys
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from gpuscan.burnin.worker.kernels.golden import goldens
from gpuscan.burnin.worker.kernels.variants import ARCHITECTURES, GEMM, PORTABLE, Variant, variants

HERE = Path(__file__).parent
CUBINS = HERE.parent / "cubins"
ACCUMULATORS = {"fp32": "float32", "fp64": "float64", "int32": "int32"}
SIXTEENS = (
    "m",
    "n",
    "k",
    "words",
    "elements",
    "columns",
)  # always multiples of 16: so 16 bytes are moved at once
DIVISIBLE = [["tt.divisibility", 16]]
Made = tuple[dict[str, Any], bytes]


def compiled(variant: Variant, number: int, ptx_version: int, kind: str = "cubin") -> Made:
    """Compile one kernel; return its entry for the manifest and the code."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from gpuscan.burnin.worker.kernels import gemm, memory

    function = getattr(memory, variant.kernel, None) or getattr(gemm, variant.kernel)
    constants = {
        name: getattr(tl, ACCUMULATORS[str(value)]) if name == "ACC" else value
        for name, value in variant.constants.items()
    }
    signature = {name: variant.types.get(name, "constexpr") for name in function.arg_names}
    hinted = [
        i
        for i, name in enumerate(function.arg_names)
        if signature[name].startswith("*") or name in SIXTEENS
    ]
    source = ASTSource(function, signature, constants, {(i,): DIVISIBLE for i in hinted})
    options = {"num_warps": variant.warps, "num_stages": variant.stages, "ptx_version": ptx_version}
    made = triton.compile(source, target=GPUTarget("cuda", number, 32), options=options)
    code = made.asm[kind]
    about = made.metadata
    entry = {
        "kernel": variant.kernel,
        "variant": variant.name,
        "function": about.name,
        "arguments": [
            [name, variant.types[name]] for name in function.arg_names if name in variant.types
        ],
        "constants": variant.constants,
        "warps": about.num_warps,
        "shared_bytes": about.shared,
        "scratch_bytes": about.global_scratch_size,
        "profile_scratch_bytes": about.profile_scratch_size,
    }
    return entry, code if isinstance(code, bytes) else code.encode()


def compiled_cuda(variant: Variant, arch: str) -> Made:
    """Compile a kernel in CUDA C++; return the same as `compiled`. Its two last arguments are the
    hidden ones of Triton's.
    """
    from cuda.bindings import nvrtc

    def made(call: str, *arguments: Any) -> Any:
        status, *values = getattr(nvrtc, call)(*arguments)
        if int(status):
            raise SystemExit(f"{variant.cuda}: {call}: {status.name}")
        return values[0] if values else None

    numbers = {
        name: value for name, value in variant.constants.items() if isinstance(value, int)
    } | {"STAGES": variant.stages}
    options = [
        f"--gpu-architecture={arch}",
        "--std=c++17",
        *(f"-D{name}={value}" for name, value in numbers.items()),
    ]
    program = made(
        "nvrtcCreateProgram", (HERE / variant.cuda).read_bytes(), variant.cuda.encode(), 0, [], []
    )
    made("nvrtcCompileProgram", program, len(options), [option.encode() for option in options])
    code = bytes(made("nvrtcGetCUBINSize", program))
    made("nvrtcGetCUBIN", program, code)
    tile: dict[str, Any] = dict(variant.constants)
    entry = {
        "kernel": variant.kernel,
        "variant": variant.name,
        "function": variant.kernel,
        "arguments": [[name, kind] for name, kind in variant.types.items()],
        "constants": tile,
        "warps": variant.warps,
        "shared_bytes": variant.stages
        * (tile["TM"] + tile["TN"])
        * tile["TK"]
        * GEMM[variant.name][3],
        "scratch_bytes": 0,
        "profile_scratch_bytes": 0,
    }
    return entry, code


def build(folder: Path) -> dict[str, Any]:
    """Compile all into a folder: one zip an architecture and `manifest.json`; return the manifest."""
    import triton

    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (arch, v, number, ptx, "cubin")
        for arch, (number, ptx, _) in ARCHITECTURES.items()
        for v in variants(arch)
    ]
    jobs += [(PORTABLE[0], v, PORTABLE[1], PORTABLE[2], "ptx") for v in variants(PORTABLE[0])]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(_job, jobs, chunksize=4))
    files: dict[str, dict[str, Any]] = {}
    for arch in [*ARCHITECTURES, PORTABLE[0]]:
        codes = [
            (entry, code)
            for (name, *_), (entry, code) in zip(jobs, made, strict=True)
            if name == arch
        ]
        files[arch] = _packed(folder, arch, codes)
    kept = sorted([*HERE.glob("*.py"), *HERE.glob("*.cu")])
    sources = {path.name: _sha256(path.read_bytes()) for path in kept if path.name != "__init__.py"}
    manifest = {
        "triton": triton.__version__,
        "ptxas": "12.9.86",
        "sources": sources,
        "golden": goldens(),
        "architectures": files,
    }
    (folder / "manifest.json").write_text(written(manifest), "utf-8")
    return manifest


def written(manifest: dict[str, Any]) -> str:
    """Return the manifest as JSON with one line a compiled kernel."""
    text = json.dumps(manifest, sort_keys=True)
    return re.sub(r'(?<=[{ ])"(?=[a-z0-9-]+\.[a-z0-9_]+\.(?:cubin|ptx)": )', '\n"', text) + "\n"


def _job(job: tuple[str, Variant, int, int, str]) -> Made:
    return compiled_cuda(job[1], job[0]) if job[1].cuda else compiled(*job[1:])


def _packed(folder: Path, arch: str, codes: list[Made]) -> dict[str, Any]:
    """Write an architecture's zip, the same bytes each time; return its entries by member."""
    entries = {}
    with zipfile.ZipFile(
        folder / f"{arch}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9
    ) as packed:
        for entry, code in codes:
            ending = "ptx" if arch == PORTABLE[0] else "cubin"
            name = f"{entry['kernel']}-{entry['variant']}.{arch}.{ending}"
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(member, code)
            entries[name] = entry | {"sha256": _sha256(code)}
    return entries


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def compare(folder: Path) -> list[str]:
    """Compile into a folder; return what differs from the package's kernels."""
    made = json.loads(written(build(folder)))
    try:
        kept = json.loads((CUBINS / "manifest.json").read_text("utf-8"))
    except FileNotFoundError:
        return ["manifest.json: not there"]
    told = [
        f"{name}: {kept.get(name)} in the package, {made[name]} made"
        for name in ("triton", "ptxas")
        if kept.get(name) != made[name]
    ]
    told += [
        f"{part} {name}: differs"
        for part in ("sources", "golden")
        for name in _differing(kept[part], made[part])
    ]
    for arch in sorted(kept["architectures"].keys() | made["architectures"].keys()):
        entries = kept["architectures"].get(arch, {}), made["architectures"].get(arch, {})
        told += [f"{name}: differs" for name in _differing(*entries)]
    return told


def _differing(kept: dict[str, Any], made: dict[str, Any]) -> list[str]:
    return sorted(name for name in kept.keys() | made.keys() if kept.get(name) != made.get(name))


def main() -> int:
    """Compile and compare; with `--write` compile into the package. Exit code 1 where something
    differs.
    """
    if "--write" in sys.argv:
        build(CUBINS)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        told = compare(Path(folder))
    sys.stdout.write(
        "".join(f"{line}\n" for line in told) or "every kernel is as it is in the package\n"
    )
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
