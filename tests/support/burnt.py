"""Burn-ins made by hand: tests of any number of GPUs, with one that is slow and others that tell
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from building import demo_node, lost, plain, report_of

from gpuscan.engine.measurements import measurements_of
from gpuscan.engine.report import Report
from gpuscan.model import BurnTest, Ending, Load, Rate, Unread, is_unread
from gpuscan.model.outcome import Result, Status
from gpuscan.model.report_rows import ReportedGpu

NOT: Any = Unread("", "not-recorded", "the test does not tell it")
SPEEDS = {"bf16": 699.1, "fp8": 1226.4, "fp16": 690.2, "tf32": 371.3, "int8": 1301.0, "fp64": 58.2}
HBM = {"read": 3061.2, "write": 2871.9, "copy": 2903.1, "triad": 2951.4}
PCIE = {"to_card": 55.31, "to_host": 54.92, "both": 92.44}


def gpus(number: int) -> tuple[str, ...]:
    return tuple(f"SXM{n}" for n in range(1, number + 1))


def address(gpu: str) -> str:
    return f"0000:{int(gpu.removeprefix('SXM')):02x}:00.0" if gpu.startswith("SXM") else ""


def burn_test(gpu: str, name: str, rates: Any = (), **facts: Any) -> BurnTest:
    """One test; *rates* by label, or Unread; what *facts* leave out was not recorded."""
    to = facts.get("to", "")
    fixed: dict[str, Any] = {
        "label": f"{gpu} {name}{f' {to}' if to else ''}",
        "name": name,
        "part": "",
        "address": address(gpu),
        "kind": name.partition("-")[0],
        "gpu": gpu,
        "to": to,
        "hot": name.endswith("-hot"),
        "seconds": 15.25,
        "ended": "ran",
        "rates": rates
        if is_unread(rates)
        else tuple(Rate(label, value, (), NOT) for label, value in dict(rates).items()),
    }
    made = {
        **dict.fromkeys(BurnTest._fields, NOT),
        "mismatches_again": (),
        "wrong_beside": 0,
        **fixed,
        **facts,
    }
    if isinstance(made["ended"], str):
        made["ended"] = Ending(made["ended"])
    return BurnTest(**made)


def load(**facts: Any) -> Load:
    return Load(**{**dict.fromkeys(Load._fields, NOT), **facts})


def whole(number: int, slow: str = "", by: float = 0.88) -> tuple[BurnTest, ...]:
    """What a level does to so many GPUs; *slow* is slower than the others by a factor in all that
    it does.
    """
    made = []
    for n, gpu in enumerate(gpus(number)):
        factor = (by if gpu == slow else 1.0) * (1 - 0.002 * (n % 3))
        warm = load(
            core_c=61 + n,
            memory_c=72 + n,
            power_w=697.25 - n,
            sm_clock_mhz=int(1755 * factor),
            tensor_active=0.91,
        )
        for dtype, speed in SPEEDS.items():
            rates = {f"gemm_{dtype}_tflops": speed * factor}
            compared: dict[str, Any] = {"what": "results", "operations": 4112, "mismatches": 0}
            made.append(burn_test(gpu, f"stress-{dtype}", rates, load=warm, **compared))
        made.append(
            burn_test(
                gpu, "hbm", {f"hbm_{name}_gbps": speed * factor for name, speed in HBM.items()}
            )
        )
        made.append(
            burn_test(
                gpu, "pcie", {f"pcie_{name}_gbps": speed * factor for name, speed in PCIE.items()}
            )
        )
        together = {
            f"pcie_together_{name}_gbps": speed * factor * 0.8 for name, speed in PCIE.items()
        }
        made.append(burn_test(gpu, "pcie-together", together))
        words = {"what": "words read", "operations": 9_500_000_000, "mismatches": 0}
        made.append(burn_test(gpu, "memory", **words))
        for to in gpus(number):
            factor = by if slow in (gpu, to) else 1.0
            rates = {"peer_one_way_gbps": 391.4 * factor, "peer_both_gbps": 760.0 * factor}
            made += [burn_test(gpu, "peer", rates, to=to)] if to != gpu else []
    return tuple(made)


def burnt(tests: Sequence[BurnTest], *results: Result, **changes: Any) -> Report:
    """The report of a node of which only the burn-in is known."""
    node: Any = demo_node(tests=tuple(tests))
    named = dict.fromkeys(test.gpu for test in tests if test.gpu != "node")
    parts = tuple(
        ReportedGpu("gpu", gpu, address(gpu), name="H100", device_id="10de:2330") for gpu in named
    )
    rows = measurements_of(node._replace(gpus=lost(), ports=lost()))
    return report_of(
        *(results or (plain(Status.PASS),)), **{"parts": parts, "measurements": rows, **changes}
    )
