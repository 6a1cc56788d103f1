"""A project on disk that is run for real: a desk where a counter is counted up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyio import to_thread

from helpers.jobs import Watched
from trialog.engine.hooks.pool import HookPool
from trialog.engine.job.api import JobResult, Services, run_job
from trialog.engine.job.config import JobConfig
from trialog.engine.job.episode_loading import pack_episode_task
from trialog.engine.job.episode_task import EpisodeTask
from trialog.engine.job.policies import PolicyAgent
from trialog.engine.judges.client import JudgeClient
from trialog.engine.projects.project import load_project
from trialog.engine.sandbox.none import NoSandboxes
from trialog.events.clock import RandomIds, SystemClock
from trialog.events.open import open_log

ENVIRONMENT = """\
import msgspec
from trialog import App, action


class Count(msgspec.Struct):
    value: int = 0


class Counter(App[Count]):
    @action
    def add(self, n: int) -> int:
        self.state.value += n
        return self.state.value

    @action
    def refuse(self) -> int:
        raise ValueError("not today")

    @action(readonly=True)
    def get(self) -> int:
        return self.state.value

    def terminated(self) -> bool:
        return self.state.value >= 3
"""

POLICY = """\
from trialog import Action


class Steady:
    def __init__(self):
        self.steps = [Action("add", {"n": 1}), Action("refuse")] + [Action("add", {"n": 1})] * 9

    async def act(self, observation, actions):
        return self.steps.pop(0)
"""

VERIFY = """\
from trialog import VerifierOutput


def check(episode):
    value = episode.state["value"]
    return VerifierOutput(score=1.0, scores={"reached": value / 3}, evidence=[f"it is {value}"])


def reward(step):
    if step.error:
        return -0.5
    return float(step.current_state["value"] - step.previous_state["value"])


def hindsight(trial):
    if trial.score:
        yield trial.credit(trial.steps("add")[-1], trial.score / 4, why="it was the last")
"""

MANIFEST = """\
name: exact
version: 0.1.0
kind: deterministic
check: verify.py:check
reward: verify.py:reward
hindsight: verify.py:hindsight
"""

PERSON = """\
name: person
kind: human
instructions: Look at the counter.
criteria:
  - name: care
    description: Was it done with care?
    min_score: 0
    max_score: 2
"""


JUDGE = """\
name: quality
version: 0.1.0
kind: agent
model: m-latest
instructions: Judge the counting.
criteria:
  - name: policy
    description: Follows the policy.
    max_score: 2
  - name: clarity
    description: Is clear.
"""


def write_desk(root: Path, verifiers: Mapping[str, str] | None = None, **files: str) -> Path:
    """The project, with one task `count`. `verifiers` adds manifests by name; `files` replaces
    what is in `verify` (its code) or `manifest`."""
    added = verifiers or {}
    listed = "".join(f"  - {name}\n" for name in ("exact", *added))
    found = {
        "trialog.yaml": "name: desk\n",
        "environments/counter/environment.yaml": (
            "name: counter\napps:\n  - python: env.py:Counter\n"
        ),
        "environments/counter/env.py": ENVIRONMENT,
        "tasks/count/task.yaml": (
            "name: count\ninstructions: Count to three.\nenvironment: counter\n"
            f"verifiers:\n{listed}expected: 3\n"
        ),
        "verifiers/exact/verifier.yaml": files.get("manifest", MANIFEST),
        "verifiers/exact/verify.py": files.get("verify", VERIFY),
        "agents/steady/agent.yaml": "name: steady\npython: policy.py:Steady\n",
        "agents/steady/policy.py": POLICY,
    }
    found |= {f"verifiers/{name}/verifier.yaml": text for name, text in added.items()}
    for path, text in found.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


def change(root: Path, before: str, after: str, *, version: str | None = None) -> None:
    """Change the verifier's code, and perhaps its version."""
    code = root / "verifiers/exact/verify.py"
    text = code.read_text("utf-8")
    assert before in text
    code.write_text(text.replace(before, after), "utf-8")
    if version is not None:
        manifest = root / "verifiers/exact/verifier.yaml"
        lines = manifest.read_text("utf-8").splitlines()
        lines[1] = f"version: {version}"
        manifest.write_text("\n".join(lines) + "\n", "utf-8")


def _packed(root: Path) -> tuple[EpisodeTask, Any, Any]:
    project = load_project(root)
    agent = project.agent("steady")
    return pack_episode_task(project.task("count"), [agent]), agent, agent.policy()


async def run_desk(
    root: Path,
    jobs: Path,
    *,
    attempts: int = 1,
    environ: Mapping[str, str] | None = None,
    judge_client: JudgeClient | None = None,
) -> JobResult:
    """Run the project's task; the log is ``trialog.db`` in `jobs`."""
    packed, agent, policy = await to_thread.run_sync(_packed, root)
    async with open_log(jobs / "trialog.db") as log, HookPool(size=1) as hooks:
        services = Services(
            log=log, log_id=log.log_id, backend=NoSandboxes(), clock=SystemClock(),
            ids=RandomIds(), jobs_folder=jobs, environ=environ or {}, hooks=hooks,
            policies={agent.name: PolicyAgent(agent.name, policy)}, judge_client=judge_client,
        )  # fmt: skip
        config = JobConfig(tasks=["count"], agents=["steady"], attempts=attempts, seed=1)
        return await run_job(services, config, [packed], Watched())
