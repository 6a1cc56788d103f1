"""An engine's user who is not root, but may use the engine's socket."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.images import TEST_IMAGE
from trialog.engine.sandbox.docker.finding import find_engine

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, so it starts as root"),
]


_SCRIPT = """
import os, sys, anyio
from pathlib import Path
from trialog.engine.sandbox.docker import DockerBackend
from trialog.engine.sandbox.protocol import *
from trialog.events.kinds.parts import Limits

async def main(image, folder):
    folder = Path(folder)
    backend = await DockerBackend.connect()
    found = await backend.prepare(ImageRequest(task="t", name=image, build_timeout_sec=60))
    for name in ("scratch", "logs"):
        (folder / name).mkdir()
    box = await backend.create(SandboxSpec(
        job="j", trial=folder.name, log_id=folder.name, image=found, workdir="/app",
        limits=Limits(), scratch=folder / "scratch",
        mounts=[Mount(source=folder / "logs", target="/logs")]))
    out = []
    ended = await box.run(Command(argv=["sh", "-c",
        "echo x >file; mkdir -p /logs/deep/.hidden; echo s >/logs/deep/.hidden/..odd; "
        "echo secret >/logs/own; chmod 600 /logs/own; chmod 700 /logs/deep; echo y >/etc/changed; "
        "id -u"]),
        out.append)
    assert (ended.code, out) == (0, [b"0\\n"]), (ended, out)
    tree = await box.save_tree("/app", folder / "tree", cap=1000)
    assert tree.files == 1
    try:
        (folder / "logs/own").read_bytes()
    except PermissionError:
        print("not readable from outside")
    assert await box.copy_file("/logs/own", folder / "copy", cap=1000) == []
    print((folder / "copy").read_text().strip())
    print(await box.changed_outside())
    print("as root" in (backend.no_listener or ""))
    await box.remove()
    await backend.reclaim(folder / "logs")
    print((folder / "logs").exists())
    await backend.aclose()

# Only now another user: this project's and Python's own folders may be closed to him.
import anyio._backends._asyncio, encodings.ascii, encodings.idna, encodings.latin_1, zstandard
user, group, socket_group = map(int, sys.argv[3:])
os.setgroups([socket_group])
os.setgid(group)
os.setuid(user)
anyio.run(main, *sys.argv[1:3])
"""


def test_as_a_plain_user() -> None:
    """Phases run, files of the container's root are copied out, and in the end cleared away. That
    nothing can be served inside such a container is known before, with the reason."""
    socket = find_engine().removeprefix("unix://")
    group = os.stat(socket).st_gid
    nobody = pwd.getpwnam("nobody")
    folder = Path("/tmp") / f"trialog-plain-{os.getpid()}"
    folder.mkdir()
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", _SCRIPT, TEST_IMAGE, str(folder)]
            + [str(number) for number in (nobody.pw_uid, nobody.pw_gid, group)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "DOCKER_HOST": f"unix://{socket}", "HOME": str(folder)},
        )
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "not readable from outside",
        "secret",
        "['/etc/changed']",
        "True",
        "False",
    ]
