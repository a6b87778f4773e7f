"""Versions compared part by part, hexadecimal where they are a VBIOS."""

from __future__ import annotations

import pytest

from gpuscan.profile.version import parts, satisfies


@pytest.mark.parametrize(
    ("version", "wanted", "held"),
    [
        ("535.104.05", ">=535.104.05", True),
        ("535.104.04", ">=535.104.05", False),
        ("535.104.12", ">535.104.05", True),
        ("535.104.05", ">535.104.05", False),
        ("570.124.06", ">=535.104.05,<590", True),
        ("590.10", ">=535.104.05,<590", False),
        ("590", "<=590", True),
        ("590.0", "==590", True),
        ("590.0.1", "==590", False),
        ("590.0.1", "!=590", True),
        ("590", "!=590.0.0", False),
        ("99.1", "<570", True),  # 99 is less than 570, "99" is not
        ("570.9", "<570.10", True),
        ("28.39.1002", ">=28.39.1002, <29", True),
        ("570.124.06-beta", "<570.124.06", True),
        ("not a version", ">=1", False),
        ("", ">=1", False),
    ],
)
def test_limits(version: str, wanted: str, held: bool) -> None:
    assert satisfies(version, wanted) is held


@pytest.mark.parametrize(
    ("version", "wanted", "held"),
    [
        ("96.00.A5.00.1A", ">96.00.9F.00.01", True),
        ("96.00.A5.00.1A", ">=96.00.a5.00.1a", True),
        (
            "96.00.A5.00.1A",
            ">96.00.A5.00.10",
            True,
        ),  # by decimal digits 1A would be no number at all
        ("96.00.A5.00.1A", "<96.00.A5.00.20", True),
        ("96.00.A5.00.1A", "<96.00.B0", True),
        ("96.00.99.00.01", "<96.00.A5.00.01", True),
        ("96.00.A5.00.01", "<96.00.99.00.01", False),
        ("96.00.10.00.01", ">96.00.0F.00.01", True),
        ("96.00.A5.00.1A", "==96.00.A5.00.1A", True),
    ],
)
def test_the_parts_of_a_vbios_are_hexadecimal(version: str, wanted: str, held: bool) -> None:
    assert satisfies(version, wanted) is held


@pytest.mark.parametrize(
    "wanted", ["535", "=535", "", "~=535", ">=", "535.*", ">=535.*", "<1,535", ">=535,,<590"]
)
def test_what_is_no_limit_is_refused_even_where_an_earlier_one_does_not_hold(wanted: str) -> None:
    with pytest.raises(ValueError, match="is no limit"):
        satisfies("535.104.05", wanted)


def test_keys_order_as_people_do() -> None:
    versions = ["1.2", "1.2.1", "1.10", "2", "535.54.03", "535.104.05", "570.86.10"]
    backwards = versions[::-1]
    assert sorted(backwards, key=parts) == versions
    assert parts("A5") == ((-1, "a5"),)
    assert parts("A5", hexadecimal=True) == ((165, ""),)
    assert parts("²") == ((-1, "²"),), "a digit that int() does not take is a word"
