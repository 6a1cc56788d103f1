"""An answer that is recorded in one piece, as a client that asked for a stream gets it. Pure.

How it was cut into pieces is not recorded, so each text is one piece. What puts streams together
gives the same answer again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .loose import as_list, as_object, as_text, objects_in
from .routes import Form


def streamed(form: Form, response: Any) -> tuple[list[bytes], list[bytes]]:
    """The events of a stream that add up to an answer; and those that end it."""
    answer = as_object(response)
    match form:
        case "messages":
            return list(_message(answer)), [_event({"type": "message_stop"})]
        case "responses":
            *events, last = [
                _event({**event, "sequence_number": number})
                for number, event in enumerate(_response(answer))
            ]
            return events, [last]
        case _:
            return list(_chunks(form, answer)), [b"data: [DONE]\n\n"]


def _event(data: dict[str, Any]) -> bytes:
    """An event that its data names, as in Anthropic's form and in responses."""
    return f"event: {data['type']}\n".encode() + _data(data)


def _data(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def _chunks(form: Form, answer: dict[str, Any]) -> Iterator[bytes]:
    names = ("id", "created", "model", "system_fingerprint", "service_tier")
    kind = "text_completion" if form == "completions" else "chat.completion.chunk"
    top = {name: answer[name] for name in names if name in answer} | {"object": kind}
    choices = objects_in(answer.get("choices"))
    for place, choice in enumerate(choices):
        said = {"text": choice.get("text")} if form == "completions" else {}
        delta = {} if form == "completions" else {"delta": _delta(as_object(choice.get("message")))}
        piece = {"index": place, **said, **delta, "finish_reason": None}
        yield _data({**top, "choices": [piece]})
    for place, choice in enumerate(choices):
        finish = choice.get("finish_reason")
        if finish is not None:
            empty: dict[str, Any] = {"text": ""} if form == "completions" else {"delta": {}}
            piece = {"index": place, **empty, "finish_reason": finish}
            yield _data({**top, "choices": [piece]})
    if answer.get("usage") is not None:
        yield _data({**top, "choices": [], "usage": answer["usage"]})


def _delta(message: dict[str, Any]) -> dict[str, Any]:
    """A message as one piece: its calls are numbered there."""
    calls = as_list(message.get("tool_calls"))
    if not calls:
        return message
    numbered = [{"index": place, **as_object(call)} for place, call in enumerate(calls)]
    return {**message, "tool_calls": numbered}


_DELTAS = {"text": "text_delta", "thinking": "thinking_delta", "signature": "signature_delta"}


def _message(answer: dict[str, Any]) -> Iterator[bytes]:
    ending = {name: answer[name] for name in ("stop_reason", "stop_sequence") if name in answer}
    start = {name: value for name, value in answer.items() if name not in ending}
    yield _event({"type": "message_start", "message": {**start, "content": []}})
    for place, block in enumerate(objects_in(answer.get("content"))):
        yield from _block(place, block)
    used = as_object(answer.get("usage"))
    tail = {name: used[name] for name in ("output_tokens",) if name in used}
    yield _event({"type": "message_delta", "delta": ending, "usage": tail})


def _block(place: int, block: dict[str, Any]) -> Iterator[bytes]:
    calls = "input" in block
    texts = {name: as_text(block[name]) for name in _DELTAS if isinstance(block.get(name), str)}
    first: dict[str, Any] = {**block, **dict.fromkeys(texts, "")}
    if calls:
        first["input"] = {}
    yield _event({"type": "content_block_start", "index": place, "content_block": first})
    deltas = [{"type": _DELTAS[name], name: text} for name, text in texts.items() if text]
    if calls:
        given = msgspec.json.encode(block["input"]).decode()
        deltas.append({"type": "input_json_delta", "partial_json": given})
    for delta in deltas:
        yield _event({"type": "content_block_delta", "index": place, "delta": delta})
    yield _event({"type": "content_block_stop", "index": place})


def _response(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun: dict[str, Any] = {**answer, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    for place, item in enumerate(objects_in(answer.get("output"))):
        named = {"output_index": place, "item_id": item.get("id")}
        parts = objects_in(item.get("content")) if item.get("type") == "message" else []
        first: dict[str, Any] = {**item, "content": []} if parts else item
        yield {"type": "response.output_item.added", "output_index": place, "item": first}
        for number, part in enumerate(parts):
            at = {**named, "content_index": number}
            text = as_text(part.get("text"))
            empty = {**part, "text": ""} if text else part
            yield {"type": "response.content_part.added", **at, "part": empty}
            if text:
                yield {"type": "response.output_text.delta", **at, "delta": text}
                yield {"type": "response.output_text.done", **at, "text": text}
            yield {"type": "response.content_part.done", **at, "part": part}
        if item.get("type") == "function_call":
            given = as_text(item.get("arguments"))
            yield {"type": "response.function_call_arguments.delta", **named, "delta": given}
            yield {"type": "response.function_call_arguments.done", **named, "arguments": given}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    status = as_text(answer.get("status"))
    kind = status if status in ("failed", "incomplete") else "completed"
    yield {"type": f"response.{kind}", "response": answer}
