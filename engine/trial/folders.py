"""The host's folders behind one trial's sandbox: who sees what, and when.

While the agent works, the verifier's folder is empty and the solution is there for the oracle
alone. Between the phases every folder that could change the grade is moved away whole and a fresh
one takes its name: the verifier reads and writes only where the agent never was.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from anyio import to_thread

from ...events.errors import TrialogError
from ...events.kinds import TamperFound
from ...events.log import BlobStore
from ..sandbox.protocol import Mount
from .leftovers import Leftover, list_leftovers

OPEN_TO_ALL = 0o777
"""Mode of what any user inside may write to. The scratch folder above it is the engine's alone."""

CLOSED = 0o700
"""Mode of what only root inside may enter, while processes of the agent's stay."""

REWARD_FOLDER = "/logs/verifier"
AGENT_FOLDER = "/logs/agent"
ARTIFACTS_FOLDER = "/logs/artifacts"
ENGINES_FOLDER = "/.trialog"
TOOLS_FOLDER = f"{ENGINES_FOLDER}/tools"
"""What the engine gives the verifier to work with; empty while the agent works."""


class TamperUncleared(TrialogError):
    """Something that could change the grade can't be put out of the way: nothing may be graded."""

    category = "reward_tampered"

    def __init__(self, path: str, reason: str, found: list[TamperFound] | None = None) -> None:
        self.path = path
        self.reason = reason
        self.found = found or []
        super().__init__(f"what the agent left in {path} can't be removed: {reason}")


class VerifierDigestMismatch(TrialogError):
    """The verifier's files are not those that the job recorded."""

    category = "verifier_digest_mismatch"

    def __init__(self, path: str, recorded: str | None, found: str | None) -> None:
        self.path = path
        self.recorded = recorded
        self.found = found
        super().__init__(
            f"{path}: recorded {_digest(recorded)}, found {_digest(found)}; "
            "the verifier's files changed after the job had started"
        )


class TrialFolders:
    """The folders below `scratch`, which is the engine's own and of this trial alone."""

    def __init__(self, scratch: Path, *, workspace: str, closed: bool = False) -> None:
        """`closed`: the agent's processes stay, and the verifier's places are shut from the first.

        Then they are not swapped, for what stays may go on using what it has.
        """
        self._closed = closed
        self.scratch = scratch
        self.workspace = workspace
        self.agent_logs = scratch / "logs" / "agent"
        self.verifier_logs = scratch / "logs" / "verifier"
        self.artifacts = scratch / "logs" / "artifacts"
        self.verifier = scratch / "verifier"
        self.solution = scratch / "solution"
        self.tools = scratch / "tools"
        self.task = scratch / "task"
        self._moved = 0
        self._with_solution = False
        # A folder with a saved trial's workspace below one of these names would be hidden by it.
        self.verifier_targets = self._targets("/verifier", "/tests")
        """Where the verifier's folder is seen, one folder under each name."""
        self.solution_targets = self._targets("/solution", "/oracle", fallback="/.trialog/solution")
        """Where the oracle sees the solution."""
        self.task_target = self._targets("/task", fallback="/.trialog/task")[0]
        """Where the prompt is."""

    def _targets(self, *names: str, fallback: str = "/.trialog/verifier") -> list[str]:
        workspace = PurePosixPath("/" + posixpath.normpath(self.workspace).lstrip("/"))
        return [name for name in names if not workspace.is_relative_to(name)] or [fallback]

    @property
    def verifier_places(self) -> list[str]:
        """Paths inside that are the engine's and the verifier's: no file of an agent's goes there.

        What is under /logs/artifacts is among them: it comes by the host's folder.
        """
        return [
            REWARD_FOLDER,
            ARTIFACTS_FOLDER,
            self.task_target,
            *self.verifier_targets,
            *self.solution_targets,
        ]

    @property
    def agents_own(self) -> dict[str, Path]:
        """Folders that the agent may write to and that stay as they are, by their paths inside."""
        return {AGENT_FOLDER: self.agent_logs, ARTIFACTS_FOLDER: self.artifacts}

    @property
    def prompt(self) -> str:
        """The prompt's path inside."""
        return f"{self.task_target}/prompt.md"

    def mounts(self) -> list[Mount]:
        """What to mount; after `prepare`, which makes the sources."""
        pairs = [
            (self.agent_logs, AGENT_FOLDER),
            (self.verifier_logs, REWARD_FOLDER),
            (self.artifacts, ARTIFACTS_FOLDER),
            *((self.verifier, target) for target in self.verifier_targets),
        ]
        if self._with_solution:
            pairs += [(self.solution, target) for target in self.solution_targets]
        shut = (self.verifier_logs, self.verifier) if self._closed else ()
        return [
            *(Mount(source=s, target=target, closed=s in shut) for s, target in pairs),
            Mount(source=self.task, target=self.task_target, readonly=True),
            Mount(source=self.tools, target=TOOLS_FOLDER, readonly=True),
        ]

    async def prepare(self, *, prompt: str = "", solution: Path | None = None) -> None:
        """Make the folders. `solution` is copied in for an agent that may see it: the oracle."""
        await to_thread.run_sync(self._prepare, prompt, solution)

    def _prepare(self, prompt: str, solution: Path | None) -> None:
        self.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.scratch / "logs").mkdir()
        for folder in (self.agent_logs, self.verifier_logs, self.artifacts, self.verifier):
            _make_open(folder)
        if self._closed:
            for folder in (self.verifier_logs, self.verifier):
                folder.chmod(CLOSED)
        for folder in (self.task, self.tools):
            folder.mkdir()
            folder.chmod(0o755)
        text = self.task / "prompt.md"
        text.write_bytes(prompt.encode("utf-8", "surrogatepass"))
        text.chmod(0o644)
        if solution is not None:
            self._with_solution = True
            _copy(solution, self.solution)

    @property
    def program(self) -> Path:
        """The folder beside the prompt that the agent's program is in."""
        return self.task / "agent"

    def put_program(self, name: str, data: bytes) -> Path:
        """Put the agent's program beside the prompt; blocks."""
        folder = self.program
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        program = folder / name
        program.write_bytes(data)
        program.chmod(0o755)
        return program

    @property
    def run(self) -> str:
        """The path inside of the file that `put_run` writes."""
        return f"{self.task_target}/run.json"

    def put_run(self, data: bytes) -> None:
        """Put what the run is about beside the prompt; blocks."""
        file = self.task / "run.json"
        file.write_bytes(data)
        file.chmod(0o644)

    def inside(self, path: Path) -> str:
        """The path inside of a file in the task's folder."""
        return f"{self.task_target}/{path.relative_to(self.task)}"

    async def close_agent_phase(
        self,
        blobs: BlobStore,
        *,
        planted: Mapping[str, str | None] | None = None,
        fresh: bool = False,
    ) -> list[TamperFound]:
        """Once nothing of the agent's runs: take away what it left in the verifier's places.

        `planted` are the reward files baked into the image. `fresh`: nothing has run over these
        folders, so a place that is as it was made need not be made again. Raises TamperUncleared
        when something can't be moved: then nothing may be graded.
        """
        left, stuck = await to_thread.run_sync(self._close_agent_phase, fresh)
        found = [
            TamperFound(path=path, sha256=sha256, what="a reward file in the image; not believed")
            for path, sha256 in (planted or {}).items()
        ]
        for place, leftovers in left.items():
            found += [await _tamper(place, leftover, blobs) for leftover in leftovers]
        if stuck is not None:
            raise TamperUncleared(*stuck, found)
        return found

    def _close_agent_phase(
        self, fresh: bool
    ) -> tuple[dict[str, list[Leftover]], tuple[str, str] | None]:
        left: dict[str, list[Leftover]] = {}
        stuck: tuple[str, str] | None = None
        for folder, place in (
            (self.verifier_logs, REWARD_FOLDER),
            (self.verifier, self.verifier_targets[0]),
        ):
            try:
                if self._closed:
                    left[place] = self._listed(folder)
                else:
                    left[place] = [] if fresh and _untouched(folder) else self._swap(folder)
            except OSError as error:
                left[place] = list_leftovers(folder)
                stuck = (place, error.strerror or str(error))
        if self._with_solution and not self._closed:
            try:
                self._swap(self.solution)
            except OSError as error:
                stuck = (self.solution_targets[0], error.strerror or str(error))
        return left, stuck

    def _listed(self, folder: Path) -> list[Leftover]:
        """Nothing, or a fault: no agent could put anything into a folder that was shut to it."""
        left = list_leftovers(folder)
        if left or stat.S_IMODE(os.lstat(folder).st_mode) != CLOSED:
            raise PermissionError(errno.EPERM, "it was shut, and is not as it was")
        return left

    def _swap(self, folder: Path) -> list[Leftover]:
        """Put a fresh folder in place of one; what lay in the old one."""
        self._moved += 1
        # Beside it, because a folder that is not ours may not be moved into another one.
        aside = folder.with_name(f".left-{self._moved}-{folder.name}")
        try:
            os.rename(folder, aside)
        except FileNotFoundError:
            _make_open(folder)
            return []
        _make_open(folder)
        return list_leftovers(aside)

    def fill_verifier(self, source: Path, digests: Mapping[str, str]) -> None:
        """Copy the verifier's files in from the job's snapshot, for this trial alone; blocks.

        Each file's bytes are checked against its recorded SHA-256 (hex) by its path in the folder.
        Raises VerifierDigestMismatch; then no file may be run.
        """
        copied = _copy(source, self.verifier, CLOSED if self._closed else OPEN_TO_ALL)
        recorded = {path: digest.removeprefix("sha256:") for path, digest in digests.items()}
        for path in sorted(recorded.keys() | copied.keys()):
            if recorded.get(path) != copied.get(path):
                raise VerifierDigestMismatch(path, recorded.get(path), copied.get(path))


def _untouched(folder: Path) -> bool:
    """Whether a folder is as `_make_open` makes it."""
    try:
        status = os.lstat(folder)
        own = status.st_uid == os.geteuid() and status.st_mode == stat.S_IFDIR | OPEN_TO_ALL
        return own and not os.listdir(folder)
    except FileNotFoundError:
        return False


def _make_open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(OPEN_TO_ALL)  # whatever the umask is


def _copy(source: Path, destination: Path, mode: int = OPEN_TO_ALL) -> dict[str, str]:
    """Copy a folder's files; the SHA-256 of the bytes that were written, by path.

    The copy can be read by any user inside whom the folders' mode lets in, and written to by root.
    Links stay links.
    """
    digests: dict[str, str] = {}
    waiting = [(source, destination, "")]
    while waiting:
        here, there, prefix = waiting.pop()
        there.mkdir(exist_ok=True)
        there.chmod(mode)
        with os.scandir(here) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            path = f"{prefix}{entry.name}"
            target = there / entry.name
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
                digests[path] = "a symbolic link"
            elif entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), target, f"{path}/"))
            else:
                digests[path] = _copy_file(Path(entry.path), target)
    return digests


def _copy_file(source: Path, target: Path) -> str:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(source, flags), "rb") as original, open(target, "xb") as copy:
        mode = stat.S_IMODE(os.fstat(original.fileno()).st_mode)
        digest = hashlib.sha256()
        while data := original.read(1024 * 1024):
            digest.update(data)
            copy.write(data)
        os.fchmod(copy.fileno(), mode & 0o777 | 0o644 | (0o111 if mode & 0o111 else 0))
    return digest.hexdigest()


def _digest(value: str | None) -> str:
    return "nothing" if value is None else value


async def _tamper(place: str, leftover: Leftover, blobs: BlobStore) -> TamperFound:
    path = place.encode() + (b"/" + leftover.path if leftover.path else b"")
    use = "reward goes" if place == REWARD_FOLDER else "verifier's files go"
    what = f"{leftover.what}, left where the {use}; taken away"
    return await tamper_found(path, leftover.sha256, what, blobs)


async def tamper_found(path: bytes, sha256: str | None, what: str, blobs: BlobStore) -> TamperFound:
    """The event; a path that is no text is kept beside it."""
    text = path.decode("utf-8", "replace")
    raw = None if text.encode() == path else await blobs.put(path)
    return TamperFound(path=text, sha256=sha256, what=what, raw_path=raw)
