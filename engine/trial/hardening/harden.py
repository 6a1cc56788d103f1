"""Looking for what could steer the verifier, and putting it back as the image has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

import msgspec

from ....events.kinds import TamperFound, WarningRaised, WorkspaceHardened
from ....events.log import BlobStore
from ...sandbox.protocol import FileSeen, Sandbox
from ..folders import TamperUncleared, tamper_found
from . import contents
from .steering import (
    Rule,
    Surroundings,
    environment_of,
    is_programs_folder,
    others_of,
    packages_of,
    rule_of,
    source_of,
    standard_name,
    stands_for_pytest,
    top_of,
)

CAP = 16 * 1024 * 1024
"""Bytes of a file that are looked at; nothing that steers is larger but programs."""

MOST_NAMED = 200
"""Findings that are told one by one; more are only counted."""

MOST_LISTED = 1000
"""Paths that are listed as put back."""

_ALWAYS: dict[Rule, str] = {
    "loader": "what is loaded into every program",
    "system folder": "something in the place of a folder of the system's",
    "customize": "a module that Python runs at its start",
    "python set-up": "a file that leads Python to other modules",
    "start-up file": "a start-up file of a shell's",
    "cron": "a program at a set time",
    "entrypoint": "the program that runs beside the verifier",
    "conftest": "a conftest.py",
    "pytest settings": "settings of pytest's",
    "git hook": "a program that git runs",
}
"""Rules by which a change is enough, and what the thing is called."""

_NAMED: dict[Rule, tuple[bytes, ...]] = {
    "conftest": (b"conftest.py",),
    "pytest settings": (b"pytest.ini", b"pytest.toml"),
    "shared settings": (b"pyproject.toml", b"tox.ini", b"setup.cfg"),
    "git hook": (b"hook",),
    "git settings": (b".git/config", b"hook"),
    "cron": (b"cron",),
}
"""Words in the verifier's files that make such a file a part of what is graded."""


class Hardened(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    found: list[TamperFound] = []
    removed: list[str] = []
    """All paths that were put back, caches too."""
    skipped: list[str] = []
    """Steps that could not be done here."""
    kept: list[str] = []
    """Steps that were left out because the task keeps the agent's processes."""

    def events(
        self, removed: list[str], duration: float
    ) -> list[TamperFound | WarningRaised | WorkspaceHardened]:
        """What to record; `removed` are paths that went before, `duration` seconds of it all."""
        told = [
            WarningRaised(
                code="hardening_skipped",
                message=f"this was left out, since the engine can't tell what changed: {step}; run "
                "trialog as a user who may read the engine's storage (root, as a rule) to have it "
                "done, or the verifier in a sandbox of its own",
            )
            for step in self.skipped
        ]
        paths = [os.fsencode(path).decode("utf-8", "replace") for path in self.removed]
        if len(paths) > MOST_LISTED:
            paths = [*paths[:MOST_LISTED], f"… and {len(paths) - MOST_LISTED} more"]
        hardened = WorkspaceHardened(
            removed=[*removed, *paths], steps_skipped=[*self.skipped, *self.kept], duration=duration
        )
        return [*self.found, *told, hardened]


class _Step(msgspec.Struct, frozen=True):
    """What to do about a path."""

    path: str
    what: str | None
    """Null: nothing to speak of, a cache say."""
    seen: FileSeen | None = None
    data: bytes | None = None
    """The file's new bytes; null: as the image has it."""


async def harden(
    sandbox: Sandbox, where: Surroundings, texts: Iterable[bytes], blobs: BlobStore
) -> Hardened:
    """Put back what could steer the verifier, when nothing runs in the sandbox.

    `texts` are the verifier's files: what they name is graded, and stays. Raises TamperUncleared
    for what can't be put back; then nothing may be graded. Raises SandboxGone.
    """
    changed = await sandbox.changed(lambda path: rule_of(path, where) is not None)
    if changed is None:
        return Hardened(skipped=["putting back what could steer the verifier"])
    if not changed:
        return Hardened()
    kept = _kept(texts)
    looking = _Looking(sandbox, where)
    found: list[TamperFound] = []
    removed: list[str] = []
    done: list[str] = []
    for path in changed:
        rule = rule_of(path, where)
        if rule is None or rule in kept or any(path.startswith(top + "/") for top in done):
            continue
        try:
            step = await looking.step(path, rule)
            if step is None or step.path in removed:
                continue
            if step.data is None:
                await sandbox.put_back(step.path)
                done.append(step.path)
            else:
                await sandbox.replace(step.path, step.data)
        except OSError as error:
            raise TamperUncleared(path, error.strerror or str(error), found) from error
        removed.append(step.path)
        if step.what is not None:
            sha256 = step.seen.sha256 if step.seen else None
            found.append(await tamper_found(os.fsencode(step.path), sha256, step.what, blobs))
    if len(found) > MOST_NAMED:
        more = TamperFound(path=found[MOST_NAMED].path, what=f"{len(found) - MOST_NAMED} more")
        found = [*found[:MOST_NAMED], more]
    return Hardened(found=found, removed=removed)


def _kept(texts: Iterable[bytes]) -> set[Rule]:
    """Rules for files that the verifier itself looks at."""
    kept: set[Rule] = set()
    for text in texts:
        kept |= {rule for rule, words in _NAMED.items() if any(word in text for word in words)}
    return kept


class _Looking:
    """Decides on single paths."""

    def __init__(self, sandbox: Sandbox, where: Surroundings) -> None:
        self._sandbox = sandbox
        self._where = where
        self._folders: dict[str, bool] = {}

    async def step(self, path: str, rule: Rule) -> _Step | None:
        """What to do about a changed path, if anything."""
        match rule:
            case "python cache":
                return await self._cached(path)
            case "program" | "library":
                return await self._program(path, rule)
            case "standard module":
                return await self._standard(path)
            case "pytest package":
                return await self._pytest(path, rule)
            case (
                "pth"
                | "entry points"
                | "linker cache"
                | "shared settings"
                | "git settings"
                | "accounts"
            ):
                return await self._by_contents(path, rule)
            case _:
                now, image = await self._both(path)
                folder = rule == "system folder" and now.kind in ("folder", "missing")
                if folder and not is_programs_folder(path):
                    return None  # what is in it is looked at by itself
                if rule == "customize" and await self._in_own_environment(path):
                    return None
                if rule != "system folder" and _same(now, image):
                    return None
                return _Step(path, _told(_ALWAYS[rule], now, image), now)

    async def _now(self, path: str) -> FileSeen:
        return await self._sandbox.look(path, cap=CAP)

    async def _image(self, path: str) -> FileSeen:
        return await self._sandbox.look(path, cap=CAP, in_image=True)

    async def _both(self, path: str) -> tuple[FileSeen, FileSeen]:
        return await self._now(path), await self._image(path)

    async def _program(self, path: str, rule: Rule) -> _Step | None:
        now, image = await self._both(path)
        kind = "a library" if rule == "library" else "a program"
        if image.kind != "missing":
            told = None if _same(now, image) else _told(f"{kind} of the image's", now, image)
            return _Step(path, told, now)
        script = now.data if now.kind == "file" else None
        if stands_for_pytest(path) and not (script and contents.is_pips_script(script)):
            return _Step(path, _told("a program that stands for pytest", now, image), now)
        for other in others_of(path, rule, self._where):
            if (await self._image(other)).kind != "missing":
                return _Step(path, _told(f"{kind} before the image's {other}", now, image), now)
        return None

    async def _standard(self, path: str) -> _Step | None:
        now, image = await self._both(path)
        what = "a module of Python's own"
        if image.kind != "missing":
            return _Step(path, None if _same(now, image) else _told(what, now, image), now)
        name = (standard_name(path) or "").partition(".")[0]
        known = name in sys.stdlib_module_names or name in ("lib-dynload", "__pycache__")
        if known or name.startswith(("_sysconfigdata", "config-")) or not path.endswith(_MODULES):
            return None
        library = path[: path.index(f"/{standard_name(path)}")]
        if (await self._image(f"{library}/os.py")).kind == "missing":
            return None  # the image had no such Python
        return _Step(path, _told("a module among Python's own", now, image), now)

    async def _pytest(self, path: str, rule: Rule) -> _Step | None:
        if await self._in_own_environment(path):
            return None
        top = top_of(path, rule, self._where)
        now, image = await self._both(path)
        if (await self._image(top)).kind == "missing":
            name = PurePosixPath(top).name
            among = "-packages/" in path
            for folder in packages_of(path) if among else []:
                if (await self._image(f"{folder}/{name}")).kind != "missing":
                    what = f"a package before the image's {folder}/{name}"
                    return _Step(top, _told(what, now, image), now)
            if among or now.kind == "missing":
                return None
            return _Step(top, _told("a module in pytest's place", now, image), now)
        if "-packages/" not in path:
            return None  # a project of that name is what is worked on
        if _same(now, image) or (path.endswith(".pyc") and image.kind == "missing"):
            return _Step(path, None)
        return _Step(top, "the image's pytest, changed; put back", now)

    async def _cached(self, path: str) -> _Step | None:
        """Caches of modules that the image has are made anew from these."""
        folder = path.rpartition("/__pycache__/")[0]
        if folder not in self._folders:
            self._folders[folder] = (await self._image(folder)).kind == "folder"
        if not self._folders[folder]:
            return None
        image = await self._image(path)
        if image.kind == "missing" and (await self._image(source_of(path))).kind == "missing":
            return None
        return _Step(path, None)

    async def _by_contents(self, path: str, rule: Rule) -> _Step | None:
        now, image = await self._both(path)
        if _same(now, image) or now.kind == "missing":
            return None
        data = now.data if now.kind == "file" else None
        match rule:
            case "linker cache":
                if data is not None and not contents.redirects(data):
                    return None
                return _Step(path, _told("a list of libraries from elsewhere", now, image), now)
            case "pth":
                if data is not None and not contents.runs_code(data):
                    return None
                if await self._in_own_environment(path):
                    return None
                return _Step(path, _told("a .pth file that runs code", now, image), now)
            case "entry points" if now.kind == "folder" or not path.endswith(".txt"):
                if now.kind != "link":
                    return None  # what it holds is looked at by itself
                return await self._plugin(path, rule, now)
            case "entry points":
                if data is not None and not contents.is_pytest_plugin(data):
                    return None
                if await self._in_own_environment(path):
                    return None
                return await self._plugin(path, rule, now)
            case "accounts":
                if data is None or image.data is None:
                    return _Step(path, _told("the list of users", now, image), now)
                own = image.data
                return _cut(
                    path,
                    now,
                    lambda text: contents.with_accounts_of(own, text),
                    "other homes or shells for the image's users",
                )
            case "git settings":
                return _cut(path, now, contents.without_git_hooks, "programs for git to run")
            case _:
                name = PurePosixPath(path).name
                return _cut(
                    path,
                    now,
                    lambda text: contents.without_pytest(name, text),
                    "settings for pytest",
                )

    async def _plugin(self, path: str, rule: Rule, now: FileSeen) -> _Step:
        """The whole distribution where it is the agent's own, else what it claims."""
        top = top_of(path, rule, self._where)
        image = await self._image(top)
        place = top if image.kind == "missing" else path
        return _Step(place, _told("a plugin of pytest's", now, image), now)

    async def _in_own_environment(self, path: str) -> bool:
        """Whether it is part of a virtual environment that the image has not: its own Python."""
        top = environment_of(path)
        if top is None:
            return False
        if top not in self._folders:
            now, image = await self._both(f"{top}/pyvenv.cfg")
            self._folders[top] = now.kind == "file" and image.kind == "missing"
        return self._folders[top]


_MODULES = (".py", ".so", ".pyc")


def _same(now: FileSeen, image: FileSeen) -> bool:
    if now.kind != image.kind or now.kind == "other":
        return False
    if now.kind == "file":
        return now.sha256 is not None and now.sha256 == image.sha256
    return now.kind in ("missing", "folder") or now.data == image.data


def _told(what: str, now: FileSeen, image: FileSeen) -> str:
    if now.kind == "missing":
        return f"{what}, removed; put back"
    if image.kind == "missing":
        return f"{what}, which the image has not; taken away"
    return f"{what}, changed; put back"


def _cut(
    path: str, now: FileSeen, without: Callable[[bytes], bytes | None], what: str
) -> _Step | None:
    if now.data is None or now.kind != "file":
        return _Step(path, f"{what} in what is no plain file; put back", now)
    left = without(now.data)
    if left is None:
        return None
    return _Step(path, f"{what}; cut out", now, left)
