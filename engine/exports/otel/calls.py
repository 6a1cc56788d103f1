"""Model calls, tool calls and agents in the words of OpenTelemetry's GenAI conventions. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from ....events.kinds import ActionTaken, AgentStarted, JudgeSampled, ModelCalled
from ....events.kinds.parts import Usage
from ....events.values import BlobRef, Json
from ....projections.document import compact
from ....projections.texts import reference
from .form import Plain

_OPERATIONS = {"completions": "text_completion", "embeddings": "embeddings"}


def operation_of(form: str | None) -> str:
    """What is asked of a model, by the form of the API."""
    return _OPERATIONS.get(form or "chat", "chat")


def call_attributes(call: ModelCalled) -> dict[str, Plain]:
    """Of a call. What was said is left out, as the conventions have it by default."""
    place = urlsplit(call.endpoint or "")
    return {
        "gen_ai.operation.name": operation_of(call.form),
        # the form of the API is what is known; many serve that of OpenAI
        "gen_ai.provider.name": "anthropic" if call.form == "messages" else "openai",
        "gen_ai.request.model": call.model,
        "gen_ai.response.model": call.model_reported,
        **usage_attributes(call.usage),
        "server.address": place.hostname,
        "server.port": _port(call.endpoint),
        "http.response.status_code": call.status,
        "error.type": call.code or call.failure or (None if call.error is None else "_OTHER"),
        "trialog.turn": call.turn,
        "trialog.retries": call.retries,
        "trialog.purpose": call.purpose,
        "trialog.replayed": call.replayed,
    }


def sample_attributes(sample: JudgeSampled) -> dict[str, Plain]:
    """Of a judge's reply."""
    failed = sample.failure or (None if sample.valid else "invalid_reply")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": sample.model,
        "gen_ai.response.model": sample.model_reported,
        **usage_attributes(sample.usage),
        "error.type": failed,
        "trialog.sample": sample.sample,
        "trialog.attempt": sample.attempt,
        "trialog.replayed": sample.replayed,
    }


def usage_attributes(usage: Usage) -> dict[str, Plain]:
    """What was seen of tokens and cost."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "trialog.cost_usd": usage.cost_usd,
    }


def agent_attributes(agent: AgentStarted) -> dict[str, Plain]:
    """Of an agent's phase."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent.name,
        "gen_ai.agent.version": agent.version,
        "gen_ai.request.model": agent.model,
        "trialog.agent.digest": agent.digest,
    }


def action_attributes(action: ActionTaken) -> dict[str, Plain]:
    """Of a step. A long value is the name of its blob, as in the log."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": action.action,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": action.tool_call,
        "gen_ai.tool.call.arguments": _json(action.arguments),
        "gen_ai.tool.call.result": _json(action.observation),
        "error.type": None if action.error is None else "_OTHER",
        "trialog.app": action.app,
        "trialog.turn": action.turn,
        "trialog.observed_by": action.observed_by,
        "trialog.untimed": action.untimed or None,
    }


def _json(value: Json | None) -> str | None:
    if value is None:
        return None
    ref = reference(value)
    return _named(ref) if ref is not None else compact(value).decode()


def _named(ref: BlobRef) -> str:
    return f"{ref.blob} ({ref.size} bytes)"


def _port(endpoint: str | None) -> int | None:
    try:
        return urlsplit(endpoint or "").port
    except ValueError:  # none that is one
        return None
