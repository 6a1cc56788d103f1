"""Values inside payloads: blob references, escaped user data, text that may not be Unicode.

A blob reference is the JSON object ``{"$blob": "sha256:…", "size": n}``. So that data of a user's
own can't forge one, each key of his that begins with ``$`` is stored with one ``$`` more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

Json: TypeAlias = Any
"""A JSON value of a user's, escaped; or a blob reference in its place."""

INLINE_LIMIT = 16 * 1024
"""Bytes of encoded JSON or text that an event holds itself; larger values become blobs."""


Value = TypeVar("Value")

_encoder = msgspec.json.Encoder()


class BlobRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The name of a blob: its SHA-256 and its length in bytes."""

    blob: str = msgspec.field(name="$blob")
    size: int


Text: TypeAlias = str | BlobRef
"""Text, or the blob that holds it (UTF-8) when it is over INLINE_LIMIT."""


def blob_ref(data: bytes) -> BlobRef:
    """The reference that names these bytes."""
    return BlobRef(blob=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))


_CONTAINERS = frozenset({dict, list})


def escape(value: Json) -> Json:
    """A user's JSON value with every ``$…`` key of his escaped, at any depth."""
    match value:
        case dict():
            items = cast("dict[str, Json]", value)
            return {f"${k}" if k.startswith("$") else k: escape(v) for k, v in items.items()}
        case list() | tuple():
            return [escape(item) for item in cast("Sequence[Json]", value)]
        case _:
            return value


def unescape(value: Json) -> Json:
    """The inverse of `escape`; blob references stay as they are. Containers are new ones."""
    # Matching classes takes twice as long, and every state of every step comes by here.
    if isinstance(value, dict):
        items = cast("dict[str, Json]", value)
        return {
            (name[1:] if name[:2] == "$$" else name): (
                unescape(item) if type(item) in _CONTAINERS else item
            )
            for name, item in items.items()
        }
    if isinstance(value, list):
        return [
            unescape(item) if type(item) in _CONTAINERS else item
            for item in cast("Sequence[Json]", value)
        ]
    return value


def as_blob_ref(value: Json) -> BlobRef | None:
    """The reference that a stored value is, or None when it is a user's own value."""
    if isinstance(value, BlobRef):
        return value
    if isinstance(value, dict):
        items = cast("dict[str, Json]", value)
        if items.keys() == {"$blob", "size"}:
            return msgspec.convert(items, BlobRef)
    return None


def storable(value: Any) -> Any:
    """A JSON value or payload with U+FFFD for each lone surrogate, at any depth; itself when it
    has none.

    The raw bytes are the caller's to keep, as a blob, where there is a place for them.
    """
    match value:
        case str():
            return without_surrogates(value)[0]
        case dict():
            cleaned: dict[Any, Any] = {}
            for key, item in cast("dict[str, Any]", value).items():
                name = storable(key)
                while name in cleaned:  # two keys that differ only in what can't be stored
                    name += "\ufffd"
                cleaned[name] = storable(item)
            return cleaned
        case list() | tuple():
            return [storable(item) for item in cast("Sequence[Any]", value)]
        case msgspec.Struct():
            names = value.__struct_fields__
            before = [getattr(value, name) for name in names]
            after = [storable(item) for item in before]
            changed = {n: a for n, b, a in zip(names, before, after, strict=True) if a != b}
            return msgspec.structs.replace(value, **changed) if changed else value
        case _:
            return value


def as_json(value: Value) -> tuple[Value, bytes]:
    """A value or struct, and its JSON; with U+FFFD for what UTF-8 can't hold, see `storable`.

    Raises TypeError, ValueError, OverflowError or RecursionError for what is no JSON data.
    """
    try:
        return value, _encoder.encode(value)
    except UnicodeEncodeError:
        value = storable(value)
        return value, _encoder.encode(value)


def json_bytes(value: Any) -> bytes:
    """The JSON of a value or struct; see `as_json`."""
    return as_json(value)[1]


def valid_text(data: bytes) -> tuple[str, bool]:
    """Bytes as text, with U+FFFD for what is not UTF-8; and whether anything was replaced."""
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), True


def without_surrogates(text: str) -> tuple[str, bytes | None]:
    """Text that UTF-8 can hold; and the raw bytes beside it when it could not as it was."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
        try:  # names of files carry undecodable bytes as lone low surrogates
            raw = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            pass
        clean = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
        return clean, raw
    return text, None
