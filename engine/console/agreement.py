"""How far two verifiers agree, for a person."""

from __future__ import annotations

import msgspec

from ..errors import ConfigError
from ..labels.agreement import agreements, parse_compared, scores_of
from ..labels.trials import job_trials
from ..location import NotFound
from .failure import EXIT_OK
from .rewards import read_ledger
from .session import Request, opened
from .table import aligned
from .text import escaped, number, percent, plural

__all__ = ("show_agreement",)


async def show_agreement(
    request: Request, first: str, second: str, job: str, *, tolerance: float
) -> int:
    """``trialog verifier agreement``; gives the exit code."""
    one, other = parse_compared(first), parse_compared(second)
    if not 0.0 <= tolerance <= 1.0:
        raise ConfigError(
            f"{tolerance} is no distance between scores; give 0 to 1", key="--tolerance"
        )
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    async with opened(request, job) as session:
        found = await job_trials(session.log, await session.job(job))
        scored = [0, 0]
        for scheduled in found.trials:
            ledger = await read_ledger(session.log, scheduled.trial, None, every=True)
            if ledger is None:
                continue
            pair = scores_of(ledger, one), scores_of(ledger, other)
            scored = [count + bool(part) for count, part in zip(scored, pair, strict=True)]
            if all(pair):
                pairs.append(pair)
    terminal = request.terminal
    if not pairs:
        counts = f"{one} scored {scored[0]} and {other} scored {scored[1]}"
        raise NotFound(f"no trial of the job was scored by both: of {len(found.trials)}, {counts}")
    agreed = agreements(pairs, tolerance=tolerance)
    for row in agreed if terminal.json else ():
        terminal.data({"first": str(one), "second": str(other), **msgspec.to_builtins(row)})
    if terminal.json:
        return EXIT_OK
    terminal.line(
        f"{escaped(one)} and {escaped(other)}, scores from 0 to 1, over "
        f"{plural(len(pairs), 'trial')} that both scored"
    )
    within = f"WITHIN {tolerance:g}"
    table = [("CRITERION", "TRIALS", "EXACT", "95%", within, "DIFFERENCE", "DISTANCE", "KAPPA")]
    table += [
        (
            escaped(row.criterion), str(row.trials), percent(row.exact),
            f"{percent(row.low)}–{percent(row.high)}", percent(row.within),
            "–" if row.mean_difference is None else f"{row.mean_difference:+.2f}",
            number(row.mean_distance), number(row.kappa),
        )
        for row in agreed
    ]  # fmt: skip
    for shown in aligned(table):
        terminal.line(shown)
    return EXIT_OK
