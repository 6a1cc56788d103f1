"""What a review is told to do: what could not be honoured is refused, the rest is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.given import recorded as recorded_events
from trialog.engine.errors import ConfigError
from trialog.engine.models.prices import Price
from trialog.engine.reviews.config import recorded, resumed_config, review_config
from trialog.events.codec import decode
from trialog.events.kinds import ReviewStarted

PRICES = {"m": Price(input=1.0, output=2.0)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "--agent"),
        ({"agent": ""}, "--agent"),
        ({"agent": "oracle"}, "name a reviewer"),
        ({"agent": "chat"}, "chat needs a model"),
        ({"agent": "nop", "max_turns": 3}, "--max-turns: holds for a model's calls"),
        ({"agent": "nop", "max_tokens": 3}, "--max-tokens: holds for a model's calls"),
        ({"agent": "nop", "max_cost": 3.0}, "--max-cost: holds for a model's calls"),
        ({"agent": "chat", "model": "m", "max_cost": 1.0}, "--max-cost: the cost limit needs"),
        (
            {"agent": "chat", "model": "m", "max_total_cost": 1.0},
            "--max-total-cost: the cost limit needs the model's price, and there is none for m",
        ),
        (
            {"agent": "chat", "model": "other", "max_cost": 1.0, "prices": PRICES},
            "there is none for other",
        ),
        ({"agent": "nop", "concurrency": 0}, "-n: must be above 0, found 0"),
        ({"agent": "nop", "max_seconds": -1.0}, "--max-seconds: must be above 0"),
        ({"agent": "nop", "max_seconds": float("inf")}, "--max-seconds: must be above 0"),
        ({"agent": "nop", "max_seconds": float("nan")}, "--max-seconds: must be above 0"),
    ],
)
def test_what_can_not_be_honoured_is_refused(given: dict[str, Any], said: str) -> None:
    """By the option, before anything is written or started."""
    with pytest.raises(ConfigError) as caught:
        review_config(given)
    assert said in str(caught.value)


def begun(**given: Any) -> ReviewStarted:
    """The start of a review with this configuration, as the log has it."""
    config = review_config({"agent": "command:./look", **given})
    started = ReviewStarted(
        review="r", path="../..", out_dir=".", trials=["a"], selection=config.selection,
        agent=config.agent, model=config.model, sandbox="bubblewrap", network=config.network,
        config=recorded(config),
    )  # fmt: skip
    [event] = recorded_events("review/r", [started])
    read = decode(event)
    assert isinstance(read, ReviewStarted)
    return read


SETTINGS: dict[str, Any] = {
    "model": "m", "selection": "failing", "image": "i", "concurrency": 2, "open_network": True,
    "rubric": Path("/r.json"), "tasks_root": Path("/tasks"), "max_seconds": 5.0, "max_turns": 3,
    "max_tokens": 9, "max_cost": 1.0, "max_total_cost": 2.0, "prices": PRICES,
}  # fmt: skip


def test_a_resume_needs_no_words() -> None:
    """Every setting comes back out of the log."""
    assert resumed_config(begun(**SETTINGS), {}) == review_config(
        {"agent": "command:look", **SETTINGS}
    )


def test_a_resume_takes_the_same_words_again() -> None:
    """And new limits, but nothing else that differs."""
    again = resumed_config(begun(**SETTINGS), {"agent": "command:look", **SETTINGS})
    assert again == resumed_config(begun(**SETTINGS), {})
    more = resumed_config(begun(**SETTINGS), {"max_total_cost": 9.0, "concurrency": 8})
    assert (more.max_total_cost, more.concurrency) == (9.0, 8)
    for name, value in (
        ("agent", "nop"), ("model", "n"), ("selection", "all"), ("rubric", Path("/s.json")),
        ("tasks_root", Path("/s")), ("image", "j"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="goes on as it was begun"):
            resumed_config(begun(**SETTINGS), {name: value})


def test_a_start_of_an_older_release() -> None:
    """Without a recorded configuration what the event says holds, and the rest may be given."""
    started = msgspec.structs.replace(begun(model="m"), config=None)
    found = resumed_config(started, {"tasks_root": Path("/tasks")})
    assert (found.agent, found.model, found.tasks_root) == ("command:look", "m", Path("/tasks"))


def test_the_limits_of_one_reviewer() -> None:
    """A hundred calls, unless another number is given."""
    assert review_config({"agent": "nop"}).model_limits.turns == 100
    limits = review_config({"agent": "chat", **SETTINGS}).model_limits
    assert (limits.turns, limits.tokens, limits.cost) == (3, 9, 1.0)
