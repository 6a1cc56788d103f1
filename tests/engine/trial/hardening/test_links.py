"""Where links lead, by what is looked at on the way."""

from __future__ import annotations

import anyio
import pytest

from trialog.engine.sandbox.protocol import FileSeen
from trialog.engine.trial.hardening.links import end_of, may_lead

PLACES = ("/logs/verifier", "/verifier", "/tests")
LINKS = {
    "/app/root": b"/", "/app/up": b"..", "/tmp/v": b"/verifier", "/app/loop": b"loop",
    "/app/one": b"two", "/app/two": b"sub/../one", "/var/tmp": b"../tmp", "/app/near": b"sub/x",
}  # fmt: skip


async def look(path: str) -> FileSeen:
    """A few links; everything else is a folder."""
    await anyio.lowlevel.checkpoint()
    data = LINKS.get(path)
    return FileSeen(kind="folder") if data is None else FileSeen(kind="link", data=data)


@pytest.mark.parametrize(
    "target",
    [
        "/verifier", "/verifier/x", "../tests/x", "root/verifier/x", "up/tests", "/tmp/v/x",
        "/logs/verifier/reward.txt", "sub/.././../verifier//x", "/proc/self/root/x",
        "/proc/1/task/1/cwd", "/proc/thread-self/root", "/proc/../verifier", "/dev/fd/../x",
        "/proc/self/fd/3/x", "/var/tmp/../verifier", "/nowhere/../tests/y",
    ],
)  # fmt: skip
async def test_into_the_verifiers_places(target: str) -> None:
    """Every way there is told, also one that only the kernel could follow.

    And no link gets there but by words of its own, or by another link that does.
    """
    own = [target, *(link.decode() for place, link in LINKS.items() if place in f"/app/{target}")]
    assert any(may_lead(link.encode(), PLACES) for link in own)
    assert await end_of("/app/link", target.encode(), look, PLACES) is None


@pytest.mark.parametrize(
    ("target", "end"),
    [
        ("/", "/"), ("root", "/"), ("near", "/app/sub/x"), ("/logs", "/logs"), ("x\n\xff", None),
        ("/dev/stdout", "/dev/stdout"), ("/proc/self/fd/1", "/proc/self/fd/1"),
        ("/proc/mounts", "/proc/mounts"), ("/verifierx", "/verifierx"), ("../../..", "/"),
        ("loop", "/app/link"), ("one", "/app/link"), ("/testsuite/x", "/testsuite/x"),
    ],
)  # fmt: skip
async def test_elsewhere(target: str, end: str | None) -> None:
    """Other links end where the system would end, and circles nowhere."""
    found = await end_of("/app/link", target.encode("latin-1"), look, PLACES)
    assert found == (end or "/app/x\n\udcff")
