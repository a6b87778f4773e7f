"""last.json: this machine's last verdict and its hold, small enough to be read by every prolog;
light, as `status` imports it.
"""

import json
import os
from typing import Any

from gpuscan.files import read_input
from gpuscan.state.place import StateError

FORMAT = "gpuscan-last"
MAJOR = 1
LARGEST_BYTES = 1 << 22
SCHEMA_VERSION = f"{MAJOR}.0"
KEYS = {
    "machine": dict,
    "boot_id": str,
    "at": (int, float),
    "verdict": str,
    "exit_code": int,
    "complete": bool,
    "profile": str,
    "level": str,
    "scope": dict,
    "hold": (dict, type(None)),
    "swap": (dict, type(None)),
}
HOLD_KEYS = {"code": int, "verdict": str, "since": (int, float), "reasons": list}


class Newer(StateError):
    """The file was written by a newer gpuscan: it is left alone."""


class Damaged(StateError):
    """The file makes no sense: what it held is not known."""


def path_in(folder: str, machine: str = "") -> str:
    """Return where the last verdict lies: this machine's at the top, another's (of a replay) in a
    folder of its own.
    """
    return (
        os.path.join(folder, "machines", machine, "last.json")
        if machine
        else os.path.join(folder, "last.json")
    )


def read(path: str) -> dict[str, Any] | None:
    """Return the document, None where there is none; raises StateError: Newer, Damaged, or that it
    cannot be read.
    """
    try:
        data = read_input(path, LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError
        newer = int(document["schema_version"].split(".")[0]) > MAJOR
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged(f"{path}: damaged: what it held is not known") from None
    if newer:
        raise Newer(
            f"{path}: written by a newer gpuscan ({document['schema_version']}): update gpuscan, or"
            " name another --state-dir"
        )
    if not _fits(document, KEYS) or not (
        document["hold"] is None or _fits(document["hold"], HOLD_KEYS)
    ):
        raise Damaged(f"{path}: damaged: what it held is not known")
    return dict(document)


def reasons_in(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reasons of a stored hold, and those that sleep as their part is gone."""
    held = found["hold"]["reasons"] if found["hold"] else []
    return [*held, *found.get("asleep", ())]


def _fits(document: dict[str, Any], keys: dict[str, Any]) -> bool:
    return all(isinstance(document.get(key), kind) for key, kind in keys.items())


def same_machine(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two of last.json's `machine` objects name one machine: by any id that both have.

    A hold must not be lost because a board was changed or a system installed anew: one shared id is
    enough.
    """
    return any(
        one.get(key) and one.get(key) == other.get(key) for key in ("machine_id", "dmi_serial")
    )
