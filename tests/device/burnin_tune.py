"""Other tiles for the matrix multiplication, compiled without a GPU and timed on one: how the
shipped ones were chosen.

python tests/device/burnin_tune.py build FOLDER   where Triton is (the environment of `nox -s
kernels`) python3 tests/device/burnin_tune.py run FOLDER    on a machine with a GPU; the folder as
it was built
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from gpuscan.burnin.worker import cubins, gemm  # noqa: E402
from gpuscan.burnin.worker.driver import CudaError, CudaGpu  # noqa: E402
from gpuscan.burnin.worker.kernels.variants import (
    ARCHITECTURES,
    Variant,
    memory,
    variants,
)  # noqa: E402
from gpuscan.burnin.worker.protocol import EventWriter  # noqa: E402

ARCH = "sm_90a"
TRIED: dict[str, dict[str, Any]] = {
    "shipped": {},
    "group-8": {"GROUP": 8},
    "not-flat": {"FLAT": False},
    "4-stages": {"stages": 4, "SPLIT": 2},
    "4-stages-not-flat": {"stages": 4, "SPLIT": 2, "FLAT": False},
    "4-stages-strips": {"stages": 4, "SPLIT": 4},
    "128-columns": {"TN": 128, "stages": 4, "SPLIT": 1},
    "special": {"SPLIT": 2, "FLAT": False, "SPECIAL": True, "warps": 4},
    "special-4-stages": {"stages": 4, "SPLIT": 2, "FLAT": False, "SPECIAL": True, "warps": 4},
    "64-rows": {"TM": 64, "stages": 4, "SPLIT": 2, "warps": 4},
}


def candidates(dtype: str) -> dict[str, Variant]:
    """Return the shipped kernel of a type with other constants, by the name of what is other."""
    (shipped,) = [v for v in variants(ARCH) if (v.kernel, v.name) == ("persistent", dtype)]
    made = {}
    for name, other in TRIED.items():
        warps, stages = other.get("warps", shipped.warps), other.get("stages", shipped.stages)
        constants = dict(shipped.constants) | {
            key: value for key, value in other.items() if key.isupper()
        }
        made[name] = shipped._replace(constants=constants, warps=warps, stages=stages)
    return made


def build(folder: Path) -> None:
    import json

    from gpuscan.burnin.worker.kernels.build import compiled

    number, ptx, shared_kib = ARCHITECTURES[ARCH]
    for name in TRIED:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        entries = {}
        others = [*memory(), *(v for v in variants(ARCH) if v.kernel == "operand")]
        with zipfile.ZipFile(place / f"{ARCH}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            for variant in [
                *others,
                *(candidates(dtype)[name] for dtype in gemm.WIDTHS if dtype != "fp64"),
            ]:
                try:
                    entry, code = compiled(variant, number, ptx)
                except Exception as error:
                    print(name, variant.name, type(error).__name__, str(error)[-200:])
                    continue
                if entry["shared_bytes"] > shared_kib * 1024:
                    print(
                        name, variant.name, "needs too much shared memory:", entry["shared_bytes"]
                    )
                    continue
                member = f"{variant.kernel}-{variant.name}.{ARCH}.cubin"
                packed.writestr(member, code)
                entries[member] = entry
        (place / "manifest.json").write_text(
            json.dumps({"architectures": {ARCH: entries}, "golden": {}})
        )


def run(folder: Path) -> None:
    from subprocess import run as call

    out = call(
        ["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    )
    address = out.stdout.split()[0].lower()[-12:]
    with open(os.devnull, "w") as nowhere:
        for turn in (1, 2):
            for dtype in gemm.WIDTHS:
                for name in TRIED:
                    cubins.HERE = folder / name
                    cubins.manifest.cache_clear()
                    try:
                        with CudaGpu(address) as gpu:
                            options = {"dtype": dtype, "kernel": "persistent", "seconds": 1}
                            outcome = gemm.run(gpu, EventWriter(nowhere), "gemm-stress", options)
                        print(
                            turn,
                            f"{dtype:6} {name:20} {outcome.status:8}"
                            f" {outcome.numbers.get('tflops')} TFLOP/s",
                            flush=True,
                        )
                    except CudaError as error:
                        print(turn, f"{dtype:6} {name:20} {error}", flush=True)


if __name__ == "__main__":
    {"build": build, "run": run}[sys.argv[1]](Path(sys.argv[2]))
