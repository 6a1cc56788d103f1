"""Before an agent works: its `install` is run in the sandbox, and its version asked."""

from __future__ import annotations

import anyio
import msgspec

from ...events.kinds import AgentFailed, TrialEvent, WarningRaised
from ...events.kinds.parts import Install
from ...events.values import without_surrogates
from ..errors import SandboxError
from ..output import Captured, OutputCapture, store_output
from ..projects.model import AgentManifest, VersionCommand
from ..sandbox.protocol import Command, Exit
from .program import sandbox_failed
from .protocol import AgentContext, AgentOutcome

VERSION_SEC = 60.0
"""For the command that prints the version."""

VERSION_CAP = 64 * 1024
"""Bytes of what it prints that are kept."""

LONGEST_VERSION = 200
"""Characters."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that is ready to work."""

    version: str | None = None
    """As it was asked in the sandbox."""
    install: Install | None = None
    warnings: list[TrialEvent] = []


class Installer:
    """Makes one trial's agent ready."""

    def __init__(self, context: AgentContext, manifest: AgentManifest, env: dict[str, str]) -> None:
        self._context = context
        self._manifest = manifest
        self._env = env
        self._begun = context.clock.monotonic()

    async def run(self) -> Prepared | AgentOutcome:
        """Install, then ask the version; an outcome where the installation failed."""
        install: Install | None = None
        try:
            if self._manifest.install is not None:
                installed = await self._install(self._manifest.install)
                if isinstance(installed, AgentOutcome):
                    return installed
                install = installed
            return await self._with_version(install)
        except SandboxError as error:
            return sandbox_failed(self._context, error, self._duration(self._begun))

    async def _install(self, lines: str) -> Install | AgentOutcome:
        context, manifest = self._context, self._manifest
        limit = manifest.install_timeout_sec * context.patience
        lent = manifest.network == "install"
        exit, printed = await self._shell(lines, limit, network=lent)
        output = await store_output(context.blobs, printed) if printed.total else None
        match exit:
            case Exit(ended_by="exit", code=0):
                duration = self._duration(self._begun)
                return Install(duration=duration, network=lent or context.network, output=output)
            case Exit(ended_by="exit"):
                memory = ", out of memory" if exit.out_of_memory else ""
                error = f"the agent's install ended with exit code {exit.code}{memory}"
                category = "agent_install_failed"
            case _:
                error = f"the agent's install was stopped after {limit:.1f}s"
                category = "agent_install_timeout"
        failed = AgentFailed(
            error=error, category=category, exit_code=exit.code, output=output,
            duration=self._duration(self._begun),
        )  # fmt: skip
        return AgentOutcome(end=failed)

    async def _with_version(self, install: Install | None) -> Prepared:
        asked = self._manifest.version
        if not isinstance(asked, VersionCommand):
            return Prepared(install=install)
        command = asked.command
        exit, printed = await self._shell(command, VERSION_SEC, most=VERSION_CAP)
        text = printed.data.decode("utf-8", "replace").strip()
        first = text.splitlines()[0].strip() if text else ""
        if exit.code == 0 and first:
            return Prepared(version=first[:LONGEST_VERSION], install=install)
        how = f"exit code {exit.code}" if exit.ended_by == "exit" else f"{VERSION_SEC:g} s passed"
        said = f" and said {first[:LONGEST_VERSION]!r}" if first else " and said nothing"
        warning = WarningRaised(
            code="agent_version_unknown",
            message=without_surrogates(
                f"the agent's version is not known: `{command}` ended with {how}{said}"
            )[0],
        )
        return Prepared(install=install, warnings=[warning])

    async def _shell(
        self, lines: str, limit: float, *, most: int | None = None, network: bool = False
    ) -> tuple[Exit, Captured]:
        """Run lines in the folder of the agent's files, as the image's own user."""
        context = self._context
        capture = (
            OutputCapture(redactor=context.redactor)
            if most is None
            else OutputCapture(most, redactor=context.redactor)
        )
        command = Command(
            argv=["/bin/sh", "-ec", f'cd -- "$TRIALOG_AGENT_DIR"\n{lines}'],
            env=self._env,
            timeout=limit,
            start_timeout=context.start_timeout,
            network=network and not context.network,
        )
        try:
            return await context.sandbox.run(command, capture.feed), capture.finish()
        except anyio.get_cancelled_exc_class():
            context.cut_off(capture.finish())
            raise

    def _duration(self, since: float) -> float:
        return round(self._context.clock.monotonic() - since, 6)
