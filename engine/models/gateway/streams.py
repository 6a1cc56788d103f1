"""Answers that come in pieces: told apart into events, and put together again. Pure.

What an event holds is what the endpoint would have answered in one piece.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from .loose import as_list, as_object, as_text, objects_in
from .routes import Form, error_in

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")
_LONGEST_END = 4


class EventReader:
    """Tells the events of a stream apart, each with its bytes as they came."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The events that these bytes complete."""
        start = max(0, len(self._held) - _LONGEST_END + 1)
        self._held += data
        found: list[bytes] = []
        begun = 0
        while (end := _END.search(self._held, max(start, begun))) is not None:
            found.append(bytes(self._held[begun : end.end()]))
            begun = end.end()
        del self._held[:begun]
        return found

    def rest(self) -> bytes:
        """What no end came for."""
        rest = bytes(self._held)
        self._held.clear()
        return rest


def data_of(event: bytes) -> bytes:
    """The data of an event; empty for one without any."""
    lines = [line[5:].removeprefix(b" ") for line in _LINE.split(event) if line[:5] == b"data:"]
    return b"\n".join(lines)


class Assembled(Protocol):
    """An answer that is put together."""

    ended: bool
    """The end has come, in the API's own words."""
    error: str | None
    """The endpoint says within its stream that it failed."""

    def add(self, data: Any) -> None:
        """Take the next event's data, decoded; what is no such thing is passed over."""
        ...

    def whole(self) -> Any:
        """The answer so far."""
        ...


def assembler(form: Form) -> Assembled:
    """What puts the streams of a form together."""
    match form:
        case "messages":
            return Messages()
        case "responses":
            return Responses()
        case _:
            return Chunks("text_completion" if form == "completions" else "chat.completion")


class _Pieces(list[str]):
    """A text in pieces, since adding to a long one again and again would copy it each time."""


class _Parts(list[Any]):
    """A list that comes in pieces, which name their places."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int | str, dict[str, Any]] = {}

    def at(self, index: int | str) -> dict[str, Any]:
        """What is at a place; an empty object that is added, where there is nothing."""
        there = self._places.get(index)
        if there is None:
            there = self._places[index] = {}
            self.append(there)
        return there


def _joined(value: Any) -> Any:
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {k: _joined(v) for k, v in as_object(value).items() if k != "index"}
    if isinstance(value, list):
        return [_joined(item) for item in as_list(value)]
    return value


def _add_text(into: dict[str, Any], name: str, piece: str) -> None:
    there = into.get(name)
    if not isinstance(there, _Pieces):
        there = into[name] = _Pieces([there] if isinstance(there, str) else [])
    there.append(piece)


class Chunks:
    """Chat completions, and the older completions."""

    _SET = frozenset({"id", "type", "role", "name", "index"})
    """Fields that come whole, and may come again."""

    def __init__(self, name: str) -> None:
        self.ended = False
        self.error: str | None = None
        self._top: dict[str, Any] = {"object": name}
        self._choices: dict[int, dict[str, Any]] = {}
        self._open: set[int] = set()
        """Choices that are not finished."""
        self._usage: Any = None

    def add(self, data: Any) -> None:
        """See Assembled."""
        chunk = as_object(data)
        if (error := error_in(chunk)) is not None:
            self.error = error[0]
        for name in ("id", "created", "model", "system_fingerprint", "service_tier"):
            if chunk.get(name) is not None:
                self._top.setdefault(name, chunk[name])
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        for choice in objects_in(chunk.get("choices")):
            self._add_choice(choice)

    def _add_choice(self, choice: dict[str, Any]) -> None:
        place = choice.get("index")
        number = place if isinstance(place, int) else 0
        kept = self._choices.get(number)
        if kept is None:
            kept = self._choices[number] = {"message": {}, "finish_reason": None}
            self._open.add(number)
        self._merge(kept["message"], as_object(choice.get("delta")))
        if isinstance(choice.get("text"), str):
            _add_text(kept, "text", choice["text"])
        if choice.get("finish_reason") is not None:
            kept["finish_reason"] = choice["finish_reason"]
            self._open.discard(number)
            self.ended = not self._open

    def _merge(self, into: dict[str, Any], delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            there = into.get(name)
            if name in self._SET:
                into[name] = there or value
            elif isinstance(value, str):
                _add_text(into, name, value)
            elif isinstance(value, dict):
                into[name] = as_object(there)
                self._merge(into[name], as_object(value))
            elif isinstance(value, list):
                if not isinstance(there, _Parts):
                    into[name] = there = _Parts()
                self._merge_list(there, as_list(value))
            elif value is not None or name not in into:
                into[name] = value

    def _merge_list(self, into: _Parts, items: list[Any]) -> None:
        for item in items:
            piece = as_object(item)
            if isinstance(index := piece.get("index"), int | str):
                self._merge(into.at(index), piece)
            else:
                into.append(item)

    def whole(self) -> Any:
        """See Assembled."""
        choices: list[Any] = []
        for place, kept in sorted(self._choices.items()):
            choice = _joined(kept)
            if "text" in choice:
                del choice["message"]
            choices.append({"index": place, **choice})
        return {**self._top, "choices": choices, "usage": self._usage}


class Responses:
    """Responses; their last event has the whole."""

    _LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})

    def __init__(self) -> None:
        self.ended = False
        self.error: str | None = None
        self._response: dict[str, Any] = {}
        self._text = _Pieces()

    def add(self, data: Any) -> None:
        """See Assembled."""
        event = as_object(data)
        kind = as_text(event.get("type"))
        self._response = as_object(event.get("response")) or self._response
        if kind == "response.output_text.delta":
            self._text.append(as_text(event.get("delta")))
        if kind == "error":
            self.error = as_text(event.get("message")) or as_text(event.get("code")) or "an error"
        if kind in self._LAST:
            self.ended = True
            if kind == "response.failed":
                error = error_in(self._response)
                self.error = error[0] if error else "the response failed"

    def whole(self) -> Any:
        """See Assembled; of one that was cut, what is known and the text that came."""
        if self.ended or not self._text:
            return self._response
        return {**self._response, "output_text": "".join(self._text)}


class Messages:
    """Anthropic's messages."""

    _DELTAS: Mapping[str, str] = {
        "text_delta": "text",
        "input_json_delta": "partial_json",
        "thinking_delta": "thinking",
        "signature_delta": "signature",
    }

    def __init__(self) -> None:
        self.ended = False
        self.error: str | None = None
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}

    def add(self, data: Any) -> None:
        """See Assembled."""
        event = as_object(data)
        delta = as_object(event.get("delta"))
        match event.get("type"):
            case "message_start":
                self._message = dict(as_object(event.get("message")))
            case "content_block_start":
                self._blocks[len(self._blocks)] = dict(as_object(event.get("content_block")))
            case "content_block_delta":
                self._add_to_block(event.get("index"), delta)
            case "message_delta":
                self._message |= delta
                before = as_object(self._message.get("usage"))
                told = as_object(event.get("usage")).items()
                self._message["usage"] = before | {k: v for k, v in told if v is not None}
            case "message_stop":
                self.ended = True
            case "error":
                error = error_in(event)
                self.error = error[0] if error else "an error"
            case _:
                pass

    def _add_to_block(self, place: Any, delta: dict[str, Any]) -> None:
        number = place if isinstance(place, int) else len(self._blocks) - 1
        name = self._DELTAS.get(as_text(delta.get("type")))
        if name is not None and number in self._blocks:
            _add_text(self._blocks[number], name, as_text(delta.get(name)))

    def whole(self) -> Any:
        """See Assembled."""
        return {**self._message, "content": [_block(one) for one in self._blocks.values()]}


def _block(parts: dict[str, Any]) -> dict[str, Any]:
    block = as_object(_joined(parts))
    if "partial_json" in block:
        given = as_text(block.pop("partial_json"))
        try:
            block["input"] = msgspec.json.decode(given) if given else {}
        except (msgspec.DecodeError, RecursionError):
            block["input"] = given
    return block
