"""What bubblewrap can't do is refused, clearly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from trialog.engine.errors import ImageError, SandboxError, SandboxGone, SandboxUnavailable
from trialog.engine.sandbox.bubblewrap import BubblewrapBackend, usable
from trialog.engine.sandbox.protocol import Command, Exit, Image, ImageRequest, Mount
from trialog.events.kinds.parts import Limits

if TYPE_CHECKING:
    from conftest import MakeBox
    from trialog.engine.sandbox.bubblewrap.box import BubblewrapSandbox

pytestmark = pytest.mark.bubblewrap

Run = Callable[..., Awaitable[tuple[Exit, str]]]


async def test_the_hosts_own_system(backend: BubblewrapBackend) -> None:
    """A task that names no image runs on the host's system."""
    image = await backend.prepare(ImageRequest(task="t", build_timeout_sec=1))
    assert image == Image(name=None)
    assert backend.name == "bubblewrap"


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"name": "debian:12"}, "debian:12"),
        ({"digest": "sha256:ab"}, "sha256:ab"),
        ({"dockerfile": Path("/t/Dockerfile"), "context": Path("/t")}, "/t/Dockerfile"),
    ],
)
async def test_images(backend: BubblewrapBackend, wanted: dict[str, Any], named: str) -> None:
    """A task that needs an image of its own is refused, with the image and what to do."""
    with pytest.raises(ImageError, match=r"task half-life needs .*--sandbox docker") as refused:
        await backend.prepare(ImageRequest(task="half-life", build_timeout_sec=1, **wanted))
    assert named in str(refused.value)


async def test_image_in_a_spec(make_box: MakeBox) -> None:
    """A sandbox for an image can't be made."""
    with pytest.raises(ImageError, match="debian:12"):
        await make_box(image=Image(name="debian:12"))


async def test_users(make_box: MakeBox, box: BubblewrapSandbox, run: Run) -> None:
    """A phase as another user is refused: there is one user inside."""
    with pytest.raises(SandboxError, match=r"verifier\.user"):
        await make_box(separate_users=True)
    with pytest.raises(SandboxError, match="'daemon'"):
        await run(box, "true", user="daemon")


@pytest.mark.parametrize(
    "path",
    "/ /usr /usr/share/app /etc /bin/x /lib /proc/1 /dev /var/x app /a/../usr /sys/x //usr".split(),
)
async def test_workspaces_that_hide_the_system(make_box: MakeBox, path: str) -> None:
    """A workspace that would hide a system folder is refused, with its path."""
    with pytest.raises(SandboxError, match="the workspace") as refused:
        await make_box(workdir=path)
    assert repr(path) in str(refused.value)


@pytest.mark.parametrize(
    "path", ["/app", "/srv/deep/er", "/solution", "/root/x", "/tmp/x", "/data"]
)
async def test_workspaces_elsewhere(make_box: MakeBox, run: Run, path: str) -> None:
    """A workspace anywhere else is made."""
    box = await make_box(workdir=path)
    assert (await run(box, "pwd; echo x >y; cat y"))[1] == f"{path}\nx\n"
    assert (await run(box, "cat y"))[1] == "x\n"


async def test_mounts_over_the_workspace(make_box: MakeBox, tmp_path: Path) -> None:
    """A mount that would hide the workspace is refused."""
    with pytest.raises(SandboxError, match="the workspace /logs/app would lie in"):
        await make_box(workdir="/logs/app", mounts=[Mount(source=tmp_path, target="/logs")])
    with pytest.raises(SandboxError, match="a mount can't be at '/usr/x'"):
        await make_box(mounts=[Mount(source=tmp_path, target="/usr/x")])


async def test_links_in_the_way_of_a_mount(make_box: MakeBox, run: Run, tmp_path: Path) -> None:
    """A link that an agent leaves where a folder is mounted leads nowhere: the phase is refused."""
    await anyio.Path(tmp_path / "tests").mkdir()
    box = await make_box(mounts=[Mount(source=tmp_path / "tests", target="/app/in/tests")])
    _, printed = await run(box, "mkdir /tmp/tests; mv in gone; ln -s /tmp in; ls in")
    assert printed == "tests\n"
    with pytest.raises(SandboxGone, match="/app/in/tests can't be mounted"):
        await run(box, "true")


async def test_a_mount_that_is_gone(make_box: MakeBox, run: Run, tmp_path: Path) -> None:
    """A mount's source that is no folder is named."""
    box = await make_box(mounts=[Mount(source=tmp_path / "missing", target="/given")])
    with pytest.raises(SandboxError, match=r"missing, to be mounted at /given, is no folder"):
        await run(box, "true")


async def test_null_bytes(box: BubblewrapSandbox, run: Run) -> None:
    """A NUL byte can't be passed to a program; it can't smuggle an option in either."""
    with pytest.raises(SandboxError, match="NUL"):
        await run(box, "true", env={"A": "x\0--bind\0/\0/host"})
    with pytest.raises(SandboxError, match="NUL"):
        await box.run(Command(argv=["echo", "a\0b"]), lambda _: None)


async def test_words_that_look_like_options(box: BubblewrapSandbox) -> None:
    """A program's words are never bwrap's options."""
    printed: list[bytes] = []
    argv = ["printf", "%s,", "--bind", "--", "-c"]
    ended = await box.run(Command(argv=argv, timeout=10), printed.append)
    assert (ended.code, b"".join(printed)) == (0, b"--bind,--,-c,")


async def test_strict_limits(make_box: MakeBox, tmp_path: Path) -> None:
    """With strict limits, one that can't be held refuses the sandbox and is named."""
    strict = BubblewrapBackend(strict_limits=True, state=tmp_path / "state2")
    with pytest.raises(SandboxError, match=r"--strict-limits: storage_mb"):
        await make_box(using=strict, limits=Limits(storage_mb=100))
    assert (await make_box(limits=Limits(storage_mb=100))).warnings == [
        ("limit_not_kept", "storage_mb: held for each file, not for all together")
    ]
    await strict.aclose()


def test_usable() -> None:
    """Where a sandbox starts, there is no reason against it."""
    assert usable() is None


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bwrap, the reason says how to get it."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert usable() == (
        "bwrap is not installed; install bubblewrap and allow user namespaces, "
        "or start a Docker engine (or set DOCKER_HOST)"
    )


def test_forbidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where namespaces are forbidden, the reason is bwrap's own."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    reason = usable()
    assert reason is not None
    assert "No permissions to create new namespace" in reason


async def test_bwrap_that_fails(
    box: BubblewrapSandbox, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A sandbox that bwrap can't start says what bwrap said, or how to get one."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxUnavailable, match="install"):
        await run(box, "true")
    fake = anyio.Path(tmp_path / "bwrap")
    await fake.write_text("#!/bin/sh\necho 'bwrap: Creating new namespace failed' >&2\nexit 1\n")
    await fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match="could not start: Creating new namespace failed"):
        await run(box, "true")


async def test_folder_that_is_gone(box: BubblewrapSandbox, run: Run, tmp_path: Path) -> None:
    """When the sandbox's folder was removed by someone, the sandbox is gone, whatever is asked."""
    await run(box, "true")
    folder = anyio.Path(tmp_path / "scratch0" / "bubblewrap")
    await folder.rename(tmp_path / "elsewhere")
    with pytest.raises(SandboxGone):
        await run(box, "true")
    with pytest.raises(SandboxGone):
        await box.save_tree("/app", tmp_path / "saved", cap=1000)
    with pytest.raises(SandboxGone):
        await box.copy_file("/app/x", tmp_path / "copy", cap=1000)
    await box.remove()


async def test_trees_of_the_hosts_own(box: BubblewrapSandbox, tmp_path: Path) -> None:
    """The host's own files are not taken out, by whatever path."""
    with pytest.raises(SandboxError, match="the host's own"):
        await box.save_tree("/etc", tmp_path / "saved", cap=10**9)
    for path in ("/etc/passwd", "/app/../etc/passwd", "/usr/bin/env"):
        (skipped,) = await box.copy_file(path, tmp_path / "copy", cap=10**9)
        assert skipped.reason == "it is the host's own, not the sandbox's"
    with pytest.raises(SandboxError, match="there is no folder /app/none"):
        await box.save_tree("/app/none", tmp_path / "saved", cap=10**9)
