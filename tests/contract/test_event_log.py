"""What every store of the log has to do."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.logs import STORES, check_chain, everything
from helpers.samples import event, events, samples, warning
from trialog.events.codec import decode
from trialog.events.envelope import NewEvent, RecordedEvent
from trialog.events.errors import (
    EventIdConflict,
    EventInvalid,
    LogError,
    LogUnavailable,
    VersionConflict,
)
from trialog.events.hashing import first_previous
from trialog.events.kinds import JobCancelled, SandboxRemoved, StepRewarded
from trialog.events.kinds.parts import Target
from trialog.events.log import EventLog


@pytest.fixture(params=STORES)
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    """An empty log in each store."""
    async with STORES[request.param](tmp_path) as opened:
        yield opened


async def outcome(log: EventLog, stream: str, version: int, offered: list[NewEvent]) -> Any:
    """What an append came to: the acknowledgement or the error."""
    try:
        return await log.append(stream, version, offered)
    except (VersionConflict, EventIdConflict, LogUnavailable) as error:
        return error


# Appending


async def test_events_get_positions_and_versions_without_a_hole(log: EventLog) -> None:
    """Positions count over the whole log, versions in each stream, both from 1."""
    first = await log.append("job/a", 0, events(2))
    second = await log.append("trial/b", 0, events(1))
    third = await log.append("job/a", 2, events(3))

    assert [(1, 2, 2), (3, 3, 1), (4, 6, 5)] == [
        (a.first, a.last, a.version) for a in (first, second, third)
    ]
    assert [
        ("job/a", 1),
        ("job/a", 2),
        ("trial/b", 1),
        ("job/a", 3),
        ("job/a", 4),
        ("job/a", 5),
    ] == [(e.stream, e.version) for e in await everything(log)]
    check_chain(await everything(log))
    assert third.hash == (await log.head("job/a")).hash


async def test_what_was_offered_is_what_is_stored(log: EventLog) -> None:
    """Every field of an event comes back as it was offered, and every kind can be stored."""
    offered = [
        event(payload, causation="01900000-0000-7000-8000-00000000ffff" if n % 2 else None)
        for n, payload in enumerate(samples())
    ]

    await log.append("job/all", 0, offered)

    stored = await log.read("job/all")
    assert [
        (o.id, o.at, o.causation, type(o.payload).__name__, o.payload.schema, o.payload.ignorable)
        for o in offered
    ] == [(s.id, s.at, s.causation, s.kind, s.schema, s.ignorable) for s in stored]
    assert [o.payload for o in offered] == [decode(s) for s in stored]
    assert {True, False} == {s.ignorable for s in stored}
    check_chain(stored)


async def test_a_stale_expected_version_names_both_versions(log: EventLog) -> None:
    """A concurrency error says what was expected and what is there; nothing is stored."""
    await log.append("job/a", 0, events(3))

    for expected in (0, 2, 4, -1):
        with pytest.raises(
            VersionConflict, match=f"at version 3, not at the expected {expected};"
        ) as e:
            await log.append("job/a", expected, events(1))
        assert ("job/a", expected, 3) == (e.value.stream, e.value.expected, e.value.current)

    assert 3 == await log.last_position()
    await log.append("job/a", 3, events(1))
    assert 4 == await log.last_position()


async def test_of_two_who_append_at_one_place_one_is_refused(log: EventLog) -> None:
    """Of concurrent appends to one place of a stream exactly one is stored."""
    outcomes: list[Any] = []

    async def offer() -> None:
        outcomes.append(await outcome(log, "job/a", 0, events(1)))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(offer)

    assert {"Appended": 1, "VersionConflict": 4} == Counter(type(o).__name__ for o in outcomes)
    assert 1 == await log.last_position()


async def test_times_never_step_back_in_a_stream(log: EventLog) -> None:
    """A clock that was set back leaves times that stand still; other streams keep their own."""
    late, early = "2026-05-01T00:00:00.000000Z", "2026-04-01T00:00:00.000000Z"

    await log.append("job/a", 0, [event(at=late), event(at=early)])
    await log.append("job/a", 2, [event(at=early)])
    await log.append("job/b", 0, [event(at=early)])

    assert [late, late, late, early] == [e.at for e in await everything(log)]
    check_chain(await everything(log))


@pytest.mark.parametrize(
    "changes",
    [
        {"at": "2026-01-01T00:00:00Z"},
        {"at": "2026-01-01 00:00:00.000000Z"},
        {"at": "2026-01-01T00:00:00.000000+00:00"},
        {"at": ""},
        {"id": ""},
        {"id": "é"},
        {"causation": ""},
        {"causation": "\udc80"},
    ],
)
async def test_an_envelope_that_is_none_is_refused(log: EventLog, changes: dict[str, str]) -> None:
    """Times have six digits and Z; ids are plain. What is not like that is never queued."""
    await log.append("job/a", 0, [event()])

    with pytest.raises(EventInvalid, match="JobCancelled"):
        log.append("job/a", 1, [event(), event(**changes)])

    assert 1 == await log.last_position()


@pytest.mark.parametrize("stream", ["", "job/\ud800", "job/\0"])
async def test_a_stream_needs_a_name(log: EventLog, stream: str) -> None:
    """A name is text that UTF-8 can hold, without NUL."""
    with pytest.raises(EventInvalid, match="name of a stream"):
        log.append(stream, 0, events(1))


async def test_an_append_needs_events(log: EventLog) -> None:
    """Nothing to append is a fault of the caller's."""
    with pytest.raises(EventInvalid, match="at least one event"):
        log.append("job/a", 0, [])


async def test_what_could_not_be_read_back_is_refused(log: EventLog) -> None:
    """A payload with a NaN, or with a field of a wrong type, never reaches the log."""
    good = StepRewarded(
        verifier="v", version="1", digest="d", value=0.5, weight=1.0, space="action",
        target=Target(target="step", event_id="e"),
    )  # fmt: skip
    await log.append("trial/a", 0, [event(good)])

    for bad in (
        msgspec.structs.replace(good, value=float("nan")),
        msgspec.structs.replace(good, weight="heavy"),
        msgspec.structs.replace(good, metadata={"what": object()}),
    ):
        with pytest.raises(EventInvalid, match="StepRewarded"):
            log.append("trial/a", 1, [event(bad)])

    assert 1 == await log.last_position()


# The same events again


async def test_the_same_events_again_are_acknowledged_and_stored_once(log: EventLog) -> None:
    """A retry of an append that had succeeded gets the same acknowledgement."""
    await log.append("job/b", 0, events(1))
    before = [event(at="2027-01-01T00:00:00.000000Z")]
    # These two are earlier than the stream's last event, so that their times were moved.
    offered = [event(), event(causation="01900000-0000-7000-8000-00000000ffff")]
    await log.append("job/a", 0, before)
    first = await log.append("job/a", 1, offered)
    assert (3, 4) == (first.first, first.last)

    assert first == await log.append("job/a", 1, offered)
    await log.append("job/a", 3, events(1))
    assert first == await log.append("job/a", 1, offered)
    again = await log.append("job/a", 0, before)
    assert (2, 2, 1) == (again.first, again.last, again.version)
    assert 5 == await log.last_position()
    check_chain(await everything(log))


async def test_the_same_events_twice_in_one_batch_are_stored_once(log: EventLog) -> None:
    """The retry may even come before the first one is written."""
    offered = events(2)

    tickets = [log.append("job/a", 0, offered) for _ in range(3)]

    assert 1 == len({await ticket for ticket in tickets})
    assert 2 == await log.last_position()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"payload": JobCancelled(reason="another")}, "data"),
        ({"payload": warning()}, "kind"),
        ({"at": "2028-01-01T00:00:00.000000Z"}, "time"),
        ({"at": "2020-01-01T00:00:00.000000Z"}, "time"),
        ({"causation": "01900000-0000-7000-8000-00000000ffff"}, "causation"),
    ],
)
async def test_a_stored_id_with_other_content_is_refused(
    log: EventLog, changes: dict[str, Any], what: str
) -> None:
    """The error names the id and what differs."""
    offered = events(1)[0], event()
    await log.append("job/a", 0, offered)
    assert isinstance(await outcome(log, "job/a", 0, list(offered)), msgspec.Struct)

    changed = msgspec.structs.replace(offered[1], **changes)
    with pytest.raises(EventIdConflict, match=f"version 2 has this id and another {what}") as e:
        await log.append("job/a", 0, [offered[0], changed])

    assert (changed.id, "job/a") == (e.value.event_id, e.value.stream)
    assert 2 == await log.last_position()


async def test_a_stored_id_in_another_place_is_refused(log: EventLog) -> None:
    """In another stream, at another version, or together with other events."""
    offered = events(2)
    await log.append("job/a", 0, offered)
    where = f"{offered[0].id} .* is the id of version 1 of stream 'job/a'"

    for stream, version, tried in (
        ("job/b", 0, [offered[0]]),
        ("job/a", 2, [event(), offered[0]]),
        ("job/a", 0, [offered[0], event()]),
        ("job/a", 0, [event(), offered[0]]),
        ("job/a", 1, [offered[0]]),
    ):
        with pytest.raises(EventIdConflict, match=where):
            await log.append(stream, version, tried)

    assert 2 == await log.last_position()
    await log.append("job/a", 2, events(1))
    check_chain(await everything(log))


async def test_a_part_of_a_stored_append_again_is_no_conflict(log: EventLog) -> None:
    """What counts is the place and the content of each event, not how they were grouped."""
    offered = events(3)
    await log.append("job/a", 0, offered)

    again = await log.append("job/a", 1, offered[1:])

    assert (2, 3, 3) == (again.first, again.last, again.version)
    assert 3 == await log.last_position()


async def test_one_id_twice_in_one_append_is_refused(log: EventLog) -> None:
    """Such an append can't be a retry of anything."""
    one = event()
    with pytest.raises(EventInvalid, match="same id"):
        log.append("job/a", 0, [one, one])


async def test_an_id_conflict_leaves_its_neighbours_alone(log: EventLog) -> None:
    """Appends that share a commit with a refused one are stored."""
    taken = event()
    await log.append("job/a", 0, [taken])

    tickets = [
        log.append("job/b", 0, events(2)),
        log.append("job/c", 0, [taken]),
        log.append("job/d", 0, events(1)),
        log.append("job/b", 2, events(1)),
    ]

    assert (2, 3) == ((await tickets[0]).first, (await tickets[0]).last)
    with pytest.raises(EventIdConflict):
        await tickets[1]
    assert [4, 5] == [(await ticket).first for ticket in tickets[2:]]
    check_chain(await everything(log))


# Tickets


async def test_appends_that_are_not_awaited_keep_their_order(log: EventLog) -> None:
    """The next append to a stream may be queued before the last one is acknowledged."""
    tickets = [log.append("job/a", version, events(1)) for version in range(20)]

    last = await tickets[-1]

    assert (20, 20) == (last.version, last.last)
    assert list(range(1, 21)) == [(await ticket).version for ticket in tickets]


async def test_what_was_queued_after_a_failed_append_fails_too(log: EventLog) -> None:
    """It was decided upon as if the first one had succeeded; other streams go on."""
    await log.append("job/a", 0, events(1))

    failing = log.append("job/a", 0, events(1))
    # By its number this one would fit.
    follower = log.append("job/a", 1, events(1))
    other = log.append("job/b", 0, events(1))

    for ticket in (failing, follower):
        with pytest.raises(VersionConflict):
            await ticket
    assert 2 == (await other).last
    assert 2 == await log.last_position()
    # Who knows of the failure starts anew.
    assert 2 == (await log.append("job/a", 1, events(1))).version


async def test_followers_in_later_batches_fail_too(log: EventLog) -> None:
    """So it is however the appends fall into commits, as long as the failure was not told."""
    await log.append("job/a", 0, events(1))
    failing = log.append("job/a", 0, events(1))
    followers = [log.append("job/a", 1 + n, events(1)) for n in range(3)]
    await checkpoint()
    late = outcome(log, "job/a", 4, events(1))

    with pytest.raises(VersionConflict):
        await failing
    for follower in followers:
        with pytest.raises(VersionConflict):
            await follower
    assert isinstance(await late, VersionConflict)
    assert 1 == await log.last_position()


async def test_a_waiter_who_is_cancelled_disturbs_nobody(log: EventLog) -> None:
    """The append happens all the same, and others who wait for it are told."""
    told: list[int] = []

    async def wait() -> None:
        told.append((await ticket).version)

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            scope.cancel()
            ticket = log.append("job/a", 0, events(1))
            group.start_soon(wait)
            group.start_soon(wait)
            await ticket

    assert scope.cancelled_caught
    assert [1, 1] == told
    assert 1 == (await ticket).version
    assert 1 == (await log.head("job/a")).version


async def test_a_cancelled_waiter_does_not_hear_of_a_failure(log: EventLog) -> None:
    """Others do."""
    told: list[LogError] = []

    async def wait() -> None:
        with pytest.raises(VersionConflict) as e:
            await ticket
        told.append(e.value)

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            scope.cancel()
            ticket = log.append("job/a", 5, events(1))
            group.start_soon(wait)
            await ticket

    assert scope.cancelled_caught
    assert 1 == len(told)


async def test_an_append_outlives_the_scope_that_made_it(log: EventLog) -> None:
    """Cancelling the whole task group of an appender loses nothing that was queued."""
    with anyio.CancelScope() as scope:
        tickets = [log.append("job/a", n, events(1)) for n in range(3)]
        scope.cancel()
        await checkpoint()

    assert scope.cancelled_caught
    assert 3 == (await tickets[-1]).version


async def test_a_failed_ticket_tells_everyone_who_asks(log: EventLog) -> None:
    """Also those who ask late, and more than once."""
    ticket = log.append("job/a", 5, events(1))

    for _ in range(3):
        with pytest.raises(VersionConflict):
            await ticket


async def test_many_appenders_at_once(log: EventLog) -> None:
    """Each stream has its events in its own order, and the log has no hole."""

    async def appender(stream: str) -> None:
        for version in range(20):
            ticket = await log.append(stream, version, events(1 + version % 3)[:1])
            assert version + 1 == ticket.version

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(appender, f"trial/{number}")

    stored = await everything(log)
    assert 1000 == len(stored)
    check_chain(stored)


async def test_more_events_in_one_append_than_one_statement_holds(log: EventLog) -> None:
    """An append may be of any size and is still one."""
    offered = events(1700)

    done = await log.append("job/a", 0, offered)
    more = await log.append("job/a", 1700, events(700))

    assert (1, 1700, 1700) == (done.first, done.last, done.version)
    assert (1701, 2400, 2400) == (more.first, more.last, more.version)
    assert [o.id for o in offered] == [e.id for e in await log.read("job/a", limit=1700)]
    check_chain(await everything(log))


# Reading


async def test_a_stream_is_read_from_a_version(log: EventLog) -> None:
    """`after` and `limit` choose; a stream that does not exist is empty."""
    await log.append("job/a", 0, events(5))
    await log.append("job/b", 0, events(1))

    def versions(read: list[RecordedEvent]) -> list[int]:
        return [e.version for e in read]

    assert [1, 2, 3, 4, 5] == versions(await log.read("job/a"))
    assert [4, 5] == versions(await log.read("job/a", after=3))
    assert [2, 3] == versions(await log.read("job/a", after=1, limit=2))
    assert [] == await log.read("job/a", after=1, limit=0)
    names = ["job/b", "job/none", "job/a"]
    assert [await log.read(name) for name in names] == await log.read_each(names)
    assert [await log.head(name) for name in names] == await log.heads(names)
    assert [] == await log.read("job/a", after=5)
    assert [] == await log.read("job/none")


async def test_all_events_are_read_from_a_position(log: EventLog) -> None:
    """In batches, up to the last one that was there, or `until`."""
    for number in range(3):
        await log.append(f"job/{number}", 0, events(900))

    async def positions(**span: int) -> list[int]:
        batches = [batch async for batch in log.read_all(**span)]
        assert all(1 <= len(batch) <= 1000 for batch in batches)
        return [e.position for batch in batches for e in batch]

    assert list(range(1, 2701)) == await positions()
    assert list(range(2000, 2701)) == await positions(after=1999)
    assert list(range(3, 6)) == await positions(after=2, until=5)
    assert list(range(2700, 2701)) == await positions(after=2699, until=9999)
    assert [] == await positions(after=2700)
    assert [] == await positions(after=9000)
    assert [] == await positions(after=5, until=3)


async def test_the_head_of_a_stream(log: EventLog) -> None:
    """Version and hash of its last event; 0 and the hash of its name where there is none."""
    head = await log.head("job/a")
    assert (0, first_previous("job/a")) == (head.version, head.hash)

    await log.append("job/a", 0, events(2))

    head = await log.head("job/a")
    assert (2, (await log.read("job/a"))[-1].hash) == (head.version, head.hash)


async def test_streams_are_listed_by_prefix(log: EventLog) -> None:
    """In the order of their first events; the prefix is no pattern."""
    assert [] == await log.streams()
    for name in ("trial/b", "job/a_c", "trial/a", "job/aXc", "review/%"):
        await log.append(name, 0, events(1))
    await log.append("trial/b", 1, events(1))

    assert ["trial/b", "job/a_c", "trial/a", "job/aXc", "review/%"] == await log.streams()
    assert ["trial/b", "trial/a"] == await log.streams("trial/")
    assert ["job/a_c"] == await log.streams("job/a_")
    assert ["review/%"] == await log.streams("review/%")
    assert [] == await log.streams("none")


async def test_a_log_has_a_name(log: EventLog) -> None:
    """A random one, so that two logs can be told apart."""
    assert 32 == len(log.log_id)


# Following


async def collect(
    log: EventLog, count: int, *, after: int = 0, streams: list[str] | None = None
) -> list[RecordedEvent]:
    """The first events that a subscription gives."""
    got: list[RecordedEvent] = []
    async with aclosing(log.subscribe(after=after, streams=streams)) as batches:
        async for batch in batches:
            assert batch
            got += batch
            if len(got) >= count:
                break
    return got


async def test_a_subscription_catches_up_and_follows(log: EventLog) -> None:
    """First what is there, then what comes, each event once and in order."""
    await log.append("job/a", 0, events(1500))
    got: list[RecordedEvent] = []

    async def follow() -> None:
        got.extend(await collect(log, 1510, after=2))

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        await wait_all_tasks_blocked()
        for number in range(12):
            await log.append("job/b", number, events(1))

    assert list(range(3, 1513)) == [e.position for e in got]


async def test_a_subscription_to_some_streams(log: EventLog) -> None:
    """Only their events come, also of a stream that did not exist when it began."""
    for number in range(30):
        await log.append(f"trial/{number}", 0, events(100))
    got: list[RecordedEvent] = []

    async def follow() -> None:
        got.extend(await collect(log, 203, streams=["trial/28", "trial/new", "trial/3"]))

    async with anyio.create_task_group() as group:
        group.start_soon(follow)
        await wait_all_tasks_blocked()
        await log.append("trial/5", 100, events(1))
        await log.append("trial/new", 0, events(2))
        await log.append("trial/6", 100, events(1))
        await log.append("trial/3", 100, events(1))

    assert {"trial/3": 101, "trial/28": 100, "trial/new": 2} == Counter(e.stream for e in got)
    assert sorted(got, key=lambda e: e.position) == got
    assert [e.position for e in got[-3:]] == [3002, 3003, 3005]


async def test_a_subscription_from_the_end_of_some_streams(log: EventLog) -> None:
    """`after` counts for chosen streams as well."""
    await log.append("trial/a", 0, events(5))
    await log.append("trial/b", 0, events(5))

    got = await collect(log, 2, after=8, streams=["trial/a", "trial/b"])

    assert [9, 10] == [e.position for e in got]


async def test_subscriptions_end_with_the_log(log: EventLog) -> None:
    """A follower is told that nothing will come any more."""
    reasons: list[str] = []

    async def follow(streams: list[str] | None) -> None:
        with pytest.raises(LogUnavailable) as e:
            await collect(log, 1, streams=streams)
        reasons.append(e.value.reason)

    async with anyio.create_task_group() as group:
        group.start_soon(follow, None)
        group.start_soon(follow, ["job/a"])
        await wait_all_tasks_blocked()
        await log.aclose()

    assert ["it is closed"] * 2 == reasons


# Closing


async def test_closing_writes_what_is_queued(log: EventLog) -> None:
    """Also when nobody has awaited it."""
    tickets = [log.append("job/a", n, events(1)) for n in range(10)]

    await log.aclose()

    assert 10 == (await tickets[-1]).version


async def test_a_closed_log_says_so(log: EventLog) -> None:
    """Closing it twice does no harm."""
    await log.append("job/a", 0, events(1))
    await log.aclose()
    await log.aclose()

    assert "it is closed" in str(await outcome(log, "job/a", 1, events(1)))
    for read in (log.head, log.read):
        with pytest.raises(LogUnavailable, match="closed"):
            await read("job/a")
    for ask in (log.last_position, log.streams):
        with pytest.raises(LogUnavailable, match="closed"):
            await ask()
    with pytest.raises(LogUnavailable, match="closed"):
        await everything(log)


# Text of every sort

LINES = "\u2028\u2029\u0085\v\f\x1c\x1d\x1e\r\n\t\x00\x7f\ufeff\U0001f600e\u0301"


async def test_every_character_comes_back(log: EventLog) -> None:
    """Line separators of every sort, controls and characters beyond the first plane."""
    text = f"<{LINES}>"

    for number in range(100):
        await log.append("job/a", number, [event(warning(f"{number}{text}"))])
    await log.append("job/a", 100, [event(SandboxRemoved(sandbox_id=text))])

    stored = [decode(e) for e in await log.read("job/a")]
    assert [warning(f"{n}{text}") for n in range(100)] == stored[:100]
    assert SandboxRemoved(sandbox_id=text) == stored[100]
    check_chain(await everything(log))


async def test_text_that_is_no_unicode_is_stored_with_a_mark(log: EventLog) -> None:
    """A lone surrogate becomes U+FFFD; it never stops an append."""
    await log.append("job/a", 0, [event(warning("a\ud800b\udcffc"))])

    (stored,) = await log.read("job/a")
    assert warning("a\ufffdb\ufffdc") == decode(stored)
    check_chain([stored])


# A model: whatever is appended in whatever order, the log says what a plain dict says.

NAMES = st.sampled_from(["job/a", "trial/b", "review/ü\u2028"])
TEXTS = st.text(max_size=30)
STEPS = st.lists(
    st.tuples(NAMES, st.integers(-1, 1), st.lists(TEXTS, min_size=1, max_size=3), st.booleans()),
    max_size=25,
)


@pytest.mark.parametrize("store", STORES)
@given(steps=STEPS)
@settings(max_examples=40)
def test_the_log_is_what_a_model_says(store: str, steps: list[Any]) -> None:
    """Random appends, right and wrong, awaited and not, repeated: the log and a dict agree."""

    async def run(folder: Path) -> None:
        model: dict[str, list[NewEvent]] = {}
        async with STORES[store](folder) as log:
            waiting: list[Any] = []
            for stream, off, texts, wait in steps:
                expected = len(model.get(stream, [])) + off
                offered = [event(warning(text)) for text in texts]
                if off:
                    for ticket in waiting:
                        await ticket
                    waiting.clear()
                    with pytest.raises(VersionConflict):
                        await log.append(stream, expected, offered)
                else:
                    ticket = log.append(stream, expected, offered)
                    again = log.append(stream, expected, offered)
                    model.setdefault(stream, []).extend(offered)
                    waiting += [ticket, again]
                    if wait:
                        assert await again == await ticket
            for ticket in waiting:
                await ticket
            for stream, offered in model.items():
                stored = await log.read(stream)
                assert [o.id for o in offered] == [s.id for s in stored]
                assert [o.payload for o in offered] == [decode(s) for s in stored]
            assert list(model) == await log.streams()
            check_chain(await everything(log))

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(run, Path(folder))
