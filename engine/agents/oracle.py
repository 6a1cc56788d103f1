"""The oracle: runs the task's reference solution, so that a task can be checked."""

from __future__ import annotations

from anyio import to_thread

from ...events.kinds import AgentFailed
from ..errors import TaskError
from ..tasks.scripts import interpreter
from .program import run_program
from .protocol import AgentContext, AgentOutcome

SOLUTION_SCRIPT = "solve.sh"


class Oracle:
    """Runs ``solve.sh`` in the workspace, with the solution's folder beside it."""

    name = "oracle"
    version: str | None = None
    digest: str | None = None
    program: bytes | None = None
    needs_solution = True
    takes_settings = False

    async def run(self, context: AgentContext) -> AgentOutcome:
        """Run the reference solution."""
        folders = context.folders
        try:
            program = await to_thread.run_sync(interpreter, folders.solution / SOLUTION_SCRIPT)
        except TaskError as error:
            failed = AgentFailed(error=str(error), category="transfer_failed", duration=0.0)
            return AgentOutcome(end=failed)
        inside = folders.solution_targets[0]
        env = {
            **context.solution_env,
            **context.env,
            "TRIALOG_WORKSPACE": folders.workspace,
            "TRIALOG_SOLUTION_DIR": inside,
        }
        script = f"{inside}/{SOLUTION_SCRIPT}"
        ran = await run_program(context, SOLUTION_SCRIPT, [*program, script], env)
        if isinstance(ran, AgentOutcome):
            return ran
        return AgentOutcome(events=[ran.exit_action], end=ran.finished, killed=ran.exit.left)
