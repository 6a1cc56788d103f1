"""The values of a settings file, before anything is made of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..errors import TaskError
from .document import split_document
from .plain import TooMuch, plain
from .reader import describe
from .words import YamlError


def raw_settings(text: str, file: Path) -> dict[str, Any]:
    """The values of a settings file by its text: of a document the front matter, else TOML.

    Raises TaskError for what can't be read.
    """
    if file.suffix != ".md":
        try:
            return _table(tomllib.loads(text), file)
        except RecursionError:
            raise TaskError("no valid TOML: nested too deeply", file=file) from None
        except tomllib.TOMLDecodeError as error:
            raise TaskError(f"no valid TOML: {error}", file=file) from None
        except ValueError:  # of int(), whose advice is for programmers
            raise TaskError("no valid TOML: a number of thousands of digits", file=file) from None
    document = split_document(text)
    if not document.closed:
        raise TaskError(
            "the settings at its top are not ended by a line of three dashes", file=file
        )
    from .yaml12 import load_yaml  # slow to import, and not every layout has YAML

    try:
        return _table(load_yaml(document.front_matter or ""), file, words=True)
    except YamlError as error:
        place = f"line {error.line + 1}: " if error.line is not None else ""
        raise TaskError(f"{place}no valid YAML: {error}", file=file) from None


def _table(values: Any, file: Path, *, words: bool = False) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise TaskError(f"expected settings as a table, found {describe(values)}", file=file)
    try:
        table: dict[str, Any] = plain(values, words=words)
    except TooMuch as error:
        raise TaskError(f"no settings that can be used: {error}", file=file) from None
    return table
