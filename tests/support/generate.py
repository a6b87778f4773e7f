"""Write the generated files: run `python tests/support/generate.py` after a change of the profile
schema, of the records in gpuscan/model or of report_keys.py.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

ROOT = Path(__file__).parents[2]
HEAD = """\
# yaml-language-server: $schema=../gpuscan/schemas/profile.schema.json
# Every key of a profile, with its default; the base of all profiles, and never matched. null means
# not judged. Generated from gpuscan/schemas/profile.schema.json by tests/support/generate.py.
"""


def default_profile() -> str:
    """Return the text of profiles/default.yaml."""
    from gpuscan.profile.keys import load_schema

    return HEAD + "".join(f"{line}\n" for line in _yaml_lines(load_schema(), ""))


def _yaml_lines(branch: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, key in branch["properties"].items():
        comment = f" # {key['description']}" if "description" in key else ""
        if "default" in key:
            default = key["default"]
            text = default if isinstance(default, str) else json.dumps(default)
            yield f"{indent}{name}: {text}{comment}"
        elif "properties" in key:
            yield f"{indent}{name}:{comment}"
            yield from _yaml_lines(key, f"{indent}  ")


KEYS_HEAD = """\
# Profile keys

Every key that a profile may hold, with the values it takes and its default. `null` leaves an expectation open: it is not
judged. A profile inherits what it does not state from the one that it `extends`, in the end from `default`.
`gpuscan profile show NAME` prints a profile with all of them; [Operating gpuscan](operators.md#choose-a-profile) says how
one is chosen. Generated from the schema (`gpuscan schema profile`).
"""
KEYS_TABLE = """
| key | values | default | meaning |
|---|---|---|---|
"""
TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def profile_keys() -> str:
    """Return the text of docs/profile-keys.md."""
    from gpuscan.profile.keys import load_schema

    branches = load_schema()["properties"]
    plain = {name: key for name, key in branches.items() if not _is_branch(key)}
    text = KEYS_HEAD + "\n## The profile itself\n" + KEYS_TABLE + _key_rows(plain, "")
    for name, key in branches.items():
        if _is_branch(key):
            said = key.get("description", "")
            about = f"\n{said[:1].upper()}{said[1:]}.\n" if said else ""
            text += f"\n## {name}\n{about}{KEYS_TABLE}{_key_rows(key['properties'], f'{name}.')}"
    return text


def _is_branch(key: Mapping[str, Any]) -> bool:
    return "properties" in key and "default" not in key


def _key_rows(keys: Mapping[str, Any], prefix: str) -> str:
    rows = ""
    for name, key in keys.items():
        if _is_branch(key):
            rows += _key_rows(key["properties"], f"{prefix}{name}.")
            continue
        default = f"`{json.dumps(key['default'])}`" if "default" in key else "none"
        cells = (f"`{prefix}{name}`", _taken(key), default, key.get("description", ""))
        rows += f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
    return rows


def _taken(key: Mapping[str, Any]) -> str:
    """Return the values that a key takes, in words."""
    if "enum" in key:
        return ", ".join(f"`{json.dumps(value)}`" for value in key["enum"] if value is not None)
    kinds = key.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    told = [TYPES[kind] for kind in kinds if kind != "null"]
    limits = [
        f"{word} {key[limit]}"
        for limit, word in (("minimum", "at least"), ("maximum", "at most"))
        if limit in key
    ]
    return ", ".join([" or ".join(told), *limits])


VIEWS_HEAD = '''\
"""The facts as checks see them: plain values, because a lens ends a check that asks for one that was
not read. For type checkers only; generated from gpuscan/model by tests/support/generate.py.
"""

from collections.abc import Mapping
from typing import Any

from gpuscan.model.burnin import Ending

class Profile:
    """The profile as a check sees it: `profile.gpu.count`; an open expectation ends the check."""

    def get(self, name: str) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
'''


def views() -> str:
    """Return the text of gpuscan/views.pyi."""
    from gpuscan import model

    records = [getattr(model, name) for name in model.__all__]
    classes = [record for record in records if hasattr(record, "_fields")]
    return VIEWS_HEAD + "".join(_view(record) for record in classes if record is not model.Unread)


def _view(record: Any) -> str:
    facts = get_type_hints(record)
    lines = "".join(f"    {name}: {_type(kind)}\n" for name, kind in facts.items())
    return f"\nclass {record.__name__}:\n{lines}"


def _type(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text).replace("NoneType", "None")


REPORT_SCHEMA = "gpuscan/schemas/report.schema.json"
JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def report_schema() -> str:
    """Return the schema of the report with what it says of the records in report_rows.py; the rest
    stays as it is in the file.
    """
    from report_keys import PLACES

    schema = json.loads((ROOT / REPORT_SCHEMA).read_text("utf-8"))
    for record, place in PLACES.items():
        branch = schema["properties"]
        for step in place[:-1]:
            branch = branch[step]
        branch[place[-1]] = _definition(record)
    return json.dumps(schema, indent=2) + "\n"


def _definition(record: Any) -> dict[str, Any]:
    """Return the schema of a record; a field is required unless a report may do without it."""
    from report_keys import NOT_REQUIRED, RECORDS

    from gpuscan.model.report_rows import OMITTED_IF_NONE

    absent = OMITTED_IF_NONE.get(record, ())
    optional = (*absent, *NOT_REQUIRED.get(record, ()))
    facts = get_type_hints(record)
    return {
        "type": "object",
        "description": RECORDS[record],
        "required": [name for name in facts if name not in optional],
        "properties": {
            name: _property(record, name, kind, null=name not in absent)
            for name, kind in facts.items()
        },
    }


def _property(record: Any, name: str, kind: Any, *, null: bool) -> dict[str, Any]:
    """Return the schema of a field; *null* says whether its None is in the JSON, as null."""
    from report_keys import FIELDS

    if hasattr(kind, "_fields"):
        return _definition(kind)
    more = FIELDS[record][name]
    more = {"description": more} if isinstance(more, str) else more
    if "$ref" in more:
        return more
    keywords = {**_keywords(kind, null=null), **more}
    return {key: value for key, value in keywords.items() if value is not None}


def _keywords(kind: Any, *, null: bool) -> dict[str, Any]:
    """Return the keywords that follow from a type."""
    if get_origin(kind) is Literal:
        return {"const": get_args(kind)[0]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _keywords(get_args(kind)[0], null=False)}
    if type(None) in get_args(kind):
        keywords = _keywords(get_args(kind)[0], null=False)
        return {**keywords, "type": [keywords["type"], "null"]} if null else keywords
    return {"type": JSON_TYPES[kind]}


GENERATED: dict[str, Callable[[], str]] = {
    REPORT_SCHEMA: report_schema,
    "profiles/default.yaml": default_profile,
    "gpuscan/views.pyi": views,
    "docs/profile-keys.md": profile_keys,
}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for file, make in GENERATED.items():
        (ROOT / file).write_text(make(), "utf-8")
