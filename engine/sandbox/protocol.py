"""What a sandbox is, for everyone who uses one. Docker and bubblewrap pass one contract suite.

A sandbox lives through *phases*: the agent's, then the verifier's. A phase is one command that
runs from a first process of its own, and when `run` returns, nothing of that phase runs any more,
however it was started (setsid, double fork, another user): so nothing the agent left can touch
the grading. Between phases the file system stays.

One phase may be kept, where a task's answer is a running service: what it leaves goes on beside
the next one, which it can neither look into nor write to.

Folders of the host are mounted before the first phase. A mount's source is looked up again when a
phase starts, so the engine fills or swaps the folder (rename it away, make a new one) in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from socket import socket
from typing import Literal, Protocol

import msgspec

from ...events.kinds.parts import Limits, Process, SkippedPath

PYTHON_PLACES = ("/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3")
"""Where an image's python3 is looked for, in the order of a usual PATH."""

OLDEST_PYTHON = (3, 8)


class ImageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a task says of its image. Neither name nor folder: the host's system or a default."""

    task: str
    """For messages."""
    name: str | None = None
    """An image reference (`docker_image`)."""
    digest: str | None = None
    """On a resume: exactly this image, or an ImageError that names it."""
    dockerfile: Path | None = None
    context: Path | None = None
    """The build context; with `dockerfile`."""
    build_timeout_sec: float


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that is ready to use."""

    name: str | None
    """Null: the host's own system."""
    digest: str | None = None
    repository_digest: str | None = None
    workdir: str | None = None
    entrypoint: bool = False
    """It has an ENTRYPOINT, which is run."""
    entrypoint_program: str | None = None
    """The first word of it."""
    path: str | None = None
    """Its own PATH."""
    user: str | None = None
    build_seconds: float | None = None
    planted_rewards: dict[str, str | None] = {}
    """Reward files that are baked into the image: path → SHA-256 (null: no regular file)."""


class Python(msgspec.Struct, frozen=True, kw_only=True):
    """A python3 of the image's that belongs to root, as do the folders of its packages."""

    path: str
    version: tuple[int, int]
    judged_outside: bool = False
    """Who owns files was looked at from outside; inside, other names may stand for them."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the host, seen inside."""

    source: Path
    target: str
    readonly: bool = False
    closed: bool = False
    """No phase that is kept may reach it (see `Command.keep`); its folder's mode is 0700."""


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to make."""

    job: str
    trial: str
    log_id: str
    """Which log the trial belongs to; a label, so that only its own things are reaped."""
    image: Image
    workdir: str
    """The workspace's path inside; made where it does not exist."""
    env: dict[str, str] = {}
    """Of both phases. The image's own PATH stays unless it is named here."""
    limits: Limits
    mounts: list[Mount] = []
    scratch: Path
    """A folder of the host for this sandbox alone; backends keep their files in it."""
    workspace: Path | None = None
    """A saved workspace (see `save_tree`) to start from, exactly, in place of the image's."""
    kept: bool = False
    """It stays after its engine's end, until somebody asks to clean up."""
    separate_users: bool = False
    """A phase will run as a user other than the image's."""
    keeps_processes: bool = False
    """A phase will be kept."""
    lends_network: bool = False
    """A phase may be given a network, though the limits have none."""


class GivenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A regular file of the host that a sandbox is given."""

    source: Path
    path: str
    """Where it goes inside; absolute."""
    mode: int = 0o644
    """Permission bits."""


class Listener(msgspec.Struct, frozen=True):
    """A port of the sandbox's own 127.0.0.1 that the engine serves while a phase runs."""

    port: int
    take: Callable[[socket], None]
    """Is given the listening socket, to serve and to close, before the command runs."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One phase."""

    argv: list[str]
    env: dict[str, str] = {}
    stdin: bytes = b""
    user: str | None = None
    """Null: the image's own user."""
    timeout: float | None = None
    """Seconds; then all of the phase is killed."""
    idle_timeout: float | None = None
    """Seconds without output; then all of the phase is killed."""
    quiet_for: Callable[[], Awaitable[float]] | None = None
    """Asked before an idle stop: seconds since the last sign of life other than output."""
    start_timeout: float = 60.0
    """Seconds until the phase's first process must run; past it SandboxStartTimeout is raised."""
    keep: bool = False
    """What it leaves running goes on, beside the next phase, and ends with that.

    A deadline then ends the command alone. Refused where what is kept could reach a closed mount.
    """
    network: bool = False
    """It alone has a network, where the sandbox has none. Refused where that does not lend any."""
    listener: Listener | None = None
    """Only where the sandbox's loopback is its own; SandboxError where it can't be had."""


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a phase ended."""

    ended_by: Literal["exit", "timeout", "idle"]
    code: int | None
    """Null when it was stopped; 128 + n when a signal n ended it."""
    duration: float
    left: list[Process] = []
    """Processes that were still there and were killed; of a phase that is kept, those that stay."""
    out_of_memory: bool = False


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """What `save_tree` packed."""

    size: int
    """Bytes of the files in it."""
    files: int
    skipped: list[SkippedPath] = []


class FileSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What is at a path inside; no link is followed, in any component."""

    kind: Literal["file", "folder", "link", "other", "missing"]
    data: bytes | None = None
    """A file's bytes, or a link's target; null for a file over the cap."""
    sha256: str | None = None
    """Hex, of a file's bytes, if it is under the cap."""
    runs: bool = True
    """A file may be run as a program by somebody."""


class TreeTooLarge(Exception):
    """A tree is over the cap; nothing was kept."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        super().__init__(f"more than {cap} bytes")


class Sandbox(Protocol):
    """A sandbox that was made."""

    @property
    def id(self) -> str:
        """What the backend calls it."""
        ...

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Codes and messages of what could not be had as asked (limits, say)."""
        ...

    @property
    def own_loopback(self) -> bool:
        """Its 127.0.0.1 is no other's; else it is this machine's."""
        ...

    async def run(self, command: Command, output: Callable[[bytes], None]) -> Exit:
        """Run one phase to its end; `output` is called with what it prints, as it comes.

        When it is cancelled, everything in the sandbox is killed first. Raises SandboxGone and
        SandboxStartTimeout.
        """
        ...

    async def save_tree(self, path: str, destination: Path, *, cap: int) -> Tree:
        """Pack a folder of the sandbox into a deterministic zstd-compressed tar.

        Nothing runs inside meanwhile. Raises TreeTooLarge, SandboxGone.
        """
        ...

    async def copy_file(self, path: str, destination: Path, *, cap: int) -> list[SkippedPath]:
        """Copy a regular file out, or every regular file below a folder: what was not copied.

        Links are never followed, in any component: each is given back, as is what is missing.
        Raises TreeTooLarge, SandboxGone.
        """
        ...

    async def put_files(self, files: Sequence[GivenFile]) -> None:
        """Copy files of the host in, before the first phase; folders on the way are made.

        Whoever runs the image owns them. Raises SandboxError where one can't be put there.
        """
        ...

    async def changed_outside(self) -> list[str] | None:
        """Paths changed outside the workspace and the mounts; null where that can't be told."""
        ...

    def still(self) -> AbstractAsyncContextManager[None]:
        """What was kept stands still meanwhile, where the sandbox can have it so.

        Raises OSError where it can, and what runs inside keeps it from that.
        """
        ...

    async def changed(
        self, wanted: Callable[[str], bool], *, links: Callable[[bytes], bool] | None = None
    ) -> list[str] | None:
        """Paths outside of the mounts that are not as the image has them, sorted.

        Of those that are `wanted`, and of symbolic links those with a target that `links` says yes
        to; of folders only those that took another one's place.
        Null where it can't be told. Nothing runs inside meanwhile, here and in what follows.
        """
        ...

    async def look(self, path: str, *, cap: int, in_image: bool = False) -> FileSeen:
        """What is at a path now, or what the image has there. Raises OSError, SandboxGone."""
        ...

    async def put_back(self, path: str) -> None:
        """Make a path as the image has it: gone, where that has nothing. Raises OSError."""
        ...

    async def replace(self, path: str, data: bytes) -> None:
        """Give a file other bytes; its owner and mode stay. Raises OSError."""
        ...

    async def find_python(self) -> Python | None:
        """The image's own python3 in one of PYTHON_PLACES, owned by root and no older than 3.8.

        What the image brought counts, not what an agent has made of it. Raises SandboxError.
        """
        ...

    async def remove(self) -> None:
        """Kill what runs and remove everything; never fails because it is gone already."""
        ...


class SandboxBackend(Protocol):
    """A way to make sandboxes."""

    @property
    def name(self) -> Literal["docker", "bubblewrap", "in-process"]:
        """As in SandboxStarted."""
        ...

    @property
    def no_listener(self) -> str | None:
        """Why this process can't listen on its sandboxes' loopback; null where it can."""
        ...

    async def prepare(self, request: ImageRequest) -> Image:
        """Have the image ready: build it, find it, pull it. Once a task and job; may be repeated.

        Raises ImageError; on bubblewrap also for a task that needs an image of its own.
        """
        ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox. Raises SandboxError."""
        ...

    async def reap(self, *, log_id: str | None = None) -> list[str]:
        """Remove what dead engines left behind: names of what went.

        Of one log: less the sandboxes that were kept on purpose. Of any (null): those, too.
        """
        ...

    async def reclaim(self, folder: Path, image: Image | None = None) -> None:
        """Remove a folder of the host that was mounted, whoever owns what is in it by now.

        `image` may be run to do it. Raises SandboxError, OSError.
        """
        ...

    async def aclose(self) -> None:
        """Give connections back."""
        ...
