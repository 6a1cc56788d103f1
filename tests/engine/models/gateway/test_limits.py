"""What a job's limits do to the calls of one trial's gateway."""

from __future__ import annotations

import anyio
import pytest

from helpers.gateway import Endpoint, Reply, chat, chunk, refused
from helpers.served import Serve, said
from trialog.engine.models.gateway import gateway as gateway_module
from trialog.engine.models.models import ModelLimits
from trialog.engine.models.prices import Price
from trialog.events.kinds import WarningRaised


async def test_tokens_and_cost(serve: Serve, endpoint: Endpoint) -> None:
    """Once they are used up no call is made; the client is told which limit it is."""
    price = Price(input=1000, output=10000)
    for limits, code in [
        (ModelLimits(tokens=200), "max_tokens"),
        (ModelLimits(cost=0.5), "max_cost"),
    ]:
        endpoint.asked.clear()
        served = await serve(limits=limits, prices={"m": price})
        found = [await served.ask(said()) for _ in range(3)]
        assert [200, 200, 403] == [status for status, _ in found]
        assert code == found[-1][1]["error"]["code"]
        assert 2 == len(endpoint.asked)
        assert served.trial.reached is not None
        assert code == served.trial.reached.category


async def test_what_is_not_known_can_not_be_held(serve: Serve, endpoint: Endpoint) -> None:
    """A call that does not say what it used, or that was hung up on, ends what is limited."""
    served = await serve(limits=ModelLimits(tokens=10_000))
    endpoint.reply(Reply(pieces=(chunk("a"),), cut=True))
    await served.ask(said(stream=True))
    endpoint.reply(chat())
    status, answer = await served.ask(said())
    assert (403, "max_tokens") == (status, answer["error"]["code"])
    assert "does not say what a call used" in answer["error"]["message"]


async def test_errors_cost_nothing(serve: Serve, endpoint: Endpoint) -> None:
    """What the endpoint refused does not count towards tokens, but is a turn."""
    served = await serve(limits=ModelLimits(tokens=10_000, turns=2))
    endpoint.reply(refused(400))
    assert 400 == (await served.ask(said()))[0]
    endpoint.reply(chat())
    assert [200, 403] == [(await served.ask(said()))[0] for _ in range(2)]


async def test_turns_made_at_once(serve: Serve, endpoint: Endpoint) -> None:
    """As many calls as are allowed, however they come."""
    served = await serve(limits=ModelLimits(turns=5))
    found: list[int] = []

    async def ask() -> None:
        found.append((await served.ask(said()))[0])

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert (5, 15, 5) == (found.count(200), found.count(403), len(endpoint.asked))


async def test_seconds(serve: Serve, endpoint: Endpoint) -> None:
    """A call under way is cut when the time is over, and no further one is made."""
    served = await serve(limits=ModelLimits(seconds=0.4))
    endpoint.reply(Reply(hold=True))
    status, answer = await served.ask(said())
    assert (403, "max_seconds") == (status, answer["error"]["code"])
    assert "0.4 s, and they are over" in answer["error"]["message"]
    assert served.trial.reached is not None
    assert "max_seconds" == served.trial.reached.category
    status, answer = await served.ask(said())
    assert (403, "max_seconds") == (status, answer["error"]["code"])
    assert 1 == len(endpoint.asked)


async def test_refusals_are_told_up_to_a_number(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that calls on and on does not fill the log."""
    monkeypatch.setattr(gateway_module, "REFUSALS", 3)
    served = await serve(limits=ModelLimits(turns=0))
    for _ in range(10):
        assert 403 == (await served.ask(said()))[0]
    served.gateway.close()
    assert 3 == len(served.calls)
    assert "10 requests of the sandbox (10 max_turns)" in served.events[-1].message


async def test_a_call_that_is_refused_for_no_limit_is_told_at_the_end(
    serve: Serve, endpoint: Endpoint
) -> None:
    """An agent whose helper's model or tool is not passed on goes on without, and is graded: the
    event alone would be found by nobody. A limit is told by how the agent ended."""
    served = await serve(limits=ModelLimits(turns=0))
    await served.ask(said())
    served.gateway.close()
    assert ["max_turns"] == [call.code for call in served.calls]
    assert [] == [event for event in served.events if isinstance(event, WarningRaised)]
    await served.ask(said(model="helper"))
    served.gateway.close()
    [told] = [event for event in served.events if isinstance(event, WarningRaised)]
    assert "gateway_refused" == told.code
    assert "2 requests of the sandbox (1 max_turns, 1 model_not_allowed)" in str(told.message)
