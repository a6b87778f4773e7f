"""Firmware that only the BMC knows: a saved Redfish FirmwareInventory, added to a recording."""

import json
import time
from typing import Any

from gpuscan.errors import RecordingError
from gpuscan.files import read_input
from gpuscan.recording import FIRMWARE, Reading, Recording

PATH = "/redfish/v1/UpdateService/FirmwareInventory"
LARGEST_BYTES = 16 * 1024 * 1024


def load_firmware(path: str) -> list[dict[str, Any]]:
    """Return the members of a FirmwareInventory collection, or of a plain list, as JSON.

    Each is {id, name, version}; a version that the BMC does not know is "". Raises RecordingError.
    """
    document = _document(path)
    members = document.get("Members") if isinstance(document, dict) else document
    if not isinstance(members, list):
        raise RecordingError(
            f"{path}: not a Redfish FirmwareInventory (no Members): fetch {PATH}?$expand=."
        )
    if not members:
        raise RecordingError(f"{path}: lists no firmware: fetch {PATH}?$expand=. again")
    return [_row(member, number, path) for number, member in enumerate(members)]


def add_firmware(recording: Recording, rows: list[dict[str, Any]]) -> None:
    """Add what `load_firmware` returned to a recording, as a reading."""
    recording.add(Reading(FIRMWARE, rows, None, round(time.time(), 3), 0.0))


def _document(path: str) -> Any:
    try:
        data = read_input(path, LARGEST_BYTES)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    if len(data) > LARGEST_BYTES:
        raise RecordingError(
            f"{path}: larger than {LARGEST_BYTES >> 20} MiB, too large for a FirmwareInventory"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise RecordingError(
            f"{path}: not JSON, or cut off: save the answer of {PATH}?$expand=. unchanged"
        ) from None


def _row(member: Any, number: int, path: str) -> dict[str, Any]:
    if isinstance(member, dict) and set(member) == {"@odata.id"}:
        raise RecordingError(f"{path}: its members are only links: fetch {PATH}?$expand=.")
    if not (isinstance(member, dict) and isinstance(member.get("Id"), str) and member["Id"]):
        raise RecordingError(f"{path}: Members[{number}] has no Id: fetch {PATH}?$expand=. again")
    name, version = member.get("Name"), member.get("Version")
    if not all(isinstance(word, str | None) for word in (name, version)):
        raise RecordingError(
            f"{path}: Members[{number}] ({member['Id']}): Name and Version must be text"
        )
    return {"id": member["Id"], "name": name or "", "version": version or ""}
