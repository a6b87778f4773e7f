"""A small recording of two healthy GPUs, and programs run against the fake that plays it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import environment, write_scenario

A, B = "0000:1b:00.0", "0000:3b:00.0"
ENOUGH_S = 60  # for anything that is not meant to hang
ASK = str(Path(__file__).with_name("ask.py"))
UUID = "GPU-00000000-0000-4000-8000-00000000000"


def gpu(address: str, number: int) -> dict[str, Any]:
    """A healthy GPU's answers: one of each shape."""
    return {
        f"nvml:nvmlDeviceGetHandleByPciBusId({address})": True,
        f"nvml:nvmlDeviceGetName({address})": "NVIDIA H200",
        f"nvml:nvmlDeviceGetUUID({address})": f"{UUID}{number}",
        f"nvml:nvmlDeviceGetMemoryInfo({address})": {
            "total": 150754820096,
            "free": 150109880320,
            "used": 644939776,
        },
        f"nvml:nvmlDeviceGetUtilizationRates({address})": {"gpu": 7, "memory": 3},
        f"nvml:nvmlDeviceGetTemperature({address},0)": 34 + number,
        f"nvml:nvmlDeviceGetEccMode({address})": [1, 0],
        f"nvml:nvmlDeviceGetRemappedRows({address})": [1, 2, 0, 1],
        f"nvml:nvmlDeviceGetTotalEccErrors({address},1,0)": 2**40 + number,
        f"nvml:nvmlDeviceGetMarginTemperature({address})": -5,
        f"nvml:nvmlDeviceGetGpuFabricInfoV({address})": {
            "clusterUuid": "00112233445566778899aabbccddeeff",
            "status": 0,
            "cliqueId": 32766,
            "state": 3,
            "healthMask": 0x15,
        },
        f"nvml:nvmlDeviceGetComputeRunningProcesses({address})": [
            {"pid": 4242, "usedGpuMemory": 1 << 30},
            {"pid": 4243, "usedGpuMemory": None},
        ],
        f"nvml:nvmlDeviceGetFieldValues({address},230,0)": 0,
        f"nvml:nvmlDeviceGetFieldValues({address},82,0)": -37,
        f"nvml:nvmlDeviceGetFieldValues({address},80,3)": 0.5,
    }


NODE: dict[str, Any] = {
    "nvml:nvmlInit()": True,
    "nvml:nvmlSystemGetDriverVersion()": "580.159.04",
    "nvml:nvmlSystemGetCudaDriverVersion()": 13000,
    **gpu(A, 0),
    **gpu(B, 1),
}


def recording(values: Mapping[str, Any], errors: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A recording of these values and errors."""
    readings: list[dict[str, Any]] = [{"key": key, "value": item} for key, item in values.items()]
    readings += [{"key": key, "error": item} for key, item in (errors or {}).items()]
    frame = {"format": "gpuscan-recording", "schema_version": "1.0", "scope": ["*"]}
    return {**frame, "readings": [{**each, "at": 1.0, "ms": 0.1} for each in readings]}


class Fake:
    """One scenario, its log, and programs run against it."""

    def __init__(self, library: Path, folder: Path) -> None:
        """Two healthy GPUs, until another scenario is written."""
        self.library, self.scenario, self.log = library, folder / "scenario", folder / "log"
        self.write(recording(NODE))

    def write(self, what: Mapping[str, Any], **options: Any) -> None:
        """Replace the scenario."""
        write_scenario(what, self.scenario, **options)

    @property
    def env(self) -> dict[str, str]:
        """The environment for a program that is to see the fake."""
        return environment(self.library, self.scenario, self.log)

    def run(self, *command: str, text: str = "") -> str:
        """Run Python with these arguments, which must succeed, and return what it printed."""
        whole = [sys.executable, *command]
        done = subprocess.run(
            whole,
            input=text,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=ENOUGH_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, *keys: str) -> list[Any]:
        """The answer to each key: the value, or NVML's code as ``(code, text)``."""
        rows = self.run(ASK, text=json.dumps(keys)).splitlines()
        return [
            row["value"] if "value" in row else (row["error"]["code"], row["error"]["text"])
            for row in map(json.loads, rows)
        ]
