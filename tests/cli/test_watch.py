"""What is shown of a running job, on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from trialog.engine.console.progress import Pace, progress_line
from trialog.engine.console.terminal import Terminal
from trialog.engine.console.watch import JobWatch
from trialog.engine.job.report import (
    JobClosed,
    JobOpened,
    Notice,
    Progress,
    Report,
    TrialBegan,
    TrialEnded,
)


class Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        """Whether it is one."""
        return self.terminal


class FixedClock:
    """A monotonic clock that stands where it was put."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> str:
        """A fixed time."""
        return "2026-01-01T00:00:00.000000Z"

    def monotonic(self) -> float:
        """Seconds."""
        return self.seconds


def ended(**fields: Any) -> TrialEnded:
    """A trial that passed, but for these fields."""
    given: dict[str, Any] = {
        "trial": "t__1", "task": "t", "agent": "oracle", "model": None, "attempt": 1,
        "execution": 1, "outcome": "scored", "passed": True, "reward": 1.0, "tools": 0,
    }  # fmt: skip
    return TrialEnded(**{**given, **fields})


def progress(**fields: int) -> Progress:
    """A job of ten with two done, but for these fields."""
    given = {
        "slots": 10, "done": 2, "running": 3, "waiting": 5, "scored": 2, "passed": 1,
        "errored": 0, "unscored": 0,
    }  # fmt: skip
    return Progress(**{**given, **fields})


REPORTS: list[Report] = [
    JobOpened(job="j", folder="jobs/j", slots=10, sandbox="docker", resumed=False),
    Notice(level="warning", message="no \x1b[2J limits"),
    TrialBegan(trial="t__1", task="t", agent="oracle", stage="start"),
    ended(),
    progress(),
    JobClosed(job="j", folder="jobs/j", interrupted=False, seconds=1.0),
]


def shown(
    reports: list[Report],
    *,
    terminal: bool = False,
    json_mode: bool = False,
    environ: dict[str, str] | None = None,
) -> tuple[str, str, JobWatch]:
    """Standard output, standard error, and the watch, after these reports."""
    out, err = Screen(terminal=terminal), Screen(terminal=terminal)
    environ = {"TERM": "xterm", **(environ or {})}
    watch = JobWatch(
        Terminal(json=json_mode, environ=environ, out=out, err=err),
        {"agents": ["oracle"], "attempts": 1},
        clock=FixedClock(),
    )
    with watch:
        for report in reports:
            watch(report)
    return out.getvalue(), err.getvalue(), watch


def test_plain_output() -> None:
    """Away from a terminal: results on standard output, news on standard error, no escapes."""
    out, err, _ = shown(REPORTS)
    assert out == "[PASS] t (reward=1.00, tools=0)\n"
    assert err == "Job j started: 10 trials on docker\nwarning: no \\x1b[2J limits\n"


def test_json_output() -> None:
    """With --json every report is one object on a line, and people read standard error."""
    out, err, _ = shown(REPORTS, json_mode=True)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["report"] for line in lines] == [
        "job-opened", "notice", "trial-began", "trial-ended", "progress", "job-closed",
    ]  # fmt: skip
    assert "[PASS] t (reward=1.00, tools=0)\n" in err


def test_live_line_on_a_terminal() -> None:
    """A terminal gets the live line, which is gone at the end; the lines above it stay."""
    out, err, _ = shown(REPORTS, terminal=True)
    assert "2/10 done, 3 running, 5 waiting · pass rate 50.0% [9.5%, 90.5%]" in err
    assert "[PASS]" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out + err)
    assert err.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_plain_terminal(environ: dict[str, str]) -> None:
    """NO_COLOR and TERM=dumb mean plain lines on a terminal too."""
    out, err, _ = shown(REPORTS, terminal=True, environ=environ)
    assert "\x1b" not in out + err
    assert out == "[PASS] t (reward=1.00, tools=0)\n"


def test_plain_progress_comes_seldom() -> None:
    """Away from a terminal a progress line comes every half minute at most."""
    err = Screen()
    clock = FixedClock()
    watch = JobWatch(Terminal(environ={}, out=Screen(), err=err), {}, clock=clock)
    watch._show(progress())
    clock.seconds += 31
    watch._show(progress(done=3))
    watch._show(progress(done=4))
    assert err.getvalue().count(" done, ") == 1
    assert err.getvalue().startswith("3/10 done, 3 running, 5 waiting")


def test_warnings_and_timeouts_are_collected() -> None:
    """Warnings are kept for one list at the end; a try that is repeated counts for nothing."""
    _, _, watch = shown(
        [
            ended(task="a", warnings=["w"], category="idle_timeout"),
            ended(task="b", warnings=["w"]),
            ended(task="c", warnings=["w"], outcome="errored", error="x", will_retry=True),
            ended(task="d", outcome="unscored", error="x"),
        ]
    )
    assert watch.tally.warnings == {"w": ["a", "b"]}
    assert watch.tally.idle_timeouts == 1
    assert [trial.task for trial in watch.tally.not_scored] == ["d"]


def test_progress_line() -> None:
    """Done, running, waiting; pass rate with its interval; speed and time left."""
    pace = Pace()
    pace.seen(progress(done=0), 0.0)
    assert progress_line(progress(unscored=1, done=4), pace, 60.0) == (
        "4/10 done, 3 running, 5 waiting · pass rate 50.0% [9.5%, 90.5%] · 1 unscored"
        " · 4.0/min · 1min 30s left"
    )


def test_pace_of_a_resume() -> None:
    """What an earlier run did counts for no speed."""
    pace = Pace()
    pace.seen(progress(done=8), 0.0)
    assert pace.a_minute(progress(done=8), 60.0) is None
    assert pace.a_minute(progress(done=9), 60.0) == 1.0
    assert progress_line(progress(done=8, scored=0, passed=0), pace, 1.0) == (
        "8/10 done, 3 running, 5 waiting"
    )
