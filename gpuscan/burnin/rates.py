"""The speeds in a test's result, under the labels that profiles use for their floors.

One speed has one label all the way: the worker measures `numbers["tflops"]` in the test
`gemm-stress` with dtype bf16, and `rates` names it `gemm_bf16_tflops`. The records, the profile's
floors and the checks use that label; the report's measurement is `burnin.gemm_bf16_tflops`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# ml-engineering: 5 % between GPUs of one node is normal variation
NEAR_MEDIAN = 0.95
PCIE_TOGETHER = "pcie-together"  # the step that runs PCIe on all GPUs at once


class Collective(NamedTuple):
    """What a collective's bandwidth is of: `all-reduce`, `NVLS`, `8` ranks, `1GiB`.

    Its written form, `all-reduce NVLS 8 1GiB`, is a rate's label and a key of a profile's `nccl`.
    """

    operation: str
    transport: str
    ranks: str
    size: str

    def __str__(self) -> str:
        return " ".join(self)


def parse_collective(label: str) -> Collective | None:
    """Return the collective that a rate's label names, None for any other rate."""
    fields = label.split(" ")
    return Collective(*fields) if len(fields) == len(Collective._fields) else None


def rates(
    kind: str, name: str, options: Mapping[str, Any], numbers: Mapping[str, Any]
) -> dict[str, float]:
    """Return what a test measured, by label: TFLOP/s of a type, GB/s of memory, of PCIe, between
    GPUs and of collectives.

    Two kinds are labelled apart from their usual ones: PCIe with all GPUs at once, where the host's
    memory may be the limit, and traffic between GPUs that goes through the host. The exact
    product's speed is that of another kernel, and no measure.
    """
    if kind == "stress":
        return _numeric({f"gemm_{options.get('dtype')}_tflops": numbers.get("tflops")})
    if kind == "hbm":
        return _gbps("hbm", numbers)
    if kind == "pcie":
        return _gbps("pcie_together" if name == PCIE_TOGETHER else "pcie", numbers)
    if kind == "peer":
        pairs = list(numbers.get("peers", {}).values())
        direct = bool(pairs) and bool(pairs[0].get("direct"))
        merged = {name: value for pair in pairs for name, value in pair.items()}
        return _gbps("peer" if direct else "peer_through_host", merged)
    if kind == "nccl":
        size = f"{options.get('mib', 0) / 1024:g}GiB"
        way = str(numbers.get("transport")), str(numbers.get("ranks")), size
        bandwidths = numbers.get("busbw_gbps", {})
        return _numeric({str(Collective(name, *way)): value for name, value in bandwidths.items()})
    return {}


def upper_median(values: Iterable[float]) -> float:
    """Return the median; of an even number the better of the two middle values, so that the slower
    one of two GPUs stands out.
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def lower_median(values: Iterable[float]) -> float:
    """Return the median of what is better the lower it is, such as temperatures."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def is_below_median(rate: float, median: float) -> bool:
    """Return whether a speed lies so far below the node's median that it is tried again, and
    reported if it stays so.
    """
    return rate < NEAR_MEDIAN * median


def floor_labels(label: str) -> tuple[str, ...]:
    """Return the labels of the floors that a rate is held to; the first that a profile has counts.

    Where GPUs that should reach each other directly go through the host, or NCCL takes another way,
    the direct way's floor holds.

    >>> floor_labels("peer_through_host_both_gbps"), floor_labels("all-reduce shm 8 1GiB")
    (('peer_both_gbps',), ('all-reduce shm 8 1GiB', 'all-reduce p2p 8 1GiB'))
    """
    collective = parse_collective(label)
    if collective is None:
        return (label.replace("peer_through_host_", "peer_"),)
    if collective.transport in ("any", "p2p"):
        return (label,)
    return label, str(collective._replace(transport="p2p"))


def find_floor(label: str, burnin: Any) -> tuple[float, bool]:
    """Return the floor of a rate in a profile's `burnin` (0 if it has none), and whether that is an
    estimate.
    """
    is_collective = parse_collective(label) is not None
    floors = (burnin.get("nccl") or {}) if is_collective else burnin
    for each in floor_labels(label):
        floor = floors.get(each)
        if floor:
            return floor, ("nccl" if is_collective else each) in burnin.estimates
    return 0.0, False


def _gbps(prefix: str, numbers: Mapping[str, Any]) -> dict[str, float]:
    named = {f"{prefix}_{key}": value for key, value in numbers.items() if key.endswith("_gbps")}
    return _numeric(named)


def _numeric(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        label: float(value) for label, value in values.items() if isinstance(value, (int, float))
    }
