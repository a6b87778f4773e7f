"""Profiles: loading, extending, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from program import Call

from gpuscan import profile
from gpuscan.engine.lens import ProfileLens
from gpuscan.errors import ProfileError, UsageError
from gpuscan.files import bundled
from gpuscan.importers.load import open_recording
from gpuscan.profile import yamlfile
from gpuscan.profile.keys import load_schema
from gpuscan.recording import save

BUNDLED = Path(bundled("profiles"))
NAMES = sorted(path.stem for path in BUNDLED.glob("*.yaml"))


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def seen(loaded: profile.Profile) -> ProfileLens:
    return ProfileLens(loaded, loaded.data, "")


def refused(name: str, *settings: str) -> str:
    with pytest.raises((ProfileError, UsageError)) as told:
        profile.load(name, settings)
    return str(told.value)


H100, H200 = "10de:2330", "10de:2335"


@pytest.mark.parametrize("name", NAMES)
def test_every_bundled_profile_holds_to_the_schema(name: str) -> None:
    path = BUNDLED / f"{name}.yaml"
    document, positions = yamlfile.load(path.read_text("utf-8"), str(path))
    yamlfile.validate(document, positions, str(path), load_schema())
    assert document["description"].endswith(".")
    loaded = profile.load(name)
    jsonschema.Draft202012Validator(load_schema()).validate(dict(loaded.data))
    assert (loaded.name, loaded.vouches) == (name, True)


def keys_of(schema: dict[str, Any], above: str = "") -> set[str]:
    found = set()
    for key, part in schema.get("properties", {}).items():
        found |= keys_of(part, f"{above}{key}.") | {f"{above}{key}"}
    return found


def keys_in(data: Any, above: str = "") -> set[str]:
    if not isinstance(data, dict):
        return set()
    return {f"{above}{key}" for key in data} | {
        word for key, value in data.items() for word in keys_in(value, f"{above}{key}.")
    }


def test_the_default_profile_has_every_key_of_the_schema_and_no_other() -> None:
    wanted = {
        key for key in keys_of(load_schema()) if not key.startswith("match.") and key != "extends"
    }
    assert keys_in(dict(profile.load("default").data)) == wanted


def test_the_schema_is_valid_itself_and_closed() -> None:
    schema = load_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].startswith("urn:")
    for part in (schema, *(p for p in schema["properties"].values() if "properties" in p)):
        assert part["additionalProperties"] is False


@pytest.mark.parametrize("name", NAMES)
def test_every_number_in_a_bundled_profile_comes_with_its_source(name: str) -> None:
    for line in (BUNDLED / f"{name}.yaml").read_text("utf-8").splitlines():
        value = line.partition(":")[2].partition("#")[0].strip()
        counted = line.strip().startswith(
            ("count:", "ports: 0", "rate_gbps:")
        )  # the profile's subject, or told beside it
        if value.isdigit() and not counted:
            assert "#" in line, line


def test_extending_a_bundled_profile(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.yaml", "extends: h200\ngpu:\n  count: 3\ncapabilities: [pcie]\n")
    mine = profile.load(path)
    assert mine.name == "mine"
    assert (seen(mine).gpu.count, seen(mine).gpu.device_id, seen(mine).gpu.power_limit_w) == (
        3,
        H200,
        700,
    )
    assert mine.data["capabilities"] == ["pcie"], "lists are replaced, not joined"
    assert mine.data["driver"] == profile.load("default").data["driver"], (
        "what nobody names comes from the default"
    )


def test_extending_a_file_is_relative_to_the_child_and_may_be_several_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path, "a.yaml", "gpu: {count: 2}\ninfiniband: {ports: 1}\n")
    write(tmp_path, "b.yaml", "extends: a.yaml\ngpu: {name: B}\n")
    path = write(tmp_path / "sub", "c.yaml", "extends: ../b.yaml\ngpu: {count: null}\n")
    monkeypatch.chdir("/")
    loaded = profile.load(path)
    assert (loaded.data["gpu"]["count"], loaded.data["gpu"]["name"]) == (None, "B"), (
        "null takes an expectation back"
    )
    assert loaded.data["infiniband"]["ports"] == 1


def test_a_floor_of_ones_own_is_no_estimate_of_the_parents(tmp_path: Path) -> None:
    """A site that has measured its GPUs is not to hear that its floor only warns."""
    path = write(tmp_path, "site.yaml", "extends: b200\nburnin: {gemm_bf16_tflops: 1500}\n")
    theirs, own = (profile.load(name).data["burnin"] for name in ("b200", path))
    assert own["gemm_bf16_tflops"] == 1500
    assert set(theirs["estimates"]) - set(own["estimates"]) == {"gemm_bf16_tflops"}
    path = write(
        tmp_path,
        "site.yaml",
        "extends: b200\nburnin: {gemm_bf16_tflops: 1500, estimates: [gemm_bf16_tflops]}\n",
    )
    assert profile.load(path).data["burnin"]["estimates"] == ["gemm_bf16_tflops"]


def test_parents_that_go_in_circles(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "extends: b.yaml\n")
    path = write(tmp_path, "b.yaml", "extends: ./a.yaml\n")
    assert "extends itself through" in refused(path)
    own = write(tmp_path, "own.yaml", "extends: own.yaml\n")
    assert f"{own}:1:10: $.extends: extends itself through {own} → {own}" == refused(own)


def test_unknown_profiles_and_parents_name_their_neighbours(tmp_path: Path) -> None:
    assert refused("h20").startswith("unknown profile 'h20': did you mean h200?")
    assert "unknown profile 'zzzzzz': known profiles: a100-40gb, a100-80gb" in refused("zzzzzz")
    assert "unknown profile 'h2000': did you mean h200" in refused(
        write(tmp_path, "a.yaml", "extends: h2000\n")
    )
    assert (
        refused(write(tmp_path, "b.yaml", "extends: gone.yaml\n"))
        == f"{tmp_path}/b.yaml:1:10: $.extends: {tmp_path}/gone.yaml: No such file or directory"
    )


def test_mistakes_in_a_file_are_told_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "gpu:\n  count: eight\n")
    assert refused(path).startswith(f"{path}:2:10: $.gpu.count: 'eight' is not an integer")
    path = write(tmp_path, "b.yaml", "gpu:\n  cuont: 8\n")
    assert refused(path) == f"{path}:2:3: $.gpu.cuont: unknown key; did you mean count?"
    path = write(tmp_path, "c.yaml", "- gpu\n")
    assert refused(path).startswith(f"{path}:1:1: $: ['gpu'] is not an object")
    path = write(tmp_path, "d.yaml", "extends: b.yaml\n")
    assert refused(path).startswith(f"{tmp_path}/b.yaml:2:3: "), (
        "a mistake of the parent is told of the parent"
    )
    path = write(tmp_path, "e.yaml", "driver: {version: 535}\n")
    assert refused(path).startswith(f"{path}:1:19: $.driver.version: 535 is not a string")
    path = write(tmp_path, "f.yaml", "driver: {version: 'at least 535'}\n")
    assert (
        f"{path}:1:19: $.driver.version: 'at least 535' is not a version limit: write"
        in refused(path)
    )
    path = write(tmp_path, "g.yaml", "skip: {memory.x: 5}\n")
    assert refused(path) == f"{path}:1:18: $.skip.memory.x: 5 is not a string"
    path = write(tmp_path, "h.yaml", "burnin:\n  nccl:\n    all-reduce p2p 8 1GB: 330\n")
    assert refused(path).startswith(
        f"{path}:3:5: $.burnin.nccl: 'all-reduce p2p 8 1GB' is not collective, transport, "
    )


def test_files_that_are_no_text(tmp_path: Path) -> None:
    binary = tmp_path / "a.yaml"
    binary.write_bytes(b"gpu: \xff\xfe\n")
    assert refused(str(binary)).startswith(
        f"{binary}:1:1: not a text file in UTF-8 (invalid start byte at byte 5)"
    )
    assert refused(write(tmp_path, "b.yaml", "")) == f"{tmp_path}/b.yaml:1:1: the file is empty"
    assert (
        refused(write(tmp_path, "c.yaml", "#" * (1 << 20) + "\n"))
        == f"{tmp_path}/c.yaml: larger than 1024 KiB, which no profile is"
    )
    assert (
        refused(str(tmp_path / "missing.yaml"))
        == f"{tmp_path}/missing.yaml: No such file or directory"
    )
    (tmp_path / "folder.yaml").mkdir(mode=0o755)
    assert refused(str(tmp_path / "folder.yaml")) == f"{tmp_path}/folder.yaml: Is a directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root refuses what others may write")
def test_a_profile_that_others_may_write_is_refused_with_its_chmod(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "gpu: {count: 8}\n")
    os.chmod(path, 0o666)
    assert (
        refused(path) == f"{path}: others may write it, and gpuscan runs as root: chmod go-w {path}"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read anything")
def test_a_profile_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "gpu: {count: 8}\n")
    os.chmod(path, 0)
    assert refused(path) == f"{path}: Permission denied"


def test_the_site_s_profile_of_a_bundled_name_goes_first(site: Path) -> None:
    write(site / "profiles", "h200.yaml", "extends: h100\ngpu: {count: 77}\n")
    assert seen(profile.load("h200")).gpu.count == 77
    assert profile.list_profiles()["h200"] == str(site / "profiles" / "h200.yaml")
    assert profile.list_profiles()["h100"] == str(BUNDLED / "h100.yaml")


def test_unreadable_site_profiles_are_told(site: Path) -> None:
    (site / "profiles").rmdir()
    write(site, "profiles", "no folder")
    assert "h200" in profile.list_profiles(), "a file in the folder's place is no folder"


def test_a_profile_speaks_to_check_authors_like_an_object() -> None:
    loaded = profile.load("h200-8x")
    assert (seen(loaded).gpu.count, seen(loaded).infiniband.rate_gbps) == (8, 400)
    with pytest.raises(
        AttributeError,
        match=r"profiles have no key gpu\.cuont: add it to gpuscan/schemas/profile\.schema\.json",
    ):
        _ = seen(loaded).gpu.cuont


def test_a_comment_names_the_schema_for_editors() -> None:
    for name in NAMES:
        first = (BUNDLED / f"{name}.yaml").read_text("utf-8").splitlines()[0]
        assert first == "# yaml-language-server: $schema=../gpuscan/schemas/profile.schema.json"


def test_a_site_profile_may_extend_the_bundled_one_of_its_name(site: Path) -> None:
    write(site / "profiles", "h200-8x.yaml", "extends: h200-8x\ngpu:\n  count: 7\n")
    loaded = profile.load("h200-8x")
    assert (seen(loaded).gpu.count, seen(loaded).gpu.device_id) == (7, H200)


BROKEN_PLACES = {
    "a dangling link": lambda path: path.symlink_to("/no/such/place.yaml"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a folder": lambda path: path.mkdir(),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize(
    "words",
    [("judge",), ("profile", "list"), ("profile", "show", "x"), ("profile", "validate", "x")],
)
@pytest.mark.parametrize("name", BROKEN_PLACES)
def test_what_is_no_file_among_the_site_s_profiles_is_told(
    name: str, words: tuple[str, ...], site: Path, call: Call
) -> None:
    BROKEN_PLACES[name](site / "profiles" / "x.yaml")
    if words == ("judge",):
        words = (*words, str(saved_without_a_profile(site)))
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"gpuscan: {site}/profiles/x.yaml:")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


def saved_without_a_profile(folder: Path) -> Path:
    """Write the demo so that a profile has to be chosen for it."""
    demo = open_recording("demo")
    demo.meta = demo.meta._replace(profile=None)
    save(demo, str(folder / "demo.json"))
    return folder / "demo.json"


@pytest.mark.parametrize(
    "limit", ["==96.00.99.00.01", ">=96", ">=96.00,<97", "!=96.00.A5.00.1A", "null"]
)
def test_limits_of_a_vbios_are_taken(limit: str) -> None:
    profile.load("h200-4x", [f"gpu.vbios={limit}"])


NO_LIMITS = ("nonsense", "96.00.99.00.01", "=96", ">=", "==", ">=96,", ",>=96", ">=96 <97", "~=96")


@pytest.mark.parametrize("limit", NO_LIMITS)
def test_limits_of_a_vbios_that_are_none_are_refused(limit: str, tmp_path: Path) -> None:
    assert "gpu.vbios" in refused("h200-4x", f"gpu.vbios={limit}")
    path = write(tmp_path, "a.yaml", f'extends: h200-4x\ngpu:\n  vbios: "{limit}"\n')
    assert f"a.yaml:3:10: $.gpu.vbios: '{limit}' is not a version limit: write" in refused(path)


def test_slots_with_their_silkscreen(tmp_path: Path) -> None:
    """A mapping of slots is one expectation: a child's replaces its parent's, as a list does."""
    parent = write(tmp_path, "p.yaml", "gpu: {slots: {SXM1: GPU 5, SXM2: GPU 7}}\n")
    loaded = profile.load(parent)
    assert [profile.silkscreen(loaded, label) for label in ("SXM1", "SXM2", "SXM3")] == [
        "GPU 5",
        "GPU 7",
        "",
    ]
    assert seen(loaded).gpu.slots == {"SXM1": "GPU 5", "SXM2": "GPU 7"}
    child = profile.load(
        write(tmp_path, "c.yaml", "extends: p.yaml\ngpu: {slots: {SXM3: GPU 1}}\n")
    )
    assert child.data["gpu"]["slots"] == {"SXM3": "GPU 1"}
    listed = profile.load(write(tmp_path, "l.yaml", "extends: p.yaml\ngpu: {slots: [SXM1]}\n"))
    assert (seen(listed).gpu.slots, profile.silkscreen(listed, "SXM1")) == (["SXM1"], "")
    assert profile.silkscreen(profile.load("default"), "SXM1") == ""
    assert profile.silkscreen(profile.load(parent, ["gpu.slots={SXM4: GPU 2}"]), "SXM4") == "GPU 2"


@pytest.mark.parametrize(
    "slots", ["{SXM1: 5}", "{SXM1: ''}", "{SXM1: null}", "SXM1", "[5]", "[SXM1, SXM1]"]
)
def test_slots_that_are_none_are_refused(tmp_path: Path, slots: str) -> None:
    assert "$.gpu.slots" in refused(write(tmp_path, "p.yaml", f"gpu: {{slots: {slots}}}\n"))
