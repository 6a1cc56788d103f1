"""Looking into JSON of which nothing is known. Pure."""

from __future__ import annotations

from typing import Any, cast


def as_object(value: Any) -> dict[str, Any]:
    """An object; an empty one in place of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A list; an empty one in place of anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """A text; an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def objects_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none in place of anything else."""
    return [as_object(item) for item in as_list(value) if isinstance(item, dict)]
