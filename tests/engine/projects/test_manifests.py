"""Manifests: every key, and every fault at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialog.engine.authoring.verifiers import AgentVerifier, HumanVerifier, total_reward
from trialog.engine.errors import ConfigError
from trialog.engine.projects.faults import ProjectError
from trialog.engine.projects.project import load_project

from .conftest import Make

RUBRIC = (
    "criteria:\n  - name: tone\n    description: kind\n    weight: 2\n    min_score: 0\n"
    "    max_score: 5\n    blocker: true\n"
)


def faults(root: Path, task: str = "count") -> list[str]:
    """What is wrong with a task, as `folder/file:line: message`."""
    with pytest.raises(ProjectError) as caught:
        load_project(root).task(task)
    return [fault.shown(root) for fault in caught.value.faults]


def test_a_project_in_order(make: Make) -> None:
    """Every key of every manifest arrives where it belongs."""
    root = make(
        {
            "trialog.yaml": 'name: shop\ntrialog: ">=0.1"\ndefaults:\n  attempts: 3\n',
            "environments/counter/environment.yaml": (
                "name: counter\napps:\n  - python: env.py:Counter\n    name: tally\n"
                "    settings: {step: 2}\n    control: live\n"
                "max_turns: 4\nmax_seconds: 1.5\nmax_cost: 0.25\nimage: python:3.12\n"
            ),
            "tasks/count/task.yaml": (
                "name: count\ninstructions: Count.\nenvironment: counter\n"
                "verifiers: [reached, judge, people]\nexpected: {a: [1, yes]}\ninfo: {id: 7}\n"
                "metadata: {by: me}\ninitial_state: {value: 2}\n"
            ),
            "verifiers/reached/verifier.yaml": (
                "name: reached\nversion: 1.2.3-rc.1+b\nkind: deterministic\n"
                "check: verify.py:check\nreward: verify.py:reward\nhindsight: verify.py:check\n"
                "weight: 0.5\ntimeout_sec: 7\n"
            ),
            "verifiers/judge/verifier.yaml": (
                "name: judge\nkind: agent\nmodel: m\ninstructions: Judge.\nsamples: 3\n"
                "max_cost: 0.5\n"
                "timeout_sec: 9\n" + RUBRIC
            ),
            "verifiers/people/verifier.yaml": (
                "name: people\nkind: human\ninstructions: Look.\nweight: 2\n" + RUBRIC
            ),
        }
    )
    project = load_project(root)
    assert (project.name, project.defaults) == ("shop", {"attempts": 3})
    task = project.task("count")
    assert task.view.expected == {"a": [1, "yes"]}
    assert (task.view.info, task.view.metadata) == ({"id": 7}, {"by": "me"})
    assert task.view.initial_state == {"value": 2}
    assert task.image == "python:3.12"
    environment = task.task.environment
    assert (environment.max_turns, environment.max_seconds, environment.max_cost) == (4, 1.5, 0.25)
    [(name, kind)] = environment.apps.items()
    assert (name, kind.control, environment.settings) == ("tally", "live", {"tally": {"step": 2}})
    source = task.verifiers[0].source
    assert source is not None
    assert (source.version, source.weight, source.timeout_sec) == ("1.2.3-rc.1+b", 0.5, 7)
    assert (source.check, source.reward, source.hindsight) == (
        "verify.py:check", "verify.py:reward", "verify.py:check",
    )  # fmt: skip
    assert (source.folder, source.root) == (root / "verifiers/reached", root)
    judge, people = (each.verifier for each in task.verifiers[1:])
    assert isinstance(judge, AgentVerifier)
    assert isinstance(people, HumanVerifier)
    assert (judge.model, judge.samples, judge.timeout_sec, judge.max_cost) == ("m", 3, 9, 0.5)
    [criterion] = judge.criteria
    assert (criterion.weight, criterion.max_score, criterion.blocker) == (2, 5, True)
    assert (people.weight, people.criteria) == (2, judge.criteria)
    assert task.verifiers[1].source is None


def test_a_project_is_found_upward(make: Make, tmp_path: Path) -> None:
    """The nearest trialog.yaml counts, and without one the error says how to make a project."""
    root = make()
    assert load_project(root / "verifiers/reached").root == root
    with pytest.raises(ConfigError, match=r"no trialog\.yaml here or in a folder above.*init"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("tasks/count/task.yaml", "\nname: count\ninstructions: x\nverifers: [reached]\n",
         ["tasks/count/task.yaml:2: verifiers: a task needs at least one verifier; nothing would "
          "score it",
          "tasks/count/task.yaml:4: verifers: unknown key; did you mean 'verifiers'?"]),
        ("tasks/count/task.yaml", "name: other\ninstructions: x\nverifiers: [reached]\n",
         ["tasks/count/task.yaml:1: name: the name 'other' is not the folder's; "
          "it must be 'count'"]),
        ("tasks/count/task.yaml", "instructions: x\nverifiers: [reached]\n",
         ["tasks/count/task.yaml:1: the key 'name' is missing; write `name: count`"]),
        ("tasks/count/task.yaml", "name: count\nverifiers: [reached]\n",
         ["tasks/count/task.yaml:1: the key 'instructions' is missing; "
          "they are what the agent is asked to do"]),
        ("tasks/count/task.yaml", "name: count\ninstructions: 5\nverifiers: [reached]\n",
         ["tasks/count/task.yaml:2: instructions: expected text (put it in quotes), "
          "found the number 5"]),
        ("tasks/count/task.yaml", "name: count\ninstructions: x\nverifiers: []\n",
         ["tasks/count/task.yaml:3: verifiers: a task needs at least one verifier; "
          "nothing would score it"]),
        ("tasks/count/task.yaml",
         "name: count\ninstructions: x\nverifiers:\n  - reached\n  - reached\n",
         ["tasks/count/task.yaml:5: verifiers[1]: 'reached' is listed twice"]),
        ("tasks/count/task.yaml",
         "name: count\ninstructions: x\nverifiers:\n  - reached\n  - reachd\n",
         ["tasks/count/task.yaml:5: verifiers[1]: there is no verifier 'reachd'; "
          "did you mean 'reached'?"]),
        ("tasks/count/task.yaml",
         "name: count\ninstructions: x\nenvironment: countr\nverifiers: [reached, 5]\n",
         ["tasks/count/task.yaml:3: environment: there is no environment 'countr'; "
          "did you mean 'counter'?",
          "tasks/count/task.yaml:4: verifiers[1]: expected text, found the number 5"]),
        ("tasks/count/task.yaml", "name: count\ninfo: {a: 1\n",
         ["tasks/count/task.yaml:3: no valid YAML: expected ',' or '}', but got '<stream end>'"]),
        ("tasks/count/task.yaml", "name: count\nname: count\n",
         ["tasks/count/task.yaml:2: no valid YAML: the key 'name' is given twice"]),
        ("tasks/count/task.yaml", "# only this\n- a\n",
         ["tasks/count/task.yaml:2: expected keys and values, found a list"]),
        ("verifiers/reached/verifier.yaml", "name: reached\nversion: 0.1\ncheck: verify.py:check\n",
         ["verifiers/reached/verifier.yaml:2: version: expected a semantic version such as 0.1.0, "
          "found the number 0.1"]),
        ("verifiers/reached/verifier.yaml", "name: reached\nversion: 1.02.3\n",
         ["verifiers/reached/verifier.yaml:1: a verifier needs at least one of check, reward and "
          "hindsight",
          "verifiers/reached/verifier.yaml:2: version: expected a semantic version such as 0.1.0, "
          "found the text '1.02.3'"]),
        ("verifiers/reached/verifier.yaml", "name: reached\nkind: agentt\ncheck: nope.py:check\n",
         ["verifiers/reached/verifier.yaml:2: kind: expected one of deterministic, agent, human, "
          "found the text 'agentt'",
          "verifiers/reached/verifier.yaml:3: check: there is no file nope.py in reached/"]),
        ("verifiers/reached/verifier.yaml", "name: reached\ncheck: verify.check\n",
         ["verifiers/reached/verifier.yaml:2: check: expected verify.py:function, total_reward, "
          "or a list of words, found 'verify.check'"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\ncheck: ../../../x.py:check\nreward: verify.py:reward\n",
         ["verifiers/reached/verifier.yaml:2: check: ../../../x.py is outside of the project"]),
        ("verifiers/reached/verifier.yaml", "name: reached\ncheck: total_reward\n",
         ["verifiers/reached/verifier.yaml:2: check: total_reward sums up this verifier's own "
          "rewards, and it has no `reward`, so the score would always be 0"]),
        ("verifiers/reached/verifier.yaml", "name: reached\nreward: verify.py:reward\n",
         ["tasks/count/task.yaml:4: verifiers: none of them has a check, so nothing would score "
          "the task"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\ncheck: verify.py:check\nweight: 0\n",
         ["tasks/count/task.yaml:4: verifiers: the weights of those that score sum to 0"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\ncheck: verify.py:check\nweight: -1\ntimeout_sec: 0\n",
         ["verifiers/reached/verifier.yaml:3: weight: expected 0 or more, found -1",
          "verifiers/reached/verifier.yaml:4: timeout_sec: expected a number above 0, found the "
          "number 0"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\ncheck: verify.py:check\nmodel: x\n",
         ["verifiers/reached/verifier.yaml:3: model: only for verifiers of the kind agent or "
          "human"]),
        ("verifiers/reached/verifier.yaml", "name: reached\ncheck: verify.py:check\nmax_cost: 1\n",
         ["verifiers/reached/verifier.yaml:3: max_cost: only for verifiers of the kind agent or "
          "human"]),
        ("verifiers/reached/verifier.yaml", "name: reached\ncheck: []\n",
         ["verifiers/reached/verifier.yaml:2: check: a command needs at least one word"]),
        ("verifiers/reached/verifier.yaml", "name: reached\ncheck: [./check.sh]\n",
         ["verifiers/reached/verifier.yaml:2: check: there is no program ./check.sh in the "
          "verifier's folder"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\nkind: agent\ncheck: verify.py:check\ninstructions: x\ncriteria: []\n",
         ["verifiers/reached/verifier.yaml:1: the key 'model' is missing; it says which model "
          "judges",
          "verifiers/reached/verifier.yaml:3: check: only for verifiers of the kind deterministic",
          "verifiers/reached/verifier.yaml:5: criteria: a rubric needs at least one criterion"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\nkind: human\nmodel: x\ninstructions: y\ncriteria:\n"
         "  - name: a\n    description: d\n    min_score: 2\n    max_score: 2\n"
         "  - name: a\n    description: d\n    wieght: 1\n"
         "  - description: d\n",
         ["verifiers/reached/verifier.yaml:3: model: not for people",
          "verifiers/reached/verifier.yaml:9: criteria[0].max_score: the range 2 to 2 is empty",
          "verifiers/reached/verifier.yaml:10: criteria[1].name: two criteria have the name 'a'",
          "verifiers/reached/verifier.yaml:12: criteria[1].wieght: unknown key; did you mean "
          "'weight'?",
          "verifiers/reached/verifier.yaml:13: criteria[2]: the key 'name' is missing; scores are "
          "kept by it"]),
        ("verifiers/reached/verifier.yaml",
         "name: reached\nkind: human\ninstructions: y\ncriteria:\n  - name: a\n"
         "    description: d\n    weight: 0\n    blocker: 1\n",
         ["verifiers/reached/verifier.yaml:4: criteria: the weights of the criteria sum to 0",
          "verifiers/reached/verifier.yaml:8: criteria[0].blocker: expected true or false, found "
          "the number 1"]),
        ("environments/counter/environment.yaml",
         "name: counter\napps:\n  - pyhton: env.py:Counter\n",
         ["environments/counter/environment.yaml:3: apps[0].pyhton: unknown key; did you mean "
          "'python'?",
          "environments/counter/environment.yaml:3: apps[0]: the key 'python' is missing; it says "
          "which class the app is"]),
        ("environments/counter/environment.yaml",
         "name: counter\napps:\n  - python: env.py:Counter\n    name: a\n    control: mine\n"
         "  - python: env.py:Counter\n    name: a\n  - 3\nmax_turns: 0\n",
         ["environments/counter/environment.yaml:5: apps[0].control: expected one of owned, "
          "sandboxed, live, replayed, found the text 'mine'",
          "environments/counter/environment.yaml:6: apps[1]: two apps have the name 'a'",
          "environments/counter/environment.yaml:8: apps[2]: expected a mapping, found the "
          "number 3",
          "environments/counter/environment.yaml:9: max_turns: expected a whole number above 0, "
          "found the number 0"]),
    ],
)  # fmt: skip
def test_faults(make: Make, file: str, text: str, expected: list[str]) -> None:
    """Each fault of a task, its environment and its verifiers, all at once, at its line."""
    root = make()
    assert load_project(root).task("count").name == "count"
    (root / file).write_text(text)
    assert faults(root) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trialog: '>=0.1'\n", "trialog.yaml:1: the key 'name' is missing"),
        ("name: x\ntrialog: '>=99'\n", "trialog.yaml:2: trialog: the project is for trialog >=99"),
        ("name: x\ntrialog: newest\n", "trialog.yaml:2: trialog: expected a range of versions"),
        ("name: x\ndefaults: {attemps: 3}\n", "unknown setting; did you mean 'attempts'?"),
        ("name: x\ndefaults:\n  attempts: many\n", "trialog.yaml:3: defaults.attempts: expected"),
        ("name: x\nversion: 1\n", "trialog.yaml:2: version: unknown key"),
    ],
)
def test_faults_of_the_project_itself(make: Make, text: str, message: str) -> None:
    """trialog.yaml: its name, the range of versions, the defaults."""
    root = make()
    assert load_project(root)
    (root / "trialog.yaml").write_text(text)
    with pytest.raises(ProjectError) as caught:
        load_project(root)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: steady\n", "one of python, model and command; found none of them"),
        ("name: steady\npython: policy.py:Policy\nmodel: m\n", "found python and model"),
        ("name: steady\npython: policy.py:Policy\ninstall: x\n", "install: not for an agent in"),
        ("name: steady\ncommand: run\nenv: {A: 1}\n", "env.A: expected text, found the number 1"),
        ("name: steady\nmodel: m\ntool: []\n", "did you mean 'tools'?"),
    ],
)
def test_faults_of_agents(make: Make, text: str, message: str) -> None:
    """agent.yaml: one of its three kinds, and the keys of that kind."""
    root = make()
    assert load_project(root).agent("steady").policy().__name__ == "Policy"
    (root / "agents/steady/agent.yaml").write_text(text)
    with pytest.raises(ProjectError) as caught:
        load_project(root).agent("steady")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("install: pip install x\ncommand: [x, run]\nversion: '2'\nenv: {A: b}\nnetwork: true\n",
         "is installed in a sandbox, and can't act in an environment; .*policy.py:Class"),
    ],
)  # fmt: skip
def test_agents_that_are_no_policy(make: Make, text: str, what: str) -> None:
    """Agents that are no Python are read, and refused for environments with what can be done."""
    root = make({"agents/steady/agent.yaml": f"name: steady\n{text}"})
    agent = load_project(root).agent("steady")
    with pytest.raises(ConfigError, match=what):
        agent.policy()


def test_unknown_names(make: Make) -> None:
    """A name that the project does not have is told with the nearest one."""
    project = load_project(make())
    with pytest.raises(ConfigError, match=r"has no task 'coutn'; did you mean 'count'\?"):
        project.task("coutn")
    with pytest.raises(ConfigError, match="has no agent 'x'; there are: steady"):
        project.agent("x")
    with pytest.raises(ConfigError, match="has no environment 'zzz'"):
        project.environment("zzz")


def test_folders_without_a_manifest(make: Make) -> None:
    """A folder of a resource without its manifest is a fault that says what to do."""
    root = make(
        {
            "tasks/count/task.yaml": (
                "name: count\ninstructions: x\nverifiers: [reached, helpers, other]\n"
            ),
            "verifiers/helpers/common.py": "",
            "verifiers/other/verifier.yml": "name: other\n",
            "verifiers/.hidden/x": "",
            "verifiers/__pycache__/x": "",
        }
    )
    assert load_project(root).names("verifier") == ["helpers", "other", "reached"]
    assert faults(root) == [
        "verifiers/helpers/verifier.yaml:1: the folder helpers/ has no verifier.yaml; write one, "
        "or move the folder out of verifiers/",
        "verifiers/other/verifier.yaml:1: verifier.yml is not read; rename it to verifier.yaml",
    ]


def test_bad_names(make: Make) -> None:
    """A folder whose name could not be one of a container or a row is refused."""
    root = make({"tasks/my task/task.yaml": "name: my task\ninstructions: x\nverifiers: [reached]"})
    assert "'my task' is no good name" in faults(root, "my task")[0]


def test_links_stay_in_the_project(make: Make, tmp_path: Path) -> None:
    """A manifest that is a link out of the project is not read."""
    root = make()
    outside = tmp_path / "task.yaml"
    outside.write_text((root / "tasks/count/task.yaml").read_text())
    (root / "tasks/count/task.yaml").unlink()
    (root / "tasks/count/task.yaml").symlink_to(outside)
    assert "out of" in faults(root)[0]


def test_no_environment(make: Make) -> None:
    """A task without an environment has no apps; its answer is all there is to check."""
    root = make({"tasks/count/task.yaml": "name: count\ninstructions: ''\nverifiers: [reached]\n"})
    task = load_project(root).task("count")
    assert (task.environment, task.image, task.task.environment.apps) == (None, None, {})


def test_commands_and_total_reward(make: Make) -> None:
    """A check may be a command of words, and total_reward where there is a reward."""
    root = make(
        {
            "verifiers/reached/verifier.yaml": "name: reached\ncheck: [./check.sh, -v]\n",
            "verifiers/reached/check.sh": "#!/bin/sh\n",
            "verifiers/sum/verifier.yaml": (
                "name: sum\ncheck: total_reward\nreward: verify.py:reward\n"
            ),
            "verifiers/sum/verify.py": "def reward(step):\n    return 1\n",
        }
    )
    project = load_project(root)
    source = project.verifier("reached").source
    assert source is not None
    assert source.check == ["./check.sh", "-v"]
    assert project.verifier("sum").verifier.check is total_reward  # type: ignore[union-attr]


def test_too_much(make: Make) -> None:
    """A manifest that grows without bound by its aliases is refused, not unfolded."""
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(6)
    )
    root = make()
    assert load_project(root).task("count")
    (root / "tasks/count/task.yaml").write_text(bomb)
    assert faults(root) == ["tasks/count/task.yaml:1: can't be used: more than 100000 values"]


@pytest.mark.parametrize(
    ("apps", "message"),
    [
        ("  - python: env.py:Counter\n    name: two words\n", "expected a name of letters"),
        ("  - python: env.py:Nothing\n", None),
    ],
)
def test_apps(make: Make, apps: str, message: str | None) -> None:
    """An app's name must be one; that its class is there shows when it is imported."""
    root = make({"environments/counter/environment.yaml": f"name: counter\napps:\n{apps}"})
    if message is not None:
        assert message in faults(root)[0]
        return
    task = load_project(root).task("count")
    with pytest.raises(ConfigError, match=r"there is no 'Nothing' in env\.py"):
        _ = task.task


def test_negative_weights_of_criteria(make: Make) -> None:
    """A criterion's weight is 0 or more."""
    text = f"name: reached\nkind: human\ninstructions: x\n{RUBRIC}"
    root = make({"verifiers/reached/verifier.yaml": text})
    assert load_project(root).task("count")
    (root / "verifiers/reached/verifier.yaml").write_text(text.replace("weight: 2", "weight: -2"))
    assert "criteria[0].weight: expected 0 or more, found -2" in faults(root)[0]


def test_closing_a_project(make: Make) -> None:
    """A closed project leaves none of its modules behind."""
    import sys

    project = load_project(make())
    before = set(sys.modules)
    assert project.task("count").task
    assert any("space" in name for name in set(sys.modules) - before)
    project.close()
    assert not any("space" in name for name in set(sys.modules) - before)
