"""NVLink: every link is up, at its rate and without errors."""

import re
from collections.abc import Iterable
from typing import Any

from gpuscan import Action, Gpu, Node, Profile, check, exceeds, fail, per_minute, read, warn
from gpuscan.profile.values import options
from gpuscan.text import counted

SXM_LINKS = (  # NVIDIA's data sheets
    (r"Tesla P100-SXM2-\d+GB", 4),
    (r"Tesla V100-SXM[23]-\d+GB\S*", 6),
    (r"(?:NVIDIA )?A100-SXM4-\d+GB", 12),
    (r"NVIDIA (?:H100 80GB HBM3|H200|H20|G?B[23]00)", 18),
)
SOURCE = "DCGM: triage a link that is down: reset the GPU first, then inspect the hardware"


@check(
    action=Action.RESET_GPU,
    needs="driver.gpu_access",
    voided_by="fabric.manager",
    eased_by="modes.mig",
    source=SOURCE,
    impact="performance",
    aliases=["nvlink.every_link_is_up"],
)
def test_links(gpu: Gpu, profile: Profile) -> None:
    """As many NVLinks are up as the profile expects.

    A GPU in MIG mode may have none: before Hopper the mode switches them off.
    """
    expected = profile.gpu.nvlinks
    down = {link.number for link, active in read(gpu.nvlinks, "active") if not active}
    up = len(gpu.nvlinks) - len(down)  # an unread link counts as up, and the result is unknown
    most = max(options(expected))
    if up >= most or up in options(expected) or (not up and _in_mig_mode(gpu)):
        return
    which = f" (down: {', '.join(map(str, sorted(down)))})" if down else ""
    fail(
        f"{up} of {counted(most, 'NVLink is', 'NVLinks are')} up{which}",
        observed=up,
        expected=expected,
    )


def _in_mig_mode(gpu: Gpu) -> bool:
    return any(on for _, on in read([gpu], "mig_mode.current"))


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "nvlink.links"),
    eased_by=("modes.mig", "modes.mig_match"),
    source=SOURCE,
    impact="performance",
    aliases=["nvlink.as_many_as_its_siblings"],
)
def test_links_match(node: Node, profile: Profile) -> None:
    """Every GPU has as many NVLinks up as its siblings: the GPUs of its model.

    A card may have no bridge: then all its links are down. A bridge of which some links are up has
    a fault. On a board of modules, a link that is down on all of them alike may lead to a module
    that this machine does not have; that none is up has a common cause, unless the profile wants
    it so. A GPU in MIG mode may have no link up. A text that shows a GPU without its siblings is
    judged by the links of its SXM module; modules in a guest may have none up. GPUs of a text
    without their names are siblings.
    """
    siblings: dict[str, list[tuple[Gpu, int]]] = {}
    for gpu, links in read(node.gpus, "nvlinks"):
        up = sum(link.active for link in links)
        siblings.setdefault(gpu.model, []).append((gpu, up))
    fewer = [
        (gpu, up, most)
        for group in siblings.values()
        for most in (max(up for _, up in group),)
        for gpu, up in group
        if _lacks_links(gpu, up, most, alone=len(group) == 1)
    ]
    if fewer:
        which = ", ".join(f"{gpu.label} {up} of {most}" for gpu, up, most in fewer)
        fail(f"not all NVLinks are up: {which}", culprits=[gpu for gpu, _, _ in fewer])
    unlinked = profile.gpu.get("nvlinks") == 0
    for group in siblings.values():
        _judge_board(node, [gpu for gpu, _ in group], max(up for _, up in group), unlinked)


# on a board with NVLinks to every other GPU; other cards have bridges, or none
MODULE = re.compile(r"SXM|PG50|HBM3|\b(?:H20|H200|H800|B[123]00|GB[123]00)\b(?! NVL)")


def _name(gpu: Gpu) -> str:
    """Return a GPU's name, "" in a text that shows its links and not its name."""
    return next((name for _, name in read([gpu], "name")), "")


def _is_module(gpu: Gpu) -> bool:
    return MODULE.search(_name(gpu)) is not None and "PCIe" not in _name(gpu)


def _lacks_links(gpu: Gpu, up: int, most: int, *, alone: bool) -> bool:
    """Return whether a GPU has too few links up, of the *most* that any of its siblings has.

    A card's bridge leads to another card, and all its links come up or none.
    """
    if not up:
        return most > 0 and (_is_module(gpu) or not _name(gpu)) and not _in_mig_mode(gpu)
    return up < most or (up < len(gpu.nvlinks) and not alone and not _is_module(gpu))


def _judge_board(node: Node, gpus: list[Gpu], most: int, unlinked: bool) -> None:
    """Warn where no module of several has all its links up; fail in a text that shows one of them.

    Without any link on bare metal the board is not in use as it was built: that fails, unless it is
    to be *unlinked*. In a guest the modules may have none.
    """
    if not all(_is_module(gpu) for gpu in gpus):
        return
    if most and node.imported and len(gpus) == 1 and most < (fitted := _fitted(gpus)):
        fail(
            f"{counted(most, 'NVLink is', 'NVLinks are')} up, and the SXM module has {fitted}",
            culprits=gpus,
        )
    links = max(len(gpu.nvlinks) for gpu in gpus)
    if len(gpus) < 2 or most == links or any(_in_mig_mode(gpu) for gpu in gpus):
        return
    if not most and not unlinked and _is_bare_metal(node, gpus):
        fail(
            "no NVLink is up on any GPU: check the Fabric Manager, and that no option of the "
            "kernel module disables NVLink (NVreg_NvLinkDisable)",
            action=Action.FIX_CONFIG,
            observed=0,
            expected=links,
        )
    else:
        warn(
            f"no GPU has more than {most} of {counted(links, 'NVLink')} up",
            observed=most,
        )


def _is_bare_metal(node: Node, gpus: list[Gpu]) -> bool:
    """Return whether the machine says that it is no guest, and no GPU is virtualised. On a host of
    vGPUs links may be down until a partition of the fabric is activated.
    """
    machine = [virtual for _, virtual in read([node], "host.virtual")]
    modes = [mode for _, mode in read(gpus, "virtualization")]
    return machine == [False] and all(mode == "none" for mode in modes)


def _fitted(gpus: list[Gpu]) -> int:
    """Return how many NVLinks the SXM modules among GPUs of one kind have, 0 if they are none."""
    names = {name for _, name in read(gpus, "name")}
    known = [
        links for shape, links in SXM_LINKS if all(re.fullmatch(shape, name) for name in names)
    ]
    return known[0] if known and names else 0


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "nvlink.links"),
    voided_by="fabric.manager",
    source=SOURCE,
    impact="performance",
    aliases=["nvlink.links_run_at_their_rate"],
)
def test_link_rate(gpu: Gpu, profile: Profile) -> None:
    """Every active NVLink runs at the rate the profile expects, or faster."""
    expected = profile.gpu.nvlink_rate_mb_s
    slow = [(number, rate) for number, rate in _rates(gpu.nvlinks) if rate < expected]
    if slow:
        which = ", ".join(f"link {number} at {rate}" for number, rate in slow)
        fail(
            f"NVLinks are slower than {expected} MB/s: {which}",
            observed=dict(slow),
            expected=expected,
        )


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "nvlink.links", "nvlink.link_rate"),
    source=SOURCE,
    impact="performance",
)
def test_link_rate_match(node: Node) -> None:
    """All NVLinks of the GPUs of one model run at one rate."""
    siblings: dict[str, list[tuple[Gpu, int, int]]] = {}
    for gpu, links in read(node.gpus, "nvlinks"):
        rates = [(gpu, number, rate) for number, rate in _rates(links)]
        siblings.setdefault(gpu.name, []).extend(rates)
    slow = [
        (gpu, number, rate)
        for group in siblings.values()
        for fastest in (max((rate for _, _, rate in group), default=0),)
        for gpu, number, rate in group
        if rate < ALIKE * fastest
    ]
    if slow:
        which = ", ".join(f"{gpu.label} link {number} at {rate}" for gpu, number, rate in slow)
        culprits = list({gpu.label: gpu for gpu, _, _ in slow}.values())
        fail(f"NVLinks are slower than the others (MB/s): {which}", culprits=culprits)


def _rates(links: Iterable[Any]) -> list[tuple[int, int]]:
    """Return (number, MB/s) of each link that is up, and of one with a rate whose state was not
    read: one unread link hides no slow one.
    """
    active = {link.number: on for link, on in read(links, "active")}
    maybe_up = [link for link in links if active.get(link.number, True)]
    rates = [(link.number, rate) for link, rate in read(maybe_up, "rate_mb_s")]
    return [(number, rate) for number, rate in rates if rate or number in active]


ALIKE = 0.9  # of the fastest: drivers round rates differently, and a slow link has half or less
MOST_CRC = 99  # a second
MOST_BIT_ERRORS = 1e-12


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: 100 CRC errors a second fail, one a minute warns; replays, recoveries: growth",
    impact="performance",
    aliases=["nvlink.no_link_errors_are_added"],
)
def test_link_errors(gpu: Gpu) -> None:
    """No NVLink error was counted during the scan.

    Totals count from when the link was last started and are history.
    """
    crc = [(link.number, link.crc_errors) for link in gpu.nvlinks]
    grown = [(number, errors.growth, errors.seconds) for number, errors in crc]
    others = {link.number: link.replays.growth + link.recoveries.growth for link in gpu.nvlinks}
    worst = [one for one in grown if exceeds(one[1], one[2], MOST_CRC, 1)]
    some = [number for number, errors, _ in grown if errors > 0 or others[number] > 0]
    if worst:
        which = ", ".join(f"link {n}: {per_minute(errors, took)}" for n, errors, took in worst)
        fail(
            f"100 or more NVLink CRC errors a second ({which})",
            observed=[number for number, _, _ in worst],
        )
    elif some:
        warn(
            f"NVLink errors during the scan (links: {', '.join(map(str, some))})",
            observed=some,
        )


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: an effective bit error rate above 1e-12 fails",
    impact="performance",
)
def test_bit_errors(gpu: Gpu) -> None:
    """The effective bit error rate of every NVLink is at most 1e-12 (NVLink 5)."""
    worst = [
        (link.number, link.bit_error_rate)
        for link in gpu.nvlinks
        if link.bit_error_rate > MOST_BIT_ERRORS
    ]
    if worst:
        which = ", ".join(f"link {number}: {rate:g}" for number, rate in worst)
        fail(f"NVLinks have too many bit errors ({which})", observed=dict(worst))


@check(
    action=Action.INSPECT,
    needs="driver.gpu_access",
    source="DCGM: NVLink 5 counters; local link integrity errors and failed recoveries",
    impact="performance",
)
def test_link_integrity(gpu: Gpu) -> None:
    """No NVLink lost its integrity during the scan, or failed to recover (NVLink 5)."""
    links = gpu.nvlinks
    broken = [
        link.number
        for link in links
        if link.integrity_errors.growth + link.failed_recoveries.growth
    ]
    received = [link.number for link in links if link.receive_errors.growth]
    if broken:
        which = ", ".join(map(str, broken))
        fail(f"NVLinks lost their integrity during the scan (links: {which})", observed=broken)
    elif received:
        which = ", ".join(map(str, received))
        warn(f"NVLinks received errors during the scan (links: {which})", observed=received)
