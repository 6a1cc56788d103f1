"""Values inside payloads: references, escaped data, text that may not be Unicode."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.events.values import (
    INLINE_LIMIT,
    BlobRef,
    as_blob_ref,
    blob_ref,
    escape,
    json_bytes,
    unescape,
    valid_text,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["$blob", "$$blob", "$", "size", "a"]), inner, max_size=4)
    ),
    max_leaves=10,
)


def test_a_reference_names_bytes_by_hash_and_length() -> None:
    """In JSON it is an object with `$blob` and `size`."""
    ref = blob_ref(b"abc")
    assert BlobRef(blob=f"sha256:{hashlib.sha256(b'abc').hexdigest()}", size=3) == ref
    assert {"$blob": ref.blob, "size": 3} == msgspec.to_builtins(ref)
    assert ref == as_blob_ref(ref) == as_blob_ref(msgspec.to_builtins(ref))


@pytest.mark.parametrize("value", [None, "sha256:", [], {}, {"size": 3}, {"$blob": "x"},
                                   {"$blob": "x", "size": 3, "more": 1}])  # fmt: skip
def test_what_is_no_reference(value: Any) -> None:
    """A user's own value."""
    assert as_blob_ref(value) is None


def test_a_users_own_reference_can_not_be_forged() -> None:
    """His keys that begin with `$` get one more; so what looks like a reference is none."""
    forged = {"$blob": "sha256:" + "0" * 64, "size": 3}
    assert as_blob_ref(forged) is not None

    stored = escape({"deep": [forged, (forged,)]})

    assert as_blob_ref(stored["deep"][0]) is None
    assert {"$$blob": forged["$blob"], "size": 3} == stored["deep"][0] == stored["deep"][1][0]
    assert {"deep": [forged, [forged]]} == unescape(stored)


@given(JSON)
def test_escaping_is_undone(value: Any) -> None:
    """Whatever a user's value is; and no escaped value is a reference."""
    stored = escape(value)
    assert value == unescape(stored)
    assert as_blob_ref(stored) is None


def test_references_pass_through_unescaping() -> None:
    """They are the engine's, not the user's."""
    ref = msgspec.to_builtins(blob_ref(b""))
    assert ref == unescape(ref)


def test_json_of_text_that_is_no_unicode() -> None:
    """It has U+FFFD for lone surrogates; what is no JSON data is still refused."""
    assert b'{"a\xef\xbf\xbd":["\xef\xbf\xbd",1]}' == json_bytes({"a\udcff": ("\ud800", 1)})
    with pytest.raises(TypeError):
        json_bytes(["\ud800", object()])


def test_what_an_event_holds_itself() -> None:
    """Values and texts of up to 16 KiB; the number is part of the format."""
    assert 16_384 == INLINE_LIMIT


def test_bytes_as_text() -> None:
    """What is not UTF-8 is marked."""
    assert ("é", False) == valid_text("é".encode())
    assert ("a\ufffdb", True) == valid_text(b"a\xffb")
