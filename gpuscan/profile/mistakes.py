"""Everything that is wrong with a profile and its parents, at once and each at its place."""

from collections.abc import Callable, Iterator
from typing import Any

from gpuscan.errors import ProfileError
from gpuscan.profile import names, yamlfile
from gpuscan.profile.keys import load_schema
from gpuscan.profile.yamlfile import Mistake, Positions, mistake_at

DEEPEST = 8  # generations
Objection = Callable[[str], str]  # why a selector of checks is none, "" if it is one


def refuse_mistakes(name: str, objection: Objection | None = None) -> None:
    """Raise ProfileError with all mistakes of a profile's file and of its parents' files, in the
    order of their lines. Selectors of checks are only looked at with an *objection*.
    """
    lines: list[str] = []
    path, children = names.find(name), ()  # type: str, tuple[str, ...]
    while path and path not in children and not names.is_bundled_file(path):
        children = (*children, path)
        parent, mistakes = _of_file(path, children, objection)
        lines += [line for _, line in sorted(mistakes)]
        path = parent
    if lines:
        raise ProfileError(*dict.fromkeys(lines))


def _of_file(
    path: str, children: tuple[str, ...], objection: Objection | None
) -> tuple[str, list[Mistake]]:
    """Return the file of a profile's parent ("" without one) and the profile's own mistakes."""
    document, positions, mistakes, unread = yamlfile.read(yamlfile.read_text(path), path)
    mistakes += yamlfile.mistakes_against(load_schema(), document, positions, path, unread)
    if not isinstance(document, dict):
        return "", mistakes
    if objection is not None:
        mistakes += _selectors(document, positions, path, objection)
    parent, why = _find_parent(document.get("extends"), path, children)
    if why:
        mistakes.append(mistake_at(positions, ("extends",), path, why))
    return parent, mistakes


def _selectors(
    document: dict[str, Any], positions: Positions, path: str, objection: Objection
) -> Iterator[Mistake]:
    skip, optional = document.get("skip"), document.get("optional")
    for name in skip if isinstance(skip, dict) else ():
        if why := objection(name):
            yield mistake_at(positions, ("skip", name, ""), path, why)
    for number, name in enumerate(optional if isinstance(optional, list) else ()):
        if isinstance(name, str) and (why := objection(name)):
            yield mistake_at(positions, ("optional", number), path, why)


def _find_parent(parent: Any, path: str, children: tuple[str, ...]) -> tuple[str, str]:
    """Return a parent's file and what is wrong with it, each "" where there is none."""
    if not isinstance(parent, str):
        return "", ""
    try:
        found = names.find(names.beside(parent, path), children)
        yamlfile.read_text(found, trusted=names.is_bundled_file(found))
    except ProfileError as error:
        return "", str(error)
    if found in children or len(children) > DEEPEST:
        return "", f"extends itself through {' → '.join((*children, found))}"
    return found, ""
