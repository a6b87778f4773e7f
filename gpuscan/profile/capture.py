"""`gpuscan profile`: list, show, validate and compare profiles, and write one from nodes that are
known to be good.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuscan import __version__, profile
from gpuscan.errors import UsageError
from gpuscan.model import Counter, Gpu, Node, is_unread

FEWEST_TO_FOLD = 3
FLOOR_SHARE = 0.85  # of the median: GPUs differ by 5 %, and a fault that matters by more than 10 %
CAPABILITIES = profile.schema()["properties"]["capabilities"]["items"]["enum"]


def captured(nodes: Sequence[Node]) -> str:
    """Return the YAML of a profile that these good nodes fit; raises UsageError where they or their
    GPUs differ.

    One node gives its own values. Of several (three at least) only what all share is expected: the
    driver's and firmware's lowest version becomes the floor.
    """
    if 1 < len(nodes) < FEWEST_TO_FOLD:
        raise UsageError(
            f"--from takes one recording, or {FEWEST_TO_FOLD} and more to fold, not {len(nodes)}"
        )
    data = [_one(node) for node in nodes]
    if len({json.dumps(one["match"]["device_ids"]) for one in data}) > 1:
        raise UsageError("these nodes hold GPUs of different models: capture each kind by itself")
    folded = data[0] if len(data) == 1 else _folded(data)
    return _yaml(folded, len(nodes))


def _one(node: Node) -> dict[str, Any]:
    if is_unread(node.gpus) or not node.gpus:
        raise UsageError("there is no NVIDIA GPU to capture a profile from")
    expected: dict[str, Any] = {"count": len(node.gpus)}
    for key, of in GPU_FACTS.items():
        expected[key] = _shared(key, [(one.label, _value(of, one)) for one in node.gpus])
    expected["slots"] = [one.label for one in node.gpus]
    machine = [word for word in (node.host.vendor, node.host.product) if not is_unread(word)]
    match = {
        "device_ids": [expected["device_id"]],
        **({"machines": [" ".join(machine)]} if machine else {}),
    }
    return {
        "match": match,
        "gpu": expected,
        "driver": {
            "version": _floor(node.driver.module_version),
            "flavour": _plain(node.driver.flavour),
        },
        "infiniband": _infiniband(node),
        "burnin": _floors(node),
        "capabilities": _capabilities(node.gpus),
    }


def _value(of: Callable[[Gpu], Any], gpu: Gpu) -> Any:
    value = of(gpu)
    return None if is_unread(value) else value


GPU_FACTS: dict[str, Callable[[Gpu], Any]] = {
    "name": lambda gpu: gpu.name,
    "device_id": lambda gpu: gpu.device_id,
    "memory_mib": lambda gpu: gpu.memory_mib,
    "pcie_width": lambda gpu: gpu.pcie.width,
    "pcie_generation": lambda gpu: gpu.pcie.max_generation,
    "nvlinks": lambda gpu: _active(gpu),
    "nvlink_rate_mb_s": lambda gpu: _slowest(gpu),
    "power_limit_w": lambda gpu: gpu.power.limit_w,
    "ecc": lambda gpu: gpu.ecc_mode if is_unread(gpu.ecc_mode) else gpu.ecc_mode.current,
    "mig": lambda gpu: gpu.mig_mode if is_unread(gpu.mig_mode) else gpu.mig_mode.current,
    "persistence": lambda gpu: gpu.persistence,
    "vbios": lambda gpu: gpu.vbios if is_unread(gpu.vbios) else f"=={gpu.vbios}",
    "fabric": lambda gpu: gpu.fabric if is_unread(gpu.fabric) else gpu.fabric.state == 3 or None,
}


def _active(gpu: Gpu) -> Any:
    """Return how many links are up: what all GPUs lack is so by design, or another check has
    refused the node.
    """
    if is_unread(gpu.nvlinks) or any(is_unread(link.active) for link in gpu.nvlinks):
        return None
    return sum(link.active for link in gpu.nvlinks)


def _slowest(gpu: Gpu) -> Any:
    if is_unread(gpu.nvlinks):
        return None
    rates = [link.rate_mb_s for link in gpu.nvlinks]
    return None if not rates or any(is_unread(rate) for rate in rates) else min(rates)


def _shared(key: str, pairs: Sequence[tuple[str, Any]]) -> Any:
    """Return what all GPUs have; raises UsageError where siblings differ: a profile must not
    bless an odd GPU.
    """
    values = {json.dumps(value) for _, value in pairs}
    if len(values) > 1:
        told = ", ".join(f"{label} {value}" for label, value in pairs)
        raise UsageError(
            f"the GPUs differ in {key} ({told}): mend the node before its profile is captured"
        )
    return pairs[0][1]


def _floors(node: Node) -> dict[str, Any]:
    """Return so much of each measured speed's median as the floor; nothing where no GPU was
    exercised.

    Of a node's GPUs at the same test the best try of each counts; of a latency more is worse. What
    is not among a profile's keys is left out.
    """
    measured: dict[str, list[float]] = {}
    for test in () if is_unread(node.tests) else node.tests:
        for rate in () if is_unread(test.rates) else test.rates:
            measured.setdefault(rate.label, []).append(max((rate.value, *rate.again)))
    floors = {
        label: round(_share(label) * sorted(values)[len(values) // 2], 1)
        for label, values in measured.items()
    }
    known = profile.schema()["properties"]["burnin"]["properties"]
    nccl = {label: floor for label, floor in floors.items() if " " in label}
    return {label: floor for label, floor in floors.items() if label in known and floor} | (
        {"nccl": nccl} if nccl else {}
    )


def _infiniband(node: Node) -> dict[str, Any]:
    if is_unread(node.ports):
        return {}
    rates = {port.rate_gbps for port in node.ports if not is_unread(port.rate_gbps)}
    found: dict[str, Any] = {"ports": len(node.ports)}
    if node.ports:
        found |= {
            "rate_gbps": min(rates, default=None),
            "hcas": sorted({port.hca for port in node.ports}),
        }
    return found


def _capabilities(gpus: Sequence[Gpu]) -> list[str]:
    """Return the facts that every GPU gave: from now on "not supported" there is unknown."""
    given = [name for name in CAPABILITIES if all(_whole(_fact(gpu, name)) for gpu in gpus)]
    return [name for name in given if name.partition(".")[0] not in given or "." not in name]


def _fact(gpu: Gpu, name: str) -> Any:
    """Return a GPU's fact by its name, of links that of each: `nvlinks.active`."""
    record, _, fact = name.partition(".")
    value: Any = getattr(gpu, record, None)
    if not fact or value is None or is_unread(value):
        return value
    return (
        getattr(value, fact)
        if hasattr(value, "_fields")
        else tuple(getattr(item, fact) for item in value)
    )


def _whole(value: Any) -> bool:
    """Tell whether a fact was read, with all that is in it; a counter that was read once is there
    without its growth.
    """
    if value is None or is_unread(value):
        return False
    if isinstance(value, Counter):
        return not is_unread(value.total)
    return not isinstance(value, tuple) or all(_whole(item) for item in value)


def _share(label: str) -> float:
    return 1 / FLOOR_SHARE if label.endswith("_us") else FLOOR_SHARE


def _plain(value: Any) -> Any:
    return None if is_unread(value) else value


def _floor(version: Any) -> str | None:
    return None if is_unread(version) else f">={version}"


def _folded(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all nodes share; where they differ the expectation is left open, and of versions
    the lowest holds.
    """
    from gpuscan.profile.version import parts

    folded: dict[str, Any] = {}
    for key in data[0]:
        values = [one.get(key) for one in data]
        if all(isinstance(value, Mapping) for value in values):
            folded[key] = _folded([value for value in values if isinstance(value, Mapping)])
        elif all(value == values[0] for value in values):
            folded[key] = values[0]
        elif all(isinstance(value, str) and value.startswith(">=") for value in values):
            folded[key] = min((str(value) for value in values), key=lambda value: parts(value[2:]))
        elif key == "capabilities":
            folded[key] = [
                name for name in values[0] or () if all(name in (value or ()) for value in values)
            ]
        else:
            folded[key] = None
    return folded


def _yaml(data: Mapping[str, Any], nodes: int) -> str:
    source = "a node that passed" if nodes == 1 else f"{nodes} nodes that passed"
    head = f"# Captured by gpuscan {__version__} from {source}; every value was read there.\n"
    lines = []
    for key, value in data.items():
        if isinstance(value, Mapping) and not value:
            continue
        if isinstance(value, Mapping):
            lines += [f"{key}:", *(f"  {name}: {_scalar(item)}" for name, item in value.items())]
        else:
            lines.append(f"{key}: {_scalar(value)}")
    return head + "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    """JSON is YAML for every value that a profile holds, and needs no quoting rules of its own."""
    return json.dumps(value)


def listed(format_: str) -> str:
    """Return every profile that a name can mean, with its description and file."""
    rows = []
    for name, path in sorted(profile.known_names().items()):
        rows.append(
            {
                "name": name,
                "description": profile.load(name).data.get("description", ""),
                "file": path,
            }
        )
    if format_ == "json":
        return json.dumps(rows, indent=1) + "\n"
    width = max(len(row["name"]) for row in rows)
    return "".join(f"{row['name']:<{width}}  {row['description']}\n" for row in rows)


def shown(name: str, settings: Sequence[str], format_: str) -> str:
    """Return a profile as it is judged by, with its parents' values."""
    loaded = profile.load(name, settings)
    if format_ == "json":
        return json.dumps({"name": loaded.name, **loaded.data}, indent=1) + "\n"
    return _yaml({key: value for key, value in loaded.data.items() if key != "match"}, 0).split(
        "\n", 1
    )[1]


def compared(first: str, second: str, format_: str) -> str:
    """Return the expectations in which two profiles differ."""
    left, right = (dict(_flat(profile.load(name).data)) for name in (first, second))
    rows = [
        (key, left.get(key), right.get(key))
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key)
    ]
    if format_ == "json":
        return (
            json.dumps([{"key": key, "first": a, "second": b} for key, a, b in rows], indent=1)
            + "\n"
        )
    return (
        "".join(
            f"{key}: {json.dumps(a)} in {first}, {json.dumps(b)} in {second}\n"
            for key, a, b in rows
        )
        or "no difference\n"
    )


def _flat(data: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in data.items():
        branch = isinstance(value, Mapping) and value and above + key not in profile.TABLES
        pairs += _flat(value, f"{above}{key}.") if branch else [(f"{above}{key}", value)]
    return pairs
