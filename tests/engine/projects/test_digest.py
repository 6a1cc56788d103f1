"""A verifier's digest: everything that decides what it says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.projects.faults import ProjectError
from trialog.engine.projects.project import load_project

from .conftest import Make, write

SHARED = {
    "verifiers/reached/verify.py": (
        "import os\nfrom shared import sums\n\n\ndef check(episode):\n    import late\n"
        "    return late.x(sums)\n\n\ndef reward(step):\n    return None\n"
    ),
    "shared/sums.py": "from .more import X\n",
    "shared/more.py": "X = 1\n",
    "shared/unused.py": "Y = 1\n",
    "late.py": "def x(y):\n    return {'score': 1.0}\n",
    "verifiers/reached/data/answers.txt": "42\n",
}


def digest(root: Path) -> str:
    """The digest of the project's verifier."""
    return load_project(root).verifier("reached").digest


@pytest.mark.parametrize(
    "path",
    [
        "verifiers/reached/verifier.yaml",
        "verifiers/reached/verify.py",
        "verifiers/reached/data/answers.txt",
        "verifiers/reached/.hidden",
        "shared/sums.py",
        "shared/more.py",
        "late.py",
    ],
)
def test_what_counts(make: Make, path: str) -> None:
    """All files of its folder count, the manifest, and the project's modules that it imports, one
    through another and within functions too."""
    root = make(SHARED)
    before = digest(root)
    assert before == digest(root)
    assert before.startswith("sha256:")
    with (root / path).open("a") as file:
        file.write("# changed\n")
    assert digest(root) != before


@pytest.mark.parametrize(
    "path",
    [
        "shared/unused.py",
        "trialog.yaml",
        "tasks/count/task.yaml",
        "environments/counter/env.py",
        "verifiers/reached/__pycache__/verify.cpython-311.pyc",
        "verifiers/reached/data/.ruff_cache/x",
        "verifiers/reached/.DS_Store",
        "verifiers/reached/old.pyc",
    ],
)
def test_what_does_not_count(make: Make, path: str) -> None:
    """Modules that it does not import, other resources and caches do not count."""
    root = make(SHARED)
    before = digest(root)
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.write("# changed\n")
    assert digest(root) == before


def test_the_place_does_not_count(make: Make) -> None:
    """The same project elsewhere has the same digests."""
    assert digest(make(SHARED)) == digest(make(SHARED, name="elsewhere"))


def test_a_tasks_digest(make: Make) -> None:
    """A task's digest is over its folder, its environment and its verifiers; not over agents."""
    root = make(SHARED)
    before = load_project(root).task("count").digest
    write(root, {"agents/steady/policy.py": "X = 1\n", "shared/unused.py": "Y = 2\n"})
    assert load_project(root).task("count").digest == before
    seen = {before}
    for path in ("tasks/count/task.yaml", "environments/counter/env.py", "shared/more.py"):
        with (root / path).open("a") as file:
            file.write("# changed\n")
        seen.add(load_project(root).task("count").digest)
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def check(episode):\n    return episode.apps['x'].query('look')\n", True),
        ("from shared.sums import ask as check\n", True),
        ("def check(episode):\n    return {'score': episode.state['inquery']}\n", False),
    ],
)
def test_queries(make: Make, code: str, expected: bool) -> None:
    """Code that mentions `query`, also in a module that it imports, may ask apps questions."""
    root = make(
        {
            "verifiers/reached/verify.py": code + "\n\ndef reward(step):\n    return None\n",
            "shared/sums.py": "def ask(episode):\n    return episode.apps['x'].query('a')\n",
        }
    )
    source = load_project(root).verifier("reached").source
    assert source is not None
    assert source.queries is expected


def test_a_file_that_is_no_python(make: Make) -> None:
    """A file that can't be read as Python is a fault at its line."""
    root = make(SHARED)
    assert digest(root)
    write(root, {"shared/more.py": "X = 1\nif\n"})
    with pytest.raises(ProjectError) as caught:
        load_project(root).task("count")
    assert [fault.shown(root) for fault in caught.value.faults] == [
        "shared/more.py:2: no valid Python: invalid syntax"
    ]


def test_links_of_a_verifier(make: Make, tmp_path: Path) -> None:
    """A link within the project counts as what it leads to; one that leads out is refused."""
    root = make(SHARED)
    (root / "verifiers/reached/linked.txt").symlink_to(root / "shared/unused.py")
    before = digest(root)
    write(root, {"shared/unused.py": "Y = 3\n"})
    assert digest(root) != before
    (tmp_path / "secret").write_text("x")
    (root / "verifiers/reached/out").symlink_to(tmp_path / "secret")
    with pytest.raises(Exception, match="out of"):
        digest(root)


def test_packages_and_circles(make: Make) -> None:
    """Packages count with their __init__.py, relative imports are followed, and modules that
    import each other are no trouble."""
    root = make(
        {
            "verifiers/reached/verify.py": (
                "import kit.one.deep\nimport numbers, nowhere.at_all\n\n\n"
                "def check(episode):\n    return 1\n\n\ndef reward(step):\n    return 1\n"
            ),
            "kit/__init__.py": "from . import side\nfrom .. import x\n",
            "kit/side.py": "from .one import deep\nfrom kit import side\n",
            "kit/one/__init__.py": "",
            "kit/one/deep.py": "from .. import side, __version__\nfrom ..two import two\n",
            "kit/two.py": "two = 2\n",
            "kit/three.py": "three = 3\n",
        }
    )
    found = set(load_project(root).task("count").verifier_files())
    assert {path for path in found if path.startswith("kit/")} == {
        "kit/__init__.py", "kit/side.py", "kit/one/__init__.py", "kit/one/deep.py", "kit/two.py",
    }  # fmt: skip


def test_files_with_nul_bytes(make: Make) -> None:
    """Bytes that Python's parser refuses are a fault of the file, not of the program."""
    root = make(SHARED)
    assert digest(root)
    (root / "shared/more.py").write_bytes(b"X = 1\0\n")
    with pytest.raises(ProjectError) as caught:
        digest(root)
    assert "shared/more.py:1: no valid Python" in caught.value.faults[0].shown(root)
