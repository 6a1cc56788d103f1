"""Reading reward.json strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.verifier.document import MAX_DEPTH, Document, Fault, read_document


def fault(data: str | bytes) -> str:
    """What is wrong with a document that must have something wrong."""
    raw = data.encode() if isinstance(data, str) else data
    found = read_document(raw, "reward.json")
    assert isinstance(found, Fault), found
    return found.reason


def document(data: str | bytes) -> Document:
    """The entries of a document that must be well-formed."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    found = read_document(raw, "reward.json")
    assert isinstance(found, Document), found
    return found


def test_numbers_and_others_are_apart() -> None:
    """Numbers keep their text; every other value is kept as it is."""
    found = document(
        '{"reward": 1.50, "n": -2, "note": "x", "ok": true, "no": null, "l": [1, 2.5]}'
    )
    assert {k: n.literal for k, n in found.numbers.items()} == {"reward": "1.50", "n": "-2"}
    assert found.others == {"note": "x", "ok": True, "no": None, "l": [1, 2.5]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "reward.json is not JSON: Expecting value (line 1, column 1)"),
        ("{", "reward.json is not JSON"),
        ("{}}", "reward.json is not JSON: Extra data"),
        ("[1]", "reward.json is not a JSON object but a list"),
        ("1", "reward.json is not a JSON object but the number 1"),
        ('"1"', "reward.json is not a JSON object but a text"),
        ("null", "reward.json is not a JSON object but null"),
        ("true", "reward.json is not a JSON object but true"),
        ("NaN", "reward.json is not a JSON object but NaN"),
        ('{"reward": .5}', "reward.json is not JSON"),
        ('{"reward": +1}', "reward.json is not JSON"),
        ('{"reward": 01}', "reward.json is not JSON"),
        ('{"reward": 1_0}', "reward.json is not JSON"),
        ('{"reward": १}', "reward.json is not JSON"),
        ("{'reward': 1}", "reward.json is not JSON"),
        ('{"reward": 1,}', "reward.json is not JSON"),
        ('{"reward": 1} // yes', "reward.json is not JSON"),
        ('{"a": 1, "a": 2}', "reward.json has the key 'a' twice"),
        ('{"o": {"a": 1, "a": 1}}', "reward.json has the key 'a' twice"),
        ('{"\\ud800": 1, "\\ud801": 1}', "reward.json has the key '\ufffd' twice"),
        ('{"a": NaN}', "a in reward.json is NaN, which is not a finite number"),
        ('{"a": -Infinity}', "a in reward.json is -Infinity, which is not a finite number"),
        ('{"a": [{"b": Infinity}]}', "a in reward.json has Infinity in it, which is not JSON"),
    ],
)
def test_faults_name_file_and_place(text: str, reason: str) -> None:
    """What is no strict JSON object is refused with a sentence that names file, key and value."""
    assert fault(text).startswith(reason)


def test_bytes_that_are_not_utf8() -> None:
    """Bytes that are no UTF-8 are refused, with their place."""
    assert fault(b'{"a": "\xff"}') == "reward.json is not UTF-8 (byte 7)"


def test_byte_order_mark_and_blanks() -> None:
    """A leading byte-order mark, CRLF and blanks around do no harm; a second mark does."""
    assert document(b'\xef\xbb\xbf \r\n{"a": 1}\r\n\t ').numbers["a"].value == 1.0
    assert fault(b'\xef\xbb\xbf\xef\xbb\xbf{"a": 1}').startswith("reward.json is not JSON")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 5_000, 300_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting(depth: int, opening: str) -> None:
    """Nesting beyond the limit is refused, however deep it is, and never raises."""
    closing = "]" if opening == "[" else "}"
    inner = "1" if opening != "[" else ""
    text = '{"x": ' + opening * depth + inner + closing * depth + "}"
    assert fault(text) == f"reward.json is nested more than {MAX_DEPTH} deep"


def test_nesting_up_to_the_limit() -> None:
    """Nesting within the limit is kept."""
    text = '{"x": ' + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "}"
    assert "x" in document(text).others


def test_large_integers() -> None:
    """Integers of any length are read; what no double holds is infinite, and nothing raises."""
    details = f"[{2**63}, 123456789012345678901, 1e400, {10**20 - 1}]"
    found = document(f'{{"a": {10**400}, "d": {details}}}')
    assert found.numbers["a"].value == float("inf")
    assert found.others["d"] == [2**63, 123456789012345678901.0, "1e400", 1e20]
    assert document('{"a": 1%s}' % ("0" * 100_000)).numbers["a"].value == float("inf")


def test_text_that_is_not_unicode() -> None:
    """Lone surrogates in texts and keys become U+FFFD, so that every file can hold them."""
    found = document('{"\\ud800": 0.5, "note": ["\\udfff ok"], "pair": "\\ud83d\\ude00"}')
    assert list(found.numbers) == ["\ufffd"]
    assert found.others == {"note": ["\ufffd ok"], "pair": "😀"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(st.dictionaries(st.text(), json_values, max_size=6))
def test_every_json_object_is_read(items: dict[str, Any]) -> None:
    """What a JSON writer wrote is read back: numbers by value, the rest as it was."""
    found = document(json.dumps(items, ensure_ascii=False))
    numbers = {k: v for k, v in items.items() if type(v) in (int, float)}
    assert {k: n.value for k, n in found.numbers.items()} == {
        k: float(v) for k, v in numbers.items()
    }
    assert list(found.others) == [k for k in items if k not in numbers]


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ud8NaInfity01eE+-. \n', max_size=40))
def test_never_an_exception(data: bytes | str) -> None:
    """Any bytes give a document or a fault."""
    raw = data.encode() if isinstance(data, str) else data
    found = read_document(raw, "reward.json")
    assert isinstance(found, Document | Fault)
    if isinstance(found, Document):
        json.dumps(
            [found.others, list(found.numbers)], allow_nan=False, ensure_ascii=False
        ).encode()
