"""Trials that wait for people: which they are, what a reviewer is shown, and the review."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from ...events.clock import RandomIds, SystemClock
from ..environment import find_secrets
from ..errors import CommandRefused, ConfigError
from ..hooks.pool import HookPool
from ..job.conclude_reviewed import conclude_reviewed
from ..job.services import Services
from ..labels.current import job_tasks
from ..location import NotFound, job_folder, job_started
from ..people.decide import Submission, parse_scores
from ..people.submit import submit
from ..people.waiting import Evidence, evidence, waiting
from ..redact import Redactor
from ..redacting_log import redacting
from ..sandbox.none import NoSandboxes
from ..trial.load import load_trial
from .failure import EXIT_OK
from .rows import view_of
from .session import Request, Session, opened
from .table import aligned
from .text import escaped, number, plural, shortened, text_of

__all__ = ("list_waiting", "open_trial", "submit_review")

WIDTH = 200
"""Characters of a step that are shown."""

STATE_WIDTH = 1000
"""Characters of an app's final state that are shown."""


async def list_waiting(request: Request, *, job: str | None) -> int:
    """``trialog human list``; gives the exit code."""
    async with opened(request, job) as session:
        found = await waiting(session.log, await session.job(job) if job else None)
    terminal = request.terminal
    for wanted in found if terminal.json else ():
        terminal.data(wanted)
    if terminal.json:
        return EXIT_OK
    if not found:
        terminal.line("no trial waits for a person")
        return EXIT_OK
    table = [("TRIAL", "VERIFIER", "CRITERIA", "SINCE (UTC)", "TASK", "JOB")]
    table += [
        (
            escaped(one.trial), escaped(one.verifier), escaped(", ".join(one.criteria)),
            one.since[:16].replace("T", " "), escaped(one.task), escaped(one.job),
        )
        for one in found
    ]  # fmt: skip
    for line in aligned(table):
        terminal.line(line)
    return EXIT_OK


async def open_trial(request: Request, trial: str) -> int:
    """``trialog human open``; gives the exit code."""
    async with opened(request, trial) as session:
        name = await session.trial(trial)
        found = await evidence(session.log, name)
        if found is None:
            raise NotFound(f"trial {name} has no event yet")
        if not found.requests and not found.given:
            raise CommandRefused(
                f"trial {name} asks no person; `trialog human list` shows those that do"
            )
        started = await job_started(session.log, found.job)
        folder = job_folder(session.place, started) / name
        taken = [task for task in started.tasks if task.task == found.task]
        task = (await job_tasks(taken, session.log.blobs)).get(found.task)
        instructions = task.data.instructions if task else ""
    terminal = request.terminal
    if terminal.json:
        told = {"instructions": instructions, "folder": str(folder)}
        terminal.data({**msgspec.to_builtins(found), **told})
        return EXIT_OK
    for line in _shown(found, instructions):
        terminal.line(line)
    terminal.line(f"Files: {escaped(session.shown(folder))}/ (steps.jsonl has every step in full)")
    for request_ in found.requests:
        scores = _example(found, request_.verifier)
        terminal.line(
            f"Next: trialog human submit {escaped(name)} --verifier {escaped(request_.verifier)} "
            f'{escaped(scores)} --feedback "…"'
        )
    return EXIT_OK


def _shown(found: Evidence, instructions: str) -> Iterator[str]:
    yield f"Trial {escaped(found.trial)}: task {escaped(found.task)}, agent {escaped(found.agent)}"
    if instructions.strip():
        yield "Its instructions:"
        for line in instructions.strip().splitlines():
            yield f"  {escaped(line)}"
    for name in found.given:
        yield f"The review of {escaped(name)} is in"
    for request in found.requests:
        yield f"{escaped(request.verifier)} is asked:"
        for line in (text_of(request.instructions) or "").splitlines():
            yield f"  {escaped(line)}"
        for criterion in request.criteria:
            blocker = ", and the trial passes only with full marks" if criterion.blocker else ""
            yield (
                f"  {escaped(criterion.name)} ({criterion.min_score:g} to "
                f"{criterion.max_score:g}{blocker})"
            )
            for line in (text_of(criterion.description) or "").splitlines():
                yield f"    {escaped(line)}"
    yield "Steps:" if found.steps else "No step was taken"
    if found.steps_left_out:
        yield f"  ({plural(found.steps_left_out, 'earlier step')} in steps.jsonl)"
    for step in found.steps:
        yield f"  {shortened(step, WIDTH)}"
    yield "Answer: " + ("none" if found.answer is None else escaped(found.answer))
    for app, state in found.final_state.items():
        yield f"Final state of {escaped(app)}: {shortened(state, STATE_WIDTH)}"
    for verdict in found.verdicts:
        score = number(verdict.score)
        yield f"Verifier {escaped(verdict.name)} ({verdict.kind}) gave {score}"
        for text in (*verdict.evidence, *([verdict.feedback] if verdict.feedback else [])):
            yield f"  {escaped(text_of(text))}"
    if found.artifacts:
        yield "Artifacts: " + escaped(", ".join(found.artifacts))


def _example(found: Evidence, verifier: str) -> str:
    (asked,) = [request for request in found.requests if request.verifier == verifier]
    if len(asked.criteria) == 1:
        return f"--score {asked.criteria[0].max_score:g}"
    return " ".join(f'--score "{c.name}={c.max_score:g}"' for c in asked.criteria)


async def _only_owed(session: Session, trial: str) -> str:
    """The verifier whose review is the only one that is owed."""
    owed = [asked.verifier for asked in (await load_trial(session.log, trial)).awaiting]
    if len(owed) > 1:
        raise ConfigError(
            f"{len(owed)} reviews are owed: name one of {', '.join(owed)}", key="--verifier"
        )
    if not owed:
        raise CommandRefused(
            f"trial {trial} waits for no review; `trialog human list` shows those that do"
        )
    return owed[0]


async def submit_review(
    request: Request,
    trial: str,
    *,
    verifier: str | None,
    score: Sequence[str],
    feedback: str | None,
    reviewer: str | None,
) -> int:
    """``trialog human submit``; gives the exit code."""
    scores = parse_scores(score)
    secrets = find_secrets((), request.environ, {})
    terminal = request.terminal
    terminal.hide(secrets)
    async with opened(request, trial, readonly=False) as session:
        name = await session.trial(trial)
        verifier = verifier or await _only_owed(session, name)
        words = Submission(verifier=verifier, scores=scores, feedback=feedback, reviewer=reviewer)
        log = redacting(session.log, Redactor(secrets))
        services = Services(
            log=log, log_id=session.log.log_id, backend=NoSandboxes(), clock=SystemClock(),
            ids=RandomIds(), jobs_folder=session.place.folder, environ=request.environ,
            secrets=secrets,
        )  # fmt: skip
        async with HookPool() as hooks:
            reviewed = await submit(
                log, name, words, clock=services.clock, ids=services.ids,
                conclude=partial(conclude_reviewed, services, hooks),
            )  # fmt: skip
        view = await view_of(session.log, name)
    document: dict[str, Any] = {
        "trial": name,
        "verifier": verifier,
        "score": reviewed.review.score,
        "waits_for": reviewed.waits_for,
    }
    if terminal.json:
        terminal.data(document)
        return EXIT_OK
    terminal.line(f"{escaped(verifier)} scored {escaped(name)}: {number(reviewed.review.score)}")
    if reviewed.waits_for:
        terminal.line(f"it still waits for {escaped(', '.join(reviewed.waits_for))}")
    elif view is not None and view.finish is not None:
        terminal.line(
            f"all reviews are in and the trial is finished; `trialog show {escaped(name)}`"
        )
    return EXIT_OK
