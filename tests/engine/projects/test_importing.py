"""Authors' code is imported apart."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path

import msgspec
import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.projects.importing import (
    PREFIX,
    LazyFunction,
    Space,
    importing,
    module_name,
    parse_reference,
)

from .conftest import write


@pytest.fixture(autouse=True)
def plain_names() -> object:
    """Nothing that a test imports is left under a name that others could meet."""
    before, path = set(sys.modules), list(sys.path)
    yield
    assert sys.path == path
    new = {name for name in set(sys.modules) - before if not name.startswith(PREFIX)}
    assert not new & {"verify", "helpers", "shared", "env", "json5", "calendar2"}


def test_modules_of_one_name_do_not_mix(tmp_path: Path) -> None:
    """Two verifiers, and two projects, each have their own module of the same name."""
    for project in ("p", "q"):
        for verifier in ("a", "b"):
            write(
                tmp_path / project / "verifiers" / verifier,
                {
                    "helpers.py": f"NAME = '{project}{verifier}'\n",
                    "verify.py": (
                        "import helpers\n\n\ndef check(episode):\n"
                        "    from helpers import NAME\n    return NAME, helpers.NAME\n"
                    ),
                },
            )
    spaces = {
        project + verifier: Space(tmp_path / project / "verifiers" / verifier, tmp_path / project)
        for project in ("p", "q")
        for verifier in ("a", "b")
    }
    loaded = {name: space.load("verify.py:check") for name, space in spaces.items()}
    assert {name: check(None) for name, check in loaded.items()} == {
        name: (name, name) for name in spaces
    }


def test_root_and_folder_are_importable(tmp_path: Path) -> None:
    """Modules and packages of the project's root and the resource's folder can be imported, with
    and without __init__.py, absolutely and relatively; the folder's own come first."""
    write(
        tmp_path,
        {
            "shared/deep/sums.py": "from . import more\nTOTAL = 1 + more.MORE\n",
            "shared/deep/more.py": "MORE = 1\n",
            "pack/__init__.py": "from .inner import VALUE\n",
            "pack/inner.py": "VALUE = 'packed'\n",
            "both.py": "WHERE = 'root'\n",
            "v/both.py": "WHERE = 'folder'\n",
            "v/verify.py": (
                "import json\nimport both, pack\nimport shared.deep.sums\n"
                "from shared.deep import sums as again\nfrom . import both as relative\n\n\n"
                "def check(episode):\n    return (shared.deep.sums.TOTAL, again.TOTAL,\n"
                "            both.WHERE, pack.VALUE, relative is both, json.loads('1'))\n"
            ),
        },
    )
    check = Space(tmp_path / "v", tmp_path).load("verify.py:check")
    assert check(None) == (2, 2, "folder", "packed", True, 1)


def test_files_outside_the_folder(tmp_path: Path) -> None:
    """A reference may lead to a file of the project beside the resource's folder."""
    write(tmp_path, {"v/verify.py": "", "shared/checks.py": "def check(episode):\n    return 7\n"})
    space = Space(tmp_path / "v", tmp_path)
    assert space.load("../shared/checks.py:check")(None) == 7
    write(tmp_path, {"v/twice.py": "", "twice.py": "X = 1\n"})
    with pytest.raises(ConfigError, match=r"the name 'twice' stands for .*v/twice\.py here"):
        space.load("../twice.py:X")
    with pytest.raises(ConfigError, match="outside of the project"):
        space.load("../../x.py:y")


def test_annotations_are_resolved(tmp_path: Path) -> None:
    """Types that a module names as text are found, as msgspec needs it for states."""
    write(
        tmp_path,
        {
            "v/env.py": (
                "from __future__ import annotations\nimport msgspec\n\n\n"
                "class Inner(msgspec.Struct):\n    x: int = 0\n\n\n"
                "class State(msgspec.Struct):\n    inner: Inner\n"
            )
        },
    )
    state = Space(tmp_path / "v", tmp_path).load("env.py:State")
    assert msgspec.convert({"inner": {"x": 3}}, state).inner.x == 3


def test_installed_packages_come_before_bare_folders(tmp_path: Path) -> None:
    """A folder without __init__.py does not hide what is installed, and nothing hides trialog."""
    write(
        tmp_path,
        {
            "msgspec/note.txt": "",
            "trialog.py": "BAD = 1\n",
            "calendar.py": "OWN = True\n",
            "v/verify.py": (
                "import calendar, msgspec, trialog\n\n\ndef check(episode):\n"
                "    return calendar.OWN, hasattr(msgspec, 'Struct'), hasattr(trialog, 'BAD')\n"
            ),
        },
    )
    assert Space(tmp_path / "v", tmp_path).load("verify.py:check")(None) == (True, True, False)
    import calendar

    assert not hasattr(calendar, "OWN")


def test_what_runs_is_the_file(tmp_path: Path) -> None:
    """No bytecode is read or written: a file that changed within a second runs as it is now."""
    write(tmp_path, {"v/verify.py": "X = 1\n"})
    assert Space(tmp_path / "v", tmp_path).load("verify.py:X") == 1
    write(tmp_path, {"v/verify.py": "X = 2\n"})
    assert Space(tmp_path / "v", tmp_path).load("verify.py:X") == 2
    assert [path.name for path in (tmp_path / "v").iterdir()] == ["verify.py"]


def test_errors_are_the_authors_own(tmp_path: Path) -> None:
    """What a file raises comes through, with its own lines and with names as they were written."""
    write(
        tmp_path,
        {
            "shared/x.py": "",
            "v/verify.py": "X = 1\n",
            "v/late.py": "\nimport shared.nothing\n",
            "v/raises.py": "\n\n1 / 0\n",
        },
    )
    space = Space(tmp_path / "v", tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'shared\.nothing'$") as caught:
        space.load("late.py:x")
    assert traceback.extract_tb(caught.value.__traceback__)[-2].lineno
    with pytest.raises(ZeroDivisionError) as divided:
        space.load("raises.py:x")
    last = traceback.extract_tb(divided.value.__traceback__)[-1]
    assert (Path(last.filename).name, last.lineno) == ("raises.py", 3)
    for reference, message in (
        ("verify.py:y", "there is no 'y' in verify.py"),
        ("verify.py:X.y", "there is no 'X.y' in verify.py"),
        ("nope.py:x", "there is no such file"),
        ("verify.py", "expected file.py:name, found 'verify.py'"),
        ("a.b.py:x", "can't have dots"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            space.load(reference)


def test_closing_forgets(tmp_path: Path) -> None:
    """A closed space leaves nothing in sys.modules, and what was loaded from it still works."""
    write(tmp_path, {"v/verify.py": "def check(episode):\n    return 1\n\n\ndef late(episode):\n"
                                    "    import other\n", "other.py": ""})  # fmt: skip
    space = Space(tmp_path / "v", tmp_path)
    check, late = space.load("verify.py:check"), space.load("verify.py:late")
    assert any(name.startswith(f"{space.name}.") for name in sys.modules)
    space.close()
    assert not any(name.startswith(f"{space.name}.") for name in sys.modules)
    assert check(None) == 1
    with pytest.raises(ImportError):
        late(None)


def test_importing_is_known(tmp_path: Path) -> None:
    """A file can tell that it is being imported by a space, so that it starts no job then."""
    write(
        tmp_path,
        {
            "v/verify.py": (
                f"from {importing.__module__} import importing\n\nDURING = importing()\n"
            )
        },
    )
    assert not importing()
    assert Space(tmp_path / "v", tmp_path).load("verify.py:DURING") is True
    assert not importing()


def test_lazy_functions(tmp_path: Path) -> None:
    """A lazy function imports its file when it is first called, not before."""
    function = LazyFunction(Space(tmp_path / "v", tmp_path), "verify.py:check")
    assert function.__name__ == "check"
    with pytest.raises(ConfigError):
        function(None)
    write(tmp_path, {"v/verify.py": "def check(episode):\n    return episode\n"})
    assert function(5) == 5


def test_references() -> None:
    """A reference is a Python file, a colon and a name."""
    reference = parse_reference("sub/env.py:Desk.check")
    assert reference == ("sub/env.py", "Desk.check")
    for text in ("env.py", "env.py:", "env:Desk", "env.py:9", "env.py:a b", ":x", "a.py:b:c"):
        assert parse_reference(text) is None


def test_module_names(tmp_path: Path) -> None:
    """A file's name starts at the resource's folder, else at the root."""
    folder = tmp_path / "v"
    assert module_name(folder / "sub/x.py", folder, tmp_path) == "sub.x"
    assert module_name(tmp_path / "w/x.py", folder, tmp_path) == "w.x"
