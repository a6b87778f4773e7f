"""Every option that takes a duration or a list takes it in the same forms, whichever command it
belongs to.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Call

from gpuscan.durations import parse_duration, parse_moment

FORMS = {"300": 300, "300s": 300, "5m": 300, "1.5h": 5400, "1d": 86400}
WRONG = ("soon", "5x", "m", "-1", "nan", "inf", "5m5", "0x10", "")
# an option that takes a duration, in a command line that ends for another reason once it is read
REPLAYED = "cannot be combined with --replay: it needs a scan of this machine"
DURATIONS = {
    "run --deadline": ("run --replay demo -q --root / {}", 0, ""),
    "info --deadline": ("info --replay demo --format json --output /dev/null {}", 0, ""),
    "run --settle": ("run --replay demo -q {}", 0, ""),
    "run --duration": ("run --replay demo -q {}", 2, REPLAYED),
    "status --max-age": ("status {}", 3, ""),
    "swap begin --bug-report": ("swap begin {}", 2, "--ticket"),
    "swap begin --deadline": ("swap begin {}", 2, "--ticket"),
    "swap verify --settle": ("swap verify --checks /no/such {}", 2, "/no/such"),
    "profile capture --deadline": ("profile capture --from demo --output /dev/null {}", 0, ""),
    "history list --since": ("history list {}", 2, "no archive yet"),
    "history export --since": ("history export {}", 2, "no archive yet"),
}


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCAN_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("option", DURATIONS)
def test_a_duration_is_taken_in_every_form(option: str, form: str, call: Call) -> None:
    line, code, told = DURATIONS[option]
    flag = option.split()[-1]
    for words in ([flag, form], [f"{flag}={form}"]):
        done = call(*line.replace("{}", "").split(), *words)
        assert done.code == code, done.err
        assert told in done.err
        assert form not in done.err


@pytest.mark.parametrize("form", WRONG)
@pytest.mark.parametrize("option", [name for name in DURATIONS if "--duration" not in name])
def test_what_is_no_duration_is_refused_with_its_option(option: str, form: str, call: Call) -> None:
    line, _, _ = DURATIONS[option]
    flag = option.split()[-1]
    done = call(*line.replace("{}", "").split(), f"{flag}={form}")
    if not form and flag in ("--settle", "--since"):  # as if it were not given
        return
    assert done.code == 2
    assert flag in done.err


def test_the_forms_mean_what_they_say() -> None:
    assert {form: parse_duration(form) for form in FORMS} == FORMS


def test_a_number_of_seconds_ago_is_no_year(call: Call) -> None:
    assert parse_moment("--since", "20261128") == parse_moment("--since", "2026-11-28")
    done = call("history", "list", "--since", "2026")
    assert (done.code, "--since 2026: write a date" in done.err) == (2, True)


JUDGE = ("judge", "demo", "--format", "json")
LISTS = {
    "--only": ("memory", "thermal"),
    "--skip": ("memory", "thermal"),
    "--gpus": ("SXM5", "SXM6"),
    "--tried": ("reset", "reboot"),
}


def stable(out: str) -> dict[str, object]:
    document = dict(json.loads(out))
    return {key: document[key] for key in ("summary", "checks", "notes")} | {
        "limits": [word for one in document["run"]["limited_to"] for word in one.split(",")]
    }


@pytest.mark.parametrize("flag", LISTS)
def test_a_list_is_taken_with_commas_and_repeated(flag: str, call: Call) -> None:
    one, two = LISTS[flag]
    wanted = call(*JUDGE, flag, one, flag, two)
    assert wanted.code == 0, wanted.err
    for form in (f"{one},{two}", f"{one}, {two}", f" {one} ,{two}"):
        done = call(*JUDGE, flag, form)
        assert (done.code, stable(done.out)) == (0, stable(wanted.out))


@pytest.mark.parametrize("form", ["", ",", "memory,", ",memory", "memory,,thermal"])
@pytest.mark.parametrize("flag", [*LISTS, "--checks", "--expect"])
def test_an_entry_that_is_empty_is_an_unset_variable(flag: str, form: str, call: Call) -> None:
    start = ("diff", "demo", "demo") if flag == "--expect" else ("judge", "demo")
    if flag == "--tried":
        form = form.replace("memory", "reset").replace("thermal", "reboot")
    if flag == "--checks" and form.startswith("memory"):
        form = form.replace("memory", "/no/such")
    done = call(*start, f"{flag}={form}")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"gpuscan: {flag} is empty (an unset shell variable?): give a value or leave the option"
        " out\n"
    )


def test_parts_of_a_swap_are_a_list(call: Call) -> None:
    words = ("diff", "demo", "demo", "--format", "json", "--expect")
    both = call(*words, "gpu:SXM5,gpu:SXM6")
    assert both.out.count("was expected to be replaced") == call(
        *words, "gpu:SXM5", "--expect", "gpu:SXM6"
    ).out.count("was expected to be replaced")
    assert both.code == call(*words, "gpu:SXM5", "--expect", "gpu:SXM6").code


def test_reports_are_a_list_and_a_comma_in_a_name_is_kept(tmp_path: Path, call: Call) -> None:
    a, b = f"{tmp_path}/a,b.xml", f"{tmp_path}/b.json"
    assert call("judge", "demo", "-q", "--report", f"junit={a},json={b}").code == 0
    assert Path(a).read_text("utf-8").startswith("<?xml")
    assert json.loads(Path(b).read_text("utf-8"))["summary"]["exit_code"] == 0


def test_a_folder_with_a_comma_in_its_name_is_one(tmp_path: Path, call: Call) -> None:
    folder = f"{tmp_path}/a,b"
    Path(folder).mkdir()
    with open(f"{folder}/test_own.py", "w", encoding="utf-8") as file:
        file.write(
            "from gpuscan import Action, Node, check\n\n\n@check(action=Action.REBOOT)\n"
            'def test_it(node: Node) -> None:\n    """It is."""\n'
        )
    assert "own.it" in call("checks", "list", "own", "--checks", folder).out
