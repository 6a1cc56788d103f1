"""How words become a job's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trialog.engine.errors import ConfigError
from trialog.engine.job.config import JobConfig
from trialog.engine.settings import (
    check_only,
    parameter_rows,
    read_sweep,
    resolve,
    split_tasks,
)


def sweep(tmp_path: Path, text: str) -> tuple[Path, dict[str, Any]]:
    """A sweep file with this text, and what is in it."""
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return path, read_sweep(path)


def test_defaults() -> None:
    """What is not given is the default; not given is None or an empty list."""
    given = {"tasks": ["t"], "agents": None, "models": [], "attempts": None}
    assert resolve(given) == JobConfig(tasks=["t"])


def test_command_line_over_sweep(tmp_path: Path) -> None:
    """A sweep file has the matrix; the command line replaces what it names."""
    found = sweep(
        tmp_path,
        "tasks: [a, b]\nagents: oracle\nmodels: [m1, m2]\nattempts: 3\n"
        "parameters: {t: [0, 0.5], mode: fast}\n",
    )
    config = resolve({"tasks": [], "attempts": 2}, sweep=found)
    assert config == JobConfig(
        tasks=[str(tmp_path / "a"), str(tmp_path / "b")],
        models=["m1", "m2"],
        attempts=2,
        parameters=[{"t": 0, "mode": "fast"}, {"t": 0.5, "mode": "fast"}],
    )


def test_sweep_rows(tmp_path: Path) -> None:
    """Parameters may be a list of rows too."""
    _, found = sweep(tmp_path, "parameters:\n- {t: 0, k: 1}\n- {t: 1}\n")
    assert found["parameters"] == [{"t": 0, "k": 1}, {"t": 1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agents: [oracle\n", "sweep.yaml: line 2: not valid YAML"),
        ("- a\n", "expected settings such as"),
        ("", "found nothing"),
        ("agent: oracle\n", "agent: unknown setting; did you mean agents?"),
        ("atempts: 3\n", "atempts: unknown setting; did you mean attempts?"),
        ("zzz: 3\n", "zzz: unknown setting; known are tasks"),
        ("agent_env: {A: b}\n", "agent_env: unknown setting; give environment variables by"),
        ("attempts: many\n", "attempts: expected int, got str, found 'many'"),
        ("agents: [1]\n", "agents[0]: expected str, got int"),
        ("parameters: {t: 1\n", "not valid YAML"),
        ("retries: 1.5\n", "retries: expected int"),
        ("a: !!python/object:os.system {}\n", "not valid YAML"),
    ],
)
def test_sweep_errors(tmp_path: Path, text: str, message: str) -> None:
    """A sweep file that can't be used is an error with the file, the key and what was found."""
    with pytest.raises(ConfigError) as caught:
        sweep(tmp_path, text)
    assert message in str(caught.value)
    assert "sweep.yaml" in str(caught.value)


def test_sweep_among_tasks() -> None:
    """One argument of run may be a sweep file, known by its ending; two are refused."""
    assert split_tasks(["a", "x.yaml"]) == (["a"], "x.yaml")
    assert split_tasks(["a", "b"]) == (["a", "b"], None)
    with pytest.raises(ConfigError, match="one sweep file at a time"):
        split_tasks(["x.yaml", "y.yml"])


def test_parameter_rows() -> None:
    """Each name's values are tried with each other's; a value is JSON, else text."""
    assert parameter_rows([]) == []
    assert parameter_rows(["t=0", "mode=fast", "t=0.5"]) == [
        {"t": 0, "mode": "fast"},
        {"t": 0.5, "mode": "fast"},
    ]
    assert parameter_rows(['x={"a": [1]}', "y=a=b"]) == [{"x": {"a": [1]}, "y": "a=b"}]
    with pytest.raises(ConfigError, match="--param"):
        parameter_rows(["no value"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tasks": []}, "no task was given"),
        ({"attempts": 0}, "attempts: must be at least 1, found 0"),
        ({"concurrency": -1}, "concurrency: must be at least 1, found -1"),
        ({"limit": 0}, "limit: must be at least 1"),
        ({"retries": -1}, "retries: must be at least 0, found -1"),
        ({"timeout_multiplier": 0.0}, "timeout_multiplier: must be above 0, found 0"),
        ({"timeout_multiplier": float("inf")}, "timeout_multiplier: must be above 0"),
        ({"timeout_multiplier": float("nan")}, "timeout_multiplier: must be above 0"),
        ({"cpus": -0.5}, "cpus: must be above 0"),
        ({"judge_max_cost": 0.0}, "judge_max_cost: must be above 0"),
        ({"agents": ["orcale"]}, "unknown agent 'orcale'; did you mean oracle?"),
        (
            {"agents": ["gpt"]},
            "unknown agent 'gpt'; known are oracle, nop, chat, command:PATH, agent:PATH and "
            "acp:COMMAND",
        ),
        ({"agents": ["command:/no/such"]}, "there is no program '/no/such'"),
        ({"agents": ["nop", "nop"]}, "agents: 'nop' is given twice"),
        ({"retry_on": ["sandbox_lots"]}, "did you mean sandbox_lost?"),
    ],
)
def test_configuration_errors(given: dict[str, Any], message: str) -> None:
    """A value that makes no sense is refused with its name and what was found."""
    with pytest.raises(ConfigError) as caught:
        resolve({"tasks": ["t"], **given})
    assert message in str(caught.value)


def test_unknown_agents_in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's own agents are among those that are known, and the nearest is suggested."""
    (tmp_path / "trialog.yaml").write_text("name: p\n")
    (tmp_path / "agents" / "payer").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"did you mean payer\? known are payer, oracle, nop"):
        resolve({"tasks": ["t"], "agents": ["payr"]})
    with pytest.raises(
        ConfigError, match="known are payer, oracle, nop, chat, command:PATH, agent"
    ):
        resolve({"tasks": ["t"], "agents": ["zzz"]})


def test_program_as_agent(tmp_path: Path) -> None:
    """A program is named by command:PATH; its path alone is answered with that."""
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\n")
    assert resolve({"tasks": ["t"], "agents": [f"command:{program}"]}).agents
    with pytest.raises(ConfigError, match="to run a program, write command:"):
        resolve({"tasks": ["t"], "agents": [str(program)]})


def test_earlier_job_is_the_base() -> None:
    """run --from takes a recorded configuration, and the command line replaces what it names."""
    base = JobConfig(tasks=["t"], attempts=5, seed=7)
    assert resolve({"attempts": 2}, base=base) == JobConfig(tasks=["t"], attempts=2, seed=7)


def test_only() -> None:
    """resume --only takes unscored, errored or a category, and names the nearest for others."""
    for word in (None, "unscored", "errored", "agent_timeout"):
        check_only(word)
    with pytest.raises(ConfigError, match=r"--only: unknown category 'eroded'; did you mean"):
        check_only("eroded")
