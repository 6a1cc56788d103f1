"""What is put back and recorded, also beside a process that gets in the way."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.errors import SandboxGone
from trialog.engine.sandbox.protocol import FileSeen, Image, Sandbox
from trialog.engine.trial.folders import TamperUncleared, TrialFolders
from trialog.engine.trial.hardening import way
from trialog.engine.trial.hardening.harden import MOST_LISTED, Hardened, harden, is_below
from trialog.engine.trial.hardening.steering import Surroundings
from trialog.engine.trial.hardening.way import clear_the_way
from trialog.events.kinds import TamperFound, WarningRaised, WorkspaceHardened
from trialog.events.memory import MemoryLog


def test_events() -> None:
    """Findings come first, a step that was left out is a warning, and long lists are cut."""
    hardened = Hardened(
        found=[TamperFound(path="/a", what="x")],
        removed=[f"/c/{number}" for number in range(MOST_LISTED + 5)],
        skipped=["one"],
    )
    found, warning, done = hardened.events(["/first"], 0.5)
    assert isinstance(found, TamperFound)
    assert isinstance(warning, WarningRaised)
    assert warning.code == "hardening_skipped"
    assert isinstance(done, WorkspaceHardened)
    assert done.removed[:2] == ["/first", "/c/0"]
    assert len(done.removed) == MOST_LISTED + 2
    assert done.removed[-1] == "… and 5 more"
    assert done.steps_skipped == ["one"]


class Racing:
    """A sandbox's files beside a process that gets in the way of what is done to each of them."""

    id = "racing"

    def __init__(self, paths: list[str], faults: list[int]) -> None:
        self.left = dict.fromkeys(paths)
        self.faults = {path: list(faults) for path in paths}
        self.answers = True

    def still(self) -> AbstractAsyncContextManager[None]:
        """It is not held still."""
        return nullcontext()

    async def changed(self, wanted: Callable[[str], bool], *, links: Any = None) -> list[str]:
        """As the protocol has it."""
        return sorted(filter(wanted, self.left))

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """A small file, where one is left."""
        if not self.answers:
            await anyio.sleep_forever()
        there = path in self.left and not in_image
        return (
            FileSeen(kind="file", data=b"x", sha256="0" * 64) if there else FileSeen(kind="missing")
        )

    async def put_back(self, path: str) -> None:
        """Remove it, once nothing gets in the way."""
        if faults := self.faults.get(path):
            fault = faults.pop()
            raise OSError(fault, os.strerror(fault), path)
        del self.left[path]


WHERE = Surroundings(workspace="/app")


async def putting_back(racing: Racing) -> Hardened:
    """Harden it, as a workspace of that content."""
    return await harden(cast(Sandbox, racing), WHERE, [], MemoryLog().blobs, [])


async def test_races_with_a_kept_process() -> None:
    """What changes between a look and the deed is tried again; what went away is no finding."""
    racing = Racing(
        ["/app/a/conftest.py"], [errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.EEXIST]
    )
    done = await putting_back(racing)
    assert done.removed == ["/app/a/conftest.py"]
    assert not racing.left
    gone = await putting_back(Racing(["/app/a/conftest.py"], [errno.ENOENT]))
    assert gone == Hardened()


async def test_what_a_kept_process_never_lets_go() -> None:
    """Tries are bounded; then nothing is graded, in words without the host's paths."""
    with pytest.raises(TamperUncleared) as caught:
        await putting_back(Racing(["/app/a/conftest.py"], [errno.EINVAL] * 1000))
    assert str(caught.value).startswith(
        "what the agent left in /app/a/conftest.py can't be removed"
    )
    assert "[Errno" not in str(caught.value)


@given(st.sets(st.text("ab/", max_size=5)), st.text("ab/", max_size=8))
def test_is_below(folders: set[str], path: str) -> None:
    """A path is below a folder as its words say, with no more questions than it has names."""
    asked: list[object] = []

    class Counted(frozenset[str]):
        def __contains__(self, item: object) -> bool:
            asked.append(item)
            return super().__contains__(item)

    tops = {f"/{top}" for top in folders}
    assert is_below(f"/{path}", Counted(tops)) == any(
        f"/{path}".startswith(f"{top}/") for top in tops
    )
    assert len(asked) <= path.count("/") + 1


async def putting_back_in_time(racing: Racing, tmp_path: Path) -> None:
    """The same within a deadline."""
    (tmp_path / "verifier").mkdir()
    await clear_the_way(
        cast(Sandbox, racing), TrialFolders(tmp_path, workspace="/app"), Image(name=None),
        tmp_path / "verifier", blobs=MemoryLog().blobs, seconds=0.2,
    )  # fmt: skip


async def test_more_than_can_be_put_back_in_time(tmp_path: Path) -> None:
    """An amount that outlasts the deadline is the agent's doing, and what was found is told."""

    class Slow(Racing):
        async def put_back(self, path: str) -> None:
            if path.endswith("/b/conftest.py"):
                await anyio.sleep_forever()
            await super().put_back(path)

    with pytest.raises(TamperUncleared, match=r"not done within 0\.2 s") as caught:
        await putting_back_in_time(Slow(["/app/a/conftest.py", "/app/b/conftest.py"], []), tmp_path)
    assert [found.path for found in caught.value.found] == ["/app/a/conftest.py"]


async def test_a_sandbox_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: where nobody answers at all, the machine is at fault."""
    monkeypatch.setattr(way, "ANSWER", 0.1)
    racing = Racing(["/app/a/conftest.py"], [])
    racing.answers = False
    with pytest.raises(SandboxGone, match="no longer answers"):
        await putting_back_in_time(racing, tmp_path)
