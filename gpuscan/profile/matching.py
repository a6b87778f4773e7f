"""Choose the profile that fits a node (`--profile auto`)."""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from gpuscan.errors import ProfileError
from gpuscan.model import Node, is_unread, read_or
from gpuscan.profile import names, yamlfile
from gpuscan.profile.loading import BASE, Profile, ancestors, load, load_family, parse
from gpuscan.profile.network import fit_network
from gpuscan.profile.site import SiteConfig, load_site_config
from gpuscan.profile.values import options

GPUS_FIT, MACHINE_FITS = 1, 2


class _Traits(NamedTuple):
    """What a profile is matched with: the device ids of the GPUs that compute, None where one was
    not read; the machine's DMI names; the names of its vGPUs.
    """

    device_ids: frozenset[str | None]
    machine: tuple[str, ...]
    vgpus: frozenset[str]


def choose(node: Node, settings: Sequence[str] = ()) -> tuple[Profile, str]:
    """Return the profile that fits this machine, and why; the number of GPUs plays no part.

    A profile that names the machine wins over one that names only its GPUs, then the site's own
    over a bundled one, then a child over its parent. If none fits, or several fit equally, the
    default profile is used, which vouches for nothing.
    """
    site = load_site_config()
    if site.profile:
        return _load_pinned(site, settings), f"profile {site.profile}, pinned in {site.path}"
    if is_unread(node.gpus):
        return _default(settings), "no profile chosen: the GPUs could not be listed"
    traits = _traits(node)
    scores = {name: _score(name, path, traits) for name, path in names.list_profiles().items()}
    score = max(scores.values(), default=0)
    best = _prefer_own([name for name in scores if scores[name] == score]) if score else []
    if len(best) == 1:
        chosen = load(best[0], settings)._replace(vouches=score == MACHINE_FITS)
        if not traits.vgpus <= set(options(chosen.data["gpu"]["name"])):
            vgpus = ", ".join(sorted(traits.vgpus))
            return _default(settings), f"no profile matches this machine: {vgpus} is a vGPU"
        chosen, left_out = fit_network(chosen, node, settings)
        why = f"profile {best[0]} {_reason(score, traits)}"
        return chosen, f"{why}; {left_out}" if left_out else why
    if best:
        why = f"no profile was chosen: {' and '.join(best)} fit equally"
        return _default(settings), why
    gpus = ", ".join(sorted(gpu or "a GPU without device id" for gpu in traits.device_ids))
    why = f"no profile matches this machine: none knows {gpus or 'one without GPUs'}"
    return _default(settings), why


def _load_pinned(site: SiteConfig, settings: Sequence[str]) -> Profile:
    """Return the pinned profile; an unknown one is a mistake of the configuration."""
    try:
        names.find(site.profile)
    except ProfileError as error:
        line, column = site.pinned_at
        raise ProfileError(f"{site.path}:{line}:{column}: $.profile: {error}") from None
    return load(site.profile, settings)


def _prefer_own(fitting: Sequence[str]) -> list[str]:
    """Return the site's own among profiles that fit equally, without those that another extends."""
    files = names.list_profiles()
    own = [name for name in fitting if not names.is_bundled_file(files[name])] or list(fitting)
    if len(own) < 2:
        return own
    parents = {parent for name in own for parent in ancestors(name)}
    return sorted(name for name in own if name not in parents)


def _default(settings: Sequence[str]) -> Profile:
    return load(BASE, settings)._replace(vouches=False)


def _traits(node: Node) -> _Traits:
    dmi = (node.host.vendor, node.host.product, node.host.board)
    gpus = [gpu for gpu in read_or(node.gpus, ()) if gpu.role != "display"]
    return _Traits(
        frozenset(read_or(gpu.device_id, None) for gpu in gpus),
        tuple(name for name in dmi if not is_unread(name)),
        frozenset(str(gpu.name) for gpu in gpus if gpu.virtualization == "vgpu"),
    )


def _reason(score: int, traits: _Traits) -> str:
    if score == MACHINE_FITS:
        return "matches this machine"
    machine = " ".join(traits.machine) or "it gives no DMI names"
    return f"matches these GPUs; no profile knows this machine ({machine})"


def _score(name: str, path: str, traits: _Traits) -> int:
    """Return MACHINE_FITS, GPUS_FIT or 0.

    Of a site's own variant of a bundled profile (same name) the parents' `match` counts too; any
    other profile matches by its own.
    """
    variant = path != names.bundled_path(name) and os.path.exists(names.bundled_path(name))
    text = yamlfile.read_text(path, trusted=True)
    if not traits.device_ids or None in traits.device_ids:
        return 0
    gpus = {gpu for gpu in traits.device_ids if gpu}
    if not variant and not all(gpu in text for gpu in gpus):
        return 0  # so that no profile of other GPUs is parsed
    match = (load_family(path) if variant else parse(path)).get("match") or {}
    if not gpus <= set(match.get("device_ids") or ()):
        return 0
    patterns = match.get("machines") or ()
    if not patterns:
        return GPUS_FIT
    machine = [*traits.machine, " ".join(traits.machine[:2])]
    fits = any(fnmatchcase(name, pattern) for name in machine for pattern in patterns)
    return MACHINE_FITS if fits else 0
