"""The recordings that are kept of this machine: a swap is compared with them."""

import os
import stat

from gpuscan.errors import GpuscanError
from gpuscan.files import DRAFT, PRIVATE
from gpuscan.recording import Recording, save
from gpuscan.state.place import PRIVATE_FOLDER, StateError, make_folder

KEEP_BOOTS = 3  # recordings of earlier boots
ENDING = ".json.gz"


def recordings_in(folder: str, boot_id: str) -> list[str]:
    """Return the recordings kept of boots other than this one, the newest first."""
    place = os.path.join(folder, "recordings")
    try:
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            return []
        names = [name for name in os.listdir(place) if name.endswith(ENDING)]
        files = [os.path.join(place, name) for name in names if not name.startswith(f"{boot_id}.")]
        return sorted(files, key=os.path.getmtime, reverse=True)
    except OSError:
        return []


def keep_recording(recording: Recording, folder: str, boot_id: str) -> None:
    """Keep this boot's newest recording of the whole node, and those of a few boots before, for
    nobody else to read; raises StateError. Call it under the lock.
    """
    place = os.path.join(folder, "recordings")
    try:
        if os.path.lexists(place) and not stat.S_ISDIR(os.lstat(place).st_mode):
            raise StateError(f"{place}: is not a folder")
        make_folder(place, PRIVATE_FOLDER)
        file = os.path.join(place, f"{boot_id}{ENDING}")
        save(recording, file)
        os.chmod(file, PRIVATE)
        for old in recordings_in(folder, boot_id)[KEEP_BOOTS:]:
            os.unlink(old)
        for name in os.listdir(place):  # of runs that were killed
            if name.endswith(DRAFT):
                os.unlink(os.path.join(place, name))
    except (OSError, GpuscanError) as error:
        raise StateError(f"{place}: {error}") from None
