"""What an agent is for the engine: something that works in a sandbox until its phase is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from ...events.clock import Clock
from ...events.kinds import AgentFailed, AgentFinished, TrialEvent
from ...events.kinds.parts import Process
from ...events.log import BlobStore
from ..models.models import Models
from ..output import Captured
from ..redact import Redactor
from ..sandbox.protocol import Sandbox
from ..trial.folders import TrialFolders
from .assignment import Assignment


class AgentContext(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent gets to work with."""

    sandbox: Sandbox
    folders: TrialFolders
    """With `/task/prompt.md` in place, and the solution for an agent that needs it."""
    prompt: str
    assignment: Assignment
    """The cell of the matrix: model, parameters, seed and the like."""
    env: dict[str, str] = {}
    """--agent-env."""
    solution_env: dict[str, str] = {}
    """The task's `solution.env`, resolved; for the oracle."""
    user: str | None = None
    timeout: float
    """Seconds."""
    idle_timeout: float | None = None
    """Seconds without output."""
    start_timeout: float = 60.0
    patience: float = 1.0
    """By which `timeout` was multiplied, and other deadlines are to be."""
    reviews: bool = False
    """It reads what another agent left, and judges it: for it that is data, and nothing else."""
    network: bool = False
    """Its sandbox has one."""
    keep: bool = False
    """What it leaves running stays for the verifier."""
    blobs: BlobStore
    clock: Clock
    redactor: Redactor | None = None
    """For the output, which comes in pieces; events and blobs are redacted by the log."""
    spool: Path | None = None
    """A file that the output also goes to while it comes."""
    models: Models | None = None
    """For an agent whose loop runs in the engine."""
    emit: Callable[[TrialEvent], str]
    """Puts what the agent did into the log as it comes to be known, before it has ended; gives
    the event's id."""
    cut_off: Callable[[Captured], None]
    """Takes what was printed when the run is cancelled; the engine keeps it."""


class AgentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent's phase went. Nothing of it is in the log yet but what was emitted."""

    events: list[TrialEvent] = []
    """What else there is to tell: to append before `end`."""
    end: AgentFinished | AgentFailed
    killed: list[Process] = []
    """Processes that it had left running, for ProcessesKilled; they stay where they are kept."""


class Agent(Protocol):
    """An agent. One object serves all trials of a job, at the same time too."""

    @property
    def name(self) -> str:
        """As results show it."""
        ...

    @property
    def version(self) -> str | None:
        """Null where it has none."""
        ...

    @property
    def digest(self) -> str | None:
        """SHA-256 (``sha256:…``) of the program that is run, where it is a file of the host's."""
        ...

    @property
    def program(self) -> bytes | None:
        """That program, so that the job can keep it."""
        ...

    @property
    def needs_solution(self) -> bool:
        """Whether the reference solution is put into its sandbox."""
        ...

    @property
    def takes_settings(self) -> bool:
        """Whether a model or parameters can make any difference to what it does."""
        ...

    async def run(self, context: AgentContext) -> AgentOutcome:
        """Work until done, or until a deadline ends it.

        What goes wrong with the agent or its sandbox is an outcome; only the engine's own faults
        and cancellation are raised.
        """
        ...
