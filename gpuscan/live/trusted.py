"""What a program that we start may be, and where it finds what it runs: as root, nothing that
another user may change.
"""

import os
import re
import shutil
from collections.abc import Mapping

from gpuscan.errors import UsageError
from gpuscan.files import refuse_foreign

PLACES = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")  # where a program finds what it runs


class NotOnPathError(Exception):
    """There is no such program; a FileNotFoundError may also mean its interpreter."""


def search_path(environment: Mapping[str, str]) -> str:
    """Return where programs are looked for: on the caller's PATH; as root, in its absolute
    folders, for what lies in the current one is anybody's.
    """
    folders = environment.get("PATH", os.defpath).split(":")
    if os.geteuid() != 0:
        return ":".join(folders)
    return ":".join(folder for folder in folders if folder.startswith("/"))


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return where a program is, raising NotOnPathError where it is not found, PermissionError
    where it may not be run, and as root UsageError where another user may change it.
    """
    path = search_path(environment)
    found = shutil.which(name, path=path)
    if found is None:
        if shutil.which(name, mode=os.F_OK, path=path):
            raise PermissionError(13, f"{name} may not be run")
        raise NotOnPathError(f"{name} is not on PATH")
    refuse_foreign(found)
    return found


def trusted(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a program gets: as root, no folder or library that others may write."""
    kept = {**environment, "PATH": search_path(environment)}
    for name in PLACES:
        if name in kept and os.geteuid() == 0:
            kept[name] = ":".join(filter(_is_ours, re.split(r"[: ]", kept[name])))
    return kept


def _is_ours(place: str) -> bool:
    try:
        refuse_foreign(place)
    except (UsageError, OSError):
        return False
    return place.startswith("/")
