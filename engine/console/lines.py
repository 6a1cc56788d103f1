"""The lines of a job: one a trial, and the summary. Plain text; style is put on elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

import msgspec

from ...events.codes import CATEGORIES
from ...events.values import unescape
from ...projections.usage import UsageTotal, dollars
from ..job.plan import PlannedSlot
from ..job.report import TrialEnded
from .tally import Tally, agent_line, tamper_line
from .text import escaped, number, percent, plural, shortened, telling

__all__ = (
    "errored_lines",
    "interval_line",
    "labels",
    "outcome_line",
    "plan_line",
    "separate_lines",
    "summary_line",
    "summary_lines",
    "trial_line",
    "unscored_lines",
    "usage_lines",
    "used",
    "warning_lines",
)

REASON_WIDTH = 160
_NAMES_SHOWN = 10
_TAGS = {"unscored": "ERR", "errored": "ERR", "cancelled": "STOP", "awaiting_review": "WAIT"}
_WORDS = {"awaiting_review": "waits for people"} | {
    word: word for word in ("unscored", "errored", "cancelled")
}
_PHRASES = {
    "reward_tampered": "what the agent left could not be put out of the test's way",
    "engine_fault": "trialog itself failed",
    "log_unavailable": "the log could not be written",
    "judge_failed": "a judge's endpoint gave no reply",
    "judge_unavailable": "no judge can be had (its package, key, endpoint or model)",
    "judge_cost_limit": "the judges' cost limit is reached, or can't be held",
    "world_gone": "a check asks apps that went away with the engine",
}


_NEXT = "      next: "


def trial_line(trial: TrialEnded, label: str = "") -> str:
    """``[PASS] half-life (reward=1.00, tools=0)``, and what tells it from others of its task."""
    tail = f" {label}" if label else ""
    task = escaped(trial.task)
    if trial.outcome == "scored":
        tag = "PASS" if trial.passed else "FAIL"
        reward = "none" if trial.reward is None else f"{trial.reward:.2f}"
        reason = f" ({telling(trial.error, REASON_WIDTH)})" if trial.error else ""
        reason += _agent_fault(trial)
        return f"[{tag}] {task} (reward={reward}, tools={trial.tools}){reason}{tail}"
    tag = "RETRY" if trial.will_retry else _TAGS[trial.outcome]
    whose = f"verifier {trial.verifier}: " if trial.verifier and trial.error else ""
    reason = telling(whose + (trial.error or trial.category or _WORDS[trial.outcome]), REASON_WIDTH)
    return f"[{tag}] {task} (tools={trial.tools}) ({reason}){tail}"


def _agent_fault(trial: TrialEnded) -> str:
    """How a scored trial's agent failed: `` (agent exited with code 3)``."""
    if trial.category is None:
        return ""
    said = trial.agent_error or ""
    if said.startswith("the agent exited"):
        return f" ({shortened(said.removeprefix('the '), REASON_WIDTH)})"
    said = said.removeprefix("the agent was ")
    what = f": {telling(said, REASON_WIDTH)}" if said else ""
    return f" ({escaped(trial.category)}{what})"


class OfSlot(Protocol):
    """A trial, as far as its slot goes."""

    @property
    def agent(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def attempt(self) -> int: ...


def labels(trial: OfSlot, config: Mapping[str, Any]) -> str:
    """What tells a trial from others of its task: only what the job has several of."""
    parts: list[str] = []
    if len(config.get("agents") or ()) > 1:
        parts.append(f"agent={escaped(trial.agent)}")
    if len(config.get("models") or ()) > 1:
        parts.append(f"model={escaped(trial.model)}")
    rows: Sequence[Mapping[str, Any]] = config.get("parameters") or ()
    for name, value in sorted(trial.parameters.items()):
        if any(row.get(name) != value for row in rows):
            parts.append(f"{escaped(name)}={escaped(value)}")
    if (config.get("attempts") or 1) > 1:
        parts.append(f"attempt={trial.attempt}")
    return " ".join(parts)


def summary_lines(
    summary: Mapping[str, Any], tally: Tally, *, folder: str, word: str = "complete"
) -> list[str]:
    """The block after a job's trials."""
    told = (agent_line(tally), tamper_line(tally), *separate_lines(summary))
    return [
        summary_line(summary, word=word, idle_timeouts=tally.idle_timeouts),
        outcome_line(summary),
        *_with_advice(unscored_lines(tally.not_scored, folder), summary),
        *_with_advice(errored_lines(tally.not_scored, folder), summary),
        *(line for line in told if line is not None),
        *tally.hook_errors.lines(),
        interval_line(summary),
        *usage_lines(summary),
    ]


def _with_advice(lines: list[str], summary: Mapping[str, Any]) -> list[str]:
    """All of them; without what to do next for a job that another system ran."""
    if "imported" not in summary:
        return lines
    return [line for line in lines if not line.startswith(_NEXT)]


def summary_line(summary: Mapping[str, Any], *, word: str, idle_timeouts: int) -> str:
    """``Job complete: 1/2 (50.0%), mean_reward=0.83, …``; of the trials scored or errored."""
    counts, rate = summary["counts"], summary["pass_rate"]
    minutes = (summary["wall_seconds"] or 0.0) / 60
    return (
        f"Job {word}: {counts['passed']}/{rate['n']} ({percent(rate['value'])}), "
        f"mean_reward={number(summary['mean_reward']['value'])}, errors={counts['errored']}, "
        f"idle_timeouts={idle_timeouts}, time={minutes:.1f}min"
    )


def outcome_line(summary: Mapping[str, Any]) -> str:
    """``Outcomes: 2 scored (1 passed, 1 failed), 1 unscored, 0 errored``, and others if any."""
    counts = summary["counts"]
    line = (
        f"Outcomes: {counts['scored']} scored ({counts['passed']} passed, "
        f"{counts['failed']} failed), {counts['unscored']} unscored, {counts['errored']} errored"
    )
    if counts["cancelled"]:
        line += f", {counts['cancelled']} cancelled"
    if counts["awaiting_review"]:
        line += f", {counts['awaiting_review']} waiting for people"
    ended = sum(
        counts[name] for name in ("scored", "unscored", "errored", "cancelled", "awaiting_review")
    )
    if counts["slots"] > ended:
        line += f", {counts['slots'] - ended} not finished"
    return line


def unscored_lines(trials: Iterable[TrialEnded], folder: str) -> list[str]:
    """Why trials have no score, one group a cause, and what to do next."""
    lines: list[str] = []
    trials = list(trials)
    regraded = [one for one in trials if one.outcome == "unscored" and one.regraded is not None]
    for id in sorted({str(one.regraded) for one in regraded}):
        group = [one for one in regraded if one.regraded == id]
        lines.append(f"  {len(group)} unscored in the run, graded by regrade {id}: {_names(group)}")
        file = shlex.quote(f"{folder}/{group[0].trial}/regrade.json")
        lines.append(f"      see: {escaped(file)}, or `trialog show {escaped(group[0].trial)}`")
    left = [one for one in trials if one.regraded is None]
    for (machine, category), group in _grouped(left, "unscored"):
        if machine:
            it = "it" if len(group) == 1 else "them"
            phrase = _PHRASES.get(category, "the verifier's sandbox failed")
            setting = category in ("judge_cost_limit", "judge_unavailable")
            why = phrase if setting else f"{phrase} (infrastructure problem)"
            then = f"`trialog resume {shlex.quote(folder)}` scores {it} again"
            if category == "judge_cost_limit":
                then = f"`trialog resume {shlex.quote(folder)} --judge-max-cost USD` with more"
            elif category == "judge_unavailable":
                then = f"`trialog explain {category}`; then {then}"
        elif category == "reward_tampered":
            why = f"{_PHRASES[category]} ({category})"
            then = f"`trialog regrade {shlex.quote(folder)}` grades its saved work"
        else:
            why = f"the verifier itself failed ({category})"
            if category == "replay_differs":
                why = f"a judge is asked something else than in the record ({category})"
            then = f"mend the test; `trialog regrade {shlex.quote(folder)}` then grades it again"
            if category == "replay_differs":
                then = _compare(folder, group[0])
            elif category == "work_too_large":
                why = f"the agent left too much to be graded elsewhere ({category})"
                only = f"`trialog resume {shlex.quote(folder)} --only {category}`"
                then = f"`trialog explain {category}`; {only} runs the agent again"
        lines.append(f"  {len(group)} unscored: {why}: {_names(group)}")
        lines.append(f"{_NEXT}{then}")
    return lines


def errored_lines(trials: Iterable[TrialEnded], folder: str) -> list[str]:
    """Why there was no work to grade, one group a cause, and what to do next."""
    lines: list[str] = []
    for (_, category), group in _grouped(trials, "errored"):
        it = "it" if len(group) == 1 else "them"
        known = CATEGORIES.get(category)
        machine = known is not None and known.blame == "infrastructure"
        again = f"`trialog resume {shlex.quote(folder)}{'' if machine else ' --only errored'}`"
        then = f"{again} runs {it} again"
        if known is not None and known.blame == "user":  # a resume takes what was recorded
            then = (
                f"mend it (`trialog explain {category}`), then `trialog run --from "
                f"{shlex.quote(folder)}`; {again} runs {it} as it was"
            )
        if category == "limits_refused":  # the job keeps its own tasks: it would refuse again
            then = "lower the limits, or run without --strict-limits"
        if category == "replay_differs":
            then = _compare(folder, group[0])
        lines.append(f"  {len(group)} errored: {_meaning(category)}: {_names(group)}")
        lines.append(f"{_NEXT}{then}")
    return lines


def _compare(folder: str, trial: TrialEnded) -> str:
    place = shlex.quote(f"{folder}/{trial.trial}/replay")
    return f"compare recorded.json with request.json in {escaped(place)}"


def separate_lines(summary: Mapping[str, Any]) -> list[str]:
    """``Verifier: 2 separate``, and which tasks were moved there without saying what they need."""
    found = summary["separate_verifiers"]
    if not found["count"]:
        return []
    lines = [f"Verifier: {found['count']} separate"]
    if tasks := found["tasks"]:
        it = "its" if len(tasks) == 1 else "their"
        lines.append(
            f"--verifier-sandbox separate moved {plural(len(tasks), 'task')} that "
            f"{'declares' if len(tasks) == 1 else 'declare'} no artifacts: {_listed(tasks)}. There "
            f"{it} test sees the workspace and /logs/artifacts alone: what an agent left elsewhere "
            "(a file, a database, a running service) scores 0 as if it had never been made"
        )
        one = shlex.quote(escaped(tasks[0]))
        lines.append(
            f"      next: `trialog check {one} --verifier-sandbox separate` runs the controls so"
        )
    return lines


def _grouped(
    trials: Iterable[TrialEnded], outcome: str
) -> Iterable[tuple[tuple[bool, str], list[TrialEnded]]]:
    def cause(trial: TrialEnded) -> tuple[bool, str]:
        return (trial.infrastructure, trial.category or "unknown")

    chosen = sorted((t for t in trials if t.outcome == outcome), key=cause)
    for key, group in groupby(chosen, cause):
        yield key, list(group)


def _meaning(category: str) -> str:
    known = CATEGORIES.get(category)
    if known is None:
        return escaped(category)
    sentence = known.meaning.rstrip(".").split(";")[0]
    return f"{sentence[:1].lower()}{sentence[1:]} ({category})"


def _names(trials: Sequence[TrialEnded]) -> str:
    return _listed({trial.task for trial in trials})


def _listed(tasks: Iterable[str]) -> str:
    names = sorted({escaped(task) for task in tasks})
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"


def interval_line(summary: Mapping[str, Any]) -> str:
    """Pass rate and mean reward with their 95 % intervals."""
    rate, mean = summary["pass_rate"], summary["mean_reward"]
    return (
        f"Pass rate {percent(rate['value'])} {_between(percent, rate)}, "
        f"mean reward {number(mean['value'])} {_between(number, mean)} "
        f"(95% intervals, n={rate['n']})"
    )


def usage_lines(summary: Mapping[str, Any]) -> list[str]:
    """What the models of all executions used; nothing where none was called."""
    usage = msgspec.convert(summary["usage"], UsageTotal)
    return [f"Model calls: {used(usage)}"] if usage.model_calls else []


def used(usage: UsageTotal) -> str:
    """``3, 1,200 tokens in (1,000 cached), 56 out, $0.0123``, with what is known of it."""
    parts = [f"{usage.model_calls:,}"]
    if usage.input_tokens is not None:
        cached = "" if usage.cached_tokens is None else f" ({usage.cached_tokens:,} cached)"
        parts.append(f"{usage.input_tokens:,} tokens in{cached}")
    if usage.output_tokens is not None:
        tokens = "" if usage.input_tokens is not None else " tokens"
        parts.append(f"{usage.output_tokens:,}{tokens} out")
    if usage.cost_usd is not None:
        parts.append(dollars(usage.cost_usd))
    return ", ".join(parts)


def _between(shown: Any, figure: Mapping[str, Any]) -> str:
    if figure["low"] is None or figure["high"] is None:
        return "[–, –]"
    return f"[{shown(figure['low'])}, {shown(figure['high'])}]"


def warning_lines(warnings: Mapping[str, Sequence[str]]) -> list[str]:
    """Warnings by message, each said once, with the tasks that it came up in."""
    lines: list[str] = []
    for message, tasks in warnings.items():
        names = sorted({escaped(task) for task in tasks})
        shown = ", ".join(names[:_NAMES_SHOWN])
        if len(names) > _NAMES_SHOWN:
            shown += f" and {len(names) - _NAMES_SHOWN} more"
        times = f" ({plural(len(tasks), 'trial')})" if len(tasks) > 1 else ""
        lines.append(f"warning: {escaped(message)}: {shown}{times}")
    return lines


def plan_line(planned: PlannedSlot) -> str:
    """What a resume would do with one slot, and why."""
    slot = planned.slot
    named = [f"{slot.task}", f"agent={slot.agent}"]
    if slot.model is not None:
        named.append(f"model={slot.model}")
    named += [f"{key}={value}" for key, value in unescape(slot.parameters).items()]
    named.append(f"attempt={slot.attempt}")
    return f"{planned.action:<6} {escaped(' '.join(named))}: {escaped(planned.reason)}"
