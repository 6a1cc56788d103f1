"""OTLP in JSON, as OpenTelemetry's file exporter writes it: ids in hex, times in nanoseconds as
text, kinds and codes of status as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from ....events.clock import parse_time

INTERNAL, CLIENT = 1, 3
"""Kinds of spans."""
ERROR = 2
"""Code of a status."""

Plain: TypeAlias = str | bool | int | float | None
Part: TypeAlias = Literal["", "build", "install"]
"""Which of the spans that one event tells of."""
Value: TypeAlias = dict[str, str | bool | float]


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """A named value."""

    key: str
    value: Value


class SpanEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something at one moment of a span."""

    time_unix_nano: str
    name: str
    attributes: list[Attribute]


class Status(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a span ended."""

    code: int = 0
    message: str = ""


class Span(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """One span; built up while the events are read."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str
    kind: int
    start_time_unix_nano: str
    end_time_unix_nano: str
    attributes: list[Attribute]
    events: list[SpanEvent]
    status: Status


class Scope(msgspec.Struct, frozen=True):
    """What made the spans."""

    name: str


class ScopeSpans(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Spans of one maker."""

    scope: Scope
    spans: list[Span]


class Resource(msgspec.Struct, frozen=True):
    """Where the spans come from."""

    attributes: list[Attribute]


class ResourceSpans(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Spans of one resource."""

    resource: Resource
    scope_spans: list[ScopeSpans]


class TracesData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the file."""

    resource_spans: list[ResourceSpans]


def trace_id(event_id: str) -> str:
    """32 hex digits, made of the id of the event that a trial begins with."""
    return sha256(event_id.encode()).hexdigest()[:32]


def span_id(event_id: str, part: Part = "") -> str:
    """16 hex digits, made of the id of the event that a span is made of."""
    return sha256(f"{event_id}{part}".encode()).hexdigest()[:16]


def attributes(values: Mapping[str, Plain]) -> list[Attribute]:
    """Those that have a value."""
    return [Attribute(key, _value(value)) for key, value in values.items() if value is not None]


def _value(value: str | bool | float) -> Value:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": value}


def nanoseconds(at: str, *, less: float = 0.0) -> int:
    """A stored time, so many seconds earlier, since 1970."""
    return (parse_time(at) - round(less * 1_000_000)) * 1000
