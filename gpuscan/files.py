"""Files: the package's own data, what others may change, and writing that no reader sees half of."""

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
    """As root, refuse a file or its folder that others may write: it would run, or judge, as root.

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
    """Tell whether there is something at *path* that is no regular file: a device, a pipe, also
    one of this process's own.
    """
    return os.path.exists(path) and not os.path.isfile(
        path
    )  # not of its real path: that of a pipe leads nowhere


def write_atomically(path: str, data: bytes) -> None:
    """Write *data* to a new file next to *path*, then rename: a reader never sees half of it.

    A link is followed, and what is no regular file (/dev/null, a pipe) is written into, never
    renamed over.
    """
    place = os.path.realpath(path)
    draft = f"{place}.{os.getpid()}.tmp"
    try:
        if is_special(path):
            with open(path, "wb") as special:
                special.write(data)
            return
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)
    except OSError as error:
        if os.path.exists(draft):
            os.unlink(draft)
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def schema_text(name: str) -> str:
    """Return a bundled JSON Schema (`profile`, `recording`, `report`, `catalogue`) as text."""
    with open(os.path.join(PACKAGE, "schemas", f"{name}.schema.json"), encoding="utf-8") as file:
        return file.read()
