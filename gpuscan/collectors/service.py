"""Services, programs' errors and nvidia-smi's complaints: read from imported texts only."""

from typing import Any

from gpuscan.collectors.reading import Sources, names, take
from gpuscan.model import AppError, Service, is_unread
from gpuscan.recording import Recording
from gpuscan.recording.keys import CUDA_ERRORS, SMI_ERRORS

UNIT = "service:"


def services(recording: Recording, sources: Sources) -> tuple[Service, ...]:
    """Return the units in an imported text; a unit's facts are Unread if they make no sense."""
    units = [key for key in recording.keys() if key.startswith(UNIT)]
    sources.update({f"services[{key.removeprefix(UNIT)}]": (key,) for key in units})
    return tuple(_service(recording, key) for key in units)


def _service(recording: Recording, key: str) -> Service:
    words = take(
        recording, key, lambda value: {name: _word(value[name]) for name in Service._fields[1:]}
    )
    facts: list[Any] = [words if is_unread(words) else words[name] for name in Service._fields[1:]]
    return Service(key.removeprefix(UNIT), *facts)


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


def facts(recording: Recording, sources: Sources) -> dict[str, Any]:
    """Return the node's facts of this module."""
    made = {"services": services, "app_errors": app_errors, "complaints": complaints}
    return {
        "imported": recording.meta.imported is not None,
        **{fact: make(recording, sources) for fact, make in made.items()},
    }
