"""Programs in a sandbox that was kept."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import pytest

from trialog.engine.errors import SandboxError, SandboxGone
from trialog.engine.sandbox.docker import exec_in

if TYPE_CHECKING:
    from conftest import Ran

pytestmark = pytest.mark.docker

MakeBox = Callable[..., Awaitable["Ran"]]

_EXEC = (
    "import anyio, sys; from trialog.engine.sandbox.docker import exec_in; "
    "from functools import partial; "
    "sys.exit(anyio.run(partial(exec_in, sys.argv[1], sys.argv[2:], workdir='/app')))"
)


@pytest.mark.parametrize("users", [False, True])
async def test_exec(make_box: MakeBox, users: bool) -> None:
    """A program sees the files that the phases left; its streams and exit code are its own."""
    box = await make_box(separate_users=users)
    await box.sh("echo kept >file")
    words = [sys.executable, "-c", _EXEC, box.sandbox.id]
    ran = await anyio.run_process(
        [*words, "sh", "-c", "pwd; cat file; cat; exit 6"], input=b"typed", check=False
    )
    assert (ran.stdout, ran.returncode) == (b"/app\nkept\ntyped", 6), ran.stderr
    ran = await anyio.run_process([*words, "sh", "-c", "cat file"], input=b"", check=False)
    assert (ran.stdout, ran.returncode) == (b"kept\n", 0)


@pytest.mark.parametrize("users", [False, True])
async def test_exec_on_a_terminal(make_box: MakeBox, users: bool) -> None:
    """On a terminal the program has one too, and what is typed goes to it."""
    box = await make_box(separate_users=users)
    await box.sh("echo kept >file")
    script = "tty; stty size; pwd; cat file; read line; echo got $line; exit 7"
    ended, output = await anyio.to_thread.run_sync(
        _on_terminal, [sys.executable, "-c", _EXEC, box.sandbox.id, "sh", "-c", script]
    )
    assert ended == 7, output
    lines = output.decode().replace("\r", "").splitlines()
    assert lines[0].startswith("/dev/pts/")
    assert lines[2:4] == ["/app", "kept"]
    assert lines[-1] == "got hello"


def _on_terminal(command: list[str]) -> tuple[int, bytes]:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:
                break
            output += data
            if b"kept" in output and b"hello" not in output:
                os.write(ours, b"hello\r")
        os.close(ours)
        return process.wait(30), output


async def test_what_is_no_kept_sandbox(
    make_box: MakeBox, docker: Callable[..., Awaitable[str]]
) -> None:
    """A sandbox that is gone, another's container, and one whose folder is gone are refused."""
    with pytest.raises(SandboxGone, match="no longer there"):
        await exec_in("0" * 64, ["true"], workdir="/app")
    other = await docker("create", os.environ.get("TRIALOG_TEST_IMAGE", "trialog-base:latest"), "x")
    try:
        with pytest.raises(SandboxError, match="not a sandbox of this program"):
            await exec_in(other, ["true"], workdir="/app")
    finally:
        await docker("rm", other)
    box = await make_box()
    await anyio.Path(box.spec.scratch).rename(box.spec.scratch.with_name("moved"))
    with pytest.raises(SandboxError, match=r"scratch is gone"):
        await exec_in(box.sandbox.id, ["true"], workdir="/app")
