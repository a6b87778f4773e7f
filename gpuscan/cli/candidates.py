"""What a word of a command line may become: commands, options, and the values of both."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuscan.model.outcome import WORK

DEMOS = ("demo", "demo-broken")


def split_line(line: str) -> list[str]:
    """Return the words of a line up to the cursor; the last one is empty after a space.

    >>> split_line("gpuscan run --profile "), split_line("gpuscan ru")
    (['gpuscan', 'run', '--profile', ''], ['gpuscan', 'ru'])
    """
    words = line.split()
    return [*words, ""] if not line or line[-1].isspace() else words


def candidates(words: Sequence[str]) -> list[str]:
    """Return what the last of *words*, those after the program's name, may become."""
    import typer

    from gpuscan.cli.app import build_command_line

    *before, current = words or [""]
    at: Any = typer.main.get_command(build_command_line("".join(before[:1])))
    rest = list(before)
    while rest and rest[0] in getattr(at, "commands", {}):
        at = at.commands[rest.pop(0)]
    return sorted(dict.fromkeys(_candidates(at, rest, current)))


def _candidates(at: Any, before: Sequence[str], current: str) -> list[str]:
    options = {flag: one for one in at.params if _is_option(one) for flag in one.opts}
    flag, sign, value = current.partition("=")
    if sign and flag in options:
        return [f"{flag}={one}" for one in _completed(_values(options[flag], of=at.name), value)]
    asked = options.get(before[-1]) if before else None
    if asked is not None and not _is_flag(asked):
        return _completed(_values(asked, of=at.name), current)
    if current.startswith("-"):
        return _starting([*options, "--help"], current)
    if getattr(at, "commands", None):
        shown = [name for name, one in at.commands.items() if not one.hidden]
        return _starting(shown, current)
    given = [word for word in before if not word.startswith("-")]
    arguments = [one for one in at.params if not _is_option(one)]
    position = min(len(given), len(arguments) - 1)
    return _completed(_values(arguments[position], given), current) if arguments else []


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _is_flag(option: Any) -> bool:
    return bool(option.is_flag or getattr(option, "count", False))


def _starting(known: Iterable[str], current: str) -> list[str]:
    return [one for one in known if one.lower().startswith(current.lower())]


def _completed(known: Iterable[str], current: str) -> list[str]:
    """Complete the last entry of a list `a,b`."""
    head, comma, last = current.rpartition(",")
    return [f"{head}{comma}{one}" for one in _starting(known, last)]


def _values(parameter: Any, given: Sequence[str] = (), of: str = "") -> Iterable[str]:
    """Return what is known of a parameter, also as that *of* one command."""
    choices = getattr(parameter.type, "choices", None)
    if choices:
        return list(choices)
    name = parameter.opts[-1] if _is_option(parameter) else parameter.name
    known = VALUES.get(f"{of} {name}", VALUES.get(name))
    return known(given) if known else ()


def _profiles(_: Sequence[str]) -> list[str]:
    from gpuscan.profile.names import list_profiles

    return ["auto", *list_profiles()]


def _selectors(_: Sequence[str]) -> list[str]:
    from gpuscan.engine.judging import all_checks

    ids = [one.id for one in all_checks()]
    return [*{id_.partition(".")[0] for id_ in ids}, *ids]


def _keys(_: Sequence[str]) -> list[str]:
    from gpuscan.profile.keys import leaves

    return [f"{key}=" for key in leaves()]


def _reports(_: Sequence[str]) -> list[str]:
    from gpuscan.renderers import FORMATS

    return [f"{format_}=" for format_ in FORMATS]


def _parts(_: Sequence[str]) -> list[str]:
    return ["gpu:", "nic:", "cable:", "disk:", "baseboard", "tray"]


def _explained(given: Sequence[str]) -> list[str]:
    """Return the kinds, then the codes of the kind that was given."""
    from gpuscan import catalogue
    from gpuscan.cli import lookup, reference
    from gpuscan.model.outcome import Action

    actions = [action.value for action in Action]
    kind = given[0] if given else ""
    if not kind:
        return [*lookup.KINDS, *_selectors(()), *actions]
    if kind in catalogue.WITH_CODE:
        return [str(one.code) for one in catalogue.entries(kind)]
    named: dict[str, list[str]] = {
        "exit": [str(code) for code in reference.EXITS],
        "action": actions,
        "check": [*_selectors(()), *reference.OTHERS],
    }
    return named.get(kind, [])


def _commands(_: Sequence[str]) -> list[str]:
    from gpuscan.cli.app import MODULES

    return list(MODULES)


VALUES: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {
    "--profile": _profiles,
    "name": _profiles,
    "first": _profiles,
    "second": _profiles,
    "--only": _selectors,
    "--skip": _selectors,
    "--check": _selectors,
    "names": lambda given: _selectors(given) if given else _profiles(given),
    "--set": _keys,
    "--report": _reports,
    "--tried": lambda _: WORK,
    "--expect": lambda given: [*_parts(given), "none"],
    "--part": _parts,
    "prove --part": lambda _: ["gpu:", "port:"],
    "--replay": lambda _: DEMOS,
    "files": lambda _: DEMOS,
    "before": lambda _: DEMOS,
    "after": lambda _: DEMOS,
    "words": _explained,
}
