"""Firmware that only the BMC knows: a Redfish FirmwareInventory that was saved to a file, taken
into a recording.
"""

import json
import time
from typing import Any

from gpuscan.errors import RecordingError
from gpuscan.recording import FIRMWARE, Reading, Recording

PATH = "/redfish/v1/UpdateService/FirmwareInventory"
LARGEST_BYTES = 16 * 1024 * 1024


def load(path: str) -> list[dict[str, Any]]:
    """Return the members of a FirmwareInventory collection (or of a plain list of such) as {id,
    name, version}.

    A version that the BMC does not tell is empty. Raises RecordingError that says what is wrong
    with the file.
    """
    document = _document(path)
    members = document.get("Members") if isinstance(document, dict) else document
    if not isinstance(members, list):
        raise RecordingError(
            f"{path}: no Redfish FirmwareInventory (no Members): fetch {PATH}?$expand=."
        )
    if not members:
        raise RecordingError(f"{path}: lists no firmware: ask the BMC again, at {PATH}?$expand=.")
    return [_row(member, number, path) for number, member in enumerate(members)]


def add(recording: Recording, rows: list[dict[str, Any]]) -> None:
    """Keep what `load` returned as a reading of the recording."""
    recording.add(Reading(FIRMWARE, rows, None, round(time.time(), 3), 0.0))


def _document(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    if len(data) > LARGEST_BYTES:
        raise RecordingError(
            f"{path}: larger than {LARGEST_BYTES >> 20} MiB, which no FirmwareInventory is"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(
            f"{path}: no JSON, or cut off: save the answer of {PATH}?$expand=. as it came"
        ) from None


def _row(member: Any, number: int, path: str) -> dict[str, Any]:
    if isinstance(member, dict) and set(member) == {"@odata.id"}:
        raise RecordingError(f"{path}: its members are links only: fetch {PATH}?$expand=.")
    if not (isinstance(member, dict) and isinstance(member.get("Id"), str) and member["Id"]):
        raise RecordingError(f"{path}: Members[{number}] has no Id: fetch {PATH}?$expand=. anew")
    name, version = member.get("Name"), member.get("Version")
    if not all(isinstance(word, str | None) for word in (name, version)):
        raise RecordingError(
            f"{path}: Members[{number}] ({member['Id']}): Name and Version must be text"
        )
    return {"id": member["Id"], "name": name or "", "version": version or ""}
