"""Write a profile from nodes that are known to be good (`gpuscan profile capture`).

What is captured of which key is `x-capture` in the schema: *fact*, the path of a fact in the node
(`gpus.pcie.width`; of each GPU, and all must agree); *fold* (count, list, set, min, sum), how the
values of a list become one; *format*, a text around the value; *equals*, the value that makes the
expectation true; *names*, the words for a number.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuscan import __version__
from gpuscan.errors import UsageError
from gpuscan.model import Counter, Fabric, Fact, Gpu, Node, NvLink, Port, is_unread, read_or
from gpuscan.model.gpu import capability_names
from gpuscan.profile.keys import annotated, load_schema
from gpuscan.profile.listing import render_yaml
from gpuscan.profile.version import parts

FEWEST_TO_FOLD = 3


def _in_order(label: Any) -> tuple[Any, ...]:
    """Return a key that sorts SXM2 before SXM10."""
    return tuple((word.isdigit(), word.zfill(9)) for word in re.findall(r"\d+|\D+", str(label)))


def _plain(value: Any) -> Any:
    """Return a whole number as one: 700, not 700.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


FLOOR_SHARE = 0.85  # of the median: GPUs differ by 5 %, and a fault that matters by more than 10 %
FOLDS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "count": len,
    "list": lambda values: sorted(values, key=_in_order),
    "set": lambda values: sorted(set(values), key=_in_order),
    "min": min,
    "sum": sum,
}


def capture_profile(nodes: Sequence[Node], warned: Sequence[str] = ()) -> str:
    """Return the YAML of a profile that these good nodes fit; *warned* are the checks that warned
    on them, which its first line tells.

    One node gives its own values. Of several only what all share is expected, and the lowest of
    their versions. Raises UsageError for two nodes, for nodes without GPUs, and where GPUs differ.
    """
    if 1 < len(nodes) < FEWEST_TO_FOLD:
        raise UsageError(
            f"--from takes one recording, or {FEWEST_TO_FOLD} and more to fold, not {len(nodes)}"
        )
    data = [_capture(node) for node in nodes]
    if len({json.dumps(captured["match"]["device_ids"]) for captured in data}) > 1:
        raise UsageError("these nodes hold GPUs of different models: capture each kind by itself")
    folded = data[0] if len(data) == 1 else _fold(data)
    source = "a node that passed" if len(nodes) == 1 else f"{len(nodes)} nodes that passed"
    source += f" (with warnings of {', '.join(warned)})" if warned else ""
    head = f"# Captured by gpuscan {__version__} from {source}; every value was read there.\n"
    return head + render_yaml(folded)


def _capture(node: Node) -> dict[str, Any]:
    gpus = read_or(node.gpus, ())
    if not gpus:
        raise UsageError("there is no NVIDIA GPU to capture a profile from")
    node = node._replace(ports=_rails(node))
    areas: dict[str, dict[str, Any]] = {}
    for path, rule in annotated("x-capture").items():
        area, key = path.split(".")
        expectations = areas.setdefault(area, {})
        if rule["fact"].startswith("gpus.") and rule.get("fold") != "list":
            fact = rule["fact"].removeprefix("gpus.")
            values = [(gpu.label, _value(rule, _walk(gpu, fact))) for gpu in gpus]
            expectations[key] = _plain(_agree(key, values))
            continue
        found = _walk(node, rule["fact"])
        if found or (found is not None and rule.get("fold") == "count"):
            expectations[key] = _plain(_value(rule, found))
    machine = [name for name in (node.host.vendor, node.host.product) if not is_unread(name)]
    match = {"device_ids": [areas["gpu"]["device_id"]]}
    if machine:
        match["machines"] = [" ".join(machine)]
    return {
        "match": match,
        **areas,
        "burnin": _floors(node),
        "capabilities": _capabilities(gpus),
    }


def _rails(node: Node) -> Fact[tuple[Port, ...]]:
    """Return the InfiniBand ports to expect: those that are active at the highest rate.

    Slower ones may be storage's, spares and virtual functions are nobody's. Raises UsageError where
    ports of one board type differ in rate, or one that was up is not active any more.
    """
    if is_unread(node.ports):
        return node.ports
    physical = [port for port in node.ports if port.virtual is not True]
    for port in physical:
        downs = 0 if is_unread(port.link_downed) else port.link_downed.total
        if port.state != "ACTIVE" and (port.seen_up is True or downs):
            raise UsageError(
                f"port {port.label} was up and is {read_or(port.state, 'unread')} now: repair the"
                " node before you capture its profile"
            )
    active = [port for port in physical if port.state == "ACTIVE"]
    if any(is_unread(port.rate_gbps) for port in active):
        return tuple(active)
    for board in dict.fromkeys(read_or(port.board_id, "") for port in active):
        _agree(
            "rate_gbps",
            [
                (port.label, port.rate_gbps)
                for port in active
                if read_or(port.board_id, "") == board
            ],
            "ports",
        )
    best = max((read_or(port.rate_gbps, 0.0) for port in active), default=0.0)
    return tuple(port for port in active if port.rate_gbps == best)


def _walk(record: Any, path: str) -> Any:
    """Return the fact at a dotted path, None if it was not read; of a list, a tuple of values."""
    for name in path.split("."):
        if is_unread(record):
            return None
        if type(record) is tuple:
            record = tuple(getattr(item, name) for item in record)
        else:
            record = getattr(record, name)
    return read_or(record, None)


def _value(rule: Mapping[str, Any], fact: Any) -> Any:
    """Return the expectation that *rule* makes of a fact, None to leave it open."""
    if fact is None:
        return None
    if "equals" in rule:
        return fact == rule["equals"] or None
    if "names" in rule:
        return rule["names"][fact] if fact < len(rule["names"]) else None
    if "format" in rule:
        return rule["format"].format(fact)
    if "fold" not in rule:
        return fact
    if any(is_unread(value) for value in fact) or (not fact and rule["fold"] == "min"):
        return None
    return FOLDS[rule["fold"]](fact)


def _agree(key: str, pairs: Sequence[tuple[str, Any]], what: str = "GPUs") -> Any:
    """Return what all GPUs or ports have; raises UsageError where they differ: a profile must not
    bless an odd part.
    """
    if len({json.dumps(value) for _, value in pairs}) > 1:
        listing = ", ".join(f"{label} {value}" for label, value in pairs)
        raise UsageError(
            f"the {what} differ in {key} ({listing}): repair the node before you capture its"
            " profile"
        )
    return pairs[0][1]


def _floors(node: Node) -> dict[str, Any]:
    """Return a share of each measured speed's median as its floor; empty without a burn-in.

    The best try of each test counts. A latency gets a ceiling. Speeds that are not among the
    profile's keys are left out.
    """
    measured: dict[str, list[float]] = {}
    for test in read_or(node.tests, ()):
        for rate in read_or(test.rates, ()):
            measured.setdefault(rate.label, []).append(max((rate.value, *rate.again)))
    floors = {
        label: round(_share(label) * sorted(values)[len(values) // 2], 1)
        for label, values in measured.items()
    }
    known = load_schema()["properties"]["burnin"]["properties"]
    kept: dict[str, Any] = {
        label: floor for label, floor in floors.items() if label in known and floor
    }
    nccl = {label: floor for label, floor in floors.items() if " " in label}
    return kept | ({"nccl": nccl} if nccl else {})


def _share(label: str) -> float:
    return 1 / FLOOR_SHARE if label.endswith("_us") else FLOOR_SHARE


def _capabilities(gpus: Sequence[Gpu]) -> list[str]:
    """Return the facts that every GPU gave, parts of a record only if the whole was not given."""
    given = [name for name in capability_names() if all(_is_given(gpu, name) for gpu in gpus)]
    return [name for name in given if name.partition(".")[0] not in given or "." not in name]


def _is_given(gpu: Gpu, name: str) -> bool:
    return _is_whole(_walk(gpu, name))


def _is_whole(value: Any) -> bool:
    """Return whether a fact was read with all of it that was asked for; of a counter only the total
    counts.
    """
    if value is None or is_unread(value):
        return False
    if isinstance(value, Fabric | NvLink):  # what only some generations have was not asked for
        value = tuple(one for one in value if not is_unread(one) or one.kind != "not-recorded")
    if isinstance(value, Counter):
        return not is_unread(value.total)
    return not isinstance(value, tuple) or all(_is_whole(item) for item in value)


def _fold(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all nodes share, and the lowest of their versions; the rest is left open."""
    folded: dict[str, Any] = {}
    for key in data[0]:
        values = [captured.get(key) for captured in data]
        if all(isinstance(value, Mapping) for value in values):
            folded[key] = _fold([value for value in values if isinstance(value, Mapping)])
        elif key == "capabilities":
            common = set.intersection(*(set(value or ()) for value in values))
            folded[key] = [name for name in values[0] or () if name in common]
        else:
            folded[key] = _fold_values(values)
    return folded


def _fold_values(values: Sequence[Any]) -> Any:
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, str) and value.startswith(">=") for value in values):
        return min(values, key=lambda version: parts(version.removeprefix(">=")))
    return None
