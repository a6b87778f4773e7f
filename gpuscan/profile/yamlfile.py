"""YAML with positions: every mistake in a file is reported as file:line:column: $.path: reason."""

from collections.abc import Iterator, Set
from typing import Any

import yaml

from gpuscan.errors import ProfileError, UsageError, near_misses
from gpuscan.files import open_input, open_trusted, read_most

LARGEST = 1 << 20  # bytes of a file
MOST_NODES = 20_000
DEEPEST = 50
Position = tuple[int, int]
Mistake = tuple[Position, str]  # where it is, and its line
Positions = dict[tuple[Any, ...], Position]
_SCALARS: dict[str, Any] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:bool": lambda text: text.lower() == "true",
    "tag:yaml.org,2002:null": lambda _: None,
}


def read_text(path: str, *, trusted: bool = False) -> str:
    """Return the text of a file; raises ProfileError if it cannot be read, is too large, or (not
    *trusted*, as root) others can write it.
    """
    try:
        with open_input(path) if trusted else open_trusted(path) as file:
            text = read_most(file, LARGEST).decode("utf-8")
    except UsageError as error:
        raise ProfileError(*error.args) from None
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
    """Return the document and the position (line, column, from 1) of every value by its path, and
    of every key by `(*path, key, "")`. Raises ProfileError with every mistake; *name* is the file
    in its text.
    """
    document, positions, mistakes, _ = read(text, name)
    refuse(mistakes)
    return document, positions


def read(text: str, name: str) -> tuple[Any, Positions, list[Mistake], set[tuple[Any, ...]]]:
    """Return document and positions as `load` does, with the mistakes, and the paths of the values
    that could not be read, which are None. Raises ProfileError for what is no YAML at all.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ProfileError(f"{name}:{_place(error)}: not valid YAML: {_problem(error)}") from None
    reader = _Reader(name)
    document = reader.value(root, ())
    return document, reader.positions, reader.mistakes, reader.unread


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"


def _problem(error: Exception) -> str:
    if not str(error):
        return type(error).__name__
    return str(getattr(error, "problem", None) or error).splitlines()[0]


class _Reader:
    """Converts the tree of nodes, notes what is wrong with it, and counts nodes so that nested
    aliases cannot blow it up.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.positions: Positions = {}
        self.mistakes: list[Mistake] = []
        self.unread: set[tuple[Any, ...]] = set()
        self.nodes = 0

    def value(self, node: Any, path: tuple[Any, ...]) -> Any:
        self.nodes += 1
        if node is None:
            raise ProfileError(f"{self.name}:1:1: the file is empty")
        if self.nodes > MOST_NODES or len(path) > DEEPEST:
            self.note(node, path, "too many or too deep values (aliases within aliases?)")
            refuse(self.mistakes)
        self.positions[path] = _position(node)
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
                why = f"key {key!r} is not text: quote it, and do not merge mappings with <<"
                self.note(key_node, path, why)
                continue
            if key in result:
                self.note(key_node, path, f"key '{key}' is given twice")
                continue
            result[key] = self.value(value_node, (*path, key))
            self.positions[(*path, key, "")] = _position(key_node)
        return result

    def scalar(self, node: Any, path: tuple[Any, ...]) -> Any:
        text, tag = node.value, node.tag
        if tag not in _SCALARS:
            why = f"'{text}' would be read as {tag.rsplit(':', 1)[-1]}: quote it"
            return self.unreadable(node, path, why)
        if tag.endswith(":bool") and text.lower() not in ("true", "false"):
            why = f"'{text}' would be read as true or false: quote it, or write true or false"
            return self.unreadable(node, path, why)
        digits = text.lstrip("+-")
        odd = tag.endswith(":int") and len(digits) > 1 and digits.startswith("0")
        odd = odd or ("_" in text and tag.endswith((":int", ":float")))
        try:
            if odd:
                raise ValueError(text)
            return _SCALARS[tag](text)
        except ValueError:
            why = (
                f"'{text}' is an unusual number (22:30, 0x10, 017, 1_0): quote it or write it plain"
            )
            return self.unreadable(node, path, why)

    def unreadable(self, node: Any, path: tuple[Any, ...], why: str) -> None:
        self.unread.add(path)
        self.note(node, path, why)

    def note(self, node: Any, path: tuple[Any, ...], why: str) -> None:
        line, column = _position(node)
        text = f"{self.name}:{line}:{column}: {dotted(path)}: {why}"
        self.mistakes.append(((line, column), text))


def _position(node: Any) -> Position:
    return node.start_mark.line + 1, node.start_mark.column + 1


def dotted(path: tuple[Any, ...]) -> str:
    """Return a path as `$.gpu.slots[3]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def validate(document: Any, positions: Positions, name: str, schema: dict[str, Any]) -> None:
    """Raise ProfileError with every mistake against *schema*, each at its place."""
    refuse(mistakes_against(schema, document, positions, name))


def mistakes_against(
    schema: dict[str, Any],
    document: Any,
    positions: Positions,
    name: str,
    unread: Set[tuple[Any, ...]] = frozenset(),
) -> list[Mistake]:
    """Return every mistake against *schema*; those of values that were not read are known."""
    from jsonschema import Draft202012Validator  # 90 ms

    errors = [
        error
        for error in Draft202012Validator(schema).iter_errors(document)
        if tuple(error.absolute_path) not in unread
    ]
    return [mistake for error in errors for mistake in _mistakes(error, positions, name)]


def refuse(mistakes: list[Mistake]) -> None:
    """Raise ProfileError with all mistakes in the order of their places, if there are any."""
    if mistakes:
        raise ProfileError(*dict.fromkeys(line for _, line in sorted(mistakes)))


def mistake_at(positions: Positions, path: tuple[Any, ...], name: str, why: str) -> Mistake:
    """Return what is wrong with the value at *path*, or with the key at `(*path, "")`."""
    shown = path[:-1] if path[-1:] == ("",) else path
    line, column = positions.get(path, positions.get(shown[:-1], (1, 1)))
    return (line, column), f"{name}:{line}:{column}: {dotted(shown)}: {why}"


def _mistakes(error: Any, positions: Positions, name: str) -> Iterator[Mistake]:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        for key in error.instance:
            if key not in known:
                hint = near_misses(key, known, "keys")
                yield mistake_at(positions, (*path, key, ""), name, f"unknown key; {hint}")
        return
    yield mistake_at(positions, path, name, _sentence(error))


def _sentence(error: Any) -> str:
    if error.validator in ("anyOf", "type"):
        types = error.schema.get("type") or [s.get("type") for s in error.schema.get("anyOf", [])]
        listing = types if isinstance(types, str) else " or ".join(map(str, types))
        return f"{error.instance!r} is not {'an' if listing[0] in 'aeio' else 'a'} {listing}"
    if error.validator == "pattern" and "x-pattern" in error.schema:
        return f"{error.instance!r} is not {error.schema['x-pattern']}"
    return str(error.message)
