"""Making bubblewrap sandboxes."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Literal

from anyio import to_thread

from ....events.errors import said
from ...archive import remove_tree, unpack
from ...errors import ImageError, SandboxError, TransferFailed
from ..owner import this_process
from ..protocol import Image, ImageRequest, SandboxSpec
from .box import BubblewrapSandbox
from .cgroups import Base, find_bases
from .etc import copy_etc
from .interactive import OWN, keep_spec
from .layout import Layout, home_folder
from .limits import hold
from .records import (
    Record,
    forget_record,
    memory_folder,
    prepare_state,
    reap_dead,
    state_folder,
    write_record,
)

_ADVICE = (
    "install bubblewrap and allow user namespaces, or start a Docker engine (or set DOCKER_HOST)"
)


def usable() -> str | None:
    """Whether a sandbox starts on this machine: None, or the reason why not. Takes 10 ms."""
    program = shutil.which("bwrap")
    if program is None:
        return f"bwrap is not installed; {_ADVICE}"
    words = "--unshare-all --die-with-parent --new-session --cap-drop ALL".split()
    words += "--ro-bind /usr /usr --proc /proc --dev /dev --tmpfs /tmp".split()
    for name in ("bin", "lib", "lib64"):
        words += ["--ro-bind-try", f"/{name}", f"/{name}"]
    try:
        tried = subprocess.run(
            [program, *words, "--", "/bin/sh", "-c", "exit 7"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not run here: {said(error)}; {_ADVICE}"
    if tried.returncode == 7:
        return None
    told = tried.stderr.decode("utf-8", "replace").strip().removeprefix("bwrap: ")
    return f"bwrap can't make a sandbox here: {told or f'exit code {tried.returncode}'}; {_ADVICE}"


def _restore(workspace: Path, layout: Layout) -> None:
    try:
        unpack(workspace, layout.folders[layout.workdir])
    except (OSError, SandboxError) as error:
        raise TransferFailed(f"workspace {layout.workdir}", said(error)) from error


class BubblewrapBackend:
    """Sandboxes by bubblewrap.

    `strict_limits` refuses a sandbox whose limits can't all be held. `state` is the folder of the
    records of what exists; by default one for each user.
    """

    no_listener: str | None = None

    @property
    def name(self) -> Literal["bubblewrap"]:
        """As in SandboxStarted."""
        return "bubblewrap"

    def __init__(self, *, strict_limits: bool = False, state: Path | None = None) -> None:
        self._strict = strict_limits
        self._state = state_folder() if state is None else state
        self._etc: Path | None = None
        self._etc_id = ""
        self._bases: dict[str, Base] = {}
        self._making = threading.Lock()

    async def prepare(self, request: ImageRequest) -> Image:
        """The host's own system, for a task that asks for no other. Raises ImageError."""
        if request.name is not None or request.digest is not None:
            wanted = f"the image {request.name or request.digest}"
        elif request.dockerfile is not None:
            wanted = f"an image built from {request.dockerfile}"
        else:
            return Image(name=None)
        raise ImageError(
            f"task {request.task} needs {wanted}, and bubblewrap runs tasks on the host's system; "
            "use --sandbox docker"
        )

    async def create(self, spec: SandboxSpec) -> BubblewrapSandbox:
        """Make a sandbox. Raises SandboxError."""
        if spec.image.name is not None or spec.image.digest is not None:
            raise ImageError(
                f"bubblewrap can't run the image {spec.image.name or spec.image.digest}; "
                "use --sandbox docker"
            )
        if spec.separate_users:
            raise SandboxError(
                "the task wants a user of its own for a phase (agent.user or verifier.user), and "
                "bubblewrap has one user inside; use --sandbox docker"
            )
        try:
            return await to_thread.run_sync(self._create, spec)
        except OSError as error:
            raise SandboxError(f"the sandbox's folders can't be made: {said(error)}") from error

    def _create(self, spec: SandboxSpec) -> BubblewrapSandbox:
        own = spec.scratch / OWN
        box_id = secrets.token_hex(8)
        layout = Layout(spec, own, self._system_etc())
        held = hold(spec.limits, self._bases, f"trialog-{box_id}", strict=self._strict)
        record = Record(
            id=box_id,
            owner=str(this_process()),
            folder=str(own),
            log_id=spec.log_id,
            trial=spec.trial,
            kept=spec.kept,
            groups=[] if held.group is None else [str(path) for path in held.group.folders],
        )
        sandbox = BubblewrapSandbox(box_id, own, layout, held, spec.limits.network, self._state)
        try:
            write_record(self._state, record)
            own.mkdir(mode=0o700)
            layout.make()
            if spec.kept:
                keep_spec(spec, own)
            if spec.workspace is not None:
                _restore(spec.workspace, layout)
        except BaseException:
            sandbox.discard()
            raise
        return sandbox

    def _system_etc(self) -> Path:
        """The copy of /etc that all sandboxes of this backend see; made with the first one."""
        with self._making:
            if self._etc is None:
                prepare_state(self._state)
                self._bases = find_bases()
                self._etc_id = f"etc-{secrets.token_hex(8)}"
                folder = memory_folder(self._state) / self._etc_id
                owner = str(this_process())
                write_record(self._state, Record(id=self._etc_id, owner=owner, folder=str(folder)))
                copy_etc(folder, home_folder())
                self._etc = folder
            return self._etc

    async def reap(self, *, log_id: str | None = None) -> list[str]:
        """Remove what dead engines left: names of the trials."""
        return await to_thread.run_sync(reap_dead, self._state, log_id)

    async def reclaim(self, folder: Path, image: Image | None = None) -> None:
        """Remove a folder: everything in it is this process's own; see the protocol."""
        await to_thread.run_sync(remove_tree, folder)

    async def aclose(self) -> None:
        """Remove the copy of /etc."""
        if self._etc is not None:
            await to_thread.run_sync(remove_tree, self._etc)
            await to_thread.run_sync(forget_record, self._state, self._etc_id)
            self._etc = None
