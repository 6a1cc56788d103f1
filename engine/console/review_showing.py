"""Rubric reviews as a person reads them: the newest of what was named, or one by its name."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from anyio import to_thread

from ...events.kinds import ReviewStarted
from ...projections.reviews import REPORT, all_reviews, review_files
from ..location import NotFound
from .reviews import WIDTH
from .session import Request, Session, opened
from .terminal import Terminal
from .text import escaped, shortened

__all__ = ("show_review",)


class _Known(NamedTuple):
    what: str
    reviews: dict[str, ReviewStarted]
    """Oldest first."""


async def show_review(request: Request, thing: str, *, review: str | None) -> int:
    """``trialog review show``: the newest review of a job, a trial or a folder, or the one that is
    named."""
    async with opened(request, thing) as session:
        known = await _known(session, thing)
        if not known.reviews:
            raise NotFound(f"{known.what} has no review; `trialog review run` makes one")
        chosen = review or list(known.reviews)[-1]
        if chosen not in known.reviews:
            have = ", ".join(known.reviews)
            raise NotFound(f"{known.what} has no review {chosen}; it has {have}")
        report: bytes | None = None
        async for placed in review_files(session.log, chosen):
            if REPORT in placed.files.documents:
                report = placed.files.documents[REPORT]
            for problem in placed.files.problems:
                request.terminal.message(f"error: {escaped(problem)}")
        if report is None:
            _, subject = _places(session.place.folder, known.reviews[chosen])
            named = shlex.quote(session.shown(Path(subject)))
            command = f"trialog review run {named} --resume {chosen}"
            raise NotFound(f"review {chosen} has not finished; `{command}` goes on")
        await to_thread.run_sync(_show, request.terminal, chosen, msgspec.json.decode(report))
        others = [name for name in known.reviews if name != chosen]
        if others and review is None and not request.terminal.json:
            shows = f"--review {others[-1]} shows one"
            request.terminal.message(f"the newest of {len(known.reviews)} reviews; {shows}")
    return 0


async def _known(session: Session, thing: str) -> _Known:
    """The reviews of what was named."""
    every = await all_reviews(session.log)
    try:
        job = await session.job(thing)
        return _Known(f"job {job}", {name: begun for name, begun in every if begun.job == job})
    except NotFound as no_job:
        try:
            trial = await session.trial(thing)
        except NotFound:
            folder = os.path.abspath(session.request.here / thing)  # noqa: ASYNC240 - text alone
            found = {
                name: begun
                for name, begun in every
                if folder in _places(session.place.folder, begun)
            }
            if not found:
                raise no_job from None
            return _Known(thing, found)
        return _Known(f"trial {trial}", {n: begun for n, begun in every if trial in begun.trials})


def _places(jobs_folder: Path, begun: ReviewStarted) -> tuple[str, str]:
    """A review's own folder, and what it is of."""
    out = os.path.join(jobs_folder, begun.out_dir)
    return os.path.abspath(out), os.path.abspath(os.path.join(out, begun.path))


def _show(terminal: Terminal, review: str, report: dict[str, Any]) -> None:
    if terminal.json:
        terminal.data({"review": review, **report})
        return
    reviewer = report["reviewer"]
    model = f", model {reviewer['model']}" if reviewer["model"] else ""
    terminal.line(
        f"Review {review} by {escaped(reviewer['agent'])}{escaped(model)} "
        f"({reviewer['environment']}, {reviewer['network']})"
    )
    terminal.line(f"  {escaped(report['job_summary'])}")
    for trial in report["trials"]:
        if not trial["review_valid"]:
            terminal.line(f"[ERR] {escaped(trial['trial_name'])}: {escaped(trial['error'])}")
            continue
        terminal.line(f"[REVIEW] {escaped(trial['trial_name'])}: {escaped(trial['summary'])}")
        for name, check in trial["checks"].items():
            why = shortened(check["explanation"], WIDTH)
            terminal.line(f"  {escaped(name)}: {check['outcome']}: {why}")
        for note in trial["notes"]:
            terminal.line(f"  note: {escaped(note)}")
