"""What of a request would have the endpoint reach out for an agent that may not. Pure.

A provider's own tools search and fetch, run code with a network, or call servers that the request
names; content can be an address that it loads. For a task without a network each is a way around.
"""

from __future__ import annotations

from typing import Any

from .loose import as_list, as_object, as_text

HOSTED = (
    "web_search", "web_fetch", "url_context", "google_search", "browser", "mcp", "file_search",
    "code_interpreter", "code_execution",
)  # fmt: skip
"""How the types of such tools begin; those that the client runs itself are no such."""

FIELDS = ("web_search_options", "mcp_servers", "plugins")
"""Fields of a request that ask for the same."""

_LOADED = ("image_url", "file_url", "video_url", "audio_url", "url")
_NOT_LOADED = frozenset({"input", "arguments", "parameters", "input_schema"})
"""Within a conversation: what was said to a tool, whatever its names."""


def reaching_out(request: dict[str, Any]) -> str | None:
    """The part of a request that reaches out, as in `tools[0]`; null where none does."""
    for name in FIELDS:
        if request.get(name):
            return name
    for place, tool in enumerate(as_list(request.get("tools"))):
        if as_text(as_object(tool).get("type")).startswith(HOSTED):
            return f"tools[{place}]"
    for name in ("messages", "input"):
        found = _loaded(request.get(name), name) if not isinstance(request.get(name), str) else None
        if found is not None:
            return found
    return None


def _loaded(value: Any, path: str) -> str | None:
    """The first address in a conversation that the endpoint would load."""
    if isinstance(value, list):
        for place, item in enumerate(as_list(value)):
            if (found := _loaded(item, f"{path}[{place}]")) is not None:
                return found
        return None
    for name, item in as_object(value).items():
        if name in _NOT_LOADED:
            continue
        here = f"{path}.{name}"
        if name in _LOADED and as_text(item).lower().startswith(("http://", "https://")):
            return here
        if isinstance(item, dict | list) and (found := _loaded(item, here)) is not None:
            return found
    return None
