"""Payloads to stored text and back, over the years."""

from __future__ import annotations

import enum
from typing import Any

import msgspec
import pytest

from trialog.events import codec
from trialog.events.codec import (
    UPCASTERS,
    decode,
    decode_as,
    decode_known,
    decode_or_none,
    encode,
)
from trialog.events.envelope import RecordedEvent
from trialog.events.errors import EventInvalid, LogCorrupt, UnknownEvent
from trialog.events.kinds import (
    ActionTaken,
    JobCancelled,
    JobInterrupted,
    TrialScheduled,
    WarningRaised,
)
from trialog.events.kinds.parts import Slot
from trialog.events.payload import Payload
from trialog.events.values import storable, without_surrogates


def row(kind: str, data: str, *, schema: int = 1, ignorable: bool = False) -> RecordedEvent:
    """A stored event."""
    return RecordedEvent(
        position=41, stream="job/a", version=3, kind=kind, schema=schema, id="1",
        at="2026-01-01T00:00:00.000000Z", causation=None, ignorable=ignorable, data=data,
        hash=bytes(32),
    )  # fmt: skip


def test_fields_that_are_not_known_are_passed_over() -> None:
    """A later release may add optional fields; the stored text stays as it is."""
    event = row("JobCancelled", '{"kind":"JobCancelled","reason":"x","colour":{"a":[1]}}')

    assert JobCancelled(reason="x") == decode(event)
    assert "colour" in event.data


@pytest.mark.parametrize(("kind", "schema"), [("JobTeleported", 1), ("JobCancelled", 2)])
def test_an_unknown_kind_or_schema_is_named(kind: str, schema: int) -> None:
    """With its position; whether it may be passed over is the event's to say."""
    data = f'{{"kind":"{kind}"}}'
    with pytest.raises(
        UnknownEvent, match=f"position 41: .* kind '{kind}' with schema {schema}"
    ) as e:
        decode(row(kind, data, schema=schema))
    assert (kind, schema, 41) == (e.value.kind, e.value.schema, e.value.position)

    with pytest.raises(UnknownEvent):
        decode_or_none(row(kind, data, schema=schema))
    with pytest.raises(UnknownEvent):
        decode_as(row(kind, data, schema=schema), msgspec.defstruct("Nothing", []))
    assert None is decode_or_none(row(kind, data, schema=schema, ignorable=True))
    assert None is decode_known(row(kind, data, schema=schema))


def test_a_known_event_that_may_be_passed_over_is_decoded() -> None:
    """`ignorable` matters only to those who don't know the kind."""
    event = row("JobCancelled", '{"kind":"JobCancelled","reason":"x"}', ignorable=True)
    assert JobCancelled(reason="x") == decode_or_none(event)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"kind":"JobResumed","plan":{},"pid":1,"host":"h"}', "its data is a 'JobResumed'"),
        ('{"kind":"JobTeleported"}', "data is no JobCancelled"),
        ('{"reason":"x"}', "data is no JobCancelled"),
        ('{"kind":"JobCancelled","reason":5}', "data is no JobCancelled"),
        ('{"kind":"JobCancelled"', "data is no JobCancelled"),
        ("", "data is no JobCancelled"),
    ],
)
def test_data_that_is_not_what_the_row_says_is_damage(data: str, message: str) -> None:
    """The error names the place."""
    with pytest.raises(LogCorrupt, match=f"stream 'job/a' version 3: .*{message}"):
        decode(row("JobCancelled", data))


class Reason(msgspec.Struct):
    """What a fold may need of an event."""

    reason: str | None = None


def test_a_fold_may_decode_only_what_it_needs() -> None:
    """A shape of its own, with the fields that it reads."""
    event = row("JobCancelled", '{"kind":"JobCancelled","reason":"x","author":"me"}')
    assert Reason("x") == decode_as(event, Reason)

    with pytest.raises(LogCorrupt, match="version 3"):
        decode_as(row("JobCancelled", '{"kind":"JobCancelled","reason":5}'), Reason)


def test_data_that_is_nested_too_deeply_is_damage() -> None:
    """No writer of ours stores such a thing; whoever did, it ends no reader."""
    deep = '{"kind":"JobCancelled","reason":' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(LogCorrupt, match="version 3"):
        decode(row("JobCancelled", deep))
    with pytest.raises(LogCorrupt, match="version 3"):
        decode_as(row("JobCancelled", deep), Reason)
    with pytest.raises(LogCorrupt, match="version 3"):
        decode_as(row("JobCancelled", deep.replace("reason", "colour")), Reason)


# Old schemas: JobInterrupted as it might have been, twice.


@pytest.fixture
def third_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that is at schema 3. Schema 1 had `number`, schema 2 `signal`, 3 `running` too."""

    def named(fields: codec.Fields) -> codec.Fields:
        fields["signal"] = {2: "SIGINT"}[fields.pop("number")]
        return fields

    def counted(fields: codec.Fields) -> codec.Fields:
        return fields | {"running": 0}

    monkeypatch.setattr(JobInterrupted, "schema", 3)
    monkeypatch.setitem(UPCASTERS, ("JobInterrupted", 1), named)
    monkeypatch.setitem(UPCASTERS, ("JobInterrupted", 2), counted)


OLD = row("JobInterrupted", '{"kind":"JobInterrupted","number":2}')


def test_an_old_schema_can_not_be_read_as_it_is() -> None:
    """Without upcasters the old fields are damage."""
    with pytest.raises(LogCorrupt):
        decode(OLD)


@pytest.mark.usefixtures("third_schema")
def test_an_old_schema_is_upcast_one_step_at_a_time() -> None:
    """The stored text stays as it is."""
    new = JobInterrupted(signal="SIGINT", running=0)
    second = row("JobInterrupted", '{"kind":"JobInterrupted","signal":"SIGINT"}', schema=2)
    third = row("JobInterrupted", encode(new), schema=3)

    assert [new] * 3 == [decode(OLD), decode(second), decode(third)]
    assert '{"kind":"JobInterrupted","number":2}' == OLD.data


@pytest.mark.usefixtures("third_schema")
def test_a_shape_is_taken_after_the_upcast() -> None:
    """A fold need not know the old fields."""

    class Signal(msgspec.Struct):
        signal: str

    assert Signal("SIGINT") == decode_as(OLD, Signal)


@pytest.mark.usefixtures("third_schema")
def test_a_missing_upcaster_makes_the_event_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema that nothing lifts is not guessed at."""
    monkeypatch.delitem(UPCASTERS, ("JobInterrupted", 2))
    with pytest.raises(UnknownEvent, match="schema 1"):
        decode(OLD)


@pytest.mark.usefixtures("third_schema")
def test_an_upcast_that_does_not_fit_is_damage() -> None:
    """What comes out of the upcasters must be the kind."""
    with pytest.raises(LogCorrupt, match="data is no JobInterrupted"):
        decode(row("JobInterrupted", '{"kind":"JobInterrupted","signal":7}', schema=2))


# What can't be stored as it is


def test_lone_surrogates_become_marks_at_any_depth() -> None:
    """In fields, lists, keys and parts; everything else stays the same."""
    payload = ActionTaken(
        turn=1, app="a\ud800", action="act", arguments={"k\udcff": ["x\udfff", 1, None]},
        started_at="t", duration=0.5, observed_by="host",
    )  # fmt: skip

    assert ActionTaken(
        turn=1, app="a\ufffd", action="act", arguments={"k\ufffd": ["x\ufffd", 1, None]},
        started_at="t", duration=0.5, observed_by="host",
    ) == storable(payload) == decode(row("ActionTaken", encode(payload)))  # fmt: skip


def test_a_part_with_a_lone_surrogate_is_replaced() -> None:
    """Parts are structs inside of payloads."""
    payload = TrialScheduled(
        trial="t", slot=Slot(task="\ud800", agent="nop", attempt=1), execution=1
    )
    clean = storable(payload)
    assert isinstance(clean, TrialScheduled)
    assert "\ufffd" == clean.slot.task


def test_keys_that_differ_only_in_their_surrogates_stay_apart() -> None:
    """Nothing is lost when two keys become alike."""
    keys = ["\ud800", "\ud801", "\ufffd"]
    payload = ActionTaken(
        turn=1, app="a", action="act", arguments=dict.fromkeys(keys, 1),
        started_at="t", duration=0.5, observed_by="host",
    )  # fmt: skip
    clean = storable(payload)
    assert isinstance(clean, ActionTaken)
    assert ["\ufffd", "\ufffd\ufffd", "\ufffd\ufffd\ufffd"] == list(clean.arguments or {})


def test_what_is_storable_already_is_given_back() -> None:
    """Without a copy."""
    payload = WarningRaised(code="c", message="né\u2028")
    assert payload is storable(payload)


def test_the_raw_bytes_of_what_was_replaced_can_be_had() -> None:
    """For the blob beside: the bytes of a file's name, or of a broken pair."""
    assert ("a\ufffd", b"a\xff") == without_surrogates("a\udcff")
    assert ("a\ufffd", b"a\xed\xa0\x80") == without_surrogates("a\ud800")
    assert ("a", None) == without_surrogates("a")


class Colour(enum.Enum):
    """Something that JSON can hold but no payload has."""

    RED = "red"


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), {1: "a", (2,): "b"}, nested(100_000)],
    ids=["object", "keys", "deep"],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    """With the kind in the message."""
    payload = ActionTaken(
        turn=1, app="a", action="act", arguments=value, started_at="t", duration=0.5,
        observed_by="host",
    )  # fmt: skip
    with pytest.raises(EventInvalid, match="ActionTaken"):
        encode(payload)


def test_large_numbers_are_stored_as_they_are() -> None:
    """JSON has no largest integer."""
    payload = ActionTaken(
        turn=1, app="a", action="act", arguments=[2**64, -(2**70), 10**30], started_at="t",
        duration=0.5, observed_by="host",
    )  # fmt: skip
    assert payload == decode(row("ActionTaken", encode(payload)))


def test_a_class_that_is_no_kind_is_refused() -> None:
    """Also one that has a kind's name."""
    other: Any = type("JobCancelled", (Payload,), {"__annotations__": {"reason": str | None}},
                      frozen=True, kw_only=True)  # fmt: skip
    stranger: Any = type("Stranger", (Payload,), {}, frozen=True, kw_only=True)

    with pytest.raises(EventInvalid, match="not part of the format"):
        encode(other(reason="x"))
    with pytest.raises(EventInvalid, match="Stranger"):
        encode(stranger())
