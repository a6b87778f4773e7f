"""The speeds in a test's result, by the labels that profiles' floors have."""

from collections.abc import Iterable, Mapping
from typing import Any


def rates(
    kind: str, name: str, options: Mapping[str, Any], numbers: Mapping[str, Any]
) -> dict[str, float]:
    """Return what a test measured: TFLOP/s of a type, GB/s of memory, of PCIe, between GPUs, of a
    collective.

    With all GPUs at once on PCIe the host's memory may be the limit: those are labelled apart, and
    so is traffic between GPUs that does not go directly. The exact product's speed is that of
    another kernel, and no measure.
    """
    if kind == "stress":
        return _found({f"gemm_{options.get('dtype')}_tflops": numbers.get("tflops")})
    if kind == "hbm":
        return _found(
            {f"hbm_{key}": value for key, value in numbers.items() if key.endswith("_gbps")}
        )
    if kind == "pcie":
        apart = "pcie_together" if name.endswith("together") else "pcie"
        return _found(
            {f"{apart}_{key}": value for key, value in numbers.items() if key.endswith("_gbps")}
        )
    if kind == "peer":
        pairs = list(numbers.get("peers", {}).values())
        apart = "peer" if pairs and pairs[0].get("direct") else "peer_through_host"
        return _found(
            {
                f"{apart}_{key}": value
                for pair in pairs
                for key, value in pair.items()
                if key.endswith("_gbps")
            }
        )
    if kind == "nccl":
        tail = (
            f"{numbers.get('transport')} {numbers.get('ranks')} {options.get('mib', 0) / 1024:g}GiB"
        )
        return _found(
            {f"{op} {tail}": value for op, value in numbers.get("busbw_gbps", {}).items()}
        )
    return {}


def middle(values: Iterable[float]) -> float:
    """Return the median; of two it is the better one, so that the other one stands out."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def held_to(label: str) -> tuple[str, ...]:
    """Return the labels of the floors that a rate is held to; the first that a profile has counts.

    Where GPUs that should reach each other go through the host, or NCCL takes another way, the
    direct way's floor holds.

    >>> held_to("peer_through_host_both_gbps"), held_to("all-reduce shm 8 1GiB")
    (('peer_both_gbps',), ('all-reduce shm 8 1GiB', 'all-reduce p2p 8 1GiB'))
    """
    if " " not in label:
        return (label.replace("peer_through_host_", "peer_"),)
    operation, way, *rest = label.split(" ")
    return (label,) if way in ("any", "p2p") else (label, " ".join((operation, "p2p", *rest)))


def _found(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        label: float(value) for label, value in values.items() if isinstance(value, (int, float))
    }
