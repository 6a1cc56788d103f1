"""Secrets never reach a log, a blob or a console."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.redact import Redactor
from trialog.engine.redacting_log import RedactingLog, redacting
from trialog.engine.stored import store_json
from trialog.events.envelope import NewEvent
from trialog.events.kinds import AgentFinished, WarningRaised
from trialog.events.memory import MemoryLog
from trialog.events.values import BlobRef

SECRET = 'p4ss/"wörd"\nnext\\line'


def streamed(redactor: Redactor, data: bytes, borders: Sequence[int]) -> bytes:
    """Redact in pieces cut at these places."""
    stream = redactor.stream()
    out = b""
    last = 0
    for border in sorted(min(b, len(data)) for b in borders):
        out += stream.feed(data[last:border])
        last = border
    return out + stream.feed(data[last:]) + stream.finish()


def naive(secrets: dict[str, bytes], data: bytes) -> bytes:
    """Every byte that any secret covers goes; stretches that overlap are one."""
    spans = sorted(
        (at, -len(value), name)
        for name, value in secrets.items()
        for at in range(len(data))
        if data.startswith(value, at)
    )
    out = b""
    end = 0
    written: set[str] = set()
    for at, negative, name in spans:
        if at >= end:
            out += data[end:at]
            written = set()
        if at - negative > end:
            if name not in written:
                out += b"[redacted:%s]" % name.encode()
                written.add(name)
            end = at - negative
    return out + data[end:]


@given(
    st.lists(st.text("ab", min_size=8, max_size=12), unique=True, min_size=1, max_size=4),
    st.text("abc", max_size=80),
    st.lists(st.integers(0, 80), max_size=8),
)
def test_as_a_naive_model(values: list[str], text: str, borders: list[int]) -> None:
    """Whatever the secrets, overlaps and chunk borders: as if all had come at once."""
    names = {f"N{index}": value for index, value in enumerate(values)}
    redactor = Redactor(names)
    wanted = naive({name: value.encode() for name, value in names.items()}, text.encode())
    assert redactor.redact(text.encode()) == wanted
    assert redactor.text(text) == wanted.decode()
    assert streamed(redactor, text.encode(), borders) == wanted


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(1, 30))
def test_across_chunk_borders(noise: bytes, place: int, step: int) -> None:
    """A secret that chunks cut anywhere is found, and nothing else is changed."""
    secret = b"tok-" + b"0123456789"
    noise = noise.replace(b"tok-", b"")
    data = noise[:place] + secret + noise[place:]
    redactor = Redactor({"T": secret.decode()})
    assert secret in data
    wanted = data.replace(secret, b"[redacted:T]")
    assert streamed(redactor, data, range(0, len(data), step)) == wanted


def test_holds_back_little() -> None:
    """Only an end that may be a secret's beginning is held back, always less than a whole one."""
    stream = Redactor({"T": "abcdefghij"}).stream()
    assert stream.feed(b"hello abc") == b"hello "
    assert stream.feed(b"d") == b""
    assert stream.feed(b"x") == b"abcdx"
    assert stream.feed(b"abcdefghi") == b""
    assert stream.feed(b"j!") == b"[redacted:T]!"
    assert stream.feed(b"abc") == b""
    assert stream.finish() == b"abc"


def test_longest_first_and_overlaps() -> None:
    """The longest secret wins; of secrets that overlap, no byte of either stays."""
    redactor = Redactor({"SHORT": "abcdefgh", "LONG": "abcdefghijkl", "NEXT": "ijklmnop"})
    assert redactor.text("abcdefghijkl abcdefgh") == "[redacted:LONG] [redacted:SHORT]"
    assert redactor.text("-abcdefghijklmnop-") == "-[redacted:LONG][redacted:NEXT]-"


def test_short_values() -> None:
    """A value under eight characters is not redacted, and its name is told."""
    redactor = Redactor({"PIN": "1234567", "OK": "12345678", "NONE": ""})
    assert redactor.too_short == ["PIN"]
    assert redactor.text("1234567 and 12345678") == "1234567 and [redacted:OK]"
    assert Redactor({"PIN": "1234567"}).empty


@pytest.mark.parametrize(
    "quoted",
    [
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps(SECRET).replace("/", "\\/"),
        msgspec.json.encode(SECRET).decode(),
    ],
)
def test_json_forms(quoted: str) -> None:
    """Text that quotes a secret as JSON would is caught, however the JSON was written."""
    assert SECRET not in quoted
    assert json.loads(quoted) == SECRET
    assert Redactor({"P": SECRET}).text(f"x={quoted}") == 'x="[redacted:P]"'


QUOTED = json.dumps({"arguments": json.dumps({"key": SECRET})})
"""A secret in JSON that JSON quotes, as a model's call of a tool is written."""


def test_json_within_json() -> None:
    """A secret in JSON that is quoted by JSON is caught, in a text and in pieces of it."""
    redactor = Redactor({"P": SECRET})
    data = QUOTED.encode()
    assert SECRET == json.loads(json.loads(data)["arguments"])["key"]
    assert {"key": "[redacted:P]"} == json.loads(json.loads(redactor.redact(data))["arguments"])
    assert redactor.redact(data) == streamed(redactor, data, range(0, len(data), 7))


@pytest.mark.parametrize("size", [1, 20_000])
async def test_what_is_stored_quotes_once_more(size: int) -> None:
    """The same text as a value of an event, and as a blob where it is large."""
    log = MemoryLog()
    wrapped = redacting(log, Redactor({"P": SECRET}))
    stored = await store_json([QUOTED, "x" * size], wrapped.blobs)
    if isinstance(stored, BlobRef):
        stored = json.loads(await log.blobs.get(stored))
    else:
        warning = WarningRaised(code="x", message=stored[0])
        await wrapped.append("trial/t", 0, [event(warning)])
        stored = [json.loads((await log.read("trial/t"))[0].data)["message"]]
    assert {"key": "[redacted:P]"} == json.loads(json.loads(stored[0])["arguments"])


def test_values() -> None:
    """A JSON value's strings and keys lose secrets at any depth, quoted ones too."""
    value = {"plain": SECRET, "inner": [json.dumps([SECRET])], SECRET: 1, "n": [1.5, None, True]}
    assert Redactor({"P": SECRET}).value(value) == {
        "plain": "[redacted:P]",
        "inner": ['["[redacted:P]"]'],
        "[redacted:P]": 1,
        "n": [1.5, None, True],
    }


@given(st.text(), st.text(min_size=8))
def test_json_round_trip(before: str, secret: str) -> None:
    """No JSON text holds a secret afterwards, whatever characters it is made of."""
    found = Redactor({"X": secret}).stored(json.dumps([before + secret]).encode())
    assert secret not in json.loads(found)[0] or secret in "[redacted:X]"


def event(payload: AgentFinished | WarningRaised) -> NewEvent:
    """An event with this payload."""
    at = "2026-01-01T00:00:00.000000Z"
    return NewEvent(id="0190a000-0000-7000-8000-000000000001", at=at, payload=payload)


def another(number: int, message: str) -> NewEvent:
    """A warning's event with an id of its own."""
    return msgspec.structs.replace(
        event(WarningRaised(code="x", message=message)), id=f"01900000-0000-7000-8000-{number:012}"
    )


async def test_events_are_redacted() -> None:
    """A payload's free texts are redacted before they reach the log; its fixed words are not."""
    log = MemoryLog()
    warning = WarningRaised(code="x", message=f"found {SECRET} here", path="done-done")
    assert SECRET in warning.message
    wrapped = redacting(log, Redactor({"P": SECRET, "WORD": "done-done"}))
    await wrapped.append("trial/t", 0, [event(warning)])
    (recorded,) = await wrapped.read("trial/t")
    assert json.loads(recorded.data)["message"] == "found [redacted:P] here"
    assert json.loads(recorded.data)["path"] == "[redacted:WORD]"
    assert json.loads(recorded.data)["kind"] == "WarningRaised"


async def test_an_event_that_is_no_unicode() -> None:
    """Its secrets are found all the same, beside lone surrogates."""
    log = MemoryLog()
    wrapped = redacting(log, Redactor({"P": "12345678"}))
    for version, message in enumerate(["\ud800", "\ud800 12345678 \udcff"]):
        await wrapped.append("trial/t", version, [another(version, message)])
    told = [json.loads(recorded.data)["message"] for recorded in await log.read("trial/t")]
    assert told == ["\ufffd", "\ufffd [redacted:P] \ufffd"]


async def test_fixed_words_stay() -> None:
    """A secret that is one of the format's own words does not break an event."""
    log = MemoryLog()
    wrapped = redacting(log, Redactor({"ODD": "agent_timeout"}))
    finished = AgentFinished(ended_by="agent_timeout", duration=1.0)
    await wrapped.append("trial/t", 0, [event(finished)])
    (recorded,) = await wrapped.read("trial/t")
    assert json.loads(recorded.data)["ended_by"] == "agent_timeout"


async def test_blobs(tmp_path: Path) -> None:
    """Bytes that are put lose secrets; files and written blobs keep theirs, so digests hold."""
    log = MemoryLog()
    wrapped = redacting(log, Redactor({"P": "12345678"}))
    ref = await wrapped.blobs.put(b"my 12345678!")
    assert await log.blobs.get(ref) == b"my [redacted:P]!"
    (tmp_path / "workspace").write_bytes(b"my 12345678!")
    ref = await wrapped.blobs.put_file(tmp_path / "workspace")
    assert await wrapped.blobs.get(ref) == b"my 12345678!"
    async with wrapped.blobs.writer() as writer:
        await writer.write(b"12345678")
        ref = await writer.commit()
    assert await wrapped.blobs.has(ref)
    assert await wrapped.blobs.get(ref) == b"12345678"


def test_no_secrets_no_cost() -> None:
    """Without secrets the log is not even wrapped."""
    log = MemoryLog()
    assert redacting(log, Redactor({"PIN": "1234"})) is log
    assert isinstance(redacting(log, Redactor({"P": "12345678"})), RedactingLog)


async def test_the_rest_is_the_logs(tmp_path: Path) -> None:
    """Reads, heads, streams and positions are the log's own."""
    log = MemoryLog()
    wrapped = redacting(log, Redactor({"P": "12345678"}))
    ticket: Awaitable[object] = wrapped.append(
        "trial/t", 0, [event(WarningRaised(code="x", message="m"))]
    )
    await ticket
    assert wrapped.log_id == log.log_id
    assert await wrapped.head("trial/t") == await log.head("trial/t")
    assert await wrapped.streams() == ["trial/t"]
    assert await wrapped.last_position() == 1
    assert [len(batch) async for batch in wrapped.read_all()] == [1]
    async for batch in wrapped.subscribe():
        assert batch[0].stream == "trial/t"
        break
    await wrapped.aclose()
