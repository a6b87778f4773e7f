"""last.json: this machine's last verdict and its hold, small enough to be read by every prolog;
light, as `status` imports it.

Beside it lies status.json, the same for everybody: without serial numbers, ids and names. What
makes no sense is told and kept, and never costs the rest.
"""

import json
import os
from typing import Any

from gpuscan.durations import is_date
from gpuscan.files import PUBLIC
from gpuscan.state.place import Odd, StateError, read_file, replace

FORMAT = "gpuscan-last"
PUBLIC_FORMAT = "gpuscan-status"
MAJOR = 1
SCHEMA_VERSION = f"{MAJOR}.1"
# a hold's code -> its verdict; gpuscan.model.outcome has the same, too heavy for `status`
VERDICTS = {20: "software", 30: "reboot", 31: "reboot", 40: "hardware", 41: "hardware"}
# the heaviest of a code's actions
ACTIONS = {20: "investigate", 30: "reboot", 31: "power-cycle", 40: "inspect", 41: "replace"}
CODES = {0: ("pass", "warn"), 3: ("incomplete",), 10: ("warn",)} | {
    code: (verdict,) for code, verdict in VERDICTS.items()
}
UNKNOWN: dict[str, Any] = {
    "at": 0.0,
    "verdict": "incomplete",
    "exit_code": 3,
    "complete": False,
    "headline": "",
}
TEXTS = ("profile", "level", "boot_id", "headline", "action")
REASON_TEXTS = (
    "action", "check", "subject", "slot", "address", "serial", "message", "level", "boot_id",
    "profile",
)  # fmt: skip
LATER = {
    "seen_s": 0.0,
    "expects": "{}",
    "link_downed": -1,
    "asleep": False,
    "tests": "",
    "exercised_s": 0.0,
    "events": 0,
    "over_s": 0.0,
}
PUBLIC_KINDS = ("gpu", "port", "nic", "disk", "nvswitch", "cable", "node", "baseboard", "tray")

Found = dict[str, Any]


class Newer(StateError):
    """The file was written by a newer gpuscan: it is left alone."""


class Damaged(StateError):
    """The file makes no sense: what it held is not known."""


def path_in(folder: str, machine: str = "") -> str:
    """Return where the last verdict lies: this machine's at the top, another's (of a replay) in a
    folder of its own.
    """
    return (
        os.path.join(folder, "machines", machine, "last.json")
        if machine
        else os.path.join(folder, "last.json")
    )


def public_path(folder: str) -> str:
    """Return where everybody can read this machine's last verdict and hold."""
    return os.path.join(folder, "status.json")


def read(path: str) -> Found | None:
    """Return the document, None where there is none; raises StateError: Newer, Damaged, or that it
    cannot be read.

    Everything in it makes sense: entries of the hold that do not are in `unread`, and `nonsense`
    says why the verdict does not count (then it is incomplete).
    """
    found = _load(path, FORMAT)
    return None if found is None else _checked(*found)


def _load(path: str, format_: str) -> tuple[Found, bool] | None:
    """Return a JSON file of ours, and whether others may have written it."""
    try:
        data = read_file(path)
    except Odd as error:
        raise Damaged(str(error)) from None
    if data is None:
        return None
    try:
        document = json.loads(data.bytes)
        newer = int(document["schema_version"].split(".")[0]) > MAJOR
        if document["format"] != format_ or not (newer or {"hold", "swap"} <= set(document)):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged(f"{path}: damaged: what it held is not known") from None
    if newer:
        raise Newer(
            f"{path}: written by a newer gpuscan ({document['schema_version']}): update gpuscan, or"
            " name another --state-dir"
        )
    return document, data.shared


def _checked(document: Found, shared: bool) -> Found:
    """Return a document with what makes no sense replaced, and told."""
    wrong = list(_mistakes(document))
    if shared:
        wrong.append("others may have written it")
    reasons, unread = _hold_of(document.get("hold"))
    asleep, odd = _reasons_of(document.get("asleep", []))
    kept = document.get("unread", [])
    unread += [*odd, *(kept if isinstance(kept, list) else [kept])]
    swap = document.get("swap")
    if not _is_swap(swap):
        swap, unread = None, [*unread, swap]
    whole = {**document, "swap": swap, "asleep": asleep, "unread": unread}
    whole["hold"] = _summary(document["hold"], reasons) if reasons else None
    if wrong:
        for name in TEXTS:
            if not isinstance(whole.get(name, ""), str):
                whole[name] = ""
        for name, kind in (("machine", dict), ("scope", dict)):
            if not isinstance(whole.get(name), kind):
                whole[name] = {}
        sane = whole["at"] if is_time(whole.get("at")) else 0.0
        whole = {"profile": "", "level": "", "boot_id": "", **whole, **UNKNOWN, "at": sane}
    whole["nonsense"] = "; ".join(wrong)
    return whole


def _mistakes(document: Found) -> Any:
    """Yield what makes no sense in the verdict and what belongs to it."""
    for name in TEXTS[:3]:
        if not isinstance(document.get(name), str):
            yield f"its {name} makes no sense"
    for name in TEXTS[3:]:
        if not isinstance(document.get(name, ""), str):
            yield f"its {name} makes no sense"
    if not is_time(document.get("at")):
        yield "its time makes no sense"
    code, verdict = document.get("exit_code"), document.get("verdict")
    if not isinstance(code, int) or isinstance(code, bool) or verdict not in CODES.get(code, ()):
        yield "its verdict makes no sense"
    if not isinstance(document.get("complete"), bool):
        yield "whether it is complete makes no sense"
    scope, machine = document.get("scope"), document.get("machine")
    if not isinstance(scope, dict) or not isinstance(scope.get("full"), bool):
        yield "its scope makes no sense"
    if not isinstance(machine, dict) or not all(isinstance(id_, str) for id_ in machine.values()):
        yield "its machine makes no sense"


def _hold_of(hold: Any) -> tuple[list[Found], list[Any]]:
    """Return the reasons of a stored hold, and what in it makes no sense."""
    if hold is None:
        return [], []
    if not isinstance(hold, dict) or not isinstance(hold.get("reasons"), list):
        return [], [hold]
    reasons, unread = _reasons_of(hold["reasons"])
    return reasons, unread if reasons or unread else [hold]


def _reasons_of(entries: Any) -> tuple[list[Found], list[Any]]:
    if not isinstance(entries, list):
        return [], [entries]
    sane = [one for one in entries if is_reason(one)]
    return sane, [one for one in entries if not is_reason(one)]


def is_reason(entry: Any) -> bool:
    """Return whether one entry of a hold makes sense, as `model.Held` names its values."""
    if not isinstance(entry, dict) or not set(entry) <= {
        "code", *REASON_TEXTS, "since_s", *LATER
    }:  # fmt: skip
        return False
    whole = {**LATER, **entry}
    return (
        _is_whole(whole.get("code"))
        and whole["code"] in VERDICTS
        and all(isinstance(whole.get(name), str) for name in (*REASON_TEXTS, "expects", "tests"))
        and bool(whole["check"] and whole["subject"])
        and is_time(whole.get("since_s"))
        and is_time(whole["seen_s"])
        and is_time(whole["exercised_s"])
        and is_time(whole["over_s"])
        and _is_whole(whole["link_downed"])
        and _is_whole(whole["events"])
        and isinstance(whole["asleep"], bool)
        and _is_object(whole["expects"])
    )


def is_time(value: Any) -> bool:
    """Return whether a value is a Unix time that can be told as a date."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and is_date(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_swap(swap: Any) -> bool:
    if swap is None:
        return True
    if not isinstance(swap, dict) or not isinstance(swap.get("ticket"), str):
        return False
    parts = swap.get("parts", [])
    return isinstance(parts, list) and all(isinstance(part, str) for part in parts)


def _summary(hold: Found, reasons: list[Found]) -> Found:
    """Return a hold of the reasons that make sense; the heaviest of them is its code."""
    code = max(reason["code"] for reason in reasons)
    since_s = min(reason["since_s"] for reason in reasons)
    return {**hold, "code": code, "verdict": VERDICTS[code], "since": since_s, "reasons": reasons}


def reasons_in(found: Found) -> list[Found]:
    """Return the reasons of a stored hold, and those that sleep as their part is gone."""
    held = found["hold"]["reasons"] if found["hold"] else []
    return [*held, *found.get("asleep", ())]


def write(folder: str, path: str, document: Found) -> None:
    """Write last.json under the lock, and this machine's status.json; raises StateError.

    The private file comes first: the hold is whole there.
    """
    document = {name: value for name, value in document.items() if name != "nonsense"}
    replace(path, document)
    if path == path_in(folder):
        replace(public_path(folder), _public(document), PUBLIC)


def _public(document: Found) -> Found:
    """Return what everybody may know: no serial number, id, message, host, user or file."""
    hold = document["hold"]
    return {
        "format": PUBLIC_FORMAT,
        "schema_version": SCHEMA_VERSION,
        **{name: _mark(text) for name, text in _marks(document).items()},
        **{name: document.get(name) for name in ("at", "verdict", "exit_code", "complete")},
        **{name: document.get(name, "") for name in ("action", "profile", "level")},
        "full": bool(document["scope"].get("full")),
        "hold": [_public_reason(one) for one in hold["reasons"]] if hold else [],
        "unread": len(document.get("unread", ())),
        "swap": document["swap"] is not None,
    }


def _marks(document: Found) -> dict[str, str]:
    return {"machine": document["machine"].get("machine_id", ""), "boot": document["boot_id"]}


def _mark(text: str) -> str:
    """Return what tells one machine, or boot, from another without naming it."""
    from hashlib import sha256  # milliseconds at start-up, of which root's `status` has no need

    return sha256(f"gpuscan {text}".encode()).hexdigest()[:16] if text else ""


def _public_reason(reason: Found) -> Found:
    kind, _, _ = reason["subject"].partition(":")
    subject = reason["subject"] if kind in PUBLIC_KINDS else kind
    names = ("code", "action", "check", "since_s")
    later = {name: reason.get(name, 0.0) for name in ("seen_s", "exercised_s")}
    return {**{name: reason[name] for name in names}, **later, "subject": _without_ids(subject)}


def _without_ids(subject: str) -> str:
    """Return a part's name, but for one that is an id: a long run of digits or of hex."""
    kind, _, label = subject.partition(":")
    longest = max((len(word) for word in label.replace("-", ":").split(":")), default=0)
    return kind if longest > 15 or label.isdigit() else subject


def read_public(folder: str, here: dict[str, str]) -> Found | None:
    """Return status.json in the form of last.json, as far as it goes; None where there is none.

    Whether it is of this machine and boot is told by *here*. Raises StateError as `read`.
    """
    found = _load(public_path(folder), PUBLIC_FORMAT)
    if found is None:
        return None
    document, shared = found
    entries = document.get("hold")
    sane = [_private_reason(one) for one in entries] if isinstance(entries, list) else []
    reasons = [one for one in sane if is_reason(one)]
    lacks = not isinstance(entries, list) or len(reasons) < len(entries)
    full = {"full": document.get("full")}
    matches = {
        name: here[id_] if _mark(here[id_]) == document.get(mark) else f"other {name}"
        for name, id_, mark in (
            ("machine_id", "machine_id", "machine"),
            ("boot_id", "boot_id", "boot"),
        )
    }
    return _checked(
        {
            **document,
            "machine": {"machine_id": matches["machine_id"]},
            "boot_id": matches["boot_id"],
            "scope": full,
            "hold": {"reasons": reasons} if reasons else None,
            "unread": ["?"] if lacks or document.get("unread") else [],
            "swap": {"ticket": "", "parts": []} if document.get("swap") else None,
        },
        shared,
    )


def _private_reason(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    texts = dict.fromkeys(REASON_TEXTS, "")
    return {**texts, "message": "held by root", "level": "passive", **entry}


def same_machine(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two of last.json's `machine` objects name one machine: by any id that both have.

    A hold must not be lost because a board was changed or a system installed anew: one shared id is
    enough.
    """
    return any(
        one.get(key) and one.get(key) == other.get(key) for key in ("machine_id", "dmi_serial")
    )
