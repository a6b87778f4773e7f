"""What a judgement leaves out: by options, by the kind of input, or as the profile leaves it open.

A partial judgement may pass, and then says what it did not judge. It proves no node healthy: it
lifts no hold, `status` counts it as incomplete, and `--require-full` makes it so.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuscan.engine.selection import AUTO, Selection
from gpuscan.model import Fact, Node, NvLink, is_unread, read_or
from gpuscan.model.outcome import Result, SkipReason, Status
from gpuscan.model.report_rows import NotJudged
from gpuscan.profile import Profile
from gpuscan.profile.sizes import counting_profiles
from gpuscan.profile.values import in_words, options
from gpuscan.recording import Recording
from gpuscan.text import counted

DRILL = "a drill: tests were changed on purpose"
GPUS = "nvml:nvmlDeviceGetHandleByPciBusId(0000:00:00.0)"

COUNT_CHECK = "inventory.gpu_count"
ALL_BUT = "all but "
MOST_AREAS = 6  # that an input does not show and that are named
AREAS = {
    "infiniband": "ports",
    "log": "kernel log",
    "nvlink": "NVLinks",
    "pcie": "PCIe",
    "xid": "kernel log",
}  # areas of checks that people call otherwise


class Size(NamedTuple):
    """A number of parts that a profile can state, and the keys of which either states it."""

    what: str
    keys: tuple[tuple[str, str], ...]


SIZES = (
    Size("number of GPUs", (("gpu", "count"), ("gpu", "slots"))),
    Size("NVLinks", (("gpu", "nvlinks"),)),
    Size("ports", (("infiniband", "ports"), ("infiniband", "hcas"))),
)
COUNTED = tuple(one.what for one in SIZES)


def find_limits(recording: Recording, want: Selection) -> list[str]:
    """Return in words the options and inputs that narrow a judgement."""
    limits = [
        f"--{word} {selector}"
        for word, given in (("only", want.only), ("skip", want.skip))
        for selector in given
    ]
    limits += [f"--gpus {want.gpus}"] if want.gpus else []
    limits += [DRILL] if recording.meta.drill is True else []
    return [*limits, *_kinds_of_input(recording)]


def find_left_out(
    recording: Recording, node: Node, chosen: Profile, want: Selection
) -> tuple[NotJudged, ...]:
    """Return what of the node is not judged, as far as that is known before its results."""
    rows = list(_by_options(want.only, want.skip))
    rows += [NotJudged("the node as it is", DRILL)] if recording.meta.drill is True else []
    kinds = _kinds_of_input(recording)
    rows += _by_input(kinds) if kinds else ()
    if not want.only:
        named = want.profile != AUTO or recording.meta.fragment is None
        rows += _by_profile(chosen, node, named=named)
    return tuple(rows)


def _kinds_of_input(recording: Recording) -> tuple[str, ...]:
    """Return what an input is that cannot show a whole node, empty if it can."""
    if recording.meta.imported is not None:
        return recording.meta.imported.kinds or ("this input",)
    if not recording.covers(GPUS):
        return (str(recording.meta.fragment or "a recording without GPUs"),)
    return ()


def _by_options(only: Sequence[str], skip: Sequence[str]) -> tuple[NotJudged, ...]:
    """Return what the selectors of `--only` and `--skip` leave out."""
    chosen = ", ".join(map(_area, only))
    why = ", ".join(f"--only {selector}" for selector in only)
    narrowed = [NotJudged(f"{ALL_BUT}{chosen}", why)] if only else []
    return (*narrowed, *(NotJudged(_area(selector), f"--skip {selector}") for selector in skip))


def by_gpus(asked: str, judged: int, total: int) -> tuple[NotJudged, ...]:
    """Return what `--gpus` leaves out: *total* counts the GPUs that were listed."""
    others = f"{total - judged} of {counted(total, 'GPU')}" if total > judged else "number of GPUs"
    return (NotJudged(others, f"--gpus {asked}"),)


def _by_profile(profile: Profile, node: Node, *, named: bool = True) -> tuple[NotJudged, ...]:
    """Return the numbers of parts that a profile leaves open: fewer would pass, too.

    None are where the profile does not vouch for the machine: they are then unknown. *named* is
    False where the input is judged by no profile.
    """
    if not profile.vouches:
        return ()
    why = _by_whom(profile, node) if named else "no --profile is named"
    open_ = [one.what for one in SIZES if _is_open(one, profile, node)]
    skipped = profile.data["skip"].get(COUNT_CHECK)
    rows = [NotJudged(what, why) for what in open_]
    if skipped is not None and SIZES[0].what not in open_:
        rows.append(NotJudged(SIZES[0].what, f"profile {profile.name} skips {COUNT_CHECK}"))
    return tuple(rows)


def _is_open(size: Size, profile: Profile, node: Node) -> bool:
    values = {f"{branch}.{key}": profile.data[branch][key] for branch, key in size.keys}
    if profile.unvouched & set(values):
        return False
    if "gpu.nvlinks" in values:
        return _leaves_links_open(profile, node)
    return all(value is None for value in values.values())


def _leaves_links_open(profile: Profile, node: Node) -> bool:
    """Return whether GPUs that have NVLinks may have none up; one GPU alone has no peer for them.

    GPUs without NVLinks leave nothing to judge, if all of them were asked.
    """
    gpu = profile.data["gpu"]
    accepted = options(gpu["nvlinks"])
    stated = gpu["nvlinks"] is not None and (0 not in accepted or len(accepted) == 1)
    if stated or gpu["count"] == 1:
        return False
    gpus = [one for one in read_or(node.gpus, ()) if one.role != "display"]
    return is_unread(node.gpus) or any(_may_have(one.nvlinks) for one in gpus)


def _may_have(links: Fact[tuple[NvLink, ...]]) -> bool:
    return links.kind != "not-supported" if is_unread(links) else bool(links)


def _by_whom(profile: Profile, node: Node) -> str:
    """Name the profile that leaves a number open, and those that state it for as many GPUs."""
    if profile.fitted:
        return f"the HCAs are Ethernet, which profile {profile.name} does not describe"
    others = counting_profiles_for(profile, node)
    stated = f", not by {in_words(others)}" if others else ""
    return f"left open by profile {profile.name}{stated}"


def counting_profiles_for(profile: Profile, node: Node) -> tuple[str, ...]:
    """Return the profiles that state a number of GPUs of the node's model, at least as many as
    there are: where parts are missing, it is a larger one's.
    """
    gpus = [gpu for gpu in read_or(node.gpus, ()) if gpu.role != "display"]
    models = {gpu.device_id for gpu in gpus if not is_unread(gpu.device_id)}
    if len(models) != 1:
        return ()
    return counting_profiles(str(models.pop()), len(gpus), without=profile.name)


def _by_input(kinds: Sequence[str]) -> tuple[NotJudged, ...]:
    """Return what inputs of these kinds cannot show; `find_partial` says what that is."""
    return (NotJudged("", kinds[0] if len(kinds) == 1 else "this input"),)


def find_partial(left_out: Iterable[NotJudged], results: Sequence[Result]) -> tuple[NotJudged, ...]:
    """Return what was not judged, the areas that an input does not show named by its results."""
    whole: list[NotJudged] = []
    for one in left_out:
        shown = [row.what for row in whole]
        if not one.what:
            whole += _not_shown(one.why, results)
        elif one.what not in shown and not (one.what in COUNTED and _all_but(shown)):
            whole.append(one)
    return tuple(whole)


def _not_shown(kind: str, results: Sequence[Result]) -> list[NotJudged]:
    judged = {_area_of(one) for one in results if one.status is not Status.SKIP}
    missing = [_area_of(one) for one in results if one.skip_reason is SkipReason.NOT_RECORDED]
    areas = [area for area in dict.fromkeys(missing) if area not in judged]
    if len(areas) > MOST_AREAS and judged:
        return [NotJudged(f"{ALL_BUT}{', '.join(sorted(judged))}", f"{kind} shows no more")]
    return [NotJudged(area, f"not in {kind}") for area in areas or ["what else a scan reads"]]


def _all_but(names: Iterable[str]) -> bool:
    return any(name.startswith(ALL_BUT) for name in names)


def _area_of(result: Result) -> str:
    return _area(result.check.partition(".")[0])


def _area(selector: str) -> str:
    return AREAS.get(selector, selector)


def told(partial: Iterable[NotJudged]) -> list[str]:
    """Return what was not judged, one text a reason: `memory (--skip memory)`.

    >>> told([NotJudged("NVLinks", "profile x"), NotJudged("ports", "profile x")])
    ['NVLinks, ports (profile x)']
    """
    by_why: dict[str, list[str]] = {}
    for one in partial:
        by_why.setdefault(one.why, []).append(one.what)
    return [f"{', '.join(what)} ({why})" for why, what in by_why.items()]
