"""What of a run goes into last.json and into the archive, and whose it is."""

import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuscan.engine.blame import Target, find_targets
from gpuscan.engine.hold import CHECK, summary
from gpuscan.engine.partial import told
from gpuscan.engine.report import Report
from gpuscan.model import Held
from gpuscan.model.identity import real
from gpuscan.model.proof import PROOF
from gpuscan.model.report_rows import RunInfo
from gpuscan.recording import Recording
from gpuscan.renderers.headline import headline
from gpuscan.state import last
from gpuscan.state.holds import stored


class Whose(NamedTuple):
    """Whose state a run belongs to: the machine's key in the archive, its ids for last.json, its
    boot, its time.
    """

    key: str
    ids: dict[str, str]
    boot_id: str
    at_s: float


def whose(recording: Recording) -> Whose:
    """Return the machine that a recording is of, by machine id, else by DMI serial, else by host
    name.
    """
    words = {
        "machine_id": recording.get("file:/etc/machine-id"),
        "dmi_serial": recording.get("file:/sys/class/dmi/id/product_serial"),
        "hostname": recording.get("file:/proc/sys/kernel/hostname"),
        "boot_id": recording.get("file:/proc/sys/kernel/random/boot_id"),
    }
    ids = {name: real(value) or "" for name, value in words.items()}
    boot_id = ids.pop("boot_id")
    key = next((f"{name}:{value}" for name, value in ids.items() if value), _by_gpu(recording))
    made_at = recording.meta.made_at
    return Whose(
        key, ids, boot_id, float(made_at) if isinstance(made_at, (int, float)) else time.time()
    )


def fingerprint(recording: Recording) -> str:
    """Return a digest that distinguishes recordings of one machine and time."""
    data = repr(
        [
            recording.meta.made_at,
            *((reading.key, reading.value, reading.error) for reading in recording),
        ]
    )
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _by_gpu(recording: Recording) -> str:
    """Name a machine without ids by its first GPU: two such machines must not share a hold."""
    serials = sorted(key for key in recording.keys() if key.startswith("nvml:nvmlDeviceGetSerial("))
    return next(
        (f"card:{serial}" for key in serials if (serial := real(recording.get(key)))),
        f"unknown:{fingerprint(recording)}",
    )


def document_of(report: Report, owner: Whose, held: Sequence[Held], swap: Any) -> dict[str, Any]:
    """Return last.json."""
    run = report.run
    limits = told(report.partial)
    whole, awake = summary(held), [one for one in held if not one.asleep]
    return {
        "format": last.FORMAT,
        "schema_version": last.SCHEMA_VERSION,
        "gpuscan_version": run.gpuscan_version,
        "machine": owner.ids,
        "boot_id": owner.boot_id,
        "at": owner.at_s,
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "complete": report.complete,
        "action": report.action.value,
        "headline": headline(report),
        "profile": run.profile.name,
        "level": _level(run),
        "scope": {"full": not limits, "limits": limits},
        "hold": None if whole is None else {**whole, "reasons": stored(awake)},
        "asleep": stored(one for one in held if one.asleep),
        "swap": swap,
    }


def row_of(report: Report, owner: Whose, source: str, fingerprint: str) -> dict[str, Any]:
    """Return the archive's row of a run, with what it found."""
    run = report.run
    return {
        "uuid": os.urandom(16).hex()
        if source == "live"
        else fingerprint,  # a recording judged twice is one run
        "hostname": owner.ids["hostname"],
        "boot_id": owner.boot_id,
        "at": owner.at_s,
        "source": source,
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "complete": report.complete,
        "action": report.action.value,
        "profile": run.profile.name,
        "level": _level(run),
        "full": not run.limited_to,
        "headline": headline(report),
        "findings": list(_findings(report)),
    }


def _level(run: RunInfo) -> str:
    """Return what exercised the GPUs: a level, or a proof."""
    return PROOF if run.proof else run.level


def _findings(report: Report) -> Any:
    for result in report.results:
        for finding in result.findings if result.check != CHECK else ():
            for target in find_targets(result, finding, report.parts) or [
                Target("node", None, None, None)
            ]:
                yield {
                    "check": result.check,
                    "subject": target.subject,
                    "serial": target.serial or "",
                    "severity": finding.severity.value,
                    "action": finding.action.value,
                    "same": finding.same,
                    "message": finding.message,
                }


def parts_of(report: Report) -> list[dict[str, Any]]:
    """Return the parts with a serial: without one, a part looks like any other in its slot."""
    return [row for row in identify([part._asdict() for part in report.parts]) if row["serial"]]


def identify(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the archive's rows of a report's parts, one each; a serial is empty where the part
    did not give it. An adapter is a part, its ports are none: they have no serial.
    """
    rows = [_identified(part) for part in parts]
    return list({(row["kind"], row["slot"]): row for row in rows}.values())


def _identified(part: Mapping[str, Any]) -> dict[str, Any]:
    kind, slot, names = part["kind"], part["slot"], ("serial", "part_number")
    if kind == "gpu":
        slot = part.get("usual_slot") or slot
    elif kind == "port":
        kind, slot, names = "nic", part["hca"], ("hca_serial", "hca_part_number")
    serial, number = (part.get(name) or "" for name in names)
    told = part.get("serial_source") == "history"  # the archive's own words
    return {
        "kind": kind,
        "slot": slot,
        "address": part["address"] or "",
        "serial": "" if told else serial,
        "part_number": number,
    }
