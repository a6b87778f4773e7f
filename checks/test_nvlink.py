"""NVLink: every link is up, at its rate and without errors."""

import re

from gpuscan import Action, Gpu, Node, Profile, check, fail, read, warn

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
    source=SOURCE,
    impact="performance",
    aliases=["nvlink.every_link_is_up"],
)
def test_links(gpu: Gpu, profile: Profile) -> None:
    """As many NVLinks are up as the profile expects."""
    expected = profile.gpu.nvlinks
    down = [link.number for link, active in read(gpu.nvlinks, "active") if not active]
    up = len(gpu.nvlinks) - len(down)  # an unread link counts as up, and the result is unknown
    if up < expected:
        which = f" (down: {', '.join(map(str, down))})" if down else ""
        fail(f"{up} of {expected} NVLinks are up{which}", observed=up, expected=expected)


@check(
    action=Action.RESET_GPU,
    needs=("driver.gpu_access", "nvlink.links"),
    source=SOURCE,
    impact="performance",
    aliases=["nvlink.as_many_as_its_siblings"],
)
def test_links_match(node: Node) -> None:
    """Every GPU has as many NVLinks up as its siblings.

    A link that is down on all GPUs alike is taken as one this product does not have. A text that
    shows a GPU without its siblings is judged by the links of its SXM module; a module in a guest
    may have none up.
    """
    up = [(gpu, sum(link.active for link in links)) for gpu, links in read(node.gpus, "nvlinks")]
    most = max((number for _, number in up), default=0)
    fewer = [(gpu, number) for gpu, number in up if number < most]
    if fewer:
        which = ", ".join(f"{gpu.label} {number}" for gpu, number in fewer)
        fail(
            f"fewer NVLinks are up than on the other GPUs ({most}): {which}",
            culprits=[gpu for gpu, _ in fewer],
        )
    elif most and node.imported and most < (fitted := _fitted([gpu for gpu, _ in up])):
        fail(
            f"{most} NVLinks are up, and the SXM module has {fitted}",
            culprits=[gpu for gpu, _ in up],
        )


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
    source=SOURCE,
    impact="performance",
    aliases=["nvlink.links_run_at_their_rate"],
)
def test_link_rate(gpu: Gpu, profile: Profile) -> None:
    """Every active NVLink runs at the rate the profile expects, or faster."""
    expected = profile.gpu.nvlink_rate_mb_s
    slow = [
        (link.number, link.rate_mb_s)
        for link in gpu.nvlinks
        if link.active and link.rate_mb_s < expected
    ]
    if slow:
        which = ", ".join(f"link {number} at {rate}" for number, rate in slow)
        fail(
            f"NVLinks are slower than {expected} MB/s: {which}",
            observed=dict(slow),
            expected=expected,
        )


MANY_CRC = 100


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
    grown = [
        (link.number, link.crc_errors.growth, link.replays.growth + link.recoveries.growth)
        for link in gpu.nvlinks
    ]
    worst = [number for number, crc, _ in grown if crc >= MANY_CRC]
    some = [number for number, crc, other in grown if crc > 0 or other > 0]
    if worst:
        which = ", ".join(map(str, worst))
        fail(
            f"{MANY_CRC} or more NVLink CRC errors during the scan (links: {which})",
            observed=worst,
        )
    elif some:
        warn(
            f"NVLink errors during the scan (links: {', '.join(map(str, some))})",
            observed=some,
        )
