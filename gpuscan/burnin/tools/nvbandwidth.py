"""`nvbandwidth`, as JSON or as text: each testcase's verification, and the rates that a profile has
floors for.
"""

import json
import re
from typing import Any, NamedTuple

from gpuscan.burnin.tools import nvbandwidth_text
from gpuscan.burnin.tools.output import (
    ODDITIES,
    Output,
    brief,
    by_index,
    last_words,
    number,
    rate,
    record,
)
from gpuscan.model.burnin import BurnTest, Ending, Rate
from gpuscan.pci import PCI, pci_address

NOT_RUN = ("waived", "not found")  # needs more GPUs, or is unknown to this build
# what it says of data that arrived wrong, in its JSON or before; it ends there
CORRUPT = "Invalid value when checking the pattern"
TO_GPU, TO_HOST = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"
BOTH = ("host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce")
ONE_WAY = ("device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce")
PEERS_BOTH = (
    "device_to_device_bidirectional_memcpy_read_ce",
    "device_to_device_bidirectional_memcpy_write_ce",
)
LOCAL = "device_local_copy"


class MatrixCell(NamedTuple):
    """A rate in GB/s, and whose: GPU, or GPUs of row and column."""

    gbps: float
    whose: str


def parse(output: Output) -> list[BurnTest]:
    """Make one record a testcase; raises ValueError where there is none in the output."""
    wrong = next((line.strip(' ",') for line in output.stdout.splitlines() if CORRUPT in line), "")
    root = _root(output)
    if root is None and wrong:
        return [record(output, "verification", ended=Ending.FAILED, text=brief(wrong))]
    if root is None:
        raise ValueError(f"no JSON came ({last_words(output)})")
    error = str(root.get("error") or "")
    cases = list(root.get("testcases") or ())
    names = _names(output, root)
    records = [_safely(output, case, cases, names) for case in cases]
    if wrong:
        at_work = (
            f"{cases[-1]['name']}: "
            if cases and isinstance(cases[-1], dict) and cases[-1].get("name")
            else ""
        )
        records.append(
            record(output, "verification", ended=Ending.FAILED, text=brief(at_work + wrong))
        )
    elif error and records:
        records.append(
            record(
                output, "error", ended=output.unread("garbled", f"nvbandwidth ended early: {error}")
            )
        )
    elif not records:
        raise ValueError(error or "it holds no testcase")
    return records


def _root(output: Output) -> dict[str, Any] | None:
    start = output.stdout.find("{")
    if start >= 0:
        document: dict[str, Any] = json.JSONDecoder().raw_decode(output.stdout, start)[0]
        return dict(document["nvbandwidth"])
    if nvbandwidth_text.is_text(output.stdout):
        return nvbandwidth_text.document(output.stdout)
    return None


def _safely(output: Output, case: Any, cases: list[dict[str, Any]], names: list[str]) -> BurnTest:
    """Make a testcase's record; what makes no sense in one takes nothing from the others."""
    try:
        return _case(output, case, cases, names)
    except ODDITIES as error:
        name = str(case.get("name", "")) if isinstance(case, dict) else ""
        return record(
            output,
            name[:80] or "unnamed",
            ended=output.unread("garbled", f"makes no sense: {error}"),
        )


def _names(output: Output, root: dict[str, Any]) -> list[str]:
    """Return the GPUs' labels in its order: by the addresses that it lists, else NVML's, which
    CUDA was told to follow.
    """
    listed = [re.search(PCI, str(line)) for line in root.get("GPU Device list") or ()]
    addresses = [pci_address(hit["address"]) if hit else "" for hit in listed]
    known = {gpu.address: gpu.label for gpu in output.gpus}
    names = []
    for index in range(max(len(addresses), len(output.gpus))):
        gpu = by_index(output, index)
        address = addresses[index] if index < len(addresses) else ""
        names.append(
            known.get(address, f"GPU {address}")
            if address
            else gpu.label
            if gpu
            else f"GPU {index}"
        )
    return names


def _case(
    output: Output, case: dict[str, Any], cases: list[dict[str, Any]], names: list[str]
) -> BurnTest:
    name, status = str(case["name"]), str(case["status"]).lower()
    said = brief(str(case.get("error") or ""))
    if status == "error":
        return record(
            output,
            name,
            ended=Ending.FAILED,
            text=said or "nvbandwidth reported an error and no reason",
        )
    if status in NOT_RUN:
        return record(
            output,
            name,
            ended=output.unread("not-recorded", f"nvbandwidth did not run it: {case['status']}"),
        )
    if status != "passed":
        return record(
            output,
            name,
            ended=output.unread("garbled", f"nvbandwidth's status {case['status']!r} says nothing"),
        )
    made = _rate(output, case, cases, names)
    if made is None:
        return record(output, name, ended=Ending.RAN, text=said)
    rates, whose = made
    return record(output, name, ended=Ending.RAN, text=f"least: {whose}", rates=(rates,))


def _rate(
    output: Output, case: dict[str, Any], cases: list[dict[str, Any]], names: list[str]
) -> tuple[Rate, str] | None:
    """Return the least rate of a testcase that a floor is for, and whose it is.

    Floors for copies by our kernels, and both ways at once, are not for what copy engines do: those
    labels are their own. Its two-way testcases of the host tell one way while the other is busy:
    both belong together. Its local copy counts what was copied, of which the memory reads and
    writes each byte. Its two-way testcases of peers stack up three tables in one, of which the last
    is the total.
    """
    name = case["name"]
    if name in (TO_GPU, TO_HOST):
        cells, label = (
            _cells(case, names),
            "pcie_to_card_gbps" if name == TO_GPU else "pcie_to_host_gbps",
        )
    elif name == BOTH[1]:
        other = [
            one
            for one in cases
            if one["name"] == BOTH[0] and str(one["status"]).lower() == "passed"
        ]
        pairs = zip(_cells(case, names), _cells(other[0], names), strict=True) if other else ()
        cells, label = (
            [MatrixCell(one.gbps + two.gbps, one.whose) for one, two in pairs],
            "pcie_both_added_gbps",
        )
        if not other:
            return None
    elif name in ONE_WAY:
        cells, label = _cells(case, names), "peer_one_way_gbps"
    elif name in PEERS_BOTH and "Total" in str(case.get("bandwidth_description")):
        cells, label = _cells(case, names), "peer_both_gbps"
    elif name == LOCAL:
        cells, label = (
            [cell._replace(gbps=2 * cell.gbps) for cell in _cells(case, names)],
            "hbm_copy_engine_gbps",
        )
    else:
        return None
    least = min(cells, key=lambda cell: cell.gbps)
    return rate(output, label, [cell.gbps for cell in cells]), least.whose


def _cells(case: dict[str, Any], names: list[str]) -> list[MatrixCell]:
    """Return the numbers of a table: one row, a column a GPU, or (the last of them) a square of
    pairs without its diagonal.
    """
    rows = [list(row) for row in case["bandwidth_matrix"]]
    columns = len(rows[-1])
    if len(rows) == 1:
        return [
            MatrixCell(number(value), _name(names, at))
            for at, value in enumerate(rows[0])
            if value != "N/A"
        ]
    square = rows[-columns:]
    if len(square) != columns or any(len(row) != columns for row in square):
        raise ValueError("its table is neither a row nor a square")
    return [
        MatrixCell(number(value), f"{_name(names, row)} and {_name(names, column)}")
        for row, values in enumerate(square)
        for column, value in enumerate(values)
        if row != column and value != "N/A"
    ]


def _name(names: list[str], index: int) -> str:
    return names[index] if index < len(names) else f"GPU {index}"
