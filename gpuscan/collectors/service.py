"""What programs and tools say: read from imported texts only."""

from typing import Any

from gpuscan.collectors.reading import Sources, names, parsed, take
from gpuscan.model import AppError, Said, Unread, is_unread
from gpuscan.recording import Recording
from gpuscan.recording.keys import (
    BMC_EVENTS,
    CUDA_ERRORS,
    DAEMON_ERRORS,
    HOST_ERRORS,
    LINK_QUALITY,
    NCCL_WARNINGS,
    SMI_ERRORS,
)

SAID = {  # a fact of the node -> the key of its readings, one of each part of a text
    "bmc_events": BMC_EVENTS,
    "host_errors": HOST_ERRORS,
    "nccl_warnings": NCCL_WARNINGS,
    "daemon_errors": DAEMON_ERRORS,
    "link_quality": LINK_QUALITY,
}


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def app_errors(recording: Recording, sources: Sources) -> Any:
    """Return the errors of programs; a scan reads none, so without an import there are none."""
    sources["app_errors"] = (CUDA_ERRORS,)
    if CUDA_ERRORS not in recording:
        return ()
    return take(
        recording,
        CUDA_ERRORS,
        lambda rows: tuple(AppError(int(code), _word(text)) for code, text in rows),
    )


def complaints(recording: Recording, sources: Sources) -> Any:
    """Return what nvidia-smi printed instead of an answer, in an imported text."""
    sources["complaints"] = (SMI_ERRORS,)
    return take(recording, SMI_ERRORS, names) if SMI_ERRORS in recording else ()


def said(recording: Recording, key: str) -> tuple[Said, ...]:
    """Return what tools said in all parts of an imported text, once each."""
    made: list[Said] = []
    for reading in recording.all(key):
        rows = parsed(key, reading.value, lambda value: [_said(key, row) for row in value])
        unread = rows if reading.error is None else reading.error
        made += [Said("text", unread, unread, unread, unread)] if is_unread(unread) else rows
    return tuple(dict.fromkeys(made))


def _said(key: str, row: Any) -> Said:
    part, kind, text, value, standing = row
    unknown: Any = Unread(key, "garbled", f"gpuscan does not know what this says: {text!r:.120}")
    return Said(_word(part), _word(kind) or unknown, _word(text), float(value), standing is True)


def facts(recording: Recording, sources: Sources) -> dict[str, Any]:
    """Return the node's facts of this module."""
    sources.update({fact: (key,) for fact, key in SAID.items()})
    made = {"app_errors": app_errors, "complaints": complaints}
    return {
        "imported": recording.meta.imported is not None,
        **{fact: make(recording, sources) for fact, make in made.items()},
        **{fact: said(recording, key) for fact, key in SAID.items()},
    }
