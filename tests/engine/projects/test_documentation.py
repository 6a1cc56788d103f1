"""docs/projects.md says what manifests are made of, and its example runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trialog.engine.projects.model import (
    AgentManifest,
    EnvironmentManifest,
    Manifest,
    ProjectManifest,
    TaskManifest,
    VerifierManifest,
)

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "projects.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("file", "manifest"),
    [
        ("trialog.yaml", ProjectManifest),
        ("environment.yaml", EnvironmentManifest),
        ("task.yaml", TaskManifest),
        ("verifier.yaml", VerifierManifest),
        ("agent.yaml", AgentManifest),
    ],
)
def test_every_key_is_documented(file: str, manifest: type[Manifest]) -> None:
    """The page's table of a manifest has exactly the keys that are read."""
    section = PAGE.partition(f"### {file}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.M)
    named = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert named == set(manifest.__struct_fields__) - {"file", "lines"}


def test_the_example_runs(tmp_path: Path) -> None:
    """The page's program in plain Python runs as it stands, and its trial is scored."""
    code = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)[-1]
    (tmp_path / "three.py").write_text(code)
    ran = subprocess.run(
        [sys.executable, "three.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    [result] = (tmp_path / "jobs").glob("*/three__*/result.json")
    assert '"score": 1.0' in result.read_text()
