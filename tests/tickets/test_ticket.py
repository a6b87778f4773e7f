"""Tickets: the right part, all that an RMA needs of it, and nothing where nothing failed."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from faults import FAULTS
from nodes_recordings import base
from program import Call

from gpuscan import catalogue
from gpuscan.catalogue import policy
from gpuscan.engine import judging
from gpuscan.errors import UsageError
from gpuscan.importers.load import open_recording
from gpuscan.recording import Recording, patch
from gpuscan.renderers.json_ import document
from gpuscan.renderers.ticket import WIDTH
from gpuscan.tickets import ticket

BLANK: tuple[Any, ...] = ([], None, [])


def build(document: dict[str, Any], gpu: str = "", *rest: Any) -> dict[str, Any]:
    return ticket.build_ticket(ticket.TicketInput(document, *rest), gpu)


def document_of(recording: Recording) -> dict[str, Any]:
    """What `gpuscan judge --format json` prints of it."""
    return dict(
        json.loads(
            json.dumps(
                document(
                    judging.judge_recording(
                        recording, "node.json.gz", judging.prepare(judging.Selection())
                    )
                )
            )
        )
    )


@cache
def _broken() -> str:
    return json.dumps(document_of(open_recording("demo-broken")))


def broken() -> dict[str, Any]:
    """The report on the demo with three faults: SXM7 to replace, 0000:00:07.0 lost, SXM6 with a
    link down.
    """
    return dict(json.loads(_broken()))


def fault(name: str) -> dict[str, Any]:
    """The report on a planted fault, by the profile that its recording names or matches."""
    row = FAULTS[name]
    recording = patch(base(row["base"]), row.get("set", {}), row.get("log", ()))
    wanted = judging.Selection(profile=row.get("profile", "auto"), settings=row.get("settings", ()))
    return dict(
        json.loads(
            json.dumps(document(judging.judge_recording(recording, "", judging.prepare(wanted))))
        )
    )


def flat(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(broken()), "utf-8")
    return path


def test_the_heaviest_action_chooses_the_part() -> None:
    told = build(broken(), "", *BLANK)
    assert (told["subject"], told["action"]) == ("gpu:SXM7", "replace")
    assert told["part"]["serial"] == "1654000000004"
    assert [row["check"] for row in told["findings"]] == ["memory.row_remap"]
    assert {row["subject"] for row in told["also_failed"]} == {"gpu:SXM6", "gpu:0000:00:07.0"}
    assert told["findings"][0]["policy"]["key"] == "memory.row_remap"
    assert told["findings"][0]["evidence"][0]["readings"] == [
        "nvml:nvmlDeviceGetRemappedRows(0000:00:09.0)"
    ]


@pytest.mark.parametrize(
    "name",
    ["SXM6", "sxm6", "gpu:SXM6", "0000:00:06.0", "00:06.0", "00000000:00:06.0",
     "1654000000001", "0",
     "GPU-00000001-0000-4000-8000-000000000001"],
)  # fmt: skip
def test_a_part_goes_by_many_names(name: str) -> None:
    told = build(broken(), name, *BLANK)
    assert (told["subject"], told["action"]) == ("gpu:SXM6", "reset-gpu")
    assert "0-6,8-17].active = true" in flat(ticket.render_ticket(told, "text")), (
        "eighteen links are folded"
    )


def test_near_misses_and_parts_that_did_not_fail() -> None:
    with pytest.raises(
        UsageError, match=r"--gpu SXM77: no such part in this report; did you mean SXM7"
    ):
        build(broken(), "SXM77", *BLANK)
    with pytest.raises(
        UsageError,
        match=r"nothing failed on gpu:SXM5: no ticket; what failed is on gpu:0000:00:07.0",
    ):
        build(broken(), "SXM5", *BLANK)
    twins = broken()
    twins["parts"][0]["serial"] = twins["parts"][3]["serial"]
    with pytest.raises(UsageError, match=r"matches gpu:SXM6 \(0000:00:06.0\) and gpu:SXM7"):
        build(twins, "1654000000004", *BLANK)


def test_no_ticket_where_nothing_failed() -> None:
    with pytest.raises(UsageError, match=r"^nothing failed in this report: no ticket$"):
        build(document_of(open_recording("demo")), "", *BLANK)
    warned = broken()
    for row in warned["findings"]:
        row["severity"] = "warn"
    with pytest.raises(UsageError, match="nothing failed"):
        build(warned, "SXM7", *BLANK)


def test_a_lost_gpu_s_serial_is_looked_for_elsewhere() -> None:
    told = build(broken(), "0000:00:07.0", *BLANK)
    assert told["part"]["serial"] is None
    assert (
        "serial not read: see gpuscan history, the label on the part or its chassis, or the"
        " BMC's inventory" in flat(ticket.render_ticket(told, "text"))
    )


def test_a_gpu_that_is_gone_makes_a_ticket_for_the_node() -> None:
    told = build(fault("card-gone-from-pci"), "", *BLANK)
    assert (told["subject"], told["action"], told["part"]) == ("node", "power-cycle", None)
    assert told["findings"][0]["policy"]["key"] == "inventory"
    assert "\nPart\n" not in ticket.render_ticket(told, "text")


def test_the_xid_of_a_gpu_that_is_gone_goes_to_its_address() -> None:
    told = build(fault("xid-on-a-card-that-is-gone"), "0000:00:09.0", *BLANK)
    assert (told["subject"], told["action"]) == ("gpu:0000:00:09.0", "reboot")
    assert told["part"]["serial"] is None


def test_an_empty_slot_has_a_ticket_of_its_own() -> None:
    told = build(fault("slot-empty"), "SXM9", *BLANK)
    assert (told["subject"], told["part"]["slot"], told["part"]["serial"]) == (
        "gpu:SXM9",
        "SXM9",
        None,
    )
    assert told["findings"][0]["check"] == "inventory.slots"
    assert build(fault("slot-empty"), "", *BLANK)["subject"] == "node"
    with pytest.raises(UsageError, match="nothing failed on gpu:SXM1"):
        build(fault("slot-empty"), "SXM1", *BLANK)


def test_a_port_is_a_part() -> None:
    report = fault("port-at-half-rate")
    told = build(report, "", *BLANK)
    assert told["part"]["kind"] == "port"
    assert told["part"]["board_id"]
    assert "PSID" in ticket.render_ticket(told, "text")


def test_incidents_have_their_time_and_their_code_s_policy() -> None:
    report = fault("xid-79")
    report["run"]["started_at"] = "2026-11-27T22:18:18Z"
    told = build(report, "", *BLANK)
    (finding,) = told["findings"]
    assert told["subject"] == "gpu:SXM4"
    assert report["host"]["uptime_s"] == 5321.77
    assert finding["happened_at"] == "2026-11-27T20:49:47Z", (
        "11 s after boot, which was 5322 s before the scan"
    )
    assert finding["policy"]["key"] == "xid:79"
    assert told["timeline"][0]["at"] == finding["happened_at"]
    report["host"]["uptime_s"] = None
    assert build(report, "", *BLANK)["findings"][0]["happened_at"] is None


TIMELINE: list[dict[str, Any]] = [
    {"at": "2026-11-27T20:00:00Z", "kind": "tried", "text": "power-cycle", "subject": None},
    {
        "at": "2026-11-27T21:00:00Z",
        "kind": "tried",
        "text": "field diagnostic: failed, log 17",
        "subject": "gpu:SXM7",
    },
    {
        "at": "2026-11-27T19:00:00Z",
        "kind": "fault",
        "text": "a power cycle was wanted",
        "subject": "gpu:SXM7",
    },
    {"at": "2026-11-27T18:00:00Z", "kind": "tried", "text": "power-cycle", "subject": "gpu:SXM6"},
    {"at": "2026-11-27T22:18:18Z", "kind": "fault", "text": "known already", "subject": "gpu:SXM7"},
]


def test_the_timeline_tells_what_was_tried() -> None:
    told = build(broken(), "SXM7", TIMELINE, None, [])
    assert [row["at"][11:13] for row in told["timeline"]] == ["19", "20", "21", "22"], (
        "in order, and not those of another GPU"
    )
    assert told["timeline"][-1]["text"] == "known already", (
        "what the archive tells is not told twice"
    )
    assert told["last_power_cycle"] == "2026-11-27T20:00:00Z: power-cycle"
    assert told["field_diagnostic"] == "2026-11-27T21:00:00Z: field diagnostic: failed, log 17"


def test_without_a_timeline_nothing_is_claimed() -> None:
    told = build(broken(), "SXM7", *BLANK)
    assert told["last_power_cycle"].startswith("unknown")
    assert told["field_diagnostic"].startswith("not run")
    assert [row["kind"] for row in told["timeline"]] == ["fault"]


def test_the_machine_s_serials() -> None:
    report = fault("row-remap-failed")
    report["host"] |= {
        "board_serial": "BOARD-1",
        "chassis_serial": "Default string",
        "virtual": True,
    }
    text = flat(ticket.render_ticket(build(report, "", *BLANK), "text"))
    assert (
        'serial ZZTEST1 board serial BOARD-1 chassis serial never set ("Default string"): see'
        " the label" in text
    )
    assert "these serials are the hypervisor's" in text
    del report["host"]["board_serial"]
    assert "board serial not read: see the label" in flat(
        ticket.render_ticket(build(report, "", *BLANK), "text")
    )


def test_a_part_s_silkscreen_is_told_where_there_is_one() -> None:
    report = broken()
    assert "silkscreen" not in ticket.render_ticket(build(report, "SXM7", *BLANK), "text")
    report["parts"][3]["silkscreen"] = "GPU_4"
    told = build(report, "gpu_4", *BLANK)
    assert told["subject"] == "gpu:SXM7"
    assert "silkscreen GPU_4" in flat(ticket.render_ticket(told, "text"))


def test_synthetic_readings_are_for_nobody() -> None:
    report = broken()
    assert "beware" not in ticket.render_ticket(build(report, "", *BLANK), "text")
    report["run"]["synthetic"] = True
    assert "beware these readings are from no real machine: do not send this ticket" in flat(
        ticket.render_ticket(build(report, "", *BLANK), "text")
    ).replace("  ", " ")


HOLDERS: list[dict[str, Any]] = [
    {
        "pid": 812,
        "name": "nvidia-persistenced",
        "user": 0,
        "files": ["/dev/nvidia0"],
        "ends_with": "systemctl stop it",
    },
    {"error": "processes whose open files could not be seen: 3; run as root"},
]
FILES: list[dict[str, Any]] = [
    {
        "name": "recording.json.gz",
        "bytes": 17,
        "sha256": "ab" * 32,
        "made_at": "2026-11-27T22:18:18Z",
    },
    {"name": "nvidia-bug-report.log", "error": "not installed here"},
]


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_holders_and_files(format_: str) -> None:
    text = (
        flat(ticket.render_ticket(build(broken(), "", [], HOLDERS, FILES), format_))
        .replace("**", "")
        .replace(": ", " ")
    )
    assert (
        "pid 812 nvidia-persistenced of user 0 has /dev/nvidia0 open; to end it systemctl stop it"
        in text
    )
    assert "not seen processes whose open files could not be seen 3; run as root" in text
    assert f"recording.json.gz 17 bytes, 2026-11-27T22:18:18Z, SHA-256 {'ab' * 32}" in text
    assert "nvidia-bug-report.log not installed here" in text
    nobody = flat(ticket.render_ticket(build(broken(), "", [], [], []), format_))
    assert "none" in nobody


def test_no_line_of_the_text_is_wider_than_mail() -> None:
    for name in ("", "SXM6", "0000:00:07.0"):
        text = ticket.render_ticket(build(broken(), name, TIMELINE, HOLDERS, FILES), "text")
        assert [
            line for line in text.splitlines() if len(line) > WIDTH and " " in line.strip()
        ] == []


@pytest.mark.sweep
def test_evidence_forges_nothing() -> None:
    report = broken()
    evil = "\x1b[2J</b>\n## Verdict\n* `pass` [x](http://y) <script>"
    (finding,) = [row for row in report["findings"] if row["check"] == "memory.row_remap"]
    finding |= {
        "message": evil,
        "observed": evil,
        "evidence": [{"fact": evil, "value": evil, "readings": [evil]}],
    }
    told = build(report, "", [], None, [])
    for format_ in ("text", "markdown"):
        text = ticket.render_ticket(told, format_)
        assert "\x1b" not in text
        assert not any(line.startswith("## Verdict") for line in text.splitlines())
    marked = ticket.render_ticket(told, "markdown")
    prose = "".join(
        piece for n, piece in enumerate(marked.replace("\\`", "").split("`")) if n % 2 == 0
    )
    assert "<script" not in prose.replace("\\<", "")
    assert "[x]" not in prose.replace("\\[", "")


@pytest.mark.sweep
@pytest.mark.parametrize("name", FAULTS)
def test_every_failure_of_every_fault_has_its_ticket(name: str) -> None:
    """Whatever fails, on whatever subject: a ticket can be made, and its part is one of the
    report's or told as unread.
    """
    report = fault(name)
    if any(row["severity"] == "fail" for row in report["findings"]):
        told = build(report, "", *BLANK)
        assert told["action"] == report["summary"]["action"]
        assert all(ticket.render_ticket(told, format_) for format_ in ticket.FORMATS)


def test_every_policy_is_for_something_that_there_is() -> None:
    checks = {one.id for one in judging.all_checks()}
    areas = {name.partition(".")[0] for name in checks}
    for one in policy.policies().values():
        kind = one.key.partition(":")[0]
        assert one.key in checks | areas or (
            kind in ("xid", "sxid") and "not in" not in catalogue.entry(one.key).name
        ), one.key
        assert one.text.endswith(".")
        assert one.source
    assert policy.general_policy().source


def test_the_nearest_policy_holds() -> None:
    def key(check: str, entry: str = "") -> str:
        found = policy.find_policy(check, entry)
        return found.key if found else ""

    assert key("xid.faults", "xid:79") == "xid:79"
    assert key("xid.faults", "xid:31") == ""
    assert key("xid.faults", "sxid:79") == ""
    assert key("thermal.power_brake") == "thermal.power_brake"
    assert key("thermal.hardware_slowdown") == "thermal"
    assert key("site.of_our_own") == ""


def test_a_check_without_policy_gives_its_own_source() -> None:
    report = broken()
    (finding,) = [row for row in report["findings"] if row["check"] == "memory.row_remap"]
    finding["check"] = "site.of_our_own"
    told = build(report, "", *BLANK)
    assert told["findings"][0]["policy"] == {"key": None, "text": None, "source": finding["source"]}
    assert f"source {finding['source']}" in flat(ticket.render_ticket(told, "text"))


# The command


def test_the_command_writes_a_ticket(call: Call, file: Path, tmp_path: Path) -> None:
    done = call("ticket", str(file))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Ticket: gpu SXM7: replace\n")
    assert "report.json" in done.out
    out = tmp_path / "ticket.md"
    assert (
        call("ticket", str(file), "--format", "markdown", "--gpu", "SXM6", "--output", str(out)).out
        == ""
    )
    assert out.read_text("utf-8").startswith("# Ticket: gpu SXM6: reset-gpu\n")
    (row,) = json.loads(call("ticket", str(file), "--format", "json").out)["files"]
    assert row["bytes"] == file.stat().st_size


def test_a_report_may_come_through_a_pipe(
    call: Call, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    done = call("ticket", "-", "--format", "json")
    assert json.loads(done.out)["subject"] == "gpu:SXM7"
    assert json.loads(done.out)["files"] == []


def test_of_several_reports_the_first_that_failed(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    healthy, other = document_of(open_recording("demo")), fault("row-remap-failed")
    file.write_text(json.dumps([healthy, broken(), other]), "utf-8")
    assert call("ticket", str(file)).out.startswith("Ticket: gpu SXM7")
    assert call("ticket", str(file), "--gpu", "SXM4").out.startswith("Ticket: gpu SXM4: replace")
    file.write_text(json.dumps([healthy, healthy]), "utf-8")
    assert call("ticket", str(file)) == (
        2,
        "",
        "gpuscan: nothing failed in these reports: no ticket\n",
    )


def damaged() -> dict[str, Any]:
    report = broken()
    report["findings"] = [{"check": 1}]
    return report


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a report, or a truncated one (invalid JSON)"),
        (b'{"schema_version": "1.1", "run"', "not a report, or a truncated one"),
        (b"[" * 100_000, "not a report, or a truncated one"),
        (b"\xff\xfe", "not a report"),
        (b"[]", "contains no report"),
        (b"7", "not a gpuscan report: write one with gpuscan run --format json"),
        (b'[{"summary": 1}]', "not a gpuscan report"),
        (
            b'{"schema_version": "9.0", "summary": {}}',
            "report format 9.0, but this gpuscan reads 1.",
        ),
        (
            b'{"format": "gpuscan-recording"}',
            "a recording, not a report; judge it first with: gpuscan judge ",
        ),
        (b"\x1f\x8b rest", "judge it first with: gpuscan judge "),
    ],
)
def test_what_is_no_report_is_told(
    call: Call, tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    done = call("ticket", str(file))
    assert (done.code, done.out) == (2, "")
    assert f"gpuscan: {file}: " in done.err
    assert complaint in done.err
    assert "Traceback" not in done.err


def test_what_cannot_be_used(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps(damaged()), "utf-8")
    assert "damaged report: $.findings[0]: " in call("ticket", str(file)).err
    assert (
        call("ticket", str(tmp_path / "none.json")).err
        == f"gpuscan: {tmp_path}/none.json: No such file or directory\n"
    )
    assert call("ticket", str(tmp_path)).code == 2
    assert call("ticket", str(file), "--format", "xml").code == 2
    assert call("ticket", str(file), "--gpu", "").code == 2


ROW: dict[str, Any] = {
    "check": "memory.row_remap", "subject": "gpu:SXM7", "serial": "165", "outcome": "not-seen",
    "amount": 65.0, "unit": "words read", "seconds": 600.0, "hottest_c": 71, "then_c": None,
    "beside": 65.0, "confidence": 0.5, "cautious": None, "why": "", "unproven": False,
    "rate": {"events": 2, "exposure": 230.0, "unit": "words read", "source": "the archive",
             "documented": False},
}  # fmt: skip
IDLE = {**ROW, "outcome": "not-exercised", "amount": 0.0, "seconds": 0.0, "confidence": None}


@pytest.mark.parametrize(
    ("stored", "now", "outcome"),
    [
        ([], [], None),
        ([], [IDLE], "not-exercised"),
        ([], [{**ROW, "subject": "gpu:SXM1"}], None),
        ([], [{**IDLE, "outcome": "by-state"}], None),
        ([ROW], [IDLE], "not-seen"),
        ([ROW], [{**IDLE, "outcome": "seen"}], "seen"),
        ([{**ROW, "outcome": "seen"}, ROW], [], "not-seen"),
    ],
)
def test_a_ticket_tells_what_was_exercised(
    stored: list[dict[str, Any]], now: list[dict[str, Any]], outcome: str | None
) -> None:
    """Of each fault what its newest proof came to."""
    document = {**broken(), "proof": now}
    proofs = [{"at": f"2026-01-0{day}", **row} for day, row in enumerate(stored, 1)]
    made = build(document, "SXM7", (), None, (), proofs)
    assert [row["outcome"] for row in made["exercised"]] == ([outcome] if outcome else [])
    text = ticket.render_ticket(made, "text")
    assert ("Proof: was the fault exercised since?" in text) is bool(outcome)
    if outcome == "not-seen":
        for words in ("did not show again", "exercised 520 bytes read in 10 min", "50 %"):
            assert words in text
    assert all(len(line) <= WIDTH for line in text.splitlines())
