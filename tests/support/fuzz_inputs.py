"""What the fuzz starts from, and how it changes it: small inputs of all kinds, and whole ones now and
then, as a run of a small one takes a tenth of the time and reaches the same code.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import re
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import logs
from paths import RECORDINGS, ROOT

TESTS = ROOT / "tests"
MOST_BYTES = 200_000  # of a text to change
WHOLE = 0.02  # share of the inputs that are not cut to a small one
SMALL = 30  # lines of a text; entries of a list
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0")
WORDS = (
    "4294967295", "-1", "99999999999999999999", "1e400", "NaN", "Infinity", "null", "true", "", "\0",
    "\x1b]0;x\x07", "\u202e", "[]", "{}", "[[[[", '"', "'", "%s", "../..", "0x", "0xffffffffffffffff",
    "Xid", "NVRM: Xid (PCI:0000:1b:00): 79,", "SXid", "GPU 00000000:1B:00.0", "N/A", "Link 99:", "#",
    "!!python/object:os.system", "&a", "*a", "extends:", "count:", ": ", "\t", "\r\n", "\u2028", "é",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, float("nan"), 10**30, "", "x", "\x1b[2J", [], {}, [[]], {"a": 1}, "9" * 400,
    ["x"], 4294967295,
)  # fmt: skip


class Seed(NamedTuple):
    """An input to change: how its name ends, its content, and the commands that take it."""

    ending: str
    data: bytes
    kind: str


def seeds(more: str = "") -> list[Seed]:
    """Recordings, profiles, logs, archives, outputs of the program, and all texts below *more*."""
    found = []
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        found += [Seed(".json", gzip.decompress(path.read_bytes()), "recording")] * 2
    packed = sorted(RECORDINGS.glob("*.json.gz"))[0].read_bytes()
    found.append(Seed(".json.gz", packed, "recording"))
    broken = ROOT / "gpuscan" / "recording" / "demo-broken.json"
    found += [Seed(".json", broken.read_bytes(), "recording")] * 2
    for path in sorted((ROOT / "profiles").glob("*.yaml")):
        found += [Seed(".yaml", path.read_bytes(), "profile")] * 2
    for folder in (TESTS / "outputs", TESTS / "swaps", TESTS / "importers"):
        for path in sorted(folder.rglob("*.txt")):
            found.append(Seed(".txt", path.read_bytes(), "text"))
    for path in sorted(Path(more).rglob("*")) if more else ():
        if path.is_file() and path.stat().st_size < MOST_BYTES:
            found.append(Seed("".join(path.suffixes[-2:]) or ".txt", path.read_bytes(), "text"))
    lines = "\n".join(write(logs.XID) for write in (*logs.WAYS.values(), *logs.USERS.values()))
    found += [Seed(".log", lines.encode(), "text")] * 8
    found += [Seed(".log", gzip.compress(lines.encode()), "text")] * 2
    found += [Seed(".tar", _tar({"dmesg.txt": lines, "b/syslog": lines}), "text")] * 2
    return found + [Seed("", b"", "state")] * 12 + [Seed("", b"", "words")] * 8


def _tar(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def start_from(seed: Seed, chance: random.Random) -> bytes:
    """Return what is to be changed: mostly a small piece of the seed."""
    if chance.random() < WHOLE or seed.ending.endswith((".gz", ".tar")):
        return seed.data
    if seed.kind == "recording":
        return _some_readings(seed.data, chance)
    if seed.kind == "text":
        lines = seed.data.splitlines(keepends=True)
        first = chance.randrange(len(lines) or 1)
        return b"".join(lines[first : first + chance.randint(1, SMALL)])
    return seed.data


@cache
def _document(data: bytes) -> Any:
    return json.loads(data)


def _some_readings(data: bytes, chance: random.Random) -> bytes:
    """Return the recording of one of its GPUs and of some of its host, with short values."""
    document = _document(data)
    if "readings" not in document:
        return data
    keys = [row["key"] for row in document["readings"]]
    gpus = sorted({key[-13:-1] for key in keys if "HandleByPciBusId(" in key})
    kept = chance.choice(gpus) if gpus else ""
    host, own = chance.random() * 0.4, chance.random()
    share = {True: own, False: 0.002}
    rows = []
    for row in document["readings"]:
        named = ADDRESS.search(row["key"])
        if chance.random() < (share[named[0] == kept] if named else host):
            rows.append({**row, "value": _short(row.get("value"))})
    scope = document.get("scope", ["*"])
    some = chance.choice((["*"], chance.sample(scope, min(len(scope), SMALL))))
    return json.dumps({**document, "scope": some, "readings": rows}).encode()


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > 1500:
        return "\n".join(value.splitlines()[:SMALL])
    if isinstance(value, list) and len(value) > SMALL:
        return value[: SMALL // 2] + value[-SMALL // 2 :]
    return value


def change(data: bytes, chance: random.Random, others: list[Seed]) -> bytes:
    """Return the input with one to four changes of its bytes, lines, words or JSON values.

    What is JSON mostly stays so: anything else is refused before it is understood.
    """
    is_json = data[:1] == b"{" and chance.random() < 0.8
    for _ in range(chance.randint(1, 4)):
        data = _json(data, chance) if is_json else chance.choice(CHANGES)(data, chance)
        if not is_json and chance.random() < 0.05:
            other = chance.choice(others).data[:MOST_BYTES]
            start = chance.randrange(len(other) + 1)
            data = data[: chance.randrange(len(data) + 1)] + other[start : start + 5000]
    return data[: 10 * MOST_BYTES]


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _cut(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 5, 100, 10**9)) :]


def _lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    how = chance.randrange(4)
    if how == 0:
        lines[at:at] = [lines[at]] * chance.choice((1, 3, 200))
    elif how == 1:
        del lines[at]
    elif how == 2:
        chance.shuffle(lines)
    else:
        lines[at] = lines[at] * chance.choice((2, 50))
    return b"\n".join(lines)


def _word(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    end = at + chance.choice((0, 1, 4, 12))
    return data[:at] + chance.choice(WORDS).encode() + data[end:]


def _json(data: bytes, chance: random.Random) -> bytes:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _word(data, chance)
    for _ in range(chance.randint(1, 5)):
        if _reading(document, chance):
            continue
        place = document
        while True:
            if isinstance(place, dict) and place:
                key: Any = chance.choice(list(place))
            elif isinstance(place, list) and place:
                key = chance.randrange(len(place))
            else:
                break
            if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.85:
                place = place[key]
                continue
            if isinstance(place, dict) and chance.random() < 0.2:
                del place[key]
            else:
                place[key] = copy.deepcopy(chance.choice(ODD))
            break
    return json.dumps(document).encode()


def _reading(document: Any, chance: random.Random) -> bool:
    """Change the value of one of a recording's readings; tell whether there was one to change."""
    rows = document.get("readings") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows or chance.random() < 0.1:
        return False
    row = chance.choice(rows)
    if not isinstance(row, dict) or "value" not in row:
        return False
    value = row["value"]
    if isinstance(value, str) and chance.random() < 0.7:
        changed = chance.choice((_flip, _cut, _lines, _word))(
            value.encode("utf-8", "surrogatepass"), chance
        )
        row["value"] = changed.decode("utf-8", "surrogateescape")
    elif isinstance(value, (list, dict)) and value and chance.random() < 0.7:
        key: Any = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value[key] = copy.deepcopy(chance.choice(ODD))
    else:
        row["value"] = copy.deepcopy(chance.choice(ODD))
    return True


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _cut,
    _lines,
    _word,
    _json,
    _json,
)
