"""A trial's reward ledger, for a person."""

from __future__ import annotations

from functools import partial

from anyio import to_thread

from ...events.kinds import ActionTaken
from ...events.log import EventLog
from ...projections.source import read_trial
from ..labels.asof import AsOf, parse_as_of
from ..labels.ledger import Ledger, ledger_of
from ..location import NotFound
from .failure import EXIT_OK
from .session import Request, opened
from .table import aligned
from .text import escaped, text_of

__all__ = ("read_ledger", "refuse_unknown", "show_rewards")


async def read_ledger(
    log: EventLog, trial: str, moment: AsOf | None, *, every: bool = False
) -> Ledger | None:
    """A trial's ledger as it stands, or stood; with `every`, all versions' labels."""
    events = await read_trial(log, trial)
    return await to_thread.run_sync(partial(ledger_of, events, moment, every_version=every))


async def show_rewards(request: Request, trial: str, *, as_of: str | None) -> int:
    """``trialog rewards``; gives the exit code."""
    moment = parse_as_of(as_of) if as_of else None
    async with opened(request, trial) as session:
        name = await session.trial(trial)
        ledger = await read_ledger(session.log, name, moment, every=moment is None)
        if ledger is None:
            raise NotFound(f"trial {name} has no event yet")
        if moment is not None:
            refuse_unknown(moment, ledger)
    terminal = request.terminal
    if terminal.json:
        for line in ledger.lines:
            terminal.data(line)
        return EXIT_OK
    if not ledger.lines:
        terminal.line("no reward was given")
    else:
        for shown in aligned(_reward_table(ledger)):
            terminal.line(shown)
    steps = _steps(ledger)
    for failure in ledger.failed:
        which = f"{steps[failure.step]} " if failure.step in steps else ""
        terminal.line(
            f"! {escaped(failure.verifier)} {escaped(failure.version)}: no reward for step "
            f"{which}{failure.step}: {escaped(text_of(failure.error))}"
        )
    return EXIT_OK


def refuse_unknown(moment: AsOf, ledger: Ledger) -> None:
    """Raise NotFound for a version that never labelled the trial."""
    given = {(line.verifier, line.version) for line in ledger.lines}
    given |= {(one.verifier, one.version) for one in ledger.applied}
    given |= {(one.verifier, one.version) for one in ledger.failed}
    if (moment.verifier, moment.version) not in given:
        raise NotFound(f"trial {ledger.view.started.trial} has no label of {moment}")


def _steps(ledger: Ledger) -> dict[str, str]:
    """Number and action of every step, by its event's id: ``3. counter.add``."""
    taken = [(e.id, step) for e, step in ledger.view.history if isinstance(step, ActionTaken)]
    return {
        event_id: escaped(f"{number}. {step.app}.{step.action}")
        for number, (event_id, step) in enumerate(taken, start=1)
    }


def _reward_table(ledger: Ledger) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [
        ("VERIFIER", "VERSION", "SOURCE", "VALUE", "SPACE", "STEP", "TARGET", "STANDS")
    ]
    steps = _steps(ledger)
    for line in ledger.lines:
        label = line.source in ("step", "hindsight")
        stands = not label or ledger.versions.get(line.verifier) == line.version
        target = f"{line.target.kind} {line.target.event_id}"
        if line.target.token_start is not None:
            target += f" tokens {line.target.token_start}–{line.target.token_end}"
        elif line.target.start is not None:
            target += f" {line.target.field} {line.target.start}–{line.target.end}"
        table.append(
            (
                escaped(line.verifier), escaped(line.version or "–"), line.source,
                f"{line.value:g}", line.space, steps.get(line.target.event_id, "–"),
                escaped(target), "yes" if stands else "no",
            )
        )  # fmt: skip
    return table
