"""The profile that `auto` chooses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from building import demo_node, lost, was_read

from gpuscan import profile
from gpuscan.engine.lens import ProfileLens
from gpuscan.errors import ProfileError
from gpuscan.model import Node


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def seen(loaded: profile.Profile) -> ProfileLens:
    return ProfileLens(loaded, loaded.data, "")


def machine(*device_ids: str, vendor: str = "", product: str = "", board: str = "") -> Node:
    """Return a node with these GPUs in a machine of that name."""
    node = demo_node()
    gpus = tuple(
        was_read(node.gpus)[0]._replace(address=f"0000:{n:02x}:00.0", device_id=one)
        for n, one in enumerate(device_ids)
    )
    names: dict[str, Any] = {
        "vendor": vendor or lost(),
        "product": product or lost(),
        "board": board or lost(),
    }
    return node._replace(gpus=gpus, host=node.host._replace(**names))


H100, H200 = "10de:2330", "10de:2335"


def test_choosing_by_machine() -> None:
    for product, gpus, name in (
        ("DGXH100", H100, "h100-8x"),
        ("PowerEdge XE9680", H200, "h200-8x"),
    ):
        chosen, why = profile.choose(machine(*[gpus] * 8, vendor="Dell", product=product))
        assert (chosen.name, chosen.vouches) == (name, True)
        assert why == f"profile {name} matches this machine"


def test_choosing_by_board_and_by_vendor_with_product() -> None:
    assert (
        profile.choose(machine(H100, vendor="Dell Inc.", product="x", board="DGXH100"))[0].name
        == "h100-8x"
    )
    joined = machine(H100, vendor="Dell PowerEdge", product="XE9680")
    assert profile.choose(joined)[0].name == "h100-8x", "vendor and product together"
    assert profile.choose(machine(H100, vendor="PowerEdge XE9681"))[0].name == "h100"


@pytest.mark.parametrize("gpus", [1, 4, 7, 8, 9])
def test_the_number_of_gpus_never_chooses(gpus: int) -> None:
    chosen, _ = profile.choose(machine(*[H100] * gpus, vendor="NVIDIA", product="DGXH100"))
    assert (chosen.name, seen(chosen).gpu.count) == ("h100-8x", 8)
    chosen, _ = profile.choose(machine(*[H100] * gpus, product="no such machine"))
    assert chosen.name == "h100"


def test_a_machine_that_no_profile_knows_is_told_as_one() -> None:
    chosen, why = profile.choose(machine(*[H100] * 8, vendor="Supermicro", product="SYS-821GE"))
    assert (chosen.name, chosen.vouches) == ("h100", False)
    assert why.endswith("no profile knows this machine (Supermicro SYS-821GE)")


def test_the_site_s_own_profile_wins_over_a_bundled_one(site: Path) -> None:
    own = f'extends: h200-8x\nmatch: {{device_ids: ["{H200}"], machines: [DGXH200*]}}\n'
    write(site / "profiles", "rack7.yaml", own)
    chosen, _ = profile.choose(machine(H200, product="DGXH200"))
    assert (chosen.name, chosen.vouches) == ("rack7", True)
    write(site / "profiles", "rack7b.yml", own.replace("h200-8x", "rack7"))
    assert profile.choose(machine(H200, product="DGXH200"))[0].name == "rack7b"
    write(site / "profiles", "rack8.yaml", own)
    chosen, why = profile.choose(machine(H200, product="DGXH200"))
    assert (chosen.name, why) == (
        "default",
        "no profile was chosen: rack7b and rack8 fit equally",
    )


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "  # pinned: no\n\n# or so\n"])
def test_a_configuration_of_comments_is_an_empty_one(text: str, site: Path) -> None:
    write(site, "config.yaml", text)
    assert profile.choose(machine(H200, product="DGXH200"))[0].name == "h200-8x"


def test_gpus_alone_choose_but_vouch_for_nothing_else() -> None:
    chosen, why = profile.choose(machine(H200, H200, vendor="Acme", product="Box"))
    assert (chosen.name, chosen.vouches) == ("h200", False)
    assert why == "profile h200 matches these GPUs; no profile knows this machine (Acme Box)"
    unnamed, why = profile.choose(machine(H200))
    assert (unnamed.name, unnamed.vouches) == ("h200", False)
    assert (
        why
        == "profile h200 matches these GPUs; no profile knows this machine (it gives no DMI names)"
    )


@pytest.mark.parametrize(
    "gpus", [("10de:ffff",), (H100, H200), ("10de:2342",), ()]
)  # 2342 is the GH200, whose name has H200 in it
def test_gpus_that_no_profile_knows(gpus: tuple[str, ...]) -> None:
    chosen, why = profile.choose(machine(*gpus, product="DGXH100"))
    assert (chosen.name, chosen.vouches) == ("default", False)
    known = ", ".join(sorted(gpus)) or "one without GPUs"
    assert why == f"no profile matches this machine: none knows {known}"


def test_gpus_that_could_not_be_listed_or_named() -> None:
    unread: Any = lost()
    chosen, why = profile.choose(demo_node(gpus=unread))
    assert (chosen.name, chosen.vouches, why) == (
        "default",
        False,
        "no profile chosen: the GPUs could not be listed",
    )
    nameless = machine(H200, H200)
    nameless = nameless._replace(
        gpus=(was_read(nameless.gpus)[0], was_read(nameless.gpus)[1]._replace(device_id=unread))
    )
    chosen, why = profile.choose(nameless)
    assert (chosen.name, chosen.vouches) == ("default", False)
    assert why == "no profile matches this machine: none knows 10de:2335, a GPU without device id"


def test_two_that_fit_equally_are_said(site: Path) -> None:
    for name in ("one", "two"):
        write(
            site / "profiles",
            f"{name}.yaml",
            f'match: {{device_ids: ["{H200}"], machines: ["Acme*"]}}\n',
        )
    chosen, why = profile.choose(machine(H200, vendor="Acme"))
    assert (chosen.name, chosen.vouches) == ("default", False)
    assert why == "no profile was chosen: one and two fit equally"


def test_a_pinned_profile_wins(site: Path) -> None:
    write(site, "config.yaml", "profile: h100\n")
    chosen, why = profile.choose(machine(H200, product="PowerEdge XE9680"), ["gpu.count=2"])
    assert (chosen.name, chosen.vouches, seen(chosen).gpu.count) == ("h100", True, 2)
    assert why == f"profile h100, pinned in {site}/config.yaml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profil: h100\n", "config.yaml:1:1: $.profil: unknown key; did you mean profile?"),
        ("profile: 5\n", "config.yaml:1:10: $.profile: 5 is not a string"),
        ("- a\n", "config.yaml:1:1: $: ['a'] is not an object"),
        ("profile: h101\n", "config.yaml:1:10: $.profile: unknown profile 'h101': known profiles"),
    ],
)
def test_mistakes_in_the_site_s_configuration(text: str, words: str, site: Path) -> None:
    write(site, "config.yaml", text)
    with pytest.raises(ProfileError) as told:
        profile.choose(machine(H200))
    assert words in str(told.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses what others may write")
def test_a_site_configuration_that_others_may_write_is_refused(site: Path) -> None:
    path = write(site, "config.yaml", "profile: h100\n")
    os.chmod(path, 0o666)
    with pytest.raises(ProfileError, match="chmod go-w"):
        profile.choose(machine(H200))


def test_an_empty_configuration_pins_nothing(site: Path) -> None:
    write(site, "config.yaml", "{}\n")
    assert profile.choose(machine(H200))[0].name == "h200"


def test_choosing_does_not_parse_profiles_of_other_gpus(site: Path) -> None:
    write(site / "profiles", "broken.yaml", "match: {device_ids: ['10de:ffff']\n")
    assert profile.choose(machine(H200))[0].name == "h200", (
        "one that cannot be parsed does not matter"
    )
    write(site / "profiles", "broken2.yaml", f"match: {{device_ids: ['{H200}']\n")
    with pytest.raises(ProfileError, match=r"broken2\.yaml:2:1: not valid YAML"):
        profile.choose(machine(H200))


def test_a_profile_that_only_speaks_of_a_gpu_does_not_match_it(site: Path) -> None:
    write(
        site / "profiles",
        "talk.yaml",
        f"description: Not for {H200}.\nmatch: {{device_ids: ['10de:ffff']}}\n",
    )
    assert profile.choose(machine(H200))[0].name == "h200"


DELL = {"vendor": "Dell Inc.", "product": "PowerEdge XE9680"}


def test_a_site_profile_that_extends_a_bundled_one_is_chosen_where_that_is(site: Path) -> None:
    """It need not repeat what it matches: under the same name it stands in for it."""
    assert profile.choose(machine(*[H100] * 8, **DELL))[0].name == "h100-8x"
    write(site / "profiles", "h100-8x.yaml", "extends: h100-8x\ngpu:\n  count: 7\n")
    chosen, why = profile.choose(machine(*[H100] * 8, **DELL))
    assert (chosen.name, chosen.vouches, seen(chosen).gpu.count) == ("h100-8x", True, 7)
    assert why == "profile h100-8x matches this machine"
    assert profile.choose(machine(H200))[0].name == "h200"


def test_a_site_profile_of_another_name_says_itself_where_it_fits(site: Path) -> None:
    """Else adding a variant would make two that fit equally; and words in a description match
    nothing.
    """
    write(
        site / "profiles",
        "ours.yaml",
        "extends: h100-8x\ndescription: 'no match: here'\ngpu: {count: 7}\n",
    )
    assert profile.choose(machine(*[H100] * 8, **DELL))[0].name == "h100-8x"
    write(
        site / "profiles",
        "h100-8x.yaml",
        "extends: h100-8x\ndescription: 'no match: here'\ngpu: {count: 6}\n",
    )
    assert seen(profile.choose(machine(*[H100] * 8, **DELL))[0]).gpu.count == 6


def test_a_site_profile_without_a_match_of_its_own_matches_no_more_than_its_parent(
    site: Path,
) -> None:
    write(site / "profiles", "h100-8x.yaml", "extends: h200\ngpu: {count: 6}\n")
    assert profile.choose(machine(H100, **DELL))[0].name != "h100-8x"
    write(site / "profiles", "ours.yaml", "gpu: {count: 6}\n")
    assert profile.choose(machine(H100, **DELL))[0].name != "ours"
