"""An entrypoint's end and a phase's, where the engine tells the second one first."""

from __future__ import annotations

from typing import Any

import pytest

from trialog.engine.errors import SandboxError
from trialog.engine.sandbox.docker.ways import ByExec


class LateEngine:
    """Says for so many looks that a container runs whose first process has ended."""

    def __init__(self, code: int, late: int) -> None:
        self.code = code
        self.late = late
        self.looks = 0

    async def inspect(self, container: str) -> dict[str, Any]:
        """Its state, late."""
        self.looks += 1
        return {"State": {"Running": self.looks <= self.late, "ExitCode": 1}}

    async def exec_code(self, ident: str) -> int:
        """The phase's script was ended."""
        return self.code

    async def last_lines(self, container: str, lines: int) -> str:
        """What the entrypoint said."""
        return "no such command"


async def test_an_entrypoint_that_ended_is_named_though_the_engine_knows_it_late() -> None:
    """What its end killed is not taken for an image without a shell."""
    engine = LateEngine(137, late=3)
    with pytest.raises(SandboxError, match=r"(?s)ENTRYPOINT ended.*exit code 1.*no such command"):
        await ByExec(engine, "c", None).exit_code()  # type: ignore[arg-type]
    assert engine.looks == 4


@pytest.mark.parametrize("code", [137, 1])
async def test_a_script_that_was_killed_beside_a_living_entrypoint(code: int) -> None:
    """Its code is given as it is."""
    engine = LateEngine(code, late=1000)
    assert await ByExec(engine, "c", None).exit_code() == code  # type: ignore[arg-type]
