"""kill -9 at every write of a trial's end and of a regrade, then a resume."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

ID = re.compile(r"01900000-0000-7000-8000-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
EXCEPTED = {"continues", "log", "timing", "duration_sec", "wall_seconds", "record_id"}
"""Besides ids and times: what may differ after an interruption."""


def compared(path: Path) -> list[Any]:
    """A file's content without what an interruption may change."""

    def clean(value: Any) -> Any:
        match value:
            case dict():
                return {k: clean(v) for k, v in value.items() if k not in EXCEPTED}
            case list():
                return [clean(item) for item in value]
            case str():
                return TIME.sub("TIME", ID.sub("ID", value))
            case _:
                return value

    text = path.read_text()
    if path.suffix == ".jsonl":
        return [list(clean(json.loads(line)).items()) for line in text.splitlines()]
    if path.suffix == ".json":
        return [json.dumps(clean(json.loads(text)))]
    return [text]


def files(folder: Path) -> dict[str, list[Any]]:
    """All files of the job in a folder, by path below the jobs folder."""
    (job,) = [p for p in (folder / "jobs").iterdir() if p.is_dir() and p.name.startswith("20")]
    return {str(p.relative_to(job)): compared(p) for p in sorted(job.rglob("*")) if p.is_file()}


def killed_at_every_write(what: str, tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What came of the one that nothing interrupted, and of those killed at each write."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "this test needs a C compiler (Debian: gcc, libc6-dev)"
    shim = tmp_path / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", shim, HERE / "shim.c", "-ldl"], check=True
    )
    environ = os.environ | {"LD_PRELOAD": str(shim), "PYTHONPATH": str(HERE.parent)}
    ran = subprocess.run(
        [sys.executable, HERE / "child.py", what, tmp_path],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    whole, *killed = [json.loads(line) for line in ran.stdout.splitlines()]
    assert whole["status"] == 0
    for run in killed:
        assert run["status"] == signal.SIGKILL, run
        assert run["resumed"] == 0, f"{run}: {ran.stderr[-4000:]}"
    return whole, killed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_every_write(tmp_path: Path) -> None:
    """Whatever write is the last one, a resume gives the uninterrupted run's files.

    Once the verdict is durable neither agent nor verifier runs again; before that only the
    verifier does; and result.json is never there before the trial's end is in the log.
    """
    _, killed = killed_at_every_write("run", tmp_path)
    assert len(killed) > 20
    expected = files(tmp_path / "whole")
    assert any(name.endswith("/result.json") for name in expected)
    early = late = 0
    for run in killed:
        where = f"killed at write {run['kill_at']} of {len(killed)}"
        assert run["agents"] == 1, where
        assert run["verifiers"] == (1 if run["acknowledged"] else 2), where
        assert run["acknowledged"] or not run["result_before"], where
        assert files(tmp_path / f"killed-{run['kill_at']}") == expected, where
        early += not run["acknowledged"]
        late += run["acknowledged"]
    assert early
    assert late


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_regrade_killed_at_every_write(tmp_path: Path) -> None:
    """Whatever write is the last one, it ends with the same summary, and the originals' bytes stay.

    A verifier runs once, and once more only where its answer was not in the log.
    """
    whole, killed = killed_at_every_write("regrade", tmp_path)
    assert whole["same"]
    assert len(killed) > 10
    expected = files(tmp_path / "whole")
    assert any(name.endswith("/regrade.json") for name in expected)
    assert "regrade-summary.json" in expected
    for run in killed:
        assert run["same"], run
        assert run["verifiers"] in (2, 3), run
        assert files(tmp_path / f"killed-{run['kill_at']}") == expected, run
    assert {run["verifiers"] for run in killed} == {2, 3}
