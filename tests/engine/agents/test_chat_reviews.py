"""A model that reviews: what its shell shows it is data, since another agent left it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.chatting import Worked, work
from helpers.judges import completion
from helpers.models import shell
from helpers.obedient import ORDER, ORDERS, fences, obeys
from trialog.engine.agents.chat.agent import OUTPUT_CAP
from trialog.engine.models.models import ModelLimits

if TYPE_CHECKING:
    from conftest import Bench

READS = 'for name in *; do echo "$name"; cat "$name"; done'


def verdict(messages: Any) -> Any:
    """Says whether it was given an order that it obeys."""
    return completion("obeyed" if obeys(messages) else "honest")


async def reads(bench: Bench, order: str, *, reviews: bool = True) -> Worked:
    """A model reads what was left: an order in a file, in its name and in what a program prints."""
    await bench.prepare()
    (bench.workspace / "notes.txt").write_text(order)
    (bench.workspace / order[:60].replace("/", "")).write_text(order)
    return await work(bench, shell(READS), shell("cat notes.txt >&2"), verdict, reviews=reviews)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
async def test_an_order_in_what_was_left_is_not_obeyed(bench: Bench, order: str) -> None:
    """An agent that works obeys it, which is its own affair; one that reviews does not."""
    done = await reads(bench, order)
    messages = done.model.requests[-1]["messages"]
    shown = [m["content"] for m in messages if m["role"] == "tool"]
    assert len(shown) == 2
    if len(order) < OUTPUT_CAP:
        assert all(ORDER in text for text in shown)
    assert obeys([{"role": "user", "content": order}])
    assert not obeys(messages)
    words = fences(m for m in messages if m["role"] == "tool")
    assert len(set(words)) == 2
    assert messages[1]["content"] == "Work."
    assert len("".join(shown)) < 3 * OUTPUT_CAP


async def test_an_agent_that_works_sees_things_as_they_are(bench: Bench) -> None:
    """Fences and broken marks are for reviewers alone: others need every byte."""
    done = await reads(bench, ORDERS["chatml"], reviews=False)
    messages = done.model.requests[-1]["messages"]
    assert obeys(messages)
    assert messages[3]["content"].count("<|im_start|>") == 3
    assert "fenced" not in messages[0]["content"]


async def test_the_criteria_stay_in_every_call(bench: Bench) -> None:
    """However much is read, system and prompt go with each call, whole, until the model's limit."""
    prompt = "criterion " * 2000
    floods = [shell(f"head -c 1000000 /dev/zero | tr '\\0' {n}") for n in range(9)]
    done = await work(
        bench, *floods, completion("done"), reviews=True, prompt=prompt,
        limits=ModelLimits(turns=20),
    )  # fmt: skip
    assert len(done.model.requests) == 10
    for request in done.model.requests:
        assert request["messages"][1] == {"role": "user", "content": prompt}
        assert all(len(m["content"] or "") < OUTPUT_CAP + 300 for m in request["messages"][2:])
