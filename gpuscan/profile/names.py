"""Where profiles lie: the site's folder, then the bundled one."""

import os

from gpuscan import files
from gpuscan.errors import ProfileError, near_misses
from gpuscan.files import bundled

ENDINGS = (".yaml", ".yml")  # the first wins where a folder has both


def folders() -> list[str]:
    """Return the folders in which profile names are looked up: the site's, then the bundled one."""
    return [os.path.join(files.SITE, "profiles"), bundled("profiles")]


def list_profiles() -> dict[str, str]:
    """Return the file of every profile by name; the site's hides a bundled one of the same name."""
    names: dict[str, str] = {}
    for folder in reversed(folders()):
        try:
            listing = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ProfileError(
                f"{folder}: {error.strerror}: its profiles cannot be listed"
            ) from None
        names.update(
            {
                file.removesuffix(ending): os.path.join(folder, file)
                for ending in reversed(ENDINGS)
                for file in listing
                if file.endswith(ending)
            }
        )
    return names


def bundled_path(name: str) -> str:
    """Return where the bundled profile of that name is, or would be."""
    return os.path.join(bundled("profiles"), f"{name}.yaml")


def is_bundled(name: str) -> bool:
    """Return whether the name means the bundled profile: the site has none of the same name."""
    return list_profiles().get(name) == bundled_path(name)


def is_bundled_file(path: str) -> bool:
    """Return whether *path* lies in the folder of bundled profiles."""
    return os.path.dirname(os.path.abspath(path)) == os.path.abspath(bundled("profiles"))


def is_path(name: str) -> bool:
    """Return whether a profile is named by its file: with a slash, or with YAML's ending."""
    return "/" in name or name.endswith(ENDINGS)


def beside(parent: str, path: str) -> str:
    """Return where a parent is looked for: a file beside its child, a name among all profiles."""
    if is_path(parent) and not os.path.isabs(parent):
        return os.path.join(os.path.dirname(path), parent)
    return parent


def shown_name(name: str) -> str:
    """Return what a profile that is named by its name or its file is called."""
    if not is_path(name):
        return next((one for one in list_profiles() if one.lower() == name.lower()), name)
    base = os.path.basename(name)
    return next((base.removesuffix(end) for end in ENDINGS if base.endswith(end)), base)


def find(name: str, children: tuple[str, ...] = ()) -> str:
    """Return a profile's file. A site's profile that extends its own name (it is then among
    *children*) means the bundled one. Raises ProfileError for an unknown name.
    """
    if is_path(name):
        return name
    names = list_profiles()
    alike = [known for known in names if known.lower() == name.lower()]
    if name not in names and len(alike) == 1:
        name = alike[0]
    if name not in names:
        raise ProfileError(
            f"unknown profile '{name}': {near_misses(name, list(names), 'profiles')}"
        )
    own = bundled_path(name)
    return own if names[name] in children and os.path.exists(own) else names[name]
