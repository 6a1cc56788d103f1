"""A trial as the log has it, for a person."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from anyio import to_thread

from ...events.kinds.parts import RequestDifference
from ...events.log import EventLog
from ...events.values import BlobRef, Text, unescape
from ...projections.grading import VerifierResult
from ...projections.regrade import regrade
from ...projections.result import Result, result
from ...projections.review import RUNTIME, runtime_path
from ...projections.reviews import read_review
from ...projections.source import trial_view
from ...projections.trial import TrialView
from ..location import NotFound, job_folder, job_started
from ..regrade.progress import finished_regrades
from .hook_errors import HookErrors
from .kept import kept_trials
from .lines import labels, trial_line, used
from .regrade_lines import regraded_line
from .rows import cancel_reason, hook_failures, row_of
from .session import Session
from .text import escaped, number, plural, shortened, text_of

__all__ = ("show_trial",)

_FILES = (
    "result.json",
    "rewards.jsonl",
    "steps.jsonl",
    "trajectory.json",
    "regrade.json",
    "verifier/test-stdout.txt",
    "replay/recorded.json",
    "replay/request.json",
)

_WIDTH = 160
"""Characters of a verifier's text that are shown."""

_SHOWN = 10
"""Of a verifier's evidence; all of it is in result.json."""


async def show_trial(session: Session, trial: str) -> None:
    """``trialog show TRIAL``. Raises NotFound for a trial that has not begun."""
    terminal, log = session.terminal, session.log
    view = await trial_view(log, trial)  # with its ledger
    if view is None:
        raise NotFound(f"trial {trial} has no event yet")
    found = result(view)
    folder, config = await _belongs(session, view)
    if terminal.json:
        document = msgspec.to_builtins(found) if found else {"trial_name": trial, "outcome": None}
        terminal.data({**document, "folder": str(folder)})
        return
    if found is None:
        why = "waits for people" if view.awaiting_review else "not finished"
        tag = "WAIT" if view.awaiting_review else "...."
        terminal.line(f"[{tag}] {escaped(view.started.slot.task)} ({why})")
    else:
        terminal.line(trial_line(row_of(view), labels(row_of(view), config)))
    for line in _about(view):
        terminal.line(line)
    if found is not None:
        for line in await _outcome(log, found):
            terminal.line(line)
    if found is not None and view.started.review is None:
        regrades = await finished_regrades(log, view.started.job)
        if (latest := regrade(view, regrades)) is not None:
            terminal.line(regraded_line(latest))
    if trial in await kept_trials(session.place.folder):
        terminal.line(
            f"  sandbox kept: `trialog exec {escaped(trial)} -- CMD` runs a program there"
        )
    files = await to_thread.run_sync(_listed, folder)
    shown = escaped(session.shown(folder))
    terminal.line(f"Files: {shown}/ ({', '.join(files) or 'none there'})")
    terminal.line(f"Every event: `trialog replay {escaped(trial)}`")


async def _belongs(session: Session, view: TrialView) -> tuple[Path, Mapping[str, Any]]:
    """Where a trial's files are, and its job's configuration; a reviewer's own run has no job."""
    trial = view.started.trial
    if view.started.review is not None:
        return await _reviewers_folder(session, view.started.review, trial), {}
    started = await job_started(session.log, view.started.job)
    return job_folder(session.place, started) / trial, unescape(started.config)


async def _reviewers_folder(session: Session, review: str, trial: str) -> Path:
    fold = await read_review(session.log, review)
    assert fold.started is not None  # no reviewer begins before its review
    reviewed = {run: subject for subject, run in fold.reviewers}.get(trial)
    at = RUNTIME if reviewed is None else runtime_path(reviewed, trial)
    return session.place.folder / fold.started.out_dir / at


def _listed(folder: Path) -> list[str]:
    """The trial's files that are there; artifacts by their number."""
    files = [name for name in _FILES if (folder / name).is_file()]
    kept = sum(len(names) for _, _, names in os.walk(folder / "artifacts"))
    return [*files, f"artifacts/ with {plural(kept, 'file')}"] if kept else files


def _about(view: TrialView) -> Iterator[str]:
    started, slot = view.started, view.started.slot
    whose = "job" if started.review is None else "review"
    yield (
        f"  trial {escaped(started.trial)}, attempt {slot.attempt}, execution "
        f"{started.execution}, of {whose} {escaped(started.job)}"
    )
    model = f", model {escaped(slot.model)}" if slot.model else ""
    given = "".join(f", {escaped(k)}={escaped(v)}" for k, v in unescape(slot.parameters).items())
    version = f" {escaped(view.agent_version)}" if view.agent_version else ""
    yield f"  agent {escaped(slot.agent)}{version}{model}{given}"
    if (imported := started.imported) is not None:
        yield (
            f"  imported from {imported.system}: {escaped(imported.name)} in "
            f"{escaped(imported.path)}; trialog did not run it"
        )
    if (replays := started.replays) is not None:
        of = f"{escaped(replays.trial)} of job {escaped(replays.job)}"
        yield f"  model calls answered by the record of trial {of}"
    if (found := view.difference) is not None:
        yield from _difference(found)
    if view.sandbox is not None:
        image = f", image {escaped(view.sandbox.image)}" if view.sandbox.image else ""
        digest = f" ({view.sandbox.image_digest})" if view.sandbox.image_digest else ""
        yield f"  sandbox {view.sandbox.backend}{image}{digest}"


def _difference(found: RequestDifference) -> Iterator[str]:
    """The first part of a request that is not as recorded, as it was and as it is."""
    where = f" at {escaped(found.path)}" if found.path else ""
    yield f"  call {found.call} differs from the record{where}:"
    for word, part in (("recorded", found.recorded), ("now", found.now)):
        yield f"    {word}: {'not there' if part is None else escaped(repr(part))}"


async def _outcome(log: EventLog, found: Result) -> list[str]:
    lines = list(_verdict(found))
    if found.outcome == "cancelled" and (reason := await cancel_reason(log, found.job)):
        lines.append(f"  {escaped(reason)}")
    for error, category in (
        (found.error, found.error_category),
        (found.verifier_error, found.verifier_error_category),
    ):
        if error is not None or category is not None:
            lines += _error(await _whole(log, error), category)
    lines += _work(found)
    return lines


def _error(text: str, category: str | None) -> Iterator[str]:
    """An error with its own line ends: the last lines of a build mostly tell why."""
    first, *rest = escaped(text, lines=True).rstrip("\n").split("\n")
    yield f"  error ({category}): {first}"
    for line in rest:
        yield f"    {line}"
    yield f"      next: `trialog explain {category}` says what to do"


async def _whole(log: EventLog, text: Text | None) -> str:
    if isinstance(text, BlobRef):
        return (await log.blobs.get(text)).decode("utf-8", "replace")
    return text or ""


def _verdict(found: Result) -> Iterator[str]:
    if found.outcome == "scored":
        source = {"engine": "given by the engine", "verifier": "from the verifier"}
        said = source.get(found.reward_source or "", "of no source")
        verdict = "passed" if found.passed else "failed"
        yield f"  scored: {verdict}, score {number(found.score)}, {said}"
        others = {k: v for k, v in (found.rewards or {}).items() if k != "reward"}
        if others:
            yield "  scores: " + ", ".join(f"{escaped(k)}={v:g}" for k, v in others.items())


def _said(verifier: VerifierResult) -> Iterator[str]:
    """What a verifier told of its score."""
    if verifier.error is not None:
        yield f"    error: {shortened(text_of(verifier.error), _WIDTH)}"
    if verifier.scores:
        given = (f"{escaped(name)}={score:g}" for name, score in verifier.scores.items())
        yield f"    scores: {', '.join(given)}"
    for one in verifier.criteria:
        why = f": {shortened(text_of(one.feedback), _WIDTH)}" if one.feedback else ""
        yield (
            f"    {escaped(one.name)}: {number(one.score)} of {one.min_score:g} to "
            f"{one.max_score:g}{why}"
        )
    for text in verifier.evidence[:_SHOWN]:
        yield f"    evidence: {shortened(text_of(text), _WIDTH)}"
    if len(verifier.evidence) > _SHOWN:
        yield f"    and {len(verifier.evidence) - _SHOWN} more in result.json"
    if verifier.feedback:
        yield f"    feedback: {shortened(text_of(verifier.feedback), _WIDTH)}"


def _work(found: Result) -> Iterator[str]:
    """Verifiers, usage, times, warnings, and what could have changed the grade."""
    for verifier in found.verifiers:
        parts = [f"score {number(verifier.score)}"]
        if verifier.exit_code is not None:
            parts.append(f"exit code {verifier.exit_code}")
        if verifier.duration_sec is not None:
            parts.append(f"{verifier.duration_sec:.2f}s")
        yield f"  verifier {escaped(verifier.name)}: {', '.join(parts)}"
        yield from _said(verifier)
    for name, totals in found.reward_totals.items():
        sums = {"steps": totals.step, "hindsight": totals.hindsight}
        given = ", ".join(f"{what} {value:g}" for what, value in sums.items() if value is not None)
        if given:
            yield f"  rewards by {escaped(name)}: {given}"
    errors = HookErrors()
    errors.take(hook_failures(found))
    for line in errors.lines():
        yield f"  {line}"
    if found.usage.model_calls:
        yield f"  model calls: {used(found.usage)}"
    phases = ("build", "start", "agent", "save", "verifier", "total")
    spent = [(phase, getattr(found.timing, phase)) for phase in phases]
    if known := [f"{phase} {s:.2f}s" for phase, s in spent if s is not None]:
        yield f"  time: {', '.join(known)}"
    for warning in found.warnings:
        yield f"  warning ({escaped(warning.code)}): {escaped(text_of(warning.message))}"
    for tamper in found.tamper:
        digest = f" (sha256 {tamper.sha256})" if tamper.sha256 else ""
        yield f"  tamper: {escaped(tamper.path)}: {escaped(tamper.what)}{digest}"
