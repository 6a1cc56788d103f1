"""Writing manifests, so that they read back as exactly what was written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..tasks.plain import plain
from ..tasks.yaml12 import load_yaml

_ESCAPE = re.compile(r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|.)")


class NotStored(ValueError):
    """A value that a manifest can't hold as it is."""


def manifest_text(values: Mapping[str, Any]) -> str:
    """A manifest's text: a line a key, values as JSON, which YAML contains; nulls are left out.

    Raises NotStored for a value that would not come back as it was.
    """
    given = {name: value for name, value in values.items() if value is not None}
    text = "".join(f"{name}: {_json(value)}\n" for name, value in given.items())
    try:
        back: object = plain(load_yaml(text)) or {}
    except ValueError as error:
        raise NotStored(str(error)) from None
    # As texts, since 1, 1.0 and true are equal.
    if repr(back) != repr(given):
        raise NotStored("it would not read back as it is")
    return text


def _json(value: Any) -> str:
    """JSON as YAML reads it: whole characters beyond the first plane, and no bare DEL."""
    return _ESCAPE.sub(_whole, json.dumps(value)).replace("\x7f", "\\u007f")


def _whole(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    pair = bytes.fromhex(escape[1] + escape[2]).decode("utf-16-be")
    return f"\\U{ord(pair):08x}"
