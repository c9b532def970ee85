"""Groups of options: a data class is a group of a command's options, and a heading in its help.

A command declares its options by annotating parameters with such classes; the command line sees their fields.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

HEADING = "Options"

LAST = "More options"
"""The heading of rarely used options."""


class GroupedCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups (`rich_help_panel`)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or HEADING, []).append(record)
        for heading, records in sorted(groups.items(), key=lambda group: group[0] == LAST):
            with formatter.section(heading):
                formatter.write_dl(records)


def with_groups(*more: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a command: each parameter that is annotated with a data class is replaced by the fields of that class.

    Fields of the classes `more` come after them, and instances of these are the command's argument `groups`. A class
    may have a `HEADING`, under which the help lists its fields, and name those that belong under the last one
    (`LAST`)."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        named: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name in named:
                parameters += _parameters(named[parameter.name])
            elif parameter.name != "groups":
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
        for group in more:
            parameters += _parameters(group)

        @functools.wraps(command)
        def flat(**given: Any) -> Any:
            for name, group in named.items():
                given[name] = _made(group, given)
            groups = tuple(_made(group, given) for group in more)
            return command(**given, **({"groups": groups} if more else {}))

        flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return flat

    return decorated


def _made(group: Any, given: dict[str, Any]) -> Any:
    return group(**{field.name: given.pop(field.name) for field in fields(group)})


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    found = []
    for field in fields(group):
        kind, option = hints[field.name].__origin__, copy(hints[field.name].__metadata__[0])
        last = field.name in getattr(group, "LAST", ())
        option.rich_help_panel = LAST if last else getattr(group, "HEADING", HEADING)
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        found.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
            )
        )
    return found


def given(context: typer.Context, group: object) -> list[str]:
    """The options of a group that the user gave, as written on the command line."""
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in {field.name for field in fields(group)}  # type: ignore[arg-type]
        and (source := context.get_parameter_source(parameter.name)) is not None
        and source.name == "COMMANDLINE"
    ]
