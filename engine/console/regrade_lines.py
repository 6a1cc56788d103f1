"""A regrade in lines: its table, what it came to, and why some trials have no new grade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...projections.regrade import RegradeDocument
from ...projections.regrade_summary import RegradeSummary
from ...projections.regrades import Graded
from ..regrade.report import Digests, TrialRegraded
from .text import escaped, number, percent, plural, telling, text_of

__all__ = (
    "counts_line",
    "planned_line",
    "regrade_lines",
    "regraded_line",
    "table",
    "trial_notes",
)

_TITLES = ("Trial", "Original", "New", "Verdict")
_WHY = 200
"""Characters of a reason that a line shows."""


def regrade_lines(summary: RegradeSummary, path: str) -> Iterator[str]:
    """The table, the line with the counts, and what needs a reader's attention."""
    rows = [
        (
            escaped(row.trial_name),
            _reward(row.original),
            _reward(row.new),
            row.verdict.replace("_", " "),
        )
        for row in summary.trials
    ]
    yield from table(f"Regrade {escaped(summary.regrade_id)}", _TITLES, rows)
    yield f"{counts_line(summary)}. Summary: {escaped(path)}"
    for row in summary.trials:
        if row.error is not None:
            why = telling(text_of(row.error), _WHY)
            yield f"  {escaped(row.trial_name)}: {row.verdict.replace('_', ' ')}: {why}"
    for name in summary.flaky:
        yield f"! flaky verifier: {escaped(name)} has another verdict now, with the same files"
    if summary.mixed_verifiers:
        yield "Mixed verifiers: the job's current verdicts come from different ones:"
        for figures in summary.by_digest:
            yield (
                f"  {escaped(figures.task_name)} by {figures.verifier_digest[:19]}: "
                f"{figures.passed}/{figures.trials} passed ({percent(figures.pass_rate)}), "
                f"mean reward {number(figures.mean_reward)}"
            )


def counts_line(summary: RegradeSummary) -> str:
    """What a regrade came to, in counts."""
    counts = summary.counts
    return (
        f"{counts.regraded}/{counts.trials} regraded, {counts.changed} changed "
        f"({counts.fail_to_pass} fail->pass, {counts.pass_to_fail} pass->fail), "
        f"{counts.failed} failed, {counts.not_regradable} not regradable"
    )


def regraded_line(found: RegradeDocument) -> str:
    """The regrade that stands for a trial, for `trialog show`."""
    verdict = found.verdict.replace("_", " ")
    reward = "" if found.new.reward is None else f", reward {found.new.reward:g}"
    why = "" if found.error is None else f": {telling(text_of(found.error), _WHY)}"
    others = f", {plural(len(found.history), 'other')}" if found.history else ""
    return f"  regraded: {verdict}{reward} ({escaped(found.regrade_id)}{others}){why}"


def _reward(graded: Graded) -> str:
    return "–" if graded.reward is None else f"{graded.reward:g}"


def table(title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A framed table with its title in the middle above it. It is never cut to a width."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    whole = sum(widths) + 3 * len(widths) + 1
    yield (" " * max((whole - len(title)) // 2, 0) + title).rstrip()
    yield "┏" + "┳".join("━" * (width + 2) for width in widths) + "┓"
    yield "┃" + "┃".join(f" {t:<{w}} " for t, w in zip(titles, widths, strict=True)) + "┃"
    yield "┡" + "╇".join("━" * (width + 2) for width in widths) + "┩"
    for row in rows:
        yield "│" + "│".join(f" {c:<{w}} " for c, w in zip(row, widths, strict=True)) + "│"
    yield "└" + "┴".join("─" * (width + 2) for width in widths) + "┘"


def planned_line(report: TrialRegraded) -> str:
    """What would be done with a trial."""
    named = escaped(report.trial)
    if report.verdict is not None:
        why = telling(report.reason or "", _WHY)
        return f"not regradable {named} ({report.category}): {why}"
    return f"would regrade  {named} (now {_reward(report.original)})"


def _change(digests: Digests) -> str:
    if digests.run is None:
        return f"gave no verdict in the run (now {_short(digests.now)})"
    if digests.run == digests.now:
        return f"is as in the run ({_short(digests.now)})"
    return f"changed since the run: {_short(digests.run)} -> {_short(digests.now)}"


def _short(digest: str | None) -> str:
    return "none" if digest is None else digest.removeprefix("sha256:")[:12]


def trial_notes(report: TrialRegraded) -> Iterator[str]:
    """What a reader of a trial's new grade should know."""
    for note in report.notes:
        yield f"note: {escaped(report.trial)}: {escaped(note)}"
    for name, digests in report.verifiers.items():
        yield f"note: {escaped(report.trial)}: {escaped(name)} {_change(digests)}"
    for warning in report.warnings:
        yield f"warning: {escaped(report.trial)}: {escaped(text_of(warning) or '')}"
