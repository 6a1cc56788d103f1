"""docs/environments.md: its examples run, and what it says of files and codes is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from trialog.engine.authoring.app import App
from trialog.engine.projects.manifests import read_environment
from trialog.engine.projects.reader import Faults
from trialog.engine.worlds import changes, connection, docker, inside, wire
from trialog.events.codes import CATEGORIES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "environments.md"
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```", re.M | re.S)


def run_examples(text: str) -> dict[str, Any]:
    """Run a page's blocks in order, in one name space; raises where an example gives another."""
    names: dict[str, Any] = {"__name__": "page"}
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    for found in BLOCK.finditer(text):
        kind, code = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        if kind == "python":
            exec(compile("\n" * line + code, str(PAGE), "exec", dont_inherit=True), names)
            continue
        test = doctest.DocTestParser().get_doctest(code, names, PAGE.name, str(PAGE), line)
        said: list[str] = []
        result = runner.run(test, out=said.append, clear_globs=False)
        assert not result.failed, "".join(said)
        names = test.globs
    return names


@pytest.mark.parametrize("wrong", ["```python\n1 / 0\n```\n", "```pycon\n>>> 1 + 1\n3\n\n```\n"])
def test_a_wrong_example_is_found(wrong: str) -> None:
    """The check below can fail."""
    with pytest.raises((ZeroDivisionError, AssertionError)):
        run_examples(wrong)


def test_the_examples() -> None:
    """Every example of the page runs, and gives what the page says."""
    names = run_examples(PAGE.read_text("utf-8"))

    assert issubclass(names["Desk"], App)
    assert len(BLOCK.findall(PAGE.read_text("utf-8"))) >= 8


def test_the_manifest(tmp_path: Path) -> None:
    """The page's environment.yaml is a good one."""
    (yaml,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    file = tmp_path / "environments" / "desk" / "environment.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml, encoding="utf-8")
    (file.parent / "env.py").touch()
    faults = Faults()

    manifest = read_environment(file, tmp_path, faults)

    assert not faults.found
    assert manifest is not None
    assert [app.name for app in manifest.apps] == [None, "second-desk"]
    assert manifest.image is not None


def test_the_figures() -> None:
    """Deadlines, limits, users, folders and codes are those of the code."""
    text = PAGE.read_text("utf-8")

    assert f"has {connection.DEADLINE:g} s for each" in text
    assert f"more than {wire.LIMIT // 2**20} MiB" in text
    assert f"({docker.USER.partition(':')[0]})" in text
    assert f"every {changes.FULL_EVERY}th change" in text
    for name in inside.LEFT_OUT - {"__pycache__"}:
        assert f"`{name}`" in text
    for code in re.findall(r"`(app_\w+)`", text):
        assert code in CATEGORIES
