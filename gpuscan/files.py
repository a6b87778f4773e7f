"""Files: the package's own data, protection from other users, and atomic writing."""

import os

from gpuscan.errors import UsageError

PACKAGE = os.path.dirname(os.path.abspath(__file__))
SITE = "/etc/gpuscan"
SITE_CONFIG_VARIABLE = "GPUSCAN_CONFIG"


def site_config_path() -> str:
    """Return the site configuration's file: the one that GPUSCAN_CONFIG names, else
    /etc/gpuscan/config.yaml.
    """
    return os.environ.get(SITE_CONFIG_VARIABLE) or os.path.join(SITE, "config.yaml")


def bundled(folder: str) -> str:
    """Return where *folder* (checks, profiles) lies: inside the installed package, or at the top
    of the source tree.
    """
    installed = os.path.join(PACKAGE, folder)
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(PACKAGE), folder)


def refuse_writable(path: str) -> None:
    """As root, refuse a file that others may write, or whose folder they may write: it would run,
    or judge, as root. Raises UsageError.

    In a folder with the sticky bit (/tmp) others cannot change a file, but they can put their own
    there.
    """
    if os.geteuid() != 0:
        return
    folders = {os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))}
    for place in (path, *sorted(folders)):
        status = os.stat(place)
        if status.st_mode & 0o022 and not status.st_mode & 0o1000:
            raise UsageError(
                f"{place}: others may write it, and gpuscan runs as root: chmod go-w {place}"
            )
    if os.stat(path).st_uid != 0 and any(os.stat(folder).st_mode & 0o022 for folder in folders):
        raise UsageError(
            f"{path}: belongs to another user, and gpuscan runs as root: chown root {path}"
        )


def is_special(path: str) -> bool:
    """Return whether *path* is there and is not a regular file: a device, or a pipe, even one of
    this process's own.
    """
    # not its real path: that of a pipe leads nowhere
    return os.path.exists(path) and not os.path.isfile(path)


def write_atomically(path: str, data: bytes) -> None:
    """Write a file whole or not at all; raises UsageError.

    A link is followed, and what is not a regular file (/dev/null, a pipe) is written into, never
    renamed over.
    """
    try:
        if is_special(path):
            with open(path, "wb") as special:
                special.write(data)
        else:
            replace_file(os.path.realpath(path), data)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def replace_file(path: str, data: bytes) -> None:
    """Write *data* to a new file next to *path*, then rename it: a reader never sees half of it.

    Raises OSError, and then leaves nothing behind.
    """
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def sync_folder(path: str) -> None:
    """Make the renaming of a file survive a power cut; raises OSError."""
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def schema_text(name: str) -> str:
    """Return a bundled JSON Schema (`profile`, `recording`, `report`, `catalogue`) as text."""
    with open(os.path.join(PACKAGE, "schemas", f"{name}.schema.json"), encoding="utf-8") as file:
        return file.read()
