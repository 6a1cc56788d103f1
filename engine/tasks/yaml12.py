"""YAML as its version 1.2 reads plain words, and with duplicate keys refused.

PyYAML's own rules turn ``no`` into false, ``12:30`` into 750, ``012`` into 10 and a date into an
object; here they are text (but for 012, which is 12). Numbers and true/false are what they are in
JSON.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, NamedTuple

import yaml

from .words import Word, YamlError

_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_WORD = "!word"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
        for key_node, _ in pairs:
            if key_node.tag == _MERGE:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a key must be a plain word", problem_mark=key_node.start_mark
                )
            key = key_node.value
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    return int(text, 0 if text[:2] in ("0x", "0o") else 10)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _word(loader: _Loader, node: yaml.ScalarNode) -> Word:
    return Word(loader.construct_scalar(node))


for _tag, _pattern, _first in (
    (_BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (_INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        _FLOAT,
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
    (_NULL, r"~|null|Null|NULL|", "~nN\0"),
    (_MERGE, r"<<", "<"),
    (_WORD, r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF", "yYnNoO"),
):
    _Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]  (its stub is untyped)
        _tag, re.compile(f"^(?:{_pattern})$"), [c if c != "\0" else "" for c in _first]
    )
_Loader.add_constructor(_INT, _int)
_Loader.add_constructor(_FLOAT, _float)
_Loader.add_constructor(_WORD, _word)


class YamlText(NamedTuple):
    """A YAML document's value, and where its parts are written."""

    value: Any
    node: yaml.Node | None

    def line(self, *path: str | int) -> int:
        """The line, from 1, of the key or item at a path; of the nearest part around it that is
        written there."""
        node = self.node
        line = 1 if node is None else node.start_mark.line + 1
        for step in path:
            if isinstance(node, yaml.MappingNode):
                pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
                found = next((pair for pair in pairs if pair[0].value == step), None)
                if found is None:
                    return line
                line, node = found[0].start_mark.line + 1, found[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                items: list[yaml.Node] = node.value
                if step >= len(items):
                    return line
                node = items[step]
                line = node.start_mark.line + 1
            else:
                return line
        return line


def load_yaml(text: str) -> Any:
    """The value of a YAML document. Raises YamlError with the line."""
    return read_yaml(text).value


def read_yaml(text: str) -> YamlText:
    """A YAML document with its lines. Raises YamlError with the line."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return YamlText(None, None)
            value: Any = loader.construct_document(  # pyright: ignore[reportUnknownMemberType]  (its stub is untyped)
                node
            )
            return YamlText(value, node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "no YAML"
        raise YamlError(reason, mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"the character U+{error.character:04X} is not allowed", line) from None
    except RecursionError:
        raise YamlError("nested too deeply", None) from None
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        # What PyYAML's constructors raise for an explicit tag on a value of another type.
        raise YamlError(f"a tag that does not fit its value: {error}", None) from None
