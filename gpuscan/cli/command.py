"""How a command is declared: its options as data, its help in groups, its examples last."""

import os
from collections.abc import Callable, Collection
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from gpuscan.cli.grouping import GROUPS
from gpuscan.errors import UsageError, near_misses

Declared = dict[str, tuple[Any, Any]]  # parameter name: its annotation, its default
Function = Callable[..., int | None]

GROUP: dict[str, Any] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "rich_markup_mode": None,  # rich costs 40 ms, and typer would import it for every mistake
}
REQUIRED = Parameter.empty
BLANK = "{} is empty (an unset shell variable?): give a value or leave the option out"
OTHER_OPTIONS = "Other options"
PANELS = (
    "Arguments",
    "Swap",
    "Proof",
    "What is judged",
    "Input",
    "Burn-in",
    "Output",
    "History",
)


class Command(TyperCommand):
    """A command whose --help groups the options by panel and ends with examples.

    typer does so only through rich; this is the same in plain text.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options panel by panel, all in columns of one width."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            panel = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None)
            panels.setdefault(panel or OTHER_OPTIONS, []).append(row)
        last = "Options" if panels.keys() <= {"Arguments", OTHER_OPTIONS} else OTHER_OPTIONS
        panels[last] = panels.pop(OTHER_OPTIONS, [])
        firsts = [first for rows in panels.values() for first, _ in rows]
        width = max((len(first) for first in firsts if len(first) <= WIDEST), default=WIDEST)
        for panel in (*PANELS, last):
            rows = panels.get(panel)
            if rows:
                with formatter.section(panel):
                    formatter.write_dl([(first.ljust(width), text) for first, text in rows], width)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples as they are: a command line must not be wrapped."""
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")


HIDDEN = "complete-words"  # the command that a shell asks
WIDEST = 26  # columns of an option and its values; a longer one has its text on the next line


class CommandGroup(TyperGroup):
    """A group of commands that lists them in its help, sorted, and names the nearest one when an
    unknown one is given.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every command with its whole first sentence, under the headings of the program."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: one for name, one in found.items() if one is not None and not one.hidden}
        width = max(map(len, shown), default=0)
        panels = GROUPS if shown.keys() >= {"run", "judge"} else {"Commands": sorted(shown)}
        for panel, names in panels.items():
            rows = [(name.ljust(width), _first_sentence(shown[name])) for name in names]
            with formatter.section(panel):
                formatter.write_dl(rows, width)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write where to start, as it is: a command line must not be wrapped."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that *args* name; raises UsageError for an unknown one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            names = [name for name in self.list_commands(ctx) if name != HIDDEN]
            hint = near_misses(args[0], names, "commands")
            raise UsageError(f"no such command: {ctx.command_path} {args[0]}; {hint}")
        return super().resolve_command(ctx, args)


def _first_sentence(one: Any) -> str:
    text = " ".join(str(one.help or "").split("\n\n")[0].split())
    return text.removesuffix(".") if text.count(". ") == 0 else text.partition(". ")[0]


def command(
    app: typer.Typer,
    *groups: Declared,
    name: str | None = None,
    examples: str = "",
    hidden: bool = False,
) -> Callable[[Function], Function]:
    """Register a function as a command that takes the options of *groups*.

    The function gets their values by keyword and returns an exit code (None: 0). An option called
    `context` is typer's own and comes as `scanner`: the scan that began at start, or None.
    """
    declared = {key: value for group in groups for key, value in group.items()}

    def register(function: Function) -> Function:
        def call(**values: Any) -> None:
            if "context" in values:
                values["scanner"] = values.pop("context").obj
            raise typer.Exit(function(**values) or 0)

        keyword = Parameter.KEYWORD_ONLY
        parameters = [
            Parameter(key, keyword, default=default, annotation=annotation)
            for key, (annotation, default) in declared.items()
        ]
        call.__name__, call.__doc__ = function.__name__, function.__doc__
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {key: annotation for key, (annotation, _) in declared.items()}
        app.command(name, cls=Command, epilog=examples.strip() or None, hidden=hidden)(call)
        return function

    return register


def choice(*values: str) -> Any:
    """Return the type of an option that takes one of *values*: typer refuses all others."""
    return Literal.__getitem__(values)


def option(
    *names: str,
    type_: Any = str,
    panel: str | None = None,
    metavar: str | None = None,
    refuse_blank: bool = True,
    **more: Any,
) -> Any:
    """Return the annotation of an option.

    Choices are its metavar. An empty value is refused, since it comes from an unset variable and
    would mean something else, unless *refuse_blank* is False.
    """
    if metavar is None:
        metavar = _list_choices(type_)
    if refuse_blank and metavar and "callback" not in more:
        more["callback"] = _blank_refuser(names[-1])
    return Annotated[type_, typer.Option(*names, metavar=metavar, rich_help_panel=panel, **more)]


def list_option(
    *names: str, choices: Collection[str] = (), paths: bool = False, **more: Any
) -> Any:
    """Return the annotation of an option that takes a list: `a,b`, or the option several times.

    Its values are among *choices*, if there are any. Of *paths*, one that exists with a comma in
    its name is taken whole.
    """
    flag = names[-1]

    def split(values: list[str]) -> list[str]:
        words: list[str] = []
        for value in values:
            whole = paths and os.path.exists(value)
            words += [value] if whole else [word.strip() for word in value.split(",")]
        for word in words:
            if not word:
                raise UsageError(BLANK.format(flag))
            if choices and word not in choices:
                raise UsageError(f"{flag} {word}: {near_misses(word, list(choices), 'values')}")
        return words

    return option(*names, type_=list[str], callback=split, **more)


def argument(type_: Any = str, metavar: str | None = None, **more: Any) -> Any:
    """Return the annotation of a positional argument."""
    return Annotated[type_, typer.Argument(metavar=metavar or _list_choices(type_), **more)]


def _list_choices(type_: Any) -> str | None:
    values = getattr(type_, "__args__", ())
    named = [value for value in values if isinstance(value, str)]
    for nested in values:
        named += [one for one in getattr(nested, "__args__", ()) if isinstance(one, str)]
    return f"[{'|'.join(named)}]" if len(named) > 1 else "".join(named) or None


def _blank_refuser(flag: str) -> Callable[[Any], Any]:
    def refuse(value: Any) -> Any:
        if value == "":
            raise UsageError(BLANK.format(flag))
        return value

    return refuse
