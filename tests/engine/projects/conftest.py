"""Projects made of a table of files."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ENV = """\
import msgspec

from trialog import App, action


class Count(msgspec.Struct):
    value: int = 0


class Counter(App[Count]):
    @action
    def add(self, n: int) -> int:
        self.state.value += n
        return self.state.value
"""

FILES = {
    "trialog.yaml": "name: shop\n",
    "environments/counter/environment.yaml": (
        "name: counter\napps:\n  - python: env.py:Counter\nmax_turns: 5\n"
    ),
    "environments/counter/env.py": ENV,
    "tasks/count/task.yaml": (
        "name: count\ninstructions: Count.\nenvironment: counter\nverifiers:\n  - reached\n"
        "expected: 3\n"
    ),
    "verifiers/reached/verifier.yaml": (
        "name: reached\nversion: 0.1.0\nkind: deterministic\ncheck: verify.py:check\n"
        "reward: verify.py:reward\n"
    ),
    "verifiers/reached/verify.py": (
        "def check(episode):\n"
        '    return {"score": float(episode.state["value"] == episode.expected)}\n\n\n'
        "def reward(step):\n    return 0.5\n"
    ),
    "agents/steady/agent.yaml": "name: steady\npython: policy.py:Policy\n",
    "agents/steady/policy.py": (
        "from trialog import Answer\n\n\nclass Policy:\n"
        "    async def act(self, observation, actions):\n        return Answer(3)\n"
    ),
}

Make = Callable[..., Path]


def write(folder: Path, files: Mapping[str, str | None]) -> Path:
    """Write files below a folder; None takes one away."""
    for path, content in files.items():
        file = folder / path
        if content is None:
            file.unlink(missing_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    return folder


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a project that is in order, but for the files that are given; None leaves one out."""

    def make(files: Mapping[str, str | None] | None = None, *, name: str = "shop") -> Path:
        return write(tmp_path / name, {**FILES, **(files or {})})

    return make
