"""Changes to a profile with `--set`."""

from __future__ import annotations

from typing import Any

import pytest

from gpuscan import profile
from gpuscan.engine.lens import ProfileLens
from gpuscan.errors import ProfileError, UsageError


def seen(loaded: profile.Profile) -> ProfileLens:
    return ProfileLens(loaded, loaded.data, "")


def refused(name: str, *settings: str) -> str:
    with pytest.raises((ProfileError, UsageError)) as told:
        profile.load(name, settings)
    return str(told.value)


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("gpu.count=4", ("gpu", "count"), 4),
        ("gpu.count=null", ("gpu", "count"), None),
        ("gpu.count=", ("gpu", "count"), None),
        ("gpu.name=NVIDIA H200", ("gpu", "name"), "NVIDIA H200"),
        ('gpu.name="5"', ("gpu", "name"), "5"),
        ("driver.version=>=535.104.05,<590", ("driver", "version"), ">=535.104.05,<590"),
        ("driver.version=!=550", ("driver", "version"), "!=550"),
        ("driver.version=<590", ("driver", "version"), "<590"),
        ("infiniband.rate_gbps=200.5", ("infiniband", "rate_gbps"), 200.5),
        ("capabilities=[pcie, nvlinks]", ("capabilities",), ["pcie", "nvlinks"]),
        ("gpu={count: 5}", ("gpu",), {"count": 5}),
        (
            "skip.memory.row_remap=being repaired",
            ("skip", "memory.row_remap"),
            "being repaired",
        ),
        ("skip.pcie.x=too slow = known", ("skip", "pcie.x"), "too slow = known"),
        ("skip={a.b: because}", ("skip", "a.b"), "because"),
        ("optional=[xid.a]", ("optional",), ["xid.a"]),
    ],
)
def test_settings(setting: str, path: tuple[str, ...], value: Any) -> None:
    data: Any = profile.load("h200", [setting]).data
    for key in path:
        data = data[key]
    assert data == value


def test_a_setting_leaves_all_else_and_the_last_one_wins() -> None:
    plain, changed = (
        profile.load("h200-8x"),
        profile.load("h200-8x", ["gpu.count=4", "gpu.count=5"]),
    )
    assert seen(changed).gpu.count == 5
    assert {**changed.data, "gpu": {**changed.data["gpu"], "count": 8}} == plain.data
    assert seen(profile.load("h200-8x")).gpu.count == 8, "the profile itself is not changed"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("gpu.count", "--set gpu.count: write it as KEY=VALUE, as in --set gpu.count=4"),
        ("=4", "no such key"),
        ("gpu.conut=4", "--set gpu.conut=4: no such key; did you mean gpu.count"),
        ("gpus.count=4", "did you mean gpu.count"),
        ("gpu.count.more=4", "no such key"),
        ("match.device_ids=[]", "no such key"),
        ("extends=h100", "no such key"),
        ("gpu.count=eight", "$.gpu.count: 'eight' is not an integer"),
        ("gpu.count=-1", "$.gpu.count: -1 is less than the minimum of 0"),
        ("gpu.count=[4", "not valid YAML"),
        ("gpu.count=010", "'010' is an unusual number"),
        ("gpu.pcie_width=3", "$.gpu.pcie_width: 3 is not one of"),
        ("gpu=4", "$.gpu: 4 is not an object"),
        ("skip.memory.x=5", "$.skip.memory.x: 5 is not a string"),
        ("skip.memory.x=broken: yes", "would be read as true or false"),  # a value is YAML
        ("capabilities=[warp]", "$.capabilities[0]: 'warp' is not one of"),
        ("driver.version=*", "$.driver.version: '*' is not a version limit: write >=550.54"),
    ],
)
def test_settings_that_make_no_sense(setting: str, words: str) -> None:
    assert words in refused("default", setting)
    assert refused("default", setting).startswith("--set")
