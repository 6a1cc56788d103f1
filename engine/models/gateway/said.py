"""What a model said in an answer, whatever the API. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from .loose import as_object, as_text, objects_in
from .routes import Form


class Said(NamedTuple):
    """Texts; empty where there are none."""

    text: str
    reasoning: str


def said_in(form: Form, response: Any) -> Said:
    """The first choice's text and reasoning."""
    answer = as_object(response)
    choice = as_object(next(iter(objects_in(answer.get("choices"))), None))
    match form:
        case "chat":
            message = as_object(choice.get("message"))
            text = _parts(message.get("content"), "text") or as_text(message.get("refusal"))
            thought = message.get("reasoning_content") or message.get("reasoning")
            return Said(text, as_text(thought))
        case "completions":
            return Said(as_text(choice.get("text")), "")
        case "messages":
            content = answer.get("content")
            return Said(_parts(content, "text"), _parts(content, "thinking", "thinking"))
        case "responses":
            items = objects_in(answer.get("output"))
            texts = [_parts(i.get("content"), "output_text") for i in items]
            thoughts = [_parts(i.get("summary"), "summary_text") for i in items]
            return Said("\n".join(filter(None, texts)), "\n".join(filter(None, thoughts)))
        case _:
            return Said("", "")


def _parts(content: Any, kind: str, field: str = "text") -> str:
    """A text, or those of the parts of a kind."""
    if isinstance(content, str):
        return content
    return "".join(
        as_text(part.get(field)) for part in objects_in(content) if part.get("type") == kind
    )
