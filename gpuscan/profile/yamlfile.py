"""YAML with positions: every mistake in a profile is told as file:line:column: $.path: what is
wrong.
"""

from typing import Any

import yaml

from gpuscan.errors import ProfileError, UsageError, near_misses
from gpuscan.files import refuse_writable

MOST_NODES = 20_000
LARGEST = 1 << 20
Position = tuple[int, int]
Positions = dict[tuple[Any, ...], Position]
_SCALARS = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:null": lambda _: None,
}


def read_text(path: str, *, trusted: bool = False) -> str:
    """Return the text of a file; raises ProfileError for everything that keeps it from being read.

    As root, a file that others may write is refused unless it is *trusted*.
    """
    try:
        if not trusted:
            refuse_writable(path)
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except UsageError as error:
        raise ProfileError(str(error)) from None
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ProfileError(
            f"{path}:1:1: not a text file in UTF-8 ({error.reason} at byte {error.start})"
        ) from None
    if len(text) > LARGEST:
        raise ProfileError(f"{path}: larger than {LARGEST >> 10} KiB, which no profile is")
    return text


def load(text: str, name: str) -> tuple[Any, Positions]:
    """Return the document and the position of every value and key (`(*path, "key")` to line and
    column, from 1).
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ProfileError(f"{name}:{_where(error)}: not valid YAML: {_what(error)}") from None
    positions: Positions = {}
    return _Reader(name, positions).value(root, ()), positions


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"


def _what(error: Exception) -> str:
    return (
        str(getattr(error, "problem", None) or error).splitlines()[0]
        if str(error)
        else type(error).__name__
    )


class _Reader:
    """Walks the node tree once, with a count of nodes so that nested aliases cannot blow it up."""

    def __init__(self, name: str, positions: Positions) -> None:
        self.name = name
        self.positions = positions
        self.seen = 0

    def value(self, node: Any, path: tuple[Any, ...]) -> Any:
        self.seen += 1
        if node is None:
            raise ProfileError(f"{self.name}:1:1: the file is empty")
        if self.seen > MOST_NODES or len(path) > 50:
            self.refuse(node, path, "too many or too deep values (aliases within aliases?)")
        self.positions[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, n)) for n, item in enumerate(node.value)]
        return self.scalar(node, path)

    def mapping(self, node: Any, path: tuple[Any, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if key_node.tag != "tag:yaml.org,2002:str" or not isinstance(key, str):
                self.refuse(
                    key_node, path, f"key {key!r} is no text: quote it, and write no merges (<<)"
                )
            if key in result:
                self.refuse(key_node, path, f"key '{key}' is given twice")
            result[key] = self.value(value_node, (*path, key))
            self.positions[(*path, key, "")] = (
                key_node.start_mark.line + 1,
                key_node.start_mark.column + 1,
            )
        return result

    def scalar(self, node: Any, path: tuple[Any, ...]) -> Any:
        text, tag = node.value, node.tag
        if tag not in _SCALARS:
            self.refuse(node, path, f"'{text}' would be read as {tag.rsplit(':', 1)[-1]}: quote it")
        if tag.endswith(":bool") and text.lower() not in ("true", "false"):
            self.refuse(
                node,
                path,
                f"'{text}' would be read as true or false: quote it, or write true or false",
            )
        octal = (
            tag.endswith(":int")
            and len(text.lstrip("+-")) > 1
            and text.lstrip("+-").startswith("0")
        )
        try:
            if octal:
                raise ValueError(text)
            return _SCALARS[tag](text)  # type: ignore[operator]
        except ValueError:
            return self.refuse(
                node,
                path,
                f"'{text}' is an unusual number (22:30, 0x10, 017): quote it or write it plainly",
            )

    def refuse(self, node: Any, path: tuple[Any, ...], why: str) -> Any:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        raise ProfileError(f"{self.name}:{line}:{column}: {dotted(path)}: {why}")


def dotted(path: tuple[Any, ...]) -> str:
    """Return a path as `$.gpu.slots[3]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def validate(document: Any, positions: Positions, name: str, schema: dict[str, Any]) -> None:
    """Raise ProfileError with every mistake against *schema*, each at its place."""
    from jsonschema import Draft202012Validator

    errors = sorted(
        Draft202012Validator(schema).iter_errors(document),
        key=lambda error: list(map(str, error.absolute_path)),
    )
    if errors:
        raise ProfileError(
            "\n".join(line for error in errors for line in _told(error, positions, name))
        )


def _told(error: Any, positions: Positions, name: str) -> list[str]:
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        return [
            _stranger(key, known, error, positions, name)
            for key in error.instance
            if key not in known
        ]
    path = tuple(error.absolute_path)
    message = error.message
    if error.validator in ("anyOf", "type"):
        wanted = error.schema.get("type") or " or ".join(
            str(s.get("type")) for s in error.schema.get("anyOf", [])
        )
        wanted = wanted if isinstance(wanted, str) else " or ".join(wanted)
        message = f"{error.instance!r} is not {'an' if wanted[0] in 'aeio' else 'a'} {wanted}"
    if (
        error.validator == "pattern" and "description" in error.schema
    ):  # people read no regular expressions
        message = f"{error.instance!r} is not {error.schema['description']}"
    line, column = positions.get(path, (1, 1))
    return [f"{name}:{line}:{column}: {dotted(path)}: {message}"]


def _stranger(key: str, known: list[str], error: Any, positions: Positions, name: str) -> str:
    path = tuple(error.absolute_path)
    line, column = positions.get((*path, key, ""), positions.get(path, (1, 1)))
    return f"{name}:{line}:{column}: {dotted((*path, key))}: unknown key; {near_misses(key, known, 'keys')}"
