"""How long a job ran."""

from __future__ import annotations

from helpers.given import at, recorded, started
from trialog.projections.wall import Sessions


def saw(sessions: Sessions, *versions: int) -> None:
    """Events a second apart, by their versions."""
    events = recorded("trial/t", [started()] * max(versions))
    sessions.saw(event for event in events if event.version in versions)


def test_nothing_before_the_first_end() -> None:
    """A job that runs for the first time has no figure yet."""
    sessions = Sessions()
    assert sessions.wall_seconds() is None

    sessions.start(at(1))
    saw(sessions, 5)

    assert sessions.wall_seconds() is None


def test_the_engines_own_figure_holds() -> None:
    """A session that ended has the seconds that its engine measured."""
    sessions = Sessions()
    sessions.start(at(1))
    saw(sessions, 5)
    sessions.finish(7.25)
    saw(sessions, 9)

    assert 7.25 == sessions.wall_seconds()


def test_every_session_counts() -> None:
    """The figure covers all sessions, those that were killed too."""
    sessions = Sessions()
    sessions.start(at(1))
    saw(sessions, 2, 4)
    sessions.start(at(101))
    sessions.finish(0.5)

    assert 3.5 == sessions.wall_seconds()


def test_late_news_of_a_killed_session() -> None:
    """A trial's events belong to the session that they were recorded in, whenever they are read."""
    sessions = Sessions()
    sessions.start(at(1))
    sessions.start(at(11))
    saw(sessions, 4, 12)
    sessions.finish(2.0)

    assert 5.0 == sessions.wall_seconds()


def test_an_interrupted_session_ends_with_what_ran_then() -> None:
    """What ends within the grace after an interruption counts; a person's score later does not."""
    sessions = Sessions()
    sessions.start(at(1))
    sessions.interrupt(at(6))
    assert 5.0 == sessions.wall_seconds()

    saw(sessions, 36, 200)

    assert 35.0 == sessions.wall_seconds()


def test_a_job_that_another_process_ended() -> None:
    """Ended by a process that had not run it, a job lasted until its last event before that."""
    sessions = Sessions()
    sessions.finish(None)
    sessions.start(at(1))
    saw(sessions, 4)
    sessions.finish(None)
    assert 3.0 == sessions.wall_seconds()

    saw(sessions, 60)

    assert 3.0 == sessions.wall_seconds()


def test_ended_by_another_process_after_an_interruption() -> None:
    """An interrupted session that another process ends stays the interrupted one."""
    sessions = Sessions()
    sessions.start(at(1))
    sessions.interrupt(at(6))
    sessions.finish(None)
    saw(sessions, 36)

    assert 35.0 == sessions.wall_seconds()


def test_a_session_never_reaches_into_the_next() -> None:
    """What one process read before it knew of the next session is cut at its start."""
    sessions = Sessions()
    sessions.start(at(1))
    saw(sessions, 30)
    sessions.start(at(11))

    assert 10.0 == sessions.wall_seconds()


def test_events_from_before_the_job() -> None:
    """A clock that stepped back gives no negative time."""
    sessions = Sessions()
    sessions.start(at(10))
    saw(sessions, 2)
    sessions.start(at(20))

    assert 0.0 == sessions.wall_seconds()


def test_ends_without_a_beginning() -> None:
    """A stream that lacks its start is read all the same."""
    sessions = Sessions()
    sessions.interrupt(at(1))
    sessions.finish(1.0)
    saw(sessions, 1)

    assert sessions.wall_seconds() is None
