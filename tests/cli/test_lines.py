"""The console's lines, letter by letter."""

from __future__ import annotations

from typing import Any

import pytest

from trialog.engine.console.lines import (
    labels,
    plan_line,
    separate_lines,
    summary_lines,
    trial_line,
    warning_lines,
)
from trialog.engine.console.table import figure_lines
from trialog.engine.console.tally import Tally, kept_lines
from trialog.engine.job.plan import PlannedSlot
from trialog.engine.job.report import TrialEnded
from trialog.events.kinds.parts import Slot


def ended(task: str = "half-life", **fields: Any) -> TrialEnded:
    """A trial that passed, but for these fields."""
    given: dict[str, Any] = {
        "trial": f"{task}__00000000",
        "task": task,
        "agent": "oracle",
        "model": None,
        "attempt": 1,
        "execution": 1,
        "outcome": "scored",
        "passed": True,
        "reward": 1.0,
        "tools": 0,
    }
    return TrialEnded(**{**given, **fields})


def test_an_error_of_one_of_several_verifiers() -> None:
    """The line says whose error it is where the task has several."""
    failed: dict[str, Any] = {"outcome": "unscored", "error": "KeyError: 'x' (at verify.py:2)"}
    assert "(KeyError: 'x' (at verify.py:2))" in trial_line(ended(**failed))
    line = trial_line(ended(**failed, verifier="b"))
    assert line == "[ERR] half-life (tools=0) (verifier b: KeyError: 'x' (at verify.py:2))"


USED = ("model_calls", "input_tokens", "output_tokens", "cached_tokens", "cost_usd")


def summary(**counts: int) -> dict[str, Any]:
    """A summary with these counts; its figures are of 1 passed and 1 failed with 0.6667."""
    return {
        "counts": {
            "slots": 3, "scored": 2, "passed": 1, "failed": 1, "unscored": 1, "errored": 0,
            "awaiting_review": 0, "cancelled": 0, "superseded": 0, **counts,
        },
        "pass_rate": {"value": 0.5, "n": 2, "low": 0.0945, "high": 0.9055, "method": "wilson"},
        "mean_reward": {"value": 0.83335, "n": 2, "low": -1.284, "high": 2.951, "method": "t"},
        "separate_verifiers": {"count": 0, "tasks": []},
        "wall_seconds": 18.2,
        "usage": dict.fromkeys(USED),
    }  # fmt: skip


def tally(*trials: TrialEnded) -> Tally:
    """These trials, summed up."""
    found = Tally()
    for trial in trials:
        found.take(trial)
    return found


def test_separate_verifiers() -> None:
    """Trials graded apart are counted, and tasks that were moved there unprepared are named."""
    assert separate_lines(summary()) == []
    found = {**summary(), "separate_verifiers": {"count": 3, "tasks": []}}
    assert separate_lines(found) == ["Verifier: 3 separate"]
    found["separate_verifiers"]["tasks"] = ["a b", "half-life"]
    assert separate_lines(found) == [
        "Verifier: 3 separate",
        "--verifier-sandbox separate moved 2 tasks that declare no artifacts: a b, half-life. "
        "There their test sees the workspace and /logs/artifacts alone: what an agent left "
        "elsewhere (a file, a database, a running service) scores 0 as if it had never been made",
        "      next: `trialog check 'a b' --verifier-sandbox separate` runs the controls so",
    ]


LOST = ended(
    "other-task", outcome="unscored", passed=None, reward=None, category="transfer_failed",
    infrastructure=True, error="separate verifier transfer failed: artifact",
)  # fmt: skip


@pytest.mark.parametrize(
    ("trial", "line"),
    [
        (ended(), "[PASS] half-life (reward=1.00, tools=0)"),
        (ended(passed=False, reward=2 / 3), "[FAIL] half-life (reward=0.67, tools=0)"),
        (ended(tools=12), "[PASS] half-life (reward=1.00, tools=12)"),
        (LOST, "[ERR] other-task (tools=0) (separate verifier transfer failed: artifact)"),
        (
            ended(outcome="errored", passed=False, reward=None, error="no such image"),
            "[ERR] half-life (tools=0) (no such image)",
        ),
        (
            ended(outcome="errored", passed=False, error="lost", will_retry=True),
            "[RETRY] half-life (tools=0) (lost)",
        ),
        (
            ended(outcome="cancelled", passed=None, category="cancelled"),
            "[STOP] half-life (tools=0) (cancelled)",
        ),
        (
            ended(passed=False, reward=None, error="verifier wrote no usable reward"),
            "[FAIL] half-life (reward=none, tools=0) (verifier wrote no usable reward)",
        ),
        (
            ended(category="agent_exit", agent_error="the agent exited with code 3"),
            "[PASS] half-life (reward=1.00, tools=0) (agent exited with code 3)",
        ),
        (
            ended(
                passed=False,
                reward=0.0,
                category="agent_timeout",
                agent_error="the agent was stopped after 10.0s",
            ),
            "[FAIL] half-life (reward=0.00, tools=0) (agent_timeout: stopped after 10.0s)",
        ),
        (
            ended(category="agent_exit", agent_error="ValueError: a\n\x1b[2Jb"),
            r"[PASS] half-life (reward=1.00, tools=0) (agent_exit: ValueError: a \x1b[2Jb)",
        ),
        (
            ended(category="agent_exit"),
            "[PASS] half-life (reward=1.00, tools=0) (agent_exit)",
        ),
        (
            ended(outcome="awaiting_review", passed=None, reward=None),
            "[WAIT] half-life (tools=0) (waits for people)",
        ),
    ],
)
def test_trial_line(trial: TrialEnded, line: str) -> None:
    """One line a trial: verdict, task, reward, tools, and the reason where there is no verdict."""
    assert trial_line(trial) == line


def test_hostile_names_and_reasons() -> None:
    """A task's name and a verifier's error can't bring in colours, lines or markup."""
    trial = ended("x\x1b[2J[red]", outcome="errored", error="a\nb\x1b]0;title\x07[/red]")
    assert trial_line(trial) == r"[ERR] x\x1b[2J[red] (tools=0) (a b\x1b]0;title\x07[/red])"


def test_long_reason_is_cut() -> None:
    """A reason is one line of bounded length."""
    line = trial_line(ended(outcome="errored", error="word " * 500))
    assert line.endswith("word…)")
    assert len(line) < 200


def test_summary() -> None:
    """The summary's lines; n is scored + errored, so the unscored trial is in no denominator."""
    lines = summary_lines(summary(), tally(LOST), folder="jobs/2026-11-04__16-55-38")
    assert lines == [
        "Job complete: 1/2 (50.0%), mean_reward=0.83, errors=0, idle_timeouts=0, time=0.3min",
        "Outcomes: 2 scored (1 passed, 1 failed), 1 unscored, 0 errored",
        "  1 unscored: the verifier's sandbox failed (infrastructure problem): other-task",
        "      next: `trialog resume jobs/2026-11-04__16-55-38` scores it again",
        "Pass rate 50.0% [9.4%, 90.5%], mean reward 0.83 [-1.28, 2.95] (95% intervals, n=2)",
    ]


def test_next_after_a_verifiers_own_fault() -> None:
    """Where the verifier itself failed a resume would fail again; a regrade after mending won't."""
    trials = [
        ended(name, outcome="unscored", category="verifier_failed", error="raised")
        for name in ("b", "a")
    ]
    lines = summary_lines(summary(unscored=2), tally(*trials), folder="my jobs/x")
    assert lines[2:4] == [
        "  2 unscored: the verifier itself failed (verifier_failed): a, b",
        "      next: mend the test; `trialog regrade 'my jobs/x'` then grades it again",
    ]


def test_judges_that_gave_no_verdict_are_told_apart() -> None:
    """A judge that can't be had is no sandbox that failed, and what helps is told."""
    trials = [
        ended(category, outcome="unscored", category=category, error="e", infrastructure=True)
        for category in ("judge_cost_limit", "judge_failed", "judge_unavailable")
    ]
    lines = summary_lines(summary(unscored=3), tally(*trials), folder="jobs/x")
    assert lines[2:8] == [
        "  1 unscored: the judges' cost limit is reached, or can't be held: judge_cost_limit",
        "      next: `trialog resume jobs/x --judge-max-cost USD` with more",
        "  1 unscored: a judge's endpoint gave no reply (infrastructure problem): judge_failed",
        "      next: `trialog resume jobs/x` scores it again",
        "  1 unscored: no judge can be had (its package, key, endpoint or model): "
        "judge_unavailable",
        "      next: `trialog explain judge_unavailable`; then "
        "`trialog resume jobs/x` scores it again",
    ]


def test_errored_trials_are_named() -> None:
    """Errored trials are grouped by cause, with the command that runs them again."""
    trials = [
        ended("a", outcome="errored", category="sandbox_lost"),
        ended("b", outcome="errored", category="something_new"),
    ]
    lines = summary_lines(summary(unscored=0, errored=2), tally(*trials), folder="jobs/x")
    assert lines[2:6] == [
        "  1 errored: the sandbox went away while it was in use (sandbox_lost): a",
        "      next: `trialog resume jobs/x` runs it again",
        "  1 errored: something_new: b",
        "      next: `trialog resume jobs/x --only errored` runs it again",
    ]


def test_what_whoever_ran_it_has_to_mend_is_mended_first() -> None:
    """A resume runs the agent that the job recorded, so it is no way to run a mended one."""
    trials = tally(ended(outcome="errored", category="agent_install_failed"))
    line = summary_lines(summary(unscored=0, errored=1), trials, folder="j")[3]
    assert line == (
        "      next: mend it (`trialog explain agent_install_failed`), then "
        "`trialog run --from j`; `trialog resume j --only errored` runs it as it was"
    )


def test_refused_limits_are_not_tried_again() -> None:
    """Limits that --strict-limits refused would be refused again: no resume is advised."""
    trials = tally(ended(outcome="errored", category="limits_refused"))
    line = summary_lines(summary(unscored=0, errored=1), trials, folder="j")[3]
    assert line == "      next: lower the limits, or run without --strict-limits"


def test_long_output_keeps_its_end() -> None:
    """Of an error of many lines the first and the last are shown, for the last says why."""
    built = "its image can't be built: " + "x" * 200 + "\nStep 1\nE: Unable to locate package foo"
    line = trial_line(ended(outcome="errored", error=built))
    assert line.startswith("[ERR] half-life (tools=0) (its image can't be built: xxx")
    assert line.endswith("… E: Unable to locate package foo)")
    assert len(line) < 200


def test_failing_agents_are_counted() -> None:
    """Scored trials whose agents failed are one line by category, and none where all were well."""
    trials = [ended(category="agent_timeout"), *[ended(category="agent_exit")] * 4, ended(), LOST]
    lines = summary_lines(summary(), tally(*trials), folder="j")
    assert lines[-2] == "Agents: 4 agent_exit, 1 agent_timeout (see trialog explain agent_exit)"
    lines = summary_lines(summary(), tally(ended(), LOST), folder="j")
    assert not any(line.startswith("Agents:") for line in lines)


def test_tampered_trials_are_told() -> None:
    """Trials that left something for the verifier are one line, five of them by name."""
    trials = [ended(f"t{n}", tampered=1 + n % 2) for n in range(7)]
    lines = summary_lines(summary(), tally(*trials, ended()), folder="j")
    assert lines[-2] == (
        "tamper: 7 trials left something in the verifier's places: t0__00000000, t1__00000000, "
        "t2__00000000, t3__00000000, t4__00000000 and 2 more; trialog show TRIAL lists it"
    )
    one = summary_lines(summary(), tally(trials[0]), folder="j")[-2]
    assert one.startswith("tamper: 1 trial left something in the verifier's places: t0__00000000;")


def test_kept_sandboxes_are_told() -> None:
    """Sandboxes that were kept are named, with what to do with them; of repeated tries too."""
    again = ended("a", outcome="errored", will_retry=True, kept=True)
    first, then = kept_lines(tally(again, ended("b", kept=True), ended("c")))
    assert first == "2 sandboxes kept: a__00000000, b__00000000"
    assert "`trialog exec a__00000000 -- CMD`" in then
    assert kept_lines(tally(ended())) == []


MATRIX: dict[str, Any] = {"agents": ["nop", "oracle"], "attempts": 2}


def test_figures_by_group() -> None:
    """A matrix has its figures by agent, model and parameters, by task, and pass@k."""
    trials = [
        ended("a", agent="x", passed=passed, reward=float(passed), attempt=n, parameters={"t": 1})
        for n, passed in enumerate([True, False], 1)
    ]
    trials.append(ended("b", agent="y\x1b", outcome="errored", passed=None, reward=None))
    trials.append(ended("b", agent="z", outcome="unscored", passed=None, reward=None))
    assert figure_lines(tally(*trials).groups, MATRIX) == [
        "  AGENT  PARAMETERS  PASSED  RATE   95%         REWARD  PASS@1  PASS@2",
        "  x      t=1         1/2     50.0%  9.5%–90.5%  0.50    50.0%   100.0%",
        r"  y\x1b  –           0/1     0.0%   0.0%–79.3%  0.00    0.0%    –",
        "  TASK  PASSED  RATE   95%         REWARD  PASS@1  PASS@2",
        "  a     1/2     50.0%  9.5%–90.5%  0.50    50.0%   100.0%",
        "  b     0/1     0.0%   0.0%–79.3%  0.00    0.0%    –",
    ]


def test_no_table_without_groups() -> None:
    """One agent and one attempt have no table; many tasks are none; many attempts are few k."""
    assert figure_lines(tally(ended("a"), ended("b")).groups, {"attempts": 1}) == []
    assert figure_lines(tally().groups, MATRIX) == []
    many = [ended(f"t{n}", agent=agent) for n in range(13) for agent in "xy"]
    lines = figure_lines(tally(*many).groups, {"attempts": 1})
    assert [line.split()[0] for line in lines] == ["AGENT", "x", "y"]
    head = figure_lines(tally(ended(), ended(attempt=12)).groups, {"attempts": 12})[0]
    assert head.split()[5:] == ["PASS@1", "PASS@5", "PASS@10", "PASS@12"]


def test_many_names_are_cut() -> None:
    """A group names ten tasks and counts the rest."""
    trials = [ended(f"t{n:02}", outcome="unscored", infrastructure=True) for n in range(13)]
    line = summary_lines(summary(unscored=13), tally(*trials), folder="j")[2]
    assert line.endswith(": t00, t01, t02, t03, t04, t05, t06, t07, t08, t09 and 3 more")


def test_rare_outcomes_are_counted() -> None:
    """Cancelled, waiting and unfinished trials are named only where there are some."""
    lines = summary_lines(summary(slots=9, cancelled=2, awaiting_review=1), tally(), folder="j")
    assert lines[1] == (
        "Outcomes: 2 scored (1 passed, 1 failed), 1 unscored, 0 errored, 2 cancelled, "
        "1 waiting for people, 3 not finished"
    )


def test_nothing_scored() -> None:
    """Figures that there are none of are dashes, not zeros."""
    empty = summary(scored=0, passed=0, failed=0)
    for name in ("pass_rate", "mean_reward"):
        empty[name] = {"value": None, "n": 0, "low": None, "high": None, "method": "x"}
    lines = summary_lines(empty, tally(), folder="j", word="interrupted")
    assert lines[0].startswith("Job interrupted: 0/0 (–), mean_reward=–, errors=0")
    assert lines[-1] == "Pass rate – [–, –], mean reward – [–, –] (95% intervals, n=0)"


def test_labels_only_where_needed() -> None:
    """A line names agent, model, parameter and attempt only where the job has several."""
    trial = ended(agent="nop", model="m\x1b", attempt=2, parameters={"t": 1, "u": "x"})
    one: dict[str, Any] = {
        "agents": ["nop"],
        "models": [],
        "attempts": 1,
        "parameters": [trial.parameters],
    }
    assert labels(trial, one) == ""
    many = {"agents": ["nop", "oracle"], "models": ["m", "n"], "attempts": 3}
    rows = [{"t": 1, "u": "x"}, {"t": 2, "u": "x"}]
    assert labels(trial, {**many, "parameters": rows}) == r"agent=nop model=m\x1b t=1 attempt=2"


def test_warnings_are_said_once() -> None:
    """The same warning of several trials is one line with their tasks."""
    assert warning_lines({"no user": ["b", "a", "a"], "x\x1b": ["c"]}) == [
        "warning: no user: a, b (3 trials)",
        r"warning: x\x1b: c",
    ]


def test_plan_line() -> None:
    """A planned slot is one line: what, which, why."""
    slot = Slot(task="t\x07", agent="nop", model="m", parameters={"t": 0.5}, attempt=2)
    planned = PlannedSlot(slot=slot, action="run", reason="never begun")
    assert plan_line(planned) == r"run    t\x07 agent=nop model=m t=0.5 attempt=2: never begun"


@pytest.mark.parametrize(
    ("used", "line"),
    [
        ((3, 1200, 56, 1000, 0.01234), "3, 1,200 tokens in (1,000 cached), 56 out, $0.0123"),
        ((1, 0, 0, None, 0.0), "1, 0 tokens in, 0 out, $0.0000"),
        ((1200, None, 9, None, None), "1,200, 9 tokens out"),
        ((1, None, None, None, 0.0000123), "1, $0.000012"),
    ],
)
def test_what_models_used(used: tuple[Any, ...], line: str) -> None:
    """Calls, tokens and cost are told at a job's end as far as they are known; unknown is no 0."""
    told = summary() | {"usage": dict(zip(USED, used, strict=True))}
    assert summary_lines(told, tally(), folder="j")[-1] == f"Model calls: {line}"
    assert not [one for one in summary_lines(summary(), tally(), folder="j") if "Model" in one]
