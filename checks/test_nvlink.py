"""NVLink: every link that the product has is up, and no card has fewer than its siblings."""

from gpuscan import Action, Gpu, Node, Profile, check, fail, read

SOURCE = "DCGM: a link that is down is to be triaged; first a reset, then the hardware"


@check(action=Action.RESET_GPU, needs="driver.every_card_answers", source=SOURCE, impact="performance")
def test_every_link_is_up(gpu: Gpu, profile: Profile) -> None:
    """As many NVLinks are up as the profile expects of this card."""
    expected = profile.gpu.nvlinks
    down = [link.number for link in gpu.nvlinks if not link.active]
    up = len(gpu.nvlinks) - len(down)
    if up < expected:
        which = f" (down: {', '.join(map(str, down))})" if down else ""
        fail(f"{up} of {expected} NVLinks are up{which}", observed=up, expected=expected)


@check(
    action=Action.RESET_GPU,
    needs=("driver.every_card_answers", "nvlink.every_link_is_up"),
    source=SOURCE,
    impact="performance",
)
def test_as_many_as_its_siblings(node: Node) -> None:
    """Every card has as many NVLinks up as its siblings: what all lack is so by design."""
    up = [(gpu, sum(link.active for link in links)) for gpu, links in read(node.gpus, "nvlinks")]
    most = max((number for _, number in up), default=0)
    fewer = [(gpu, number) for gpu, number in up if number < most]
    if fewer:
        told = ", ".join(f"{gpu.label} {number}" for gpu, number in fewer)
        fail(f"fewer NVLinks are up than on the other cards ({most}): {told}", culprits=[gpu for gpu, _ in fewer])
