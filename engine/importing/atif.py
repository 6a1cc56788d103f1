"""Trajectories in the Agent Trajectory Interchange Format, as agents of other systems leave them.

All that is in one was said by the agent or its adapter: nobody else saw it.
"""

from __future__ import annotations

from typing import Any, Literal

from ...events.kinds import ActionTaken, AgentMessage, ModelCalled
from ...events.kinds.parts import Usage
from .fields import Fields
from .records import Story, objects

TOOLS = "tools"
"""The app that an agent's tools are actions of."""


def tell_trajectory(trajectory: Fields, story: Story) -> None:
    """The steps of a trajectory, as events. Raises RecordsError."""
    version = trajectory.needed("schema_version")
    if not version.startswith("ATIF-v1."):
        raise trajectory.error("schema_version", f"expected ATIF-v1.…, found {version!r}")
    default = trajectory.table("agent").text("model_name")
    turn = 0
    for step in trajectory.tables("steps"):
        at = step.time("timestamp")
        source = step.needed("source")
        text = _text(step.raw("message"))
        if source != "agent":
            role: Literal["system", "user"] = "system" if source == "system" else "user"
            story.tell(AgentMessage(role=role, text=text), at)
            for result in step.table("observation").tables("results"):
                content = _text(result.raw("content"))
                story.tell(AgentMessage(role="system", text=content), at)
            continue
        turn += 1
        call = _call(step, story, at, turn, step.text("model_name") or default)
        story.tell(
            AgentMessage(
                role="assistant",
                text=text,
                reasoning=step.text("reasoning_content"),
                turn=turn,
                model_call=call,
            ),
            at,
        )
        _actions(step, story, at, turn, call)


def _call(step: Fields, story: Story, at: str | None, turn: int, model: str | None) -> str | None:
    """The model call behind a step that has figures of one; its request was not recorded."""
    metrics = step.table("metrics")
    if not metrics.values:
        return None
    return story.tell(
        ModelCalled(
            model=model or "unknown",
            request=None,
            usage=Usage(
                model_calls=step.whole("llm_call_count"),
                input_tokens=metrics.whole("prompt_tokens"),
                output_tokens=metrics.whole("completion_tokens"),
                cached_tokens=metrics.whole("cached_tokens"),
                cost_usd=metrics.number("cost_usd"),
            ),
            started_at=at or "",
            latency=0.0,
            retries=0,
            turn=turn,
            untimed=True,
        ),
        at,
    )


def _actions(step: Fields, story: Story, at: str | None, turn: int, call: str | None) -> None:
    results = step.table("observation").tables("results")
    by_call = {r.text("source_call_id"): r for r in results}
    told: set[str | None] = set()
    for asked in objects(step.raw("tool_calls")):
        tool = Fields(step.file, "tool_calls", asked)
        ident = tool.text("tool_call_id")
        came = by_call.get(ident)
        told.add(ident)
        story.tell(
            ActionTaken(
                turn=turn,
                tool_call=ident,
                model_call=call,
                app=TOOLS,
                action=tool.needed("function_name"),
                arguments=tool.raw("arguments"),
                observation=None if came is None else _content(came.raw("content")),
                started_at=at or "",
                duration=0.0,
                observed_by="agent",
                untimed=True,
            ),
            at,
        )
    for result in results:
        if result.text("source_call_id") not in told:
            story.tell(AgentMessage(role="tool", text=_text(result.raw("content")), turn=turn), at)


def _text(content: Any) -> str:
    found = _content(content)
    return found if isinstance(found, str) else ""


def _content(content: Any) -> Any:
    """A text as it is, of parts their texts; pictures are in the trajectory's own file."""
    if not isinstance(content, list):
        return content
    return "\n".join(str(p["text"]) for p in objects(content) if isinstance(p.get("text"), str))
