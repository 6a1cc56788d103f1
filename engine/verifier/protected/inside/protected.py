"""How the protected pytest differs from another: what it may load, and from where.

Runs inside the sandbox, on Python 3.8 and later, with the pytest that lies beside it; its private
parts are used, since it is always the same one.
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

INI_FILES = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


class Changed:
    """Keeps out what the agent installed or changed among the image's packages."""

    def __init__(self, packages: list[str], names: list[str]) -> None:
        self._packages = packages
        self._names = frozenset(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A module of the tests' own by such a name is theirs; any other is refused."""
        top = name.partition(".")[0]
        if top not in self._names:
            return None
        if path is None:
            own = [place for place in sys.path if place not in self._packages]
            spec = PathFinder.find_spec(name, own)
            if spec is not None:
                return spec
        elif not _below(path, self._packages):
            return None
        raise ModuleNotFoundError(
            f"the agent installed or changed {top}, so a test may not import it here; run what "
            "needs it as a program of its own",
            name=name,
        )


def _below(paths: Any, folders: list[str]) -> bool:
    return any(str(path).startswith(folder + os.sep) for path in paths for folder in folders)


def run(here: str, args: list[str]) -> int:
    """Run pytest on tests of the verifier's folder: its exit code."""
    with open(os.path.join(here, "settings.json"), encoding="utf-8") as file:
        settings = json.load(file)
    roots = [Path(root) for root in settings["roots"]]
    packages = _packages(check_owner=settings["check_owner"])
    sys.path.extend(packages)
    sys.meta_path.insert(0, Changed(packages, settings["changed"]))

    import pytest
    from _pytest.config import Config, PytestPluginManager, builtin_plugins

    def inside(path: Path) -> bool:
        place = Path(os.path.normpath(os.path.abspath(path)))
        return any(place == root or root in place.parents for root in roots)

    class Own:
        """What is checked once pytest has read its arguments."""

        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(self, config: Any) -> None:
            ini = config.inipath
            if ini is not None and not inside(ini) and ini != Path(here, "pytest.ini"):
                raise pytest.UsageError(
                    f"{ini}: this pytest reads no settings from outside of {roots[0]}"
                )
            if config.option.pyargs:
                return
            for word in config.args:
                place = Path(config.invocation_params.dir, str(word).partition("::")[0])
                if not inside(place):
                    raise pytest.UsageError(
                        f"{place}: this pytest runs tests from {roots[0]} alone; run others with "
                        "a pytest of the image, as a program of its own"
                    )

    usual = PytestPluginManager.import_plugin

    def import_plugin(self: Any, modname: str, consider_entry_points: bool = False) -> None:
        if modname not in builtin_plugins and modname.partition(".")[0] != "_pytest":
            spec = PathFinder.find_spec(modname.partition(".")[0], [str(root) for root in roots])
            if spec is None:
                raise pytest.UsageError(
                    f"plugin {modname}: this pytest loads its own plugins and those of the tests' "
                    f"folder {roots[0]}, no others"
                )
        usual(self, modname)

    root = next((r for r in roots if any(word.startswith(f"{r}/") for word in args)), roots[0])
    usual_args = Config._decide_args

    def decide_args(self: Any, *, args: Any, testpaths: Any, **more: Any) -> Any:
        args = args or [str(root / path) for path in testpaths] or [str(root)]
        return usual_args(self, args=args, testpaths=testpaths, **more)

    configuration: Any = Config
    configuration._decide_args = decide_args
    manager: Any = PytestPluginManager
    manager.import_plugin = import_plugin
    manager.load_setuptools_entrypoints = lambda self, group, name=None: 0
    manager._is_in_confcutdir = lambda self, path: inside(path)

    sys.path.insert(0, str(root))
    words = ["-p", "no:cacheprovider", f"--rootdir={root}", f"--confcutdir={root}"]
    words += ["-c", str(_ini(root) or Path(here, "pytest.ini"))]
    return int(pytest.main([*words, *args], plugins=[Own()]))


def _ini(root: Path) -> Path | None:
    """The tests' own settings, if they have any."""
    from _pytest.config.findpaths import load_config_dict_from_file

    for name in INI_FILES:
        path = root / name
        if path.is_file() and load_config_dict_from_file(path) is not None:
            return path
    return None


def _packages(*, check_owner: bool) -> list[str]:
    """The image's folders of packages, as plain folders: no .pth file of theirs is read."""
    import site

    found = []
    for folder in site.getsitepackages():
        try:
            owner = os.stat(folder).st_uid
        except OSError:
            continue
        if owner == 0 or not check_owner:
            found.append(folder)
    return found
