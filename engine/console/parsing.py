"""Making typer's commands with no more than their words need.

Typer makes every command to run one, and reads each value by pydantic, which takes longer to import
than a small job to run. So one command is made, and plain values are taken as they are; what is
not plain goes typer's own way, its messages too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast, get_args, get_origin

import typer
import typer.main

__all__ = ("command_for",)

_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)


def command_for(app: typer.Typer, words: Sequence[str]) -> Any:
    """The command that an app is, less those of its commands that these words don't call."""
    chosen = app
    if words:
        commands = [one for one in app.registered_commands if _name(one) == words[0]]
        groups = [group for group in app.registered_groups if group.name == words[0]]
        if commands or groups:
            chosen = copy.copy(app)
            chosen.registered_commands = commands
            chosen.registered_groups = groups
    command = typer.main.get_command(chosen)
    _take_plain(command)
    return command


def _name(command: Any) -> str | None:
    function = getattr(command.callback, "__name__", "")
    return command.name or typer.main.get_command_name(function)


def _take_plain(command: Any) -> None:
    """Have each parameter read plain values; one that this typer has otherwise stays as it is."""
    for parameter in command.params:
        _make_plain(parameter)
    own_help = command.get_help_option

    def get_help_option(context: Any) -> Any:
        return _make_plain(own_help(context))

    command.get_help_option = get_help_option
    for below in getattr(command, "commands", {}).values():
        _take_plain(below)


def _make_plain(parameter: Any) -> Any:
    if getattr(parameter, "_runtime_param", parameter) is None:
        parameter._runtime_param = _Plain()
    return parameter


_SLOW = object()
"""Not a plain value."""


class _Plain:
    """Stands for typer's own reader of a parameter's values, which is made for one not plain."""

    def __init__(self) -> None:
        self._typers: Any = None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """A value as the command's function takes it."""
        described = param.type_descriptor
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        read = _SLOW
        if described.file_annotation is None:
            read = _read(value, described.annotation, described.parameter_info)
        if read is _SLOW:
            return self._own(param).coerce(value, param=param, ctx=ctx)
        return read

    def _own(self, param: Any) -> Any:
        if self._typers is None:
            param._runtime_param = None
            self._typers = param.get_runtime_param()
            param._runtime_param = self
        return self._typers


def _read(value: Any, wanted: Any, info: Any) -> Any:
    if get_origin(wanted) is list:
        if not isinstance(value, list | tuple):
            return _SLOW
        items: list[Any] = [_read(item, get_args(wanted)[0], info) for item in cast("Any", value)]
        return _SLOW if any(item is _SLOW for item in items) else items
    if not isinstance(value, str):
        number = wanted in (int, float) and type(value) is wanted
        return value if number and _within(value, info) else _SLOW
    if not (value.isascii() and value.isprintable()) or info.parser is not None:
        return _SLOW
    if wanted is str:
        return value
    if wanted is int and _INTEGER.fullmatch(value):
        return int(value) if _within(int(value), info) else _SLOW
    if wanted is float and _NUMBER.fullmatch(value):
        return float(value) if _within(float(value), info) else _SLOW
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return next((one for one in wanted if one.value == value), _SLOW)
    return _SLOW


def _within(number: float, info: Any) -> bool:
    return (info.min is None or info.min <= number) and (info.max is None or number <= info.max)
