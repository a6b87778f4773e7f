"""`dcgmi diag`, of DCGM 2 to 4: what each test said of each GPU, and what its error codes ask for.

This module reads the JSON; the table is dcgm_table's.
"""

import json
from typing import Any

from gpuscan.burnin.tools import dcgm_table
from gpuscan.burnin.tools.dcgm_words import (
    RAN,
    SKIPPED,
    SKIPS,
    DcgmOutcome,
    code_name,
    ending,
    heaviest,
    weight,
)
from gpuscan.burnin.tools.output import (
    ODDITIES,
    Absent,
    Output,
    brief,
    by_index,
    last_words,
    record,
)
from gpuscan.model import Gpu, is_unread
from gpuscan.model.burnin import BurnTest, Ending

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
ABORTED = 47  # the code beside a skip that came in the middle of the test
NO_ENGINE = "unable to connect to host engine"


def parse(output: Output) -> list[BurnTest]:
    """Make the records: one a GPU (or other entity) where a test did not end alike on all of them,
    else one a test.

    Raises ValueError (or what else broken JSON leads to) where there is no result in the output.
    """
    if dcgm_table.is_table(output.stdout):
        return dcgm_table.parse(output)
    document = _document(output)
    serials = _serials(document)
    runs = document["iterations"] if isinstance(document.get("iterations"), list) else [document]
    records: list[BurnTest] = []
    for run in runs:
        root: dict[str, Any] = next((run[name] for name in ROOTS if name in run), {})
        error = root.get("runtime_error") or run.get("runtime_error")
        if error:
            lack = output.unread("garbled", f"DCGM could not run all of its tests: {error}")
            records.append(record(output, "runtime", ended=lack))
        tests = [
            test for each in root.get("test_categories") or () for test in each["tests"] if test
        ]
        if not tests and not error:
            raise ValueError("it holds no test's result")
        records += [
            made for test in tests for made in _safely(output, test, serials or _serials(run))
        ]
    if not records:
        raise ValueError("it holds no test's result")
    return records


def _document(output: Output) -> dict[str, Any]:
    """Return the JSON object, which other lines may precede."""
    text = output.stdout
    start = next(
        (
            at
            for at, char in enumerate(text)
            if char == "{" and text[at + 1 : at + 81].lstrip()[:1] == '"'
        ),
        -1,
    )
    if start < 0:
        if NO_ENGINE in (text + output.stderr).lower():
            raise Absent("nv-hostengine is not running: systemctl start nvidia-dcgm")
        raise ValueError(f"no JSON came ({last_words(output)})")
    document = json.JSONDecoder().raw_decode(text, start)[0]
    return dict(document)


def _serials(document: dict[str, Any]) -> dict[str, str]:
    """Return the serial number that DCGM gives for each of its GPU ids."""
    inner: dict[str, Any] = next((document[name] for name in ROOTS if name in document), {})
    told = document.get("GPU Device Serials") or inner.get("GPU Device Serials") or {}
    found = {str(id_): str(serial) for id_, serial in told.items()}
    for group in document.get("entity_groups") or ():
        if group.get("entity_group") == "GPU":
            found |= {
                str(one["entity_id"]): str(one["serial_num"])
                for one in group.get("entities") or ()
                if one.get("serial_num")
            }
    return found


def _safely(output: Output, test: Any, serials: dict[str, str]) -> list[BurnTest]:
    """Make a test's records; what makes no sense in one test takes nothing from the others."""
    try:
        return _test(output, test, serials)
    except ODDITIES as error:
        name = str(test.get("name", "")) if isinstance(test, dict) else ""
        return [
            record(
                output,
                name[:80] or "unnamed",
                ended=output.unread("garbled", f"makes no sense: {error}"),
            )
        ]


def _test(output: Output, test: dict[str, Any], serials: dict[str, str]) -> list[BurnTest]:
    name = str(test["name"])
    found: dict[tuple[str, str], DcgmOutcome] = {}
    for result in test.get("results") or ():
        said = _outcome(output, result)
        for entity in _entities(result):
            found[entity] = max(found.get(entity, said), said, key=weight)
    summary = test.get("test_summary")
    whole = _outcome(output, summary) if summary else None
    worst = max(found.values(), key=weight, default=None)
    if whole is not None and (worst is None or weight(whole) > weight(worst) or whole.action):
        found[("", "")] = max(
            found.get(("", ""), whole), whole, key=weight
        )  # with what is wrong on no GPU in particular
    if not found:
        raise ValueError("it has no result")
    if len({weight(one) for one in found.values()}) == 1 and weight(next(iter(found.values()))) in (
        RAN,
        SKIPPED,
    ):
        return [record(output, name, **next(iter(found.values()))._asdict())]
    return [_record(output, name, entity, said, serials) for entity, said in found.items()]


def _record(
    output: Output, name: str, entity: tuple[str, str], said: DcgmOutcome, serials: dict[str, str]
) -> BurnTest:
    group, id_ = entity
    gpu = _gpu(output, id_, serials) if group == "GPU" else None
    part = name if gpu is not None else f"{name} {group} {id_}".strip()
    return record(output, part, gpu, **said._asdict())


def _gpu(output: Output, id_: str, serials: dict[str, str]) -> Gpu | None:
    """Return the GPU of one of DCGM's ids: by its serial number, else as NVML's index, which a
    lost GPU may shift.
    """
    serial = serials.get(id_)
    named = [gpu for gpu in output.gpus if not is_unread(gpu.serial) and gpu.serial == serial]
    if named:
        return named[0]
    found = by_index(output, int(id_)) if id_.isdecimal() else None
    known = found is not None and serial is not None and not is_unread(found.serial)
    return None if known else found


def _entities(result: dict[str, Any]) -> list[tuple[str, str]]:
    if "entity_id" in result:
        return [(str(result.get("entity_group", "GPU")), str(result["entity_id"]))]
    told = result.get("gpu_id", result.get("gpu_ids", ""))
    if type(told) is int and (told < 0 or len(result.get("warnings") or ()) > 1):
        return [
            ("", "")
            # DCGM 3 has one result of all GPUs for its software tests, and the number is the last
            # error's
        ]
    return [("GPU", id_.strip()) for id_ in str(told).split(",") if id_.strip()] or [("", "")]


def _outcome(output: Output, result: dict[str, Any]) -> DcgmOutcome:
    status = str(result.get("status", "")).strip().lower()
    told = result.get("warnings") or []
    warnings = [told] if isinstance(told, str) else list(told)
    codes = [one["error_id"] for one in warnings if isinstance(one, dict) and one.get("error_id")]
    words = [
        one.get("warning", one.get("warnings", "")) if isinstance(one, dict) else one
        for one in warnings
    ]
    text = "; ".join(filter(None, [*map(code_name, codes), *map(str, words)]))
    if status in SKIPS and ABORTED in codes:
        return DcgmOutcome(output.unread("garbled", f"DCGM broke it off: {text}"))
    if status in SKIPS:
        info = result.get("info") or "without a reason"
        reason = text or (info if isinstance(info, str) else "; ".join(map(str, info)))
        return DcgmOutcome(output.unread("not-recorded", f"DCGM left it out: {reason}"))
    ended: Any = ending(status)
    if ended is None:
        return DcgmOutcome(
            output.unread("garbled", f"DCGM's status {status!r} says nothing"), brief(text)
        )
    if ended == Ending.RAN and codes:
        ended = Ending.WARNED
    text = text or (f"DCGM says no more than {result['status']}" if ended != Ending.RAN else "")
    return DcgmOutcome(
        ended,
        brief(text),
        heaviest(codes),
    )
