"""The one import package behind the flat top level: its links, its wheel, what it imports."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import venv
from importlib import import_module, metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import trialog

ROOT = Path(__file__).resolve().parents[1]
INSIDE = ROOT / "engine" / "verifier" / "protected" / "inside"
"""Runs in a sandbox, with the pytest that is brought there."""
PARTS = {
    "engine": ROOT / "engine" / "__init__.py",
    "events": ROOT / "events" / "__init__.py",
    "projections": ROOT / "projections" / "__init__.py",
    "cli": ROOT / "cli.py",
}
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
HEAVY = {"aiodocker", "aiohttp", "aiosqlite", "sqlite3", "zstandard", "yaml"}
"""What no command needs before it acts."""


def run(*argv: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program that must succeed."""
    done = subprocess.run(
        argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def modules_after(code: str, cwd: Path) -> tuple[set[str], str]:
    """Top-level modules that are loaded after running code afresh, and what it printed."""
    show = (
        "import json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = run(sys.executable, "-c", f"{code}\n{show}", cwd=cwd)
    *printed, loaded = done.stdout.splitlines()
    return set(json.loads(loaded)), "\n".join(printed)


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_the_checkouts_own_files(part: str) -> None:
    """Each part of the package is the top-level file of the checkout, not a copy."""
    file = import_module(f"trialog.{part}").__file__
    assert file is not None
    assert PARTS[part] == Path(file).resolve()


def test_every_module_imports() -> None:
    """Each module can be imported, and so coverage knows of those that no test uses."""
    names = [
        "trialog." + ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources()
    ]
    names = [name.removesuffix(".__init__") for name in names]
    assert {"trialog.cli", "trialog.events.kinds.job"} <= set(names)
    for name in names:
        assert name == import_module(name).__name__


def test_links_are_relative() -> None:
    """The links work wherever the checkout lies."""
    package = ROOT / "src" / "trialog"
    links = {path.name: os.readlink(path) for path in package.iterdir() if path.is_symlink()}
    expected = {name: f"../../{name}" for name in ("engine", "events", "projections", "cli.py")}
    assert expected == links


def test_generic_names_are_not_imported() -> None:
    """Nothing imports the parts under their bare names, which would be second copies."""
    assert set() == {"engine", "events", "projections", "cli"} & set(sys.modules)


def test_inside_the_package_imports_are_relative() -> None:
    """A module of the package never imports `trialog.…`, nor a part by its bare name."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in absolute_imports(node)
        if name.split(".")[0] in {"trialog", *PARTS}
    ]
    assert [] == found


def test_version_is_the_distributions() -> None:
    """`trialog.__version__` is what pip says."""
    assert metadata.version("trialog") == trialog.__version__


def test_importing_the_package_loads_nothing_else(tmp_path: Path) -> None:
    """`import trialog` costs nothing: no part and no dependency comes with it."""
    wanted = {normal(Requirement(line).name) for line in metadata.requires("trialog") or []}
    dependencies = {
        top
        for top, owners in metadata.packages_distributions().items()
        if wanted & {normal(owner) for owner in owners}
    }
    assert {"msgspec", "aiodocker", "pytest"} <= dependencies
    loaded, _ = modules_after("import trialog", tmp_path)
    assert "trialog" in loaded
    assert set() == loaded & (dependencies | set(PARTS))


def test_help_is_light(tmp_path: Path) -> None:
    """`trialog --help` shows the commands and loads no driver, compressor or parser."""
    code = (
        "import sys, trialog.cli\n"
        "sys.argv = ['trialog', '--help']\n"
        "try:\n    trialog.cli.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code"
    )
    loaded, printed = modules_after(code, tmp_path)
    assert "Usage: trialog" in printed
    assert set() == HEAVY & loaded


def test_third_party_imports_are_declared() -> None:
    """What the package imports is in `dependencies`, so that a plain install has it.

    What an extra brings may be imported by the one part of the package that the extra is for.
    """
    declared = {
        normal(Requirement(line).name)
        for line in metadata.requires("trialog") or []
        if "extra ==" not in line
    }
    extras = {
        "engine/models/client.py: openai",
        "engine/reading/opened.py: pandas",
        "engine/reading/opened.py: pyarrow",
        "engine/reading/parquet.py: pyarrow",
        "engine/reading/tables.py: pandas",
        "engine/reading/tables.py: pyarrow",
        "engine/agents/acp/forms.py: acp",
        "engine/agents/acp/forms.py: pydantic",
    }
    owners = metadata.packages_distributions()
    missing = set()
    for path in sources():
        if INSIDE in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in absolute_imports(node):
                top = name.split(".")[0]
                if top in sys.stdlib_module_names:
                    continue
                if not declared & {normal(owner) for owner in owners.get(top, ["nobody"])}:
                    missing.add(f"{path.relative_to(ROOT)}: {top}")
    assert extras == missing


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the tracked files, so that nothing ignored gets into what is built of it."""
    archive = tmp_path / "checkout.tar"
    names = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    files = [name for name in names if name and os.path.lexists(ROOT / name)]
    run("tar", "-cf", archive, *files, cwd=ROOT)
    copy = tmp_path / "checkout"
    copy.mkdir()
    run("tar", "-xf", archive, cwd=copy)
    return copy


def build(source: Path, destination: Path) -> Path:
    """A wheel, made with the build tools of this environment."""
    options = ["--no-deps", "--no-build-isolation", "-w", destination]
    run(*PIP, "wheel", *options, source, cwd=source)
    [wheel] = destination.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_what_is_said_to_install_is_what_an_extra_needs() -> None:
    """What was installed from a checkout has no extras by name: what they need is named."""
    needs = [Requirement(one) for one in metadata.requires("trialog") or ()]
    extras = {
        str(Requirement(f"{one.name}{one.specifier}"))
        for one in needs
        for extra in ("acp", "models", "tables")
        if one.marker is not None and one.marker.evaluate({"extra": extra})
    }
    places = [*(ROOT / "engine").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    texts = [*places, ROOT / "CHANGELOG.md", ROOT / "events" / "codes.py"]
    said = {one for text in texts for one in re.findall(r"pip install '([^']+)'", text.read_text())}
    assert {str(Requirement(one)) for one in said} == extras
    assert not any("`trialog[" in text.read_text() for text in texts)


def test_sdist_makes_the_same_wheel(checkout: Path, tmp_path: Path) -> None:
    """Nothing gets lost on the way through a source distribution, links or not."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", cwd=checkout)
    [sdist] = (checkout / "dist").glob("*.tar.gz")
    run("tar", "-xzf", sdist, cwd=tmp_path)
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    wheels = [build(checkout, tmp_path / "direct"), build(unpacked, tmp_path / "by-sdist")]
    direct, by_sdist = ({(i.filename, i.CRC) for i in ZipFile(w).infolist()} for w in wheels)
    assert "trialog/engine/__init__.py" in {name for name, _ in direct}
    assert direct == by_sdist


@pytest.mark.slow
def test_wheel_installs_and_runs(checkout: Path, tmp_path: Path) -> None:
    """The wheel has every module as a real file, and its command runs in a clean environment."""
    wheel = build(checkout, tmp_path)
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=False, symlinks=True)
    python = clean / "bin" / "python"
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    [site] = clean.glob("lib/python*/site-packages")
    # The dependencies, whose versions are pinned, are taken from where they are installed.
    (site / "dependencies.pth").write_text(f"{purelib()}\n")

    shipped = {str(path.relative_to(site)) for path in (site / "trialog").rglob("*.py")}
    expected = {f"trialog/{path.relative_to(checkout)}" for path in sources(checkout)}
    assert expected | {"trialog/__init__.py"} == shipped
    assert not any((site / name).is_symlink() for name in shipped)
    assert (site / "trialog" / "py.typed").exists()
    assert {"trialog", "dependencies.pth"} == {
        path.name
        for path in site.iterdir()
        if not path.name.endswith(".dist-info") and path.name != "__pycache__"
    }
    where = run(python, "-c", "import trialog.engine; print(trialog.engine.__file__)", cwd=tmp_path)
    assert str(site / "trialog" / "engine" / "__init__.py") == where.stdout.strip()
    assert "resume" in run(clean / "bin" / "trialog", "--help", cwd=tmp_path).stdout


def purelib() -> Path:
    """Where this environment's packages are."""
    return Path(str(metadata.distribution("msgspec").locate_file("")))


def sources(root: Path = ROOT) -> list[Path]:
    """The package's modules."""
    parts = ("engine", "events", "projections")
    return [*(path for part in parts for path in (root / part).rglob("*.py")), root / "cli.py"]


def absolute_imports(node: ast.AST) -> list[str]:
    """The names that an import statement asks for, relative ones left out."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    return []


def normal(name: str) -> str:
    """A distribution's name as PyPI compares it."""
    return name.lower().replace("_", "-").replace(".", "-")
