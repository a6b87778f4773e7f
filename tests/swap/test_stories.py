"""After a swap: sixteen stories and more, what cannot be compared, and what cannot be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from nodes_recordings import base, checks
from program import Call
from swap_stories import GPUS, STORIES, findings, of, recorded, sentences, told

from gpuscan import renderers
from gpuscan.engine import judging
from gpuscan.engine.report import Report
from gpuscan.errors import UsageError
from gpuscan.files import schema_text
from gpuscan.importers.load import open_recording
from gpuscan.model.outcome import Action, Status
from gpuscan.recording import Recording, save
from gpuscan.swap import compare as comparing

NEW = {"serial": "1654000000907", "uuid": "GPU-00000907-0100-4000-8000-000000000907"}
EIGHT = {"base": "h100-8x-ib"}
REPLACED = {**EIGHT, "after": {"gpus": {"SXM6": NEW}}, "expect": ["gpu:SXM6=replaced"]}
COMPARING = {one.id for one in checks() if one.subject == "change"}


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str) -> None:
    story, report = STORIES[name], told(name)
    assert findings(report) == story["findings"]
    assert (report.verdict, report.exit_code) == (story["verdict"], story["exit"])
    assert [sentence for sentence in story["sentences"] if sentence not in sentences(report)] == []
    assert [result.reason for result in report.results if result.status is Status.UNKNOWN] == []
    assert not [result.traceback for result in report.results if result.traceback]


def test_there_are_the_sixteen_stories() -> None:
    assert [name.partition("-")[0] for name in STORIES][:16] == [f"{n:02}" for n in range(1, 17)]
    parts = {
        "about",
        "base",
        "before",
        "after",
        "expect",
        "files",
        "profile",
        "verdict",
        "exit",
        "findings",
        "sentences",
    }
    assert all(set(story) <= parts for story in STORIES.values())


def test_every_check_on_changes_fails_in_one_story_and_passes_in_another() -> None:
    results = [
        result for name in STORIES for result in told(name).results if result.check in COMPARING
    ]
    assert {result.check for result in results if result.findings} == COMPARING
    assert {result.check for result in results if result.status is Status.PASS} == COMPARING


def test_every_check_on_changes_has_its_source() -> None:
    assert all(one.mark.source for one in checks() if one.subject == "change")


def test_a_scan_by_itself_has_no_word_on_swaps() -> None:
    report = judging.judge_recording(base("h100-8x-ib"), "", judging.prepare(judging.Selection()))
    assert report.changes == ()
    assert not {result.check for result in report.results} & COMPARING
    assert '"changes"' not in renderers.find("json")([report], verbosity=0)
    assert "Changed:" not in renderers.find("text")([report], verbosity=0)


def test_an_unreadable_serial_is_never_the_same_one() -> None:
    gpus = {
        "SXM6": {fact: {"error": ["no-permission", "not allowed"]} for fact in ("serial", "uuid")}
    }
    for side in ("before", "after"):
        report = of({**EIGHT, side: {"gpus": gpus}})
        (row,) = [row for row in report.changes if row.slot == "SXM6"]
        assert row.what == "unknown"
        unknown = {result.check for result in report.results if result.status is Status.UNKNOWN}
        assert "swap.missing_part" in unknown
        assert (report.exit_code, report.complete) == (3, False)


@pytest.mark.parametrize("kind", ["not-supported", "not-recorded"])
def test_no_kind_of_lack_makes_a_gpu_the_same_one(kind: str) -> None:
    unread: Any = {"error": [kind if kind != "not-recorded" else "not-found", "none"]}
    report = of({**EIGHT, "after": {"gpus": {"SXM6": {"serial": unread, "uuid": unread}}}})
    assert report.exit_code == 3


def test_a_uuid_tells_where_no_serial_does() -> None:
    none = {"serial": {"error": ["not-supported", "Not Supported", 3]}}
    assert (
        of(
            {**EIGHT, "before": {"gpus": {"SXM6": none}}, "after": {"gpus": {"SXM6": none}}}
        ).exit_code
        == 0
    )
    other = {"SXM6": {**none, "uuid": NEW["uuid"]}}
    report = of({**EIGHT, "before": {"gpus": {"SXM6": none}}, "after": {"gpus": other}})
    assert findings(report) == {"swap.other_parts[change:SXM6]": "fix-config"}


def test_a_gpu_of_which_nothing_was_known_cannot_be_proven_to_be_another() -> None:
    lost = {"SXM6": {"everything": {"error": ["lost", "GPU is lost", 15]}}}
    report = of({**REPLACED, "before": {"gpus": lost}})
    assert (report.verdict, report.exit_code, findings(report)) == ("incomplete", 3, {})
    assert any(
        "gpu SXM6 had no readable identity before" in result.reason for result in report.results
    )


@pytest.mark.parametrize(
    "kind", ["not-supported", "not-found", "no-permission", "timed-out", "garbled"]
)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("word", "keys"),
    [
        (
            "nic:mlx5_3",
            (
                "file:/sys/bus/pci/devices/0000:5e:00.0/vpd",
                "file:/sys/class/infiniband/mlx5_3/node_guid",
            ),
        ),
        ("disk:nvme0", ("file:/sys/class/nvme/nvme0/serial",)),
    ],
)
def test_a_named_part_that_nothing_tells_from_others_is_not_proven(
    word: str, keys: tuple[str, ...], side: str, kind: str
) -> None:
    unread: Any = {"error": [kind, "it was not read"]}
    report = of({**EIGHT, side: {"set": dict.fromkeys(keys, unread)}, "expect": [word]})
    assert (report.verdict, report.exit_code, findings(report)) == ("incomplete", 3, {})


def test_what_a_new_gpu_lacks_and_its_siblings_have_is_not_passed_over() -> None:
    for fact in ("vbios", "part_number", "persistence"):
        gpu = {**NEW, fact: {"error": ["not-supported", "Not Supported", 3]}}
        assert of({**REPLACED, "after": {"gpus": {"SXM6": gpu}}}).exit_code == 3, fact


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_list_that_was_not_read_is_no_empty_one(side: str) -> None:
    unread = {"error": ["timed-out", "no answer"]}
    no_gpus = {"set": {"dir:/sys/bus/pci/devices": unread, "nvml:nvmlDeviceGetCount()": unread}}
    report = of({**EIGHT, side: no_gpus, "expect": ["tray"]})
    assert not [finding for finding in findings(report) if finding.startswith("swap.")]
    unknown = [
        result.reason
        for result in report.results
        if result.subject == "change:GPUs" and result.status is Status.UNKNOWN
    ]
    assert unknown
    assert all("the GPUs were not listed" in reason for reason in unknown)
    assert not [r for r in report.results if r.subject == "change:GPUs" and r.status is Status.PASS]
    no_adapters = {"set": {"dir:/sys/class/infiniband": unread}}
    assert "the adapters were not listed" in refused(
        {**EIGHT, side: no_adapters, "expect": ["nic:mlx5_3"]}
    )
    assert of({**EIGHT, side: no_adapters}).exit_code == 3


def test_a_part_in_a_slot_that_was_empty() -> None:
    before = {"gone": ["SXM6"]}
    assert of({**REPLACED, "before": before}).exit_code == 0
    report = of({**REPLACED, "before": before, "expect": []})
    assert findings(report) == {"swap.other_parts[change:SXM6]": "fix-config"}
    assert (
        "change:SXM6: unexpected GPU in a slot that was empty: serial 1654000000907"
        in sentences(report)
    )


def test_a_slot_that_is_empty_before_and_after_is_one_that_the_profile_names() -> None:
    slots = ("gpu.slots=[SXM1, SXM2, SXM3, SXM4, SXM5, SXM6, SXM7, SXM8]",)
    story = {
        **EIGHT,
        "before": {"gone": ["SXM6"]},
        "after": {"gone": ["SXM6"]},
        "expect": ["gpu:SXM6"],
        "settings": slots,
    }
    report = of({**story, "profile": "h100-8x"})
    assert findings(report)["swap.missing_part[change:SXM6]"] == "inspect"


def test_a_gpu_that_moved_into_another_slot_is_not_said_to_be_missing() -> None:
    moved = {"gone": ["SXM6"], "gpus": {"SXM5": {"serial": "1654000000107", "uuid": NEW["uuid"]}}}
    report = of({**EIGHT, "after": moved})
    assert (
        "change:SXM6: the slot is empty: its GPU (serial 1654000000107) is now in SXM5"
        in sentences(report)
    )
    assert (
        "change:SXM5: unexpected GPU: serial 1654000000107 from SXM6, was serial 1654000000105"
        in sentences(report)
    )


@pytest.mark.parametrize(
    "word",
    ["gpu:SXM6", "gpu:sxm6=replaced", "gpu:0000:df:00.0", "gpu:1654000000107", "gpu:28", "gpu:7"],
)
def test_the_names_of_a_gpu(word: str) -> None:
    assert of({**REPLACED, "expect": [word]}).exit_code == 0


def test_a_uuid_names_a_gpu() -> None:
    assert (
        of({**REPLACED, "expect": ["gpu:GPU-00000007-0100-4000-8000-000000000107"]}).exit_code == 0
    )


def test_several_parts_can_be_expected() -> None:
    after = {"gpus": {"SXM6": NEW}, "adapters": {"mlx5_3": {"serial": "MT2409ZT00042"}}}
    assert of({**EIGHT, "after": after, "expect": ["gpu:SXM6", "nic:mlx5_3"]}).exit_code == 0
    assert of({**EIGHT, "after": after, "expect": ["gpu:SXM6"]}).exit_code == 20


@pytest.mark.parametrize("word", ["nic:mlx5_3", "nic:mlx5_4", "nic:MT2333ZT00003"])
def test_an_adapter_of_two_functions_is_one_part(word: str) -> None:
    before = {"adapters": {"mlx5_4": {"serial": "MT2333ZT00003"}}}
    after = {
        "adapters": {"mlx5_3": {"serial": "MT2409ZT00042"}, "mlx5_4": {"serial": "MT2409ZT00042"}}
    }
    assert of({**EIGHT, "before": before, "after": after, "expect": [word]}).exit_code == 0
    half = {"adapters": {**before["adapters"], "mlx5_3": {"serial": "MT2409ZT00042"}}}
    assert of({**EIGHT, "before": before, "after": half, "expect": [word]}).exit_code == 20


def test_a_new_gpu_that_does_not_answer_is_told_once() -> None:
    lost = {"gpus": {"SXM6": {"everything": {"error": ["lost", "GPU is lost", 15]}}}}
    report = of({**EIGHT, "after": lost, "expect": ["gpu:SXM6"]})
    assert findings(report) == {"driver.gpu_access[gpu:SXM6]": "reboot"}
    assert not [result.check for result in report.results if result.status is Status.UNKNOWN]
    assert not report.complete


def test_swap_checks_alone_say_that_nothing_was_compared(call: Call) -> None:
    done = call("run", "--replay", "demo", "--only", "swap", "-v")
    assert done.code == 3
    assert "does not apply: nothing was compared (gpuscan diff does that)" in done.out


def test_a_disk() -> None:
    changed = {"set": {"file:/sys/class/nvme/nvme0/serial": "23214ZT09999\n"}}
    assert of({**EIGHT, "after": changed, "expect": ["disk:nvme0=replaced"]}).exit_code == 0
    assert findings(of({**EIGHT, "after": changed})) == {
        "swap.other_parts[change:nvme0]": "fix-config"
    }
    changed["set"]["file:/sys/class/nvme/nvme0/model"] = "Other\n"
    report = of({**EIGHT, "after": changed, "expect": ["disk:nvme0"]})
    assert findings(report) == {"swap.part_kind[change:nvme0]": "fix-config"}


def test_a_cable_is_judged_by_what_it_carries() -> None:
    down = {"adapters": {"mlx5_3": {"state": "1: DOWN\n"}}, "set": {}}
    assert of({**EIGHT, "before": down, "expect": ["cable:mlx5_3/1"]}).exit_code == 0
    report = of({**EIGHT, "before": down, "after": down, "expect": ["cable:mlx5_3"]})
    assert findings(report)["swap.old_fault[change:mlx5_3/1]"] == "inspect"


def test_a_cable_that_leads_to_a_stranger() -> None:
    report = of({**EIGHT, "before": {"cables": {}}, "after": {"cables": {"mlx5_3": "leaf9 4"}}})
    assert findings(report) == {"swap.cable[change:mlx5_3/1]": "fix-config"}


def test_a_port_that_came_back_as_ethernet() -> None:
    report = of({**EIGHT, "after": {"adapters": {"mlx5_3": {"link_layer": "Ethernet\n"}}}})
    assert "change:mlx5_3/1: the link layer is Ethernet, before it was InfiniBand" in sentences(
        report
    )


def test_a_tray_in_which_nothing_changed_was_not_replaced() -> None:
    report = of({**EIGHT, "expect": ["tray=replaced"]})
    assert set(findings(report)) == {f"swap.named_part[change:{slot}]" for slot in GPUS}


def test_a_new_revision_of_the_part_number_only_warns() -> None:
    for number, action in (
        ("692-2G520-0200-001", Action.FIX_CONFIG),
        ("692-2G520-0282-001", Action.FIX_CONFIG),
    ):
        report = of({**REPLACED, "after": {"gpus": {"SXM6": {**NEW, "part_number": number}}}})
        assert findings(report)["swap.part_kind[change:SXM6]"] == action.value
        assert report.exit_code == (0 if number.startswith("692-2G520-0200") else 20)


def test_another_inforom_only_warns() -> None:
    report = of({**REPLACED, "after": {"gpus": {"SXM6": {**NEW, "inforom": "G520.0200.00.04"}}}})
    assert report.verdict == "warn"
    assert (
        "change:SXM6: InfoROM G520.0200.00.04, but the other GPUs have G520.0200.00.05"
        in sentences(report)
    )


def test_a_fault_that_the_slot_had_before_blames_the_slot() -> None:
    narrow = {"gpus": {"SXM6": {"width": 8}}}
    report = of(
        {
            **EIGHT,
            "before": narrow,
            "after": {"gpus": {"SXM6": {**NEW, "width": 8}}},
            "expect": ["gpu:SXM6"],
        }
    )
    assert findings(report)["swap.old_fault[change:SXM6]"] == "inspect"
    rows = [0, 8, 0, 1]
    same_elsewhere = {"gpus": {"SXM6": NEW, "SXM5": {"rows": rows}}}
    report = of(
        {
            **EIGHT,
            "before": {"gpus": {"SXM6": {"rows": rows}}},
            "after": same_elsewhere,
            "expect": ["gpu:SXM6"],
        }
    )
    assert findings(report) == {"memory.row_remap[gpu:SXM5]": "replace"}


# Files that go with it.


def listing(folder: Path, text: str, name: str = "list.yaml") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def alone(after: Mapping[str, Any], wish: comparing.SwapOptions) -> Report:
    recording = recorded("h100-8x-ib", after, later=True)
    return comparing.compare_recordings(
        None, recording, judging.prepare(judging.Selection()), wish, ("", "after.json.gz")
    )


def test_a_list_of_parts_stands_in_for_the_recording_from_before(tmp_path: Path) -> None:
    file = listing(
        tmp_path,
        "SXM6: 1654000000907\nnic:mlx5_3: {serial: MT2333ZT00003, part_number: MCX75310AAS-NEAT}\n",
    )
    report = alone(
        {"gpus": {"SXM6": NEW}}, comparing.SwapOptions(("gpu:SXM6",), expected_parts=file)
    )
    assert (report.exit_code, [row.what for row in report.changes]) == (0, ["same", "same"])
    report = alone({}, comparing.SwapOptions(("gpu:SXM6",), expected_parts=file))
    assert findings(report) == {"swap.part_kind[change:SXM6]": "fix-config"}
    assert (
        "change:SXM6: serial 1654000000107, but the list of expected parts says 1654000000907"
        in sentences(report)
    )
    worn = {"gpus": {"SXM6": {**NEW, "rows": [0, 2, 0, 0]}}}
    report = alone(worn, comparing.SwapOptions(("gpu:SXM6",), expected_parts=file))
    assert findings(report) == {"swap.wear[change:SXM6]": "inspect"}
    assert alone(worn, comparing.SwapOptions((), expected_parts=file)).exit_code == 0


def test_a_part_of_the_list_that_is_not_there(tmp_path: Path) -> None:
    file = listing(tmp_path, '{"SXM6": "1654000000907"}', "list.json")
    report = alone({"gone": ["SXM6"]}, comparing.SwapOptions(expected_parts=file))
    assert "change:SXM6: no GPU found after the swap (was serial 1654000000907)" in sentences(
        report
    )
    assert report.exit_code == 40


def test_the_list_is_judged_beside_a_recording_too(tmp_path: Path) -> None:
    file = listing(tmp_path, "SXM6: 1654000000908\n")
    assert findings(of(REPLACED, expected_parts=file)) == {
        "swap.part_kind[change:SXM6]": "fix-config"
    }


# What cannot be compared.


def refused(story: Mapping[str, Any], **wish: Any) -> str:
    with pytest.raises(UsageError) as told_of:
        of(story, **wish)
    return str(told_of.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpu:SXM66"], "--expect gpu:SXM66: no such gpu in either recording; did you mean SXM6"),
        (["nic:mlx5_33"], "no such nic in either recording; did you mean mlx5_3"),
        (["cable:mlx5_3/2"], "no such cable in either recording"),
        (["disk:sda"], "no such disk in either recording"),
        (["gpu:SXM6=removed"], "write gpu:SXM6=replaced"),
        (["gpu"], "write gpu:SLOT, nic:NAME"),
        (["gpu:"], "write gpu:SLOT, nic:NAME"),
        (["traay=replaced"], "did you mean tray"),
        (["none=replaced"], "write gpu:SLOT"),
        (["none", "gpu:SXM6"], "--expect none: means that nothing was changed"),
        ([""], "write gpu:SLOT"),
    ],
)
def test_words_that_name_nothing(words: list[str], said: str) -> None:
    assert said in refused({**EIGHT, "expect": words})


def test_a_word_that_names_two_gpus() -> None:
    same = dict.fromkeys(("serial",), "1654000000107")
    twins = {"gpus": {"SXM5": same}}
    assert "matches SXM5 and SXM6: give a slot or a PCI address" in refused(
        {**EIGHT, "before": twins, "expect": ["gpu:1654000000107"]}
    )


def test_the_wrong_order() -> None:
    assert "after.json.gz is 24.0 hours older than before.json.gz" in refused(
        {**EIGHT, "before": {"meta": {"made_at": 1795986400.0 + 86400}}}
    )


def test_recordings_of_one_time_or_of_none() -> None:
    same = {"meta": {"made_at": 1795900000.0}}
    assert of({**EIGHT, "before": same, "after": same}).exit_code == 0
    report = of({**EIGHT, "after": {"meta": {"made_at": None}}})
    assert "one of the two recordings has no time: their order could not be checked" in report.notes


def test_one_of_them_without_serials() -> None:
    unread: Any = {"error": ["no-permission", "Permission denied"]}
    keys = (
        "nvml:nvmlDeviceGetSerial(*",
        "nvml:nvmlDeviceGetUUID(*",
        "file:*/vpd",
        "file:*/node_guid",
        "file:/sys/class/nvme/*/serial",
    )
    blind = {"set": dict.fromkeys(keys, unread)}
    assert refused({**EIGHT, "before": blind}).startswith(
        "before.json.gz: contains no serial number"
    )
    assert refused({**EIGHT, "after": blind, "expect": ["tray"]}).startswith(
        "after.json.gz: contains no serial number"
    )


def test_another_machine() -> None:
    other = {
        "set": {
            "file:/sys/class/dmi/id/product_serial": "ZZTEST2\n",
            "file:/proc/sys/kernel/hostname": "gpu-099\n",
        }
    }
    said = refused({**EIGHT, "after": other})
    assert (
        "are of two machines, ZZTEST1 (gpu-042) and ZZTEST2 (gpu-099): if the tray was replaced,"
        " add --expect tray=replaced" in said
    )
    assert refused({**EIGHT, "after": other, "expect": ["baseboard"]}) == said


def test_two_recordings_of_which_nobody_can_tell() -> None:
    story = STORIES["12-tray"]
    unread = {"error": ["no-permission", "Permission denied"]}
    nameless = {
        "set": {"file:/sys/class/dmi/id/product_serial": unread, "file:/etc/machine-id": unread}
    }
    said = refused({**story, "after": {**story["after"], **nameless}, "expect": ["baseboard"]})
    assert "cannot tell whether they are of one machine" in said


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        (
            "known_bad",
            None,
            "cannot read the list of known bad parts: No such file or directory",
        ),
        ("known_bad", "# nothing\n", "contains no serial number: write one a line"),
        ("known_bad", "serial, reason\n", "'serial, reason' is not a serial number"),
        ("expected_parts", None, "cannot read the list of expected parts"),
        ("expected_parts", "- SXM6\n", "write SLOT: SERIAL"),
        ("expected_parts", "SXM6: {sreial: 5}\n", "write SLOT: SERIAL"),
        ("expected_parts", "SXM6: [\n", "not valid YAML"),
        ("expected_parts", "", "the file is empty"),
    ],
)
def test_files_that_cannot_be_used(
    option: str, text: str | None, said: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "absent") if text is None else listing(tmp_path, text)
    told_of = refused(EIGHT, **{option: file})
    assert said in told_of
    assert file in told_of


def test_a_list_of_firmware_is_taken_in_without_changing_the_recording(tmp_path: Path) -> None:
    members = [
        {"Id": f"HGX_FW_GPU_SXM_{n}", "Version": "96.00.74.00.01" if n == 3 else "96.00.99.00.01"}
        for n in range(1, 9)
    ]
    file = listing(
        tmp_path,
        json.dumps({"Members": [*members, {"Id": "HGX_FW_GPU_SXM_9", "Version": None}]}),
        "bmc.json",
    )
    report = of(REPLACED, firmware_inventory=file)
    assert findings(report) == {"swap.firmware[change:firmware HGX_FW_GPU_SXM_#]": "fix-config"}
    assert of(REPLACED).exit_code == 0


def test_a_silkscreen_names_a_gpu(tmp_path: Path) -> None:
    profile = listing(tmp_path, "extends: h100-8x\ngpu: {slots: {SXM6: GPU 5}}\n", "site.yaml")
    assert of({**REPLACED, "profile": profile, "expect": ["gpu:GPU 5=replaced"]}).changes[0]
    assert "no such gpu" in refused(
        {**REPLACED, "profile": profile, "expect": ["gpu:GPU 4=replaced"]}
    )


def test_nothing_to_compare_with() -> None:
    with pytest.raises(UsageError, match="nothing to compare with"):
        alone({}, comparing.SwapOptions())


# The command.


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A node before and after the right GPU was changed."""
    story, paths = (
        STORIES["01-right-card"],
        (str(tmp_path / "before.json.gz"), str(tmp_path / "after.json.gz")),
    )
    save(recorded(story["base"], story["before"], later=False), paths[0])
    save(recorded(story["base"], story["after"], later=True), paths[1])
    return paths


def test_the_command_line(files: tuple[str, str], call: Call) -> None:
    done = call("diff", *files, "--expect", "gpu:SXM6=replaced")
    assert (done.code, done.err) == (0, "")
    assert "\nChanged: gpu SXM6: serial 1654000000107 -> 1654000000907 (expected)\n" in done.out
    done = call("diff", *files)
    assert done.code == 20
    assert "Changed: gpu SXM6: serial 1654000000107 -> 1654000000907 (not expected)\n" in done.out
    done = call("diff", *reversed(files))
    assert (done.code, done.out) == (2, "")
    assert "hours older than" in done.err


def test_every_option_of_the_command_line(
    files: tuple[str, str], tmp_path: Path, call: Call
) -> None:
    bad, parts = (
        listing(tmp_path, "1654000000907\n", "bad"),
        listing(tmp_path, "SXM6: '1654000000907'\n", "parts"),
    )
    out, junit = str(tmp_path / "report.json"), str(tmp_path / "report.xml")
    swap = (
        f"--expect gpu:SXM6 --known-bad {bad} --expected-parts {parts} --only swap --skip"
        " swap.old_fault"
    )
    shown = (
        f"--format json --output {out} --report junit={junit} --exit-style nagios --context busy -v"
    )
    done = call(
        "diff",
        *files,
        *swap.split(),
        *shown.split(),
        "--profile",
        "h100-8x",
        "--set",
        "gpu.count=8",
    )
    assert (done.code, done.out, done.err) == (2, "", "")
    report = json.loads(Path(out).read_text("utf-8"))
    jsonschema.validate(report, json.loads(schema_text("report")))
    assert report["summary"]["exit_code"] == 41
    assert report["summary"]["targets"] == [
        {
            "subject": "gpu:SXM6",
            "address": "0000:df:00.0",
            "serial": "1654000000907",
            "part_number": "692-2G520-0200-000",
        }
    ]
    assert (report["run"]["compared_with"], report["run"]["expected"]) == (files[0], ["gpu:SXM6"])
    assert 'name="swap.known_bad[change:SXM6]"' in Path(junit).read_text("utf-8")


def test_the_report_lists_what_was_compared() -> None:
    report = json.loads(renderers.find("json")([told("10-cable-crossed")], verbosity=0))
    jsonschema.validate(report, json.loads(schema_text("report")))
    rows = {(row["kind"], row["slot"]): row for row in report["changes"]}
    assert {kind for kind, _ in rows} == {"gpu", "nic", "cable", "disk", "node"}
    assert [row["slot"] for row in report["changes"] if row["what"] == "replaced"] == ["mlx5_3"]
    nic = rows["nic", "mlx5_3"]
    assert (nic["before"]["serial"], nic["after"]["serial"], nic["expected"]) == (
        "MT2333ZT00003",
        "MT2409ZT00042",
        True,
    )
    assert rows["cable", "mlx5_3/1"]["what"] == "moved"
    assert rows["gpu", "SXM6"]["before"]["vbios"] == "96.00.99.00.01"


@pytest.mark.parametrize("name", STORIES)
def test_every_report_fits_its_schema(name: str) -> None:
    jsonschema.validate(
        json.loads(renderers.find("json")([told(name)], verbosity=0)),
        json.loads(schema_text("report")),
    )


def test_nothing_changed_is_said_and_everything_is_folded() -> None:
    text = renderers.find("text")
    assert "\nChanged: nothing\n" in text([told("13-nothing-changed")], verbosity=0)
    tray = told("12-tray")
    assert "\nChanged: gpu SXM[1-8]: replaced (expected; -v shows each)\n" in text(
        [tray], verbosity=0
    )
    assert (
        "compared with before.json.gz: every GPU was replaced; expected to be replaced:"
        " tray=replaced\n" in text([tray], verbosity=0)
    )
    assert "         gpu SXM1: serial 1654000000101 -> 1654000000801 (expected)\n" in text(
        [tray], verbosity=1
    )
    assert "         node: serial ZZTEST1 -> ZZTEST2, BIOS 2.3.5 -> 2.3.6\n" in text(
        [tray], verbosity=0
    )


def test_the_demo_beside_itself() -> None:
    demo = open_recording("demo")
    later = Recording(demo.meta._replace(made_at=(demo.meta.made_at or 0.0) + 60), demo.scope, demo)
    report = comparing.compare_recordings(
        demo,
        later,
        judging.prepare(judging.Selection()),
        comparing.SwapOptions(),
        ("demo", "later"),
    )
    assert (report.exit_code, findings(report)) == (0, {})
    assert "\nChanged: nothing\n" in renderers.find("text")([report], verbosity=0), (
        "what a recording does not hold is no change"
    )
    broken = comparing.compare_recordings(
        demo,
        open_recording("demo-broken"),
        judging.prepare(judging.Selection()),
        comparing.SwapOptions(),
        ("demo", "later"),
    )
    assert "\nChanged: gpu SXM8: what identifies it was not read\n" in renderers.find("text")(
        [broken], verbosity=0
    )
