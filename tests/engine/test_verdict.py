"""From facts and checks to results: statuses, echoes explained by their root, shared causes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from building import by_subject, checks_of, demo_node, expecting, judged, lost, the, was_read

from gpuscan.engine.case import Case
from gpuscan.engine.stages import judge
from gpuscan.engine.status import capability_of
from gpuscan.model import Counter, Incident, Node, Port, Unread
from gpuscan.model.outcome import Action, Status
from gpuscan.model.report_rows import BlindSpot, ReportedPort
from gpuscan.profile import load

PASS, WARN, FAIL, UNKNOWN, SKIP = Status.PASS, Status.WARN, Status.FAIL, Status.UNKNOWN, Status.SKIP
SXM6, SXM8, SXM5, SXM7 = (gpu.address for gpu in was_read(demo_node().gpus))
PORT = Port(
    label="mlx5_0/1",
    hca="mlx5_0",
    number=1,
    address="0000:0a:00.0",
    link_layer="InfiniBand",
    state="ACTIVE",
    phys_state="LinkUp",
    rate_gbps=400.0,
    firmware="28.39",
    board_id="MT_1",
    hca_type="MT4129",
    node_guid="1:2:3:4",
    hca_serial="MT1",
    hca_part_number="MCX7",
    netdev="ib0",
    mtu=4092,
    far_end="SW s1 (0x1) port 17",
    link_downed=Counter(0, 0),
    symbol_errors=Counter(0, 0),
)


def with_gpu(node: Node, label: str, **changes: Any) -> Node:
    return node._replace(
        gpus=tuple(
            gpu._replace(**changes) if gpu.label == label else gpu for gpu in was_read(node.gpus)
        )
    )


def incident(address: str, code: int, action: str = "inspect") -> Incident:
    unread: Any = lost()
    return Incident(
        label=f"Xid {code} on {address}", address=address, part="", kind="xid", code=code, entry=f"xid:{code}", name="NAME",
        action=action, asks=action, because="", impact="availability", urgency="now", state="mapped", ended="", clean="unknown",
        listed=True, events=1, times=1, when="at 1 s after boot", first_s=1.0, last_s=1.0, meaning="",
        text="text", programs="", processes=(), echoes=(), values={}, recovery_action=unread,
    )  # fmt: skip


def statuses(report: Any, check: str) -> dict[str, Status]:
    return {subject: result.status for subject, result in by_subject(report, check).items()}


ONE = '''
@check(action=Action.INSPECT)
def test_is_cool(gpu):
    """The GPU is cool."""
    if gpu.performance_state > 90:
        fail("hot")
    if gpu.performance_state > 80:
        warn("warm")
'''


@pytest.mark.parametrize(
    ("celsius", "status"),
    [
        (40, PASS),
        (85, WARN),
        (95, FAIL),
        (lost(), UNKNOWN),
        (Unread("k", "not-supported", "?"), SKIP),
        (Unread("k", "too-old-driver", "needs driver R999"), SKIP),
        (Unread("k", "not-recorded", "outside"), SKIP),
        (Unread("k", "not-found", "?"), UNKNOWN),
        (Unread("k", "no-permission", "?"), UNKNOWN),
        (Unread("k", "timed-out", "?"), UNKNOWN),
        (Unread("k", "blocked-behind", "?"), UNKNOWN),
        (Unread("k", "reset-required", "?"), UNKNOWN),
        (Unread("k", "garbled", "?"), UNKNOWN),
    ],
)
def test_the_status_follows_from_what_was_said_and_read(
    celsius: Any, status: Status, tmp_path: Path
) -> None:
    node = with_gpu(demo_node(), "SXM8", performance_state=celsius)
    report = judged(checks_of(tmp_path / "c", ONE), node)
    assert statuses(report, "area.is_cool") == {
        "gpu:SXM6": PASS,
        "gpu:SXM8": status,
        "gpu:SXM5": PASS,
        "gpu:SXM7": PASS,
    }
    result = by_subject(report, "area.is_cool")["gpu:SXM8"]
    assert result.address == SXM8
    if status in (UNKNOWN, SKIP):
        assert (
            result.reason
            == f"{celsius.kind.replace('-', ' ')}: gpus[SXM8].performance_state ({celsius.text})"
        )
        assert [spot.subjects for spot in report.blind_spots] == [("gpu:SXM8",)]
        assert report.blind_spots[0].fact == "gpus[].performance_state"
    else:
        assert result.reason == ""
        assert report.blind_spots == ()


def test_a_capability_that_the_profile_lists_must_be_there(tmp_path: Path) -> None:
    text = (
        '@check(action=Action.INSPECT)\ndef test_width(gpu):\n    """The link is wide."""\n   '
        " assert gpu.pcie.width\n"
    )
    node = with_gpu(demo_node(), "SXM8", pcie=Unread("k", "not-supported", "?"))
    checks = checks_of(tmp_path / "c", text)
    assert statuses(judged(checks, node), "area.width")["gpu:SXM8"] is SKIP
    assert (
        statuses(judged(checks, node, expecting(capabilities=["pcie"])), "area.width")["gpu:SXM8"]
        is UNKNOWN
    )
    assert (
        statuses(judged(checks, node, expecting(capabilities=["nvlinks"])), "area.width")[
            "gpu:SXM8"
        ]
        is SKIP
    )


def test_not_supported_is_no_excuse_for_what_every_gpu_and_machine_has(tmp_path: Path) -> None:
    text = """
    @check(action=Action.INSPECT)
    def test_name(gpu):
        \"\"\"The GPU has a name.\"\"\"
        assert gpu.name

    @check(action=Action.INSPECT)
    def test_kernel(node):
        \"\"\"The machine has a kernel.\"\"\"
        assert node.driver.module_version
    """
    unsupported: Any = Unread("k", "not-supported", "?")
    node = with_gpu(demo_node(), "SXM8", name=unsupported)
    node = node._replace(driver=node.driver._replace(module_version=unsupported))
    report = judged(checks_of(tmp_path / "c", text), node)
    assert statuses(report, "area.name")["gpu:SXM8"] is UNKNOWN
    assert the(report, "area.kernel").status is UNKNOWN


CAUGHT = '''
from gpuscan.engine.lens import NotRead

@check(action=Action.INSPECT)
def test_caught(gpu):
    """The GPU is cool."""
    try:
        gpu.performance_state
    except NotRead:
        pass

@check(action=Action.INSPECT)
def test_warned(gpu):
    """The GPU is cool."""
    warn("something else")
    gpu.performance_state

@check(action=Action.INSPECT)
def test_failed(gpu):
    """The GPU is cool."""
    fail("something else")
    gpu.performance_state
'''


def test_what_was_booked_as_unread_counts_even_where_the_check_caught_it(tmp_path: Path) -> None:
    report = judged(
        checks_of(tmp_path / "c", CAUGHT), with_gpu(demo_node(), "SXM8", performance_state=lost())
    )
    assert statuses(report, "area.caught")["gpu:SXM8"] is UNKNOWN
    assert statuses(report, "area.warned")["gpu:SXM8"] is UNKNOWN, (
        "a warning does not hide what was not read"
    )
    assert statuses(report, "area.failed")["gpu:SXM8"] is FAIL, "a proven failure does"


def test_several_lacks_are_counted(tmp_path: Path) -> None:
    text = (
        '@check(action=Action.INSPECT)\ndef test_x(node):\n    """True."""\n    read(node.gpus,'
        ' "name")\n'
    )
    node = with_gpu(with_gpu(demo_node(), "SXM8", name=lost()), "SXM5", name=lost())
    assert (
        the(judged(checks_of(tmp_path / "c", text), node), "area.x").reason
        == "lost: gpus[SXM8].name (GPU is lost) (and 1 more)"
    )


SUBJECTS = '''
@check(action=Action.INSPECT)
def test_card(gpu):
    """The GPU is right."""

@check(action=Action.INSPECT)
def test_port(port):
    """The port is right."""

@check(action=Action.INSPECT)
def test_event(incident):
    """Nothing is logged."""
'''


def test_lists_of_subjects_are_facts(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", SUBJECTS)
    denied: Any = Unread("kmsg:/dev/kmsg", "no-permission", "denied")
    report = judged(checks, demo_node(gpus=denied, ports=denied, incidents=denied))
    for name in ("card", "port", "event"):
        assert statuses(report, f"area.{name}") == {"node": UNKNOWN}
    assert report.exit_code == 3
    assert the(report, "area.event").unread == (("incidents", denied),)
    empty = judged(checks, demo_node(gpus=(), ports=(), incidents=()))
    assert statuses(empty, "area.card") == statuses(empty, "area.port") == {"node": SKIP}
    assert statuses(empty, "area.event") == {"node": PASS}
    assert the(empty, "area.card").reason == "does not apply: no NVIDIA GPU in this node"
    assert the(empty, "area.port").reason == "does not apply: no InfiniBand port in this node"
    full = judged(checks, demo_node(incidents=(incident(SXM8, 79),)))
    assert statuses(full, "area.event") == {f"incident:Xid 79 on {SXM8}": PASS}


def test_no_mention_of_a_list_is_not_recorded_as_evidence_of_absence(tmp_path: Path) -> None:
    outside: Any = Unread("k", "not-recorded", "outside the scope of this recording")
    report = judged(checks_of(tmp_path / "c", SUBJECTS), demo_node(ports=outside))
    assert statuses(report, "area.port") == {"node": SKIP}
    assert the(report, "area.port").reason.startswith("not recorded: ports")


EXPECTS = '''
@check(action=Action.INSPECT)
def test_count(node, profile):
    """All are there."""
    assert len(node.gpus) == profile.gpu.count
'''


def test_an_open_expectation_is_not_judged_or_unknown_where_nothing_vouches(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", EXPECTS)
    result = the(judged(checks, demo_node()), "area.count")
    assert (result.status, result.reason) == (
        SKIP,
        "not judged: profile default leaves gpu.count open",
    )
    report = judged(checks, demo_node(), expecting()._replace(vouches=False))
    assert the(report, "area.count").reason == "explained by profile.match (node)"
    assert the(report, "profile.match").status is UNKNOWN
    assert report.exit_code == 3
    four = load("default", ["gpu.count=4"])
    result = the(judged(checks, demo_node(), four), "area.count")
    assert result.status is PASS
    assert [(e.fact, e.value, e.keys) for e in result.evidence][-1] == (
        "profile.gpu.count",
        4,
        ("profile:default",),
    )
    assert (
        the(judged(checks, demo_node(gpus=lost()), expecting()), "area.count").status is UNKNOWN
    ), "unread before open"


def test_a_check_may_not_ask_for_a_key_that_no_profile_has(tmp_path: Path) -> None:
    text = (
        '@check(action=Action.INSPECT)\ndef test_x(node, profile):\n    """True."""\n    assert'
        " profile.gpu.colour\n"
    )
    result = the(judged(checks_of(tmp_path / "c", text), demo_node()), "area.x")
    assert result.status is UNKNOWN
    assert "profiles have no key gpu.colour" in result.traceback


def test_checks_left_out_say_why(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", ONE)
    result = the(judged(checks, demo_node(), skipped=["area.is_cool"]), "area.is_cool")
    assert (result.subject, result.status, result.reason) == ("node", SKIP, "left out by --skip")
    result = the(
        judged(checks, demo_node(), expecting(skip={"area.is_cool": "the lab is hot"})),
        "area.is_cool",
    )
    assert (result.status, result.reason) == (SKIP, "not judged by this profile: the lab is hot")
    assert judged(checks, demo_node(), skipped=["area.is_cool"]).exit_code == 3, (
        "nothing was judged"
    )


def test_optional_checks_may_stay_unknown(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", ONE)
    node = with_gpu(demo_node(), "SXM8", performance_state=lost())
    assert judged(checks, node).exit_code == 3
    report = judged(checks, node, expecting(optional=["area.is_cool"]))
    assert (report.exit_code, report.complete, statuses(report, "area.is_cool")["gpu:SXM8"]) == (
        0,
        True,
        UNKNOWN,
    )


NEEDS = '''
@check(action=Action.FIX_CONFIG)
def test_driver(node):
    """The driver is there."""
    assert node.driver.access == "ok"

@check(action=Action.REBOOT, needs="area.driver")
def test_answers(gpu):
    """The GPU answers."""
    assert gpu.access == "ok"

@check(action=Action.INSPECT, needs="area.answers")
def test_is_cool(gpu):
    """The GPU is cool."""
    assert gpu.performance_state < 90

@check(action=Action.FIX_CONFIG, needs="area.answers")
def test_has_a_name(gpu):
    """The GPU has a name."""
    assert gpu.name

@check(action=Action.REBOOT, needs="area.answers")
def test_log(incident):
    """Nothing is logged."""
    fail("logged", action=Action(incident.action), observed=incident.code)

@check(action=Action.REBOOT, needs="area.answers")
def test_siblings(node):
    """All have one name."""
    names = read(node.gpus, "name")
    odd = [gpu for gpu, name in names if name != names[0][1]]
    if odd:
        fail("names differ", culprits=odd)

@check(action=Action.REBOOT, needs="area.answers")
def test_count(node):
    """All answer."""
    silent = [gpu for gpu in node.gpus if gpu.access != "ok"]
    if silent:
        fail("some are silent", culprits=silent)
'''


def test_a_lost_gpu_is_one_finding_and_its_echoes_are_explained(tmp_path: Path) -> None:
    node = with_gpu(demo_node(), "SXM8", access="lost", performance_state=lost(), name=lost())
    node = node._replace(incidents=(incident(SXM8, 79, "reboot"), incident(SXM5, 31, "reboot")))
    report = judged(checks_of(tmp_path / "c", NEEDS), node)
    failed = [(r.check, r.subject) for r in report.results if r.status is FAIL]
    assert failed == [("area.answers", "gpu:SXM8"), ("area.log", f"incident:Xid 31 on {SXM5}")]
    why = "explained by area.answers (gpu:SXM8)"
    for check, subject in (
        ("area.is_cool", "gpu:SXM8"),
        ("area.has_a_name", "gpu:SXM8"),
        ("area.log", f"incident:Xid 79 on {SXM8}"),
        ("area.count", "node"),
    ):
        result = by_subject(report, check)[subject]
        assert (result.status, result.reason, result.findings) == (SKIP, why, ()), (check, subject)
    siblings = the(report, "area.siblings")
    assert (siblings.status, siblings.reason) == (
        SKIP,
        why,
    ), "the silent GPU is left out, so not all were compared"
    assert [e.fact for e in siblings.evidence if e.fact.endswith("name")] == [
        f"gpus[{n}].name" for n in ("SXM6", "SXM5", "SXM7")
    ]
    assert statuses(report, "area.is_cool")["gpu:SXM6"] is PASS, "other GPUs are judged as ever"
    assert report.blind_spots == (), "what is explained is no blind spot"


def test_needs_reach_through_needs(tmp_path: Path) -> None:
    node = demo_node()
    node = node._replace(driver=node.driver._replace(access="not-loaded"))
    for gpu in was_read(node.gpus):
        node = with_gpu(node, gpu.label, access="not-loaded", performance_state=lost())
    report = judged(checks_of(tmp_path / "c", NEEDS), node)
    assert [r.check for r in report.results if r.status not in (SKIP, PASS)] == [
        "area.driver",
        *["area.answers"] * 4,
    ]
    # area.answers asks for more (reboot) than its root (fix-config) and so is no echo of it
    assert (
        by_subject(report, "area.is_cool")["gpu:SXM6"].reason == "explained by area.driver (node)"
    )


def test_a_heavier_action_is_no_echo(tmp_path: Path) -> None:
    node = with_gpu(demo_node(), "SXM8", access="lost")
    checks = checks_of(tmp_path / "c", NEEDS)
    same = judged(checks, node._replace(incidents=(incident(SXM8, 1, "reboot"),)))
    assert statuses(same, "area.log") == {f"incident:Xid 1 on {SXM8}": SKIP}
    heavier = judged(checks, node._replace(incidents=(incident(SXM8, 1, "power-cycle"),)))
    assert statuses(heavier, "area.log") == {f"incident:Xid 1 on {SXM8}": FAIL}
    assert heavier.exit_code == 31


def test_a_node_result_is_explained_only_where_all_its_culprits_are(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", NEEDS)
    node = with_gpu(demo_node(), "SXM8", access="lost", name=lost())
    other = with_gpu(node, "SXM5", name="another")
    report = judged(checks, other)
    assert the(report, "area.siblings").status is FAIL
    assert the(report, "area.siblings").findings[0].culprits == ("SXM5",)
    both = with_gpu(node, "SXM5", access="lost")
    assert the(judged(checks, both), "area.count").status is SKIP, (
        "each culprit is blamed by some root"
    )


def test_a_node_failure_without_culprits_is_never_explained_by_one_gpu(tmp_path: Path) -> None:
    text = (
        NEEDS + '\n@check(action=Action.REBOOT, needs="area.answers")\ndef test_x(node):\n   '
        ' """True."""\n    fail("bare")\n'
    )
    report = judged(checks_of(tmp_path / "c", text), with_gpu(demo_node(), "SXM8", access="lost"))
    assert the(report, "area.x").status is FAIL


def test_an_unknown_need_explains_unknowns_only(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", NEEDS)
    silent: Any = Unread("k", "blocked-behind", "?")
    node = with_gpu(demo_node(), "SXM8", access=silent, performance_state=silent, name="")
    report = judged(checks, node._replace(incidents=(incident(SXM8, 79),)))
    assert by_subject(report, "area.answers")["gpu:SXM8"].status is UNKNOWN
    assert (
        by_subject(report, "area.is_cool")["gpu:SXM8"].reason
        == "explained by area.answers (gpu:SXM8)"
    )
    assert statuses(report, "area.has_a_name")["gpu:SXM8"] is FAIL, (
        "what was proven stays, root unread or not"
    )
    assert statuses(report, "area.log") == {f"incident:Xid 79 on {SXM8}": FAIL}


def test_an_unknown_need_that_is_optional_explains_nothing(tmp_path: Path) -> None:
    silent: Any = Unread("k", "blocked-behind", "?")
    node = with_gpu(demo_node(), "SXM8", access=silent, performance_state=silent)
    report = judged(checks_of(tmp_path / "c", NEEDS), node, expecting(optional=["area.answers"]))
    assert statuses(report, "area.is_cool")["gpu:SXM8"] is UNKNOWN
    assert report.exit_code == 3, "or the optional root would hide a lack that counts"


def test_an_explained_check_stays_so_when_it_was_only_skipped_for_a_lack(tmp_path: Path) -> None:
    node = with_gpu(
        demo_node(), "SXM8", access="lost", performance_state=Unread("k", "not-supported", "?")
    )
    report = judged(checks_of(tmp_path / "c", NEEDS), node)
    assert by_subject(report, "area.is_cool")["gpu:SXM8"].reason.startswith("explained by")
    left_out = judged(checks_of(tmp_path / "c", NEEDS), node, skipped=["area.is_cool"])
    assert the(left_out, "area.is_cool").reason == "left out by --skip", (
        "a skip that lacks nothing keeps its own reason"
    )


SHARED = '''
@check(action=Action.REPLACE)
def test_links(gpu):
    """The GPU has its links."""
    assert gpu.performance_state < 90

@check(action=Action.REPLACE, shared=False)
def test_own_flag(gpu):
    """The GPU's flag is clear."""
    assert gpu.performance_state < 90

@check(action=Action.REBOOT)
def test_log(incident):
    """Nothing is logged."""
    fail("logged", action=Action.REPLACE, observed=incident.code)

@check(action=Action.REPLACE)
def test_port(port):
    """The port is up."""
    assert port.state == "ACTIVE"
'''


def hot(node: Node, *labels: str) -> Node:
    for label in labels:
        node = with_gpu(node, label, performance_state=95)
    return node


@pytest.mark.parametrize(
    ("labels", "shared"),
    [(["SXM8"], False), (["SXM8", "SXM5"], True), (["SXM8", "SXM5", "SXM7"], True)],
)
def test_half_of_the_gpus_make_a_shared_cause_that_never_asks_for_a_part(
    labels: list[str], shared: bool, tmp_path: Path
) -> None:
    report = judged(checks_of(tmp_path / "c", SHARED), hot(demo_node(), *labels))
    for result in by_subject(report, "area.links").values():
        for finding in result.findings:
            assert finding.shared is shared
            assert finding.action is (Action.INSPECT if shared else Action.REPLACE)
    for result in by_subject(report, "area.own_flag").values():
        assert not any(
            finding.shared or finding.action is not Action.REPLACE for finding in result.findings
        )
    assert report.exit_code == 41, "the GPU's own flags still ask for the part"


def test_two_gpus_share_no_cause_and_three_do(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", SHARED)
    node = hot(demo_node(), "SXM6", "SXM8")
    for gpus, action in ((2, Action.REPLACE), (3, Action.INSPECT)):
        few = judged(checks, node._replace(gpus=was_read(node.gpus)[:gpus]))
        assert by_subject(few, "area.links")["gpu:SXM6"].findings[0].action is action
    one_of_three = judged(
        checks, hot(demo_node(), "SXM6")._replace(gpus=was_read(hot(demo_node(), "SXM6").gpus)[:3])
    )
    assert by_subject(one_of_three, "area.links")["gpu:SXM6"].findings[0].action is Action.REPLACE


def test_incidents_share_a_cause_only_where_the_code_is_the_same(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", SHARED)
    same = judged(checks, demo_node(incidents=(incident(SXM6, 48), incident(SXM8, 48))))
    assert {r.findings[0].action for r in by_subject(same, "area.log").values()} == {Action.INSPECT}
    mixed = judged(checks, demo_node(incidents=(incident(SXM6, 48), incident(SXM8, 64))))
    assert {r.findings[0].action for r in by_subject(mixed, "area.log").values()} == {
        Action.REPLACE
    }
    twice = judged(
        checks,
        demo_node(incidents=(incident(SXM6, 48), incident(SXM6, 48)._replace(label="again"))),
    )
    assert {r.findings[0].action for r in by_subject(twice, "area.log").values()} == {
        Action.REPLACE
    }, "one GPU is no crowd"


@pytest.mark.parametrize(("down", "shared"), [(1, False), (2, True), (4, True)])
def test_half_of_the_ports_share_a_cause(tmp_path: Path, down: int, shared: bool) -> None:
    """No cable is pulled for it. Virtual functions and ports of another board do not count."""
    labels = [f"mlx5_{n}/1" for n in range(4)]
    ports = [
        PORT._replace(label=label, state="DOWN" if n < down else "ACTIVE")
        for n, label in enumerate(labels)
    ]
    ports += [PORT._replace(label=f"mlx5_{n}/1", virtual=True) for n in range(10, 14)]
    ports += [PORT._replace(label=f"mlx5_{n}/1", board_id="MT_2") for n in range(20, 24)]
    report = judged(checks_of(tmp_path / "c", SHARED), demo_node(ports=tuple(ports)))
    failed = {
        subject: result.findings[0]
        for subject, result in by_subject(report, "area.port").items()
        if result.findings
    }
    assert set(failed) == {f"port:{label}" for label in labels[:down]}
    assert {(one.shared, one.action) for one in failed.values()} == {
        (shared, Action.INVESTIGATE if shared else Action.REPLACE)
    }


def test_two_ports_share_no_cause(tmp_path: Path) -> None:
    ports = tuple(PORT._replace(label=f"mlx5_{n}/1", state="DOWN") for n in range(2))
    report = judged(checks_of(tmp_path / "c", SHARED), demo_node(ports=ports))
    assert not any(f.shared for r in by_subject(report, "area.port").values() for f in r.findings)


def test_where_gpus_could_not_be_listed_nothing_is_shared(tmp_path: Path) -> None:
    report = judged(
        checks_of(tmp_path / "c", SHARED),
        demo_node(gpus=lost(), incidents=(incident(SXM6, 48), incident(SXM8, 48))),
    )
    assert not any(f.shared for r in report.results for f in r.findings)


def test_the_report_names_the_parts_and_an_unread_identity_is_null(tmp_path: Path) -> None:
    node = with_gpu(demo_node(ports=(PORT,)), "SXM8", serial=lost())
    unread: Any = lost()
    node = node._replace(host=node.host._replace(hostname="n1", product=unread))
    report = judged(checks_of(tmp_path / "c", ONE), node)
    kinds = [(part.kind, part.slot, part.address) for part in report.parts]
    assert kinds[1:2] + kinds[4:] == [("gpu", "SXM8", SXM8), ("port", "mlx5_0/1", "0000:0a:00.0")]
    first, second, *_ = (part for part in report.parts if part.kind == "gpu")
    assert first.serial == was_read(demo_node().gpus)[0].serial
    assert second.serial is None
    assert report.parts[4] == ReportedPort(
        kind="port",
        slot="mlx5_0/1",
        address="0000:0a:00.0",
        hca="mlx5_0",
        firmware="28.39",
        board_id="MT_1",
        hca_type="MT4129",
        hca_serial="MT1",
        hca_part_number="MCX7",
        node_guid="1:2:3:4",
    )
    assert (report.host.hostname, report.host.product) == ("n1", unread)
    assert report.software.module_version == "580.159.04"


def test_the_same_case_gives_the_same_report(tmp_path: Path) -> None:
    checks = checks_of(tmp_path / "c", NEEDS)
    node = with_gpu(demo_node(), "SXM8", access="lost", name=lost())
    assert judged(checks, node) == judged(checks, node)


def test_a_blind_spot_is_listed_once_for_all_its_gpus(tmp_path: Path) -> None:
    node = demo_node()
    for label in ("SXM5", "SXM8"):
        node = with_gpu(
            node,
            label,
            performance_state=Unread(f"nvml:t({label})", "not-supported", "Not Supported"),
        )
    report = judged(checks_of(tmp_path / "c", ONE), node)
    assert report.blind_spots == (
        BlindSpot(
            fact="gpus[].performance_state",
            kind="not-supported",
            text="Not Supported",
            subjects=("gpu:SXM5", "gpu:SXM8"),
        ),
    )


@pytest.mark.parametrize(
    ("asked", "fact", "status"),
    [
        ("nvlinks", "nvlinks", Status.UNKNOWN),
        ("nvlinks", "crc_errors", Status.UNKNOWN),
        ("nvlinks.active", "nvlinks", Status.UNKNOWN),
        ("nvlinks.active", "active", Status.UNKNOWN),
        ("nvlinks.active", "crc_errors", Status.SKIP),
        ("nvlinks.active", "rate_mb_s", Status.SKIP),
        ("pcie", "active", Status.SKIP),
    ],
)
def test_a_capability_asks_for_a_fact_or_for_a_part_of_it(
    asked: str, fact: str, status: Status, tmp_path: Path
) -> None:
    lack: Any = Unread("k", "not-supported", "Not Supported")
    node = demo_node()
    gpu = was_read(node.gpus)[0]
    links = (
        lack
        if fact == "nvlinks"
        else tuple(link._replace(**{fact: lack}) for link in was_read(gpu.nvlinks))
    )
    node = node._replace(gpus=(gpu._replace(nvlinks=links),))
    body = (
        "[link.active for link in gpu.nvlinks]"
        if fact == "nvlinks"
        else f"[link.{fact} for link in gpu.nvlinks]"
    )
    text = (
        '@check(action=Action.REBOOT)\ndef test_it(gpu: Gpu) -> None:\n    """It is right."""\n   '
        f" assert {body}\n"
    )
    assert (
        the(
            judged(checks_of(tmp_path / "c", text), node, expecting(capabilities=[asked])),
            "area.it",
        ).status
        is status
    )


HEAT = '''
@check(action=Action.INSPECT, jobs=True)
def test_root(gpu: Gpu) -> None:
    """It is cool."""
    assert gpu.minor < 0

@check(action=Action.INSPECT, needs="area.root", jobs=True)
def test_echo(gpu: Gpu) -> None:
    """It is cool, too."""
    assert gpu.minor < 0

@check(action=Action.INSPECT, needs="area.root", jobs=True)
def test_unread(gpu: Gpu) -> None:
    """It was read."""
    assert gpu.performance_state == 0

@check(action=Action.REPLACE, needs="area.root")
def test_part(gpu: Gpu) -> None:
    """It is whole."""
    assert gpu.minor < 0
'''


def test_on_a_busy_node_what_jobs_cause_explains_warnings_and_nothing_else(tmp_path: Path) -> None:
    gpu = was_read(demo_node().gpus)[0]
    unread: Any = lost()
    node = demo_node(gpus=(gpu._replace(performance_state=unread),))
    case = Case(node, expecting(), checks_of(tmp_path / "c", HEAT))
    idle, busy = judge(case), judge(case._replace(busy=True))
    names = ("root", "echo", "unread", "part")
    assert [the(idle, f"area.{name}").status.value for name in names] == [
        "fail",
        "skip",
        "skip",
        "fail",
    ]
    assert [the(busy, f"area.{name}").status.value for name in names] == [
        "warn",
        "skip",
        "unknown",
        "fail",
    ]


WARMTH = '''
@check(action=Action.RESET_GPU, urgency="next-idle")
def test_waits(gpu: Gpu) -> None:
    """Nothing is pending."""
    {waits}("pending")

@check(action=Action.MONITOR)
def test_plain(gpu: Gpu) -> None:
    """Nothing is odd."""
    warn("odd")

@check(action=Action.MONITOR, needs="area.waits")
def test_after_waits(gpu: Gpu) -> None:
    """It is right."""
    warn("odd, too")

@check(action=Action.MONITOR, needs="area.plain")
def test_after_plain(gpu: Gpu) -> None:
    """It is right."""
    warn("odd, too")
'''


def test_a_warning_explains_others_only_where_the_busy_node_made_it_one(tmp_path: Path) -> None:
    """And then only that of a check that waits."""
    node = demo_node(gpus=was_read(demo_node().gpus)[:1])
    seen = {}
    for word in ("fail", "warn"):
        case = Case(node, expecting(), checks_of(tmp_path / word, WARMTH.format(waits=word)))
        for busy in (False, True):
            report = judge(case._replace(busy=busy))
            names = ("waits", "after_waits", "plain", "after_plain")
            seen[word, busy] = [the(report, f"area.{name}").status.value for name in names]
    assert seen == {
        ("fail", False): ["fail", "skip", "warn", "warn"],
        ("fail", True): ["warn", "skip", "warn", "warn"],
        ("warn", False): ["warn", "warn", "warn", "warn"],
        ("warn", True): ["warn", "skip", "warn", "warn"],
    }


@pytest.mark.parametrize(("kind", "status"), [("too-old-driver", UNKNOWN), ("not-recorded", SKIP)])
def test_a_capability_needs_a_driver_that_gives_it_but_not_a_recording_that_holds_it(
    kind: str, status: Status, tmp_path: Path
) -> None:
    node = with_gpu(demo_node(), "SXM8", performance_state=Unread("k", kind, "?"))
    checks = checks_of(tmp_path / "c", ONE)
    assert statuses(judged(checks, node), "area.is_cool")["gpu:SXM8"] is SKIP
    assert (
        statuses(
            judged(checks, node, expecting(capabilities=["performance_state"])), "area.is_cool"
        )["gpu:SXM8"]
        is status
    )


def test_comparing_nothing_is_no_pass(tmp_path: Path) -> None:
    text = '''
@check(action=Action.MONITOR)
def test_alike(node: Node) -> None:
    """They are alike."""
    assert len({firmware for _, firmware in read(node.ports, "firmware")}) < 2
'''
    result = the(judged(checks_of(tmp_path / "c", text), demo_node(ports=())), "area.alike")
    assert (result.status, result.reason) == (
        Status.SKIP,
        "does not apply: nothing in this node to compare",
    )


@pytest.mark.parametrize(
    ("path", "fact"),
    [
        ("gpus[SXM6].pcie.width", "pcie.width"),
        ("gpus[SXM6].nvlinks[3].active", "nvlinks.active"),
        ("gpus[0000:1b:00.0].ecc_errors", "ecc_errors"),
        ("gpus[SXM6].nvlinks", "nvlinks"),
        ("gpus", "gpus"),
    ],
)
def test_the_capability_that_a_path_leads_to(path: str, fact: str) -> None:
    assert capability_of(path) == fact


OPEN_NEED = '''
@check(action=Action.FIX_CONFIG)
def test_model(gpu, profile):
    """The GPU is of its model."""
    assert gpu.name == profile.gpu.name

@check(action=Action.REBOOT, needs="area.model")
def test_siblings(node):
    """All have one temperature."""
    if len({celsius for _, celsius in read(node.gpus, "temperature.core_c")}) > 1:
        fail("temperatures differ")
'''


def test_a_need_that_is_open_leaves_no_gpu_out(tmp_path: Path) -> None:
    node = hot(demo_node(), "SXM8")
    report = judged(checks_of(tmp_path / "c", OPEN_NEED), node, expecting()._replace(vouches=False))
    assert {one.reason for one in report.results if one.check == "area.model"} == {
        "explained by profile.match (node)"
    }
    assert the(report, "area.siblings").status is FAIL, (
        "that nobody said what to expect is no silence of the GPUs"
    )
