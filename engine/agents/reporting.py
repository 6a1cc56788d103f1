"""Running a program that may report what it does, as the agent's phase."""

from __future__ import annotations

from functools import partial

import anyio
from msgspec.structs import replace

from ..trial.folders import AGENT_FOLDER
from .beside import beside
from .program import run_program
from .protocol import AgentContext, AgentOutcome
from .report import Following, report_age
from .report_file import ACTIONS_FILE

CATCH_UP_SEC = 5.0
"""For the report of a phase that was cut off."""


async def run_reporting(
    context: AgentContext, name: str, argv: list[str], env: dict[str, str]
) -> AgentOutcome:
    """Run a program in the workspace, and pass on what it reports while it does."""
    env = env | {"TRIALOG_ACTIONS": f"{AGENT_FOLDER}/{ACTIONS_FILE}"}
    report = Following(context, since=context.clock.now())
    quiet_for = partial(report_age, context.folders.agent_logs)
    run = partial(run_program, context, name, argv, env, quiet_for=quiet_for)
    try:
        ran = await beside(report.follow, run)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(CATCH_UP_SEC, shield=True):
            await report.catch_up()
        raise
    if isinstance(ran, AgentOutcome):
        await report.catch_up()
        return ran
    await report.finish()
    last = replace(ran.exit_action, turn=report.turns + 1)
    return AgentOutcome(events=[last], end=ran.finished, killed=ran.exit.left)
