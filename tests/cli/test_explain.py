"""`explain xid|sxid|dcgm`: each code by number and by name, in eighty columns and as JSON; near
misses.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from program import Call

from gpuscan import catalogue
from gpuscan.cli import codes
from gpuscan.incidents import conditions
from gpuscan.model.outcome import ACTIONS, Action

ALL = [one for kind in catalogue.WITH_CODE for one in catalogue.entries(kind)]


def shown(call: Call, *words: str) -> str:
    done = call("explain", *words)
    assert (done.code, done.err) == (0, "")
    return done.out


def data(call: Call, *words: str) -> Any:
    return json.loads(shown(call, *words, "--format", "json"))


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_code_with_its_reasons(call: Call) -> None:
    out = shown(call, "xid", "79")
    lines = out.splitlines()
    assert lines[:3] == [
        "Xid 79  ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
        "",
        catalogue.entry("xid:79").meaning,
    ]
    assert f"action      reboot: {ACTIONS[Action.REBOOT].todo}" in lines
    whole = one_line(out)
    for told in (
        (
            "inspect if AER fatal, AER surprise down or AER dpc came on its PCIe path within 1 minute"
            " before it: the PCIe link failed first"
        ),
        "inspect if it came 2 times within 7 days, with a boot between",
        "again reboot, power-cycle, inspect, replace, if it comes again within 7 days",
        "NVIDIA RESTART_BM, then CONTACT_SUPPORT",
        "comes with Xid 45, Xid 74",
        "disagrees Imbue: treats it as a hardware fault",
        "source NVIDIA Xid catalogue (docs.nvidia.com/deploy/xid-errors)",
        "impact capacity urgency now confidence high",
    ):
        assert told in whole


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("xid 63", "none if a row remap is not pending: the repair has taken effect"),
        ("xid 63", "disagrees NVIDIA's Xid catalogue: asks to ignore it"),
        ("xid 63", "nothing more if it comes again"),
        ("xid 13", "program a program's fault is the usual cause"),
        ("xid 94", "reset-gpu (next-idle) if the line says D-RST: Yes"),
        ("xid 95", "if the line says RST: No and the line says D-RST: Yes"),
        (
            "xid 119",
            "reboot if Xid 79 or NVRM fallen off came on the same GPU within 1 hour before it",
        ),
        ("xid 119", "only a reset or a boot ends it"),
        ("xid 61", "if the GPU is of Maxwell, Pascal or Volta"),
        ("xid 139", "if the driver is 535 or newer and the driver is older than 560"),
        ("xid 154", "reboot if the new value is 2: the driver requests a reboot"),
        ("xid 74", "decoded word 4 bit 18: reset-gpu: an echo of the far end"),
        (
            "xid 149",
            "decoded NETIR_LINK_EVT/NETIR_LINK_DOWN reason 36: reset-gpu: the far end overheated",
        ),
        ("xid 145", "decoded RLW_RXPIPE 0x1, 0x2, 0x4 with the extra bit: reset-gpu"),
        ("sxid 20034", "NVIDIA fatal in Fabric Manager's guide"),
        ("sxid 11002", "none if the line says Non-fatal or Correctable"),
        ("dcgm 80", "DCGM severity RESET, category hardware_memory"),
        ("dcgm 80", "disagrees DCGM: asks for a reset or reboot at once"),
    ],
)
def test_what_is_told(words: str, told: str, call: Call) -> None:
    assert told in one_line(shown(call, *words.split()))


def test_every_explanation_fits_into_eighty_columns() -> None:
    lengths = {}
    for entry in ALL:
        text = codes.render(entry.id.partition(":")[0], str(entry.code), "text")
        lengths[entry.id] = (max(map(len, text.splitlines()[1:])), len(text))
    assert {id_: found for id_, found in lengths.items() if found[0] > 80 or found[1] < 200} == {}


def test_every_explanation_in_json_is_the_entry() -> None:
    wrong = []
    for entry in ALL:
        kind = entry.id.partition(":")[0]
        document = json.loads(codes.render(kind, str(entry.code), "json"))
        sources = tuple(source["key"] for source in document["sources"])
        explained = (document["id"], document["action"], len(document["conditions"]), sources)
        if explained != (entry.id, entry.action, len(entry.conditions), entry.sources):
            wrong.append(explained)
    assert wrong == []


def test_the_document_of_a_code(call: Call) -> None:
    told = data(call, "xid", "94")
    assert (told["todo"], told["proof"]) == (
        ACTIONS[Action.RESTART_APP].todo,
        ACTIONS[Action.RESTART_APP].proof,
    )
    (flag,) = [one for one in told["conditions"] if one["if"] == {"d_rst": True}]
    assert (flag["words"], flag["action"], flag["urgency"]) == (
        "the line says D-RST: Yes",
        "reset-gpu",
        "next-idle",
    )
    assert told["ladder"] == []
    assert data(call, "xid", "119")["ladder"] is None
    assert {"who", "says"} == set(told["disagreements"][0])
    assert len(data(call, "xid", "149")["decoded"]) > 20
    assert told["decoded"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("xid", "GSP_RPC_TIMEOUT"), 119),
        (("xid", "gsp-rpc timeout"), 119),
        (("xid", "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"), 79),
        (("xid", "fallen off the bus"), 79),
        (("xid", "NVLINK_ERROR"), 74),
        (("sxid", "LTSSM_FAULT_UP"), 20034),
        (("dcgm", "DCGM_FR_ROW_REMAP_FAILURE"), 80),
        (("dcgm", "internal"), 44),
        (("xid", "079"), 79),
    ],
)
def test_a_code_by_its_name(words: tuple[str, str], code: int, call: Call) -> None:
    assert data(call, *words)["code"] == code


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("xid", "999"),
            (
                "no Xid '999' is in the catalogue; gpuscan explain xid lists all ",
                'default to action "investigate"',
            ),
        ),
        (("xid", "0"), ("no Xid '0' is in the catalogue; ",)),
        (("sxid", "20039"), ("no SXid '20039'", 'default to action "investigate"')),
        (("dcgm", "1000"), ("no DCGM code '1000' is in the catalogue; ",)),
        (
            ("xid", "GSP_RPC_TIMOUT"),
            ("no Xid 'GSP_RPC_TIMOUT' is in the catalogue: did you mean 119 (GSP_RPC_TIMEOUT)",),
        ),
        (
            ("xid", "gsp"),
            ("2 names contain 'gsp': did you mean 119 (GSP_RPC_TIMEOUT) or 120 (GSP_ERROR)?",),
        ),
        (("xid", "UNKNOWN_PUBLICLY"), ("8 names contain 'UNKNOWN_PUBLICLY': did you mean 177",)),
        (("xid", "²"), ("no Xid '²'",)),
        (("xid", "-79"), ("No such option",)),
        (("xid", "9" * 5000), ("no Xid '9999",)),
        (("xid", "79", "--format", "yaml"), ("'yaml' is not one of 'text', 'json'",)),
    ],
)
def test_what_is_no_code_has_near_misses(
    words: tuple[str, ...], told: tuple[str, ...], call: Call
) -> None:
    done = call("explain", *words)
    assert (done.code, done.out) == (2, "")
    assert all(text in done.err for text in told), done.err
    assert "Traceback" not in done.err
    assert len(done.err) < 700


@pytest.mark.parametrize("kind", catalogue.WITH_CODE)
def test_without_a_name_all_codes_are_listed(kind: str, call: Call) -> None:
    lines = shown(call, kind).splitlines()
    rows = data(call, kind)
    assert [line.split() for line in lines] == [
        [str(row["code"]), row["action"], row["name"]] for row in rows
    ]
    assert [row["code"] for row in rows] == [one.code for one in catalogue.entries(kind)]


def test_every_predicate_has_words() -> None:
    assert set(codes.SAID) == set(conditions.PREDICATES)
    assert codes.words_of({"text_contains": "a"}) == "the line says 'a'"
    assert codes.words_of({"followed_by": "reset"}) == "a reset came after it"
    assert codes.words_of({"value": {"rm": [28, 29]}}) == "rm is 28 or 29"
    assert (
        codes.words_of({"state": {"recovery_action": [1, 2]}})
        == "the driver's recovery action is 1 or 2"
    )
    assert codes.words_of({"state": {"lost": False}}) == "the GPU is not lost"
    assert codes.words_of({"text_matches": "^x"}) == "the line matches ^x"
