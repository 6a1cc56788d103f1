"""Lists of models: of what an endpoint has, what the trial may call. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .loose import as_object, as_text, objects_in

_MODELS = "/models/"


def asked_for(path: str, may_call: Callable[[str], bool]) -> bool:
    """Whether the trial may ask this of the list: all of it, or about a model of its own."""
    if not path.startswith(_MODELS):
        return True
    steps = path.removeprefix(_MODELS).split("/")
    return any(may_call("/".join(steps[:end])) for end in range(1, len(steps) + 1))


def only_allowed(listed: Any, may_call: Callable[[str], bool]) -> Any:
    """A list of models without those that the trial may not call; anything else as it is."""
    told = as_object(listed)
    if not isinstance(told.get("data"), list):
        return listed
    data = [one for one in objects_in(told["data"]) if may_call(as_text(one.get("id")))]
    ends = {"first_id": 0, "last_id": -1}
    names = {key: data[at].get("id") if data else None for key, at in ends.items() if key in told}
    return {**told, "data": data, **names}
