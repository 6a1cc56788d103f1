"""Functions that manifests name and files don't have."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.job.episode_loading import pack_episode_task
from trialog.engine.projects.faults import ProjectError
from trialog.engine.projects.project import load_project
from trialog.engine.projects.template import init_project


def named(root: Path, name: str, code: str | None = None) -> None:
    """Name another check in a new project, and perhaps replace the verifier's code."""
    init_project(root)
    folder = root / "verifiers" / "reached"
    manifest = folder / "verifier.yaml"
    text = manifest.read_text()
    if code is not None:
        (folder / "verify.py").write_text(code)
        text = text.replace("reward: verify.py:reward\nhindsight: verify.py:hindsight\n", "")
    manifest.write_text(text.replace("verify.py:check", f"verify.py:{name}"))


def test_a_function_that_is_missing_is_refused(tmp_path: Path) -> None:
    """A task whose check leads to nothing is not run: the manifest's line and key are told, and
    what is near."""
    named(tmp_path / "p", "chek")
    with pytest.raises(ProjectError) as caught:
        pack_episode_task(load_project(tmp_path / "p").task("count-to-ten"))
    assert (
        "verifiers/reached/verifier.yaml:4: check: there is no function 'chek' in verify.py; "
        "did you mean 'check'?"
    ) in str(caught.value)


@pytest.mark.parametrize(
    "code",
    [
        "from somewhere import chek\n",
        "from somewhere import *\n",
        "if True:\n    chek = print\n",
        "def __getattr__(name):\n    return print\n",
        "globals()['ch' + 'ek'] = print\n",
        "class chek:\n    pass\n",
        "def chek(:\n",
    ],
)
def test_what_can_not_be_told_is_left(tmp_path: Path, code: str) -> None:
    """Nothing is refused for its text that could work once it is imported."""
    named(tmp_path / "p", "chek", code)
    verifier = load_project(tmp_path / "p").read("verifier", "reached")[0]
    from trialog.engine.projects.functions import missing_functions

    assert list(missing_functions(verifier)) == []
