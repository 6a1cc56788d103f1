"""Tasks run from Python: `trialog.run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import anyio
import msgspec
import trialog


class Count(msgspec.Struct):
    value: int = 0


class Counter(trialog.App[Count]):
    @trialog.action
    def add(self, n: int) -> int:
        self.state.value += n
        return self.state.value

    def terminated(self) -> bool:
        return self.state.value >= 5


class Greedy:
    async def act(self, observation, actions):
        return trialog.Action("add", {"n": 1})


def check(episode: trialog.Episode) -> trialog.VerifierOutput:
    return trialog.VerifierOutput(score=float(episode.state["value"] == episode.expected))


def reward(step: trialog.Step) -> float:
    return 0.2 * (step.current_state["value"] - step.previous_state["value"])


def hindsight(trial: trialog.HindsightTrial):
    if trial.score:
        yield trial.credit(trial.steps("add")[-1], 1.0, why="the last one")


task = trialog.Task(
    "count", "Count to five.", environment=trialog.Environment([Counter]), expected=5,
    verifiers=[
        trialog.DeterministicVerifier("counted", check=check, reward=reward, hindsight=hindsight)
    ],
)
"""

GUARDED = """
if __name__ == "__main__":
    result = anyio.run(lambda: trialog.run(task, Greedy, attempts=3, seed=1))
    print(result.summary["counts"]["passed"])
"""

BARE = """
result = anyio.run(lambda: trialog.run(task, Greedy))
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False,
        timeout=100, env={k: v for k, v in os.environ.items() if not k.startswith("TRIALOG")},
    )  # fmt: skip


def test_a_script_runs_its_own_task(tmp_path: Path) -> None:
    """A plain script's task is run, rewarded, scored and credited, and its log can be rebuilt."""
    ran = run(tmp_path, SCRIPT + GUARDED)
    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
    (job,) = [p for p in (tmp_path / "jobs").iterdir() if p.name.startswith("20")]
    trials = [p for p in job.iterdir() if p.is_dir()]
    assert len(trials) == 3
    lines = [json.loads(line) for line in (trials[0] / "rewards.jsonl").read_text().splitlines()]
    assert [line["source"] for line in lines] == ["step"] * 5 + ["verifier", "hindsight"]
    assert lines[-1]["metadata"] == {"why": "the last one"}
    before = {p: p.read_bytes() for p in job.rglob("*") if p.is_file()}
    for path in before:
        path.unlink()
    trialog = Path(sys.executable).with_name("trialog")
    subprocess.run([trialog, "rebuild", job.name], cwd=tmp_path, check=True, capture_output=True)
    assert {p: p.read_bytes() for p in job.rglob("*") if p.is_file()} == before


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """A script that would start its job again whenever its functions are imported is refused."""
    ran = run(tmp_path, SCRIPT + BARE)
    assert ran.returncode != 0
    assert "__main__" in ran.stderr


@pytest.mark.parametrize("name", ["App", "Task", "run", "total_reward"])
def test_names_are_importable(name: str) -> None:
    """What authors need is importable from `trialog`, and nothing else is claimed to be."""
    import trialog

    assert name in trialog.__all__
    assert getattr(trialog, name) is not None
    assert name in dir(trialog)
    with pytest.raises(AttributeError):
        trialog.nothing_like_this  # noqa: B018 - the access is what is tested
