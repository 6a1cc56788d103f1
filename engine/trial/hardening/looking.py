"""What to do about a single path that an agent changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

import msgspec

from ...sandbox.protocol import FileSeen, Sandbox
from . import contents, git
from .links import end_of
from .repositories import is_no_repository, leads_to_programs
from .steering import (
    Rule,
    Surroundings,
    environment_of,
    is_programs_folder,
    is_system_library_folder,
    others_of,
    packages_of,
    source_of,
    standard_name,
    stands_for_pytest,
    top_of,
)

CAP = 16 * 1024 * 1024
"""Bytes of a file that are looked at; nothing that steers is larger but programs."""

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
    "installer settings": "settings of a program that installs packages",
    "way": "something in the place of a folder of the engine's",
}
"""Rules by which a change is enough, and what the thing is called."""


class Step(msgspec.Struct, frozen=True):
    """What to do about a path."""

    path: str
    what: str | None
    """Null: nothing to speak of, a cache say."""
    seen: FileSeen | None = None
    data: bytes | None = None
    """The file's new bytes; null: as the image has it."""


class Looking:
    """Decides on single paths."""

    def __init__(self, sandbox: Sandbox, where: Surroundings) -> None:
        self._sandbox = sandbox
        self._where = where
        self._folders: dict[str, bool] = {}
        self._ways: dict[str, FileSeen] = {}

    async def step(self, path: str, rule: Rule) -> Step | None:
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
                | "linker settings"
                | "name services"
                | "bare git settings"
            ):
                return await self._by_contents(path, rule)
            case "environment settings" | "interpreter" | "installer cache":
                return await self._by_the_image(path, rule)
            case "git pointer":
                now, image = await self._both(path)
                if _same(now, image) or not await leads_to_programs(path, now, self._both):
                    return None
                return Step(path, _told("a .git that leads to programs", now, image), now)
            case _:
                now, image = await self._both(path)
                folder = rule == "system folder" and now.kind in ("folder", "missing")
                if folder and not is_programs_folder(path):
                    return None  # what is in it is looked at by itself
                if rule == "way" and now.kind in ("folder", "missing"):
                    return None
                if rule == "customize" and await self._in_own_environment(path):
                    return None
                if rule != "system folder" and _same(now, image):
                    return None
                return Step(path, _told(_ALWAYS[rule], now, image), now)

    async def _now(self, path: str) -> FileSeen:
        return await self._sandbox.look(path, cap=CAP)

    async def _image(self, path: str) -> FileSeen:
        return await self._sandbox.look(path, cap=CAP, in_image=True)

    async def _both(self, path: str) -> tuple[FileSeen, FileSeen]:
        return await self._now(path), await self._image(path)

    async def _program(self, path: str, rule: Rule) -> Step | None:
        now, image = await self._both(path)
        kind = "a library" if rule == "library" else "a program"
        if image.kind != "missing":
            unchanged = _same(now, image) and now.runs == image.runs
            told = None if unchanged else _told(f"{kind} of the image's", now, image)
            return Step(path, told, now)
        script = now.data if now.kind == "file" else None
        if stands_for_pytest(path) and not (script and contents.is_pips_script(script)):
            return Step(path, _told("a program that stands for pytest", now, image), now)
        if now.kind == "file" and not now.runs and rule == "program":
            return None  # a file to be read, as installers leave one that is called env
        for other in others_of(path, rule, self._where):
            if (await self._image(other)).kind != "missing":
                return Step(path, _told(f"{kind} before the image's {other}", now, image), now)
        return None

    async def _standard(self, path: str) -> Step | None:
        now, image = await self._both(path)
        what = "a module of Python's own"
        if image.kind != "missing":
            return Step(path, None if _same(now, image) else _told(what, now, image), now)
        name = (standard_name(path) or "").partition(".")[0]
        known = name in sys.stdlib_module_names or name in ("lib-dynload", "__pycache__")
        if known or name.startswith(("_sysconfigdata", "config-")) or not path.endswith(_MODULES):
            return None
        library = path[: path.index(f"/{standard_name(path)}")]
        if (await self._image(f"{library}/os.py")).kind == "missing":
            return None  # the image had no such Python
        return Step(path, _told("a module among Python's own", now, image), now)

    async def _pytest(self, path: str, rule: Rule) -> Step | None:
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
                    return Step(top, _told(what, now, image), now)
            if among or now.kind == "missing":
                return None
            return Step(top, _told("a module in pytest's place", now, image), now)
        if "-packages/" not in path:
            return None  # a project of that name is what is worked on
        if _same(now, image) or (path.endswith(".pyc") and image.kind == "missing"):
            return Step(path, None)
        return Step(top, "the image's pytest, changed; put back", now)

    async def _cached(self, path: str) -> Step | None:
        """Caches of modules that the image has are made anew from these."""
        folder = path.rpartition("/__pycache__/")[0]
        if folder not in self._folders:
            self._folders[folder] = (await self._image(folder)).kind == "folder"
        if not self._folders[folder]:
            return None
        image = await self._image(path)
        if image.kind == "missing" and (await self._image(source_of(path))).kind == "missing":
            return None
        return Step(path, None)

    async def _by_contents(self, path: str, rule: Rule) -> Step | None:
        now, image = await self._both(path)
        if _same(now, image) or now.kind == "missing":
            return None
        data = now.data if now.kind == "file" else None
        match rule:
            case "linker cache":
                if data is not None and not contents.redirects(data, image.data):
                    return None
                return Step(path, _told("a list of libraries from elsewhere", now, image), now)
            case "pth":
                if data is not None and not contents.runs_code(data):
                    return None
                if await self._in_own_environment(path):
                    return None
                return Step(path, _told("a .pth file that runs code", now, image), now)
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
                    return Step(path, _told("the list of users", now, image), now)
                own = image.data
                return _cut(
                    path,
                    now,
                    lambda text: contents.with_accounts_of(own, text),
                    "other homes or shells for the image's users",
                )
            case "linker settings":
                folders = None if data is None else contents.library_folders(data)
                if folders is not None and not await self._any_library(folders):
                    return None
                return Step(path, _told("a list of libraries from elsewhere", now, image), now)
            case "name services":
                strange = data is None or contents.names_strange_services(data)
                told = _told("libraries that look up users and hosts", now, image)
                return Step(path, told if strange else None, now)
            case "bare git settings" if await is_no_repository(path, self._now):
                return None
            case "git settings" | "bare git settings":
                return _cut(path, now, git.without_programs, "programs for git to run")
            case _:
                name = PurePosixPath(path).name
                return _cut(
                    path,
                    now,
                    lambda text: contents.without_pytest(name, text),
                    "settings for pytest",
                )

    async def _by_the_image(self, path: str, rule: Rule) -> Step | None:
        """What matters by what the image has there or beside it."""
        now, image = await self._both(path)
        if rule == "installer cache":
            top = top_of(path, rule, self._where)
            return Step(top if (await self._image(top)).kind == "missing" else path, None, now)
        if image.kind != "missing":
            what = "the image's program that runs the verifier"
            if rule == "environment settings":
                what = "a file that leads Python to other modules"
            return None if _same(now, image) else Step(path, _told(what, now, image), now)
        folder = path.rpartition("/")[0]
        for python in ("bin/python3", "bin/python", "python3") if rule != "interpreter" else ():
            if (await self._image(f"{folder}/{python}")).kind != "missing":
                what = f"a file that leads the image's {folder}/{python} to other modules"
                return Step(path, _told(what, now, image), now)
        return None

    async def _any_library(self, folders: Iterable[str]) -> bool:
        for folder in folders:
            if is_system_library_folder(folder):
                continue
            if (await self._now(folder)).kind == "link":
                return True
            for name in contents.LIBRARIES:
                if (await self._now(f"{folder}/{name}")).kind != "missing":
                    return True
        return False

    async def link(self, path: str) -> Step | None:
        """A link to where the verifier's files are, or to a folder that they are below."""
        now = await self._now(path)
        if now.kind != "link" or now.data is None or _same(now, await self._image(path)):
            return None
        where = self._where
        end = await end_of(path, now.data, self._seen, where.places)
        if end is not None:
            above = end == "/" or any(place.startswith(f"{end}/") for place in where.places)
            if not above or "/dosdevices/" in path:
                return None  # Wine has a drive that is the root
        return Step(path, "a link to where the verifier's files are; taken away", now)

    async def _seen(self, path: str) -> FileSeen:
        """What is there, asked once: links share most of their way."""
        if path not in self._ways:
            self._ways[path] = await self._sandbox.look(path, cap=0)
        return self._ways[path]

    async def _plugin(self, path: str, rule: Rule, now: FileSeen) -> Step:
        """The whole distribution where it is the agent's own, else what it claims."""
        top = top_of(path, rule, self._where)
        image = await self._image(top)
        place = top if image.kind == "missing" else path
        return Step(place, _told("a plugin of pytest's", now, image), now)

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
) -> Step | None:
    if now.data is None or now.kind != "file":
        return Step(path, f"{what} in what is no plain file; put back", now)
    left = without(now.data)
    if left is None:
        return None
    return Step(path, f"{what}; cut out", now, left)
